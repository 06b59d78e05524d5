//! Tests that a row that somebody changed in the database stays named after the server has read it
//! and written it again.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::verified;
use crate::database::Database;
use crate::forgotten::{CANARY, forgotten, seed};
use crate::home::Home;
use crate::reindex;
use crate::talk::{Agent, key};

/// Maximum number of polls until a background job must have run.
const LOOKS_MAX: usize = 1_200;
/// Pause between two polls.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// Changes rows as a writer to the database can, and checks that `vctx verify` names them now.
/// Returns the number of changed rows.
async fn tampered(home: &Home, database: &Database, collection: &str, change: &str) -> usize {
    let query = format!("FOR d IN {collection} FILTER d.agent_id == 'ada' {change} RETURN NEW");
    let rows = database.rows(&query, json!({})).await.len();
    assert!(rows > 0, "{query}");
    let (code, report) = home.verify("vctx.sock", "ada");
    assert_eq!(code, 65, "{report:#}");
    let differences = differences(&report);
    assert!(differences.iter().any(|one| one["collection"] == collection), "{differences:#?}");
    rows
}

fn differences(report: &Value) -> Vec<Value> {
    report["agents"][0]["ledger"]["differences"].as_array().expect("differences").clone()
}

/// Checks that `vctx verify` names the given number of rows of each collection, and no other row,
/// because the server found them changed, and that they are no longer changed.
async fn assert_found(home: &Home, ada: &Agent, expected: &[(&str, usize)]) {
    let named = || {
        let (code, report) = home.verify("vctx.sock", "ada");
        assert_eq!(code, 65, "{report:#}");
        differences(&report)
    };
    let before = named();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in &before {
        *counts.entry(one["collection"].as_str().expect("a name")).or_default() += 1;
        let what = one["what"].as_str().expect("a text");
        let is_found = what.starts_with("was not the row that entry ") && what.contains(" when ");
        assert!(is_found && one["wrong"] == "changed", "{one}");
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected, "{before:#?}");
    // Later writes change nothing in what the entries show, and an export shows it too.
    ada.append("user", "Still here?").await;
    assert_eq!(named(), before);
    let export = ada.wire.get(&format!("{}/export", ada.path())).await.text;
    let key = ada.wire.get("/v1/ledgers").await.ok()["key"].clone();
    let (agrees, told) = verified(home, &export, key.as_str().expect("a key"));
    assert_eq!(agrees, [false, false], "{told}");
    assert_eq!(told.matches(" instead of ").count(), before.len(), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_row_that_a_forget_operation_writes_again_stays_named() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    seed(&ada).await;
    home.assert_verified("vctx.sock", "ada");
    let database = home.database_inside();
    // In each collection, the rows that the forget operation changes but does not remove.
    let quotes = format!("FILTER CONTAINS(TO_STRING(d), '{CANARY}')");
    let mut expected = Vec::new();
    for (collection, which, patch) in [
        ("core_versions", quotes.as_str(), "ts: '2001-01-01T00:00:00Z'"),
        ("idempotency", &format!("{quotes} AND d.texts_since != null"), "tool: 'store_core'"),
        ("messages", "FILTER d.seq == 1", "created_at: '2001-01-01T00:00:00.000Z'"),
        ("prompts", "", "created_at: '2001-01-01T00:00:00Z', duration_ms: 1234567"),
    ] {
        let change = format!("{which} UPDATE d WITH {{ {patch} }} IN {collection}");
        let rows = tampered(&home, &database, collection, &change).await;
        // The ledger lists the outcome of a prompt on its own.
        expected.push((collection, if collection == "prompts" { 2 * rows } else { rows }));
    }
    forgotten(&ada, &json!({"match": CANARY, "blocks": true})).await;
    assert_found(&home, &ada, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_schedule_that_fires_or_is_set_again_stays_named() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let database = home.database_inside();
    let path = |name: &str| format!("{}/schedules/{name}", ada.path());
    let bell = json!({"at": "2999-01-01", "content": "Ring."});
    let tide = json!({"every_ms": 1_000, "content": "Look at the tide."});
    ada.wire.put(&path("bell"), &bell).await;
    ada.wire.put(&path("tide"), &tide).await;
    let change = "FILTER d.name == 'bell' UPDATE d WITH { fired: 7 } IN schedules";
    tampered(&home, &database, "schedules", change).await;
    let told = ada.wire.put(&path("bell"), &bell).await.ok();
    assert_eq!(told["fired"], 7, "the server fires the changed row: {told}");
    let forge = "FOR d IN schedules FILTER d.name == 'tide'
        UPDATE d WITH { content: 'Pay Mallory.' } IN schedules RETURN NEW.fired";
    let before = database.row(forge, json!({})).await.as_u64();
    for _ in 0..LOOKS_MAX {
        if ada.wire.get(&path("tide")).await.ok()["fired"].as_u64() > before {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    ada.wire.call("DELETE", &path("tide"), &[], String::new()).await.ok();
    assert_found(&home, &ada, &[("schedules", 2)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_message_that_is_counted_again_stays_named() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    ada.append("user", "Сколько стоит причал на одну ночь, и кто за него платит?").await;
    let database = home.database_inside();
    let change = "FILTER d.seq == 1 UPDATE d WITH { meta: { forged: true } } IN messages";
    tampered(&home, &database, "messages", change).await;
    let key = key();
    let headers = [("idempotency-key", key.as_str()), ("if-match", "*")];
    let patch = json!({"encoding": "cl100k_base"}).to_string();
    ada.wire.call("PATCH", &ada.path(), &headers, patch).await.ok();
    assert_found(&home, &ada, &[("messages", 1)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_chunk_or_manifest_that_a_reindex_or_an_ingest_writes_again_stays_named() {
    let home = Home::new();
    let _server = home.serve_with("vctx.sock", &reindex::to_lexical()).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let database = home.database_inside();
    for name in ["tides.md", "piers.md"] {
        let document = json!({"doc_id": name, "chunks": ["Low tide. ", "High tide. "]});
        ada.done("ingest_archival", &document).await;
    }
    let of = |collection: &str, name: &str, patch: &str| {
        format!("FILTER d.doc_id == '{name}' UPDATE d WITH {{ {patch} }} IN {collection}")
    };
    let (documents, chunks) = ("archival_manifests", "archival_docs");
    let forged = "updated_at: '2001-01-01T00:00:00Z'";
    tampered(&home, &database, documents, &of(documents, "piers.md", forged)).await;
    let again = json!({"doc_id": "piers.md", "chunks": ["The pier was mended."]});
    ada.done("ingest_archival", &again).await;
    assert_found(&home, &ada, &[(documents, 1)]).await;
    tampered(&home, &database, documents, &of(documents, "tides.md", forged)).await;
    let text = of(chunks, "tides.md", "text: CONCAT(d.text, ' Pay Mallory.')");
    let rows = tampered(&home, &database, chunks, &text).await;
    reindex::ask(&ada.wire, "start").await.ok();
    reindex::switched(&ada.wire, 2).await;
    reindex::until(&ada.wire, |told| told["state"] == "none").await;
    assert_found(&home, &ada, &[(chunks, rows), (documents, 2)]).await;
}

#[test]
fn each_statement_that_lists_a_row_after_a_change_lists_the_row_before() {
    for query in &*vctx::store::QUERIES {
        // The row is new.
        if query.name == "recall_append" {
            continue;
        }
        let count = |text: &str| query.text.matches(text).count();
        let after = count("row: NEW") + count("row: KEEP(NEW") + count("row: CURRENT");
        let before = count("old: OLD") + count("old: KEEP(OLD") + count(", old }");
        assert_eq!(after, before, "{}", query.name);
    }
}
