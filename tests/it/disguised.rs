//! Sends disguised orders from each outside source, and tests that none gets into the core, into
//! the summary, or into the window without a fence: because of where a text comes from, not because
//! of its words. Most of the texts match no taint rule.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::chance::in_turn;
use crate::home::{Home, Tuning};
use crate::talk::{Agent, key};

/// Pairs of a name and a disguised order.
const DISGUISES: &str = include_str!("disguises.json");
/// Number of characters, spaces not counted, by which a copy of a text is recognised.
const RUN_CHARS: usize = 24;

fn disguises() -> Vec<(String, String)> {
    serde_json::from_str(DISGUISES).expect("JSON")
}

fn letters(text: &str) -> Vec<char> {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Whether a text contains a longer part of another.
fn repeats(text: &str, other: &str) -> bool {
    let (text, other) = (letters(text), letters(other));
    let runs: HashSet<&[char]> = text.windows(RUN_CHARS).collect();
    other.windows(RUN_CHARS).any(|run| runs.contains(run))
}

/// Returns a message's text without the parts between the two lines of a fence.
fn unfenced(text: &str) -> String {
    const FENCES: [(&str, &str); 3] = [
        ("[text from outside ", "[end of text from outside "),
        ("[output of a tool ", "[end of output "),
        ("[tainted ", "[end of tainted "),
    ];
    let mut out = String::new();
    let mut end: Option<String> = None;
    for line in text.split('\n') {
        if let Some(last) = &end {
            if line == last {
                end = None;
            }
            continue;
        }
        let opened = FENCES.iter().find_map(|(begin, end)| {
            let id =
                line.strip_prefix(begin)?.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
            Some(format!("{end}{id}]"))
        });
        match opened {
            Some(last) => end = Some(last),
            None => out.push_str(line),
        }
    }
    assert!(end.is_none(), "a fence without end: {text}");
    out
}

/// Appends a tool's result, after the call that it answers.
async fn result(agent: &Agent, text: &str) {
    let id = key();
    let call =
        json!([{"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}}]);
    agent.append("assistant", json!({"content": "", "tool_calls": call})).await;
    agent.append("tool", json!({"content": text, "tool_call_id": id})).await;
}

/// Sends a text from a source, and brings it into the window.
async fn send(agent: &Agent, source: &str, text: &str) {
    let note = format!("Berth note. {text}");
    match source {
        "result" => result(agent, text).await,
        "late result" => drop(agent.append("tool", text).await),
        "event" => {
            let headers = [("idempotency-key", &*key()), ("if-match", "*")];
            let path = format!("{}/events", agent.path());
            let event = json!({"class": "system", "content": text});
            agent.wire.call("POST", &path, &headers, event.to_string()).await.ok();
        }
        "entry" => {
            let name: String = text.chars().take(30).collect();
            let entry = json!({"content": note, "role": "user", "name": name});
            agent.done("write_recall", &json!({"entries": [entry]})).await;
            let query = json!({"query": "berth", "name": name, "whole": true});
            agent.done("search_recall", &query).await;
        }
        "document" => {
            let id = key();
            let document = json!({"doc_id": id, "chunks": [note, "The ferry leaves."]});
            agent.done("ingest_archival", &document).await;
            let query = json!({"query_text": "berth", "filter": {"doc_id": id}});
            let found = agent.done("search_archival", &query).await;
            result(agent, &found["result"].to_string()).await;
        }
        other => panic!("{other}"),
    }
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn no_disguise_from_outside_reaches_the_core_the_summary_or_an_unfenced_place() {
    let home = Home::new();
    let tuning = Tuning::variable("VCTX_TAINT__MODE", "mark");
    let _server = home.serve_with("vctx.sock", &tuning).await;
    let all = disguises();
    assert!(all.len() >= 79, "{}", all.len());
    let mut passed = Vec::new();
    let sources = ["result", "late result", "event", "entry", "document"];
    for (way, source) in sources.into_iter().enumerate() {
        // Small parts, so that a search brings every text of a part into the window.
        for (at, part) in in_turn(&all, way, sources.len()).chunks(16).enumerate() {
            let name = format!("{}-{at}", source.replace(' ', "-"));
            let agent = Agent::create(home.wire("vctx.sock"), &name, 128_000, "Be brief.").await;
            agent.append("user", "What does the harbour master of Quoxquay say about us?").await;
            for (_, text) in part {
                send(&agent, source, text).await;
            }
            let window = agent.context().await;
            let messages = window["messages"].as_array().expect("messages");
            let mut core = Vec::new();
            for (name, text) in part {
                let content = |m: &Value| m["content"].as_str().unwrap_or_default().to_owned();
                // A search shows a long text as an excerpt, and a result may be JSON.
                let seen = |m: &Value| {
                    let content = content(m);
                    repeats(&content, text) || repeats(&content, &Value::from(&**text).to_string())
                };
                assert!(messages.iter().any(seen), "{source}: {name} is not in the window");
                let open = messages.iter().filter(|m| m["role"] != "tool").any(|m| {
                    repeats(&unfenced(&content(m)), text) || repeats(&m["name"].to_string(), text)
                });
                if open {
                    passed.push(format!("{source}: {name} is in the window without a fence"));
                }
                let block = json!({"block_id": "notes", "content": format!("Note: {text}")});
                let told = agent.tool("store_core", &block, &key(), "*").await;
                if told.code() != "TAINTED_CONTENT" {
                    core.push(format!("{source}: {name} got into the core: {}", told.text));
                }
            }
            passed.extend(core);
            agent.done("evict_fifo", &json!({"target_tokens": 0})).await;
            let summary = agent.state().await["summary"]["content"].clone();
            let summary = summary.as_str().expect("a summary");
            assert!(summary.contains("Quoxquay"), "what the user said is in it: {summary}");
            for (name, text) in part {
                if repeats(summary, text) {
                    passed.push(format!("{source}: {name} is in the summary"));
                }
            }
            home.assert_verified("vctx.sock", &name);
        }
    }
    assert!(passed.is_empty(), "{} passed:\n{}", passed.len(), passed.join("\n"));
}

#[tokio::test]
async fn what_the_user_said_may_be_stored_although_a_tool_repeats_it() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let said = "My boat is called Marabou and lies at the north pier.";
    ada.append("user", said).await;
    ada.append("tool", format!("Found: {said}")).await;
    ada.append("tool", "The harbour master collects the fee every second Monday.").await;
    ada.done("store_core", &json!({"block_id": "human", "content": said})).await;
    let fee = "The harbour master collects the fee every second Monday.";
    let told =
        ada.tool("store_core", &json!({"block_id": "fee", "content": fee}), &key(), "*").await;
    let refused = told.refused(422, "TAINTED_CONTENT");
    assert_eq!((&refused["rules"], &refused["shared"]), (&json!([]), &json!(true)));
    // In the model's own words it may be stored, and with a reason too.
    let own = json!({"block_id": "fee", "content": "Fee: on alternate Mondays."});
    ada.done("store_core", &own).await;
    let why = json!({"block_id": "fee", "content": fee, "policy": {"justification": "The user wants the exact words."}});
    ada.done("store_core", &why).await;
}
