//! The assembled window, of now or of a past prompt: pure functions of core and queue, with the receipt that proves what was in it.

mod biography;
mod fact;
mod replay;
mod window;

pub use biography::{Held, Lives, Span, held_by};
pub use fact::{Fact, Says};
pub use replay::{Differs, Gone, Replayed, Stored, replay};
pub use window::{Window, assemble};
