//! What a server does by itself, now and then: a runner, and one file for each job.

mod dead_chains;
mod runner;

pub use dead_chains::DeadChains;
pub use runner::{Job, Runner};
