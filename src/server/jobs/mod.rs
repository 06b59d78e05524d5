//! What a server does by itself, now and then: a runner, and one file for each job.

mod dead_chains;
mod dead_runs;
mod forgettings;
mod recall_vectors;
mod reindex;
mod retention;
mod runner;
mod ticks;

pub use dead_chains::DeadChains;
pub use dead_runs::DeadRuns;
pub use forgettings::Forgettings;
pub use recall_vectors::RecallVectors;
pub use reindex::Reindex;
pub use retention::Expiry;
pub use runner::{Job, Runner};
pub use ticks::Ticks;
