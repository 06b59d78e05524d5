//! Threads of clients that send their whole history: where a conversation is known, and the place that an answer takes.

use serde::Deserialize;
use serde_json::{Value, json};

use super::db::{Binds, Ro, Rw};
use super::fault::Fault;
use super::query::{Query, query};
use vctx_core::limits::{THREAD_FOUND_MAX, THREAD_NEXT_MAX};
use vctx_core::memory::core::{Block, System};
use vctx_core::memory::message::Role;
use vctx_core::memory::thread::Place;
use vctx_core::policy::Scope;

/// Messages at some places.
pub(super) const FIND: Query = query!("thread_find");
/// An answer's place.
pub(super) const MARK: Query = query!("thread_mark");
/// Texts as they were.
pub(super) const VERSION_AT: Query = query!("version_at");

/// A message at one of the places that were asked for.
#[derive(Clone, Debug, Deserialize)]
pub struct ThreadRow {
    /// Which of the places.
    pub at: usize,
    /// Key of the agent.
    pub agent_id: String,
    /// Place on its number line.
    pub seq: u64,
    /// Key of the message.
    pub key: String,
    /// When it was appended.
    pub created_at: String,
    /// Revision of the agent's core.
    pub rev: String,
    /// Whether the core has that system text.
    pub same_system: bool,
    /// What follows in its thread.
    pub next: Vec<NextRow>,
}

/// A message that follows another one in its thread.
#[derive(Clone, Debug, Deserialize)]
pub struct NextRow {
    /// Digest of its place.
    pub thread: String,
    /// Place on the number line.
    pub seq: u64,
    /// Who speaks.
    pub role: Role,
    /// When it was appended.
    pub created_at: String,
}

/// Texts of a core as a copy kept them.
#[derive(Clone, Debug, Deserialize)]
pub struct Texts {
    /// Version that they were written with.
    pub version: u64,
    /// System text.
    pub system: System,
    /// Blocks.
    pub working_blocks: Vec<Block>,
}

/// Messages of a tenant at the given places; `agent_id` looks at one agent alone.
pub async fn threads(
    ro: &Ro,
    tenant: &str,
    agent_id: Option<&str>,
    threads: &[&str],
    system: &str,
) -> Result<Vec<ThreadRow>, Fault> {
    let place = |(at, thread): (usize, &&str)| json!({"at": at, "thread": thread});
    let places: Value = threads.iter().enumerate().map(place).collect();
    let binds = Binds::unscoped([
        ("tenant", tenant.into()),
        ("agent_id", json!(agent_id)),
        ("places", places),
        ("system", system.into()),
        ("limit", THREAD_FOUND_MAX.into()),
        ("next", THREAD_NEXT_MAX.into()),
    ]);
    ro.rows(FIND, binds).await
}

/// Gives an answer its place in a thread; one that has a place keeps it.
pub async fn mark_thread(rw: &Rw, scope: &Scope, seq: u64, place: &Place) -> Result<(), Fault> {
    let binds = Binds::of(
        scope,
        [
            ("seq", seq.into()),
            ("thread", place.thread.as_str().into()),
            ("follows", place.follows.as_str().into()),
            ("sync", rw.sync.into()),
        ],
    );
    rw.rows::<Value>(MARK, binds).await.map(|_| ())
}

/// The texts of a core that held before a moment.
pub async fn texts_before(ro: &Ro, scope: &Scope, moment: &str) -> Result<Option<Texts>, Fault> {
    let binds = Binds::of(scope, [("moment", moment.into())]);
    Ok(ro.rows::<Texts>(VERSION_AT, binds).await?.into_iter().next())
}
