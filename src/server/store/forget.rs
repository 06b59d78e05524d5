//! Forgetting: what is found, what quotes it, the steps, the manifests, and the end of a whole agent.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::db::{Binds, Ro, Rw};
use super::fault::Fault;
use super::query::{Query, query};
use super::transaction::Stream;
use vctx_core::limits::{
    FORGET_AGENT_ROWS, FORGET_LISTED, FORGET_QUOTES_MAX, FORGET_ROWS, FORGET_RUN_CHARS,
    FORGET_SCAN_ROWS,
};
use vctx_core::memory::change::Forget;
use vctx_core::memory::forget::Forgetting;
use vctx_core::policy::{CallPlace, FoundMessage, Scope, StandingMessage};

/// Messages that are named.
pub(super) const FIND: Query = query!("forget_find");
/// Calls and results.
pub(super) const PAIRS: Query = query!("forget_pairs");
/// Messages that hold a text.
pub(super) const MATCH: Query = query!("forget_match");
/// What else holds it.
pub(super) const QUOTES: Query = query!("forget_quotes");
/// Documents made of messages.
pub(super) const DERIVED: Query = query!("forget_derived");
/// One row.
pub(super) const LOAD: Query = query!("forget_load");
/// All of an agent.
pub(super) const LIST: Query = query!("forget_list");
/// What stands still.
pub(super) const DUE: Query = query!("forget_due");
/// Messages of a step.
pub(super) const BATCH: Query = query!("forget_batch");
/// Summaries of a step.
pub(super) const VERSIONS: Query = query!("forget_versions");
/// Stored answers.
pub(super) const ANSWERS: Query = query!("forget_answers");
/// Messages with a thread.
pub(super) const THREADS: Query = query!("forget_threads");
/// What goes beside messages.
pub(super) const TEXTS: Query = query!("forget_texts");
/// A step is noted.
pub(super) const MARK: Query = query!("forget_mark");
/// A whole agent.
pub(super) const AGENT: Query = query!("forget_agent");
/// Its rows.
pub(super) const ROWS: Query = query!("forget_rows");

/// Collections that only this writes, beside those of every change and of retention.
pub(super) const WRITES: [&str; 4] = ["forgets", "schedules", "tool_sets", "archival_parts"];

/// What else of an agent holds a text.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Quotes {
    /// Schedules by name.
    pub schedules: Vec<String>,
    /// Documents.
    pub documents: Vec<String>,
    /// Keys of sets of tools.
    pub tool_sets: Vec<String>,
    /// Keys of copies of texts.
    pub versions: Vec<String>,
    /// A key of one of those whose summary holds it, if there is one.
    pub summaries: Vec<String>,
    /// Keys of stored answers.
    pub answers: Vec<String>,
}

/// A forgetting that stands still.
#[derive(Clone, Debug, Deserialize)]
pub struct DueForgetting {
    /// Its key.
    pub key: String,
    /// Key of the agent's core.
    pub agent_id: String,
    /// Its tenant.
    pub tenant: String,
}

/// What became of a whole agent.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct AgentForgotten {
    /// Whether it is leaving for another place.
    #[serde(default)]
    pub moving: bool,
    /// An earlier forgetting of it.
    pub seen: Option<Forgetting>,
    /// The revision found; none: there is no such agent.
    pub rev: Option<String>,
    /// Whether it began now.
    pub done: bool,
}

/// A stored answer.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredAnswer {
    /// Its key.
    pub key: String,
    /// What it answers.
    pub response: Value,
}

/// A page of something, and where the next begins; none: there is none.
pub type Paged = (Vec<String>, Option<String>);

/// Messages by place, by id, and copies of some.
pub async fn named(
    ro: &Ro,
    scope: &Scope,
    seqs: &[u64],
    ids: &[String],
    originals: &[String],
) -> Result<Vec<FoundMessage>, Fault> {
    let binds = [
        ("seqs", json!(seqs)),
        ("ids", json!(ids)),
        ("originals", json!(originals)),
        ("run_chars", FORGET_RUN_CHARS.into()),
    ];
    ro.rows(FIND, Binds::of(scope, binds)).await
}

/// Calls and results between two places.
pub async fn calls_between(
    ro: &Ro,
    scope: &Scope,
    first: u64,
    last: u64,
) -> Result<Vec<CallPlace>, Fault> {
    let rows = (last + 1).saturating_sub(first);
    let binds = [("first", first.into()), ("last", last.into()), ("limit", rows.into())];
    ro.rows(PAIRS, Binds::of(scope, binds)).await
}

/// Places of the messages behind a place that hold one of some texts, of one page; and where the next page begins.
pub async fn matching(
    ro: &Ro,
    scope: &Scope,
    texts: &[String],
    after: u64,
) -> Result<(Vec<u64>, Option<u64>), Fault> {
    #[derive(Deserialize)]
    struct Row {
        last: Option<u64>,
        seen: u64,
        hits: Vec<u64>,
    }
    let binds =
        [("texts", json!(texts)), ("after", after.into()), ("limit", FORGET_SCAN_ROWS.into())];
    let rows: Vec<Row> = ro.rows(MATCH, Binds::of(scope, binds)).await?;
    Ok(rows.into_iter().next().map_or((Vec::new(), None), |row| {
        (row.hits, row.last.filter(|_| row.seen == FORGET_SCAN_ROWS))
    }))
}

/// What else holds one of some texts.
pub async fn quotes(ro: &Ro, scope: &Scope, texts: &[String]) -> Result<Quotes, Fault> {
    let binds = [("texts", json!(texts)), ("limit", FORGET_QUOTES_MAX.into())];
    let rows: Vec<Quotes> = ro.rows(QUOTES, Binds::of(scope, binds)).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// Documents that were made of some messages.
pub async fn derived(ro: &Ro, scope: &Scope, ids: &[String]) -> Result<Vec<String>, Fault> {
    let ids: Vec<String> = ids.iter().map(|id| format!("messages/{id}")).collect();
    let binds = [("ids", json!(ids)), ("limit", FORGET_QUOTES_MAX.into())];
    ro.rows(DERIVED, Binds::of(scope, binds)).await
}

/// A forgetting.
pub async fn forgetting(ro: &Ro, scope: &Scope, key: &str) -> Result<Option<Forgetting>, Fault> {
    let rows: Vec<Forgetting> = ro.rows(LOAD, Binds::of(scope, [("key", key.into())])).await?;
    Ok(rows.into_iter().next())
}

/// The manifests of an agent.
pub async fn forgettings(ro: &Ro, scope: &Scope) -> Result<Vec<Forgetting>, Fault> {
    ro.rows(LIST, Binds::of(scope, [("limit", FORGET_LISTED.into())])).await
}

/// Forgettings that nobody has touched since a moment of server time.
pub async fn due_forgettings(
    ro: &Ro,
    before_ms: u64,
    limit: u64,
) -> Result<Vec<DueForgetting>, Fault> {
    let binds = Binds::unscoped([("before_ms", before_ms.into()), ("limit", limit.into())]);
    ro.rows(DUE, binds).await
}

/// Messages that are about to be forgotten.
pub async fn standing(
    ro: &Ro,
    scope: &Scope,
    ids: &[String],
) -> Result<Vec<StandingMessage>, Fault> {
    ro.rows(BATCH, Binds::of(scope, [("ids", json!(ids))])).await
}

/// Copies of texts up to a version, with a summary of some revision on.
pub async fn summaries(ro: &Ro, scope: &Scope, from: u64, until: u64) -> Result<Paged, Fault> {
    let binds = [("from", from.into()), ("until", until.into()), ("limit", FORGET_ROWS.into())];
    let keys: Vec<String> = ro.rows(VERSIONS, Binds::of(scope, binds)).await?;
    let more = (keys.len() as u64 == FORGET_ROWS).then(String::new);
    Ok((keys, more))
}

/// A page of stored answers.
pub async fn stored_answers(
    ro: &Ro,
    scope: &Scope,
    after: &str,
) -> Result<Vec<StoredAnswer>, Fault> {
    let binds = [("after", after.into()), ("limit", FORGET_SCAN_ROWS.into())];
    ro.rows(ANSWERS, Binds::of(scope, binds)).await
}

/// A page of messages with a thread.
pub async fn threaded(ro: &Ro, scope: &Scope, after: u64) -> Result<Paged, Fault> {
    #[derive(Deserialize)]
    struct Row {
        id: String,
        seq: u64,
    }
    let binds = [("after", after.into()), ("limit", FORGET_SCAN_ROWS.into())];
    let rows: Vec<Row> = ro.rows(THREADS, Binds::of(scope, binds)).await?;
    let full = rows.len() as u64 == FORGET_SCAN_ROWS;
    let next = rows.last().filter(|_| full).map(|row| row.seq.to_string());
    Ok((rows.into_iter().map(|row| row.id).collect(), next))
}

/// Does a step inside a running transaction; false if another server took it.
pub(super) async fn forget(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    forget: &Forget,
) -> Result<bool, Fault> {
    if !note(stream, rw, scope, &forget.row, forget.at).await? {
        return Ok(false);
    }
    let beside = [&forget.threads, &forget.versions, &forget.schedules, &forget.tool_sets];
    if !forget.beside && beside.iter().all(|list| list.is_empty()) {
        return Ok(true);
    }
    let binds = [
        ("threads", json!(forget.threads)),
        ("versions", json!(forget.versions)),
        ("schedules", json!(forget.schedules)),
        ("tool_sets", json!(forget.tool_sets)),
        ("beside", forget.beside.into()),
        ("forgotten_at", forget.row.ended_at.as_deref().unwrap_or(&forget.row.begun_at).into()),
        ("sync", rw.sync.into()),
    ];
    stream.rows::<Value>(TEXTS, Binds::of(scope, binds)).await?;
    Ok(true)
}

async fn note(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    row: &Forgetting,
    at: Option<u64>,
) -> Result<bool, Fault> {
    let noted: Vec<Value> = stream.rows(MARK, marks(rw, scope, row, at)).await?;
    Ok(!noted.is_empty())
}

fn marks(rw: &Rw, scope: &Scope, row: &Forgetting, at: Option<u64>) -> Binds {
    Binds::of(scope, [("row", json!(row)), ("at", at.into()), ("sync", rw.sync.into())])
}

/// Takes the core of an agent away and notes that its rows go.
pub async fn forget_agent(
    rw: &Rw,
    scope: &Scope,
    row: &Forgetting,
    rev: Option<&str>,
) -> Result<AgentForgotten, Fault> {
    let binds = [("row", json!(row)), ("rev", rev.into()), ("sync", rw.sync.into())];
    let rows: Vec<AgentForgotten> = rw.rows(AGENT, Binds::of(scope, binds)).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// Takes some rows of an agent away whose core is gone; gives how many of each collection.
pub async fn forget_rows(rw: &Rw, scope: &Scope) -> Result<BTreeMap<String, u64>, Fault> {
    let binds = [("limit", FORGET_AGENT_ROWS.into()), ("sync", rw.sync.into())];
    let rows: Vec<BTreeMap<String, u64>> = rw.rows(ROWS, Binds::of(scope, binds)).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// Notes a step of the forgetting of a whole agent; false if another server took it.
pub async fn note_rows(rw: &Rw, scope: &Scope, row: &Forgetting, at: u64) -> Result<bool, Fault> {
    let noted: Vec<Value> = rw.rows(MARK, marks(rw, scope, row, Some(at))).await?;
    Ok(!noted.is_empty())
}
