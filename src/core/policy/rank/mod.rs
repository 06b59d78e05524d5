//! How entries of recall storage are ordered: what a question asks, what an entry says, one linear formula, the newer before the stale.

mod asked;
mod days;
mod deep;
mod formula;
mod moment;
mod newer;
mod passage_match;
mod scorer;
mod spoken;
mod words;

pub(super) use asked::{content_words, without_names};
pub(super) use deep::better_passage;
pub(super) use formula::PARTS;
pub use formula::part_names;
pub(super) use scorer::{Material, ranked};
pub use spoken::Spoken;
