//! Stores the reindex of the archive: reads and writes the vector setting, counts the progress,
//! finds documents that still lack new vectors, and writes and removes vectors.

use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::archive::{VectorIndexState, index_state};
use super::beside::{Beside, beside};
use super::db::{Admin, Ro, Rw, binds};
use super::fault::{Fault, FaultKind, Result};
use super::ledger::Touched;
use super::query::queries;
use crate::store::limits::INGEST_ROWS;
use vctx_core::memory::archive::{Span, VectorSetting};
use vctx_core::trust::Scope;

queries! {
    UNDER_WAY = "reindex_load",
    PATCH = "setting_patch",
    SWITCH = "setting_switch",
    LAGGING = "manifest_lagging",
    EMBEDDED = "manifest_embedded",
    STALE = "manifest_stale",
    DESCRIBED = "manifest_described",
    COUNTS = "manifest_counts",
    TEXTS = "passage_texts",
    VECTORS = "passage_vectors",
    LEFTOVER = "passage_leftover",
    CLEAN = "passage_clean",
}

/// ArangoDB's error numbers for a missing collection (1203) and a missing index (1212).
const GONE: [u16; 2] = [1203, 1212];

/// A document that lacks vectors of the next setting.
#[derive(Clone, Debug, Deserialize)]
pub struct Lagging {
    /// Key of the document's manifest.
    pub key: String,
    /// Key of the agent's core.
    pub agent_id: String,
    /// Tenant of the agent; `None` if there is no such agent.
    pub tenant: Option<String>,
    /// Name of the document.
    pub doc_id: String,
    /// The document's revision, with which its chunks were written.
    pub revision: String,
    /// Number of chunks.
    pub chunks: u64,
    /// Whether the server split the document into chunks.
    pub splits: bool,
}

/// A chunk that is to get a vector of the next setting.
#[derive(Clone, Debug, Deserialize)]
pub struct ChunkText {
    /// Key of the chunk.
    pub key: String,
    /// Index of the chunk in the document, from 0.
    pub index: u64,
    /// Text of the chunk.
    pub text: String,
    /// Range of the chunk in the document's text, in characters, if known.
    pub offset: Option<Span>,
    /// Whether the chunk already has a vector of the next setting.
    pub made: bool,
}

/// Progress of a reindex.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Counts {
    /// Number of all documents.
    pub documents: Option<u64>,
    /// Number of all chunks.
    pub chunks: Option<u64>,
    /// Number of documents that have vectors of the next setting.
    pub made_documents: Option<u64>,
    /// Number of chunks in documents that have vectors of the next setting.
    pub made_chunks: Option<u64>,
    /// Number of documents whose current vectors came from a caller.
    pub by_caller: Option<u64>,
}

/// Returns the vector setting if a reindex is in progress, otherwise `None`.
pub async fn under_way(ro: &Ro) -> Result<Option<VectorSetting>> {
    ro.row(UNDER_WAY, binds!(none;)).await
}

/// Changes the vector setting, unless another writer has changed it since it was read. Returns
/// whether this call changed the setting.
pub async fn patch_setting(
    rw: &Rw,
    read: &VectorSetting,
    patch: &Map<String, Value>,
) -> Result<bool> {
    rw.won(PATCH, binds!(none; rev = read.rev, patch, sync = true)).await
}

/// Makes searches use the vectors of the next setting. Does nothing if a document still lacks these
/// vectors, or if the vector setting has changed since it was read. Returns whether this call
/// switched the searches.
pub async fn switch_setting(
    rw: &Rw,
    read: &VectorSetting,
    number: u64,
    patch: &Map<String, Value>,
) -> Result<bool> {
    rw.won(SWITCH, binds!(none; rev = read.rev, number, patch, sync = true)).await
}

/// Returns some of the documents that lack vectors of the setting `number`.
pub async fn lagging(ro: &Ro, number: u64, limit: u64) -> Result<Vec<Lagging>> {
    ro.rows(LAGGING, binds!(none; number, limit)).await
}

/// Returns the progress of the reindex to the setting `number`.
pub async fn reindex_counts(ro: &Ro, number: u64) -> Result<Counts> {
    Ok(ro.row(COUNTS, binds!(none; number)).await?.unwrap_or_default())
}

/// Returns the chunks `from..to` of a document with their texts, in order.
pub async fn chunk_texts(
    ro: &Ro,
    scope: &Scope,
    document: &Lagging,
    attribute: &str,
    from: u64,
    to: u64,
) -> Result<Vec<ChunkText>> {
    let binds = binds!(scope;
        doc_id = document.doc_id, revision = document.revision, vector = attribute, from, to
    );
    ro.rows(TEXTS, binds).await
}

/// Writes vectors of a document's chunks into the given attribute. Returns `false` if the document
/// was replaced. Also sets `ingested_ms`, by which searches find chunks that the view does not show
/// yet.
pub async fn write_vectors(
    rw: &Rw,
    scope: &Scope,
    document: &Lagging,
    attribute: &str,
    vectors: &[(String, Vec<f64>)],
    now_ms: u64,
) -> Result<bool> {
    for part in vectors.chunks(INGEST_ROWS) {
        let patch = |(key, vector): &(String, Vec<f64>)| json!({"key": key, "patch": {attribute: vector, "ingested_ms": now_ms}});
        let patches: Vec<Value> = part.iter().map(patch).collect();
        let binds = binds!(scope;
            patches = Value::Array(patches), vector = attribute, revision = document.revision,
            sync = rw.sync
        );
        let writes = &["archival_docs"];
        let work = Beside { what: "vectors", writes, query: VECTORS, binds };
        let all = beside(rw, scope, work, |rows: Vec<Touched>, written| {
            let all = rows.len() == part.len();
            written.touched(rows)?;
            Ok(all)
        });
        if !all.await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Records that a document has vectors of the setting `number`. Returns `false` if the document was
/// replaced.
pub async fn note_embedded(
    rw: &Rw,
    scope: &Scope,
    document: &Lagging,
    number: u64,
) -> Result<bool> {
    let binds = binds!(scope;
        manifest_key = document.key, revision = document.revision, number, sync = rw.sync
    );
    rw.wrote(EMBEDDED, binds).await
}

/// A row of an agent that a reindex left in its former state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LeftRow {
    /// Key of the row.
    pub key: String,
    /// Key of the agent's core.
    pub agent_id: String,
    /// Tenant of the agent; `None` if there is no such agent any more.
    pub tenant: Option<String>,
}

/// Returns the next manifests that do not describe the current vectors: at most `limit` manifests
/// whose keys follow `after`.
pub async fn stale_manifests(
    rw: &Rw,
    serving: &VectorSetting,
    after: &str,
    limit: u64,
) -> Result<Vec<LeftRow>> {
    let binds = binds!(none;
        after, number = serving.number, model_id = serving.model_id,
        embedding_version = serving.embedding_version, dimension = serving.dimension,
        metric = serving.metric, limit
    );
    rw.rows(STALE, binds).await
}

/// Writes model, version, dimension and metric of the current vectors into manifests of an agent.
pub async fn describe_manifests(
    rw: &Rw,
    scope: &Scope,
    serving: &VectorSetting,
    keys: &[&str],
) -> Result<()> {
    let binds = binds!(scope;
        keys, number = serving.number, model_id = serving.model_id,
        embedding_version = serving.embedding_version, dimension = serving.dimension,
        metric = serving.metric, sync = rw.sync
    );
    let writes = &["archival_manifests"];
    let work = Beside { what: "described", writes, query: DESCRIBED, binds };
    beside(rw, scope, work, |rows: Vec<Touched>, written| written.touched(rows)).await
}

/// The next chunks of all agents, and those of them that have a vector in a given attribute.
#[derive(Clone, Debug, Default)]
pub struct LeftVectors {
    /// Number of examined chunks.
    pub looked: u64,
    /// Key of the last examined chunk; `None` if no chunk follows.
    pub last: Option<String>,
    /// The chunks that have a vector in the attribute.
    pub rows: Vec<LeftRow>,
}

/// Examines the next chunks after a key, at most `limit`, and returns those that have a vector in
/// the given attribute.
pub async fn left_vectors(
    rw: &Rw,
    attribute: &str,
    after: &str,
    limit: u64,
) -> Result<LeftVectors> {
    #[derive(Deserialize)]
    struct Row {
        is_left: bool,
        #[serde(flatten)]
        row: LeftRow,
    }
    let rows: Vec<Row> = rw.rows(LEFTOVER, binds!(none; after, vector = attribute, limit)).await?;
    let looked = rows.len() as u64;
    let last = rows.last().map(|row| row.row.key.clone()).filter(|_| looked == limit);
    let rows = rows.into_iter().filter(|row| row.is_left).map(|row| row.row).collect();
    Ok(LeftVectors { looked, last, rows })
}

/// Removes the vectors in the given attribute from chunks of an agent, and writes model, version,
/// dimension and metric of the current vectors into these chunks.
pub async fn clean_vectors(
    rw: &Rw,
    scope: &Scope,
    serving: &VectorSetting,
    attribute: &str,
    keys: &[&str],
    now_ms: u64,
) -> Result<()> {
    let mut patch = serving.described();
    patch[attribute] = Value::Null;
    patch["ingested_ms"] = now_ms.into();
    let binds = binds!(scope; keys, vector = attribute, patch, sync = rw.sync);
    let work = Beside { what: "clean", writes: &["archival_docs"], query: CLEAN, binds };
    beside(rw, scope, work, |rows: Vec<Touched>, written| written.touched(rows)).await
}

/// Drops all vector indexes over an attribute. Returns whether it dropped an index.
pub async fn drop_vector_indexes(admin: &Admin, attribute: &str) -> Result<bool> {
    let mut dropped = false;
    for _ in 0..INDEXES_MAX {
        let found: VectorIndexState = index_state(admin, attribute).await?;
        let Some(id) = found.id else { return Ok(dropped) };
        match admin.call(Method::DELETE, &format!("_api/index/{id}"), None).await {
            Ok(_) => dropped = true,
            // Another server has dropped the index.
            Err(Fault { kind: FaultKind::Arango { num, .. }, .. }) if GONE.contains(&num) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(dropped)
}

/// Maximum number of vector indexes that one call drops for an attribute. Servers never create that
/// many.
const INDEXES_MAX: usize = 8;
