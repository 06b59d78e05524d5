//! What the score of an agent is counted from, and whether the tiers answer.

use serde::Deserialize;

use super::db::{Binds, Ro, Rw};
use super::fault::Fault;
use super::query::{Query, query};
use vctx_core::limits::{SCORE_EVENTS_MAX, SCORE_MESSAGES_MAX};
use vctx_core::memory::core::{Counters, Queue};
use vctx_core::memory::event::EventType;
use vctx_core::memory::message::Kind;
use vctx_core::policy::Scope;

/// Marks, counts and events of an agent.
pub(super) const SCORE: Query = query!("score_load");
/// The tier of the cores.
pub(super) const PROBE_CORE: Query = query!("core_probe");
/// The tier of recall storage.
pub(super) const PROBE_RECALL: Query = query!("recall_probe");
/// The tier of the archive.
pub(super) const PROBE_ARCHIVAL: Query = query!("archival_probe");

/// What a score needs of a core.
#[derive(Clone, Debug, Deserialize)]
pub struct Marks {
    /// Where the queue begins and ends.
    pub queue: Queue,
    /// What happened so far.
    pub counters: Counters,
    /// Number of writes.
    pub version: u64,
    /// When the agent was made.
    pub created_at: String,
}

/// Messages of one kind on one side of the queue's head.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct KindCount {
    /// The kind.
    pub kind: Kind,
    /// Whether they are behind the head.
    pub queued: bool,
    /// Whether their time is over by the policy of retention: they need no entry any more.
    pub expired: bool,
    /// How many.
    pub count: u64,
}

/// An event with the details that a score needs.
#[derive(Clone, Debug, Deserialize)]
pub struct EventRow {
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// When, in milliseconds since 1970.
    pub ms: u64,
    /// Numbers about it.
    pub details: serde_json::Map<String, serde_json::Value>,
}

/// What a score is counted from, seen at one moment.
#[derive(Clone, Debug, Deserialize)]
pub struct ScoreRows {
    /// Marks and counters; none if there is no such agent.
    pub core: Option<Marks>,
    /// First seq that was looked at.
    pub from_seq: u64,
    /// Messages from there on, by kind and place.
    pub kinds: Vec<KindCount>,
    /// Entries of recall storage from there on.
    pub logged: u64,
    /// Newest first, at most `SCORE_EVENTS_MAX`.
    pub events: Vec<EventRow>,
}

/// Loads what a score is counted from, in one trip. `kept_since`: before this, entries go by the policy of retention; empty: none does.
pub async fn load_score(
    ro: &Ro,
    scope: &Scope,
    kept_since: &str,
) -> Result<Option<ScoreRows>, Fault> {
    let binds = Binds::of(
        scope,
        [
            ("messages_max", SCORE_MESSAGES_MAX.into()),
            ("events_max", SCORE_EVENTS_MAX.into()),
            ("kept_since", kept_since.into()),
        ],
    );
    let rows: Vec<ScoreRows> = ro.rows(SCORE, binds).await?;
    Ok(rows.into_iter().next().filter(|row| row.core.is_some()))
}

/// Asks the tier of the cores, on both sockets, and whether it takes writes.
pub async fn probe_core(ro: &Ro, rw: &Rw) -> Result<(), Fault> {
    ro.rows::<String>(PROBE_CORE, Binds::unscoped([])).await?;
    rw.rows::<String>(PROBE_CORE, Binds::unscoped([])).await?;
    rw.takes_writes().await
}

/// Asks the tier of recall storage.
pub async fn probe_recall(ro: &Ro) -> Result<(), Fault> {
    ro.rows::<String>(PROBE_RECALL, Binds::unscoped([])).await.map(|_| ())
}

/// Asks the tier of the archive.
pub async fn probe_archival(ro: &Ro) -> Result<(), Fault> {
    ro.rows::<String>(PROBE_ARCHIVAL, Binds::unscoped([])).await.map(|_| ())
}
