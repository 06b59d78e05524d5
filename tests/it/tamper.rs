//! Tests tampering: after a direct change of the database (a deleted message, a removed edge, two
//! swapped numbers), `vctx verify` names the changed row.

use serde_json::{Value, json};
use vctx::memory::message::Message;

use crate::count;
use crate::database::Database;
use crate::home::Home;
use crate::talk::Agent;

/// Creates an agent of which some messages are evicted.
async fn evicted(home: &Home) -> Agent {
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 1024, "Be brief.").await;
    for turn in 0..40 {
        ada.append("user", format!("Turn {turn}: {}", count::words(20))).await;
    }
    ada
}

/// Checks that `vctx verify` fails with exit code 65 and names the given row as the first broken
/// one.
#[track_caller]
fn assert_broken(home: &Home, seq: u64, kind: &str) {
    let (code, report) = home.verify("vctx.sock", "ada");
    assert_eq!(code, 65, "{report:#}");
    let faults = report["agents"][0]["faults"].as_array().expect("faults");
    assert_eq!((&faults[0]["seq"], &faults[0]["kind"]), (&json!(seq), &json!(kind)), "{faults:#?}");
    let socket = home.path("vctx.sock");
    let told =
        home.run(&["verify", "--agent", "ada", "--socket", socket.to_str().expect("a path")]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains(&format!("message {seq}")), "{told}");
}

async fn message(database: &Database, seq: u64) -> Value {
    let query = "FOR m IN messages FILTER m.agent_id == 'ada' AND m.seq == @seq RETURN m";
    database.row(query, json!({"seq": seq})).await
}

/// Inserts a removed document again.
async fn put_back(database: &Database, collection: &str, document: &Value) {
    let query = format!("INSERT @document INTO {collection} RETURN NEW._key");
    let mut document = document.clone();
    for name in ["_id", "_rev"] {
        document.as_object_mut().expect("a document").remove(name);
    }
    database.row(&query, json!({"document": document})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_names_the_row_that_somebody_broke() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = evicted(&home).await;
    let database = home.database_inside();
    let state = ada.state().await;
    let (head, next) = (state["queue"]["head_seq"].as_u64(), state["queue"]["next_seq"].as_u64());
    let (head, next) = (head.expect("a head"), next.expect("a next"));
    assert!(head > 5 && next > head + 3, "{state:#}");
    home.assert_verified("vctx.sock", "ada");

    // The test deletes one message at a time: an evicted one, one in the queue, and the last one.
    for seq in [3, head + 1, next - 1] {
        let gone = message(&database, seq).await;
        let query = "REMOVE @key IN messages RETURN OLD.seq";
        database.row(query, json!({"key": gone["_key"]})).await;
        assert_broken(&home, seq, "missing");
        put_back(&database, "messages", &gone).await;
        home.assert_verified("vctx.sock", "ada");
    }

    // The test removes the edge of one evicted message.
    let edge = "FOR e IN recall_log FILTER e._from == 'core_memory/ada' AND e.seq == 4 RETURN e";
    let gone = database.row(edge, json!({})).await;
    database.row("REMOVE @key IN recall_log RETURN OLD.seq", json!({"key": gone["_key"]})).await;
    assert_broken(&home, 4, "edge_missing");
    put_back(&database, "recall_log", &gone).await;
    home.assert_verified("vctx.sock", "ada");

    // The test removes the edge of an entry that `write_recall` wrote.
    let written = ada.done("write_recall", &json!({"entries": [{"content": "Has a boat."}]})).await;
    let seq = written["receipt"]["seq"].as_u64().expect("a seq");
    home.assert_verified("vctx.sock", "ada");
    let key = json!({"key": written["result"]["inserted_ids"][0]});
    let gone = database.row("REMOVE @key IN recall_log RETURN OLD", key).await;
    assert_broken(&home, seq, "edge_missing");
    put_back(&database, "recall_log", &gone).await;
    home.assert_verified("vctx.sock", "ada");

    // The test swaps two sequence numbers, by way of a free number.
    let (one, two) = (message(&database, 2).await, message(&database, 5).await);
    let renumber = async |document: &Value, seq: u64| {
        let query = "UPDATE @key WITH { seq: @seq } IN messages RETURN NEW.seq";
        database.row(query, json!({"key": document["_key"], "seq": seq})).await;
    };
    renumber(&one, 1_000_000).await;
    renumber(&two, 2).await;
    renumber(&one, 5).await;
    assert_broken(&home, 2, "digest");
    renumber(&one, 1_000_000).await;
    renumber(&two, 5).await;
    renumber(&one, 2).await;
    home.assert_verified("vctx.sock", "ada");

    // The test changes the text of the first message in the queue, and then restores it.
    let changed = "UPDATE @key WITH { content: @content } IN messages RETURN NEW.seq";
    let (row, text) = (message(&database, head).await, "something else");
    database.row(changed, json!({"key": row["_key"], "content": text})).await;
    assert_broken(&home, head, "digest");
    database.row(changed, json!({"key": row["_key"], "content": row["content"]})).await;
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_says_what_a_prompt_held() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = evicted(&home).await;
    let receipt = home.path("receipt.json");
    let receipt = receipt.to_str().expect("a plain path");
    let socket = home.path("vctx.sock");
    let socket = socket.to_str().expect("a plain path");
    let saved = home.run(&["context", "--agent", "ada", "--save", receipt, "--socket", socket]);
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    let head = ada.state().await["queue"]["head_seq"].as_u64().expect("a head");
    for _ in 0..5 {
        ada.append("user", count::words(100)).await;
    }
    for (seq, was) in [(head, true), (head - 1, false)] {
        let item = seq.to_string();
        let arguments = [
            "verify",
            "--agent",
            "ada",
            "--json",
            "--receipt",
            receipt,
            "--item",
            &item,
            "--socket",
            socket,
        ];
        let output = home.run(&arguments);
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        assert!(output.status.success(), "{report:#}");
        assert_eq!(report["receipt"]["item_in_prompt"], was, "{report:#}");
    }
    // The verification detects an extra claim in a receipt.
    let text = std::fs::read_to_string(receipt).expect("a receipt");
    let mut forged: Value = serde_json::from_str(&text).expect("JSON");
    let last = forged["messages"].as_array().expect("messages").len() - 1;
    forged["messages"][last]["content"] = "never said".into();
    std::fs::write(receipt, forged.to_string()).expect("a file");
    let output = home.run(&["verify", "--agent", "ada", "--receipt", receipt, "--socket", socket]);
    assert_eq!(output.status.code(), Some(65), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_written_anew_is_noticed_by_the_ledger_and_by_a_receipt_kept_elsewhere() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = evicted(&home).await;
    let saved = home.path("receipt.json");
    std::fs::write(&saved, ada.context().await.to_string()).expect("a file");
    let database = home.database_inside();
    let head = ada.state().await["queue"]["head_seq"].as_u64().expect("a head");

    // A client with write access to the database can recompute digests and the hash chain, because
    // their inputs are not secret.
    let rest = "FOR m IN messages FILTER m.agent_id == 'ada' AND m.seq >= @seq SORT m.seq RETURN m";
    let rows = database.rows(rest, json!({"seq": head})).await;
    let mut chain = message(&database, head - 1).await["chain"].as_str().expect("hex").to_owned();
    for row in rows {
        let mut message: Message = serde_json::from_value(row).expect("a message");
        if message.seq == head {
            message.content = message.content.replace("Turn", "Torn");
        }
        message.seal("ada", &chain);
        chain.clone_from(&message.chain);
        let written = "UPDATE @key WITH { content: @content, digest: @digest, chain: @chain } IN messages RETURN NEW.seq";
        let binds = json!({"key": message.key, "content": message.content, "digest": message.digest, "chain": message.chain});
        database.row(written, binds).await;
    }
    let moved = "FOR c IN core_memory FILTER c._key == 'ada'
        UPDATE c WITH { chain: { head: @head } } IN core_memory RETURN NEW._key";
    database.row(moved, json!({"head": chain})).await;

    let (code, told) = home.verify("vctx.sock", "ada");
    assert_eq!((code, &told["agents"][0]["faults"]), (65, &json!([])), "{told:#}");
    let wrong = told["agents"][0]["ledger"]["differences"].as_array().expect("differences");
    let rows: Vec<(&str, &str)> = wrong
        .iter()
        .map(|one| {
            (one["collection"].as_str().expect("a name"), one["row"].as_str().expect("a row"))
        })
        .collect();
    assert!(rows.contains(&("messages", head.to_string().as_str())), "{rows:?}");
    assert!(rows.contains(&("core_memory", "")), "{rows:?}");
    let (saved, socket) = (saved.display().to_string(), home.path("vctx.sock"));
    let socket = socket.display().to_string();
    let held = home.run(&["verify", "--agent", "ada", "--receipt", &saved, "--socket", &socket]);
    let told = String::from_utf8_lossy(&held.stdout).into_owned();
    assert_eq!(held.status.code(), Some(65), "{told}");
    assert!(told.contains(&format!("message {head}")), "{told}");
}
