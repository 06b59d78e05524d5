//! Vectors of recall storage: what has none yet, writing them, and the passages near to a question.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::archive::{INDEX_UNUSABLE, make_vector_index};
use super::db::{Admin, Binds, Ro, Rw};
use super::fault::{Fault, FaultKind};
use super::query::{Query, query};
use vctx_core::limits::{
    INGEST_ROWS, N_PROBE_DEFAULT, RECALL_AROUND_CHARS_MAX, RECALL_AROUND_SEQS, RECALL_NEAR_MAX,
    RECALL_TAIL_CHARS_MAX, RECALL_WEIGHED_MAX,
};
use vctx_core::memory::recall_vector::{Claim, NearPassage, RecallMark, RecallVector, VectorOf};
use vctx_core::policy::{RecallPlan, Scope, Spoken};

/// Agents in order.
pub(super) const AGENTS: Query = query!("recall_agents");
/// How far an agent is.
pub(super) const MARK_LOAD: Query = query!("recall_mark_load");
/// The same, written.
pub(super) const MARK_WRITE: Query = query!("recall_mark_write");
/// Who makes them.
pub(super) const MARK_CLAIM: Query = query!("recall_mark_claim");
/// Entries without vectors.
pub(super) const UNEMBEDDED: Query = query!("recall_unembedded");
/// Vectors.
pub(super) const APPEND: Query = query!("recall_vector_append");
/// Vectors without entries.
pub(super) const ORPHANS: Query = query!("recall_vector_orphans");
/// Those go.
pub(super) const TRIM: Query = query!("recall_vector_trim");
/// Passages compared one by one.
pub(super) const EXACT: Query = query!("recall_near_exact");
/// Passages through the vector index.
pub(super) const NEAR: Query = query!("recall_near");

/// An agent, and what tells whether something happened to it.
#[derive(Clone, Debug, Deserialize)]
pub struct AgentVersion {
    /// Key of its core.
    pub key: String,
    /// Its tenant; empty: the default one.
    pub tenant: String,
    /// Rises with every write.
    pub version: u64,
}

/// An entry of recall storage without vectors.
#[derive(Clone, Debug, Deserialize)]
pub struct Unembedded {
    /// Its key.
    pub id: String,
    /// Place of its message.
    pub seq: u64,
    /// When it was logged, in milliseconds; none for entries of the first schema.
    pub logged_ms: Option<u64>,
    /// What it is.
    #[serde(flatten)]
    pub of: VectorOf,
    /// Its text.
    pub content: String,
}

/// Agents behind a key, by their keys.
pub async fn agents(ro: &Ro, after: &str, limit: u64) -> Result<Vec<AgentVersion>, Fault> {
    let binds = Binds::unscoped([("after", after.into()), ("limit", limit.into())]);
    ro.rows(AGENTS, binds).await
}

/// How far the vectors of an agent are made.
pub async fn recall_mark(ro: &Ro, scope: &Scope) -> Result<Option<RecallMark>, Fault> {
    let rows: Vec<RecallMark> = ro.rows(MARK_LOAD, Binds::of(scope, [])).await?;
    Ok(rows.into_iter().next())
}

/// Notes how far they are.
pub async fn write_recall_mark(rw: &Rw, scope: &Scope, mark: &RecallMark) -> Result<(), Fault> {
    let binds = Binds::of(scope, [("mark", json!(mark)), ("sync", rw.sync.into())]);
    rw.rows::<Value>(MARK_WRITE, binds).await.map(|_| ())
}

/// Takes the making of an agent's vectors over, or goes on with it; false while another server has it. Of two that try at once one gets it.
pub async fn claim_recall(
    rw: &Rw,
    scope: &Scope,
    claim: &Claim,
    now_ms: u64,
) -> Result<bool, Fault> {
    let binds = Binds::of(
        scope,
        [("claim", json!(claim)), ("now_ms", now_ms.into()), ("sync", false.into())],
    );
    match rw.rows::<Value>(MARK_CLAIM, binds).await {
        Ok(rows) => Ok(!rows.is_empty()),
        Err(fault) if fault.raced() => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// The first entries without vectors of a mark's kind that were logged from a moment on, but for those that the model refused; from the very
/// first one without a moment.
pub async fn unembedded(
    ro: &Ro,
    scope: &Scope,
    mark: &RecallMark,
    since_ms: Option<u64>,
    limit: u64,
) -> Result<Vec<Unembedded>, Fault> {
    let refused: Vec<&str> = mark.refused.iter().map(|entry| entry.id.as_str()).collect();
    let binds = Binds::of(
        scope,
        [
            ("fingerprint", mark.fingerprint.as_str().into()),
            ("since_ms", json!(since_ms)),
            ("refused", json!(refused)),
            ("limit", limit.into()),
        ],
    );
    ro.rows(UNEMBEDDED, binds).await
}

/// Writes vectors of entries, the first passage of each behind its others: an entry counts as done by that one.
pub async fn write_recall_vectors(
    rw: &Rw,
    scope: &Scope,
    vectors: &[RecallVector],
) -> Result<(), Fault> {
    let backwards: Vec<&RecallVector> = vectors.iter().rev().collect();
    for part in backwards.chunks(INGEST_ROWS) {
        let binds = Binds::of(scope, [("vectors", json!(part)), ("sync", rw.sync.into())]);
        rw.rows::<Value>(APPEND, binds).await?;
    }
    Ok(())
}

/// Takes vectors away whose entries are gone, among the next `limit` from a place on. Gives how many went, and where to go on; none at the end.
pub async fn trim_recall_vectors(
    rw: &Rw,
    ro: &Ro,
    scope: &Scope,
    from_seq: u64,
    limit: u64,
) -> Result<(u64, Option<u64>), Fault> {
    #[derive(Deserialize)]
    struct Row {
        keys: Vec<String>,
        last: Option<u64>,
        seen: u64,
    }
    let binds = Binds::of(scope, [("from_seq", from_seq.into()), ("limit", limit.into())]);
    let rows: Vec<Row> = ro.rows(ORPHANS, binds).await?;
    let Some(row) = rows.into_iter().next() else { return Ok((0, None)) };
    let gone = row.keys.len() as u64;
    if gone > 0 {
        let binds = Binds::of(scope, [("keys", json!(row.keys)), ("sync", rw.sync.into())]);
        rw.rows::<Value>(TRIM, binds).await?;
    }
    // One entry may have more passages than one look: then the look goes on behind it.
    let next = row.last.map(|last| if last == from_seq { last + 1 } else { last });
    Ok((gone, next.filter(|_| row.seen == limit)))
}

/// Passages near to a vector, and the entries that they are weighed with.
#[derive(Debug, Default, Deserialize)]
pub struct NearLook {
    /// The nearest first.
    pub near: Vec<NearPassage>,
    /// Entries of the best of them and what was said beside them, but for those that were known.
    pub rows: Vec<Spoken>,
}

/// The passages near to a vector, with their entries but for those at the known places. None where the index cannot serve.
pub async fn near_passages(
    ro: &Ro,
    scope: &Scope,
    fingerprint: &str,
    vector: &[f64],
    plan: RecallPlan,
    known: &[u64],
) -> Result<Option<NearLook>, Fault> {
    let mut binds = Binds::of(
        scope,
        [
            ("query_vector", json!(vector)),
            ("fingerprint", fingerprint.into()),
            ("limit", RECALL_NEAR_MAX.into()),
            ("known", json!(known)),
            ("weighed_max", RECALL_WEIGHED_MAX.into()),
            ("beside", RECALL_AROUND_SEQS.into()),
            ("chars_max", RECALL_TAIL_CHARS_MAX.into()),
            ("beside_chars_max", RECALL_AROUND_CHARS_MAX.into()),
        ],
    );
    let query = match plan {
        RecallPlan::Exact => EXACT,
        RecallPlan::Index { n_probe, fetch } => {
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

/// What there is of a vector index over recall storage: its number and the length of its vectors.
async fn index_of(admin: &Admin) -> Result<Option<(String, Option<u64>)>, Fault> {
    let (_, answer) = admin.call(Method::GET, INDEXES, None).await?;
    let indexes = answer["indexes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = indexes.iter().find(|index| index["type"] == "vector");
    Ok(found.map(|index| {
        (index["id"].as_str().unwrap_or_default().to_owned(), index["params"]["dimension"].as_u64())
    }))
}

/// Takes a vector index away that is made for vectors of another length: it would refuse ours. True if there was one.
pub async fn drop_foreign_index(admin: &Admin, dimension: u32) -> Result<bool, Fault> {
    match index_of(admin).await? {
        Some((id, length)) if length != Some(u64::from(dimension)) => {
            admin.define(Method::DELETE, &format!("_api/index/{id}"), None).await?;
            Ok(true)
        }
        Some(_) | None => Ok(false),
    }
}

/// Passages of all agents.
pub async fn recall_vector_rows(admin: &Admin) -> Result<u64, Fault> {
    let (_, answer) = admin.call(Method::GET, "_api/collection/recall_vectors/count", None).await?;
    Ok(answer["count"].as_u64().unwrap_or(0))
}

/// Makes the vector index over recall storage unless there is one; true if it was made now. It is trained on what is there.
pub async fn make_recall_index(admin: &Admin, dimension: u32, n_lists: u64) -> Result<bool, Fault> {
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
