//! Applies a change in one AQL request or one stream transaction. Nothing is written if the core
//! has another revision than the change expects, or if the idempotency key is already used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::archive;
use super::db::{Binds, Rw, binds};
use super::fault::Result;
use super::forget;
use super::heads::head_of;
use super::ledger::{Touched, Written, salt};
use super::query::{Query, queries};
use super::retention;
use super::schedule;
use super::together::{Shared, Way};
use super::transaction::{Committed, Stream};
use crate::store::limits::BATCH_ROWS;
use vctx_base::metric;
use vctx_core::ledger::LocalKind;
use vctx_core::ledger::note::Head;
use vctx_core::memory::change::{Change, Evict, Part, Recount};
use vctx_core::memory::core::Core;
use vctx_core::memory::edges::version_key;
use vctx_core::memory::event::entry_key;
use vctx_core::memory::export::RowKind;
use vctx_core::trust::Scope;
use vctx_core::window::Section;

queries! {
    CHANGE = "core_change",
    CHANGE_PROMPT = "prompt_change",
    RECALL_APPEND = "recall_append",
    RECOUNT = "message_recount",
}

/// How a change is written if none of its parts needs separate statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// One AQL request, which is atomic if a single ArangoDB server holds the database.
    SingleRequest,
    /// A stream transaction, which a coordinator requires.
    Stream,
}

/// The record of a call under its idempotency key, so that a repeated call does not run again.
#[derive(Clone, Debug)]
pub struct Record {
    /// Document key of the record: a hash of the agent's scope and the idempotency key.
    pub replay_key: String,
    /// The stored form of the caller's idempotency key: a digest, from which an import computes the
    /// document key again.
    pub key: String,
    /// Number of the part, if the call is written in several parts; `None` for the record of the
    /// whole call.
    pub part: Option<u32>,
    /// Hash of the request.
    pub request_hash: String,
    /// Name of the tool.
    pub tool: &'static str,
    /// Answer of the call, without the new revision of the core, which the write itself adds.
    pub response: Map<String, Value>,
    /// Time of the call, in ISO form.
    pub created_at: String,
    /// Time of the oldest message whose text is in the answer; `None` if the answer contains no
    /// text of a message.
    pub texts_since: Option<String>,
    /// When the record expires, in seconds since 1970, as a TTL index requires.
    pub expires_at: u64,
}

/// Outcome of applying a change.
#[derive(Clone, Debug)]
pub enum Applied {
    /// The change was written. The value is the core's new revision.
    Written(String),
    /// The agent does not exist; nothing was written.
    NoAgent,
    /// The agent has no ledger yet; nothing was written.
    Unsealed,
    /// The agent is moving to another database; nothing was written.
    Leaving,
    /// Another writer was faster, or an earlier call has used this idempotency key; nothing was
    /// written.
    Raced,
    /// The outcome is unknown; only the record of the call, which the caller must load, shows it.
    Unknown,
}

#[derive(Deserialize)]
struct Row {
    /// Whether the ledger has the entry after which the writer appends.
    is_last: bool,
    new_rev: Option<String>,
}

impl Row {
    fn outcome(self) -> Applied {
        match self {
            Self { new_rev: Some(rev), is_last: true } => Applied::Written(rev),
            Self { .. } => Applied::Raced,
        }
    }
}

/// Applies a change. The outcome `Unknown` means that the change may have been applied in spite of
/// a fault; every other outcome is certain.
pub async fn apply(
    rw: &Rw,
    scope: &Scope,
    change: &Change,
    record: &Record,
    mode: WriteMode,
) -> Result<Applied> {
    // Revisions need not be compared here. If the core was loaded before the move began, its
    // revision is outdated, since the start of the move changed the revision. The write is then
    // refused as stale.
    if change.after.moving.is_some() {
        return Ok(Applied::Leaving);
    }
    let statements = change.parts.iter().any(|part| row(part).is_none());
    let streamed = statements || mode == WriteMode::Stream;
    let outcome = if streamed {
        Box::pin(stream(rw, scope, change, record)).await
    } else {
        single(rw, scope, change, record).await
    };
    match outcome {
        Err(fault) => {
            rw.heads.drop_known(scope);
            match fault {
                fault if fault.raced() => Ok(Applied::Raced),
                fault if fault.is_missing() => Ok(Applied::NoAgent),
                fault => Err(fault),
            }
        }
        other => other,
    }
}

async fn single(rw: &Rw, scope: &Scope, change: &Change, record: &Record) -> Result<Applied> {
    let mut may_share = true;
    for _ in 0..=HEAD_TRIES_MAX {
        let Some(before) = head_of(rw, scope).await? else { return Ok(Applied::Unsealed) };
        let (query, binds, after) =
            guarded(rw, scope, change, record, Written::new(scope), &before)?;
        let way = match query {
            CHANGE if may_share => rw.together.write(scope, binds).await,
            _ => Way::Alone(binds, None),
        };
        let outcome = match way {
            Way::Alone(binds, _permit) => match rw.row::<Row>(query, binds).await {
                Ok(row) => row.map_or(Applied::Raced, Row::outcome),
                // The next entry, or the record of the same call, has just been written.
                Err(fault) if fault.is_duplicate() => Applied::Raced,
                Err(fault) => return Err(fault),
            },
            Way::Shared(Ok(Shared::Written(rev))) => Applied::Written(rev),
            // Only the answer to a request with this change alone says what it lacks.
            Way::Shared(Ok(Shared::Refused)) => {
                may_share = false;
                continue;
            }
            Way::Shared(Err(fault)) => return Err(fault),
        };
        match outcome {
            Applied::Written(ref rev) => rw.heads.written_with(scope, before, after, Some(rev)),
            // Another writer has appended an entry without changing the core.
            Applied::Raced => {
                rw.heads.drop_known(scope);
                continue;
            }
            _ => {}
        }
        return Ok(outcome);
    }
    Ok(Applied::Raced)
}

/// Maximum number of attempts of one write while other writers append entries to the ledger.
const HEAD_TRIES_MAX: u32 = 4;

/// Collections that every change may write.
const WRITES: [&str; 9] = [
    "core_memory",
    "idempotency",
    "messages",
    "recall_log",
    "core_versions",
    "memory_events",
    "pages",
    "cites",
    "derived_from",
];

/// Collections that a change with a recorded prompt writes, in addition to the collections that
/// every change writes.
const PROMPT_WRITES: [&str; 3] = ["prompts", "tool_sets", "context_packs"];

/// Returns the collections that a part of a change writes, in addition to the collections that
/// every change writes.
fn collections(part: &Part) -> &'static [&'static str] {
    match part {
        Part::Expire(_) => &retention::WRITES,
        Part::Forget(_) => &forget::WRITES,
        Part::Fire(_) => &schedule::WRITES,
        Part::Ingest(_) => &archive::WRITES,
        Part::Prompt(_) | Part::ToolSet(_) | Part::Pack(_) => &PROMPT_WRITES,
        Part::Recount(_)
        | Part::Evict(_)
        | Part::Recall(_)
        | Part::Page(_)
        | Part::Cite(_)
        | Part::Fold(_) => &[],
    }
}

/// Returns the row that a part of a change adds to the guarded write, with the name of the row's
/// bind variable. The guarded write is the query that checks the revision and the idempotency key.
/// Returns `None` if the part has separate statements.
fn row(part: &Part) -> Option<(&'static str, Value)> {
    match part {
        Part::Recall(edge) => Some(("recall", json!(edge))),
        Part::Page(page) => Some(("pages", json!(page))),
        Part::Cite(edge) => Some(("cites", json!(edge))),
        Part::Fold(edge) => Some(("folded", json!(edge))),
        Part::Prompt(row) => Some(("prompts", row.clone())),
        Part::ToolSet(set) => Some(("tool_sets", json!(set))),
        Part::Pack(pack) => Some(("packs", json!(pack))),
        Part::Recount(_)
        | Part::Evict(_)
        | Part::Expire(_)
        | Part::Forget(_)
        | Part::Fire(_)
        | Part::Ingest(_) => None,
    }
}

/// Runs the statements of a part, and adds the rows that they change to `written`. Returns `false`
/// if the database no longer has the rows that the call read.
async fn write(
    part: &Part,
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    written: &mut Written<'_>,
) -> Result<bool> {
    match part {
        Part::Recount(counts) => recount(stream, rw, scope, counts, written).await,
        Part::Evict(evict) => log(stream, rw, scope, evict, written).await,
        Part::Expire(expire) => retention::expire(stream, rw, scope, expire, written).await,
        Part::Forget(step) => forget::forget(stream, rw, scope, step, written).await,
        Part::Fire(fired) => schedule::fire(stream, rw, scope, fired, written).await,
        Part::Ingest(ingest) => archive::write(stream, rw, scope, ingest, written).await,
        Part::Recall(_)
        | Part::Page(_)
        | Part::Cite(_)
        | Part::Fold(_)
        | Part::Prompt(_)
        | Part::ToolSet(_)
        | Part::Pack(_) => Ok(true),
    }
}

async fn stream(rw: &Rw, scope: &Scope, change: &Change, record: &Record) -> Result<Applied> {
    let mut writes = WRITES.to_vec();
    for name in change.parts.iter().flat_map(collections) {
        if !writes.contains(name) {
            writes.push(*name);
        }
    }
    let Some(before) = head_of(rw, scope).await? else { return Ok(Applied::Unsealed) };
    let stream = Stream::begin(rw, &[], &writes).await?;
    match body(&stream, rw, scope, change, record, &before).await {
        Ok((Applied::Written(rev), after)) => match stream.commit().await? {
            Committed::Yes => {
                rw.heads.written_with(scope, before, after, Some(&rev));
                Ok(Applied::Written(rev))
            }
            Committed::No => Ok(Applied::Raced),
            Committed::Unknown => Ok(Applied::Unknown),
        },
        Ok((other, _)) => {
            stream.abort().await;
            rw.heads.drop_known(scope);
            Ok(other)
        }
        Err(fault) => {
            stream.abort().await;
            Err(fault)
        }
    }
}

/// Runs the statements of a change. Returns the outcome and the head of the ledger after it.
async fn body(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    change: &Change,
    record: &Record,
    before: &Head,
) -> Result<(Applied, Head)> {
    let mut written = Written::new(scope);
    for part in &change.parts {
        if !write(part, stream, rw, scope, &mut written).await? {
            return Ok((Applied::Raced, before.clone()));
        }
    }
    let (query, binds, after) = guarded(rw, scope, change, record, written, before)?;
    let row = stream.rows::<Row>(query, binds).await?.into_iter().next();
    Ok((row.map_or(Applied::Raced, Row::outcome), after))
}

/// Writes the new token counts of messages. Always returns `true`.
async fn recount(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    counts: &[Recount],
    written: &mut Written<'_>,
) -> Result<bool> {
    for batch in counts.chunks(BATCH_ROWS as usize) {
        let binds = binds!(scope; recount = batch, sync = rw.sync);
        written.touched(stream.rows::<Touched>(RECOUNT, binds).await?)?;
    }
    Ok(true)
}

/// Writes the recall storage edges of an eviction. Returns `false` if their number differs from the
/// number of evicted messages.
async fn log(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    evict: &Evict,
    written: &mut Written<'_>,
) -> Result<bool> {
    let binds = binds!(scope;
        logged_ms = evict.logged_ms, head_seq = evict.head_seq, new_head_seq = evict.new_head_seq,
        batch_id = evict.batch_id, summary_rev = evict.summary_rev, sync = rw.sync
    );
    let edges: Vec<Touched> = stream.rows(RECALL_APPEND, binds).await?;
    let all = edges.len() as u64 == evict.evicted_count;
    written.touched(edges)?;
    Ok(all)
}

/// Returns the query of the guarded write, its bind variables, and the head of the ledger after it.
/// `written` has the rows that the statements before it changed, and `before` is the head before.
/// A change with a prompt uses a separate query, which writes two
/// more collections, so that other calls do not lock these collections.
fn guarded(
    rw: &Rw,
    scope: &Scope,
    change: &Change,
    record: &Record,
    mut written: Written<'_>,
    before: &Head,
) -> Result<(Query, Binds, Head)> {
    let mut rows = BTreeMap::from(["recall", "pages", "cites", "folded"].map(|n| (n, Vec::new())));
    let mut query = CHANGE;
    for part in &change.parts {
        if let Part::Prompt(_) | Part::ToolSet(_) | Part::Pack(_) = part {
            query = CHANGE_PROMPT;
            for bind in ["prompts", "tool_sets", "packs"] {
                rows.entry(bind).or_default();
            }
        }
        if let Some((bind, mut value)) = row(part) {
            seal(part, &mut value, change, &mut written)?;
            rows.entry(bind).or_default().push(value);
        }
    }
    let (mut binds, after) = bound(rw, scope, change, record, written, before)?;
    binds.0.extend(rows.into_iter().map(|(bind, rows)| (bind, Value::Array(rows))));
    Ok((query, binds, after))
}

/// Adds the row of a part to the written rows. A new prompt gets a salt.
fn seal(part: &Part, row: &mut Value, change: &Change, written: &mut Written<'_>) -> Result<()> {
    match part {
        Part::Recall(edge) => {
            let message = change.messages.iter().find(|message| message.key == edge.key);
            let salt = message.map(|message| message.salt.as_str());
            written.row(RowKind::Recall, row.clone(), salt)
        }
        Part::Cite(_) => written.row(RowKind::Cites, row.clone(), None),
        Part::Fold(_) => written.row(RowKind::Derived, row.clone(), None),
        Part::Prompt(_) if row.get("turn").is_some() => {
            row["salt"] = salt();
            written.row(RowKind::Prompts, row.clone(), None)
        }
        Part::Prompt(_) => {
            // The outcome of a prompt is a patch, which names the prompt only by its key.
            let mut whole = row.clone();
            let turn = row["_key"].as_str().and_then(|key| key.rsplit(':').next()?.parse().ok());
            whole["turn"] = turn.unwrap_or(0_u64).into();
            written.row(RowKind::Prompts, whole, None)
        }
        Part::ToolSet(_) => written.row(RowKind::ToolSets, row.clone(), None),
        Part::Pack(_) => written.row(RowKind::Packs, row.clone(), None),
        Part::Page(_) => written.local(LocalKind::Pages, row),
        Part::Recount(_)
        | Part::Evict(_)
        | Part::Expire(_)
        | Part::Forget(_)
        | Part::Fire(_)
        | Part::Ingest(_) => Ok(()),
    }
}

fn bound(
    rw: &Rw,
    scope: &Scope,
    change: &Change,
    record: &Record,
    mut written: Written<'_>,
    before: &Head,
) -> Result<(Binds, Head)> {
    let mut replay = json!({
        "_key": record.replay_key, "key": record.key, "agent_id": scope.key(), "tool": record.tool, "request_hash": record.request_hash,
        "created_at": record.created_at, "expires_at": record.expires_at, "salt": salt(),
    });
    if let Some(part) = record.part {
        replay["part"] = part.into();
    }
    // If the answer contains no texts of messages, the record has no `texts_since`, so that the
    // sparse index over this field does not contain the record.
    if let Some(since) = &record.texts_since {
        replay["texts_since"] = since.as_str().into();
    }
    let is_kept = change.after.writes_version(&change.before);
    let kept: Vec<Value> = is_kept.then(|| kept_of(&change.after)).into_iter().collect();
    let mut response = Value::Object(record.response.clone());
    written.core(&change.after)?;
    let patch = change.after.patch_since(&change.before);
    let messages: Vec<Value> = change.messages.iter().map(|message| json!(message)).collect();
    for message in &messages {
        written.message(message)?;
    }
    for version in &kept {
        written.row(RowKind::Versions, version.clone(), None)?;
    }
    written.answer(&replay, &mut response)?;
    let mut entry = written.entry(&change.events)?;
    let mut events = std::mem::take(&mut entry.others);
    let (entry, after) = entry.after(rw, scope, before);
    events.push(entry);
    let is_sure = rw.heads.is_of_core(scope, before, &change.before.rev);
    let last = Some(before).filter(|_| !is_sure);
    let last_keys: Vec<String> = last.iter().map(|one| entry_key(scope.key(), one.n)).collect();
    let last_hashes: Vec<&str> = last.iter().map(|one| one.hash.as_str()).collect();
    let mut binds = binds!(scope;
        expected_rev = change.before.rev, last_keys, last_hashes, sync = rw.sync
    );
    // The macro would copy these values.
    binds.0.extend([
        ("core", Value::Object(patch)),
        ("replay", replay),
        ("response", response),
        ("messages", Value::Array(messages)),
        ("kept", Value::Array(kept)),
        ("events", Value::Array(events)),
    ]);
    Ok((binds, after))
}

/// Returns the core's attributes that contain texts of the window's sections.
fn kept_attributes() -> impl Iterator<Item = (&'static str, fn(&Core) -> Value)> {
    Section::ALL.into_iter().filter_map(|section| section.spec().kept)
}

/// Returns a version: the texts of a core, where an earlier version may hold a text that did not
/// change. Every change of a text writes a version, so that old prompts can be rebuilt.
pub(super) fn kept_of(core: &Core) -> Value {
    let mut kept = json!({"_key": version_key(&core.agent_id, core.version), "agent_id": core.agent_id,
        "version": core.version, "salt": core.salt});
    for (name, value) in kept_attributes() {
        kept[name] = value(core);
    }
    kept["context_window"] = core.context_window.into();
    kept["encoding"] = json!(core.encoding);
    kept["token_budget"] = json!(core.token_budget);
    kept["ts"] = core.updated_at.as_str().into();
    kept
}

impl Rw {
    /// Sends a query to the write socket, and returns all its rows.
    pub(super) async fn rows<R: serde::de::DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>> {
        metrics::counter!(metric::STORE_TRIPS, "socket" => "rw").increment(1);
        self.link.rows(query, binds).await
    }

    /// Returns the first row of a query, if any.
    pub(super) async fn row<R: serde::de::DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Option<R>> {
        Ok(self.rows(query, binds).await?.into_iter().next())
    }

    /// Returns whether a query returned a row, which means that it wrote one.
    pub(super) async fn wrote(&self, query: Query, binds: Binds) -> Result<bool> {
        Ok(!self.rows::<Value>(query, binds).await?.is_empty())
    }

    /// Returns whether a query wrote a row. If the query loses a conflict to another writer, it
    /// wrote no row, and the function returns `false`.
    pub(super) async fn won(&self, query: Query, binds: Binds) -> Result<bool> {
        match self.wrote(query, binds).await {
            Err(fault) if fault.raced() => Ok(false),
            done => done,
        }
    }
}
