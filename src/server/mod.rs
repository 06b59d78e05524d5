//! Sockets and bytes: a Unix socket in, JSON out; nothing here decides anything about memory.

mod completions;
mod gate;
mod http;
mod json;
mod problem;
mod prompts;
mod runs;
mod schema;
mod socket;

pub use gate::Gate;
pub use http::router;
pub use schema::{openapi, tool_schemas};
pub use socket::{Listening, PeerActor, bind, idle_for, serve};
