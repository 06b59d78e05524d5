//! The assembled window, of now or of a past prompt: pure functions of core and queue, with the receipt that proves what was in it.

mod replay;
mod window;

pub use replay::{Differs, Gone, Replayed, Stored, replay};
pub use window::{Window, assemble};
