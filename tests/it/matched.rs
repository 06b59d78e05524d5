//! Tests that a forget operation with `match` finds a text that JSON spells with escapes, and a
//! text that begins in one chunk of a document and ends in the next one.

use serde_json::{Value, json};

use crate::forgotten::{forget, forgotten};
use crate::home::Home;
use crate::talk::{Agent, key};

/// Arguments of tool calls as a model wrote them: the arguments, the text to forget, and a word of
/// the text.
const ARGUMENTS: [(&str, &str, &str); 8] = [
    (r#"{"to":"Jos\u00e9 Roeland"}"#, "José Roeland", "Roeland"),
    (r#"{"to":"Ren\u00C9 Loyson"}"#, "RenÉ Loyson", "Loyson"),
    (r#"{"note":"the \"Blue Gulls\" berth"}"#, r#"the "Blue Gulls""#, "Gulls"),
    (r#"{"note":"quay four\nJettison nine"}"#, "quay four\nJettison", "Jettison"),
    (r#"{"path":"C:\\berths\\fourteen"}"#, r"C:\berths\fourteen", "fourteen"),
    (r#"{"path":"quays\/ninety"}"#, "quays/ninety", "ninety"),
    (r#"{"raw":"{\"to\":\"Zo\\u00eb Quisling\"}"}"#, "Zoë Quisling", "Quisling"),
    (r#"{"ship":"\ud83d\uDE80 Skylark"}"#, "\u{1f680} Skylark", "Skylark"),
];
/// Collections whose rows have digests and names in place of texts.
const WITHOUT_TEXTS: &str = "_";

/// Returns the collections with a row that contains a word.
async fn collections_with(home: &Home, word: &str) -> Vec<String> {
    let database = home.database_inside();
    let names =
        "FOR c IN COLLECTIONS() FILTER !STARTS_WITH(c.name, @prefix) SORT c.name RETURN c.name";
    let names = database.rows(names, json!({"prefix": WITHOUT_TEXTS})).await;
    let mut holding = Vec::new();
    for name in names {
        let name = name.as_str().expect("a name").to_owned();
        let query =
            format!("FOR d IN {name} FILTER CONTAINS(TO_STRING(d), @word) LIMIT 1 RETURN 1");
        if !database.rows(&query, json!({"word": word})).await.is_empty() {
            holding.push(name);
        }
    }
    holding
}

#[tokio::test(flavor = "multi_thread")]
async fn a_match_finds_what_json_spells_with_escapes() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 16_384, "Be brief.").await;
    ada.append("user", "Which berth is free?").await;
    for (number, (arguments, ..)) in ARGUMENTS.iter().enumerate() {
        let id = format!("c{number}");
        let function = json!({"name": "look", "arguments": arguments});
        let call = json!({"content": "", "tool_calls": [{"id": id, "type": "function", "function": function}]});
        ada.append("assistant", call).await;
        ada.append("tool", json!({"content": "{\"found\":true}", "tool_call_id": id})).await;
    }
    let id = "result";
    let function = json!({"name": "look", "arguments": "{}"});
    let call = json!({"content": "", "tool_calls": [{"id": id, "type": "function", "function": function}]});
    ada.append("assistant", call).await;
    let found = r#"{"owner":"Ol\u00e1 Resultant"}"#;
    ada.append("tool", json!({"content": found, "tool_call_id": id})).await;
    let entry = r#"{"owner":"Ol\u00e1 Recalled"}"#;
    ada.done("write_recall", &json!({"entries": [{"content": entry}]})).await;
    let text = r#"{"owner":"Ol\u00e1 Archived"}"#;
    ada.done("ingest_archival", &json!({"doc_id": "list", "chunks": [text]})).await;
    let text = r#"{"owner":"Ol\u00e1 Blocked"}"#;
    ada.done("store_core", &json!({"block_id": "owner", "content": text})).await;
    ada.done("store_core", &json!({"block_id": "owner2", "content": text})).await;
    let path = format!("{}/schedules/bell", ada.path());
    let text = r#"{"owner":"Ol\u00e1 Scheduled"}"#;
    assert_eq!(
        ada.wire.put(&path, &json!({"at": "2999-01-01", "content": text})).await.status,
        201
    );

    // A text that differs only behind its escape stays.
    let other = forget(&ada, &json!({"match": "Josè Roeland"}), &key(), "*").await;
    other.refused(400, "INVALID_ARGUMENT");

    let mut sought: Vec<(String, &str, &str)> =
        ARGUMENTS.iter().map(|(_, text, word)| ((*text).to_owned(), *word, "messages")).collect();
    for (word, place) in [
        ("Resultant", "messages"),
        ("Recalled", "messages"),
        ("Archived", "archival_docs"),
        ("Blocked", "core_memory"),
        ("Scheduled", "schedules"),
    ] {
        sought.push((format!("Olá {word}"), word, place));
    }
    for (text, word, place) in sought {
        let before = collections_with(&home, word).await;
        assert!(before.iter().any(|name| name == place), "{word}: {before:?}");
        let told = forgotten(&ada, &json!({"match": text, "blocks": true})).await;
        if place == "messages" {
            assert!(told["messages"].as_u64() > Some(0), "{text}: {told:#}");
        }
        let left = collections_with(&home, word).await;
        assert!(left.is_empty(), "{word} is still in {left:?}: {told:#}");
    }
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_match_finds_a_text_that_two_chunks_share() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 16_384, "Be brief.").await;
    let long = "The ferry leaves at noon. ".repeat(20);
    for (doc_id, chunks) in [
        ("letter", json!(["Here lives Jane", "Harper, a sailor."])),
        (
            "repeated",
            json!([format!("{long} Here lives Jane"), format!("lives Jane Harper. {long}")]),
        ),
        ("small", json!(["Here lives J", "an", "e Har", "per, a sailor."])),
        ("kept", json!(["Here lives Jane", "Hooper, a sailor."])),
        ("apart", json!(["Harper, a sailor.", "Here lives Jane"])),
    ] {
        ada.done("ingest_archival", &json!({"doc_id": doc_id, "chunks": chunks})).await;
    }
    // A splitter cuts this document between any two words, with an overlap.
    let words: Vec<String> = (0..200).map(|number| format!("berth{number}")).collect();
    let splitter = json!({"by": "token", "tokens_max": 16, "overlap_tokens": 4});
    let document = json!({"doc_id": "harbour", "document": words.join(" "), "splitter": splitter});
    ada.done("ingest_archival", &document).await;
    let documents = async |text: &str| {
        let asked = json!({"match": text, "dry_run": true});
        let told = forget(&ada, &asked, &key(), "*").await;
        match told.status {
            200 => told.ok()["documents"].clone(),
            _ => json!([]),
        }
    };
    for from in 0..150 {
        let text = words[from..from + 12].join(" ");
        assert_eq!(documents(&text).await, json!(["harbour"]), "{text}");
    }
    assert_eq!(documents("berth7 berth9").await, json!([]));
    assert_eq!(documents("lives Jane Harper").await, json!(["letter", "repeated", "small"]));

    let told = forgotten(&ada, &json!({"match": "lives Jane Harper"})).await;
    assert_eq!(told["counts"]["archival_manifests"], 3, "{told:#}");
    let query = "FOR m IN archival_manifests SORT m.doc_id RETURN m.doc_id";
    let left: Vec<Value> = home.database_inside().rows(query, json!({})).await;
    assert_eq!(left, [json!("apart"), json!("harbour"), json!("kept")]);
    home.assert_verified("vctx.sock", "ada");
}
