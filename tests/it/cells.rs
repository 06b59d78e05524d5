//! Tests the vector index of a growing archive: a new index is trained while the old one serves
//! searches, and then the old one is dropped.

use std::time::Duration;

use serde_json::{Value, json};

use crate::archival::{circle, eager, index_becomes, ingest, search};
use crate::database::Database;
use crate::home::{Home, Tuning};
use crate::one_transaction::Stage;
use crate::proxy::Fault;
use crate::talk::Agent;

/// Number of chunks in one document, and number of documents that are added.
const CHUNKS: u32 = 120;
const DOCUMENTS: u32 = 16;
/// Maximum number of polls for the new index, and the pause between two polls.
const LOOKS_MAX: usize = 1_200;
const LOOK: Duration = Duration::from_millis(50);
/// Maximum number of polls for the gauge: 20 seconds, a third of the pause between two self-checks.
const GAUGE_LOOKS_MAX: usize = 400;

async fn vector_indexes(database: &Database) -> Vec<Value> {
    let path = "/_api/index?collection=archival_docs";
    let all = database.call("GET", path, &Value::Null).await.ok();
    let all = all["indexes"].as_array().expect("a list").iter();
    all.filter(|index| index["type"] == "vector").cloned().collect()
}

/// Waits until no new index is pending and the current index has been measured; returns the index
/// state that `/readyz` reports.
async fn settled(agent: &Agent) -> Value {
    for _ in 0..LOOKS_MAX {
        let told = agent.wire.get("/readyz").await.ok()["vector_index"].clone();
        let is_measured = told["measured"]["nLists"] == told["nLists"];
        if told["state"] == "ready" && told["next"].is_null() && is_measured {
            return told;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("the index never settles");
}

/// Waits until the gauge of the vector index says that the index is ready; a probe reads the state,
/// so this takes less than the minute between two rounds of self-checks.
async fn gauge_follows(home: &Home) {
    for _ in 0..GAUGE_LOOKS_MAX {
        let metrics = home.wire("metrics.sock").get("/metrics").await.text;
        if metrics.contains("vctx_vector_index_ready 1") {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("the gauge never followed the index");
}

async fn grown(tuning: &Tuning) -> (Home, crate::home::Process, Agent, Value) {
    let home = Home::new();
    let server = home.serve_with("vctx.sock", tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    ingest(&ada, &circle("d0", 0, CHUNKS, "cosine"), "*").await.ok();
    index_becomes(&ada, "ready").await;
    gauge_follows(&home).await;
    let first = settled(&ada).await;
    for number in 1..DOCUMENTS {
        let document = circle(&format!("d{number}"), number * 7, CHUNKS, "cosine");
        ingest(&ada, &document, "*").await.ok();
        // A search finds the ten nearest chunks with the old index, with the new one, and without
        // an index.
        let found = search(&ada, json!({"query_vector": [0.6, 0.8], "limit": 10})).await.ok();
        assert_eq!(found["result"]["k_actual"], 10, "{found}");
    }
    (home, server, ada, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_grew_sixteen_fold_gets_a_finer_index_and_answers_all_the_while() {
    let (home, _server, ada, first) = grown(&eager()).await;
    let database = home.database_inside();
    let before = first["nLists"].as_u64().expect("a number");
    let mut told = settled(&ada).await;
    // Chunks that are ingested during the training may make the archive so large that it needs
    // another new index.
    for _ in 0..LOOKS_MAX {
        if told["nLists"].as_u64() >= Some(before * 4) {
            break;
        }
        tokio::time::sleep(LOOK).await;
        ingest(&ada, &circle("last", 300, 1, "cosine"), "*").await.ok();
        told = settled(&ada).await;
    }
    assert!(told["nLists"].as_u64() >= Some(before * 4), "{before} cells, then {told}");
    // The last chunk may have begun another new index.
    let mut indexes = vector_indexes(&database).await;
    for _ in 0..LOOKS_MAX {
        if indexes.len() == 1 {
            break;
        }
        tokio::time::sleep(LOOK).await;
        indexes = vector_indexes(&database).await;
    }
    assert_eq!(indexes.len(), 1, "the earlier one is gone: {indexes:?}");
    let told = settled(&ada).await;
    assert_eq!(indexes[0]["params"]["nLists"], told["nLists"]);
    let setting =
        database.row("FOR v IN vctx_meta FILTER v._key == 'vector' RETURN v", json!({})).await;
    assert_eq!(setting["nLists"], told["nLists"], "what is stored is what serves");
    assert_eq!(setting["measured"]["nProbe"], told["measured"]["nProbe"]);
    assert!(told["measured"]["recall"].as_f64() > Some(0.5), "{told}");
    let scanned = told["measured"]["scanned"].as_f64().expect("a share");
    assert!(scanned > 0.0 && scanned <= 1.0, "{told}");
    let all = "RETURN LENGTH(FOR d IN archival_docs LET near = APPROX_NEAR_COSINE(d.embedding, @vector, { nProbe: @cells })
        SORT near DESC LIMIT 5000 RETURN 1) - LENGTH(archival_docs)";
    let binds = json!({"vector": [0.6, 0.8], "cells": told["nLists"]});
    assert_eq!(database.row(all, binds).await, 0, "its cells hold every chunk");
    let found = search(&ada, json!({"query_vector": [0.6, 0.8], "limit": 10})).await.ok();
    assert_eq!(found["result"]["plan"], "vector", "{found}");
    assert_eq!(found["result"]["nLists"], told["nLists"]);
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_must_stay_stays_and_one_that_is_taken_away_comes_back_finer() {
    let mut tuning = eager();
    tuning.environment.push(("VCTX_ARCHIVE__RETRAIN_GROWTH".into(), "0".into()));
    let (home, _server, ada, first) = grown(&tuning).await;
    let database = home.database_inside();
    let indexes = vector_indexes(&database).await;
    assert_eq!(indexes.len(), 1);
    assert_eq!(indexes[0]["params"]["nLists"], first["nLists"], "as it was made");
    let id = indexes[0]["id"].as_str().expect("a number");
    database.call("DELETE", &format!("/_api/index/{id}"), &Value::Null).await.ok();
    let found = search(&ada, json!({"query_vector": [0.6, 0.8], "limit": 10})).await.ok();
    assert_eq!(found["result"]["k_actual"], 10, "without an index one by one: {found}");
    let told = index_becomes(&ada, "ready").await;
    assert!(told["nLists"].as_u64() > first["nLists"].as_u64(), "{told}");
}

/// An index over a large archive is created even if its creation exceeds the timeout of one
/// request.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_whose_creation_was_not_answered_serves_and_is_noted() {
    let stage = Stage::new(&eager()).await;
    let ada = stage.agent("ada", 8192).await;
    let creation = stage.home.database().line("POST", "/_api/index");
    stage.writes.next(&creation, Fault::CutAfter);
    ingest(&ada, &circle("d0", 0, CHUNKS, "cosine"), "*").await.ok();
    let told = settled(&ada).await;
    assert_eq!(stage.writes.calm().get("CutAfter"), Some(&1));
    assert!(told["reason"].is_null(), "{told}");
    let database = stage.home.database();
    assert_eq!(vector_indexes(&database).await.len(), 1);
    let setting =
        database.row("FOR v IN vctx_meta FILTER v._key == 'vector' RETURN v", json!({})).await;
    assert_eq!(setting["nLists"], told["nLists"], "{setting}");
}
