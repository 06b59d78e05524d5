//! Stores the vectors of recall storage: lists entries that lack vectors, writes vectors, and finds
//! the passages nearest to a question.

use std::collections::HashMap;

use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::archive::{INDEX_UNUSABLE, make_vector_index};
use super::beside::{Beside, beside, beside_at_once};
use super::db::{Admin, Binds, Ro, Rw, binds};
use super::fault::{Fault, FaultKind, Result};
use super::ledger::Written;
use super::query::{Query, queries};
use crate::store::limits::{
    INGEST_ROWS, RECALL_AROUND_CHARS_MAX, RECALL_AROUND_SEQS, RECALL_WEIGHED_MAX,
};
use vctx_core::ledger::LocalKind;
use vctx_core::ledger::note::Head;
use vctx_core::limits::{N_PROBE_DEFAULT, RECALL_NEAR_MAX, RECALL_TAIL_CHARS_MAX};
use vctx_core::memory::export::RowKind;
use vctx_core::memory::outbound::Outbound;
use vctx_core::memory::recall_vector::{Claim, NearPassage, RecallMark, RecallVector, VectorOf};
use vctx_core::search::{NearPlan, RecallEntry};
use vctx_core::trust::Scope;

queries! {
    AGENTS = "recall_agents",
    MARK_LOAD = "recall_mark_load",
    MARK_WRITE = "recall_mark_write",
    MARK_CLAIM = "recall_mark_claim",
    UNEMBEDDED = "recall_unembedded",
    APPEND = "recall_vector_append",
    ORPHANS = "recall_vector_orphans",
    TRIM = "recall_vector_trim",
    EXACT = "recall_near_exact",
    NEAR = "recall_near",
}

/// An agent, with a version number that shows whether its memory has changed.
#[derive(Clone, Debug, Deserialize)]
pub struct AgentVersion {
    /// Key of the agent's core.
    pub key: String,
    /// Tenant of the agent; an empty text means the default tenant.
    pub tenant: String,
    /// Version number, which rises with every write to the agent.
    pub version: u64,
    /// Position at which the agent's queue begins.
    pub head_seq: u64,
    /// Which models may receive the agent's texts; `None` for all.
    pub outbound: Option<Outbound>,
}

/// An entry of recall storage that lacks vectors.
#[derive(Clone, Debug, Deserialize)]
pub struct Unembedded {
    /// Key of the entry.
    pub id: String,
    /// Position (`seq`) of the entry's message.
    pub seq: u64,
    /// When the entry was logged, in milliseconds since 1970; `None` for entries that were written
    /// under the first version of the database schema.
    pub logged_ms: Option<u64>,
    /// The fields that each vector row of the entry repeats from the entry.
    #[serde(flatten)]
    pub of: VectorOf,
    /// Text of the entry.
    pub content: String,
}

/// Returns the agents whose keys follow the given key, in the order of the keys.
pub async fn agents(ro: &Ro, after: &str, limit: u64) -> Result<Vec<AgentVersion>> {
    ro.rows(AGENTS, binds!(none; after, limit)).await
}

/// Returns the row that says up to which entry an agent's vectors are computed.
pub async fn recall_mark(ro: &Ro, scope: &Scope) -> Result<Option<RecallMark>> {
    ro.row(MARK_LOAD, binds!(scope;)).await
}

/// Stores the row that says up to which entry an agent's vectors are computed.
pub async fn write_recall_mark(rw: &Rw, scope: &Scope, mark: &RecallMark) -> Result<()> {
    let mut row = json!(mark);
    row["_key"] = scope.key().into();
    let written = |written: &mut Written<'_>| written.local(LocalKind::Marks, &row);
    let bound = |entry, last: &Head| binds!(scope; mark, entry, last, sync = rw.sync);
    beside_at_once(rw, scope, ("mark", MARK_WRITE), bound, written).await
}

/// Takes or renews the lease for the computation of an agent's vectors. Returns `false` while
/// another server holds it. If two servers try at the same time, one of them succeeds.
pub async fn claim_recall(rw: &Rw, scope: &Scope, claim: &Claim, now_ms: u64) -> Result<bool> {
    rw.won(MARK_CLAIM, binds!(scope; claim, now_ms, sync = false)).await
}

/// Returns the first entries that lack vectors with the mark's embedder fingerprint, except the
/// entries that the embedder's model refused. With `since_ms`, considers only entries logged since
/// that time.
pub async fn unembedded(
    ro: &Ro,
    scope: &Scope,
    mark: &RecallMark,
    since_ms: Option<u64>,
    limit: u64,
) -> Result<Vec<Unembedded>> {
    let refused: Vec<&str> = mark.refused.iter().map(|entry| entry.id.as_str()).collect();
    let binds = binds!(scope; fingerprint = mark.fingerprint, since_ms, refused, limit);
    ro.rows(UNEMBEDDED, binds).await
}

fn work(query: Query, binds: Binds) -> Beside<'static> {
    Beside { what: "vectors", writes: &["recall_vectors"], query, binds }
}

/// Writes vectors, the last one first. The vector of an entry's first passage is thus written last:
/// as soon as it exists, the entry counts as done.
pub async fn write_recall_vectors(rw: &Rw, scope: &Scope, vectors: &[RecallVector]) -> Result<()> {
    #[derive(Deserialize)]
    struct Row {
        key: String,
        salt: Option<String>,
    }
    let backwards: Vec<&RecallVector> = vectors.iter().rev().collect();
    for part in backwards.chunks(INGEST_ROWS) {
        let binds = binds!(scope; vectors = part, sync = rw.sync);
        beside(rw, scope, work(APPEND, binds), |rows: Vec<Row>, written| {
            let salts: HashMap<&str, Option<&str>> =
                rows.iter().map(|row| (row.key.as_str(), row.salt.as_deref())).collect();
            for vector in part {
                if let Some(salt) = salts.get(vector.key.as_str()) {
                    written.row(RowKind::RecallVectors, json!(vector), *salt)?;
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Examines the next `limit` vectors, beginning with those of the entry at `from_seq`, and removes
/// the vectors whose entry no longer exists. Returns the number of removed vectors, and the
/// position from which to continue (`None` at the end).
pub async fn trim_recall_vectors(
    rw: &Rw,
    ro: &Ro,
    scope: &Scope,
    from_seq: u64,
    limit: u64,
) -> Result<(u64, Option<u64>)> {
    #[derive(Deserialize)]
    struct Row {
        keys: Vec<String>,
        last: Option<u64>,
        seen: u64,
    }
    let rows: Vec<Row> = ro.rows(ORPHANS, binds!(scope; from_seq, limit)).await?;
    let Some(row) = rows.into_iter().next() else { return Ok((0, None)) };
    let gone = row.keys.len() as u64;
    if gone > 0 {
        let binds = binds!(scope; keys = row.keys, sync = rw.sync);
        beside(rw, scope, work(TRIM, binds), |rows, written| written.touched(rows)).await?;
    }
    // If one entry has more passages than one call examines, the next call continues after this
    // entry.
    let next = row.last.map(|last| if last == from_seq { last + 1 } else { last });
    Ok((gone, next.filter(|_| row.seen == limit)))
}

/// The passages nearest to a vector, with the entries that are needed to rank them.
#[derive(Debug, Default, Deserialize)]
pub struct NearLook {
    /// The passages, nearest first.
    pub near: Vec<NearPassage>,
    /// Entries of the best passages with their neighbouring messages, except entries that the
    /// caller already has.
    pub rows: Vec<RecallEntry>,
}

/// Returns the passages nearest to a vector, and the entries needed to rank them; leaves out the
/// entries at the positions in `known`. Returns `None` if the vector index cannot be used.
pub async fn near_passages(
    ro: &Ro,
    scope: &Scope,
    fingerprint: &str,
    vector: &[f64],
    plan: NearPlan,
    known: &[u64],
) -> Result<Option<NearLook>> {
    let mut binds = binds!(scope;
        query_vector = vector, fingerprint, limit = RECALL_NEAR_MAX, known,
        weighed_max = RECALL_WEIGHED_MAX, beside = RECALL_AROUND_SEQS,
        chars_max = RECALL_TAIL_CHARS_MAX, beside_chars_max = RECALL_AROUND_CHARS_MAX
    );
    let query = match plan {
        NearPlan::Exact => EXACT,
        NearPlan::Vector { n_probe, fetch } | NearPlan::First { n_probe, fetch } => {
            binds.0.insert("n_probe", n_probe.into());
            binds.0.insert("fetch", fetch.into());
            NEAR
        }
    };
    match ro.rows::<NearLook>(query, binds).await {
        Ok(rows) => Ok(Some(rows.into_iter().next().unwrap_or_default())),
        Err(Fault { kind: FaultKind::Arango { num, .. }, .. }) if INDEX_UNUSABLE.contains(&num) => {
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

const INDEXES: &str = "_api/index?collection=recall_vectors";

/// Returns the id and the dimension of recall storage's vector index, if there is one.
async fn index_of(admin: &Admin) -> Result<Option<(String, Option<u64>)>> {
    let (_, answer) = admin.call(Method::GET, INDEXES, None).await?;
    let indexes = answer["indexes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = indexes.iter().find(|index| index["type"] == "vector");
    Ok(found.map(|index| {
        (index["id"].as_str().unwrap_or_default().to_owned(), index["params"]["dimension"].as_u64())
    }))
}

/// Drops the vector index if its dimension is not `dimension`, since such an index would refuse the
/// current vectors. Returns `true` if it dropped the index.
pub async fn drop_foreign_index(admin: &Admin, dimension: u32) -> Result<bool> {
    match index_of(admin).await? {
        Some((id, length)) if length != Some(u64::from(dimension)) => {
            admin.define(Method::DELETE, &format!("_api/index/{id}"), None).await?;
            Ok(true)
        }
        Some(_) | None => Ok(false),
    }
}

/// Returns the number of vectors in recall storage, over all agents.
pub async fn recall_vector_rows(admin: &Admin) -> Result<u64> {
    let (_, answer) = admin.call(Method::GET, "_api/collection/recall_vectors/count", None).await?;
    Ok(answer["count"].as_u64().unwrap_or(0))
}

/// Creates recall storage's vector index, trained on the existing vectors, unless there is one.
/// Returns `true` if it created the index.
pub async fn make_recall_index(admin: &Admin, dimension: u32, n_lists: u64) -> Result<bool> {
    if index_of(admin).await?.is_some() {
        return Ok(false);
    }
    let definition = json!({
        "type": "vector", "name": "recall_by_vector", "fields": ["embedding"], "inBackground": true,
        "params": {"metric": "cosine", "dimension": dimension, "nLists": n_lists, "defaultNProbe": N_PROBE_DEFAULT},
    });
    make_vector_index(admin, INDEXES, &definition).await?;
    Ok(true)
}
