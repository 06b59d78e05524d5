//! The archive: what stands there before an ingest, and the part of an ingest's transaction that writes there.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::db::{Binds, Ro, Rw};
use super::fault::Fault;
use super::query::{Query, query};
use super::transaction::Stream;
use crate::limits::INGEST_ROWS;
use crate::memory::archive::{Ingest, Manifest, VectorSetting};
use crate::policy::Scope;

/// Manifest, setting and messages before an ingest.
pub(super) const LOAD: Query = query!("archive_load");
/// The setting.
pub(super) const SETTING: Query = query!("setting_write");
/// Edges of an earlier ingest go.
pub(super) const DERIVED_TRIM: Query = query!("derived_trim");
/// Edges to messages.
pub(super) const DERIVED: Query = query!("derived_append");
/// Chunks of an earlier ingest go.
pub(super) const TRIM: Query = query!("passage_trim");
/// Chunks.
pub(super) const APPEND: Query = query!("passage_append");
/// The manifest.
pub(super) const MANIFEST: Query = query!("manifest_write");

/// Collections that only an ingest writes.
pub(super) const WRITES: [&str; 4] =
    ["archival_docs", "archival_manifests", "derived_from", "vctx_meta"];

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
    /// `trainingState`, or `ready` where the release knows no states (before 3.12.9 an index is trained when it is made).
    pub training_state: String,
    /// What went wrong with it.
    pub error_message: String,
    /// Cells.
    pub n_lists: Option<u64>,
    /// Components of its vectors.
    pub dimension: Option<u64>,
    /// How it compares.
    pub metric: String,
}

impl VectorIndexState {
    /// Whether a search can use it.
    pub fn ready(&self) -> bool {
        self.id.is_some() && self.training_state == "ready"
    }
}

/// Looks at the indexes of the archive. Raw, because arangors knows no vector index.
pub async fn vector_index(ro: &Ro) -> Result<VectorIndexState, Fault> {
    let answer = ro.call(Method::GET, "_api/index?collection=archival_docs").await?;
    let indexes = answer["indexes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(found) = indexes.iter().find(|index| index["type"] == "vector") else {
        return Ok(VectorIndexState::default());
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let state = found["trainingState"].as_str().unwrap_or("ready");
    Ok(VectorIndexState {
        id: Some(text(&found["id"])),
        training_state: state.to_owned(),
        error_message: text(&found["errorMessage"]),
        n_lists: found["params"]["nLists"].as_u64(),
        dimension: found["params"]["dimension"].as_u64(),
        metric: text(&found["params"]["metric"]),
    })
}

/// Writes the archive's part of an ingest inside a running transaction; the core, the record and the events follow in the same one.
pub(super) async fn write(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    ingest: &Ingest,
) -> Result<(), Fault> {
    if let Some(setting) = &ingest.setting {
        let binds = Binds::unscoped([("setting", json!(setting)), ("sync", rw.sync.into())]);
        stream.rows::<Value>(SETTING, binds).await?;
    }
    if ingest.replaces {
        for query in [DERIVED_TRIM, TRIM] {
            let binds = Binds::of(
                scope,
                [("doc_id", ingest.manifest.doc_id.as_str().into()), ("sync", rw.sync.into())],
            );
            stream.rows::<Value>(query, binds).await?;
        }
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
    let binds = Binds::of(scope, [("manifest", json!(ingest.manifest)), ("sync", rw.sync.into())]);
    stream.rows::<Value>(MANIFEST, binds).await?;
    Ok(())
}
