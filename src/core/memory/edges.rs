//! Edges between the rows of a memory: from answers to cited chunks, and from summaries to the
//! summarized messages.

use serde::Serialize;
use serde_json::{Value, json};

use super::archive::{FoundPassage, Span, short};
use super::receipt::sha256;

/// An edge of `cites`, from an answer to a chunk that it cites.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cite {
    /// Hash of the edge's two ends, so that the database refuses a second edge between them.
    #[serde(rename = "_key")]
    pub key: String,
    /// Start of the edge, the message with the answer: `messages/{key}`.
    #[serde(rename = "_from")]
    pub from: String,
    /// End of the edge, the cited chunk: `archival_docs/{key}`.
    #[serde(rename = "_to")]
    pub to: String,
    /// Key of the agent.
    pub agent_id: String,
    /// Position of the answer in the agent's log.
    pub seq: u64,
    /// Id of the cited chunk's document.
    pub doc_id: String,
    /// Name of the cited chunk in the document.
    pub chunk_id: String,
    /// Range of the cited text in its document of the archive, in characters, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<Span>,
    /// Revision of the cited document when the answer was appended.
    pub revision: String,
    /// Digest of the cited passage; see [`cited_digest`].
    pub digest: String,
    /// When the answer was appended.
    pub created_at: String,
}

/// An edge of `derived_from`: from a summary to the summarized messages or to the previous summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SummaryEdge {
    /// Hash of the edge's two ends.
    #[serde(rename = "_key")]
    pub key: String,
    /// Start of the edge, the stored core version that contains the summary: `core_versions/{key}`.
    #[serde(rename = "_from")]
    pub from: String,
    /// End of the edge: `messages/{key}` of the first evicted message, or `core_versions/{key}` of
    /// the previous summary.
    #[serde(rename = "_to")]
    pub to: String,
    /// Key of the agent.
    pub agent_id: String,
    /// Revision of the summary.
    pub summary_rev: u64,
    /// Id of the eviction. One edge covers all messages of the eviction; the edges of these
    /// messages in `recall_log` contain this id.
    pub evicted_batch_id: String,
    /// Seq of the first evicted message.
    pub first_seq: u64,
    /// Seq of the last evicted message.
    pub last_seq: u64,
}

/// Returns the SHA-256, in hex, of a cited passage as a search shows it. The digest covers the
/// whole passage even if only a part of the passage is cited.
pub fn cited_digest(text: &str) -> String {
    sha256(text)
}

/// Returns the description of a cited chunk that an answer's message keeps in its `meta`. The
/// description remains after the removal of the document.
pub fn cited(passage: &FoundPassage) -> Value {
    let mut cited = json!({"id": format!("archival_docs/{}", passage.key), "doc_id": passage.doc_id,
        "chunk_id": passage.chunk_id, "revision": passage.revision, "digest": cited_digest(&passage.text)});
    if let Some(offset) = passage.offset {
        cited["offset"] = json!(offset);
    }
    cited
}

/// Returns the key of an edge, derived from its two ends.
pub fn joined_key(from: &str, to: &str) -> String {
    short(&format!("joined\0{from}\0{to}"))
}

/// Returns the key of a stored core version in `core_versions`.
pub fn version_key(agent_id: &str, version: u64) -> String {
    format!("{agent_id}:{version}")
}
