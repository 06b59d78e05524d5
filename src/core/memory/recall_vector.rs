//! Vectors of recall storage as they lie in the database: one for each passage of an entry, and a mark how far they are made.

use serde::{Deserialize, Serialize};

/// The document `recall_vectors/{id}-{passage}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecallVector {
    /// See [`vector_key`].
    #[serde(rename = "_key")]
    pub key: String,
    /// Key of the entry and of its message.
    pub id: String,
    /// Place of the message.
    pub seq: u64,
    /// Which passage of its text, from 0.
    pub passage: u64,
    /// First byte of the passage.
    pub start: u64,
    /// First byte behind it.
    pub end: u64,
    /// What the entry is; none in rows of earlier versions, whose entries tell.
    #[serde(flatten)]
    pub of: Option<VectorOf>,
    /// The vector.
    pub embedding: Vec<f64>,
    /// Digest of what made it.
    pub fingerprint: String,
}

/// What the entry is that a vector is of. Its conversation is its agent, its text is in the entry alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VectorOf {
    /// `message`, or `summary` of one that sums up what was said.
    pub source: String,
    /// Who spoke.
    pub role: String,
    /// When the entry was made, ISO 8601.
    pub created_at: String,
}

/// Key of the vector of one passage.
pub fn vector_key(id: &str, passage: usize) -> String {
    format!("{id}-{passage}")
}

/// The document `recall_marks/{agent}`: everything that was logged before is embedded, but for what the model refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecallMark {
    /// Digest of what made the vectors.
    pub fingerprint: String,
    /// When the last embedded entry was logged, in milliseconds; none before the first one that says so.
    pub logged_ms: Option<u64>,
    /// Passages with a vector, about: what was replaced is counted again.
    pub passages: u64,
    /// Entries that the model refused though it answered for others: they are found by words alone, and tried again after a while.
    pub refused: Vec<Refused>,
    /// When the model refused the last of them, in milliseconds.
    pub refused_ms: u64,
}

/// An entry that the model makes no vectors of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Its key.
    pub id: String,
    /// When it was logged, in milliseconds; none for entries of the first schema.
    pub logged_ms: Option<u64>,
}

impl RecallMark {
    /// Goes back to where the first of the refused entries was logged, once the last refusal is older than `pause_ms`: all of them are looked at
    /// again.
    pub fn try_again(&mut self, now_ms: u64, pause_ms: u64) {
        if self.refused.is_empty() || now_ms.saturating_sub(self.refused_ms) < pause_ms {
            return;
        }
        let first = self.refused.iter().map(|entry| entry.logged_ms).min().flatten();
        self.logged_ms = self.logged_ms.min(first);
        self.refused.clear();
    }
}

/// Who makes the vectors of an agent at the moment, in `recall_marks/{agent}` as `claim`: of two servers one, until it has not said so for
/// a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The server.
    pub by: String,
    /// Until when, in milliseconds since 1970.
    pub until_ms: u64,
}

/// A passage near to a question.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct NearPassage {
    /// Key of the entry and of its message.
    pub id: String,
    /// Place of the message.
    pub seq: u64,
    /// Which passage of its text.
    pub passage: u64,
    /// First byte of the passage.
    pub start: u64,
    /// First byte behind it.
    pub end: u64,
    /// Cosine between both.
    pub similarity: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_tried_again_after_a_pause_from_the_first_on() {
        let refused = |id: &str, logged_ms| Refused { id: id.into(), logged_ms };
        let mark = RecallMark {
            logged_ms: Some(900),
            refused: vec![refused("b", Some(700)), refused("a", Some(300))],
            refused_ms: 1_000,
            ..RecallMark::default()
        };
        let mut early = mark.clone();
        early.try_again(1_999, 1_000);
        assert_eq!(early, mark);
        let mut late = mark.clone();
        late.try_again(2_000, 1_000);
        assert_eq!((late.logged_ms, late.refused.len()), (Some(300), 0));
        let mut old = RecallMark { refused: vec![refused("a", None)], ..mark };
        old.try_again(2_000, 1_000);
        assert_eq!(
            old.logged_ms, None,
            "an entry of the first schema was logged before all others"
        );
        let mut none = RecallMark { logged_ms: Some(5), ..RecallMark::default() };
        none.try_again(2_000, 1_000);
        assert_eq!(none.logged_ms, Some(5));
    }
}
