//! A change of all vectors: what is known of it, the documents that lack the next vectors, and vectors that come and go.

use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::archive::{VectorIndexState, index_state};
use super::db::{Admin, Binds, Ro, Rw};
use super::fault::{Fault, FaultKind};
use super::query::{Query, query};
use vctx_core::limits::INGEST_ROWS;
use vctx_core::memory::archive::{Span, VectorSetting};
use vctx_core::policy::Scope;

/// What is under way.
pub(super) const UNDER_WAY: Query = query!("reindex_load");
/// What is known of the vectors, changed.
pub(super) const PATCH: Query = query!("setting_patch");
/// The next vectors serve.
pub(super) const SWITCH: Query = query!("setting_switch");
/// Documents without the next vectors.
pub(super) const LAGGING: Query = query!("manifest_lagging");
/// A document has them.
pub(super) const EMBEDDED: Query = query!("manifest_embedded");
/// What the vectors of documents are.
pub(super) const DESCRIBED: Query = query!("manifest_described");
/// How many have them.
pub(super) const COUNTS: Query = query!("manifest_counts");
/// Texts of chunks.
pub(super) const TEXTS: Query = query!("passage_texts");
/// Vectors of chunks.
pub(super) const VECTORS: Query = query!("passage_vectors");
/// Chunks with vectors that serve nobody.
pub(super) const LEFTOVER: Query = query!("passage_leftover");
/// Those vectors go.
pub(super) const CLEAN: Query = query!("passage_clean");

/// ArangoDB's numbers for an index, and a collection, that is not there.
const GONE: [u16; 2] = [1203, 1212];

/// A document that lacks the next vectors.
#[derive(Clone, Debug, Deserialize)]
pub struct Lagging {
    /// Key of its manifest.
    pub key: String,
    /// Whose it is.
    pub agent_id: String,
    /// Tenant of that agent; none if there is no such agent.
    pub tenant: Option<String>,
    /// Its name.
    pub doc_id: String,
    /// The revision that its chunks were written under.
    pub revision: String,
    /// Its chunks.
    pub chunks: u64,
    /// Whether the server cut it.
    pub splits: bool,
}

/// A chunk that is to have the next vector.
#[derive(Clone, Debug, Deserialize)]
pub struct ChunkText {
    /// Its key.
    pub key: String,
    /// Its place in the document, from 0.
    pub index: u64,
    /// The text.
    pub text: String,
    /// Its place in the document's text in characters, where that is known.
    pub offset: Option<Span>,
    /// Whether it has that vector already.
    pub made: bool,
}

/// How far a change is.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Counts {
    /// Documents.
    pub documents: Option<u64>,
    /// Their chunks.
    pub chunks: Option<u64>,
    /// Documents that have the next vectors.
    pub made_documents: Option<u64>,
    /// Their chunks.
    pub made_chunks: Option<u64>,
    /// Documents whose vectors of now a caller made.
    pub by_caller: Option<u64>,
}

/// What is known of the vectors while they change; none where no change is under way.
pub async fn under_way(ro: &Ro) -> Result<Option<VectorSetting>, Fault> {
    Ok(ro.rows(UNDER_WAY, Binds::unscoped([])).await?.into_iter().next())
}

/// Changes what is known of the vectors, unless it is not what was read any more; tells whether it did.
pub async fn patch_setting(
    rw: &Rw,
    read: &VectorSetting,
    patch: &Map<String, Value>,
) -> Result<bool, Fault> {
    let binds = [("rev", json!(read.rev)), ("patch", json!(patch)), ("sync", true.into())];
    match rw.rows::<Value>(PATCH, Binds::unscoped(binds)).await {
        Ok(rows) => Ok(!rows.is_empty()),
        Err(fault) if fault.raced() => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Lets the next vectors serve, unless a document lacks them or what is known is not what was read any more; tells whether it did.
pub async fn switch_setting(
    rw: &Rw,
    read: &VectorSetting,
    number: u64,
    patch: &Map<String, Value>,
) -> Result<bool, Fault> {
    let binds = [
        ("rev", json!(read.rev)),
        ("number", number.into()),
        ("patch", json!(patch)),
        ("sync", true.into()),
    ];
    match rw.rows::<Value>(SWITCH, Binds::unscoped(binds)).await {
        Ok(rows) => Ok(!rows.is_empty()),
        Err(fault) if fault.raced() => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Some documents that lack the vectors of a setting.
pub async fn lagging(ro: &Ro, number: u64, limit: u64) -> Result<Vec<Lagging>, Fault> {
    ro.rows(LAGGING, Binds::unscoped([("number", number.into()), ("limit", limit.into())])).await
}

/// How far a change is.
pub async fn reindex_counts(ro: &Ro, number: u64) -> Result<Counts, Fault> {
    let rows: Vec<Counts> = ro.rows(COUNTS, Binds::unscoped([("number", number.into())])).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// Texts of the chunks `from..to` of a document, in order.
pub async fn chunk_texts(
    ro: &Ro,
    scope: &Scope,
    document: &Lagging,
    attribute: &str,
    from: u64,
    to: u64,
) -> Result<Vec<ChunkText>, Fault> {
    let binds = Binds::of(
        scope,
        [
            ("doc_id", document.doc_id.as_str().into()),
            ("revision", document.revision.as_str().into()),
            ("vector", attribute.into()),
            ("from", from.into()),
            ("to", to.into()),
        ],
    );
    ro.rows(TEXTS, binds).await
}

/// Gives chunks of a document, by their keys, vectors under a name; false if it is another document by now. A view does not show a chunk that was
/// changed a moment ago: searches look for those by the time that is written with it.
pub async fn write_vectors(
    rw: &Rw,
    scope: &Scope,
    document: &Lagging,
    attribute: &str,
    vectors: &[(String, Vec<f64>)],
    now_ms: u64,
) -> Result<bool, Fault> {
    for part in vectors.chunks(INGEST_ROWS) {
        let patch = |(key, vector): &(String, Vec<f64>)| json!({"key": key, "patch": {attribute: vector, "ingested_ms": now_ms}});
        let patches: Vec<Value> = part.iter().map(patch).collect();
        let binds = Binds::of(
            scope,
            [
                ("patches", Value::Array(patches)),
                ("revision", document.revision.as_str().into()),
                ("sync", rw.sync.into()),
            ],
        );
        let written = rw.rows::<Value>(VECTORS, binds).await?.len();
        if written < part.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Notes that a document has the vectors of a setting; false if it is another document by now.
pub async fn note_embedded(
    rw: &Rw,
    scope: &Scope,
    document: &Lagging,
    number: u64,
) -> Result<bool, Fault> {
    let binds = Binds::of(
        scope,
        [
            ("manifest_key", document.key.as_str().into()),
            ("revision", document.revision.as_str().into()),
            ("number", number.into()),
            ("sync", rw.sync.into()),
        ],
    );
    Ok(!rw.rows::<Value>(EMBEDDED, binds).await?.is_empty())
}

/// Lets some manifests behind a key say what their vectors are; gives the last key if there may be more.
pub async fn describe_manifests(
    rw: &Rw,
    serving: &VectorSetting,
    after: &str,
    limit: u64,
) -> Result<Option<String>, Fault> {
    let binds = [
        ("after", after.into()),
        ("number", serving.number.into()),
        ("model_id", serving.model_id.as_str().into()),
        ("embedding_version", serving.embedding_version.as_str().into()),
        ("dimension", serving.dimension.into()),
        ("metric", json!(serving.metric)),
        ("limit", limit.into()),
        ("sync", rw.sync.into()),
    ];
    let keys: Vec<String> = rw.rows(DESCRIBED, Binds::unscoped(binds)).await?;
    Ok(keys.into_iter().next_back())
}

/// Takes vectors of a name from some chunks behind a key, and says what those are that serve. Gives how many chunks were looked at and the last
/// key, none at the end.
pub async fn clean_vectors(
    rw: &Rw,
    serving: &VectorSetting,
    attribute: &str,
    after: &str,
    limit: u64,
    now_ms: u64,
) -> Result<(u64, Option<String>), Fault> {
    #[derive(Deserialize)]
    struct Row {
        key: String,
        is_left: bool,
    }
    let binds = [("after", after.into()), ("vector", attribute.into()), ("limit", limit.into())];
    let rows: Vec<Row> = rw.rows(LEFTOVER, Binds::unscoped(binds)).await?;
    let keys: Vec<&str> = rows.iter().filter(|r| r.is_left).map(|r| r.key.as_str()).collect();
    if !keys.is_empty() {
        let mut patch = serving.described();
        patch[attribute] = Value::Null;
        patch["ingested_ms"] = now_ms.into();
        let binds = [
            ("keys", json!(keys)),
            ("vector", attribute.into()),
            ("patch", patch),
            ("sync", rw.sync.into()),
        ];
        rw.rows::<Value>(CLEAN, Binds::unscoped(binds)).await?;
    }
    let looked = rows.len() as u64;
    Ok((looked, rows.into_iter().next_back().map(|row| row.key).filter(|_| looked == limit)))
}

/// Takes the vector indexes over vectors of a name away; tells whether there was one.
pub async fn drop_vector_indexes(admin: &Admin, attribute: &str) -> Result<bool, Fault> {
    let mut dropped = false;
    for _ in 0..INDEXES_MAX {
        let found: VectorIndexState = index_state(admin, attribute).await?;
        let Some(id) = found.id else { return Ok(dropped) };
        match admin.call(Method::DELETE, &format!("_api/index/{id}"), None).await {
            Ok(_) => dropped = true,
            // Somebody else did.
            Err(Fault { kind: FaultKind::Arango { num, .. }, .. }) if GONE.contains(&num) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(dropped)
}

/// More vector indexes over one attribute than anybody makes.
const INDEXES_MAX: usize = 8;
