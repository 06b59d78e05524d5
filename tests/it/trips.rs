//! Counts how many database requests each kind of call needs, and compares the numbers with
//! `tests/golden/trips.txt`.

use std::fmt::Write as _;

use serde_json::{Value, json};
use vctx::store::QUERIES;

use crate::count;
use crate::home::Tuning;
use crate::one_transaction::Stage;
use crate::proxy::Exchange;
use crate::talk::{Agent, key};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/trips.txt");
const HEAD: &str = "# Requests to the database for each call: on the socket for reads, on the socket for writes.\n\
# Written by `UPDATE_GOLDEN=1 cargo test --test it trips`.\n";

/// Names of the queries that every server's background jobs run.
const PERIODIC: [&str; 5] =
    ["core_dead_chains", "core_expired_runs", "forget_due", "reindex_load", "schedule_due"];

/// Whether a request comes from the server's background work. Background jobs look for heartbeat
/// chains and runs that are past their time limit, for schedules that are due, for interrupted
/// forget operations, and for a reindex in progress. They also check whether the database is
/// writable and, after an ingest, whether the archive is large enough for an index. (The test
/// disables the probes of the storage tiers.)
fn by_itself(exchange: &Exchange) -> bool {
    let named = |name: &str| PERIODIC.contains(&name);
    match exchange.request["query"].as_str() {
        Some(text) => QUERIES.iter().any(|query| query.statement() == text && named(query.name)),
        None => ["/archival_docs/count", "/_admin/server/availability"]
            .iter()
            .any(|path| exchange.path.contains(path)),
    }
}

/// Returns the number of requests on both sockets since the last call of this function.
fn trips(stage: &Stage) -> (usize, usize) {
    let count = |record: Vec<Exchange>| record.iter().filter(|e| !by_itself(e)).count();
    let counted = (count(stage.reads.record()), count(stage.writes.record()));
    stage.reads.clear();
    stage.writes.clear();
    counted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_takes_as_many_trips_as_the_golden_file_says() {
    // In this test, the server probes the storage tiers only when a score is requested.
    let quiet = Tuning::variable("VCTX_CONVEYANCE__PROBE_MS", "0");
    let stage = Stage::new(&quiet).await;
    let mut table = HEAD.to_owned();
    let mut line = |what: &str| {
        let (ro, rw) = trips(&stage);
        writeln!(table, "{what:<58} {ro} {rw}").expect("a text grows");
    };
    trips(&stage);
    let ada = stage.agent("ada", 2048).await;
    line("create an agent");
    let _second = stage.home.server("second.sock", "engine.sock", "engine-ro.sock", &quiet).await;
    let other = Agent::at(stage.home.wire("second.sock"), "ada");

    ada.append("user", "cold").await;
    line("append_fifo, core not in the cache");
    ada.append("user", "fresh").await;
    line("append_fifo, core fresh in the cache");
    ada.done("store_core", &json!({"block_id": "human", "content": "Likes tea."})).await;
    line("store_core, core fresh in the cache");
    ada.done("write_recall", &json!({"entries": [{"content": "a"}, {"content": "b"}]})).await;
    line("write_recall of two, core fresh in the cache");
    ada.done("record_heartbeat", &json!({"state": "continue"})).await;
    line("record_heartbeat, core fresh in the cache");
    let revision = ada.revision().await;
    trips(&stage);
    let call = json!({"message": "guarded", "role": "user"});
    ada.tool("append_fifo", &call, "guarded", &revision).await.ok();
    line("append_fifo with its revision, core fresh in the cache");
    ada.tool("append_fifo", &call, "guarded", &revision).await.ok();
    line("append_fifo again with the same key");
    ada.tool("append_fifo", &json!({"message": "x", "role": "user"}), &key(), "stale")
        .await
        .refused(412, "REVISION_STALE");
    line("append_fifo with a stale revision");
    other.append("user", "elsewhere").await;
    ada.append("user", "stale").await;
    line("append_fifo, another server wrote since");
    ada.done("fetch_core", &json!({"block_id": "human"})).await;
    line("fetch_core");
    ada.state().await;
    line("state");
    ada.context().await;
    line("context");
    ada.messages().await;
    line("a page of messages");
    ada.wire.get(&format!("{}/changes?wait=false", ada.path())).await;
    line("a change feed, with one look");
    ada.wire.get(&format!("{}/conveyance", ada.path())).await.ok();
    line("the score of a session, with a probe of each tier");
    let record = async |path: &str, body: Value| {
        let path = format!("{}/prompts{path}", ada.path());
        let key = key();
        let headers = [("idempotency-key", key.as_str())];
        ada.wire.call("POST", &path, &headers, body.to_string()).await.ok()
    };
    record("", json!({"run": "r", "model": "m", "tools": [{"name": "look"}]})).await;
    line("a prompt on record, core fresh in the cache");
    record("/1/answer", json!({"run": "r", "finish": "stop", "content": "Yes."})).await;
    line("its answer, core fresh in the cache");
    let read = async |path: &str| ada.wire.get(&format!("{}/{path}", ada.path())).await.ok();
    read("prompts/1").await;
    line("a prompt put together again");
    read("why?text=cold").await;
    line("the life of a fact");
    read("why?turn=1").await;
    line("the reasons of a prompt");
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    line("evict_fifo, core fresh in the cache");
    let found = ada.done("search_recall", &json!({"query": "guarded"})).await;
    assert!(found["result"]["tokens_added"].as_u64() > Some(0), "{found}");
    line("search_recall that brings a message back");
    ada.done("search_recall", &json!({"query": "guarded", "rehydrate": false})).await;
    line("search_recall that only reads");
    let many = json!({"query": "guarded cold stale elsewhere", "limit": 1, "rehydrate": false});
    let found = ada.done("search_recall", &many).await;
    assert!(found["result"]["next_page_token"].is_string(), "{found}");
    line("search_recall that keeps its next pages");
    loop {
        let body = ada.append("user", count::words(150)).await;
        if body["flush"].is_object() {
            break;
        }
        trips(&stage);
    }
    line("append_fifo that flushes, core fresh in the cache");

    let ingest = |doc: &str, count: usize| {
        let chunks: Vec<String> =
            (0..count).map(|n| format!("Wave {n}. {}", count::words(300))).collect();
        json!({"doc_id": doc, "chunks": chunks})
    };
    ada.done("ingest_archival", &ingest("sea", 1)).await;
    line("ingest_archival of a new document, the database's first");
    ada.done("ingest_archival", &ingest("lake", 3)).await;
    line("ingest_archival of a new document");
    ada.done("ingest_archival", &ingest("lake", 3)).await;
    line("ingest_archival of the stored document");
    ada.done("ingest_archival", &ingest("lake", 4)).await;
    line("ingest_archival of a document that is there");
    let search = async |arguments: Value| {
        let path = format!("{}/tools/search_archival", ada.path());
        ada.wire.call("POST", &path, &[], arguments.to_string()).await.ok()
    };
    search(json!({"query_text": "wave", "limit": 1})).await;
    line("search_archival, one page");
    let mut asked = json!({"query_text": "wave"});
    let body = search(asked.clone()).await;
    line("search_archival, more pages");
    asked["page_token"] = body["result"]["next_page_token"].clone();
    search(asked).await;
    line("search_archival, a later page");

    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(GOLDEN, &table).expect("the golden file");
    }
    let golden = std::fs::read_to_string(GOLDEN).expect("the golden file");
    assert_eq!(table, golden, "trips have changed:\n{table}");
    let fresh = table.lines().find(|l| l.starts_with("append_fifo, core fresh")).expect("a line");
    assert!(fresh.ends_with(" 0 1"), "one write and no read: {fresh}");
}
