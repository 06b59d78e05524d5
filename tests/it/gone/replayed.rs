//! Tests of writers to the database who put an old tombstone back, and who hide rows behind others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{remove, told, tombstone};
use crate::database::Database;
use crate::forgotten::forgotten;
use crate::home::{Home, Tuning};
use crate::ledger::{put_back, signed};
use crate::signed::verified;
use crate::talk::Agent;

/// Collections with rows of an agent, and the attribute that names it.
const OWN: [(&str, &str); 5] = [
    ("messages", "agent_id"),
    ("memory_events", "agent_id"),
    ("core_versions", "agent_id"),
    ("idempotency", "agent_id"),
    ("core_memory", "_key"),
];

async fn rows_of(database: &Database, agent: &str) -> Vec<(&'static str, Map<String, Value>)> {
    let mut all = Vec::new();
    for (collection, name) in OWN {
        let query = format!("FOR r IN {collection} FILTER r.{name} == @agent RETURN r");
        for row in database.rows(&query, json!({"agent": agent})).await {
            all.push((collection, row.as_object().expect("a row").clone()));
        }
    }
    all
}

/// Removes an agent as a writer to the database can, and puts a tombstone in its place.
async fn replaced(database: &Database, agent: &str, tombstone: &Map<String, Value>) {
    for (collection, name) in OWN {
        let query =
            format!("FOR r IN {collection} FILTER r.{name} == @agent REMOVE r IN {collection}");
        database.rows(&query, json!({"agent": agent})).await;
    }
    put_back(database, "forgets", tombstone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tombstone_is_not_older_than_the_last_signed_entry() {
    let home = Home::new();
    let server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    ada.append("user", "Good morning.").await;
    signed(&ada).await;
    let rows = rows_of(&database, "ada").await;
    forgotten(&ada, &json!({"all": true})).await;
    let told_now = async || told(&home, "vctx.sock").await;
    assert_eq!(told_now().await["tombstones"], json!([]));
    let first = tombstone(&database, "ada").await;
    // The agent comes back as it was, so that its ledger goes on, and new entries are signed.
    remove(&database, "forgets", &first["_key"]).await;
    for (collection, row) in &rows {
        put_back(&database, collection, row).await;
    }
    ada.append("user", "I am back.").await;
    signed(&ada).await;
    assert_eq!(told_now().await["missing"], json!([]));
    replaced(&database, "ada", &first).await;
    let now = told_now().await;
    assert_eq!(now["missing"][0]["agent"], "ada", "{now}");
    assert!(now["missing"][0]["what"].to_string().contains("last signed entry"), "{now}");
    // An agent with the name of a forgotten one, whose ledger begins again.
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be brief.").await;
    bob.append("user", "Good morning.").await;
    signed(&bob).await;
    forgotten(&bob, &json!({"all": true})).await;
    assert_eq!(told_now().await["tombstones"], json!([]));
    let first = tombstone(&database, "bob").await;
    remove(&database, "forgets", &first["_key"]).await;
    server.expect("the ledger does not continue the last signed entry");
    let again = Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be brief.").await;
    again.append("user", "I am another one.").await;
    // The server notices it when it signs.
    told_now().await;
    replaced(&database, "bob", &first).await;
    let now = told_now().await;
    assert_eq!(now["tombstones"][0]["agent"], "bob", "{now}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_tombstone_does_not_seal_a_changed_manifest() {
    let home = Home::new();
    let _server = home.serve().await;
    let database = home.database_inside();
    let mut read = None;
    for n in 0..20 {
        let agent = Agent::create(home.wire("vctx.sock"), &format!("a{n}"), 8192, "Brief.").await;
        agent.append("user", "My code is 4711.").await;
        forgotten(&agent, &json!({"seqs": [1]})).await;
        signed(&agent).await;
        // The reader may be slower than the operation.
        let (ended, reader) = (Arc::new(AtomicBool::new(false)), home.database_inside());
        let until = Arc::clone(&ended);
        let reading = tokio::spawn(async move {
            let query = "FOR f IN forgets FILTER f.what == 'agent' AND f.ended_at == null RETURN f";
            let mut first = None;
            while first.is_none() && !until.load(Ordering::Relaxed) {
                first = reader.rows(query, json!({})).await.into_iter().next();
            }
            first
        });
        forgotten(&agent, &json!({"all": true})).await;
        ended.store(true, Ordering::Relaxed);
        if let Some(row) = reading.await.expect("a reader") {
            read = Some((agent.name, row));
            break;
        }
    }
    let (name, old) = read.expect("a tombstone before its end");
    assert_eq!(old["kept"]["count"], 1, "{old:#}");
    let now = told(&home, "vctx.sock").await;
    assert_eq!(now["tombstones"], json!([]), "{now}");
    let query = "FOR f IN forgets FILTER f.what != 'agent' AND f.agent_id == @agent RETURN f";
    let mut manifest = database.row(query, json!({"agent": name})).await;
    manifest["begun_at"] = "2020-01-01T00:00:00.000Z".into();
    put_back(&database, "forgets", manifest.as_object().expect("a row")).await;
    put_back(&database, "forgets", old.as_object().expect("a row")).await;
    // The job that continues forget operations ends this one again.
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let row = tombstone(&database, &name).await;
        if !row["ended_at"].is_null() {
            break;
        }
        assert!(Instant::now() < until, "{row:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let now = told(&home, "vctx.sock").await;
    assert_eq!(now["tombstones"][0]["agent"], name.as_str(), "{now}");
    assert!(now["tombstones"][0]["what"].to_string().contains("manifests"), "{now}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_agent_ends_its_other_forget_operations() {
    let home = Home::new();
    let _server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    ada.append("user", "My code is 4711.").await;
    forgotten(&ada, &json!({"seqs": [1]})).await;
    let query = "FOR f IN forgets RETURN f";
    let mut manifest = database.row(query, json!({})).await;
    manifest["phase"] = "answers".into();
    manifest["ended_at"] = Value::Null;
    put_back(&database, "forgets", manifest.as_object().expect("a row")).await;
    forgotten(&ada, &json!({"all": true})).await;
    let manifest =
        database.row("FOR f IN forgets FILTER f.what != 'agent' RETURN f", json!({})).await;
    assert_eq!(manifest["phase"], "done", "{manifest:#}");
    let now = told(&home, "vctx.sock").await;
    assert_eq!(now["tombstones"], json!([]), "{now}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_rows_of_another_tenant_hide_no_rows() {
    let home = Home::new();
    let _engine = home.engine().await;
    let plain = Tuning::default();
    let _server = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &plain).await;
    let mut tuning = Tuning::default();
    tuning.environment.push(("VCTX_SERVER__TENANT".into(), "aaa".into()));
    let _other = home.server("aaa.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let socket = home.path("vctx.sock").display().to_string();
    Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let database = home.database();
    let plant = "FOR name IN @names INSERT { agent_id: name, type: 'audit', details: {}, ts: '2026-01-01T00:00:00.000Z' } INTO memory_events RETURN 1";
    let names: Vec<String> = (0..1_100).map(|n| format!("aaa:{n}")).collect();
    database.rows(plant, json!({"names": names})).await;
    database.rows(plant, json!({"names": ["zoe"]})).await;
    let (code, report) = verified(&home, &["--socket", &socket]);
    let found = json!([{"collection": "memory_events", "agent": "zoe", "rows": 1}]);
    assert_eq!((code, &report["strays"], &report["strays_more"]), (65, &found, &json!(false)));
    let there = told(&home, "aaa.sock").await;
    assert_eq!(there["strays_more"], true, "{there}");
    assert!(there["strays"].as_array().is_some_and(|list| list.len() >= 1_000));
}
