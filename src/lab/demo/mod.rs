//! `vctx demo`: a long conversation through a small window, with two kills on the way and the proof at the end.

mod command;
mod input;
mod metrics;
mod picture;
mod planted;
mod play;
mod proof;
mod score;
mod stage;

pub use command::{Demo, interruption, run};
pub use score::Score;
pub use stage::{Role, Stage};
