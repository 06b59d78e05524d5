//! Tests retention: with a maximum age for recall storage, the database's TTL index removes
//! entries, and the server removes their texts everywhere. `vctx verify` still accepts the rest of
//! the memory, and a SIGKILL leaves no partial removal.

use std::time::Duration;

use serde_json::{Value, json};

use crate::archival::{ingest, offer};
use crate::database::Database;
use crate::home::{Home, Tuning};
#[cfg(feature = "full-tests")]
use crate::outside::needs_an_engine_of_its_own;
use crate::talk::{Agent, key};

/// Maximum age in days, about eight seconds.
const DAYS: &str = "0.0001";
/// Pause between two polls.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum number of polls until the database and the server must have removed what expired.
const LOOKS_MAX: usize = 9_000;

fn lived(days: &str) -> Tuning {
    Tuning::variable("VCTX_RETENTION__RECALL_TTL_DAYS", days)
}

async fn expired(database: &Database) -> u64 {
    let query = "RETURN LENGTH(FOR m IN messages FILTER m.expired_at != null RETURN 1)";
    database.row(query, json!({})).await.as_u64().expect("a number")
}

/// Waits until the given number of messages have expired.
async fn until_expired(database: &Database, count: u64) {
    for _ in 0..LOOKS_MAX {
        if expired(database).await >= count {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("{} of {count} messages expired", expired(database).await);
}

pub(crate) async fn ttl_index(database: &Database) -> Value {
    let listed = database.call("GET", "/_api/index?collection=recall_log", &Value::Null).await.ok();
    let all = listed["indexes"].as_array().expect("indexes");
    all.iter()
        .find(|index| index["type"] == "ttl")
        .map_or(Value::Null, |i| i["expireAfter"].clone())
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_old_goes_everywhere_and_the_rest_still_proves_itself() {
    let home = Home::new();
    let _server = home.serve_with("vctx.sock", &lived(DAYS)).await;
    let database = home.database_inside();
    assert_eq!(ttl_index(&database).await, json!(9));
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let first = ada.append("user", "The berth at Quoxquay costs fourteen.").await;
    let made_of = json!({"source": "almanac", "message_ids": [first["result"]["message_id"]]});
    ingest(&ada, &offer("tides.md", json!({"provenance": made_of})), "*").await.ok();
    let chunk =
        database.row("FOR d IN archival_docs FILTER d.index == 1 RETURN d._id", json!({})).await;
    let answer = json!({"message": "Quoxquay it is.", "role": "assistant", "cites": [chunk]});
    ada.done("append_fifo", &answer).await;
    ada.done("write_recall", &json!({"entries": [{"content": "Quoxquay is at the north pier."}]}))
        .await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    ada.done("store_core", &json!({"block_id": "plan", "content": "Sail."})).await;
    let receipt = ada.context().await;
    // The search leaves a stored answer with its results, and a copy in the window.
    let asked = key();
    let found = ada.tool("search_recall", &json!({"query": "Quoxquay"}), &asked, "*").await.ok();
    assert!(found["result"]["results"].as_array().is_some_and(|r| r.len() >= 2), "{found}");
    let copies = database
        .row("RETURN LENGTH(FOR m IN messages FILTER m.kind == 'copy' RETURN 1)", json!({}))
        .await;
    // The copies are evicted with a new summary; the last messages remain in the queue.
    ada.append("user", "What now?").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    ada.append("user", "Quoxquay again, in the window.").await;
    home.assert_verified("vctx.sock", "ada");

    let rows = ada.messages().await.len() as u64;
    until_expired(&database, rows - 1).await;
    let left = ada.messages().await;
    assert_eq!(left.len() as u64, rows, "every place is still there");
    let last = left.last().expect("a message");
    assert_eq!(
        (&last["content"], &last["in_queue"]),
        (&json!("Quoxquay again, in the window."), &json!(true))
    );
    for row in &left[..left.len() - 1] {
        for gone in ["content", "meta", "salt"] {
            assert_eq!(row[gone], Value::Null, "{row}");
        }
        assert!(
            row["expired_at"].is_string() && row["digest"].is_string() && row["chain"].is_string()
        );
    }
    let traced =
        ada.wire.get(&format!("{}/trace?from=1&follow=derived,summary", ada.path())).await.ok();
    assert!(traced["entries"][0]["expired_at"].is_string(), "{traced:#}");
    assert_eq!((&traced["entries"][0]["text"], &traced["entries"][1]), (&json!(""), &Value::Null));
    // The word of the expired messages remains only in the window: in later messages and in the
    // summary.
    for collection in
        ["recall_log", "idempotency", "pages", "memory_events", "recall_vectors", "cites"]
    {
        let query = format!(
            "RETURN LENGTH(FOR d IN {collection} FILTER CONTAINS(TO_STRING(d), 'Quoxquay') RETURN 1)"
        );
        assert_eq!(database.row(&query, json!({})).await, json!(0), "{collection}");
    }
    let entries = "RETURN [LENGTH(recall_log), LENGTH(cites), LENGTH(FOR e IN derived_from FILTER e._from LIKE 'archival_docs/%' RETURN 1)]";
    assert_eq!(database.row(entries, json!({})).await, json!([0, 0, 0]));
    let state = ada.state().await;
    let standing = state["summary"]["changed_at_version"].clone();
    let older = "FOR v IN core_versions FILTER v.version < @standing AND CONTAINS(TO_STRING(v), 'Quoxquay') RETURN v.version";
    // Earlier versions lose a summary in the write after the one that makes it again.
    let mut holding = Vec::new();
    for _ in 0..LOOKS_MAX {
        holding = database.rows(older, json!({"standing": standing})).await;
        if holding.is_empty() {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(holding, Vec::<Value>::new());
    assert!(copies.as_u64() > Some(0));
    // If the search is repeated with its key, the server returns the stored answer without the
    // expired texts.
    let replayed = ada.tool("search_recall", &json!({"query": "Quoxquay"}), &asked, "*").await.ok();
    assert_eq!((&replayed["replayed"], &replayed["result"]["results"]), (&json!(true), &json!([])));
    assert!(replayed["result"]["expired_at"].is_string(), "{replayed}");

    let (code, report) = home.verify("vctx.sock", "ada");
    let told = &report["agents"][0];
    assert_eq!(
        (code, &told["expired"], &told["kept"]),
        (0, &json!(rows - 1), &json!(1)),
        "{report:#}"
    );
    assert_eq!(state["expired"]["messages"], json!(rows - 1));
    assert_eq!(state["expired"]["through_seq"], json!(rows - 1));
    // `vctx verify` still accepts the receipt of a prompt after the prompt's texts were removed.
    let saved = home.path("receipt.json");
    std::fs::write(&saved, receipt.to_string()).expect("a file");
    let socket = home.path("vctx.sock");
    let proved = home.run(&[
        "verify",
        "--receipt",
        saved.to_str().expect("a path"),
        "--socket",
        socket.to_str().expect("a path"),
    ]);
    assert!(proved.status.success(), "{}", String::from_utf8_lossy(&proved.stdout));
    let score = ada.wire.get(&format!("{}/conveyance?of=life", ada.path())).await.ok();
    assert_eq!(
        score["terms"]["W"]["conservation"]["value"],
        json!(1.0),
        "{:#}",
        score["terms"]["W"]
    );
    // The verification detects a text that was removed directly in the database.
    database.row("FOR m IN messages FILTER m.expired_at == null UPDATE m WITH { content: null, meta: null, salt: null, expired_at: 't' } IN messages
        OPTIONS { keepNull: true } RETURN 1", json!({})).await;
    let (code, report) = home.verify("vctx.sock", "ada");
    assert_ne!(code, 0, "{report:#}");
}

/// Waits until a query finds no row.
async fn until_none(database: &Database, query: &str) {
    for _ in 0..LOOKS_MAX {
        if database.rows(query, json!({})).await.is_empty() {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("{:#?}", database.rows(query, json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_from_an_old_text_goes_with_it_and_an_event_says_so() {
    let home = Home::new();
    let _server = home.serve_with("vctx.sock", &lived(DAYS)).await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    ada.append("user", "My number at Quoxquay is 555 0199.").await;
    ada.append("assistant", "I noted Quoxquay.").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let state = ada.state().await;
    assert!(state["summary"]["content"].to_string().contains("Quoxquay"), "{state:#}");
    // The next version of the core has the same summary, and the search puts copies into the
    // window.
    ada.done("store_core", &json!({"block_id": "plan", "content": "Sail."})).await;
    let found = ada.done("search_recall", &json!({"query": "Quoxquay"})).await;
    assert!(ada.context().await["messages"].to_string().contains("555 0199"), "{found}");
    ada.append("user", "What now?").await;
    let tokens = ada.state().await["queue"]["tokens"].as_u64();
    for collection in ["messages", "recall_log", "core_memory", "core_versions", "idempotency"] {
        // Digests of other rows may contain the digits alone.
        let query = format!(
            "FOR d IN {collection} FILTER CONTAINS(TO_STRING(d), 'Quoxquay') OR CONTAINS(TO_STRING(d), '555 0199') RETURN d"
        );
        until_none(&database, &query).await;
    }
    let state = ada.state().await;
    // The last message, and the line around the copies of the search.
    assert_eq!(state["queue"]["count"], 2, "{state:#}");
    assert!(state["queue"]["tokens"].as_u64() < tokens, "{state:#}");
    let window = ada.context().await["messages"].to_string();
    assert!(window.contains("What now?") && !window.contains("0199"), "{window}");
    let events = ada.wire.get(&format!("{}/events?limit=1000", ada.path())).await.ok();
    let events = events["events"].as_array().expect("events").iter();
    let renewed: Vec<&Value> =
        events.map(|one| &one["details"]).filter(|one| one["reason"] == "retention").collect();
    assert!(!renewed.is_empty(), "a summary is never changed silently");
    assert_eq!(renewed.last().map(|one| &one["revision"]), Some(&state["summary"]["revision"]));
    home.assert_verified("vctx.sock", "ada");
}

#[cfg(feature = "full-tests")]
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_leaves_whole_writes_and_the_rest_goes_on() {
    if needs_an_engine_of_its_own("it kills the database") {
        return;
    }
    const BATCHES: u64 = 10;
    const ENTRIES: u64 = 256;
    let home = Home::new();
    let mut server = home.serve_with("vctx.sock", &lived(DAYS)).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    for batch in 0..BATCHES {
        let entries: Vec<Value> = (0..ENTRIES)
            .map(|n| json!({"content": format!("Note {n} of batch {batch}.")}))
            .collect();
        ada.done("write_recall", &json!({"entries": entries})).await;
    }
    let all = BATCHES * ENTRIES;
    let mut kills = 0;
    let mut looks = 0;
    while kills < 3 {
        let database = home.database_inside();
        let gone = expired(&database).await;
        assert_eq!(gone % ENTRIES, 0, "a write is whole");
        if gone == all {
            break;
        }
        if gone > kills * ENTRIES {
            server.kill();
            kills += 1;
            server = home.serve_with("vctx.sock", &lived(DAYS)).await;
            server.expect(crate::home::TORN_TAIL);
        }
        looks += 1;
        assert!(looks < LOOKS_MAX, "{gone} of {all} expired");
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    assert!(kills > 0, "it went too fast to be cut off");
    until_expired(&home.database_inside(), all).await;
    let (code, report) = home.verify("vctx.sock", "ada");
    assert_eq!((code, &report["agents"][0]["expired"]), (0, &json!(all)), "{report:#}");
    assert_eq!(
        Agent::at(home.wire("vctx.sock"), "ada").state().await["expired"]["messages"],
        json!(all)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_follows_the_policy_and_a_wrong_policy_is_refused() {
    let home = Home::new();
    for (days, after) in [("30", json!(2_592_000)), ("0.5", json!(43_200)), ("0", Value::Null)] {
        let server = home.serve_with("vctx.sock", &lived(days)).await;
        assert_eq!(ttl_index(&home.database_inside()).await, after, "{days} days");
        let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
        assert_eq!(ada.state().await["retention"]["recall_ttl_s"], after);
        server.stop().await;
    }
    for days in ["-1", "0.000001", "40000", "nan", "soon"] {
        let mut command = crate::home::command(&lived(days));
        command.arg("serve").arg("--socket").arg(home.path("other.sock"));
        command.arg("--data-dir").arg(home.path("other"));
        command.env("VCTX_RETENTION__RECALL_TTL_DAYS", days);
        let output = command.output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{days}: {said}");
        assert!(said.to_lowercase().contains("recall_ttl_days"), "{days}: {said}");
    }
}
