//! Tests captured calls over the socket: the call's effect and the message with its result are
//! written in one transaction, with one idempotency key, by HTTP and by MCP. A noisy agent must not
//! delay other agents.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::home::{Home, Tuning};
use crate::one_transaction::Stage;
use crate::talk::{Agent, key};

/// Returns an agent's last message, and the message's text.
async fn last(agent: &Agent) -> (Value, String) {
    let message = agent.messages().await.pop().expect("a message");
    let content = message["content"].as_str().expect("a text").to_owned();
    (message, content)
}

fn with(arguments: &Value, capture: Value) -> Value {
    let mut arguments = arguments.clone();
    arguments["capture"] = capture;
    arguments
}

#[tokio::test(flavor = "multi_thread")]
async fn a_captured_call_happens_once_and_its_result_is_in_the_queue_with_it() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    let call = json!({"id": "c1", "function": {"name": "store_core", "arguments": "{}"}});
    ada.append("assistant", json!({"content": "", "tool_calls": [call]})).await;
    let note = json!({"block_id": "human", "content": "Likes tea."});
    let captured = with(&note, json!({"tool_call_id": "c1"}));
    let first = ada.tool("store_core", &captured, "once", "*").await.ok();
    for _ in 0..3 {
        let again = ada.tool("store_core", &captured, "once", "*").await.ok();
        assert_eq!((&again["replayed"], &again["captured"]), (&json!(true), &first["captured"]));
    }
    // A call that reuses a key, but is not captured or names another tool call id, is a different
    // request and is refused.
    for other in
        [note.clone(), with(&note, json!({"tool_call_id": "c2"})), with(&note, json!(true))]
    {
        ada.tool("store_core", &other, "once", "*").await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    }
    let messages = ada.messages().await;
    assert_eq!(messages.len(), 2);
    let (message, content) = last(&ada).await;
    assert_eq!(
        (&message["role"], &message["meta"]["tool_call_id"]),
        (&json!("tool"), &json!("c1"))
    );
    assert_eq!(first["captured"]["result"]["seq"], message["seq"]);
    assert_eq!(content, "Done.");

    // A captured read call writes a message, so it needs an idempotency key. If the caller sends
    // none, the server generates one.
    let read = with(&json!({"block_id": "human"}), json!(true));
    let path = format!("{}/tools/fetch_core", ada.path());
    let answer = ada.wire.call("POST", &path, &[], read.to_string()).await.ok();
    assert!(answer["idempotency_key"].is_string());
    assert_eq!(answer["result"]["_rev"], answer["_rev"]);
    let (message, content) = last(&ada).await;
    assert_eq!(content, "Likes tea.", "the text alone");
    let messages = ada.messages().await;
    let made = &messages[messages.len() - 2];
    assert_eq!(made["meta"]["tool_calls"][0]["id"], message["meta"]["tool_call_id"]);
    assert_eq!(made["meta"]["tool_calls"][0]["function"]["arguments"], r#"{"block_id":"human"}"#);
    let window = ada.context().await;
    let rendered = window["messages"].as_array().expect("messages");
    let [.., last, clock] = &rendered[..] else { panic!("{rendered:?}") };
    assert_eq!((&last["role"], &clock["role"]), (&json!("tool"), &json!("system")));

    // A captured call that fails appends no message.
    let count = ada.messages().await.len();
    let wrong = with(&json!({"block_id": "nobody"}), json!(true));
    let refused = ada.tool("fetch_core", &wrong, &key(), "*").await.refused(404, "BLOCK_NOT_FOUND");
    assert!(refused["system_message"].is_string(), "{refused}");
    for odd in [
        json!("yes"),
        json!({}),
        json!({"tool_call_id": 7}),
        json!({"tool_call_id": ""}),
        json!({"tool_call_id": "x", "y": 1}),
    ] {
        let wrong = with(&json!({"block_id": "human"}), odd);
        ada.tool("fetch_core", &wrong, &key(), "*").await.refused(400, "INVALID_ARGUMENT");
    }
    assert_eq!(ada.messages().await.len(), count);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_can_be_captured_and_a_search_brings_no_copies() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    ada.append("user", "The blue boat lies at pier four.").await;
    let calls = [
        ("store_core", json!({"block_id": "human", "content": "Likes boats."}), "Done."),
        ("fetch_core", json!({"block_id": "human"}), "Likes boats."),
        (
            "write_recall",
            json!({"entries": [{"content": "The red boat is sold."}]}),
            "Saved 1 text.",
        ),
        ("evict_fifo", json!({"target_tokens": 0}), "moved out of view"),
        ("search_recall", json!({"query": "boat"}), ": The red boat is sold."),
        ("ingest_archival", json!({"doc_id": "t.md", "chunks": ["Ebb.", "Flood."]}), "2 passages"),
        ("search_archival", json!({"query_text": "ebb"}), "] Ebb."),
        ("trace_memory", json!({"from": "agent"}), "blue boat lies"),
        ("build_context", json!({"question": "Where is the blue boat?"}), "lies at pier four"),
        ("append_fifo", json!({"message": "Hello.", "role": "assistant"}), "Done."),
        ("record_heartbeat", json!({"state": "continue"}), "Go on."),
    ];
    for (tool, arguments, told) in calls {
        let answer = ada.done(tool, &with(&arguments, json!(true))).await;
        let (message, content) = last(&ada).await;
        assert_eq!(answer["captured"]["result"]["seq"], message["seq"], "{tool}");
        assert!(content.contains(told), "{tool}: {content}");
        let digest = answer["receipt"]["digest"].as_str().unwrap_or("receipt");
        assert!(!content.contains(digest), "{tool}: {content}");
    }
    let messages = ada.messages().await;
    assert!(messages.iter().all(|message| message["kind"] != "copy"));
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_captured_call_that_evicts_is_one_transaction() {
    let stage = Stage::new(&Tuning::default()).await;
    let ada = stage.agent("ada", 2048).await;
    let words = "word ".repeat(60);
    let mut flushed = 0;
    for round in 0..40 {
        let note = json!({"block_id": "human", "content": format!("{round} {words}")});
        stage.writes.clear();
        let answer = ada.done("store_core", &with(&note, json!(true))).await;
        let commits = stage
            .writes
            .record()
            .iter()
            .filter(|e| e.path.contains("/_api/transaction/") && e.method == "PUT")
            .count();
        assert!(commits <= 1, "round {round}: {commits} commits");
        flushed += u64::from(answer["flush"].is_object());
        let (message, _) = last(&ada).await;
        assert_eq!(message["meta"]["tool_call_id"], answer["captured"]["tool_call_id"]);
        // The call and its result are both in the window, whichever messages were evicted.
        let head = ada.state().await["queue"]["head_seq"].as_u64();
        assert!(head <= answer["captured"]["call"]["seq"].as_u64(), "round {round}");
    }
    assert!(flushed > 0);
    stage.home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_captured_eviction_tells_the_occupancy_with_its_own_result() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    let query = "FOR e IN memory_events FILTER e.type == 'flush' SORT e.details.last_seq DESC LIMIT 1 RETURN e.details";
    for round in 0..6 {
        for _ in 0..5 + 3 * round {
            ada.append("user", "word ".repeat(40)).await;
        }
        let evict = with(&json!({"target_tokens": 300}), json!(true));
        let answer = ada.done("evict_fifo", &evict).await;
        let occupancy = &answer["tokens"]["occupancy"];
        assert_eq!(&answer["result"]["after_occupancy"], occupancy);
        let (_, shown) = last(&ada).await;
        let told = format!("; {occupancy} tokens are in view.");
        assert!(shown.ends_with(&told), "{shown} {told}");
        if answer["flush"].is_object() {
            assert_eq!(&answer["flush"]["after_occupancy"], occupancy);
            let told = home.database_inside().row(query, json!({})).await;
            assert_eq!(&told["after_occupancy"], occupancy);
        }
        assert_eq!(answer["flush"].is_object(), round > 0, "{answer:#}");
    }
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_of_captured_reads_ends_its_chain_in_answer_event_and_metric_alike() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let slow = json!({"heartbeat": {"cooldown_ms": 60_000}});
    ada.wire
        .call(
            "PATCH",
            &ada.path(),
            &[("idempotency-key", &*key()), ("if-match", "*")],
            slow.to_string(),
        )
        .await
        .ok();
    ada.done("store_core", &json!({"block_id": "human", "content": "Likes tea."})).await;
    let read = with(&json!({"block_id": "human"}), json!(true));
    let beat = json!({"state": "continue"});
    let mut told = Value::Null;
    for round in 1..=3 {
        if round < 3 {
            ada.done("record_heartbeat", &beat).await;
        }
        told = ada.done("fetch_core", &read).await["heartbeat"].clone();
        assert_eq!(told["terminated_reason"].is_string(), round == 3, "{told}");
    }
    assert_eq!((&told["terminated_reason"], &told["closed_by"]), (&json!("depth"), &json!("call")));
    ada.tool("record_heartbeat", &beat, &key(), "*").await.refused(429, "HEARTBEAT_COOLDOWN");
    let events = ada.wire.get(&format!("{}/events?limit=1000", ada.path())).await.ok();
    let ends =
        events["events"].as_array().expect("events").iter().filter(|e| e["type"] == "hb_end");
    let ends: Vec<&Value> = ends.map(|e| &e["details"]).collect();
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0]["reason"], told["terminated_reason"]);
    for name in ["chain", "chain_depth", "duration_ms", "closed_by"] {
        assert_eq!(ends[0][name], told[name], "{name}");
    }
    let metrics = home.wire("metrics.sock").get("/metrics").await.text;
    let line = "vctx_hb_terminated_total{reason=\"depth\"} 1";
    assert!(metrics.contains(line), "no {line}");
}

/// Number of concurrent calls of the noisy agent; it exceeds the maximum number of waiting calls of
/// one agent.
const NOISE: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn one_noisy_agent_does_not_starve_the_others() {
    let home = Home::new();
    let server = home.serve().await;
    server.expect("more than 256 calls wait for this agent");
    let noisy = Agent::create(home.wire("vctx.sock"), "noisy", 4096, "").await;
    let quiet = Agent::create(home.wire("vctx.sock"), "quiet", 4096, "").await;
    let (over, shed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut noise = Vec::new();
    for at in 0..NOISE {
        let (agent, over, shed) = (noisy.again(), Arc::clone(&over), Arc::clone(&shed));
        noise.push(tokio::spawn(async move {
            for turn in 0.. {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let call = json!({"message": format!("{at} {turn}"), "role": "assistant"});
                let status = agent.tool("append_fifo", &call, &key(), "*").await.status;
                assert!(matches!(status, 200 | 503), "{status}");
                if status == 503 {
                    shed.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }));
    }
    // Each call of the quiet agent must succeed at its first attempt while the noisy agent's calls
    // are running.
    for turn in 0..20 {
        let done = quiet.append("user", format!("turn {turn}")).await;
        assert_eq!(done["receipt"]["seq"], turn + 1);
    }
    over.store(true, Ordering::SeqCst);
    for one in noise {
        one.await.expect("no noise fails");
    }
    let appended = noisy.messages().await.len();
    assert!(appended > 0, "the noisy one was served too");
    // Only calls of the noisy agent were refused, because the number of this agent's waiting calls
    // had reached its maximum.
    assert!(shed.load(Ordering::SeqCst) > 0, "{appended} calls and none held back");
}
