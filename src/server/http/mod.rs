//! The HTTP API: one row in `routes.rs` and one handler for each route.
//!
//! Decisions about memories are made in `vctx_core`.

mod agents;
mod answers;
mod body;
mod caller;
mod changes;
mod described;
mod envelope;
mod exports;
mod forget;
mod gate;
mod openai;
mod openapi;
mod operator;
mod problem;
mod prompts;
mod query;
mod reply;
mod route;
mod routes;
mod runs;
mod weights;

pub use body::{bytes_within, held_object_of, object_of};
pub use caller::check_operator;
pub use envelope::envelope;
pub use gate::Gate;
pub use openai::{CountKnown, KnownMessages};
pub use openapi::openapi;
pub use operator::tool_schemas;
pub use problem::IntoProblem;
pub use query::Query;
pub use reply::json_answer;
pub use routes::router;
