//! Reads the spans of the steps of calls from the server's log.

use serde_json::{Value, json};

use crate::home::{Home, Tuning};
use crate::talk::Agent;

/// The log filter that shows the steps of calls.
const FILTER: &str = "info,vctx_server::executor::steps=debug";

/// Returns the names of the steps of each call to a tool, in order. Checks that each step has a
/// duration and belongs to the span of its call.
fn steps(log: &str, tool: &str) -> Vec<Vec<String>> {
    let mut calls: Vec<(Value, Vec<String>)> = Vec::new();
    for line in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if line["message"] != "step ended" {
            continue;
        }
        assert!(line["duration_us"].is_u64(), "{line}");
        assert_eq!(line["level"], "DEBUG", "{line}");
        let spans = line["spans"].as_array().expect("spans");
        let [call, step] = spans.as_slice() else { panic!("a step inside a call: {line}") };
        assert_eq!((&call["name"], &call["agent"]), (&json!("tool_call"), &json!("ada")), "{line}");
        if call["tool"] != tool {
            continue;
        }
        let name = step["step"].as_str().expect("a name").to_owned();
        match calls.iter_mut().find(|(key, _)| *key == call["key_hash"]) {
            Some((_, names)) => names.push(name),
            None => calls.push((call["key_hash"].clone(), vec![name])),
        }
    }
    calls.into_iter().map(|(_, names)| names).collect()
}

#[tokio::test]
async fn each_step_of_a_call_has_a_span_with_its_duration_in_the_order_of_the_call() {
    let home = Home::new();
    let mut tuning = Tuning::variable("VCTX_LOG__FILTER", FILTER);
    tuning.environment.push(("VCTX_LOG__FORMAT".into(), "json".into()));
    let server = home.serve_with("vctx.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    ada.append("user", "Good morning, harbour.").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let log = server.said();
    let decided = ["execute", "capture", "budget", "heartbeat", "write"];
    let append = [&["validate", "wait", "load"][..], &decided].concat();
    assert_eq!(steps(&log, "append_fifo"), [append]);
    // An eviction asks for the queue and for a summary, and is decided again with the answers.
    let evict = &steps(&log, "evict_fifo")[0];
    assert_eq!(evict[..3], ["validate", "wait", "load"], "{evict:?}");
    assert!(evict.ends_with(&["heartbeat".to_owned(), "write".to_owned()]), "{evict:?}");
    assert_eq!(evict.iter().filter(|step| *step == "ask").count(), 2, "{evict:?}");
    assert!(!log.contains("Good morning"), "no text in the log");
}

#[tokio::test]
async fn the_steps_of_calls_are_not_logged_by_default() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    ada.append("user", "Good morning.").await;
    let log = server.said();
    assert!(log.contains("append_fifo") && !log.contains("step ended"), "{log}");
}
