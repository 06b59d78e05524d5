//! Tests that the log lines of a request have the ids of the trace that its caller names, over HTTP
//! and over MCP.

use serde_json::{Value, json};

use crate::home::{Home, Process, Tuning};
use crate::line::Line;
use crate::scripted::Scripted;
use crate::talk::key;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn parent(span: &str) -> String {
    format!("00-{TRACE}-{span}-01")
}

/// A server whose log has one JSON object in each line.
async fn server(home: &Home) -> Process {
    home.serve_with("vctx.sock", &Tuning::variable("VCTX_LOG__FORMAT", "json")).await
}

/// Returns the lines of the log about calls.
fn calls(server: &Process) -> Vec<Value> {
    let lines = server.said();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["message"] == "call").collect()
}

/// Returns the tools of the calls that the log joins to the trace, with the ids of their parents.
fn traced(server: &Process) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ids = |line: Value| {
        let spans = line["spans"].as_array().cloned().unwrap_or_default();
        let span = spans.into_iter().find(|span| span["trace_id"] == TRACE)?;
        Some((text(&line["tool"]), text(&span["parent_id"])))
    };
    calls(server).into_iter().filter_map(ids).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_call_has_the_ids_of_its_trace() {
    let home = Home::new();
    let server = server(&home).await;
    let wire = home.wire("vctx.sock");
    wire.put("/v1/agents/ada", &json!({"context_window": 4096})).await;
    let upper = parent("00f067aa0ba902b7").to_uppercase();
    for (parent, message) in [
        (parent("00f067aa0ba902b7"), "one"),
        (parent("0000000000000000"), "two"),
        (upper, "three"),
        (String::new(), "four"),
    ] {
        let key = key();
        let headers = [
            ("idempotency-key", key.as_str()),
            ("if-match", "*"),
            ("traceparent", parent.as_str()),
            ("tracestate", "vendor=secret"),
        ];
        let path = "/v1/agents/ada/tools/append_fifo";
        let body = json!({"message": message, "role": "user"}).to_string();
        wire.call("POST", path, &headers, body).await.ok();
    }
    let expected = [("append_fifo".to_owned(), "00f067aa0ba902b7".to_owned())];
    assert_eq!(traced(&server), expected, "only a valid parent is taken");
    assert!(!server.said().contains("vendor=secret"), "the state is not logged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_goes_through_the_bridge_in_every_version_of_the_protocol() {
    let home = Home::new();
    let server = server(&home).await;
    let mut expected = Vec::new();
    for (number, version) in ["2024-11-05", "2025-11-25", "2026-07-28"].into_iter().enumerate() {
        let mut line = Line::start(&home, &[], &Tuning::default());
        match version {
            "2026-07-28" => line.without_initialize(version),
            _ => drop(line.initialize(version).await),
        }
        let span = format!("00f067aa0ba902b{number}");
        let call = async |line: &mut Line, tool: &str, arguments: Value, meta: Value| {
            let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
            Line::done(line.ask("tools/call", params).await["result"].clone())
        };
        let meta = json!({"traceparent": parent(&span), "tracestate": "vendor=secret"});
        let said = json!({"message": "one", "role": "user"});
        call(&mut line, "append_fifo", said.clone(), meta).await;
        // What is no trace context is ignored, also what no header could hold.
        for odd in [json!("none"), json!(7), json!("00\r\nif-match: *"), Value::Null] {
            let meta = json!({"traceparent": odd, "tracestate": "a\r\nb: c"});
            call(&mut line, "append_fifo", said.clone(), meta).await;
        }
        line.leave().await;
        expected.push(("append_fifo".to_owned(), span));
    }
    assert_eq!(traced(&server), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_with_its_run_belongs_to_one_trace() {
    let home = Home::new();
    let model = Scripted::start(&home, "echo", &[]).await;
    let mut tuning = model.tuning(&[]);
    tuning.environment.push(("VCTX_LOG__FORMAT".into(), "json".into()));
    let server = home.serve_with("vctx.sock", &tuning).await;
    let wire = home.wire("vctx.sock");
    let parent = parent("00f067aa0ba902b7");
    for stream in [false, true] {
        let said = if stream { "streamed" } else { "whole" };
        let body = json!({"model": format!("vctx/{said}"), "stream": stream,
            "messages": [{"role": "user", "content": said}]});
        let headers = [("traceparent", parent.as_str())];
        let answer = wire.call("POST", "/v1/chat/completions", &headers, body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let all = calls(&server);
        assert_eq!(traced(&server).len(), all.len(), "{all:#?}");
        for agent in ["whole", "streamed"].into_iter().filter(|name| stream || *name == said) {
            let own = all.iter().filter(|line| line["agent"] == agent).count();
            assert!(own >= 2, "the message and the run of {agent}: {all:#?}");
        }
    }
}
