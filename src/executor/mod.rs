//! The bridge between deciding and doing: admit, load, think, ask, apply, reply.

mod answer;
mod cache;
mod envelope;
mod heartbeat;
mod measures;
mod read;
mod request;
mod run;
mod score;
mod turns;

pub use heartbeat::DeadChain;
pub use request::{CallRequest, Guard, Reply};
pub use run::Executor;
pub use score::Span;
