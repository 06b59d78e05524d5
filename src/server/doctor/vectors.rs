//! A vector index over random vectors: whether it can be made, is trained, finds what is nearest, and refuses what it should.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::check::{self, Step};
use super::objects::insert;
use super::report::Rows;
use super::scratch::Ground;
use super::visit::{NO_GROUND, Told};
use crate::startup;
use crate::store::{Answer, Fault, probe};
use vctx_base::clock;

/// Vectors that the index is trained on.
pub(super) const VECTORS: usize = 64;
/// Components of each.
pub(super) const DIMENSION: usize = 8;
/// Cells of the index.
const N_LISTS: u64 = 2;
/// Results that are compared.
const NEAREST: usize = 10;
/// Vectors for which that is done (risks of an index that is asked too narrowly show on many, not on one).
const SAMPLES: usize = 50;
/// Longest wait for the training, in milliseconds.
const TRAINED_MS_MAX: u64 = 60_000;
/// The same with `--quick`: 64 vectors are trained in a moment.
const TRAINED_QUICK_MS_MAX: u64 = 10_000;
/// Pause between two looks, in milliseconds.
const LOOK_MS: u64 = 50;

/// A vector that follows from a number (SplitMix64).
pub(super) fn vector(seed: u64, at: usize) -> Vec<f64> {
    let mut state =
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (at as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // 53 bits are what a double holds.
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..DIMENSION).map(|_| next()).collect()
}

/// The definition of an index as the server makes its own, in the words of a release.
pub(super) fn definition(name: &str, metric: &str, sparse: bool) -> Value {
    let mut definition = json!({"type": "vector", "name": name, "fields": ["embedding"],
        "params": {"metric": metric, "dimension": DIMENSION, "nLists": N_LISTS}});
    if sparse {
        definition["sparse"] = true.into();
    }
    definition
}

/// Looks at it.
pub(super) async fn look(told: &Told<'_>, rows: &mut Rows) -> Result<(), Fault> {
    let Some(ground) = told.ground else {
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
    // Sparse indexes are there since 3.12.6.
    let sparse = told.server.since(6);
    let flag = startup::check_vector(&ground.db, &ground.of("vectors"), false).await?;
    let path = format!("_api/index?collection={}", ground.of("vectors"));
    let made =
        ground.ask(Method::POST, &path, &definition("doctor_vectors", "cosine", sparse)).await?;
    let agree = flag.passed == made.is_ok() && (made.is_ok() || made.is(400, 10));
    rows.see(
        check::REFUSALS,
        agree,
        format!(
            "an invalid one says {}, a valid one is answered {}",
            if flag.passed { "on" } else { "off" },
            made.told()
        ),
    );
    rows.see(check::FLAG, flag.passed, flag.sentence);
    rows.see(
        check::MADE,
        written.is_ok() && made.status == 201,
        format!("{}, then {}", written.told(), made.told()),
    );
    if !made.is_ok() {
        rows.skip_rest(
            Step::Vectors,
            "there is no vector index: see vectors.flag and vectors.made",
        );
        return Ok(());
    }
    let trained = trained(told, ground, &ground.of("vectors")).await?;
    rows.see(check::READY, trained.is_ok(), trained.unwrap_or_else(|seen| seen));
    empty(ground, sparse, rows).await?;
    wrong(ground, sparse, rows).await?;
    near(ground, seed, rows).await
}

/// How the index of an answer is, by its `trainingState`; `ready` where the release knows no states.
fn state(index: &Value) -> String {
    index["trainingState"].as_str().unwrap_or("ready").to_owned()
}

/// Waits until every vector index of a collection is trained: how long it took, or how they stand.
pub(super) async fn trained(
    told: &Told<'_>,
    ground: &Ground,
    collection: &str,
) -> Result<Result<String, String>, Fault> {
    let begun = clock::now();
    let bound = if told.asked.quick { TRAINED_QUICK_MS_MAX } else { TRAINED_MS_MAX };
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

async fn empty(ground: &Ground, sparse: bool, rows: &mut Rows) -> Result<(), Fault> {
    let path = format!("_api/index?collection={}", ground.of("empty"));
    let made =
        ground.ask(Method::POST, &path, &definition("doctor_empty", "cosine", sparse)).await?;
    let listed = ground.ask(Method::GET, &path, &Value::Null).await?;
    let indexes = listed.body["indexes"].as_array().cloned().unwrap_or_default();
    let found = indexes.iter().find(|index| index["type"] == "vector").map(state);
    let seen = format!("{}, {}", made.told(), found.as_deref().unwrap_or("no index"));
    rows.see(check::EMPTY, found.is_none_or(|state| state != "ready"), seen);
    Ok(())
}

async fn wrong(ground: &Ground, sparse: bool, rows: &mut Rows) -> Result<(), Fault> {
    let longer = vec![0.5; DIMENSION + 1];
    let none = insert(ground, "vectors", &json!({"_key": "none"})).await?;
    let null = insert(ground, "vectors", &json!({"_key": "null", "embedding": null})).await?;
    let long = insert(ground, "vectors", &json!({"_key": "long", "embedding": longer})).await?;
    let refused = |answer: &Answer| answer.status == 400 && [10, 17].contains(&answer.num());
    // Without a sparse index (3.12.4 and 3.12.5) every document must have one.
    let taken = if sparse { none.is_ok() } else { refused(&none) };
    rows.see(
        check::WRONG,
        taken && refused(&null) && refused(&long),
        format!(
            "none {}, null {}, {} components {}",
            none.told(),
            null.told(),
            DIMENSION + 1,
            long.told()
        ),
    );
    Ok(())
}

async fn near(ground: &Ground, seed: u64, rows: &mut Rows) -> Result<(), Fault> {
    let (docs, query) = (ground.of("vectors"), vector(seed, VECTORS));
    let exact = json!({"@docs": docs, "query_vector": query, "limit": NEAREST});
    let mut binds = exact.clone();
    binds["n_probe"] = N_LISTS.into();
    let plan = probe::explain(&ground.db, probe::NEAR, &binds).await?;
    let nodes = nodes(&plan);
    let has = nodes.iter().any(|node| node == "EnumerateNearVectorNode");
    rows.see(check::NODE, has, format!("{} {}", plan.told(), nodes.join(", ")));
    let found_keys = exact_too(ground, seed, rows).await?;
    let refused = probe::run(&ground.db, probe::NEAR_MISSHAPEN, &exact).await?;
    rows.see(check::SHAPE, refused.is(500, 1554), refused.told());
    let begun = super::transactions::begin(ground, &[&docs]).await?;
    let Some(id) = begun.body["result"]["id"].as_str() else {
        rows.see(check::NEAR_TRANSACTION, false, begun.told());
        return Ok(());
    };
    let inside = probe::run_in(&ground.db, Some(id), probe::NEAR, &binds).await?;
    ground.ask(Method::DELETE, &format!("_api/transaction/{id}"), &Value::Null).await?;
    rows.see(
        check::NEAR_TRANSACTION,
        keys(&inside) == found_keys && !found_keys.is_empty(),
        format!("{}, {} rows", inside.told(), keys(&inside).len()),
    );
    Ok(())
}

/// Compares what the index finds in all its cells with what is found one by one, for several vectors. What it finds for the first.
async fn exact_too(ground: &Ground, seed: u64, rows: &mut Rows) -> Result<Vec<String>, Fault> {
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
            (first, told) = (found_keys.clone(), found.told());
        }
        found_keys.sort_unstable();
        scanned_keys.sort_unstable();
        same += usize::from(scanned_keys.len() == NEAREST && found_keys == scanned_keys);
    }
    rows.see(
        check::EXACT,
        same == SAMPLES,
        format!("{told}; the same {NEAREST} for {same} of {SAMPLES} vectors"),
    );
    Ok(first)
}

/// Keys of what a search by nearness finds, in order.
fn keys(answer: &Answer) -> Vec<String> {
    let rows = answer.body["result"].as_array().into_iter().flatten();
    rows.filter_map(|row| row["key"].as_str().map(str::to_owned)).collect()
}

/// Types of the nodes of a plan, in order.
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
