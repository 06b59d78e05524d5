//! Tests bad input: each kind is refused with its own code and message, and changes nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use vctx::limits::BODY_BYTES_MAX;

use crate::count;
use crate::database::Database;
use crate::home::{Home, Tuning};
use crate::talk::{Agent, key};
use crate::wire::Wire;

/// Returns all data that a refused call must not change.
async fn everything(ada: &Agent, database: &Database) -> Value {
    json!({"state": ada.state().await, "messages": ada.messages().await, "context": ada.context().await,
        "counts": database.counts().await, "agents": ada.wire.get("/v1/agents").await.ok()})
}

/// Adds one event to the expected value of [`everything`]: a refusal for lack of room writes an
/// event, and changes nothing else.
fn one_event_more(expected: &mut Value) {
    let events = expected["counts"]["events"].as_u64().expect("a number");
    expected["counts"]["events"] = (events + 1).into();
}

/// Returns an agent with a window of 8192 tokens and content in each section of the window.
async fn furnished(home: &Home) -> Agent {
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "You are kind.").await;
    ada.done("store_core", &json!({"block_id": "human", "content": "Likes tea."})).await;
    ada.append("user", "Hello").await;
    let call =
        json!([{"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}]);
    ada.append("assistant", json!({"content": "", "tool_calls": call})).await;
    ada.append("tool", json!({"content": "high", "tool_call_id": "c1"})).await;
    ada.done("write_recall", &json!({"entries": [{"content": "Has a boat."}]})).await;
    ada
}

/// A request (method, path, headers, body), and the expected status and code.
struct Case {
    what: &'static str,
    method: &'static str,
    path: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
    status: u16,
    code: &'static str,
    /// Fields that the error must contain, with their values.
    fields: Vec<(&'static str, Value)>,
}

fn case(what: &'static str, path: &'static str, body: impl Into<Vec<u8>>) -> Case {
    let headers = vec![("idempotency-key", "bad"), ("if-match", "*")];
    Case {
        what,
        method: "POST",
        path,
        headers,
        body: body.into(),
        status: 0,
        code: "",
        fields: vec![],
    }
}

impl Case {
    fn is(mut self, status: u16, code: &'static str) -> Case {
        (self.status, self.code) = (status, code);
        self
    }

    fn naming(mut self, field: &'static str) -> Case {
        self.fields.push(("field", field.into()));
        self
    }

    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Case {
        self.fields.push((name, value.into()));
        self
    }

    fn by(mut self, method: &'static str, headers: &[(&'static str, &'static str)]) -> Case {
        (self.method, self.headers) = (method, headers.to_vec());
        self
    }
}

const APPEND: &str = "/v1/agents/ada/tools/append_fifo";
const STORE: &str = "/v1/agents/ada/tools/store_core";
const EVICT: &str = "/v1/agents/ada/tools/evict_fifo";
const RECALL: &str = "/v1/agents/ada/tools/write_recall";
const FETCH: &str = "/v1/agents/ada/tools/fetch_core";

fn hello() -> String {
    json!({"message": "Hello", "role": "user"}).to_string()
}

fn cases() -> Vec<Case> {
    let huge = json!({"message": "a".repeat(2 * 1024 * 1024), "role": "user"}).to_string();
    let long = json!({"message": "a ".repeat(600 * 1024), "role": "user"}).to_string();
    let keyed =
        |headers: &[(&'static str, &'static str)]| case("", APPEND, hello()).by("POST", headers);
    let mut cases = vec![
        case("unknown agent", "/v1/agents/nobody/tools/append_fifo", hello()).is(404, "AGENT_NOT_FOUND"),
        case("a name with a blank", "/v1/agents/a%20b/tools/append_fifo", hello()).is(400, "INVALID_NAME").naming("agent"),
        case("unknown tool", "/v1/agents/ada/tools/forget_all", hello()).is(404, "TOOL_NOT_FOUND"),
        case("unknown path", "/v1/agents/ada/tools", hello()).is(404, "ROUTE_NOT_FOUND"),
        case("a method that is not there", APPEND, "").by("DELETE", &[]).is(405, "METHOD_NOT_ALLOWED"),
        case("state of nobody", "/v1/agents/nobody", "").by("GET", &[]).is(404, "AGENT_NOT_FOUND"),
        case("context of nobody", "/v1/agents/nobody/context", "").by("GET", &[]).is(404, "AGENT_NOT_FOUND"),
        case("messages of nobody", "/v1/agents/nobody/messages", "").by("GET", &[]).is(404, "AGENT_NOT_FOUND"),
        case("a page of none", "/v1/agents/ada/messages?limit=0", "").by("GET", &[]).is(400, "INVALID_ARGUMENT").naming("limit"),
        case("a page too long", "/v1/agents/ada/messages?limit=1001", "").by("GET", &[]).is(400, "INVALID_ARGUMENT").naming("limit"),
        case("a page from nowhere", "/v1/agents/ada/messages?from_seq=-1", "").by("GET", &[]).is(400, "INVALID_ARGUMENT").naming("from_seq"),
        case("an unknown parameter", "/v1/agents/ada/messages?from=1", "").by("GET", &[]).is(400, "INVALID_ARGUMENT").naming("from"),
        case("a history of nobody", "/v1/agents/nobody/history", "").by("GET", &[]).is(404, "AGENT_NOT_FOUND"),
        case("a history of none", "/v1/agents/ada/history?limit=0", "").by("GET", &[]).is(400, "INVALID_ARGUMENT").naming("limit"),
        case("a trace of nobody", "/v1/agents/nobody/trace?from=1", "").by("GET", &[]).is(404, "AGENT_NOT_FOUND"),
        case("a trace from nowhere", "/v1/agents/ada/trace", "").by("GET", &[]).is(400, "INVALID_ARGUMENT").naming("from"),
        case("a trace along nothing", "/v1/agents/ada/trace?from=agent&follow=likes", "").by("GET", &[]).is(400, "INVALID_ARGUMENT").naming("follow"),
        case("a trace too deep", "/v1/agents/ada/trace?from=agent&depth=4", "").by("GET", &[]).is(400, "INVALID_ARGUMENT").naming("depth"),
        case("a trace of a key of another collection", "/v1/agents/ada/trace?from=idempotency%2F1", "").by("GET", &[]).is(400, "INVALID_ARGUMENT").naming("from"),
        case("a user who cites", APPEND, r#"{"message": "x", "role": "user", "cites": ["archival_docs/1"]}"#).is(400, "INVALID_ARGUMENT").naming("cites"),
        case("a citation of nothing", APPEND, r#"{"message": "x", "role": "assistant", "cites": ["archival_docs/1"]}"#).is(400, "INVALID_ARGUMENT").naming("cites[0]"),
        keyed(&[("if-match", "*")]).is(400, "IDEMPOTENCY_KEY_REQUIRED"),
        keyed(&[("idempotency-key", "bad")]).is(428, "PRECONDITION_REQUIRED"),
        keyed(&[("idempotency-key", "bad"), ("if-match", "\"\"")]).is(400, "INVALID_ARGUMENT").naming("_rev"),
        keyed(&[("idempotency-key", ""), ("if-match", "*")]).is(400, "INVALID_ARGUMENT").naming("idempotency_key"),
        keyed(&[("idempotency-key", "bad"), ("if-match", "_stale")]).is(412, "REVISION_STALE"),
        case("a body over the limit", APPEND, huge).is(413, "BODY_TOO_LARGE"),
        case("a body with too many values", APPEND, format!("{{\"a\":[{}[]]}}", "[],".repeat(300_000))).is(413, "BODY_TOO_LARGE").with("values_max", 300_000),
        case("a body far over the limit", APPEND, vec![b' '; 20 << 20]).is(413, "BODY_TOO_LARGE").with("bytes_max", 2 << 20),
        case("a text over the limit", APPEND, long).is(400, "INVALID_ARGUMENT").naming("message.content"),
        case("invalid UTF-8", APPEND, b"{\"message\": \"\xff\xfe\", \"role\": \"user\"}".to_vec()).is(400, "INVALID_JSON"),
        case("half a surrogate", APPEND, r#"{"message": "\ud800", "role": "user"}"#).is(400, "INVALID_JSON"),
        case("no JSON", APPEND, "{\"message\": ").is(400, "INVALID_JSON"),
        case("no object", APPEND, "[1, 2]").is(400, "INVALID_JSON"),
        case("no body", APPEND, "").is(400, "INVALID_ARGUMENT").naming("message"),
        case("an unknown argument", APPEND, r#"{"message": "x", "role": "user", "colour": 1}"#).is(400, "INVALID_ARGUMENT").naming("colour"),
        case("an unknown role", APPEND, r#"{"message": "x", "role": "king"}"#).is(400, "INVALID_ARGUMENT").naming("role"),
        case("an empty message", APPEND, r#"{"message": "", "role": "user"}"#).is(400, "INVALID_ARGUMENT").naming("message.content"),
        case("a user who calls tools", APPEND, r#"{"message": {"content": "", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}, "role": "user"}"#)
            .is(400, "INVALID_ARGUMENT").naming("message.tool_calls"),
        case("a block name with a slash", STORE, r#"{"block_id": "a/b", "content": "x"}"#).is(400, "INVALID_NAME").naming("block_id"),
        case("a block without content", STORE, r#"{"block_id": "a"}"#).is(400, "INVALID_ARGUMENT").naming("content"),
        case("an unknown mode", STORE, r#"{"block_id": "a", "content": "x", "policy": {"mode": "burn"}}"#).is(400, "INVALID_ARGUMENT").naming("policy.mode"),
        case("deleting no block", STORE, r#"{"block_id": "none", "content": "", "policy": {"mode": "delete"}}"#).is(404, "BLOCK_NOT_FOUND").with("blocks", json!(["human"])),
        case("a read with a key that is too long", FETCH, format!(r#"{{"block_id": "human", "idempotency_key": "{}"}}"#, "k".repeat(257)))
            .is(400, "INVALID_ARGUMENT").naming("idempotency_key"),
        case("fetching no block", FETCH, r#"{"block_id": "none"}"#).is(404, "BLOCK_NOT_FOUND").with("blocks", json!(["human"])),
        case("an unknown strategy", EVICT, r#"{"strategy": "lifo"}"#).is(400, "INVALID_ARGUMENT").naming("strategy"),
        case("a negative target", EVICT, r#"{"target_tokens": -1}"#).is(400, "INVALID_ARGUMENT").naming("target_tokens"),
        case("no entries", RECALL, r#"{"entries": []}"#).is(400, "INVALID_ARGUMENT").naming("entries"),
        case("an empty entry", RECALL, r#"{"entries": [{"content": "x"}, {"content": ""}]}"#).is(400, "INVALID_ARGUMENT").naming("entries[1].content"),
        case("a window too small", "/v1/agents/eve", r#"{"context_window": 100}"#).by("PUT", &[]).is(422, "WINDOW_TOO_SMALL").naming("context_window"),
        case("a window without a size", "/v1/agents/eve", "{}").by("PUT", &[]).is(400, "INVALID_ARGUMENT").naming("context_window"),
        case("an unknown encoding", "/v1/agents/eve", r#"{"context_window": 4096, "encoding": "gpt2"}"#).by("PUT", &[]).is(400, "INVALID_ARGUMENT").naming("encoding"),
        case("another configuration", "/v1/agents/ada", r#"{"context_window": 4096}"#).by("PUT", &[]).is(409, "AGENT_EXISTS"),
        case("an unknown zone", "/v1/agents/eve", r#"{"context_window": 4096, "zone": "Mars/Olympus"}"#).by("PUT", &[]).is(400, "INVALID_ARGUMENT").naming("zone"),
        case("another unknown zone", "/v1/agents/ada", r#"{"zone": "+25:00"}"#).by("PATCH", &[("idempotency-key", "bad"), ("if-match", "*")]).is(400, "INVALID_ARGUMENT").naming("zone"),
        case("an unknown form", "/v1/agents/eve", r#"{"context_window": 4096, "form": "7"}"#).by("PUT", &[]).is(400, "INVALID_ARGUMENT").naming("form"),
        case("a form of earlier agents", "/v1/agents/ada", r#"{"form": "1"}"#).by("PATCH", &[("idempotency-key", "bad"), ("if-match", "*")]).is(400, "INVALID_ARGUMENT").naming("form"),
        case("a time without a text", APPEND, r#"{"message": {"content": "x", "said_at": ""}, "role": "user"}"#).is(400, "INVALID_ARGUMENT").naming("message.said_at"),
        case("a tool list that names nobody", "/v1/agents/ada/runs", r#"{"input": "x", "client_tools": [{"type": "function", "function": {}}]}"#).by("POST", &[("idempotency-key", "bad")]).is(400, "INVALID_ARGUMENT").naming("client_tools[0]"),
        case("a tool list with an empty name", "/v1/agents/ada/runs", r#"{"input": "x", "tools": [""]}"#).by("POST", &[("idempotency-key", "bad")]).is(400, "INVALID_ARGUMENT").naming("tools"),
        case("an empty patch", "/v1/agents/ada", "{}").by("PATCH", &[("idempotency-key", "bad"), ("if-match", "*")]).is(400, "INVALID_ARGUMENT"),
        case("an unknown class", "/v1/agents/ada/events", r#"{"class": "rumour", "content": "x", "idempotency_key": "bad"}"#).is(400, "INVALID_ARGUMENT").naming("class"),
    ];
    let system = count::words(300);
    cases.push(
        case(
            "a system text larger than the window",
            "/v1/agents/eve",
            json!({"context_window": 256, "system": system}).to_string(),
        )
        .by("PUT", &[])
        .is(422, "WINDOW_TOO_SMALL")
        .naming("context_window"),
    );
    cases
}

async fn check(wire: &Wire, case: &Case) {
    let answer = wire.call(case.method, case.path, &case.headers, case.body.clone()).await;
    let shown = format!("{} {} {}", case.what, case.method, case.path);
    assert_eq!(
        (answer.status, answer.code()),
        (case.status, case.code),
        "{shown}: {}",
        answer.text
    );
    let body = answer.refused(case.status, case.code);
    for (name, value) in &case.fields {
        assert_eq!(&body[*name], value, "{shown}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_has_its_code_and_changes_nothing() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = furnished(&home).await;
    let database = home.database_inside();
    let before = everything(&ada, &database).await;
    for case in cases() {
        check(&ada.wire, &case).await;
    }
    assert_eq!(everything(&ada, &database).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reused_key_is_refused_and_changes_nothing() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = furnished(&home).await;
    let first = json!({"message": "one", "role": "user"});
    ada.tool("append_fifo", &first, "reused", "*").await.ok();
    let database = home.database_inside();
    let before = everything(&ada, &database).await;
    for (tool, arguments) in [
        ("append_fifo", json!({"message": "two", "role": "user"})),
        ("append_fifo", json!({"message": "one", "role": "assistant"})),
        ("store_core", json!({"block_id": "human", "content": "x"})),
        ("evict_fifo", json!({})),
        ("write_recall", json!({"entries": [{"content": "x"}]})),
    ] {
        let refused = ada.tool(tool, &arguments, "reused", "*").await;
        refused.refused(409, "IDEMPOTENCY_KEY_REUSED");
    }
    // Each agent has its own idempotency keys, so another agent may use the same key.
    let eve = Agent::create(ada.wire.again(), "eve", 4096, "").await;
    eve.tool("append_fifo", &json!({"message": "two", "role": "user"}), "reused", "*").await.ok();
    assert_eq!(eve.messages().await.len(), 1);
    let after = everything(&ada, &database).await;
    for part in ["state", "messages", "context"] {
        assert_eq!(after[part], before[part]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_short_of_exactly_so_many_tokens() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 1000, "Be brief.").await;
    let database = home.database_inside();
    let free = ada.state().await["tokens"]["free"].as_u64().expect("free tokens");

    // Each test word is one token, so the cost of a message grows by one token with each word.
    let frame = count::first_frame();
    let message = |words| json!({"message": count::words(words), "role": "user"});
    let mut expected = everything(&ada, &database).await;
    for over in [1, 2, 77, 5_000] {
        let refused = ada.tool("append_fifo", &message(free - frame + over), &key(), "*").await;
        let refused = refused.refused(422, "TOKEN_BUDGET_EXCEEDED");
        assert_eq!(refused["required_headroom"], over, "{refused}");
        one_event_more(&mut expected);
    }
    assert_eq!(everything(&ada, &database).await, expected);
    let query = "FOR e IN memory_events FILTER e.type == 'error' SORT e.details.required_headroom RETURN KEEP(e.details, 'code', 'required_headroom')";
    let noted = [1, 2, 77, 5_000]
        .map(|over| json!({"code": "TOKEN_BUDGET_EXCEEDED", "required_headroom": over}));
    assert_eq!(database.rows(query, json!({})).await, noted);

    // The cost of a block also grows by one token with each word. A block may use the window up to
    // its last token.
    let rendered = |words| {
        let text = format!("<block id=\"b\" role=\"note\">\n{}\n</block>", count::words(words));
        count::message(&json!({"role": "system", "content": text}))
    };
    let block = |words| json!({"block_id": "b", "content": count::words(words)});
    let fits = (1..1000).rev().find(|&words| rendered(words) <= free).expect("some words fit");
    assert_eq!(rendered(fits), free, "one word is one token");
    let refused = ada.tool("store_core", &block(fits + 1), &key(), "*").await;
    assert_eq!(refused.refused(422, "TOKEN_BUDGET_EXCEEDED")["required_headroom"], 1);
    one_event_more(&mut expected);
    assert_eq!(everything(&ada, &database).await, expected);
    let full = ada.done("store_core", &block(fits)).await;
    assert_eq!((&full["tokens"]["free"], &full["tokens"]["occupancy"]), (&json!(0), &json!(1000)));
    let refused = ada.tool("append_fifo", &message(1), &key(), "*").await;
    assert_eq!(refused.refused(422, "TOKEN_BUDGET_EXCEEDED")["required_headroom"], frame + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn pins_take_a_quarter_of_the_window_and_not_a_token_more() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let database = home.database_inside();
    let rendered = |words| {
        let text =
            format!("<block id=\"p\" role=\"note\" pinned>\n{}\n</block>", count::words(words));
        count::message(&json!({"role": "system", "content": text}))
    };
    let pin = |words| json!({"block_id": "p", "content": count::words(words), "policy": {"pinned": true}});
    let words = (1..3000).find(|&words| rendered(words) == 2049).expect("2049 tokens");
    let mut expected = everything(&ada, &database).await;
    let refused = ada.tool("store_core", &pin(words), &key(), "*").await;
    let refused = refused.refused(422, "PIN_LIMIT_EXCEEDED");
    assert_eq!(
        (&refused["pinned_tokens"], &refused["pinned_tokens_max"]),
        (&json!(2049), &json!(2048))
    );
    assert_eq!(refused["required_headroom"], 1);
    one_event_more(&mut expected);
    assert_eq!(everything(&ada, &database).await, expected);
    let pinned = ada.done("store_core", &pin(words - 1)).await;
    assert_eq!(pinned["result"]["token_estimate"], 2048);
    let second = json!({"block_id": "q", "content": "x", "policy": {"pinned": true}});
    ada.tool("store_core", &second, &key(), "*").await.refused(422, "PIN_LIMIT_EXCEEDED");
    let unpinned = json!({"block_id": "q", "content": "x"});
    ada.tool("store_core", &unpinned, &key(), "*").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_impossible_time_is_kept_and_times_may_run_backwards() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    let said = [
        ("Second.", Some("2026-05-05T09:14:00Z")),
        ("First.", Some("2026-03-01T08:00:00Z")),
        ("Impossible.", Some("2026-02-30T25:61:00Z")),
        ("Untimed.", None),
    ];
    for (text, said_at) in said {
        ada.append("user", json!({"content": text, "said_at": said_at})).await;
    }
    let messages = ada.messages().await;
    assert_eq!(messages[2]["meta"]["said_at"], "2026-02-30T25:61:00Z", "nothing is corrected");
    let today = &messages[2]["created_at"].as_str().expect("a time")[..10];
    let context = ada.context().await["messages"].to_string();
    for shown in ["2026-03-01 Sun 08:00]\\nFirst.", &format!("[{today}"), "Untimed."] {
        assert!(context.contains(shown), "{shown} in {context}");
    }
    assert!(!context.contains("2026-02-30"), "{context}");
    let contents: Vec<&Value> = messages.iter().map(|message| &message["content"]).collect();
    assert_eq!(contents, ["Second.", "First.", "Impossible.", "Untimed."]);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_cannot_hold_what_is_there_is_refused() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, &count::words(300)).await;
    ada.done("store_core", &json!({"block_id": "b", "content": count::words(600)})).await;
    let pins = json!({"block_id": "p", "content": count::words(200), "policy": {"pinned": true}});
    ada.done("store_core", &pins).await;
    let (state, messages) = (ada.state().await, ada.messages().await);
    for (window, code) in
        [(256, "WINDOW_TOO_SMALL"), (600, "PIN_LIMIT_EXCEEDED"), (1000, "TOKEN_BUDGET_EXCEEDED")]
    {
        let headers = [("idempotency-key", "patch"), ("if-match", "*")];
        let body = json!({"context_window": window}).to_string();
        ada.wire.call("PATCH", &ada.path(), &headers, body).await.refused(422, code);
    }
    assert_eq!((ada.state().await, ada.messages().await), (state, messages));
}

/// Opens a connection with timeouts for reads and writes; returns it for writing and for reading.
pub(crate) fn both_ways(socket: &Path) -> (UnixStream, BufReader<UnixStream>) {
    let stream = UnixStream::connect(socket).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a time");
    (stream.try_clone().expect("the same"), BufReader::new(stream))
}

/// Reads the next answer on a connection and returns its status; `None` if the connection was
/// closed.
pub(crate) fn answered(from: &mut BufReader<UnixStream>) -> Option<u16> {
    let (mut status, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).expect("a line within the time") == 0 {
            return None;
        }
        match line.trim_end().split_once(' ') {
            None => break,
            Some(("content-length:", value)) => length = value.parse().expect("a length"),
            Some(("HTTP/1.1", told)) => status = told[..3].parse().ok(),
            Some(_) => {}
        }
    }
    from.read_exact(&mut vec![0; length]).expect("the body");
    status
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_on_behind_an_answer_keeps_answer_and_connection() {
    let home = Home::new();
    let _server = home.serve().await;
    // The request is larger than the socket's buffers, so the client can send it only if the server
    // reads it.
    let body = json!({"to": "e".repeat(1 << 20)}).to_string();
    let (mut to, mut from) = both_ways(&home.path("vctx.sock"));
    for (method, path, status) in [
        ("POST", "/v1/agents/ada/move", 400),
        ("POST", "/v1/agents/ada/no/such/path", 404),
        ("POST", "/healthz", 405),
        ("PUT", "/v1/agents/%FF", 400),
    ] {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: vctx\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        to.write_all(head.as_bytes()).expect("the head");
        assert_eq!(answered(&mut from), Some(status), "{path}");
        to.write_all(body.as_bytes()).expect("the body behind its answer");
        to.write_all(b"GET /healthz HTTP/1.1\r\nhost: vctx\r\n\r\n").expect("another request");
        assert_eq!(answered(&mut from), Some(200), "behind {path}");
    }
    // If the server has sent `100 Continue`, it reads the whole body, regardless of its length.
    let long = vec![b' '; 2 * BODY_BYTES_MAX];
    let head = "PUT /v1/agents/ada HTTP/1.1\r\nhost: vctx\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n";
    to.write_all(head.as_bytes()).expect("the head");
    assert_eq!(answered(&mut from), Some(100));
    to.write_all(format!("{:x}\r\n", long.len()).as_bytes()).expect("the length of a chunk");
    to.write_all(&long).expect("the body that was asked for");
    to.write_all(b"\r\n0\r\n\r\n").expect("the end of the body");
    to.write_all(b"GET /healthz HTTP/1.1\r\nhost: vctx\r\n\r\n").expect("another request");
    assert_eq!((answered(&mut from), answered(&mut from)), (Some(413), Some(200)));
    // If the server refuses instead of sending `100 Continue`, the client sends no body. The server
    // must then close the connection, because it would otherwise read the next request as the
    // missing body.
    let asks = "POST /v1/agents/ada/move HTTP/1.1\r\nhost: vctx\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n";
    to.write_all(asks.as_bytes()).expect("the head");
    assert_eq!((answered(&mut from), answered(&mut from)), (Some(400), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_first_is_not_told_to_send_a_body_over_the_limit() {
    let home = Home::new();
    let _server = home.serve().await;
    for (method, path, length) in [
        ("PUT", "/v1/agents/ada", BODY_BYTES_MAX as u64 + 1),
        ("POST", "/v1/agents/ada/tools/append_fifo", 99_000_000_000),
        ("POST", "/v1/agents/ada/import", 99_000_000_000),
    ] {
        let (mut to, mut from) = both_ways(&home.path("vctx.sock"));
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: vctx\r\ncontent-length: {length}\r\nexpect: 100-continue\r\n\r\n"
        );
        to.write_all(head.as_bytes()).expect("the head");
        assert_eq!((answered(&mut from), answered(&mut from)), (Some(413), None), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_no_more_agents_than_the_setting_says() {
    let home = Home::new();
    let mut tuning = Tuning::default();
    tuning.environment.push(("VCTX_SERVER__AGENTS_MAX".into(), "3".into()));
    let _server = home.serve_with("vctx.sock", &tuning).await;
    let wire = home.wire("vctx.sock");
    let made = async |name: &str| {
        wire.put(&format!("/v1/agents/{name}"), &json!({"context_window": 4096})).await
    };
    for name in ["a", "b", "c"] {
        assert_eq!(made(name).await.status, 201);
    }
    let refused = made("d").await.refused(403, "FORBIDDEN");
    assert_eq!(refused["agents_max"], 3, "{refused}");
    let imported = wire.call("POST", "/v1/agents/d/import", &[], "x").await;
    imported.refused(403, "FORBIDDEN");
    assert_eq!(made("c").await.status, 200, "an agent that exists is no new agent");
    let headers = [("idempotency-key", "gone"), ("if-match", "*")];
    let whole = json!({"all": true}).to_string();
    wire.call("POST", "/v1/agents/b/forget", &headers, whole).await.ok();
    let mut looks = 0;
    while made("d").await.status != 201 {
        looks += 1;
        assert!(looks < 1_000, "no agent can be made although one is gone");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blocks_of_an_agent_have_no_more_text_than_the_setting_says() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 65_536, "Be brief.").await;
    let block = |bytes: usize| json!({"block_id": "note", "content": "a".repeat(bytes)});
    ada.done("store_core", &block(3_000)).await;
    let export = ada.wire.get("/v1/agents/ada/export").await.text;
    assert!(server.stop().await.success());
    let tuning = Tuning::variable("VCTX_CORE__BLOCKS_BYTES_MAX", "2048");
    let _server = home.serve_with("vctx.sock", &tuning).await;
    // Longer blocks from before can be read, and become shorter.
    let ada = Agent::at(home.wire("vctx.sock"), "ada");
    let told = ada.done("fetch_core", &json!({"block_id": "note"})).await;
    assert_eq!(told["result"]["content"].as_str().map(str::len), Some(3_000));
    ada.done("store_core", &block(2_500)).await;
    for (tool, arguments) in [
        ("store_core", block(2_501)),
        ("store_core", json!({"block_id": "more", "content": "b"})),
        ("core_memory_append", json!({"label": "note", "content": "c"})),
        ("memory", json!({"command": "create", "path": "/memories/d", "file_text": "d"})),
    ] {
        let refused =
            ada.tool(tool, &arguments, &key(), "*").await.refused(400, "INVALID_ARGUMENT");
        assert_eq!(refused["bytes_max"], 2_048, "{tool}: {refused}");
    }
    ada.done("store_core", &block(2_048)).await;
    let import = ada.wire.call("POST", "/v1/agents/bea/import", &[], export).await;
    assert_eq!(import.refused(400, "INVALID_ARGUMENT")["bytes_max"], 2_048);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_names_its_host_exactly_once() {
    let home = Home::new();
    let _server = home.serve().await;
    for (version, hosts, status) in [
        ("1.1", &["vctx"][..], 200),
        ("1.1", &[], 400),
        ("1.1", &["vctx", "vctx"], 400),
        ("1.1", &["vctx", "other"], 400),
        ("1.0", &["vctx", "other"], 400),
    ] {
        let (mut to, mut from) = both_ways(&home.path("vctx.sock"));
        let hosts: String = hosts.iter().map(|host| format!("host: {host}\r\n")).collect();
        let request = format!("GET /healthz HTTP/{version}\r\n{hosts}\r\n");
        to.write_all(request.as_bytes()).expect("a request");
        let mut line = String::new();
        from.read_line(&mut line).expect("an answer");
        assert!(line.contains(&format!(" {status} ")), "{request}: {line}");
    }
    // A client of HTTP/1.0 names no host.
    let (mut to, mut from) = both_ways(&home.path("vctx.sock"));
    to.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").expect("a request");
    let mut line = String::new();
    from.read_line(&mut line).expect("an answer");
    assert!(line.contains(" 200 "), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_file_with_a_broken_line_names_the_line() {
    let home = Home::new();
    let good = json!({"role": "user", "content": "Hello", "name": "Ada", "time": "2026-01-01"})
        .to_string();
    let file = home.path("talk.jsonl");
    let shown = file.to_str().expect("a plain path").to_owned();
    for (broken, what) in [
        ("{\"role\": \"user\", ", "not JSON"),
        ("{\"role\": \"user\"}", "content"),
        ("{\"role\": \"king\", \"content\": \"x\"}", "king"),
    ] {
        std::fs::write(&file, format!("{good}\n{good}\n{broken}\n{good}\n")).expect("a file");
        let keep = home.path("kept");
        let output = home.run(&["demo", &shown, "--keep", keep.to_str().expect("a plain path")]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(65), "{said}");
        assert!(said.contains("line 3") && said.contains(what), "{said}");
        assert!(!keep.exists(), "nothing is made of a broken file");
    }
}
