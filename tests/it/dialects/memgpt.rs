//! Tests the dialect of MemGPT: messages to the user, searches and heartbeats.

use serde_json::json;

use super::{ada, text};
use crate::home::Home;
use crate::talk::{key, said};

#[tokio::test(flavor = "multi_thread")]
async fn memgpt_speaks_to_the_user_searches_and_beats() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = ada(&home).await;
    ada.append("user", "The Swallow lies at pier 4, and the harbour master wants eighteen euros.")
        .await;
    let sent = ada.done("send_message", &json!({"message": "I will remember that."})).await;
    assert_eq!(sent["result"]["text"], "Sent.");
    let spoken = said(&ada.messages().await);
    assert_eq!(spoken[1], ("assistant".to_owned(), "I will remember that.".to_owned()));
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;

    let found = ada
        .done(
            "conversation_search",
            &json!({"query": "harbour master", "roles": ["user"], "request_heartbeat": true}),
        )
        .await;
    let told = found["result"]["text"].as_str().expect("a text");
    assert!(told.starts_with("Showing 1 of 1 results: [\"timestamp: "), "{told}");
    assert!(told.contains("user - The Swallow lies at pier 4"), "{told}");
    assert_eq!(found["heartbeat"]["granted"], true);
    assert_eq!(
        ada.context().await["messages"].as_array().map_or(0, |m| {
            m.iter()
                .filter(|one| {
                    one["content"].as_str().is_some_and(|c| c.contains("Swallow"))
                        && one["role"] == "user"
                })
                .count()
        }),
        0,
        "only the answer contains the results"
    );

    let today = json!({"start_date": "2000-01-01", "end_date": "2999-12-31", "limit": 1});
    let dated = ada.done("conversation_search_date", &today).await;
    assert_eq!(
        (&dated["result"]["total"], &dated["result"]["next_offset"]),
        (&json!(2), &json!(1))
    );
    let next = json!({"start_date": "2000-01-01", "end_date": "2999-12-31", "limit": 1, "offset": 1, "request_heartbeat": true});
    let dated = ada.done("conversation_search_date", &next).await;
    assert!(
        dated["result"]["text"].as_str().is_some_and(|t| t.contains("I will remember that.")),
        "{dated:#}"
    );
    assert_eq!(dated["heartbeat"]["chain_depth"], 2);
    let past = json!({"start_date": "2000-01-01", "end_date": "2000-01-02"});
    let none = ada.done("conversation_search_date", &past).await;
    assert_eq!(none["result"]["text"], "No results found.");

    let content = "The ferry to Elba leaves Piombino every hour.";
    let beat = json!({"content": content, "tags": ["trips"], "request_heartbeat": true});
    let first = ada.done("archival_memory_insert", &beat).await;
    assert_eq!(
        (&first["result"]["inserted"], &first["heartbeat"]["chain_depth"]),
        (&json!(1), &json!(3))
    );
    // The text is stored once, regardless of the revision that the caller saw.
    let again = ada
        .tool(
            "archival_memory_insert",
            &json!({"content": content, "tags": ["trips"]}),
            &key(),
            "_none",
        )
        .await
        .ok();
    assert_eq!(again["result"]["unchanged"], true);
    let found = ada
        .done(
            "archival_memory_search",
            &json!({"query": "ferry to Elba", "start_datetime": "2000-01-01T00:00"}),
        )
        .await;
    let told = found["result"]["text"].as_str().expect("a text");
    assert!(told.starts_with("Showing 1 of 1 results: [") && told.contains(content), "{told}");

    for (tool, arguments, field) in [
        ("conversation_search", json!({"query": "x", "start_date": "yesterday"}), "start_date"),
        ("conversation_search", json!({"query": "x", "roles": ["user", "tool"]}), "roles"),
        ("conversation_search", json!({"query": "x", "page": 2}), "page"),
        ("archival_memory_search", json!({"query": "x", "tags": ["a"]}), "tags"),
        ("archival_memory_insert", json!({"content": " "}), "content"),
        ("core_memory_append", json!({"label": "a b", "content": "x"}), "label"),
        ("memory_insert", json!({"label": "a/b", "new_str": "x"}), "label"),
        ("send_message", json!({"message": ""}), "message"),
    ] {
        let refused = ada.tool(tool, &arguments, &key(), "*").await;
        assert_eq!(
            (refused.status, &refused.body["field"]),
            (400, &json!(field)),
            "{tool}: {}",
            refused.text
        );
        assert!(text(&refused).starts_with("Error: "), "{}", refused.text);
    }
    let missing = ada
        .tool(
            "memory_replace",
            &json!({"label": "nobody", "old_str": "a", "new_str": "b"}),
            &key(),
            "*",
        )
        .await;
    assert_eq!(missing.code(), "BLOCK_NOT_FOUND");
    home.assert_verified("vctx.sock", "ada");
}
