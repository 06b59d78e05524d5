//! Stores conversation threads of clients that send their whole history: finds the messages of such
//! a history that are already stored, and stores the thread positions of models' answers.

use serde::Deserialize;
use serde_json::{Value, json};

use super::beside::{Beside, beside};
use super::core::StoredVersions;
use super::db::{Ro, Rw, binds};
use super::fault::Result;
use super::query::queries;
use vctx_core::memory::conversation::ThreadPosition;
use vctx_core::memory::core::{Block, System};
use vctx_core::memory::message::Role;
use vctx_core::trust::Scope;

/// Maximum number of messages that one query finds; several agents may have a message at the same
/// position of a thread.
const THREAD_FOUND_MAX: u64 = 16;
/// Maximum number of later messages of the thread that are returned with each found message.
const THREAD_NEXT_MAX: u64 = 16;

queries! {
    FIND = "thread_find",
    MARK = "thread_mark",
    VERSION_AT = "version_at",
}

/// A message found at one of the requested thread positions.
#[derive(Clone, Debug, Deserialize)]
pub struct ThreadRow {
    /// Index of this thread position in the request's list of positions.
    pub at: usize,
    /// Key of the agent's core.
    pub agent_id: String,
    /// Position of the message in the agent's log.
    pub seq: u64,
    /// Key of the message.
    pub key: String,
    /// When the message was appended.
    pub created_at: String,
    /// Revision of the agent's core.
    pub rev: String,
    /// Whether the agent's system text equals the system text in the request.
    pub same_system: bool,
    /// Messages that follow this one in the thread.
    pub next: Vec<NextRow>,
}

/// A message that follows another message in its thread.
#[derive(Clone, Debug, Deserialize)]
pub struct NextRow {
    /// Digest of the message's position in the thread.
    pub thread: String,
    /// Position of the message in the agent's log.
    pub seq: u64,
    /// Role of the speaker.
    pub role: Role,
    /// When the message was appended.
    pub created_at: String,
}

/// Texts of one version of a core.
#[derive(Clone, Debug, Deserialize)]
pub struct Texts {
    /// Number of the version.
    pub version: u64,
    /// System text of the core.
    pub system: System,
    /// Blocks of the core.
    pub working_blocks: Vec<Block>,
}

/// Returns the messages at the given thread positions. Searches all agents of the tenant, or only
/// the agent `agent_id`.
pub async fn threads(
    ro: &Ro,
    tenant: &str,
    agent_id: Option<&str>,
    threads: &[&str],
    system: &str,
) -> Result<Vec<ThreadRow>> {
    let place = |(at, thread): (usize, &&str)| json!({"at": at, "thread": thread});
    let places: Value = threads.iter().enumerate().map(place).collect();
    let binds = binds!(none;
        tenant, agent_id, places, system, limit = THREAD_FOUND_MAX, next = THREAD_NEXT_MAX
    );
    ro.rows(FIND, binds).await
}

/// Stores the thread position of a model's answer, unless the answer has one already.
pub async fn mark_thread(rw: &Rw, scope: &Scope, seq: u64, place: &ThreadPosition) -> Result<()> {
    let binds = binds!(scope; seq, thread = place.thread, follows = place.follows, sync = rw.sync);
    let work = Beside { what: "thread", writes: &["messages"], query: MARK, binds };
    beside(rw, scope, work, |rows, written| written.touched(rows)).await
}

/// Returns the texts of a core that were current just before `moment`.
pub async fn texts_before(ro: &Ro, scope: &Scope, moment: &str) -> Result<Option<Texts>> {
    let found = ro.row::<StoredVersions>(VERSION_AT, binds!(scope; moment)).await?;
    Ok(found.unwrap_or_default().typed()?.pop())
}
