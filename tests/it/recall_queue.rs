//! Tests that a search also finds messages that are still in the queue.

use serde_json::{Value, json};

use crate::home::Home;
use crate::talk::Agent;

async fn found(agent: &Agent, arguments: &Value) -> Vec<Value> {
    let result = agent.done("search_recall", arguments).await["result"].take();
    result["results"].as_array().expect("results").clone()
}

#[tokio::test]
async fn a_message_in_view_is_found_and_neither_copied_nor_shown_twice() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    ada.append("user", "The harbour code was marigold last year.").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let code = "The harbour code is foxglove now, as the harbour master told all the owners of boats \
        in the letter that lay on the table in the hall this morning.";
    ada.append("user", code).await;
    ada.append("tool", "harbour code foxglove").await;
    ada.append("user", "Thank you.").await;

    let asked = json!({"query": "harbour code foxglove", "rehydrate": false});
    let results = found(&ada, &asked).await;
    let texts: Vec<&str> = results.iter().filter_map(|one| one["content"].as_str()).collect();
    assert_eq!(texts, [code, "The harbour code was marigold last year."]);
    let in_window: Vec<&Value> = results.iter().map(|one| &one["in_window"]).collect();
    assert_eq!(in_window, [&json!(true), &Value::Null]);
    let narrowed = json!({"query": "harbour code", "rehydrate": false, "role": "assistant"});
    assert_eq!(found(&ada, &narrowed).await, Vec::<Value>::new());

    // A model that sees the window gets the beginning of the text, beside the results that it asked
    // for, and a copy only of the message that has left.
    let results = found(&ada, &json!({"query": "harbour code foxglove", "limit": 1})).await;
    let shown = results[0]["content"].as_str().expect("a text");
    assert!(shown.len() < code.len() && code.starts_with(shown.trim_end_matches('…')), "{shown}");
    assert_eq!((results.len(), &results[0]["copy_seq"]), (2, &Value::Null));
    assert!(results[1]["copy_seq"].is_u64(), "{results:?}");
    home.assert_verified("vctx.sock", "ada");
}
