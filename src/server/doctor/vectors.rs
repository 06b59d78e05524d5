//! Checks a vector index over random vectors: creation, training, nearest results and refusals.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::objects::insert;
use super::report::Rows;
use super::scratch::Ground;
use super::visit::{NO_GROUND, Visit};
use crate::checks::{self, Step};
use crate::store::{self, Answer, probe};
use vctx_base::clock;
use vctx_core::seeded::Seeded;

/// Number of vectors with which the vector index is trained.
pub(super) const VECTORS: usize = 64;
/// Number of components of each vector.
pub(super) const DIMENSION: usize = 8;
/// Number of lists of the vector index (`nLists`).
const N_LISTS: u64 = 2;
/// Number of search results that are compared.
const NEAREST: usize = 10;
/// Number of vectors that the doctor searches for. Several are necessary, since a search that reads
/// too few lists gives wrong results for only some of the vectors.
const SAMPLES: usize = 50;
/// Longest wait for the training of a vector index, in milliseconds.
const TRAINED_MS_MAX: u64 = 60_000;
/// Longest wait for the training of a vector index with `--quick`, in milliseconds. Training with
/// 64 vectors takes less time.
const TRAINED_QUICK_MS_MAX: u64 = 10_000;
/// Pause between two readings of the training state, in milliseconds.
const LOOK_MS: u64 = 50;

/// Returns a pseudo-random vector derived from a seed and a number, with components from -1 to 1.
pub(super) fn vector(seed: u64, at: usize) -> Vec<f64> {
    let mut row = Seeded::new(
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (at as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9),
    );
    (0..DIMENSION).map(|_| 2.0 * row.uniform() - 1.0).collect()
}

/// Returns the definition of a vector index like those that a vctx server creates. `sparse` says
/// whether the index is sparse.
pub(super) fn definition(name: &str, metric: &str, sparse: bool) -> Value {
    let mut definition = json!({"type": "vector", "name": name, "fields": ["embedding"],
        "params": {"metric": metric, "dimension": DIMENSION, "nLists": N_LISTS}});
    if sparse {
        definition["sparse"] = true.into();
    }
    definition
}

/// Runs the doctor's checks of a vector index.
pub(super) async fn look(visit: &Visit<'_>, rows: &mut Rows) -> store::Result<()> {
    let Some(ground) = visit.ground else {
        rows.skip_rest(Step::Vectors, NO_GROUND);
        return Ok(());
    };
    for ending in ["vectors", "empty"] {
        ground.collection(ending).await?;
    }
    let seed = ground.name.seed();
    let documents: Vec<Value> = (0..VECTORS)
        .map(|at| json!({"_key": format!("v{at}"), "embedding": vector(seed, at)}))
        .collect();
    let binds = json!({"@docs": ground.of("vectors"), "rows": documents});
    let written = probe::run(&ground.db, probe::INSERT_ALL, &binds).await?;
    // ArangoDB has sparse vector indexes since 3.12.6.
    let sparse = visit.server.since(6);
    let flag = checks::check_vector(&ground.db, &ground.of("vectors"), false).await?;
    let path = format!("_api/index?collection={}", ground.of("vectors"));
    let made =
        ground.ask(Method::POST, &path, &definition("doctor_vectors", "cosine", sparse)).await?;
    let agree = flag.passed == made.is_ok() && (made.is_ok() || made.is(400, 10));
    rows.see(
        checks::REFUSALS,
        agree,
        format!(
            "by an invalid definition, the feature is {}; a valid definition: {made}",
            if flag.passed { "on" } else { "off" }
        ),
    );
    rows.see(checks::FLAG, flag.passed, flag.sentence);
    rows.see(
        checks::MADE,
        written.is_ok() && made.status == 201,
        format!("{written}, then {made}"),
    );
    if !made.is_ok() {
        rows.skip_rest(
            Step::Vectors,
            "there is no vector index: see vectors.flag and vectors.made",
        );
        return Ok(());
    }
    let trained = trained(visit, ground, &ground.of("vectors")).await?;
    rows.see(checks::READY, trained.is_ok(), trained.unwrap_or_else(|seen| seen));
    empty(ground, sparse, rows).await?;
    wrong(ground, sparse, rows).await?;
    near(ground, seed, rows).await
}

/// Returns the `trainingState` of an index, or `ready` for a release that reports no training
/// state.
fn state(index: &Value) -> String {
    index["trainingState"].as_str().unwrap_or("ready").to_owned()
}

/// Waits until every vector index of a collection is trained. Returns how long this took, or the
/// indexes' training states after the time limit.
pub(super) async fn trained(
    visit: &Visit<'_>,
    ground: &Ground,
    collection: &str,
) -> store::Result<Result<String, String>> {
    let begun = clock::now();
    let bound = if visit.order.quick { TRAINED_QUICK_MS_MAX } else { TRAINED_MS_MAX };
    let path = format!("_api/index?collection={collection}");
    loop {
        let listed = ground.ask(Method::GET, &path, &Value::Null).await?;
        let indexes = listed.body["indexes"].as_array().cloned().unwrap_or_default();
        let states: Vec<String> =
            indexes.iter().filter(|index| index["type"] == "vector").map(state).collect();
        if !states.is_empty() && states.iter().all(|state| state == "ready") {
            return Ok(Ok(format!("ready after {} ms", begun.elapsed().as_millis())));
        }
        if begun.elapsed() > Duration::from_millis(bound) {
            return Ok(Err(format!("[{}] after {bound} ms", states.join(", "))));
        }
        tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
    }
}

async fn empty(ground: &Ground, sparse: bool, rows: &mut Rows) -> store::Result<()> {
    let path = format!("_api/index?collection={}", ground.of("empty"));
    let made =
        ground.ask(Method::POST, &path, &definition("doctor_empty", "cosine", sparse)).await?;
    let listed = ground.ask(Method::GET, &path, &Value::Null).await?;
    let indexes = listed.body["indexes"].as_array().cloned().unwrap_or_default();
    let found = indexes.iter().find(|index| index["type"] == "vector").map(state);
    let seen = format!("{made}, {}", found.as_deref().unwrap_or("no index"));
    rows.see(checks::EMPTY, found.is_none_or(|state| state != "ready"), seen);
    Ok(())
}

async fn wrong(ground: &Ground, sparse: bool, rows: &mut Rows) -> store::Result<()> {
    let longer = vec![0.5; DIMENSION + 1];
    let none = insert(ground, "vectors", &json!({"_key": "none"})).await?;
    let null = insert(ground, "vectors", &json!({"_key": "null", "embedding": null})).await?;
    let long = insert(ground, "vectors", &json!({"_key": "long", "embedding": longer})).await?;
    let refused = |answer: &Answer| answer.status == 400 && [10, 17].contains(&answer.num());
    // Without sparse indexes (3.12.4 and 3.12.5), every document must have a vector.
    let taken = if sparse { none.is_ok() } else { refused(&none) };
    rows.see(
        checks::WRONG,
        taken && refused(&null) && refused(&long),
        format!("no vector: {none}; null: {null}; {} components: {long}", DIMENSION + 1),
    );
    Ok(())
}

async fn near(ground: &Ground, seed: u64, rows: &mut Rows) -> store::Result<()> {
    let (docs, query) = (ground.of("vectors"), vector(seed, VECTORS));
    let exact = json!({"@docs": docs, "query_vector": query, "limit": NEAREST});
    let mut binds = exact.clone();
    binds["n_probe"] = N_LISTS.into();
    let plan = probe::explain(&ground.db, probe::NEAR, &binds).await?;
    let nodes = nodes(&plan);
    let has = nodes.iter().any(|node| node == "EnumerateNearVectorNode");
    rows.see(checks::NODE, has, format!("{plan} {}", nodes.join(", ")));
    let found_keys = exact_too(ground, seed, rows).await?;
    let refused = probe::run(&ground.db, probe::NEAR_MISSHAPEN, &exact).await?;
    rows.see(checks::SHAPE, refused.is(500, 1554), refused.to_string());
    let begun = super::transactions::begin(ground, &[&docs]).await?;
    let Some(id) = begun.body["result"]["id"].as_str() else {
        rows.see(checks::NEAR_TRANSACTION, false, begun.to_string());
        return Ok(());
    };
    let inside = probe::run_in(&ground.db, Some(id), probe::NEAR, &binds).await?;
    ground.ask(Method::DELETE, &format!("_api/transaction/{id}"), &Value::Null).await?;
    rows.see(
        checks::NEAR_TRANSACTION,
        keys(&inside) == found_keys && !found_keys.is_empty(),
        format!("{inside}, {} rows", keys(&inside).len()),
    );
    Ok(())
}

/// Compares, for several vectors, a search that reads all lists of the vector index with a full
/// scan. Returns the results for the first vector.
async fn exact_too(ground: &Ground, seed: u64, rows: &mut Rows) -> store::Result<Vec<String>> {
    let docs = ground.of("vectors");
    let (mut first, mut same, mut told) = (Vec::new(), 0, String::new());
    for at in 0..SAMPLES {
        let mut binds =
            json!({"@docs": docs, "query_vector": vector(seed, VECTORS + at), "limit": NEAREST});
        let scanned = probe::run(&ground.db, probe::NEAR_EXACT, &binds).await?;
        binds["n_probe"] = N_LISTS.into();
        let found = probe::run(&ground.db, probe::NEAR, &binds).await?;
        let (mut found_keys, mut scanned_keys) = (keys(&found), keys(&scanned));
        if at == 0 {
            (first, told) = (found_keys.clone(), found.to_string());
        }
        found_keys.sort_unstable();
        scanned_keys.sort_unstable();
        same += usize::from(scanned_keys.len() == NEAREST && found_keys == scanned_keys);
    }
    rows.see(
        checks::EXACT,
        same == SAMPLES,
        format!("{told}; the same {NEAREST} results for {same} of {SAMPLES} vectors"),
    );
    Ok(first)
}

/// Returns the keys found by a vector search, in their order.
fn keys(answer: &Answer) -> Vec<String> {
    let rows = answer.body["result"].as_array().into_iter().flatten();
    rows.filter_map(|row| row["key"].as_str().map(str::to_owned)).collect()
}

/// Returns the node types of a query's plan, in their order.
pub(super) fn nodes(plan: &Answer) -> Vec<String> {
    let nodes = plan.body["plan"]["nodes"].as_array().into_iter().flatten();
    nodes.filter_map(|node| node["type"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_follow_from_their_seed_and_differ() {
        assert_eq!(vector(7, 3), vector(7, 3));
        assert_ne!(vector(7, 3), vector(7, 4));
        assert_ne!(vector(8, 3), vector(7, 3));
        assert!(vector(7, 3).iter().all(|x| x.abs() <= 1.0 && *x != 0.0));
    }
}
