//! Computes the Conveyance score of a session, and lists every count that enters the score.

mod advice;
mod events;
mod formula;
mod inputs;
mod report;
mod times;

pub use advice::advice;
pub use events::{Noted, Tallied, session_start, tally};
pub use formula::{ALPHA, Score, TIME_FLOOR, Term, Terms, score};
pub use inputs::{Inputs, Path, PathTime, Places, Ratio, Tier, Why};
pub use report::{Considered, report};
pub use times::Times;
