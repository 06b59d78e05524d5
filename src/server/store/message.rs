//! Loads messages: an agent's queue, and pages of its whole log.

use serde::Deserialize;
use serde_json::Value;

use super::db::{Ro, binds};
use super::fault::Result;
use super::query::queries;
use vctx_core::memory::message::Message;
use vctx_core::trust::Scope;

queries! {
    QUEUE = "message_queue",
    LIST = "message_list",
    OF_SESSION = "message_session",
    SESSIONS = "session_list",
}

/// A message, with the id of the eviction that moved the message to recall storage, if any.
#[derive(Clone, Debug, Deserialize)]
pub struct Listed {
    /// The message itself.
    pub message: Message,
    /// Whether the message is an entry, which means that recall storage has an edge to the message.
    pub logged: bool,
    /// Id of the eviction that wrote this edge; `None` if the edge was written by `write_recall` or
    /// for a spooled result, or if there is no edge.
    pub evicted_batch_id: Option<String>,
}

/// Returns messages from the given position on, oldest first.
pub async fn queue(ro: &Ro, scope: &Scope, head_seq: u64, limit: u64) -> Result<Vec<Message>> {
    ro.rows(QUEUE, binds!(scope; head_seq, limit)).await
}

/// Returns a page of an agent's message log, or of one session of it.
pub async fn page(
    ro: &Ro,
    scope: &Scope,
    session: Option<&str>,
    from_seq: u64,
    limit: u64,
) -> Result<Vec<Listed>> {
    match session {
        Some(session) => ro.rows(OF_SESSION, binds!(scope; session, from_seq, limit)).await,
        None => ro.rows(LIST, binds!(scope; from_seq, limit)).await,
    }
}

/// Returns a page of an agent's sessions by name, after the given name.
pub async fn sessions(ro: &Ro, scope: &Scope, after: &str, limit: u64) -> Result<Vec<Value>> {
    ro.rows(SESSIONS, binds!(scope; after, limit)).await
}
