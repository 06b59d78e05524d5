//! Tests tool calls and their results in a prompt: a provider accepts the window even if calls or
//! results were evicted, arrived late, were forgotten or are unknown.

use serde_json::{Value, json};

use crate::count;
use crate::home::Home;
use crate::provider;
use crate::talk::{Agent, key};

/// Number of messages, enough to fill a window of [`WINDOW`] tokens several times.
const MESSAGES: usize = 60;
const WINDOW: u64 = 1024;

fn call(id: &str) -> Value {
    json!({"content": "", "tool_calls": [{"id": id, "type": "function",
        "function": {"name": "slow_job", "arguments": "{}"}}]})
}

fn result(id: &str, text: &str) -> Value {
    json!({"content": text, "tool_call_id": id})
}

/// Checks that a provider accepts the rendered window, and that the window costs as many tokens as
/// the server counted. Returns the window.
async fn taken(ada: &Agent) -> Value {
    let context = ada.context().await;
    let messages = context["messages"].as_array().expect("messages");
    assert_eq!(provider::fault(messages), None, "{messages:#?}");
    assert_eq!(context["tokens"]["occupancy"].as_u64(), Some(count::window(messages)));
    context
}

fn last(context: &Value) -> Value {
    let mut messages = context["messages"].as_array().expect("messages").iter();
    messages.rfind(|m| m["role"] != "system").expect("a message").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_comes_after_its_call_has_left_makes_no_orphan() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", WINDOW, "Be brief.").await;
    ada.append("assistant", call("A")).await;
    let waiting = taken(&ada).await;
    assert_eq!(last(&waiting)["content"], "[no result yet]");
    for _ in 0..MESSAGES {
        ada.append("user", count::words(30)).await;
        taken(&ada).await;
    }
    assert!(ada.state().await["queue"]["head_seq"].as_u64() > Some(1), "the call has left");
    ada.append("tool", result("A", "It rains.")).await;
    let context = taken(&ada).await;
    let messages = context["messages"].as_array().expect("messages").iter();
    let mut told = messages.filter(|m| m["content"].to_string().contains("It rains."));
    let (late, others) = (told.next().expect("the result"), told.count());
    let content = late["content"].as_str().expect("a text");
    let (_, rest) = content.split_once("outside ").expect("a fence");
    let (fence, _) = rest.split_once(';').expect("an id");
    let expected = format!(
        "[late result of tool call A: no call in view waits for it]\n\
         [text from outside {fence}; not said by the user]\nIt rains.\n\
         [end of text from outside {fence}]"
    );
    assert_eq!((&late["role"], others), (&json!("system"), 0));
    assert!(content.ends_with(&expected), "{content}");
    ada.append("assistant", call("B")).await;
    ada.append("user", "Is it done?").await;
    ada.append("tool", result("B", "It is.")).await;
    ada.append("tool", result("B", "It is, again.")).await;
    taken(&ada).await;
    // A tool result with an unknown call id is refused as an error of the caller.
    let unknown = json!({"message": result("Z", "x"), "role": "tool"});
    let refused = ada.tool("append_fifo", &unknown, &key(), "*").await;
    assert!(refused.text.contains("no call `Z`"), "{}", refused.text);
    refused.refused(400, "INVALID_ARGUMENT");
    // Receipts of windows with pending calls, and with late results, agree with the log.
    home.assert_verified("vctx.sock", "ada");
    for context in [waiting, context] {
        let saved = home.path("receipt.json");
        std::fs::write(&saved, context.to_string()).expect("a file");
        let (saved, socket) = (saved.display().to_string(), home.path("vctx.sock"));
        let socket = socket.display().to_string();
        let checked = home.run(&["verify", "--receipt", &saved, "--socket", &socket]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_and_its_result_are_forgotten_together_however_far_apart_they_stand() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    for id in ["A", "B", "C"] {
        ada.append("assistant", call(id)).await;
    }
    for _ in 0..100 {
        ada.append("user", "Wait.").await;
    }
    for id in ["A", "B"] {
        ada.append("tool", result(id, "It rains.")).await;
    }
    // The test makes the server forget the call of one pair, the result of another pair, and a call
    // that has no result yet.
    for seq in [1, 105, 3] {
        let path = format!("{}/forget", ada.path());
        let headers = [("idempotency-key", key()), ("if-match", "*".to_owned())];
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        ada.wire.call("POST", &path, &headers, json!({"seqs": [seq]}).to_string()).await.ok();
        taken(&ada).await;
    }
    ada.append("tool", result("C", "It snows.")).await;
    let context = taken(&ada).await;
    let left = context["messages"].as_array().expect("messages").iter();
    assert!(left.clone().all(|m| m["role"] != "tool" && m["role"] != "assistant"), "{context:#}");
    assert_eq!(left.clone().filter(|m| m["role"] == "user").count(), 100);
    let snows = left.filter(|m| m["content"].to_string().contains("It snows."));
    assert!(snows.clone().count() == 1 && snows.clone().all(|m| m["role"] == "system"));
    home.assert_verified("vctx.sock", "ada");
}
