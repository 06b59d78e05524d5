//! The bridge between deciding and doing: admit, load, think, ask, apply, reply.

mod answer;
mod archive_index;
mod cache;
mod cells;
mod cutting;
mod embedding;
mod envelope;
mod executor;
mod export;
mod figures;
mod forget;
mod heartbeat;
mod import;
mod measures;
mod moving;
mod parts;
mod prompt;
mod quarantine;
mod read;
mod recall;
mod recall_vectors;
mod refusals;
mod reindex;
mod reindex_work;
mod request;
mod retention;
mod run;
mod runs;
mod schedule;
mod score;
mod summary;
mod threads;
mod trace;
mod turns;
mod why;

pub use archive_index::ArchiveSettings;
pub use executor::Executor;
pub use export::Exported;
pub use heartbeat::DeadChain;
pub use import::Incoming;
pub use moving::Carried;
pub use prompt::{Ask, ExpiredRun, Prompted};
pub use recall_vectors::Embedded;
pub use reindex_work::Reindexed;
pub use request::{CallRequest, Guard, Reply};
pub use score::Span;

pub use crate::store::{
    CutRun, DueMove, DueTick, Found, Located, Move, MoveBegun, MoveLook, MovePhase,
};
pub use threads::Placed;
