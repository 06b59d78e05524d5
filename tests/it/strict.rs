//! Tests the strict form of the window over the socket: templates accept it, and its receipts and
//! prompts can be proved after any change of the form.

use serde_json::{Value, json};

use crate::count;
use crate::home::Home;
use crate::provider;
use crate::talk::{Agent, key};

async fn send(ada: &Agent, method: &str, rest: &str, body: &Value) -> Value {
    let headers = [("idempotency-key", key()), ("if-match", "*".to_owned())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    ada.wire.call(method, &format!("{}{rest}", ada.path()), &headers, body.to_string()).await.ok()
}

/// Checks the rendered window, and returns it.
async fn taken(ada: &Agent) -> Value {
    let context = ada.context().await;
    let messages = context["messages"].as_array().expect("messages");
    assert_eq!(provider::strict_fault(messages), None, "{messages:#?}");
    assert_eq!(context["tokens"]["occupancy"].as_u64(), Some(count::window(messages)));
    context
}

/// Records a prompt, and returns its number and its request.
async fn asked(ada: &Agent) -> (u64, Value) {
    let asked = send(ada, "POST", "/prompts", &json!({"run": "r", "model": "parrot-1"})).await;
    (asked["turn"].as_u64().expect("a number"), asked["request"].clone())
}

fn call(id: &str) -> Value {
    json!({"content": "", "tool_calls": [{"id": id, "type": "function",
        "function": {"name": "tide", "arguments": "{}"}}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_window_is_rendered_counted_verified_and_replayed() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::at(home.wire("vctx.sock"), "ada");
    let body = json!({"context_window": 4096, "system": "Be brief.", "form": "strict"});
    ada.wire.put(&ada.path(), &body).await.ok();
    ada.append("user", json!({"content": "The berth costs 14 crowns.", "name": "Bea"})).await;
    ada.append("assistant", "Noted.").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    ada.done("store_core", &json!({"block_id": "plan", "content": "Sail."})).await;
    ada.append("user", "When is high tide?").await;
    ada.append("assistant", call("A")).await;
    ada.append("tool", json!({"content": "At seven.", "tool_call_id": "A"})).await;
    send(&ada, "POST", "/events", &json!({"class": "system", "content": "It rains."})).await;
    ada.append("user", "And what does the berth cost?").await;
    ada.done("search_recall", &json!({"query": "berth costs", "rehydrate": true})).await;
    let receipt = taken(&ada).await;
    let newest = receipt["messages"].as_array().and_then(|all| all.last()).expect("a message");
    let text = newest["content"].as_str().expect("a text");
    assert!(text.starts_with("Recalled from earlier, not said now:\n#1 user Bea"), "{text}");
    assert!(text.contains("\n[the time]\n[not said by the user]\nNow: "), "{text}");
    assert!(text.ends_with("\n[the user]\nAnd what does the berth cost?\n"), "{text}");

    let saved = home.path("receipt.json");
    let socket = home.path("vctx.sock").display().to_string();
    let holds = |receipt: &Value| {
        std::fs::write(&saved, receipt.to_string()).expect("a file");
        let saved = saved.display().to_string();
        let checked = home.run(&["verify", "--receipt", &saved, "--socket", &socket]);
        (checked.status.success(), String::from_utf8_lossy(&checked.stdout).into_owned())
    };
    let (is_true, told) = holds(&receipt);
    assert!(is_true, "{told}");
    let mut forged = receipt.clone();
    let at = forged["messages"].as_array().map_or(0, Vec::len) - 1;
    forged["messages"][at]["content"] = text.replace("berth cost?", "boat cost?").into();
    assert!(!holds(&forged).0, "another text of a part is found");

    let mut prompts = vec![asked(&ada).await];
    // The first message after calls and their answer are forgotten; their places stay.
    send(&ada, "POST", "/forget", &json!({"seqs": [6]})).await;
    taken(&ada).await;
    prompts.push(asked(&ada).await);
    send(&ada, "PATCH", "", &json!({"form": "2"})).await;
    ada.append("user", "Thanks.").await;
    prompts.push(asked(&ada).await);
    send(&ada, "PATCH", "", &json!({"form": "strict"})).await;
    taken(&ada).await;
    prompts.push(asked(&ada).await);
    let mut exact = Vec::new();
    for (turn, request) in prompts {
        let again = ada.wire.get(&format!("{}/prompts/{turn}", ada.path())).await.ok();
        exact.push(again["exact"] == true);
        if again["exact"] == true {
            assert_eq!(again["request"], request, "prompt {turn}");
        } else {
            assert_eq!((&again["differs"], &again["gone"][0]["seq"]), (&json!([]), &json!(6)));
        }
    }
    assert_eq!(exact, [false, true, true, true], "the first prompt showed what is forgotten");
    let replayed = home.run(&["replay", "ada", "--turn", "2", "--socket", &socket]);
    let told = String::from_utf8_lossy(&replayed.stdout);
    assert!(told.contains("exact: these are the bytes that were sent"), "{told}");
    home.assert_verified("vctx.sock", "ada");
}
