//! Edges that join parts of a memory beside its log: what an answer cites, and what a summary was made of.

use serde::Serialize;
use serde_json::{Value, json};

use super::archive::{FoundPassage, Span, short};
use super::receipt::sha256;

/// An edge of `cites`: an answer rests on a chunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cite {
    /// Hash of both ends: a second one is refused.
    #[serde(rename = "_key")]
    pub key: String,
    /// `messages/{key}`.
    #[serde(rename = "_from")]
    pub from: String,
    /// `archival_docs/{key}`.
    #[serde(rename = "_to")]
    pub to: String,
    /// Whose it is.
    pub agent_id: String,
    /// Place of the answer.
    pub seq: u64,
    /// Document of the chunk.
    pub doc_id: String,
    /// Name of the chunk in it.
    pub chunk_id: String,
    /// Place of what was cited in the document's text, in characters, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<Span>,
    /// Revision of the document that the chunk was read under.
    pub revision: String,
    /// See [`cited_digest`].
    pub digest: String,
    /// When the answer was appended.
    pub created_at: String,
}

/// An edge of `derived_from`: a summary was made of the messages of a batch, or goes on from the summary before it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Folded {
    /// Hash of both ends.
    #[serde(rename = "_key")]
    pub key: String,
    /// `core_versions/{key}` of the summary.
    #[serde(rename = "_from")]
    pub from: String,
    /// `messages/{key}` of the first message of the batch, or `core_versions/{key}` of the summary before.
    #[serde(rename = "_to")]
    pub to: String,
    /// Whose it is.
    pub agent_id: String,
    /// Revision of the summary.
    pub summary_rev: u64,
    /// The eviction: one edge stands for all of its messages, which `recall_log` holds under the same id.
    pub evicted_batch_id: String,
    /// First seq that left.
    pub first_seq: u64,
    /// Last seq that left.
    pub last_seq: u64,
}

/// SHA-256 of a cited text, in hex: the text as a search shows it, which of a chunk that is a part of a larger piece is that piece.
pub fn cited_digest(text: &str) -> String {
    sha256(text)
}

/// What the `meta` of an answer keeps of a chunk that it cites, whatever becomes of the document.
pub fn cited(passage: &FoundPassage) -> Value {
    let mut cited = json!({"id": format!("archival_docs/{}", passage.key), "doc_id": passage.doc_id,
        "chunk_id": passage.chunk_id, "revision": passage.revision, "digest": cited_digest(&passage.text)});
    if let Some(offset) = passage.offset {
        cited["offset"] = json!(offset);
    }
    cited
}

/// Key of an edge, from both ends.
pub fn joined_key(from: &str, to: &str) -> String {
    short(&format!("joined\0{from}\0{to}"))
}

/// Key of the copy of a core's texts that a version of it leaves in `core_versions`.
pub fn version_key(agent_id: &str, version: u64) -> String {
    format!("{agent_id}:{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_an_edge_knows_its_direction() {
        assert_ne!(joined_key("a", "b"), joined_key("b", "a"));
        assert_eq!(joined_key("a", "b"), joined_key("a", "b"));
    }

    #[test]
    fn versions_of_agents_and_tenants_have_keys_of_their_own() {
        let keys = [version_key("ada", 12), version_key("ada:1", 2), version_key("ada", 2)];
        assert_eq!(keys, ["ada:12", "ada:1:2", "ada:2"]);
    }
}
