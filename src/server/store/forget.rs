//! Stores forget operations and their manifests: finds the texts to forget and other texts that
//! quote them, runs the steps of an operation, and removes whole agents.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::db::{Binds, Ro, Rw, binds};
use super::fault::Result;
use super::ledger::{Touched, Written, salt};
use super::query::queries;
use super::tombstone::{closing, last_of, other_manifests, seal};
use super::transaction::Stream;
use crate::limits::FORGET_SCAN_ROWS;
use vctx_core::limits::FORGET_ROWS;
use vctx_core::memory::change::Forget;
use vctx_core::memory::forget::{Forgetting, QuotingVersion};
use vctx_core::policy::{CallPlace, FoundMessage, StandingMessage};
use vctx_core::search::borders::ChunkEnds;
use vctx_core::trust::Scope;

/// Length, in characters, of the pieces into which a forgotten message is cut. Other texts are
/// searched for these pieces. A message that is shorter than one piece is not searched for.
const FORGET_RUN_CHARS: u64 = 32;
/// Maximum number of rows of each kind that one search for quotes of forgotten texts returns.
const FORGET_QUOTES_MAX: u64 = 1_000;
/// Maximum number of characters in the ends of the chunks that one request reads.
const FORGET_ENDS_CHARS: u64 = 1 << 20;
/// Number of rows of each collection that one request removes while a whole agent is forgotten.
const FORGET_AGENT_ROWS: u64 = 500;
/// Maximum number of attempts to forget a whole agent that other calls change meanwhile.
const FORGET_RACES_MAX: u32 = 64;
/// Maximum number of manifests in one answer.
const FORGET_LISTED: u64 = 200;

queries! {
    FIND = "forget_find",
    PAIRS = "forget_pairs",
    MATCH = "forget_match",
    QUOTES = "forget_quotes",
    BORDERS = "forget_borders",
    PREVIEW = "forget_preview",
    DERIVED = "forget_derived",
    LOAD = "forget_load",
    LIST = "forget_list",
    DUE = "forget_due",
    BATCH = "forget_batch",
    VERSIONS = "forget_versions",
    ANSWERS = "forget_answers",
    THREADS = "forget_threads",
    PROMPTS = "forget_prompts",
    PACKS = "forget_packs",
    TEXTS = "forget_texts",
    MARK = "forget_mark",
    AGENT = "forget_agent",
    ROWS = "forget_rows",
}

/// Collections that a forget operation writes, in addition to those that every change writes and
/// those that retention writes.
pub(super) const WRITES: [&str; 7] = [
    "recall_vectors",
    "forgets",
    "schedules",
    "tool_sets",
    "context_packs",
    "archival_parts",
    "prompts",
];

/// The texts for which a forget operation searches.
#[derive(Clone, Debug, Default)]
pub struct Sought {
    /// Texts; a row that contains one of them is found.
    pub texts: Vec<String>,
    /// Regular expressions of one text behind escapes of JSON; a row that matches all of them is
    /// found. Empty if the search leaves such texts out.
    pub pieces: Vec<String>,
}

/// An agent's rows, other than messages, that contain a forgotten text.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Quotes {
    /// Names of schedules.
    pub schedules: Vec<String>,
    /// Names of documents.
    pub documents: Vec<String>,
    /// Keys of tool sets.
    pub tool_sets: Vec<String>,
    /// Keys of context packs.
    pub packs: Vec<String>,
    /// Core versions, each with the places of the texts.
    pub versions: Vec<QuotingVersion>,
    /// Key of one core version whose summary contains the text; empty if there is no such version.
    pub summaries: Vec<String>,
    /// Keys of stored answers.
    pub answers: Vec<String>,
    /// Keys of prompts.
    pub prompts: Vec<String>,
}

/// A forget operation that made no progress for some time, so that another server must continue it.
#[derive(Clone, Debug, Deserialize)]
pub struct DueForgetting {
    /// Key of the forget operation.
    pub key: String,
    /// Key of the agent's core.
    pub agent_id: String,
    /// Tenant of the agent.
    pub tenant: String,
}

/// Outcome of forgetting a whole agent.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct AgentForgotten {
    /// Whether the agent is being moved to another database.
    #[serde(default)]
    pub moving: bool,
    /// The earlier forget operation for the whole agent, if there was one.
    pub seen: Option<Forgetting>,
    /// Revision of the core; `None` if there is no such agent.
    pub rev: Option<String>,
    /// Whether this request removed the core.
    pub done: bool,
}

/// A stored answer of an earlier call.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredAnswer {
    /// Key of the answer's record.
    pub key: String,
    /// The answer itself.
    pub response: Value,
}

/// A page of keys, and where the next page begins; `None` after the last page.
pub type Paged = (Vec<String>, Option<String>);

/// Returns the messages with the given positions or ids. Also returns the copies of those messages
/// whose ids are in `originals`.
pub async fn selected_messages(
    ro: &Ro,
    scope: &Scope,
    seqs: &[u64],
    ids: &[String],
    originals: &[String],
) -> Result<Vec<FoundMessage>> {
    ro.rows(FIND, binds!(scope; seqs, ids, originals, run_chars = FORGET_RUN_CHARS)).await
}

/// Returns the tool calls and tool results between two positions.
pub async fn calls_between(
    ro: &Ro,
    scope: &Scope,
    first: u64,
    last: u64,
) -> Result<Vec<CallPlace>> {
    let rows = (last + 1).saturating_sub(first);
    ro.rows(PAIRS, binds!(scope; first, last, limit = rows)).await
}

/// Examines one page of messages after a position. Returns the positions of the messages that
/// contain a sought text, and where the next page begins.
pub async fn matching(
    ro: &Ro,
    scope: &Scope,
    sought: &Sought,
    after: u64,
) -> Result<(Vec<u64>, Option<u64>)> {
    #[derive(Deserialize)]
    struct Row {
        last: Option<u64>,
        seen: u64,
        hits: Vec<u64>,
    }
    let Sought { texts, pieces } = sought;
    let binds = binds!(scope; texts, pieces, after, limit = FORGET_SCAN_ROWS);
    Ok(ro.row::<Row>(MATCH, binds).await?.map_or((Vec::new(), None), |row| {
        (row.hits, row.last.filter(|_| row.seen == FORGET_SCAN_ROWS))
    }))
}

/// Returns the rows, other than messages, that contain a sought text.
pub async fn quotes(ro: &Ro, scope: &Scope, sought: &Sought) -> Result<Quotes> {
    let Sought { texts, pieces } = sought;
    let binds = binds!(scope; texts, pieces, limit = FORGET_QUOTES_MAX);
    Ok(ro.row(QUOTES, binds).await?.unwrap_or_default())
}

/// A page of the ends of chunks.
#[derive(Clone, Debug)]
pub struct EndsPage {
    /// The ends of the chunks, in the order of their documents.
    pub chunks: Vec<ChunkEnds>,
    /// Document and index of the last chunk, after which the next page begins; `None` after the
    /// last page.
    pub next: Option<(String, i64)>,
}

/// Returns a page of the ends of an agent's chunks, after the chunk with the given document and
/// index. `head_chars` and `tail_chars` are the numbers of characters of the two ends.
pub async fn chunk_ends(
    ro: &Ro,
    scope: &Scope,
    (doc_id, after): (&str, i64),
    (head_chars, tail_chars): (u64, u64),
) -> Result<EndsPage> {
    let limit = (FORGET_ENDS_CHARS / (head_chars + tail_chars).max(1)).clamp(1, FORGET_SCAN_ROWS);
    let binds = binds!(scope; doc_id, after, head_chars, tail_chars, limit);
    let chunks: Vec<ChunkEnds> = ro.rows(BORDERS, binds).await?;
    let full = chunks.len() as u64 == limit;
    let last = chunks.last().filter(|_| full);
    let next = last.map(|one| (one.doc_id.clone(), i64::try_from(one.index).unwrap_or(i64::MAX)));
    Ok(EndsPage { chunks, next })
}

/// The rows of a forget operation whose effects are to be counted.
#[derive(Clone, Copy, Debug)]
pub struct Going<'a> {
    /// Keys of the messages.
    pub keys: &'a [String],
    /// Positions of the messages.
    pub seqs: &'a [u64],
    /// Names of the documents.
    pub documents: &'a [String],
    /// Keys of the core versions that lose a text of a block or the system text.
    pub versions: &'a [String],
    /// First revision of the summary that goes.
    pub summary_from: Option<u64>,
}

/// Returns the number of rows of each collection that a forget operation would remove or change.
pub async fn forget_counts(
    ro: &Ro,
    scope: &Scope,
    going: Going<'_>,
) -> Result<BTreeMap<String, u64>> {
    let ids: Vec<String> = going.keys.iter().map(|key| format!("messages/{key}")).collect();
    let binds = binds!(scope;
        ids, keys = going.keys, seqs = going.seqs, documents = going.documents,
        versions = going.versions, from = going.summary_from
    );
    Ok(ro.row(PREVIEW, binds).await?.unwrap_or_default())
}

/// Returns the names of documents that were made from the given messages.
pub async fn derived(ro: &Ro, scope: &Scope, ids: &[String]) -> Result<Vec<String>> {
    let ids: Vec<String> = ids.iter().map(|id| format!("messages/{id}")).collect();
    ro.rows(DERIVED, binds!(scope; ids, limit = FORGET_QUOTES_MAX)).await
}

/// Returns a forget operation by its key, if it exists.
pub async fn forgetting(ro: &Ro, scope: &Scope, key: &str) -> Result<Option<Forgetting>> {
    ro.row(LOAD, binds!(scope; key)).await
}

/// Returns a forget operation by its key, as the write socket sees it.
pub(super) async fn forgetting_in(rw: &Rw, scope: &Scope, key: &str) -> Result<Option<Forgetting>> {
    rw.row(LOAD, binds!(scope; key)).await
}

/// Returns the manifests of an agent's forget operations.
pub async fn forgettings(ro: &Ro, scope: &Scope) -> Result<Vec<Forgetting>> {
    ro.rows(LIST, binds!(scope; limit = FORGET_LISTED)).await
}

/// Returns the forget operations without progress since `before_ms`.
pub async fn due_forgettings(ro: &Ro, before_ms: u64, limit: u64) -> Result<Vec<DueForgetting>> {
    ro.rows(DUE, binds!(none; before_ms, limit)).await
}

/// Returns the current state of the given messages. The next step of the forget operation removes
/// the texts of these messages.
pub async fn standing(ro: &Ro, scope: &Scope, ids: &[String]) -> Result<Vec<StandingMessage>> {
    ro.rows(BATCH, binds!(scope; ids)).await
}

/// Returns a page of the keys of core versions that are to be forgotten. These are the versions
/// with a number of at most `until` whose summary has at least the revision `from`.
pub async fn summaries(ro: &Ro, scope: &Scope, from: u64, until: u64) -> Result<Paged> {
    let binds = binds!(scope; from, until, limit = FORGET_ROWS);
    let keys: Vec<String> = ro.rows(VERSIONS, binds).await?;
    let more = (keys.len() as u64 == FORGET_ROWS).then(String::new);
    Ok((keys, more))
}

/// Returns a page of stored answers.
pub async fn stored_answers(ro: &Ro, scope: &Scope, after: &str) -> Result<Vec<StoredAnswer>> {
    ro.rows(ANSWERS, binds!(scope; after, limit = FORGET_SCAN_ROWS)).await
}

/// Returns a page of the keys of the agent's messages that have a thread position.
pub async fn threaded(ro: &Ro, scope: &Scope, after: u64) -> Result<Paged> {
    #[derive(Deserialize)]
    struct Row {
        id: String,
        seq: u64,
    }
    let rows: Vec<Row> = ro.rows(THREADS, binds!(scope; after, limit = FORGET_SCAN_ROWS)).await?;
    let full = rows.len() as u64 == FORGET_SCAN_ROWS;
    let next = rows.last().filter(|_| full).map(|row| row.seq.to_string());
    Ok((rows.into_iter().map(|row| row.id).collect(), next))
}

/// A prompt whose options still exist, and the positions of its queue.
#[derive(Clone, Debug, Deserialize)]
pub struct ShownQueue {
    /// Key of the prompt.
    pub key: String,
    /// Number of the prompt.
    pub turn: u64,
    /// First position of the prompt's queue.
    pub head_seq: u64,
    /// First position after the prompt's queue.
    pub next_seq: u64,
}

/// Returns keys of context packs that name one of the given documents, and whether there may be
/// more.
pub async fn packs_with(
    ro: &Ro,
    scope: &Scope,
    documents: &[String],
) -> Result<(Vec<String>, bool)> {
    let keys: Vec<String> = ro.rows(PACKS, binds!(scope; documents, limit = FORGET_ROWS)).await?;
    let full = keys.len() as u64 == FORGET_ROWS;
    Ok((keys, full))
}

/// Returns a page of the prompts after a turn whose queue overlaps the given positions, and the
/// turn after which the next page begins; `None` after the last page.
pub async fn shown_between(
    ro: &Ro,
    scope: &Scope,
    after: u64,
    (first, last): (u64, u64),
) -> Result<(Vec<ShownQueue>, Option<u64>)> {
    let binds = binds!(scope; after, first, last, limit = FORGET_ROWS);
    let rows: Vec<ShownQueue> = ro.rows(PROMPTS, binds).await?;
    let full = rows.len() as u64 == FORGET_ROWS;
    let next = rows.last().filter(|_| full).map(|row| row.turn);
    Ok((rows, next))
}

/// Runs a step of a forget operation inside a running transaction. Returns `false` if another
/// server has already run the step.
pub(super) async fn forget(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    forget: &Forget,
    written: &mut Written<'_>,
) -> Result<bool> {
    let rows: Vec<Touched> = stream.rows(MARK, marks(rw, scope, &forget.row, forget.at)).await?;
    if rows.is_empty() {
        return Ok(false);
    }
    written.touched(rows)?;
    let beside = [
        &forget.threads,
        &forget.prompts,
        &forget.noticed,
        &forget.schedules,
        &forget.tool_sets,
        &forget.packs,
    ];
    let has_rows = forget.beside || beside.iter().any(|list| !list.is_empty());
    if !has_rows && forget.versions.is_empty() {
        return Ok(true);
    }
    let binds = binds!(scope;
        threads = forget.threads, prompts = forget.prompts, noticed = forget.noticed, versions = forget.versions, schedules = forget.schedules,
        tool_sets = forget.tool_sets, packs = forget.packs, beside = forget.beside,
        forgotten_at = forget.row.ended_at.as_deref().unwrap_or(&forget.row.begun_at),
        salt = salt(), sync = rw.sync
    );
    written.touched(stream.rows(TEXTS, binds).await?)?;
    Ok(true)
}

fn marks(rw: &Rw, scope: &Scope, row: &Forgetting, at: Option<u64>) -> Binds {
    binds!(scope; row, at, sync = rw.sync)
}

/// Removes the core of an agent, and writes the tombstone, which says that its other rows must be
/// removed. The same query ends the agent's other forget operations. Without a revision, the core
/// is removed as it is.
pub async fn forget_agent(
    rw: &Rw,
    scope: &Scope,
    row: &Forgetting,
    rev: Option<&str>,
) -> Result<AgentForgotten> {
    let mut found = AgentForgotten::default();
    for tries in 1..=FORGET_RACES_MAX {
        let mut row = row.clone();
        // Each step of a forget operation changes the core, so the core's revision also says that
        // the manifests are still those that are read now.
        let last = last_of(rw, scope).await?;
        let (now, last) = last.map(|last| last.noted_in(&mut row)).unzip();
        let others = other_manifests(rw, scope, Some(&row.begun_at)).await?;
        row.kept = Some(others.kept);
        seal(rw, &mut row);
        let last: Option<u64> = last.flatten();
        let (closing, ended) = (closing(&row, last), others.unended);
        let rev_read = rev.or(now.as_deref());
        let binds = binds!(scope; row, ended, last, closing, rev = rev_read, sync = rw.sync);
        found = match rw.row(AGENT, binds).await {
            Ok(found) => found.unwrap_or_default(),
            Err(fault) if fault.raced() && tries < FORGET_RACES_MAX => continue,
            Err(fault) => return Err(fault),
        };
        let raced = !found.done && !found.moving && found.seen.is_none() && found.rev.is_some();
        if !raced || rev.is_some_and(|rev| found.rev.as_deref() != Some(rev)) {
            break;
        }
    }
    if found.done {
        rw.heads.gone(scope);
    }
    Ok(found)
}

/// Removes a batch of rows of an agent that has no core any more. Returns the number of removed
/// rows in each collection.
pub async fn forget_rows(rw: &Rw, scope: &Scope) -> Result<BTreeMap<String, u64>> {
    let binds = binds!(scope; limit = FORGET_AGENT_ROWS, sync = rw.sync);
    Ok(rw.row(ROWS, binds).await?.unwrap_or_default())
}

/// Records one step of a forget operation for a whole agent. Returns `false` if another server has
/// already run this step.
pub async fn note_rows(rw: &Rw, scope: &Scope, row: &Forgetting, at: u64) -> Result<bool> {
    rw.wrote(MARK, marks(rw, scope, row, Some(at))).await
}
