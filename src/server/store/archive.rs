//! Stores the archive: loads its state before an ingest, and writes the archive's part of an
//! ingest's transaction.

use std::collections::{BTreeSet, HashMap};

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::beside::{Beside, beside};
use super::db::{Admin, Ro, Rw, binds};
use super::fault::{Fault, FaultKind, Result};
use super::ledger::{Touched, Written, salt};
use super::query::queries;
use super::recall::UNKNOWN_MAX;
use super::transaction::Stream;
use crate::limits::ARCHIVAL_TAIL_MS;
use crate::store::limits::INGEST_ROWS;
use vctx_core::limits::ARCHIVAL_TAIL_ROWS_MAX;
use vctx_core::memory::archive::{
    Fate, FoundPassage, Ingest, Manifest, Metric, Passage, StagedPart, VectorSetting, part_key,
};
use vctx_core::memory::core::Core;
use vctx_core::memory::export::RowKind;
use vctx_core::search::{
    Conditions, ListMeasurement, LookCounts, NearPlan, NearQuery, NearResult, NearRows, WordQuery,
    WordResult, related_words,
};
use vctx_core::trust::Scope;

/// Maximum number of citations that one query of an ingest removes.
const CITES_TRIM_ROWS: u64 = 1_000;
/// Maximum number of queries that remove citations in one ingest.
const CITES_TRIMS_MAX: usize = 1_000;
/// Number of chunks that a word search ranks: three times as many as a search shows, since ranking
/// changes their order. It is independent of the requested number of results, so that a short
/// result list is always the beginning of a longer one.
const ARCHIVAL_CANDIDATES: u64 = 120;
/// Minimum length in characters of a stem that no chunk contains and for which a word search looks
/// for similar words. Shorter stems are similar to too many others.
const UNKNOWN_STEM_CHARS_MIN: usize = 4;
/// Number of characters at the beginning of a chunk whose tokens a word search compares with the
/// tokens of the query text. The rank by BM25 considers the whole chunk.
const ARCHIVAL_CHARS_MAX: usize = 8_192;

queries! {
    LOAD = "archive_load",
    OPEN = "archive_open",
    SETTING = "setting_write",
    SETTING_LOAD = "setting_load",
    SETTING_LISTS = "setting_lists",
    EXACT_COSINE = "passage_exact_cosine",
    EXACT_L2 = "passage_exact_l2",
    NEAR_COSINE = "passage_near_cosine",
    NEAR_L2 = "passage_near_l2",
    FIRST_COSINE = "passage_near_cosine_first",
    FIRST_L2 = "passage_near_l2_first",
    SAMPLE = "sample_load",
    SAMPLE_COSINE = "sample_near_cosine",
    SAMPLE_L2 = "sample_near_l2",
    SCANNED_COSINE = "sample_scanned_cosine",
    SCANNED_L2 = "sample_scanned_l2",
    MEASURED = "setting_measured",
    WORDS = "passage_words",
    PASSAGES = "passage_load",
    DERIVED_TRIM = "derived_trim",
    DERIVED = "derived_append",
    TRIM = "passage_trim",
    APPEND = "passage_append",
    CITES_TRIM = "cites_trim",
    MANIFEST = "manifest_write",
    MANIFEST_REMOVE = "manifest_remove",
    PART_LIST = "part_list",
    PART_LOAD = "part_load",
    PART_WRITE = "part_write",
    PART_TRIM = "part_trim",
}

/// Collections that an ingest writes in addition to those of every change.
pub(super) const WRITES: [&str; 4] =
    ["archival_docs", "archival_manifests", "archival_parts", "vctx_meta"];

/// The archive's state on which the decisions of an ingest depend.
#[derive(Debug, Deserialize)]
pub struct ArchiveLoaded {
    /// Manifest of the document's last ingest, if any.
    pub manifest: Option<Manifest>,
    /// The vector setting of this database.
    pub setting: Option<VectorSetting>,
    /// Ids of the agent's messages that the ingest cites.
    pub messages: Vec<String>,
}

/// Loads the state of the archive on which the decisions of an ingest depend.
pub async fn load_archive(
    ro: &Ro,
    scope: &Scope,
    manifest_key: &str,
    messages: &[String],
) -> Result<ArchiveLoaded> {
    let rows: Vec<ArchiveLoaded> = ro.rows(LOAD, binds!(scope; manifest_key, messages)).await?;
    let none = ArchiveLoaded { manifest: None, setting: None, messages: Vec::new() };
    Ok(rows.into_iter().next().unwrap_or(none))
}

/// State of the archive's vector index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorIndexState {
    /// Id of the vector index; `None` if there is none.
    pub id: Option<String>,
    /// Name of the vector index.
    pub name: String,
    /// The index's `trainingState`, or `ready` if the database's release reports none (before
    /// 3.12.9 an index is trained during creation).
    pub training_state: String,
    /// Error that the database reports for the index, or empty.
    pub error_message: String,
    /// Number of lists in the index (`nLists`).
    pub n_lists: Option<u64>,
    /// Whether the index also accepts chunks without a vector; indexes of ArangoDB releases before
    /// 3.12.6 do not.
    pub sparse: bool,
    /// Number of components of a vector in the index.
    pub dimension: Option<u64>,
    /// Metric of the vector index.
    pub metric: String,
    /// The newer index that will replace this one; until then, searches use this one.
    pub next: Option<Box<VectorIndexState>>,
}

impl VectorIndexState {
    /// Returns whether a search can use the index.
    pub fn ready(&self) -> bool {
        self.id.is_some() && self.training_state == "ready"
    }

    /// Returns whether the training failed; ArangoDB repeats a failed training.
    pub fn failed(&self) -> bool {
        self.training_state == "unusable" && !self.error_message.is_empty()
    }
}

/// Chunk fields that a search's filters compare.
const FILTERED: [&str; 4] = ["agent_id", "doc_id", "freshness_ts", "provenance.source"];
const INDEXES: &str = "_api/index?collection=archival_docs";

/// Returns the vector index over an attribute. Sends a raw request, since arangors has no type for
/// vector indexes.
pub async fn vector_index(ro: &Ro, attribute: &str) -> Result<VectorIndexState> {
    Ok(vector_index_in(&ro.call(Method::GET, INDEXES).await?, attribute))
}

/// Returns the vector index over the current vectors; before the first ingest, returns an empty
/// state.
pub async fn serving_index(ro: &Ro) -> Result<VectorIndexState> {
    match vector_setting(ro).await? {
        Some(setting) => vector_index(ro, &setting.attribute()).await,
        None => Ok(VectorIndexState::default()),
    }
}

/// Finds the vector index over an attribute in the list of all indexes.
fn vector_index_in(answer: &Value, attribute: &str) -> VectorIndexState {
    let indexes = answer["indexes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let over = |index: &&Value| index["type"] == "vector" && index["fields"][0] == attribute;
    let mut found: Vec<VectorIndexState> = indexes.iter().filter(over).map(one_index).collect();
    // A query tries vector indexes in ascending order of their numbers.
    found.sort_by_key(|index| {
        let number = index.id.as_deref().and_then(|id| id.rsplit('/').next()?.parse::<u64>().ok());
        number.unwrap_or(u64::MAX)
    });
    let mut found = found.into_iter();
    let Some(first) = found.next() else { return VectorIndexState::default() };
    VectorIndexState { next: found.next().map(Box::new), ..first }
}

fn one_index(index: &Value) -> VectorIndexState {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    VectorIndexState {
        id: Some(text(&index["id"])),
        name: text(&index["name"]),
        training_state: index["trainingState"].as_str().unwrap_or("ready").to_owned(),
        error_message: text(&index["errorMessage"]),
        n_lists: index["params"]["nLists"].as_u64(),
        dimension: index["params"]["dimension"].as_u64(),
        metric: text(&index["params"]["metric"]),
        sparse: index["sparse"] == true,
        next: None,
    }
}

/// Returns the number of chunks of all agents.
pub async fn vector_rows(admin: &Admin) -> Result<u64> {
    let (_, answer) = admin.call(Method::GET, "_api/collection/archival_docs/count", None).await?;
    Ok(answer["count"].as_u64().unwrap_or(0))
}

/// Creates a vector index for the vectors that were made with one vector setting. The new index
/// gets another name than the existing index `there`. The index is sparse, since a chunk may have
/// only vectors of another setting.
pub async fn make_index_of(
    admin: &Admin,
    setting: &VectorSetting,
    there: &VectorIndexState,
    n_lists: u64,
    filters_first: bool,
) -> Result<()> {
    let first = match setting.number {
        0 | 1 => "passages_by_vector".to_owned(),
        number => format!("passages_by_vector_{number}"),
    };
    let name = if first == there.name { format!("{first}_anew") } else { first };
    let mut definition = json!({
        "type": "vector", "name": name, "fields": [setting.attribute()], "inBackground": true, "sparse": true,
        "params": {"metric": setting.metric, "dimension": setting.dimension, "nLists": n_lists,
            "defaultNProbe": setting.default_n_probe},
    });
    if filters_first {
        // The index also stores the filtered fields (ArangoDB ≥ 3.12.7), so that a search can
        // exclude chunks without reading them.
        definition["storedValues"] = json!(FILTERED);
    }
    make_vector_index(admin, INDEXES, &definition).await
}

/// Creates a vector index. Over many rows this takes longer than the server waits for an answer
/// (ArangoDB's coordinator waits for 300 s). If no answer comes but an index with this name exists,
/// the creation is still running; the function then returns success.
pub(super) async fn make_vector_index(
    admin: &Admin,
    indexes: &str,
    definition: &Value,
) -> Result<()> {
    let unanswered = match admin.define(Method::POST, indexes, Some(definition)).await {
        Err(fault) if fault.kind == FaultKind::Lost => fault,
        answered => return answered.map(|_| ()),
    };
    let (_, there) = admin.call(Method::GET, indexes, None).await?;
    let there = there["indexes"].as_array().map(Vec::as_slice).unwrap_or_default();
    if there.iter().any(|index| index["name"] == definition["name"]) {
        return Ok(());
    }
    Err(unanswered)
}

/// Drops a vector index; does nothing if it is missing.
pub async fn drop_vector_index(admin: &Admin, id: &str) -> Result<()> {
    match admin.define(Method::DELETE, &format!("_api/index/{id}"), None).await {
        Err(Fault { kind: FaultKind::Arango { num: INDEX_NOT_FOUND, .. }, .. }) | Ok(_) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// ArangoDB's error number for an index that does not exist.
const INDEX_NOT_FOUND: u16 = 1212;

/// Stores the number of lists of a setting's vector index, and how many of them a search must read.
/// Stores nothing if another setting has replaced this one.
pub async fn note_lists(
    admin: &Admin,
    setting: &VectorSetting,
    n_lists: u64,
    measured: Option<&ListMeasurement>,
) -> Result<()> {
    let binds = binds!(none; number = setting.number, n_lists, measured, sync = true);
    admin.rows::<Value>(SETTING_LISTS, binds).await?;
    Ok(())
}

/// Returns the archive's vector index over an attribute, read with an administrator's connection.
pub async fn index_state(admin: &Admin, attribute: &str) -> Result<VectorIndexState> {
    Ok(vector_index_in(&admin.call(Method::GET, INDEXES, None).await?.1, attribute))
}

/// Returns this database's vector setting, read with an administrator's connection.
pub async fn setting_of(admin: &Admin) -> Result<Option<VectorSetting>> {
    Ok(admin.rows(SETTING_LOAD, binds!(none;)).await?.into_iter().next())
}

/// Returns a sample of chunk vectors, beginning at a key.
pub async fn sample(
    admin: &Admin,
    attribute: &str,
    from: &str,
    limit: u64,
) -> Result<Vec<Vec<f64>>> {
    admin.rows(SAMPLE, binds!(none; vector = attribute, from, limit)).await
}

/// Returns the scores of the chunks nearest to a vector; the search reads the given number of the
/// index's lists.
pub async fn sample_near(
    admin: &Admin,
    setting: &VectorSetting,
    vector: &[f64],
    n_probe: u64,
    limit: u64,
) -> Result<Vec<f64>> {
    let query = match setting.metric {
        Metric::Cosine => SAMPLE_COSINE,
        Metric::L2 => SAMPLE_L2,
    };
    let binds = binds!(none; vector = setting.attribute(), query_vector = vector, n_probe, limit);
    admin.rows(query, binds).await
}

/// Returns how many chunks a search for a vector reads in the index's lists, at most `rows`.
pub async fn sample_scanned(
    admin: &Admin,
    setting: &VectorSetting,
    vector: &[f64],
    n_probe: u64,
    rows: u64,
) -> Result<u64> {
    let query = match setting.metric {
        Metric::Cosine => SCANNED_COSINE,
        Metric::L2 => SCANNED_L2,
    };
    let binds = binds!(none; vector = setting.attribute(), query_vector = vector, n_probe, rows);
    let counts: Vec<u64> = admin.rows(query, binds).await?;
    Ok(counts.first().copied().unwrap_or(0))
}

/// Stores how many of the index's lists a search must read.
pub async fn note_measured(admin: &Admin, measured: &ListMeasurement) -> Result<()> {
    admin.rows::<Value>(MEASURED, binds!(none; measured, sync = true)).await?;
    Ok(())
}

/// The core and the vector setting, which a search of the archive loads before all other data.
#[derive(Debug, Default, Deserialize)]
pub struct ArchiveOpened {
    /// The agent's core; `None` if the agent does not exist.
    pub core: Option<Core>,
    /// This database's vector setting; `None` before the first ingest.
    pub setting: Option<VectorSetting>,
}

/// Loads an agent's core and this database's vector setting.
pub async fn open_archive(ro: &Ro, scope: &Scope) -> Result<ArchiveOpened> {
    Ok(ro.row(OPEN, binds!(scope;)).await?.unwrap_or_default())
}

/// Returns this database's vector setting, if any.
pub async fn vector_setting(ro: &Ro) -> Result<Option<VectorSetting>> {
    ro.row(SETTING_LOAD, binds!(none;)).await
}

/// Writes this database's vector setting, unless there is one already.
pub async fn write_setting(rw: &Rw, setting: &VectorSetting) -> Result<()> {
    match rw.rows::<Value>(SETTING, binds!(none; setting, sync = rw.sync)).await {
        Err(fault) if !fault.is_duplicate() => Err(fault),
        _ => Ok(()),
    }
}

/// Error numbers of a search that cannot use the vector index: it was dropped after the query was
/// planned (1212), no index fits (1554), or it is not trained (1555).
pub(super) const INDEX_UNUSABLE: [u16; 3] = [INDEX_NOT_FOUND, 1554, 1555];

/// Returns the chunks nearest to a vector. The plan in `near` decides whether the search is exact
/// or uses the vector index.
pub async fn nearest(ro: &Ro, scope: &Scope, near: &NearQuery) -> Result<NearResult> {
    let filter = &near.filter;
    match near.plan {
        NearPlan::Exact => {
            let query = match near.metric {
                Metric::Cosine => EXACT_COSINE,
                Metric::L2 => EXACT_L2,
            };
            let binds = binds!(scope;
                vector = near.attribute, query_vector = near.query, limit = near.k,
                source = filter.source, doc_id = filter.doc_id, doc_id_prefix = prefix_of(filter),
                labels = filter.labels, fresh_after = filter.fresh_after
            );
            let rows: Vec<FoundPassage> = ro.rows(query, binds).await?;
            let fetched = near.before.fetched + rows.len() as u64;
            let looked = LookCounts { fetched, ..near.before };
            Ok(NearResult { plan: near.plan, k: near.k, rows: Some(rows), looked })
        }
        NearPlan::Vector { n_probe, fetch } | NearPlan::First { n_probe, fetch } => {
            let first = matches!(near.plan, NearPlan::First { .. });
            let query = match (near.metric, first) {
                (Metric::Cosine, false) => NEAR_COSINE,
                (Metric::L2, false) => NEAR_L2,
                (Metric::Cosine, true) => FIRST_COSINE,
                (Metric::L2, true) => FIRST_L2,
            };
            let mut binds = binds!(scope;
                vector = near.attribute, query_vector = near.query, n_probe, fetch,
                source = filter.source, doc_id = filter.doc_id, doc_id_prefix = prefix_of(filter),
                labels = filter.labels, fresh_after = filter.fresh_after
            );
            if !first {
                binds.0.insert("rows_max", near.rows_max.into());
            }
            match ro.rows::<NearRows>(query, binds).await {
                Ok(rows) => Ok(looked_through(near, rows.into_iter().next())),
                Err(Fault { kind: FaultKind::Arango { num, .. }, .. })
                    if INDEX_UNUSABLE.contains(&num) =>
                {
                    Ok(NearResult { plan: near.plan, k: near.k, rows: None, looked: near.before })
                }
                Err(fault) => Err(fault),
            }
        }
    }
}

/// A beginning that no name of a document has, since names have no control characters. It stands
/// for no condition, because a view refuses a prefix that is null.
const NO_PREFIX: &str = "\u{1}";

fn prefix_of(filter: &Conditions) -> &str {
    filter.doc_id_prefix.as_deref().unwrap_or(NO_PREFIX)
}

fn looked_through(near: &NearQuery, rows: Option<NearRows>) -> NearResult {
    let found = rows.unwrap_or(NearRows { fetched: 0, own: 0, rows: Vec::new() });
    let looked = LookCounts {
        fetched: near.before.fetched + found.fetched,
        dropped: near.before.dropped + found.fetched.saturating_sub(found.rows.len() as u64),
        own_dropped: near.before.own_dropped + found.own.saturating_sub(found.rows.len() as u64),
        ..near.before
    };
    NearResult { plan: near.plan, k: near.k, rows: Some(found.rows), looked }
}

/// Returns the chunks that contain an identifier from the query text. If there are no such chunks,
/// returns the chunks that contain a word of the query text or a similar word. Includes chunks that
/// are too recent for the view.
pub async fn worded(ro: &Ro, scope: &Scope, words: &WordQuery) -> Result<WordResult> {
    let filter = &words.filter;
    let both = words.identifiers.first().zip(words.identifiers.last());
    let pieces = words.words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let asked: Vec<String> = pieces.map(str::to_lowercase).collect();
    let binds = binds!(scope;
        text = words.text, words = words.words, related = related_words(&asked).join(" "),
        unknown_max = UNKNOWN_MAX, unknown_chars_min = UNKNOWN_STEM_CHARS_MIN, identifiers = both.iter().collect::<Vec<_>>(),
        vector = words.attribute, query_vector = words.vector, metric = words.metric,
        limit = ARCHIVAL_CANDIDATES, chars_max = ARCHIVAL_CHARS_MAX, source = filter.source,
        doc_id = filter.doc_id, doc_id_prefix = prefix_of(filter), labels = filter.labels,
        fresh_after = filter.fresh_after,
        since_ms = words.now_ms.saturating_sub(ARCHIVAL_TAIL_MS),
        recent_max = ARCHIVAL_TAIL_ROWS_MAX
    );
    Ok(ro.row(WORDS, binds).await?.unwrap_or_default())
}

/// Returns the agent's chunks with the given keys, in any order.
pub async fn passages(ro: &Ro, scope: &Scope, keys: &[String]) -> Result<Vec<FoundPassage>> {
    ro.rows(PASSAGES, binds!(scope; keys)).await
}

/// Removes the chunks of a document's earlier ingest and the edges from them. Edges to a chunk stay
/// if the chunk is written again.
async fn trim(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    ingest: &Ingest,
    written: &mut Written<'_>,
) -> Result<()> {
    let doc_id = &ingest.manifest.doc_id;
    let kept: Vec<&str> = ingest.passages.iter().map(|p| p.key.as_str()).collect();
    let mut trims = 0;
    loop {
        let cited = binds!(scope; doc_id, kept, limit = CITES_TRIM_ROWS, sync = rw.sync);
        let gone: Vec<Touched> = stream.rows(CITES_TRIM, cited).await?;
        let removed = gone.len() as u64;
        written.touched(gone)?;
        trims += 1;
        if removed < CITES_TRIM_ROWS {
            break;
        }
        if trims == CITES_TRIMS_MAX {
            let text = format!(
                "more than {CITES_TRIMS_MAX} times {CITES_TRIM_ROWS} citations of one document"
            );
            return Err(Fault::new(FaultKind::Garbage, text));
        }
    }
    for query in [DERIVED_TRIM, TRIM] {
        written.touched(stream.rows(query, binds!(scope; doc_id, sync = rw.sync)).await?)?;
    }
    Ok(())
}

/// Returns the numbers of an upload's stored parts.
pub async fn parts(ro: &Ro, scope: &Scope, upload: &str) -> Result<Vec<usize>> {
    ro.rows(PART_LIST, binds!(scope; upload)).await
}

/// Returns a part of an upload, or `None` if it is missing.
pub async fn part(ro: &Ro, scope: &Scope, upload: &str, part: usize) -> Result<Option<StagedPart>> {
    ro.row(PART_LOAD, binds!(scope; upload, part)).await
}

/// Stores a part of an upload, in place of an earlier part with this number. The part expires at
/// `expires_at`, in seconds since 1970.
pub async fn keep_part(
    rw: &Rw,
    scope: &Scope,
    upload: &str,
    part: usize,
    content: &StagedPart,
    expires_at: u64,
) -> Result<()> {
    let place = json!({"_key": part_key(scope.key(), upload, part), "upload": upload, "part": part,
        "expires_at": expires_at});
    let binds = binds!(scope; place, content, sync = rw.sync);
    let writes = &["archival_parts"];
    let work = Beside { what: "part", writes, query: PART_WRITE, binds };
    beside(rw, scope, work, |rows: Vec<Touched>, written| written.touched(rows)).await
}

/// Writes the archive's part of an ingest inside a running transaction; the core, the call's record
/// and the events follow in the same transaction. Returns `false` if the vectors do not belong to
/// the current vector setting; the caller must then abort the transaction.
pub(super) async fn write(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    ingest: &Ingest,
    written: &mut Written<'_>,
) -> Result<bool> {
    if let Some(setting) = &ingest.setting {
        stream.rows::<Value>(SETTING, binds!(none; setting, sync = rw.sync)).await?;
    }
    if ingest.fate != Fate::New {
        trim(stream, rw, scope, ingest, written).await?;
    }
    if let Some(upload) = &ingest.upload {
        written.touched(stream.rows(PART_TRIM, binds!(scope; upload, sync = rw.sync)).await?)?;
    }
    if ingest.fate == Fate::Removed {
        let binds = binds!(scope; manifest_key = ingest.manifest.key, sync = rw.sync);
        written.touched(stream.rows(MANIFEST_REMOVE, binds).await?)?;
        return Ok(true);
    }
    for some in ingest.passages.chunks(INGEST_ROWS) {
        let mut passages = Vec::with_capacity(some.len());
        for passage in some {
            let mut row = json!(passage);
            row["salt"] = salt();
            written.row(RowKind::Passages, row.clone(), None)?;
            passages.push(row);
        }
        stream.rows::<Value>(APPEND, binds!(scope; passages, sync = rw.sync)).await?;
    }
    append_derived(stream, rw, scope, ingest, written).await?;
    let mut manifest = json!(ingest.manifest);
    manifest["salt"] = salt();
    let binds = binds!(scope; manifest, numbers = ingest.numbers, sync = rw.sync);
    let rows: Vec<Touched> = stream.rows(MANIFEST, binds).await?;
    let is_written = !rows.is_empty();
    written.touched(rows)?;
    Ok(is_written)
}

/// Writes the edges from the chunks of a document to the messages from which they were made, as far
/// as these messages exist.
async fn append_derived(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    ingest: &Ingest,
    written: &mut Written<'_>,
) -> Result<()> {
    if ingest.derived.is_empty() {
        return Ok(());
    }
    let binds = binds!(scope; derived = ingest.derived, sync = rw.sync);
    let keys: BTreeSet<String> = stream.rows(DERIVED, binds).await?.into_iter().collect();
    let passages: HashMap<String, &Passage> = ingest
        .passages
        .iter()
        .map(|passage| (format!("archival_docs/{}", passage.key), passage))
        .collect();
    for edge in ingest.derived.iter().filter(|edge| keys.contains(&edge.key)) {
        let mut row = json!(edge);
        if let Some(passage) = passages.get(&edge.from) {
            row["chunk"] = json!({"doc_id": passage.doc_id, "chunk_id": passage.chunk_id});
        }
        written.row(RowKind::Derived, row, None)?;
    }
    Ok(())
}
