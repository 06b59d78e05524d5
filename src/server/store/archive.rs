//! The archive: what stands there before an ingest, and the part of an ingest's transaction that writes there.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::db::{Admin, Binds, Ro, Rw};
use super::fault::{Fault, FaultKind};
use super::query::{Query, query};
use super::transaction::Stream;
use vctx_core::limits::{
    ARCHIVAL_CANDIDATES, ARCHIVAL_CHARS_MAX, ARCHIVAL_TAIL_MS, ARCHIVAL_TAIL_ROWS_MAX,
    CITES_TRIM_ROWS, CITES_TRIMS_MAX, INGEST_ROWS,
};
use vctx_core::memory::archive::{
    Fate, FoundPassage, Ingest, Manifest, Metric, StagedPart, VectorSetting, part_key,
};
use vctx_core::memory::core::Core;
use vctx_core::policy::{
    Looked, Measured, Near, NearPlan, NearRows, Nearest, Scope, Worded, Words,
};

/// Manifest, setting and messages before an ingest.
pub(super) const LOAD: Query = query!("archive_load");
/// A core and the setting.
pub(super) const OPEN: Query = query!("archive_open");
/// The setting.
pub(super) const SETTING: Query = query!("setting_write");
/// The setting, read.
pub(super) const SETTING_LOAD: Query = query!("setting_load");
/// Cells of the index.
pub(super) const SETTING_LISTS: Query = query!("setting_lists");
/// Chunks compared one by one.
pub(super) const EXACT_COSINE: Query = query!("passage_exact_cosine");
/// The same by distance.
pub(super) const EXACT_L2: Query = query!("passage_exact_l2");
/// Chunks through the vector index.
pub(super) const NEAR_COSINE: Query = query!("passage_near_cosine");
/// The same by distance.
pub(super) const NEAR_L2: Query = query!("passage_near_l2");
/// Chunks through the vector index, conditions first.
pub(super) const FIRST_COSINE: Query = query!("passage_near_cosine_first");
/// The same by distance.
pub(super) const FIRST_L2: Query = query!("passage_near_l2_first");
/// Vectors to measure with.
pub(super) const SAMPLE: Query = query!("sample_load");
/// How near the nearest of all are.
pub(super) const SAMPLE_COSINE: Query = query!("sample_near_cosine");
/// The same by distance.
pub(super) const SAMPLE_L2: Query = query!("sample_near_l2");
/// How many the cells near a vector hold.
pub(super) const SCANNED_COSINE: Query = query!("sample_scanned_cosine");
/// The same by distance.
pub(super) const SCANNED_L2: Query = query!("sample_scanned_l2");
/// What was measured.
pub(super) const MEASURED: Query = query!("setting_measured");
/// Chunks with words of a question.
pub(super) const WORDS: Query = query!("passage_words");
/// Chunks by their keys.
pub(super) const PASSAGES: Query = query!("passage_load");
/// Edges of an earlier ingest go.
pub(super) const DERIVED_TRIM: Query = query!("derived_trim");
/// Edges to messages.
pub(super) const DERIVED: Query = query!("derived_append");
/// Chunks of an earlier ingest go.
pub(super) const TRIM: Query = query!("passage_trim");
/// Chunks.
pub(super) const APPEND: Query = query!("passage_append");
/// Citations of chunks that go.
pub(super) const CITES_TRIM: Query = query!("cites_trim");
/// The manifest.
pub(super) const MANIFEST: Query = query!("manifest_write");
/// The manifest goes.
pub(super) const MANIFEST_REMOVE: Query = query!("manifest_remove");
/// Parts that are kept.
pub(super) const PART_LIST: Query = query!("part_list");
/// One of them.
pub(super) const PART_LOAD: Query = query!("part_load");
/// One more.
pub(super) const PART_WRITE: Query = query!("part_write");
/// All of them go.
pub(super) const PART_TRIM: Query = query!("part_trim");

/// Collections that only an ingest writes.
pub(super) const WRITES: [&str; 4] =
    ["archival_docs", "archival_manifests", "archival_parts", "vctx_meta"];

/// What stands in the archive before an ingest.
#[derive(Debug, Deserialize)]
pub struct ArchiveLoaded {
    /// The document as it was last taken in.
    pub manifest: Option<Manifest>,
    /// What the vectors of this database have in common.
    pub setting: Option<VectorSetting>,
    /// The named messages that are the agent's.
    pub messages: Vec<String>,
}

/// Loads what an ingest builds on.
pub async fn load_archive(
    ro: &Ro,
    scope: &Scope,
    manifest_key: &str,
    messages: &[String],
) -> Result<ArchiveLoaded, Fault> {
    let binds =
        Binds::of(scope, [("manifest_key", manifest_key.into()), ("messages", json!(messages))]);
    let rows: Vec<ArchiveLoaded> = ro.rows(LOAD, binds).await?;
    let none = ArchiveLoaded { manifest: None, setting: None, messages: Vec::new() };
    Ok(rows.into_iter().next().unwrap_or(none))
}

/// How far the vector index of the archive is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorIndexState {
    /// Its number; none if there is no such index.
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// `trainingState`, or `ready` where the release knows no states (before 3.12.9 an index is trained when it is made).
    pub training_state: String,
    /// What went wrong with it.
    pub error_message: String,
    /// Cells.
    pub n_lists: Option<u64>,
    /// Whether it takes chunks without such a vector; those of an earlier release do not.
    pub sparse: bool,
    /// Components of its vectors.
    pub dimension: Option<u64>,
    /// How it compares.
    pub metric: String,
    /// The one that will take its place: made later, so that searches still go through the first.
    pub next: Option<Box<VectorIndexState>>,
}

impl VectorIndexState {
    /// Whether a search can use it.
    pub fn ready(&self) -> bool {
        self.id.is_some() && self.training_state == "ready"
    }

    /// Whether its training failed; ArangoDB tries again by itself.
    pub fn failed(&self) -> bool {
        self.training_state == "unusable" && !self.error_message.is_empty()
    }
}

/// What conditions of a search ask for.
const FILTERED: [&str; 4] = ["agent_id", "doc_id", "freshness_ts", "provenance.source"];
const INDEXES: &str = "_api/index?collection=archival_docs";

/// The vector index over vectors of that name. Raw, because arangors knows no vector index.
pub async fn vector_index(ro: &Ro, attribute: &str) -> Result<VectorIndexState, Fault> {
    Ok(vector_index_in(&ro.call(Method::GET, INDEXES).await?, attribute))
}

/// The same of the vectors that serve now; none before the first ingest.
pub async fn serving_index(ro: &Ro) -> Result<VectorIndexState, Fault> {
    match vector_setting(ro).await? {
        Some(setting) => vector_index(ro, &setting.attribute()).await,
        None => Ok(VectorIndexState::default()),
    }
}

/// The vector index over vectors of that name.
fn vector_index_in(answer: &Value, attribute: &str) -> VectorIndexState {
    let indexes = answer["indexes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let over = |index: &&Value| index["type"] == "vector" && index["fields"][0] == attribute;
    let mut found: Vec<VectorIndexState> = indexes.iter().filter(over).map(one_index).collect();
    // Numbers rise; those of a query are tried in this order.
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

/// Chunks of all agents.
pub async fn vector_rows(admin: &Admin) -> Result<u64, Fault> {
    let (_, answer) = admin.call(Method::GET, "_api/collection/archival_docs/count", None).await?;
    Ok(answer["count"].as_u64().unwrap_or(0))
}

/// Makes a vector index over the vectors of a setting, under another name than the one that is `there`, if any. It is sparse: a chunk may have
/// vectors of another setting alone.
pub async fn make_index_of(
    admin: &Admin,
    setting: &VectorSetting,
    there: &VectorIndexState,
    n_lists: u64,
    filters_first: bool,
) -> Result<(), Fault> {
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
        // What conditions ask for lies in the index then (ArangoDB ≥ 3.12.7), so that it drops what does not pass without reading it.
        definition["storedValues"] = json!(FILTERED);
    }
    make_vector_index(admin, INDEXES, &definition).await
}

/// Has the database make a vector index. Over much of what is there that takes longer than an answer may take (ArangoDB's coordinator
/// waits for 300 s): one that is known under its name by then is being made, and whoever asks how far it is goes on.
pub(super) async fn make_vector_index(
    admin: &Admin,
    indexes: &str,
    definition: &Value,
) -> Result<(), Fault> {
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

/// Takes a vector index away; one that is gone already is no fault.
pub async fn drop_vector_index(admin: &Admin, id: &str) -> Result<(), Fault> {
    match admin.define(Method::DELETE, &format!("_api/index/{id}"), None).await {
        Err(Fault { kind: FaultKind::Arango { num: INDEX_NOT_FOUND, .. }, .. }) | Ok(_) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// ArangoDB's number for an index that is not there.
const INDEX_NOT_FOUND: u16 = 1212;

/// Notes how many cells the index over the vectors of a setting has, and what is known of how many of them a search needs; not if another
/// setting serves by now.
pub async fn note_lists(
    admin: &Admin,
    setting: &VectorSetting,
    n_lists: u64,
    measured: Option<&Measured>,
) -> Result<(), Fault> {
    let binds = [
        ("number", setting.number.into()),
        ("n_lists", n_lists.into()),
        ("measured", json!(measured)),
        ("sync", true.into()),
    ];
    admin.rows::<Value>(SETTING_LISTS, Binds::unscoped(binds)).await?;
    Ok(())
}

/// The vector index of the archive, as an administrator sees it.
pub async fn index_state(admin: &Admin, attribute: &str) -> Result<VectorIndexState, Fault> {
    Ok(vector_index_in(&admin.call(Method::GET, INDEXES, None).await?.1, attribute))
}

/// What the vectors of this database have in common, as an administrator sees it.
pub async fn setting_of(admin: &Admin) -> Result<Option<VectorSetting>, Fault> {
    Ok(admin.rows(SETTING_LOAD, Binds::unscoped([])).await?.into_iter().next())
}

/// Some vectors of the archive, from a key on.
pub async fn sample(
    admin: &Admin,
    attribute: &str,
    from: &str,
    limit: u64,
) -> Result<Vec<Vec<f64>>, Fault> {
    let binds = [("vector", attribute.into()), ("from", from.into()), ("limit", limit.into())];
    admin.rows(SAMPLE, Binds::unscoped(binds)).await
}

/// How near the nearest of all chunks are to a vector, through so many cells.
pub async fn sample_near(
    admin: &Admin,
    setting: &VectorSetting,
    vector: &[f64],
    n_probe: u64,
    limit: u64,
) -> Result<Vec<f64>, Fault> {
    let query = match setting.metric {
        Metric::Cosine => SAMPLE_COSINE,
        Metric::L2 => SAMPLE_L2,
    };
    let binds = [
        ("vector", setting.attribute().into()),
        ("query_vector", json!(vector)),
        ("n_probe", n_probe.into()),
        ("limit", limit.into()),
    ];
    admin.rows(query, Binds::unscoped(binds)).await
}

/// How many chunks lie in the cells that a search for a vector looks into; `rows` is the most that there can be.
pub async fn sample_scanned(
    admin: &Admin,
    setting: &VectorSetting,
    vector: &[f64],
    n_probe: u64,
    rows: u64,
) -> Result<u64, Fault> {
    let query = match setting.metric {
        Metric::Cosine => SCANNED_COSINE,
        Metric::L2 => SCANNED_L2,
    };
    let binds = [
        ("vector", setting.attribute().into()),
        ("query_vector", json!(vector)),
        ("n_probe", n_probe.into()),
        ("rows", rows.into()),
    ];
    let counts: Vec<u64> = admin.rows(query, Binds::unscoped(binds)).await?;
    Ok(counts.first().copied().unwrap_or(0))
}

/// Notes what was measured.
pub async fn note_measured(admin: &Admin, measured: &Measured) -> Result<(), Fault> {
    let binds = Binds::unscoped([("measured", json!(measured)), ("sync", true.into())]);
    admin.rows::<Value>(MEASURED, binds).await?;
    Ok(())
}

/// What a search of the archive begins with.
#[derive(Debug, Default, Deserialize)]
pub struct ArchiveOpened {
    /// The agent's core; none if there is no such agent.
    pub core: Option<Core>,
    /// What the vectors of this database have in common; none before the first ingest.
    pub setting: Option<VectorSetting>,
}

/// Loads a core with what the vectors of this database have in common.
pub async fn open_archive(ro: &Ro, scope: &Scope) -> Result<ArchiveOpened, Fault> {
    let rows: Vec<ArchiveOpened> = ro.rows(OPEN, Binds::of(scope, [])).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// What the vectors of this database have in common.
pub async fn vector_setting(ro: &Ro) -> Result<Option<VectorSetting>, Fault> {
    Ok(ro.rows(SETTING_LOAD, Binds::unscoped([])).await?.into_iter().next())
}

/// Writes what the vectors of this database have in common, if nothing says so yet.
pub async fn write_setting(rw: &Rw, setting: &VectorSetting) -> Result<(), Fault> {
    let binds = Binds::unscoped([("setting", json!(setting)), ("sync", rw.sync.into())]);
    match rw.rows::<Value>(SETTING, binds).await {
        Err(fault) if !fault.taken() => Err(fault),
        _ => Ok(()),
    }
}

/// Errors of a search through an index that cannot serve it: it is gone since the query was planned (1212), none fits (1554), or it is not
/// trained (1555).
pub(super) const INDEX_UNUSABLE: [u16; 3] = [INDEX_NOT_FOUND, 1554, 1555];

/// The chunks nearest to a vector, looked for as the plan says.
pub async fn nearest(ro: &Ro, scope: &Scope, near: &Near) -> Result<Nearest, Fault> {
    let filter = &near.filter;
    match near.plan {
        NearPlan::Exact => {
            let query = match near.metric {
                Metric::Cosine => EXACT_COSINE,
                Metric::L2 => EXACT_L2,
            };
            let binds = Binds::of(
                scope,
                [
                    ("vector", near.attribute.as_str().into()),
                    ("query_vector", json!(near.query)),
                    ("limit", near.k.into()),
                    ("source", json!(filter.source)),
                    ("doc_id", json!(filter.doc_id)),
                    ("fresh_after", json!(filter.fresh_after)),
                ],
            );
            let rows: Vec<FoundPassage> = ro.rows(query, binds).await?;
            let fetched = near.before.fetched + rows.len() as u64;
            let looked = Looked { fetched, ..near.before };
            Ok(Nearest { plan: near.plan, k: near.k, rows: Some(rows), looked })
        }
        NearPlan::Vector { n_probe, fetch } | NearPlan::First { n_probe, fetch } => {
            let first = matches!(near.plan, NearPlan::First { .. });
            let query = match (near.metric, first) {
                (Metric::Cosine, false) => NEAR_COSINE,
                (Metric::L2, false) => NEAR_L2,
                (Metric::Cosine, true) => FIRST_COSINE,
                (Metric::L2, true) => FIRST_L2,
            };
            let mut binds = Binds::of(
                scope,
                [
                    ("vector", near.attribute.as_str().into()),
                    ("query_vector", json!(near.query)),
                    ("n_probe", n_probe.into()),
                    ("fetch", fetch.into()),
                    ("source", json!(filter.source)),
                    ("doc_id", json!(filter.doc_id)),
                    ("fresh_after", json!(filter.fresh_after)),
                ],
            );
            if !first {
                binds.0.insert("rows_max", near.rows_max.into());
            }
            match ro.rows::<NearRows>(query, binds).await {
                Ok(rows) => Ok(looked_through(near, rows.into_iter().next())),
                Err(Fault { kind: FaultKind::Arango { num, .. }, .. })
                    if INDEX_UNUSABLE.contains(&num) =>
                {
                    Ok(Nearest { plan: near.plan, k: near.k, rows: None, looked: near.before })
                }
                Err(fault) => Err(fault),
            }
        }
    }
}

fn looked_through(near: &Near, rows: Option<NearRows>) -> Nearest {
    let found = rows.unwrap_or(NearRows { fetched: 0, own: 0, rows: Vec::new() });
    let looked = Looked {
        fetched: near.before.fetched + found.fetched,
        dropped: near.before.dropped + found.fetched.saturating_sub(found.rows.len() as u64),
        own_dropped: near.before.own_dropped + found.own.saturating_sub(found.rows.len() as u64),
        ..near.before
    };
    Nearest { plan: near.plan, k: near.k, rows: Some(found.rows), looked }
}

/// The chunks that hold words of a question: those that hold an identifier of it whole, if there are any; and, beside what the view shows,
/// what was taken in too recently for it.
pub async fn worded(ro: &Ro, scope: &Scope, words: &Words) -> Result<Worded, Fault> {
    let filter = &words.filter;
    let both = words.identifiers.first().zip(words.identifiers.last());
    let binds = [
        ("text", words.text.as_str().into()),
        ("words", words.words.as_str().into()),
        ("identifiers", json!(both.iter().collect::<Vec<_>>())),
        ("vector", words.attribute.as_str().into()),
        ("query_vector", json!(words.vector)),
        ("metric", json!(words.metric)),
        ("limit", ARCHIVAL_CANDIDATES.into()),
        ("chars_max", ARCHIVAL_CHARS_MAX.into()),
        ("source", json!(filter.source)),
        ("doc_id", json!(filter.doc_id)),
        ("fresh_after", json!(filter.fresh_after)),
        ("since_ms", words.now_ms.saturating_sub(ARCHIVAL_TAIL_MS).into()),
        ("recent_max", ARCHIVAL_TAIL_ROWS_MAX.into()),
    ];
    let rows: Vec<Worded> = ro.rows(WORDS, Binds::of(scope, binds)).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// The agent's chunks of those keys, in no order.
pub async fn passages(ro: &Ro, scope: &Scope, keys: &[String]) -> Result<Vec<FoundPassage>, Fault> {
    ro.rows(PASSAGES, Binds::of(scope, [("keys", json!(keys))])).await
}

/// Takes the chunks of an earlier ingest away, with the edges from them, and those to them that will lead nowhere.
async fn trim(stream: &Stream<'_>, rw: &Rw, scope: &Scope, ingest: &Ingest) -> Result<(), Fault> {
    let of_document = || {
        let doc_id = ingest.manifest.doc_id.as_str().into();
        Binds::of(scope, [("doc_id", doc_id), ("sync", rw.sync.into())])
    };
    let kept: Vec<&str> = ingest.passages.iter().map(|p| p.key.as_str()).collect();
    let mut trims = 0;
    loop {
        let mut cited = of_document();
        cited.0.insert("kept", json!(kept));
        cited.0.insert("limit", CITES_TRIM_ROWS.into());
        let gone: Vec<Value> = stream.rows(CITES_TRIM, cited).await?;
        trims += 1;
        if (gone.len() as u64) < CITES_TRIM_ROWS {
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
        stream.rows::<Value>(query, of_document()).await?;
    }
    Ok(())
}

/// Which parts of an upload have their vectors.
pub async fn parts(ro: &Ro, scope: &Scope, upload: &str) -> Result<Vec<usize>, Fault> {
    ro.rows(PART_LIST, Binds::of(scope, [("upload", upload.into())])).await
}

/// A part; none if it is not there.
pub async fn part(
    ro: &Ro,
    scope: &Scope,
    upload: &str,
    part: usize,
) -> Result<Option<StagedPart>, Fault> {
    let binds = [("upload", upload.into()), ("part", part.into())];
    Ok(ro.rows(PART_LOAD, Binds::of(scope, binds)).await?.into_iter().next())
}

/// Keeps a part until a moment, in seconds since 1970; one that is there in its place gives way.
pub async fn keep_part(
    rw: &Rw,
    scope: &Scope,
    upload: &str,
    part: usize,
    content: &StagedPart,
    expires_at: u64,
) -> Result<(), Fault> {
    let place = json!({"_key": part_key(scope.key(), upload, part), "upload": upload, "part": part,
        "expires_at": expires_at});
    let binds = [("place", place), ("content", json!(content)), ("sync", rw.sync.into())];
    rw.rows::<Value>(PART_WRITE, Binds::of(scope, binds)).await?;
    Ok(())
}

/// Writes the archive's part of an ingest inside a running transaction; the core, the record and the events follow in the same one. False if
/// its vectors are none that serve: nothing of it may be kept then.
pub(super) async fn write(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    ingest: &Ingest,
) -> Result<bool, Fault> {
    if let Some(setting) = &ingest.setting {
        let binds = Binds::unscoped([("setting", json!(setting)), ("sync", rw.sync.into())]);
        stream.rows::<Value>(SETTING, binds).await?;
    }
    if ingest.fate != Fate::New {
        trim(stream, rw, scope, ingest).await?;
    }
    if let Some(upload) = &ingest.upload {
        let binds = [("upload", upload.as_str().into()), ("sync", rw.sync.into())];
        stream.rows::<Value>(PART_TRIM, Binds::of(scope, binds)).await?;
    }
    if ingest.fate == Fate::Removed {
        let binds =
            [("manifest_key", ingest.manifest.key.as_str().into()), ("sync", rw.sync.into())];
        stream.rows::<Value>(MANIFEST_REMOVE, Binds::of(scope, binds)).await?;
        return Ok(true);
    }
    for passages in ingest.passages.chunks(INGEST_ROWS) {
        let binds = Binds::of(scope, [("passages", json!(passages)), ("sync", rw.sync.into())]);
        stream.rows::<Value>(APPEND, binds).await?;
    }
    if !ingest.derived.is_empty() {
        let binds =
            Binds::of(scope, [("derived", json!(ingest.derived)), ("sync", rw.sync.into())]);
        stream.rows::<Value>(DERIVED, binds).await?;
    }
    let binds = [
        ("manifest", json!(ingest.manifest)),
        ("numbers", json!(ingest.numbers)),
        ("sync", rw.sync.into()),
    ];
    Ok(!stream.rows::<Value>(MANIFEST, Binds::of(scope, binds)).await?.is_empty())
}
