//! The bridge between deciding and doing: admit, load, think, ask, apply, reply.

mod answer;
mod archive_index;
mod cache;
mod envelope;
mod read;
mod request;
mod run;
mod turns;

pub use archive_index::ArchiveSettings;
pub use request::{CallRequest, Guard, Reply};
pub use run::Executor;
