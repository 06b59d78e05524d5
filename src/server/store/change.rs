//! Applies a change: one AQL request, or one stream transaction when messages leave the queue; guarded by revision and key.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::archive;
use super::core::Replay;
use super::db::{Binds, Rw};
use super::fault::Fault;
use super::forget;
use super::query::{Query, query};
use super::retention;
use super::schedule;
use super::transaction::{Committed, Stream};
use vctx_base::metric;
use vctx_core::limits::BATCH_ROWS;
use vctx_core::memory::change::{Change, Evict};
use vctx_core::memory::core::Core;
use vctx_core::memory::joined::version_key;
use vctx_core::policy::Scope;

/// The guarded write of a call.
pub(super) const CHANGE: Query = query!("core_change");
/// The same with rows of prompts.
pub(super) const CHANGE_PROMPT: Query = query!("prompt_change");
/// The edges of an eviction.
pub(super) const RECALL_APPEND: Query = query!("recall_append");
/// New counts of messages.
pub(super) const RECOUNT: Query = query!("message_recount");

/// How changes without an eviction are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// One AQL request: atomic on a single server.
    SingleRequest,
    /// A stream transaction: what a coordinator needs.
    Stream,
}

/// The record that makes a call happen once.
#[derive(Clone, Debug)]
pub struct Record {
    /// Hash of scope and key: the record's document key.
    pub replay_key: String,
    /// The caller's key: what an export makes the record's key from again.
    pub key: String,
    /// Which part of a call that is done in several; none of the whole.
    pub part: Option<u32>,
    /// Hash of what is asked.
    pub request_hash: String,
    /// Tool.
    pub tool: &'static str,
    /// Answer without its revision.
    pub response: Map<String, Value>,
    /// When, in ISO form.
    pub created_at: String,
    /// When the oldest of the messages was said whose texts the answer holds; none: it holds no texts of messages.
    pub texts_since: Option<String>,
    /// When the record may go, in seconds since 1970 (the unit of a ttl index).
    pub expires_at: u64,
}

/// What became of a change.
#[derive(Clone, Debug)]
pub enum Applied {
    /// Written; the new revision.
    Written(String),
    /// An earlier call had the key.
    Seen(Replay),
    /// The core has another revision; nothing was written.
    Stale,
    /// There is no such agent; nothing was written.
    NoAgent,
    /// The agent is leaving for another place; nothing was written.
    Leaving,
    /// Another writer was faster; nothing was written.
    Raced,
    /// Nobody knows: load by key and decide.
    Unknown,
}

#[derive(Deserialize)]
struct Row {
    seen: Option<Replay>,
    rev: Option<String>,
    new_rev: Option<String>,
}

impl Row {
    fn outcome(self) -> Applied {
        match self {
            Self { seen: Some(replay), .. } => Applied::Seen(replay),
            Self { new_rev: Some(rev), .. } => Applied::Written(rev),
            Self { rev: None, .. } => Applied::NoAgent,
            Self { .. } => Applied::Stale,
        }
    }
}

/// Applies a change. A fault that may have left it applied is `Unknown`; everything else is certain.
pub async fn apply(
    rw: &Rw,
    scope: &Scope,
    change: &Change,
    record: &Record,
    mode: WriteMode,
) -> Result<Applied, Fault> {
    // The mark moved the revision: whoever loaded the core before it is stale.
    if change.after.moving.is_some() {
        return Ok(Applied::Leaving);
    }
    let streamed = change.evict.is_some()
        || !change.recount.is_empty()
        || change.ingest.is_some()
        || change.expire.is_some()
        || change.forget.is_some()
        || change.fired.is_some()
        || mode == WriteMode::Stream;
    let outcome = if streamed {
        stream(rw, scope, change, record).await
    } else {
        single(rw, scope, change, record).await
    };
    match outcome {
        Err(fault) if fault.raced() => Ok(Applied::Raced),
        other => other,
    }
}

async fn single(
    rw: &Rw,
    scope: &Scope,
    change: &Change,
    record: &Record,
) -> Result<Applied, Fault> {
    let (query, binds) = guarded(rw, scope, change, record);
    let rows: Vec<Row> = rw.rows(query, binds).await?;
    Ok(rows.into_iter().next().map_or(Applied::NoAgent, Row::outcome))
}

/// Everything a call writes lies in these collections, but for an ingest.
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

/// What only changes with prompts write beside that.
const PROMPT_WRITES: [&str; 2] = ["prompts", "tool_sets"];

async fn stream(
    rw: &Rw,
    scope: &Scope,
    change: &Change,
    record: &Record,
) -> Result<Applied, Fault> {
    let mut writes = WRITES.to_vec();
    if change.ingest.is_some() {
        writes.extend(archive::WRITES);
    }
    if change.expire.is_some() || change.forget.is_some() {
        writes.extend(retention::WRITES);
    }
    if change.forget.is_some() {
        writes.extend(forget::WRITES);
    } else if change.fired.is_some() {
        writes.extend(schedule::WRITES);
    }
    if change.has_prompts() {
        writes.extend(PROMPT_WRITES);
    }
    let stream = Stream::begin(rw, &[], &writes).await?;
    match body(&stream, rw, scope, change, record).await {
        Ok(Applied::Written(rev)) => match stream.commit().await? {
            Committed::Yes => Ok(Applied::Written(rev)),
            Committed::No => Ok(Applied::Raced),
            Committed::Unknown => Ok(Applied::Unknown),
        },
        Ok(other) => {
            stream.abort().await;
            Ok(other)
        }
        Err(fault) => {
            stream.abort().await;
            Err(fault)
        }
    }
}

async fn body(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    change: &Change,
    record: &Record,
) -> Result<Applied, Fault> {
    for recount in change.recount.chunks(BATCH_ROWS as usize) {
        let binds = Binds::of(scope, [("recount", json!(recount)), ("sync", rw.sync.into())]);
        stream.rows::<Value>(RECOUNT, binds).await?;
    }
    if let Some(evict) = &change.evict
        && !logged(stream, rw, scope, evict).await?
    {
        return Ok(Applied::Raced);
    }
    if let Some(expire) = &change.expire
        && !retention::expire(stream, rw, scope, expire).await?
    {
        return Ok(Applied::Raced);
    }
    if let Some(step) = &change.forget
        && !forget::forget(stream, rw, scope, step).await?
    {
        return Ok(Applied::Raced);
    }
    if let Some(fired) = &change.fired
        && !schedule::fire(stream, rw, scope, fired).await?
    {
        return Ok(Applied::Raced);
    }
    if let Some(ingest) = &change.ingest
        && !archive::write(stream, rw, scope, ingest).await?
    {
        return Ok(Applied::Raced);
    }
    let (query, binds) = guarded(rw, scope, change, record);
    let rows: Vec<Row> = stream.rows(query, binds).await?;
    Ok(rows.into_iter().next().map_or(Applied::NoAgent, Row::outcome))
}

/// Writes the edges; false if other messages were found than the decision was made on.
async fn logged(stream: &Stream<'_>, rw: &Rw, scope: &Scope, evict: &Evict) -> Result<bool, Fault> {
    let binds = Binds::of(
        scope,
        [
            ("logged_ms", evict.logged_ms.into()),
            ("head_seq", evict.head_seq.into()),
            ("new_head_seq", evict.new_head_seq.into()),
            ("batch_id", evict.batch_id.as_str().into()),
            ("summary_rev", evict.summary_rev.into()),
            ("sync", rw.sync.into()),
        ],
    );
    let written: Vec<u64> = stream.rows(RECALL_APPEND, binds).await?;
    Ok(written.len() as u64 == evict.evicted_count)
}

/// The guarded write and what it takes: that of prompts names two collections more, which no other call has to lock.
fn guarded(rw: &Rw, scope: &Scope, change: &Change, record: &Record) -> (Query, Binds) {
    let binds = binds(rw, scope, change, record);
    if !change.has_prompts() {
        return (CHANGE, binds);
    }
    let rows = [("prompts", json!(change.prompts)), ("tool_sets", json!(change.tool_sets))];
    (CHANGE_PROMPT, binds.and(rows))
}

fn binds(rw: &Rw, scope: &Scope, change: &Change, record: &Record) -> Binds {
    let mut replay = json!({
        "_key": record.replay_key, "key": record.key, "agent_id": scope.key(), "tool": record.tool, "request_hash": record.request_hash,
        "created_at": record.created_at, "expires_at": record.expires_at,
    });
    if let Some(part) = record.part {
        replay["part"] = part.into();
    }
    // Absent where there are none: the index over it is sparse.
    if let Some(since) = &record.texts_since {
        replay["texts_since"] = since.as_str().into();
    }
    let patch = change.after.patch_since(&change.before);
    let texts = ["system", "working_blocks", "queue_head_summary", "context_window", "encoding"];
    let kept: Vec<Value> = if texts.iter().any(|t| patch.contains_key(*t)) {
        vec![kept_of(&change.after)]
    } else {
        Vec::new()
    };
    Binds::of(
        scope,
        [
            ("replay_key", record.replay_key.as_str().into()),
            ("expected_rev", change.before.rev.as_str().into()),
            ("core", Value::Object(patch)),
            ("replay", replay),
            ("response", Value::Object(record.response.clone())),
            ("messages", json!(change.messages)),
            ("recall", json!(change.recall)),
            ("kept", Value::Array(kept)),
            ("events", json!(change.events)),
            ("pages", json!(change.pages)),
            ("cites", json!(change.cites)),
            ("folded", json!(change.folded)),
            ("sync", rw.sync.into()),
        ],
    )
}

/// A copy of everything that is text in a core, kept when one of it changes: what a replay of an old window needs.
pub(super) fn kept_of(core: &Core) -> Value {
    json!({
        "_key": version_key(&core.agent_id, core.version), "agent_id": core.agent_id, "version": core.version, "system": core.system, "working_blocks": core.working_blocks,
        "queue_head_summary": core.queue_head_summary, "context_window": core.context_window, "encoding": core.encoding,
        "token_budget": core.token_budget, "ts": core.updated_at,
    })
}

impl Rw {
    /// All rows of a query on the socket for writes.
    pub(super) async fn rows<R: serde::de::DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>, Fault> {
        metrics::counter!(metric::STORE_TRIPS, "socket" => "rw").increment(1);
        self.link.rows(query, binds).await
    }
}
