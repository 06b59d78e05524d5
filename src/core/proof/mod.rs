//! Evidence about the past of an agent: replays past prompts byte by byte, and builds the history
//! of a fact.

mod biography;
mod fact;
mod replay;

pub use biography::{Lives, PackWithFact, PresenceRange, Span, pack_with_fact, presence_ranges};
pub use fact::{Fact, Says};
pub use replay::{Differs, Replayed, Stored, replay};
