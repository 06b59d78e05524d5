//! Loads the rows for an agent's score, and probes the storage tiers.

use serde::Deserialize;

use super::db::{Ro, Rw, binds};
use super::fault::Result;
use super::query::queries;
use crate::limits::SCORE_EVENTS_MAX;
use vctx_core::memory::core::{Counters, Queue};
use vctx_core::memory::event::EventType;
use vctx_core::memory::message::Kind;
use vctx_core::trust::Scope;

/// Number of an agent's newest messages that a score counts; `vctx verify` checks all messages.
const SCORE_MESSAGES_MAX: u64 = 20_000;

queries! {
    SCORE = "score_load",
    PROBE_CORE = "core_probe",
    PROBE_RECALL = "recall_probe",
    PROBE_ARCHIVAL = "archival_probe",
}

/// The fields of a core that a score needs.
#[derive(Clone, Debug, Deserialize)]
pub struct Marks {
    /// Beginning and end of the queue.
    pub queue: Queue,
    /// Counters over the agent's whole life.
    pub counters: Counters,
    /// Number of writes to the core.
    pub version: u64,
    /// When the agent was created.
    pub created_at: String,
}

/// Number of messages of one kind: either those before the beginning of the queue, or those in it.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct KindCount {
    /// Kind of the messages.
    pub kind: Kind,
    /// Whether the messages are at or after the beginning of the queue.
    pub queued: bool,
    /// Whether the messages are older than the retention policy allows, so that they need no entry
    /// in recall storage.
    pub expired: bool,
    /// Number of messages.
    pub count: u64,
}

/// An event with those details that a score needs.
#[derive(Clone, Debug, Deserialize)]
pub struct EventRow {
    /// Type of the event.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// Time of the event, in milliseconds since 1970.
    pub ms: u64,
    /// Details of the event, by name.
    pub details: serde_json::Map<String, serde_json::Value>,
}

/// The rows that a score counts, read from one snapshot.
#[derive(Clone, Debug, Deserialize)]
pub struct ScoreRows {
    /// The core's fields that the score needs; `None` if there is no such agent.
    pub core: Option<Marks>,
    /// Position of the first message that `kinds` and `logged` count.
    pub from_seq: u64,
    /// How many messages there are from `from_seq` on, by kind and by whether they are in the
    /// queue.
    pub kinds: Vec<KindCount>,
    /// Number of recall storage entries from `from_seq` on.
    pub logged: u64,
    /// The newest events, at most `SCORE_EVENTS_MAX`, newest first.
    pub events: Vec<EventRow>,
}

/// Loads the rows of a score in one request. Does not count entries older than `kept_since`, which
/// the retention policy removes; an empty text means no limit.
pub async fn load_score(ro: &Ro, scope: &Scope, kept_since: &str) -> Result<Option<ScoreRows>> {
    let binds = binds!(scope;
        messages_max = SCORE_MESSAGES_MAX, events_max = SCORE_EVENTS_MAX, kept_since
    );
    Ok(ro.row::<ScoreRows>(SCORE, binds).await?.filter(|row| row.core.is_some()))
}

/// Probes the core tier on both sockets, and checks that the database accepts writes.
pub async fn probe_core(ro: &Ro, rw: &Rw) -> Result<()> {
    ro.rows::<String>(PROBE_CORE, binds!(none;)).await?;
    rw.rows::<String>(PROBE_CORE, binds!(none;)).await?;
    rw.takes_writes().await
}

/// Probes the recall storage tier.
pub async fn probe_recall(ro: &Ro) -> Result<()> {
    ro.rows::<String>(PROBE_RECALL, binds!(none;)).await.map(|_| ())
}

/// Probes the archive tier.
pub async fn probe_archival(ro: &Ro) -> Result<()> {
    ro.rows::<String>(PROBE_ARCHIVAL, binds!(none;)).await.map(|_| ())
}
