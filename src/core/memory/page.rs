//! A stored result list, whose pages do not change when the memory changes, and which expires.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A score without a fraction is written as an integer if its absolute value is below this number.
const WHOLE_MAX: f64 = 1e9;

/// The document `pages/{handle}`, which stores a result list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// Document key of the result list: 128 random bits in hex, unknown to other callers.
    #[serde(rename = "_key")]
    pub handle: String,
    /// Key of the agent.
    pub agent_id: String,
    /// The tool that created the result list; only this tool can continue the list.
    pub tool: String,
    /// SHA-256 of the query, in hex.
    pub query_hash: String,
    /// Random salt for the checksum in page tokens; no caller ever sees the salt.
    pub salt: String,
    /// The results of the search, best first.
    pub items: Vec<PageItem>,
    /// Time of the search, ISO 8601.
    pub created_at: String,
    /// Time when the result list expires, in seconds since 1970 (the unit of a TTL index).
    pub expires_at: u64,
}

/// One result of a stored result list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageItem {
    /// Key of the entry or chunk that is the result.
    pub id: String,
    /// Byte index at which the shown part of the result's text begins; 0 if the text is shown from
    /// its beginning.
    pub offset: u64,
    /// Score of the result in the first answer of the search.
    pub score: f64,
    /// The components of the result's score, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<f64>>,
    /// Similarity of the result to the query, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f64>,
}

/// Serializes a score. A whole number is written without a fraction, as the database returns it. A
/// repeated answer therefore has the same text and token cost as the first answer.
pub fn plain(score: f64) -> Value {
    let whole = score.fract() == 0.0 && score.abs() < WHOLE_MAX;
    if whole { json!(score as i64) } else { json!(score) }
}
