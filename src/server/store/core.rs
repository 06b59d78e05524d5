//! Cores: loading one with a call's earlier answer, making one, listing a tenant's, loading a whole window.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::change::kept_of;
use super::db::{Binds, Ro, Rw};
use super::fault::{Fault, FaultKind};
use super::query::{Query, query};
use vctx_core::memory::core::Core;
use vctx_core::memory::event::Event;
use vctx_core::memory::forget::tombstone_key;
use vctx_core::memory::message::Message;
use vctx_core::policy::Scope;

/// A core and the record of a key.
pub(super) const LOAD: Query = query!("core_load");
/// A new agent.
pub(super) const CREATE: Query = query!("core_create");
/// The agents of a tenant.
pub(super) const LIST: Query = query!("core_list");
/// A core and its queue.
pub(super) const CONTEXT: Query = query!("context_load");
/// An event of its own.
pub(super) const NOTE: Query = query!("event_write");
/// A page of events.
pub(super) const EVENTS: Query = query!("event_list");

/// A page of copies of texts.
pub(super) const VERSIONS: Query = query!("version_list");
/// Chains that outlived their cap.
pub(super) const DEAD_CHAINS: Query = query!("core_dead_chains");

/// A chain of heartbeats that outlived its cap.
#[derive(Clone, Debug, Deserialize)]
pub struct DeadChain {
    /// Key of the core.
    pub key: String,
    /// Tenant of the agent.
    pub tenant: String,
    /// Id of the chain.
    pub chain: String,
}

/// The record of an earlier call under the same key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// Hash of what that call asked.
    pub request_hash: String,
    /// What it was answered.
    pub response: Value,
}

/// A core and, if the key is known, the earlier call.
#[derive(Clone, Debug, Deserialize)]
pub struct Loaded {
    /// The core; none if there is no such agent.
    pub core: Option<Core>,
    /// The earlier call.
    pub replay: Option<Replay>,
}

/// Loads a core and looks a key up, in one trip.
pub async fn load(ro: &Ro, scope: &Scope, replay_key: &str) -> Result<Loaded, Fault> {
    let binds = Binds::of(scope, [("replay_key", replay_key.into())]);
    let rows: Vec<Loaded> = ro.rows(LOAD, binds).await?;
    Ok(rows.into_iter().next().unwrap_or(Loaded { core: None, replay: None }))
}

/// What became of an agent that was to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is there now, in this revision.
    Made(String),
    /// There is one of that name.
    Taken,
    /// There was one, which was forgotten whole.
    Forgotten,
    /// The directory, or a departure from here, knows it in another place.
    Elsewhere,
}

/// Makes an agent, unless there is or was one of that name.
pub async fn create(
    rw: &Rw,
    scope: &Scope,
    core: &Core,
    event: &Event,
    place: &str,
) -> Result<Created, Fault> {
    #[derive(Deserialize)]
    struct Row {
        #[serde(rename = "_rev")]
        rev: Option<String>,
        forgotten: bool,
        elsewhere: bool,
    }
    let binds = Binds::of(
        scope,
        [
            ("core", json!(core)),
            ("kept", kept_of(core)),
            ("event", json!(event)),
            ("tombstone", tombstone_key(scope.key()).into()),
            ("place", place.into()),
            ("sync", rw.sync.into()),
        ],
    );
    match rw.rows::<Row>(CREATE, binds).await {
        Ok(rows) => match rows.into_iter().next() {
            Some(Row { rev: Some(rev), .. }) => Ok(Created::Made(rev)),
            Some(Row { forgotten: true, .. }) => Ok(Created::Forgotten),
            Some(Row { elsewhere: true, .. }) => Ok(Created::Elsewhere),
            _ => Err(Fault::new(FaultKind::Garbage, "core_create made nothing and says not why")),
        },
        Err(fault) if fault.taken() => Ok(Created::Taken),
        Err(fault) => Err(fault),
    }
}

/// The agents of a tenant.
pub async fn list(ro: &Ro, tenant: &str, limit: u64) -> Result<Vec<Value>, Fault> {
    ro.rows(LIST, Binds::unscoped([("tenant", tenant.into()), ("limit", limit.into())])).await
}

/// Chains whose deadline is before a moment of server time, the oldest first.
pub async fn dead_chains(ro: &Ro, now_ms: u64, limit: u64) -> Result<Vec<DeadChain>, Fault> {
    let binds = Binds::unscoped([("now_ms", now_ms.into()), ("limit", limit.into())]);
    ro.rows(DEAD_CHAINS, binds).await
}

/// A page of an agent's events, oldest first, from a moment on.
pub async fn events(
    ro: &Ro,
    scope: &Scope,
    from_ts: &str,
    limit: u64,
) -> Result<Vec<Value>, Fault> {
    ro.rows(EVENTS, Binds::of(scope, [("from_ts", from_ts.into()), ("limit", limit.into())])).await
}

/// A page of copies of an agent's texts, oldest first, from a version on.
pub async fn versions(
    ro: &Ro,
    scope: &Scope,
    from_version: u64,
    limit: u64,
) -> Result<Vec<Value>, Fault> {
    let binds = [("from_version", from_version.into()), ("limit", limit.into())];
    ro.rows(VERSIONS, Binds::of(scope, binds)).await
}

/// A core and its queue, seen at one moment.
pub async fn load_context(
    ro: &Ro,
    scope: &Scope,
    limit: u64,
) -> Result<Option<(Core, Vec<Message>)>, Fault> {
    #[derive(Deserialize)]
    struct Row {
        core: Core,
        queue: Vec<Message>,
    }
    let rows: Vec<Row> = ro.rows(CONTEXT, Binds::of(scope, [("limit", limit.into())])).await?;
    Ok(rows.into_iter().next().map(|row| (row.core, row.queue)))
}

/// Writes an event that belongs to no change.
pub async fn note(rw: &Rw, scope: &Scope, event: &Event) -> Result<(), Fault> {
    let binds = Binds::of(scope, [("event", json!(event)), ("sync", rw.sync.into())]);
    rw.rows::<Value>(NOTE, binds).await.map(|_| ())
}
