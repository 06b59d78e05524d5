//! Lists the tainted messages and chunks of an agent.

use serde::Deserialize;

use super::db::{Ro, binds};
use super::fault::Result;
use super::query::queries;
use vctx_core::memory::archive::Parent;
use vctx_core::trust::Scope;

queries! {
    LIST = "quarantine_list",
}

/// A tainted message or chunk. A message lacks the fields of a chunk, and a chunk lacks the fields
/// of a message.
#[derive(Clone, Debug, Deserialize)]
pub struct TaintedItem {
    /// Id of the item in the graph of traces (`collection/key`).
    pub id: String,
    /// Document key of the item.
    pub key: String,
    /// Position of the message in the log.
    #[serde(default)]
    pub seq: Option<u64>,
    /// Role of the message's speaker.
    #[serde(default)]
    pub role: Option<String>,
    /// Kind of the message, such as an event or a copy.
    #[serde(default)]
    pub said: Option<String>,
    /// Document that contains the chunk.
    #[serde(default)]
    pub doc_id: Option<String>,
    /// Name of the chunk.
    #[serde(default)]
    pub chunk_id: Option<String>,
    /// The larger passage of the document, made of consecutive chunks, that contains the chunk.
    #[serde(default)]
    pub parent: Option<Parent>,
    /// Revision of the chunk's document.
    #[serde(default)]
    pub revision: Option<String>,
    /// When the message was appended, or when the chunk became current.
    pub created_at: String,
    /// Names of the rules that marked the text as tainted.
    pub rules: Vec<String>,
    /// Length of the item's text, in characters.
    pub chars: u64,
}

/// A page of tainted items, with at most the requested number of messages and of chunks.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct TaintedItems {
    /// Messages, in the order of their positions (`seq`).
    pub messages: Vec<TaintedItem>,
    /// Chunks, in the order of their keys.
    pub passages: Vec<TaintedItem>,
}

/// Returns the tainted messages after a position, and the tainted chunks after a key.
pub async fn tainted_items(
    ro: &Ro,
    scope: &Scope,
    seq: u64,
    key: &str,
    limit: u64,
) -> Result<TaintedItems> {
    Ok(ro.row(LIST, binds!(scope; seq, key, limit)).await?.unwrap_or_default())
}
