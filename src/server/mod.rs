//! Sockets and bytes: a Unix socket in, JSON out; nothing here decides anything about memory.

mod completions;
mod exports;
mod forget;
mod gate;
mod http;
mod problem;
mod prompts;
mod runs;
mod schema;
mod socket;
mod unread;

pub use completions::{HowMuch, Known};
pub use gate::Gate;
pub use http::{bytes_within, check_operator, json_answer, object_of, router};
pub use schema::{openapi, tool_schemas};
pub use socket::{Bounds, Listening, PeerActor, adopt, bind, idle_for, serve, serve_within};
