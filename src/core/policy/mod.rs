//! Decisions: who may touch what, what fits, what is pinned, what leaves the queue; values in, values out.

mod admit;
mod budget;
mod cells;
mod draft;
mod edges;
mod evict;
mod forget;
mod fusion;
mod heartbeat;
mod nearest;
mod notices;
mod page;
mod passage;
mod pins;
mod proposal;
mod question;
mod rank;
mod recall;
mod recall_near;
mod reconcile;
mod retention;
mod spool;
mod staleness;
mod taint;
mod trace;
pub mod turn;
mod worded;
mod wording;

pub use admit::{Actor, Principal, Scope, admit, check_name};
pub use budget::{
    OLD_SUMMARY_PERCENT, Pressure, Tokens, budget_for, pressure, summary_tokens_max,
    summary_tokens_min, tokens,
};
pub use cells::{
    Measured, RECALL_WANTED, is_due, is_outgrown, ladder, lists_for, questions, recall,
};
pub use draft::{Draft, Finish, Flush, Promoted, Promotion, PromptOutcome, Surroundings, part_of};
pub use edges::Order;
pub use evict::{Bounds, Item, Plan, plan};
pub use forget::{
    CallPlace, ForgetAsked, ForgetFound, ForgetLook, FoundMessage, StandingMessage, paired_with,
};
pub use fusion::{Fusion, Parts, Ranked, WordRow, Worded, ranked};
pub use heartbeat::{
    Intent, Outcome, beat, bury, check_limits, interrupt, repeated, report, retune,
};
pub use nearest::{
    Conditions, Looked, Near, NearRows, Nearest, Plan as NearPlan, first_plan, wider_plan,
};
pub use page::{PageToken, page_token};
pub use passage::passages;
pub use pins::{check_pins, pinned_tokens_max};
pub use proposal::proposals;
pub use question::{
    Answers, ArchiveAnswer, Dated, DatedFound, Gathered, Line, PartGiven, Question, ScheduleSeen,
    SummaryAnswer, Upload, VectorsAnswer,
};
pub use rank::{Spoken, part_names};
pub use recall::{
    CopyOf, Entries, Found, Hit, PairOf, RecallFilter, RecallMode, RecallQuery, RecallSettings,
    Recent, Sources, ViewHit, listed, thousandths,
};
pub use recall_near::{RecallNear, RecallPlan};
pub use reconcile::{PAR_PERMILLE, factor_permille, safe_estimate};
pub use retention::{Due, DueMessage, DueVersion, OldPlace, Retention};
pub use spool::preview;
pub use staleness::{Depends, changed_since};
pub use taint::{
    RULES, Rule, Scanned, TaintMode, TaintSettings, Untrusted, chunk_place, from_outside,
    released_name, rules_of, scan,
};
pub use trace::{Follow, Place, Reached, TraceQuery, Traced, Vertex, nothing_to_trace};
pub use worded::{Words, words_of_question};
pub use wording::{TEXT, Wording};
