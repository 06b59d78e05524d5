//! Ranks entries of recall storage by a weighted sum of features of query and entry, and puts the
//! newer of two conflicting statements first.

mod days;
mod deep;
mod entry;
mod equal;
mod formula;
mod moment;
mod newer;
mod parts;
mod passage_match;
mod question;
mod related;
mod scorer;
mod word_vectors;
mod words;

pub use days::day_of;
pub(super) use deep::better_passage;
pub use entry::RecallEntry;
pub(super) use equal::repeated;
pub(super) use formula::PARTS;
pub use formula::{part_names, relevance};
pub(crate) use parts::{
    PartScore, near_known, part_scores, part_scores_of, turn_values, word_values,
};
pub(super) use question::without_names;
pub(crate) use question::{content_words, telling_words};
pub(crate) use related::words_held;
pub(super) use related::{AskedWord, TextWord};
pub use related::{held_words, related_words};
pub(super) use scorer::{RankInput, ranked};
pub(super) use word_vectors::Topic;
