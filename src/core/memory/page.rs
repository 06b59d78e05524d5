//! A stored result list that expires, so that its pages stay the same while the memory changes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Whole scores below this are written as whole numbers.
const WHOLE_MAX: f64 = 1e9;

/// The document `pages/{handle}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// Document key: 128 bits of chance in hex. Who does not know it cannot ask for the list.
    #[serde(rename = "_key")]
    pub handle: String,
    /// Whose list it is.
    pub agent_id: String,
    /// The tool that made it, and that alone goes on with it.
    pub tool: String,
    /// SHA-256 of what was asked, in hex.
    pub query_hash: String,
    /// Chance under the check of its tokens; never leaves the server.
    pub salt: String,
    /// The list, best first.
    pub items: Vec<PageItem>,
    /// When, ISO 8601.
    pub created_at: String,
    /// When it may go, in seconds since 1970 (the unit of a ttl index).
    pub expires_at: u64,
}

/// One result of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageItem {
    /// Key of what was found.
    pub id: String,
    /// Where in its text the page begins, in bytes; 0 for the whole.
    pub offset: u64,
    /// How well it matches, as it was answered first.
    pub score: f64,
    /// The parts of the score, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<f64>>,
    /// How like it is to the question, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f64>,
}

/// A score as a database gives it back: without a fraction where it has none, so that a replayed answer is the same text and costs
/// the same tokens.
pub fn plain(score: f64) -> Value {
    let whole = score.fract() == 0.0 && score.abs() < WHOLE_MAX;
    if whole { json!(score as i64) } else { json!(score) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_without_a_fraction_is_written_without_one() {
        for (score, text) in
            [(1.0, "1"), (-0.0, "0"), (0.25, "0.25"), (-3.0, "-3"), (2e9, "2000000000.0")]
        {
            assert_eq!(plain(score).to_string(), text);
        }
    }
}
