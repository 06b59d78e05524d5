//! Messages: the queue, and the pages of everything ever appended.

use serde::Deserialize;

use super::db::{Binds, Ro};
use super::fault::Fault;
use super::query::{Query, query};
use vctx_core::memory::message::Message;
use vctx_core::policy::Scope;

/// Messages from a place on.
pub(super) const QUEUE: Query = query!("message_queue");
/// A page of messages with their edges.
pub(super) const LIST: Query = query!("message_list");

/// A message and the eviction that logged it.
#[derive(Clone, Debug, Deserialize)]
pub struct Listed {
    /// The message.
    pub message: Message,
    /// Whether recall storage has an edge to it.
    pub logged: bool,
    /// The eviction that wrote the edge; none for direct writes.
    pub evicted_batch_id: Option<String>,
}

/// Messages from a place on the number line on, oldest first.
pub async fn queue(
    ro: &Ro,
    scope: &Scope,
    head_seq: u64,
    limit: u64,
) -> Result<Vec<Message>, Fault> {
    ro.rows(QUEUE, Binds::of(scope, [("head_seq", head_seq.into()), ("limit", limit.into())])).await
}

/// A page of everything ever appended.
pub async fn page(ro: &Ro, scope: &Scope, from_seq: u64, limit: u64) -> Result<Vec<Listed>, Fault> {
    ro.rows(LIST, Binds::of(scope, [("from_seq", from_seq.into()), ("limit", limit.into())])).await
}
