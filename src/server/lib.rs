//! The server of vctx: answers calls, stores memories in ArangoDB, asks models and runs background
//! jobs.

pub mod agent_loop;
pub mod checkpoints;
pub mod checks;
pub mod databases;
pub mod doctor;
pub mod executor;
pub mod http;
pub mod jobs;
mod limits;
pub mod models;
pub mod store;
pub mod witness;

pub use limits::ALL as LIMITS;
