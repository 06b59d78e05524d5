//! The executor: admits a call, loads the core, runs the decision steps of `vctx_core`, answers
//! their questions, writes the change and replies.

mod answer;
mod archive_index;
mod cache;
mod call;
mod cells;
mod checked;
mod cutting;
mod embedding;
mod envelope;
mod executor;
mod export;
mod figures;
mod forget;
mod forget_borders;
mod forget_preview;
mod forget_whole;
mod heartbeat;
mod import;
mod kernel;
mod ledger;
mod ledger_gone;
mod limits;
mod measures;
mod moving;
mod outbound;
mod paged;
mod parts;
mod prompt;
mod quarantine;
mod quota;
mod read;
mod recall;
mod recall_vectors;
mod refine;
mod refusals;
mod reindex;
mod reindex_work;
mod request;
mod retention;
mod run;
mod runs;
mod schedule;
mod score;
mod signing;
mod steps;
mod summary;
mod threads;
mod trace;
mod turns;
mod why;
mod working_file;

pub use archive_index::ArchiveSettings;
pub use executor::Executor;
pub use export::{Exported, Transfers};
pub use import::Incoming;
pub(crate) use kernel::no_agent;
pub use limits::ALL as LIMITS;
pub use moving::Carried;
pub(crate) use moving::superseded;
pub use prompt::{Ask, Prompted};
pub(crate) use read::{AGENTS_PAGE, EVENTS_PAGE, MESSAGES_PAGE};
pub use recall_vectors::Embedded;
pub use refine::DueRefine;
pub use reindex::Reindex;
pub use reindex_work::Reindexed;
pub use request::{CallRequest, Guard, Reply};
pub use score::{ConveyanceSettings, Scores, Span};

pub use crate::store::{
    AgentLocation, CutRun, DueMove, DueTick, Located, Move, MoveBegun, MoveLook, MovePhase,
};
pub use threads::Placed;
