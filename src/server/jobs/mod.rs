//! The background jobs of a server: the runner, and one file for each job.

mod checkpoints;
mod forgettings;
mod recall_vectors;
mod refines;
mod reindex;
mod retention;
mod runner;
mod sweep;
mod ticks;
mod witness;

pub use checkpoints::Signing;
pub use forgettings::Forgettings;
pub use recall_vectors::RecallVectors;
pub use refines::SummaryRefines;
pub use reindex::Reindex;
pub use retention::Expiry;
pub use runner::{Job, Runner};
pub use sweep::Sweep;
pub use ticks::Ticks;
pub use witness::Witnessing;
