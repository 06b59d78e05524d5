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
    /// The vector.
    pub embedding: Vec<f64>,
    /// Digest of what made it.
    pub fingerprint: String,
}

/// Key of the vector of one passage.
pub fn vector_key(id: &str, passage: usize) -> String {
    format!("{id}-{passage}")
}

/// The document `recall_marks/{agent}`: everything that was logged before is embedded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecallMark {
    /// Digest of what made the vectors.
    pub fingerprint: String,
    /// When the last embedded entry was logged, in milliseconds; none before the first one that says so.
    pub logged_ms: Option<u64>,
    /// Passages with a vector, about: what was replaced is counted again.
    pub passages: u64,
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
