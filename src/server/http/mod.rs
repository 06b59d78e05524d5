//! Sockets and bytes: a Unix socket in, JSON out; nothing here decides anything about memory.

mod exports;
mod forget;
mod gate;
mod http;
mod openai;
mod problem;
mod prompts;
mod runs;
mod schema;

pub use gate::Gate;
pub use http::{bytes_within, check_operator, json_answer, object_of, router};
pub use openai::{HowMuch, Known};
pub use problem::IntoProblem;
pub use schema::{openapi, tool_schemas};
