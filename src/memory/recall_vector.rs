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

/// The document `recall_marks/{agent}`: everything that was logged before is embedded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecallMark {
    /// Digest of what made the vectors.
    pub fingerprint: String,
    /// When the last embedded entry was logged, in milliseconds; none before the first one that says so.
    pub logged_ms: Option<u64>,
    /// Passages with a vector, about: what was replaced is counted again.
    pub passages: u64,
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
