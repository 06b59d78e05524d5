//! Tests that `user` and `metadata` of a client's request become labels of its messages and of the
//! answers.

use serde_json::{Value, json};

use super::{agent_of, asking, chat, post, stage, user};
use crate::talk::key;

#[tokio::test(flavor = "multi_thread")]
async fn the_user_and_the_metadata_of_a_request_select_its_messages() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    let mut body = asking(&[user("My boat leaks.")]);
    body["user"] = "bea".into();
    body["metadata"] = json!({"ticket": "42"});
    let ada = stage.agent(&agent_of(&chat(&wire, &body).await.ok()));
    let wanted = json!({"user": "bea", "metadata": {"ticket": "42"}});
    let messages = ada.messages().await;
    let labels: Vec<&Value> = messages.iter().map(|one| &one["meta"]["labels"]).collect();
    assert_eq!(labels, [&json!(["user=bea", "metadata.ticket=42"]); 2], "{messages:#?}");
    for (labels, hits) in [(wanted, 2), (json!({"user": "carl"}), 0)] {
        let search = json!({"query": "boat", "labels": labels});
        let found = ada.tool("search_recall", &search, &key(), "*").await.ok();
        let results = found["result"]["results"].as_array().expect("results");
        assert_eq!(results.len(), hits, "{labels}: {found:#}");
    }
    let listed = wire.get("/v1/agents?user=bea").await.ok();
    assert_eq!(listed["agents"][0]["agent"], ada.name, "{listed:#}");
    // A repetition with other metadata gets the same answer and stores nothing.
    body["metadata"] = json!({"ticket": "43"});
    assert_eq!(agent_of(&chat(&wire, &body).await.ok()), ada.name);
    assert_eq!(ada.messages().await, messages);

    let claude = json!({"model": "claude", "max_tokens": 99, "messages": [user("Hello.")],
        "metadata": {"user_id": "x".repeat(256)}});
    let answered = post(&wire, "/v1/messages", &[], &claude).await.ok();
    let other = stage.agent(&agent_of(&answered));
    let label = format!("user={}", "x".repeat(256));
    assert_eq!(other.messages().await[0]["meta"]["labels"], json!([label]));
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_beyond_their_bounds_are_refused_at_their_field() {
    let stage = stage(&["vctx.sock"], "echo").await;
    let wire = stage.wire();
    for (path, field, given) in [
        ("/v1/chat/completions", "metadata", json!({"metadata": {"a": 1}})),
        ("/v1/chat/completions", "metadata", json!({"metadata": {"a b": "c"}})),
        ("/v1/responses", "metadata.a", json!({"metadata": {"a": "x".repeat(513)}})),
        ("/v1/responses", "user", json!({"user": "x".repeat(257)})),
        ("/v1/messages", "metadata.user_id", json!({"metadata": {"user_id": "x".repeat(257)}})),
    ] {
        let mut body = json!({"model": "m"});
        match path {
            "/v1/responses" => body["input"] = "Hello.".into(),
            _ => body["messages"] = json!([user("Hello.")]),
        }
        if path == "/v1/messages" {
            body["max_tokens"] = 9.into();
        }
        body.as_object_mut().expect("a body").extend(given.as_object().expect("fields").clone());
        let refused = post(&wire, path, &[], &body).await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text);
        assert!(refused.text.contains(field), "{path} {field}: {}", refused.text);
    }
    assert_eq!(wire.get("/v1/agents").await.ok()["agents"], json!([]));
}
