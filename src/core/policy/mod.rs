//! Makes the decisions about the window and the memory: what fits, what is pinned, and what is
//! evicted, kept or forgotten.

mod draft;
mod forget;
mod heartbeat;
mod limits;
mod question;
mod reconcile;
mod retention;
mod spool;
mod stages;
mod staleness;
mod stamp;
mod step;
mod summary;
pub mod turn;
mod wording;

pub use draft::{
    DEGRADED, Draft, Flush, Promotion, PromptContext, PromptOutcome, Surroundings, found_by_search,
    part_of, time_of_message,
};
pub use forget::{
    CallPlace, ForgetAsked, ForgetFound, ForgetLook, ForgetPreview, FoundMessage, StandingMessage,
    paired_with,
};
pub use heartbeat::{
    BeatResult, Intent, beat, bury, check_limits, interrupt, repeated, report, retune, spare_yield,
};
pub use limits::ALL as LIMITS;
pub use question::{
    Answers, ArchiveAnswer, Dated, DatedFound, Gathered, Line, PartGiven, Question, ScheduleSeen,
    SummaryAnswer, SummaryWriter, Upload, VectorsAnswer,
};
pub use reconcile::{PAR_PERMILLE, factor_permille, safe_estimate};
pub use retention::{Due, DueMessage, DueVersion, OldPlace, Retention};
pub use spool::preview;
pub use stages::{Stage, Stages, Unobserved};
pub use staleness::{Depends, changed_since};
pub use step::{Ctx, Step, Stop};
pub use summary::SummarySettings;
pub use wording::{TEXT, Wording};
