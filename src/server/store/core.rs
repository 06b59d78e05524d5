//! Stores cores: creates them, lists those of a tenant, and loads a core together with either the
//! stored answer of an earlier call or the queue.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::change::kept_of;
use super::db::{Ro, Rw, binds};
use super::fault::{Fault, FaultKind, Result};
use super::ledger::Written;
use super::query::queries;
use vctx_core::ledger::{self, CoreEntry, note::Head};
use vctx_core::memory::core::Core;
use vctx_core::memory::event::Event;
use vctx_core::memory::export::{RowKind, exact};
use vctx_core::memory::forget::tombstone_key;
use vctx_core::memory::held;
use vctx_core::memory::message::Message;
use vctx_core::trust::Scope;

queries! {
    pub(super) LOAD = "core_load",
    DESCRIBED = "core_described",
    CREATE = "core_create",
    LIST = "core_list",
    LIST_USER = "core_list_user",
    COUNT = "core_count",
    CONTEXT = "context_load",
    EVENTS = "event_list",
    pub(super) VERSIONS = "version_list",
    DEAD_CHAINS = "core_dead_chains",
}

/// A chain of heartbeats that is past its time limit.
#[derive(Clone, Debug, Deserialize)]
pub struct DeadChain {
    /// Key of the agent's core.
    pub key: String,
    /// Tenant of the agent.
    pub tenant: String,
    /// Id of the chain of heartbeats.
    pub chain: String,
}

/// The record of an earlier call with the same idempotency key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// Hash of the earlier call's request.
    pub request_hash: String,
    /// Answer to the earlier call.
    pub response: Value,
}

/// A core, with the record of an earlier call with the given idempotency key, if any.
#[derive(Clone, Debug, Deserialize)]
pub struct Loaded {
    /// The agent's core; `None` if the agent does not exist.
    pub core: Option<Core>,
    /// The record of the earlier call, if any.
    pub replay: Option<Replay>,
}

/// Loads a core, and the record of an earlier call under one of the given document keys, in one
/// request.
pub async fn load(ro: &Ro, scope: &Scope, replay_keys: &[&str]) -> Result<Loaded> {
    let binds = binds!(scope; replay_keys);
    Ok(ro.row(LOAD, binds).await?.unwrap_or(Loaded { core: None, replay: None }))
}

/// Number of entries among which one request looks for the newest that lists the core. Nearly every
/// write lists it, so the first page is short.
const DESCRIBED_ROWS: (u64, u64) = (16, 1_000);
/// Maximum number of such requests for one core.
const DESCRIBED_PAGES_MAX: u64 = 10_000;

/// Larger than the number of every entry: the largest whole number that a double holds exactly.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// A core as it is in the database, and the newest entry of the ledger that lists it.
#[derive(Debug)]
pub struct DescribedCore {
    /// The row of the core.
    pub row: Map<String, Value>,
    /// The entry; `None` if no entry lists the core.
    pub entry: Option<CoreEntry>,
}

/// Loads a core with the newest entry of the ledger that lists it; `None` if the agent does not
/// exist.
pub async fn load_described(ro: &Ro, scope: &Scope) -> Result<Option<DescribedCore>> {
    #[derive(Deserialize)]
    struct Page {
        core: Option<Box<RawValue>>,
        entry: Option<Map<String, Value>>,
        previous: Option<String>,
        next: Option<u64>,
    }
    let mut before = NUMBER_MAX;
    for page in 0..DESCRIBED_PAGES_MAX {
        let limit = if page == 0 { DESCRIBED_ROWS.0 } else { DESCRIBED_ROWS.1 };
        let binds = binds!(scope; before, limit);
        let Some(page) = ro.row::<Page>(DESCRIBED, binds).await? else { return Ok(None) };
        let Some(core) = page.core else { return Ok(None) };
        if let (None, Some(next)) = (&page.entry, page.next) {
            before = next;
            continue;
        }
        let row = match exact(core.get()) {
            Ok(Value::Object(row)) => row,
            Ok(_) => return Err(Fault::new(FaultKind::Garbage, "a core that is no object")),
            Err(why) => return Err(Fault::new(FaultKind::Garbage, format!("a core {why}"))),
        };
        let entry = page.entry.map(|entry| CoreEntry { entry, previous: page.previous });
        return Ok(Some(DescribedCore { row, entry }));
    }
    let text = format!("no entry that lists the core in {DESCRIBED_PAGES_MAX} pages");
    Err(Fault::new(FaultKind::Garbage, text))
}

/// Outcome of creating an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The agent was created; the text is the revision of its core.
    Made(String),
    /// An agent with this name already exists.
    Taken,
    /// An agent with this name was forgotten as a whole.
    Forgotten,
    /// The agent belongs to another database, as the directory says, or it has moved away from this
    /// database.
    Elsewhere,
}

/// Creates an agent, unless its name is taken, was forgotten, or belongs to another database.
pub async fn create(
    rw: &Rw,
    scope: &Scope,
    core: &Core,
    event: &Event,
    place: &str,
) -> Result<Created> {
    #[derive(Deserialize)]
    struct Row {
        #[serde(rename = "_rev")]
        rev: Option<String>,
        forgotten: bool,
        elsewhere: bool,
    }
    let kept = kept_of(core);
    let mut written = Written::new(scope);
    written.row(RowKind::Core, json!(core), None)?;
    written.row(RowKind::Versions, kept.clone(), None)?;
    let entry = written.entry(std::slice::from_ref(event))?;
    let genesis = Head { n: 0, hash: ledger::genesis(core.sealed_as()) };
    let (event, head) = entry.after(rw, scope, &genesis);
    let binds = binds!(scope;
        core, kept, event, tombstone = tombstone_key(scope.key()), place,
        sync = rw.sync
    );
    match rw.rows::<Row>(CREATE, binds).await {
        Ok(rows) => match rows.into_iter().next() {
            Some(Row { rev: Some(rev), .. }) => {
                rw.heads.written(scope, genesis, head);
                Ok(Created::Made(rev))
            }
            Some(Row { forgotten: true, .. }) => Ok(Created::Forgotten),
            Some(Row { elsewhere: true, .. }) => Ok(Created::Elsewhere),
            _ => Err(Fault::new(FaultKind::Garbage, "core_create returned no core and no reason")),
        },
        Err(fault) if fault.is_duplicate() => Ok(Created::Taken),
        Err(fault) => Err(fault),
    }
}

/// Lists the agents of a tenant in the order of their keys, after the given key.
pub async fn list(
    ro: &Ro,
    tenant: &str,
    user: Option<&str>,
    after: &str,
    limit: u64,
) -> Result<Vec<Value>> {
    match user {
        Some(user) => ro.rows(LIST_USER, binds!(none; tenant, user, after, limit)).await,
        None => ro.rows(LIST, binds!(none; tenant, after, limit)).await,
    }
}

/// Returns the number of agents of a tenant, but at most `limit`.
pub async fn agents_of(ro: &Ro, tenant: &str, limit: u64) -> Result<u64> {
    Ok(ro.row(COUNT, binds!(none; tenant, limit)).await?.unwrap_or(0))
}

/// Returns the chains of heartbeats whose deadline is before `now_ms`, the oldest first.
pub async fn dead_chains(ro: &Ro, now_ms: u64, limit: u64) -> Result<Vec<DeadChain>> {
    ro.rows(DEAD_CHAINS, binds!(none; now_ms, limit)).await
}

/// Returns a page of an agent's events, from the given timestamp on, oldest first.
pub async fn events(ro: &Ro, scope: &Scope, from_ts: &str, limit: u64) -> Result<Vec<Value>> {
    ro.rows(EVENTS, binds!(scope; from_ts, limit)).await
}

/// Returns a page of the versions of an agent's core, from the given version number on, oldest
/// first.
pub async fn versions(ro: &Ro, scope: &Scope, from_version: u64, limit: u64) -> Result<Vec<Value>> {
    let binds = binds!(scope; from_version, limit);
    Ok(ro.row::<StoredVersions>(VERSIONS, binds).await?.unwrap_or_default().whole())
}

/// Versions of a core as they are stored, with the texts of other versions to which they refer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct StoredVersions {
    rows: Vec<Value>,
    sources: Vec<Value>,
}

impl StoredVersions {
    /// Returns the versions with all their texts.
    pub(super) fn whole(self) -> Vec<Value> {
        let Self { rows, sources } = self;
        rows.into_iter().map(|row| held::whole(row, &sources)).collect()
    }

    /// Returns the versions with all their texts in a form of the caller's choice.
    pub(super) fn typed<T: DeserializeOwned>(self) -> Result<Vec<T>> {
        self.whole().into_iter().map(parsed).collect()
    }
}

/// Reads a row that the database returned.
pub(super) fn parsed<T: DeserializeOwned>(row: Value) -> Result<T> {
    serde_json::from_value(row).map_err(|e| Fault::new(FaultKind::Garbage, e.to_string()))
}

/// Returns an agent's core and queue, read from one snapshot.
pub async fn load_context(
    ro: &Ro,
    scope: &Scope,
    limit: u64,
) -> Result<Option<(Core, Vec<Message>)>> {
    #[derive(Deserialize)]
    struct Row {
        core: Core,
        queue: Vec<Message>,
    }
    Ok(ro.row::<Row>(CONTEXT, binds!(scope; limit)).await?.map(|row| (row.core, row.queue)))
}
