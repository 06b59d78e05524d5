//! Vectors of recall storage: one vector for each passage of an entry, and a mark in the agent's
//! log that shows up to which entry the vectors are computed.

use serde::{Deserialize, Serialize};

/// The document `recall_vectors/{id}-{passage}`, which contains the vector of one passage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecallVector {
    /// Key of the document; see [`vector_key`].
    #[serde(rename = "_key")]
    pub key: String,
    /// Key of the entry in recall storage, which is also the key of the entry's message.
    pub id: String,
    /// Position (seq) of the entry's message in the agent's log.
    pub seq: u64,
    /// Index of the passage in the entry, from 0.
    pub passage: u64,
    /// Start of the passage in the entry's text, in bytes.
    pub start: u64,
    /// End of the passage in the entry's text (exclusive), in bytes.
    pub end: u64,
    /// Speaker and time of the entry; `None` in rows that an earlier program version wrote.
    #[serde(flatten)]
    pub of: Option<VectorOf>,
    /// The vector of the passage.
    pub embedding: Vec<f64>,
    /// Fingerprint of the embedding model.
    pub fingerprint: String,
}

/// Speaker and time of an entry with a vector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VectorOf {
    /// Source of the entry: `message` or `summary`.
    pub source: String,
    /// Role of the entry's speaker.
    pub role: String,
    /// Time of the entry, ISO 8601.
    pub created_at: String,
}

/// Returns the document key of a passage's vector, from the entry's id and the passage's index.
pub fn vector_key(id: &str, passage: usize) -> String {
    format!("{id}-{passage}")
}

/// The document `recall_marks/{agent}`: all entries logged before this mark have vectors, except
/// refused entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecallMark {
    /// Fingerprint of the embedding model.
    pub fingerprint: String,
    /// Time when the newest entry with vectors was logged, in milliseconds; `None` if no such entry
    /// has a time.
    pub logged_ms: Option<u64>,
    /// Estimated number of passages with a vector; a passage whose vector was replaced counts
    /// twice.
    pub passages: u64,
    /// Entries that the embedding model refused while it accepted other entries; only a word search
    /// finds refused entries, and the server retries them later.
    pub refused: Vec<Refused>,
    /// Time of the model's last refusal of an entry, in milliseconds.
    pub refused_ms: u64,
}

/// An entry of recall storage that the embedding model refused, and that therefore has no vectors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Key of the refused entry.
    pub id: String,
    /// When the entry was logged, in milliseconds; `None` for entries that were stored under the
    /// database's first schema.
    pub logged_ms: Option<u64>,
}

impl RecallMark {
    /// Moves the mark back to the oldest refused entry if the last refusal is at least `pause_ms`
    /// ago, so that the server retries all refused entries.
    pub fn try_again(&mut self, now_ms: u64, pause_ms: u64) {
        if self.refused.is_empty() || now_ms.saturating_sub(self.refused_ms) < pause_ms {
            return;
        }
        let first = self.refused.iter().map(|entry| entry.logged_ms).min().flatten();
        self.logged_ms = self.logged_ms.min(first);
        self.refused.clear();
    }
}

/// A server's exclusive and temporary right to compute an agent's vectors, stored as `claim` in
/// `recall_marks/{agent}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Id of the server that holds the claim.
    pub by: String,
    /// End of the claim, in milliseconds since 1970.
    pub until_ms: u64,
}

/// A passage of recall storage whose vector is near the query's vector.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct NearPassage {
    /// Key of the passage's entry, which is also the key of the entry's message.
    pub id: String,
    /// Position of the passage's message.
    pub seq: u64,
    /// Index of the passage in the entry.
    pub passage: u64,
    /// Start of the passage in the entry's text, in bytes.
    pub start: u64,
    /// End of the passage in the entry's text (exclusive), in bytes.
    pub end: u64,
    /// Cosine similarity of passage and query.
    pub similarity: f64,
}
