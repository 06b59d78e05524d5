//! The list of tainted messages and chunks of an agent.

use serde::Deserialize;

use super::db::{Binds, Ro};
use super::fault::Fault;
use super::query::{Query, query};
use vctx_core::memory::archive::Parent;
use vctx_core::policy::Scope;

/// The list.
pub(super) const LIST: Query = query!("quarantine_list");

/// A tainted item as the list shows it; what an item of its kind does not have is absent.
#[derive(Clone, Debug, Deserialize)]
pub struct TaintedItem {
    /// Its id in the graph.
    pub id: String,
    /// Its document key.
    pub key: String,
    /// Place of a message.
    #[serde(default)]
    pub seq: Option<u64>,
    /// Who said it.
    #[serde(default)]
    pub role: Option<String>,
    /// What the message is to the queue.
    #[serde(default)]
    pub said: Option<String>,
    /// Document of a chunk.
    #[serde(default)]
    pub doc_id: Option<String>,
    /// Name of a chunk.
    #[serde(default)]
    pub chunk_id: Option<String>,
    /// The larger piece that a chunk is a part of.
    #[serde(default)]
    pub parent: Option<Parent>,
    /// Revision of a chunk's document.
    #[serde(default)]
    pub revision: Option<String>,
    /// When it was appended, or current.
    pub created_at: String,
    /// The rules that it was marked with.
    pub rules: Vec<String>,
    /// Characters of its text.
    pub chars: u64,
}

/// Tainted items behind a place, each list as long as was asked for at most.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct TaintedItems {
    /// Messages, by seq.
    pub messages: Vec<TaintedItem>,
    /// Chunks, by key.
    pub passages: Vec<TaintedItem>,
}

/// Tainted messages behind a seq, and tainted chunks behind a key.
pub async fn tainted_items(
    ro: &Ro,
    scope: &Scope,
    seq: u64,
    key: &str,
    limit: u64,
) -> Result<TaintedItems, Fault> {
    let binds =
        Binds::of(scope, [("seq", seq.into()), ("key", key.into()), ("limit", limit.into())]);
    Ok(ro.rows(LIST, binds).await?.into_iter().next().unwrap_or_default())
}
