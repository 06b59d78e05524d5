//! Tests the answers to tool calls as the text that a model reads.

use serde_json::{Value, json};

use crate::home::Home;
use crate::talk::{Agent, key};
use crate::wire::Answer;

/// Calls a tool with the given `Accept` header.
async fn asked(agent: &Agent, tool: &str, accept: &str, arguments: Value) -> Answer {
    let (path, key) = (format!("{}/tools/{tool}", agent.path()), key());
    let headers = [("accept", accept), ("idempotency-key", &key), ("if-match", "*")];
    agent.wire.call("POST", &path, &headers, arguments.to_string()).await
}

#[tokio::test]
async fn a_caller_may_ask_for_the_text_that_a_model_reads() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 32_768, "You are Ada.").await;

    let stored =
        asked(&ada, "store_core", "text/plain", json!({"block_id": "b", "content": "Tea."})).await;
    let (state, rev) = (ada.state().await, ada.revision().await);
    let used = &state["tokens"]["occupancy"];
    assert_eq!(stored.text, format!("Done.\n[rev {rev} · {used}/32768 tokens]"));
    assert_eq!(stored.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(stored.headers["etag"], format!("\"{rev}\""));
    let fetched =
        asked(&ada, "fetch_core", "text/plain;q=0.9, */*", json!({"block_id": "b"})).await;
    assert!(fetched.text.starts_with("Tea.\n[rev "), "{}", fetched.text);
    for accept in ["*/*", "application/json, text/plain, */*"] {
        let whole = asked(&ada, "fetch_core", accept, json!({"block_id": "b"})).await;
        assert_eq!(whole.body["result"]["content"], "Tea.", "{accept}");
    }

    let beat = asked(&ada, "record_heartbeat", "text/plain", json!({"state": "continue"})).await;
    assert!(beat.text.contains(" tokens · beat 1"), "{}", beat.text);
    let document = json!({"doc_id": "d", "document": "Ebb at noon."});
    let kept = asked(&ada, "ingest_archival", "text/plain", document).await;
    assert!(kept.text.starts_with("Archived 1 passage.\n[rev "), "{}", kept.text);
    assert_eq!(kept.headers["x-vctx-agent-rev"], ada.revision().await);
    assert_ne!(kept.headers["etag"], format!("\"{}\"", ada.revision().await));
}

#[tokio::test]
async fn a_refusal_and_a_dialect_have_their_own_texts() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 32_768, "You are Ada.").await;
    ada.done("store_core", &json!({"block_id": "b", "content": "Tea."})).await;

    let missing = asked(&ada, "fetch_core", "text/plain", json!({"block_id": "c"})).await;
    assert_eq!(
        (missing.status, &missing.headers["x-vctx-error"]),
        (404, &"BLOCK_NOT_FOUND".parse().unwrap())
    );
    assert!(missing.text.starts_with("Error BLOCK_NOT_FOUND: no such block"), "{}", missing.text);
    assert!(missing.text.ends_with("(blocks: b)"), "{}", missing.text);
    let socket = home.path("vctx.sock").display().to_string();
    let told = home.run(&["tool", "fetch_core", "--agent", "ada", "--text", "--socket", &socket]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let lines = ["<block id=\"b\">", "Tea.", "</block>"];
    assert!(told.starts_with(&lines.join("\n")) && told.ends_with(" tokens]\n"), "{told}");
    let unknown = asked(&ada, "fetch_cor", "text/plain", json!({})).await;
    assert!(unknown.text.starts_with("Error TOOL_NOT_FOUND: "), "{}", unknown.text);
    let again = asked(&ada, "fetch_core", "application/json", json!({"block_id": "c"})).await;
    again.refused(404, "BLOCK_NOT_FOUND");

    let view = json!({"command": "view", "path": "/memories/b"});
    let viewed = asked(&ada, "memory", "text/plain", view).await;
    assert_eq!(viewed.text, "Here's the content of /memories/b with line numbers:\n     1\tTea.");
    let view = json!({"command": "view", "path": "/memories/c"});
    let refused = asked(&ada, "memory", "text/plain", view).await;
    assert_eq!(refused.text, "The path /memories/c does not exist. Please provide a valid path.");
}

#[tokio::test]
async fn a_window_too_small_for_its_fixed_part_is_told_at_creation_and_change() {
    let home = Home::new();
    let _server = home.serve().await;
    let wire = home.wire("vctx.sock");
    let long = "Be kind. ".repeat(80);
    let body = json!({"context_window": 400, "system": long});
    let made = wire.put("/v1/agents/ada", &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let warning = made.body["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains(" of 400 tokens (system "), "{warning}");
    let ada = Agent::at(wire, "ada");
    let change = |window: u64| {
        let (path, body) = (ada.path(), json!({"context_window": window}).to_string());
        let headers = [("idempotency-key", key()), ("if-match", "*".to_owned())];
        let wire = ada.wire.again();
        async move {
            let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
            wire.call("PATCH", &path, &headers, body).await.ok()
        }
    };
    assert_eq!(change(8_192).await["warnings"], Value::Null);
    assert!(change(500).await["warnings"][0].is_string());
    assert!(ada.state().await["warnings"][0].is_string());
}
