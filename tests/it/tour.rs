//! Makes the server send every kind of request to its database, and compares the requests with
//! `docs/reference/fidelity.md`, which lists for each request and AQL feature the evidence that the
//! engine behaves like ArangoDB. One sequence of calls that makes the server send requests is
//! called a tour.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::archival::{circle, eager, index_becomes, ingest, offer, search};
use crate::count;
use crate::home::{Home, Process};
use crate::proxy::{Fault, Proxy, shapes_file};
use crate::scripted::Scripted;
use crate::setup::setup;
use crate::shape::lines_of;
use crate::talk::{Agent, key};

const EVIDENCE: &str = "tests/golden/fidelity-evidence.txt";
const FIDELITY: &str = "docs/reference/fidelity.md";
/// Kinds of evidence that the engine behaves like ArangoDB, best first.
const KINDS: &[(&str, &str)] = &[
    (
        "recorded",
        "an example in ArangoDB's documentation that was recorded from a real server shows the request and its answer",
    ),
    ("ArangoDB's own test", "a test in ArangoDB's own source sends it and checks the answer"),
    ("driver test", "the tests of a driver send it to a real server"),
    ("manual", "the manual of 3.12 describes it; nobody's answer was seen"),
    (
        "*inferred*",
        "read from the server's source or from what is near it; a guess until a real server has answered",
    ),
];

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// An engine with recording proxies on both its sockets.
struct Tour {
    /// This field is declared before the directory, so that the process ends before the directory
    /// is removed.
    _engine: Process,
    home: Home,
    writes: Proxy,
    reads: Proxy,
    lines: BTreeSet<String>,
}

impl Tour {
    async fn begin() -> Tour {
        let home = Home::new();
        let engine = home.engine().await;
        let writes = Proxy::start(&home.path("rw.sock"), &home.path("engine.sock"));
        let reads = Proxy::start(&home.path("ro.sock"), &home.path("engine-ro.sock"));
        Tour { home, _engine: engine, writes, reads, lines: BTreeSet::new() }
    }

    /// Adds to the list of requests those that were recorded since the last call of this function.
    fn note(&mut self) {
        for proxy in [&self.writes, &self.reads] {
            self.lines.extend(proxy.take().iter().flat_map(lines_of));
        }
    }

    /// Runs the setup three times: the first run creates all objects, the second changes nothing,
    /// the third restores the schema rule of a collection, which the test has loosened.
    async fn set_up(&mut self) {
        let socket = self.home.path("rw.sock").display().to_string();
        let run = || {
            let output = setup(&self.home, &socket);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        run();
        run();
        let loose =
            json!({"schema": {"rule": {"type": "object"}, "level": "new", "message": "loose"}});
        let path = "/_api/collection/messages/properties";
        assert_eq!(self.home.database().call("PUT", path, &loose).await.status, 200);
        run();
        self.note();
    }

    async fn server(&self) -> Process {
        self.home.server("vctx.sock", "rw.sock", "ro.sock", &eager()).await
    }

    fn command(&self, arguments: &[&str]) {
        let socket = self.home.path("vctx.sock");
        let socket = socket.to_str().expect("a plain path");
        let output = self.home.run(&[arguments, &["--socket", socket]].concat());
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// Returns arguments for each tool, in an order in which all calls succeed.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        (
            "store_core",
            json!({"block_id": "human", "content": "Likes sailing.", "policy": {"pinned": true}}),
        ),
        ("fetch_core", json!({"block_id": "human"})),
        ("append_fifo", json!({"message": "The harbour opens at nine.", "role": "user"})),
        ("write_recall", json!({"entries": [{"content": "The blue boat is called Swallow."}]})),
        ("evict_fifo", json!({"target_tokens": 0})),
        ("search_recall", json!({"query": "harbour", "rehydrate": false})),
        ("search_recall", json!({"query": "blue boat", "limit": 1})),
        ("ingest_archival", offer("tides.md", json!({}))),
        (
            "ingest_archival",
            offer(
                "tides.md",
                json!({"chunks": ["Ebb. ", "Flood."], "embeddings": [[1.0, 0.0], [0.0, 1.0]],
            "late_chunking": {"mode": "late", "pooling": "mean", "model": "tides", "document_tokens": 4,
                "spans": [{"start": 0, "end": 2}, {"start": 2, "end": 4}]}}),
            ),
        ),
        ("search_recall", json!({"query": "\"blue boat\" Swallow", "limit": 1})),
        ("search_recall", json!({"query": "harbour", "rehydrate": false})),
        ("search_archival", json!({"query_vector": [1.0, 0.0], "limit": 2})),
        ("trace_memory", json!({"from": "agent", "depth": 3, "limit": 40})),
        ("trace_memory", json!({"from": "1"})),
        ("build_context", json!({"question": "Where does the blue boat lie?"})),
        ("record_heartbeat", json!({"state": "continue"})),
        ("record_heartbeat", json!({"state": "yield"})),
    ]
}

/// Calls every tool at least once.
async fn tools(ada: &Agent) {
    let mut called = BTreeSet::new();
    for (tool, arguments) in calls() {
        ada.done(tool, &arguments).await;
        called.insert(tool.to_owned());
    }
    let listed = ada.wire.get("/v1/tools").await.ok();
    let names = listed["tools"].as_array().or(listed.as_array()).expect("a list of tools");
    let names = names.iter().map(|tool| {
        let name = tool["name"].as_str().or(tool["function"]["name"].as_str());
        name.expect("a name").to_owned()
    });
    assert_eq!(called, names.collect(), "the tour calls every tool");
}

/// Calls every other HTTP path that queries the database.
async fn paths(tour: &Tour, ada: &Agent) {
    let path = ada.path();
    let get = async |path: &str| ada.wire.get(path).await.ok();
    get("/v1/agents").await;
    get(&path).await;
    get(&format!("{path}/context")).await;
    get(&format!("{path}/messages")).await;
    get(&format!("{path}/events")).await;
    get(&format!("{path}/history")).await;
    get(&format!("{path}/trace?from=1")).await;
    get(&format!("{path}/conveyance")).await;
    get("/readyz").await;
    let record = async |rest: &str, body: Value| {
        let (path, key) = (format!("{path}/prompts{rest}"), key());
        let headers = [("idempotency-key", key.as_str())];
        ada.wire.call("POST", &path, &headers, body.to_string()).await.ok()
    };
    let asked = record("", json!({"run": "r", "model": "m", "tools": [{"name": "look"}]})).await;
    let end = json!({"run": "r", "finish": "stop", "content": "At ebb.", "end_run": "yield"});
    record(&format!("/{}/answer", asked["turn"]), end).await;
    for query in ["prompts", "prompts/1", "why?text=harbour", "why?turn=1"] {
        get(&format!("{path}/{query}")).await;
    }
    let schedule = json!({"at": "2020-01-01", "content": "A bell rings.", "run": true});
    ada.wire.put(&format!("{path}/schedules/bell"), &schedule).await;
    get(&format!("{path}/schedules")).await;
    for _ in 0..1_200 {
        if get(&format!("{path}/schedules/bell")).await["fired"] == 1 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    ada.wire.call("DELETE", &format!("{path}/schedules/bell"), &[], String::new()).await.ok();
    // The test ingests the same document twice. One of its chunks has a message as its source.
    let message = ada.append("user", "The almanac is on the shelf.").await;
    let ids = [&message["result"]["message_id"]];
    let chunks = json!([{"text": "Low tide. ", "provenance": {"message_ids": ids}}, "High tide. ", "Slack water."]);
    for _ in 0..2 {
        ingest(ada, &offer("tides.md", json!({"chunks": chunks})), "*").await.ok();
    }
    let write = [("idempotency-key", "of the tour"), ("if-match", "*")];
    for change in [
        json!({"system": "You are still kind."}),
        json!({"context_window": 4096, "encoding": "cl100k_base"}),
    ] {
        let write = [("idempotency-key", key()), ("if-match", "*".into())];
        let write = write.each_ref().map(|(name, value)| (*name, value.as_str()));
        ada.wire.call("PATCH", &path, &write, change.to_string()).await.ok();
    }
    let event = json!({"class": "system", "content": "A bell rings."}).to_string();
    ada.wire.call("POST", &format!("{path}/events"), &write, event).await.ok();
    // A refused change of the configuration is also recorded, as an event.
    let refused = json!({"context_window": 1}).to_string();
    ada.wire
        .call("PATCH", &path, &[("idempotency-key", "too small"), ("if-match", "*")], refused)
        .await;
    for command in [
        &["verify", "--agent", "ada"][..],
        &["state", "--agent", "ada"],
        &["messages", "--agent", "ada"],
    ] {
        tour.command(command);
    }
}

/// Appends until messages are evicted.
async fn flush(ada: &Agent) {
    for turn in 0..200 {
        let body = ada.append("user", format!("Turn {turn}: {}", count::words(100))).await;
        if body["flush"].is_object() {
            return;
        }
    }
    panic!("two hundred turns and no eviction");
}

/// Causes evictions in which the commit or a query is lost between server and engine.
async fn trouble(tour: &Tour, ada: &Agent) {
    for (method, path, fault) in [
        ("PUT", "/_api/transaction/", Fault::CutBefore),
        ("PUT", "/_api/transaction/", Fault::CutAfter),
        ("POST", "/_api/cursor", Fault::CutBefore),
    ] {
        for turn in 0..8 {
            ada.append("user", format!("Turn {turn}: {}", count::words(20))).await;
        }
        tour.writes.next(&tour.home.database().line(method, path), fault);
        let key = key();
        for _ in 0..20 {
            let call = json!({"target_tokens": 0});
            match ada.attempt("evict_fifo", &call, &key, "*").await.expect("an answer").status {
                200 => break,
                status => assert_eq!(status, 503),
            }
        }
    }
}

/// Leaves a transaction open on the agent's core; the next call finds and ends the transaction.
async fn left_behind(tour: &Tour, ada: &Agent) {
    let database = tour.home.database();
    let collections = json!({"collections": {"write": ["core_memory"]}});
    let begun = database.call("POST", "/_api/transaction/begin", &collections).await.ok();
    let id = begun["result"]["id"].as_str().expect("an id");
    let core = "/_api/document/core_memory/ada";
    database.inside(id, "PATCH", core, &json!({"tenant": "default"})).await.ok();
    let (key, call) = (key(), json!({"message": "Anybody there?", "role": "user"}));
    for _ in 0..20 {
        if ada.attempt("append_fifo", &call, &key, "*").await.expect("an answer").status == 200 {
            return;
        }
    }
    panic!("a transaction that was left open was never ended");
}

/// Stores enough vectors for an index, and searches before and after the index exists.
async fn index(ada: &Agent, metric: &str) {
    // These vectors name the same model and version as the vectors of the other ingests in this
    // test.
    let offered = |doc_id: &str, from: u32| {
        let mut offered = circle(doc_id, from, 60, metric);
        (offered["embedding_version"], offered["model_id"]) = (json!("7"), json!("tides"));
        offered["late_chunking"]["model"] = json!("tides");
        offered
    };
    ingest(ada, &offered("before", 0), "*").await.ok();
    let query = json!({"query_vector": [1.0, 0.0], "limit": 3});
    assert_eq!(search(ada, query.clone()).await.ok()["result"]["plan"], "exact");
    ingest(ada, &offered("after", 60), "*").await.ok();
    index_becomes(ada, "ready").await;
    let found = search(ada, query).await.ok();
    assert_eq!(found["result"]["plan"], "vector");
    let further = json!({"query_vector": [1.0, 0.0], "limit": 40});
    let found = search(ada, further.clone()).await.ok();
    if let Some(token) = found["result"]["next_page_token"].as_str() {
        let mut next = further;
        next["page_token"] = token.into();
        search(ada, next).await.ok();
    }
}

/// Makes a tour with the metric L2. A database has vectors of only one metric, so the other metric
/// needs another database.
async fn toured_by_l2() -> BTreeSet<String> {
    let mut tour = Tour::begin().await;
    let server = tour.server().await;
    server.expect("");
    let ada = Agent::create(tour.home.wire("vctx.sock"), "ada", 8192, "You are kind.").await;
    index(&ada, "l2").await;
    tour.note();
    tour.lines
}

/// Makes a tour with whole documents and searches by words, which need an archive whose vectors the
/// server computes.
async fn toured_by_words() -> BTreeSet<String> {
    let mut tour = Tour::begin().await;
    let server = tour.server().await;
    server.expect("");
    let ada = Agent::create(tour.home.wire("vctx.sock"), "ada", 8192, "You are kind.").await;
    let text: String = (0..600).map(|n| format!("Sentence {n} is of the tide. ")).collect();
    let document = json!({"doc_id": "long", "document": text, "splitter": {"tokens_max": 16}});
    for _ in 0..2 {
        ingest(&ada, &document, "*").await.ok();
    }
    for asked in [
        json!({"query_text": "tide", "mode": "text"}),
        json!({"query_text": "tide", "mode": "hybrid", "filter": {"doc_id": "long"}}),
        json!({"query_text": "94071d67-86df-455c-8ee9-691e492ff740"}),
    ] {
        ada.done("search_archival", &asked).await;
    }
    ingest(&ada, &json!({"doc_id": "long", "delete": true}), "*").await.ok();
    tour.note();
    tour.lines
}

/// How the tour writes that an index is dropped.
const INDEX_DROPPED: &str = "HTTP DELETE /_db/{}/_api/index/";

/// Makes a tour with a reindex of an archive.
async fn toured_by_change() -> BTreeSet<String> {
    let mut tour = Tour::begin().await;
    let mut tuning = eager();
    tuning.environment.push(("VCTX_EMBEDDER__NEXT__DIMENSION".into(), "64".into()));
    let server = tour.home.server("vctx.sock", "rw.sock", "ro.sock", &tuning).await;
    server.expect("");
    let ada = Agent::create(tour.home.wire("vctx.sock"), "ada", 8192, "You are kind.").await;
    let text: String = (0..200).map(|n| format!("Sentence {n} is of the tide. ")).collect();
    let document = json!({"doc_id": "long", "document": text, "splitter": {"tokens_max": 16}});
    ingest(&ada, &document, "*").await.ok();
    index_becomes(&ada, "ready").await;
    tour.command(&["reindex", "start"]);
    for look in 0.. {
        assert!(look < 600, "the next vectors never serve");
        // The old index is dropped a moment after the state has become `cleaning`.
        tour.note();
        let dropped = tour.lines.iter().any(|line| line.starts_with(INDEX_DROPPED));
        if dropped && ada.wire.get("/v1/reindex").await.ok()["state"] == "cleaning" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    tour.lines
}

/// Makes a tour in which a client of the OpenAI API sends its history, and then an edited history.
async fn toured_by_conversation() -> BTreeSet<String> {
    let mut tour = Tour::begin().await;
    let model = Scripted::start(&tour.home, "echo", &[]).await;
    let tuning = model.tuning(&["store_core"]);
    let server = tour.home.server("vctx.sock", "rw.sock", "ro.sock", &tuning).await;
    server.expect("");
    let wire = tour.home.wire("vctx.sock");
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let begun = [said("user", "one"), said("assistant", "You said: one")];
    for next in ["two", "two, edited"] {
        let messages = json!([begun[0], begun[1], said("user", next)]);
        for messages in [json!([begun[0]]), messages] {
            let body = json!({"model": "m", "messages": messages}).to_string();
            wire.call("POST", "/v1/chat/completions", &[], body).await.ok();
        }
    }
    tour.note();
    tour.lines
}

async fn toured() -> BTreeSet<String> {
    let mut tour = Tour::begin().await;
    tour.set_up().await;
    let server = tour.server().await;
    // The tour provokes faults, so any log line is accepted here; other tests check the log lines.
    server.expect("");
    tour.note();
    let wire = tour.home.wire("vctx.sock");
    let ada = Agent::create(wire, "ada", 8192, "You are kind.").await;
    tools(&ada).await;
    index(&ada, "cosine").await;
    paths(&tour, &ada).await;
    flush(&ada).await;
    trouble(&tour, &ada).await;
    left_behind(&tour, &ada).await;
    tour.note();
    tour.lines
}

/// Reads the table with the evidence for each line of the list of requests; the table is edited by
/// hand.
fn evidence() -> BTreeMap<String, (String, String)> {
    let text = fs::read_to_string(file(EVIDENCE)).expect(EVIDENCE);
    let mut table = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let parts: Vec<&str> = line.split(" :: ").collect();
        let [what, kind, place] = parts.as_slice() else {
            panic!("{EVIDENCE}: three parts: {line}")
        };
        assert!(
            KINDS.iter().any(|(known, _)| known == kind),
            "{EVIDENCE}: no such evidence: {line}"
        );
        assert!(!place.is_empty(), "{EVIDENCE}: from where? {line}");
        let twice = table.insert((*what).to_owned(), ((*kind).to_owned(), (*place).to_owned()));
        assert!(twice.is_none(), "{EVIDENCE}: twice: {what}");
    }
    table
}

fn printed(lines: &BTreeSet<String>, evidence: &BTreeMap<String, (String, String)>) -> String {
    let mut text = String::from(
        "# Fidelity\n\n\
        The requests that the server sends to its database, and the evidence for ArangoDB's answers to them. Printed\n\
        by `UPDATE_GOLDEN=1 cargo it tour`: a proxy on the sockets between server and engine records each\n\
        request of a tour over setup, every tool, every path and lost answers; the features of AQL are read from the\n\
        syntax trees of the sent texts. The evidence is kept by hand in `tests/golden/fidelity-evidence.txt`; a\n\
        request without evidence fails the test, and so does an unused line of evidence.\n\
        `VCTX_SHAPES=FILE cargo it` records the requests of all other tests; with the same variable the\n\
        tour fails if one of these requests is missing in it.\n\n\
        No real arangod was asked. `{}` stands for a name that this project chose.\n\n\
        | Evidence | Means | Requests | Features |\n|---|---|---|---|\n",
    );
    let of = |kind: &str, section: &str| {
        let known = |line: &&String| line.starts_with(section) && evidence[*line].0 == kind;
        lines.iter().filter(known).count()
    };
    for (kind, means) in KINDS {
        let (requests, features) = (of(kind, "HTTP "), of(kind, "AQL "));
        writeln!(text, "| {kind} | {means} | {requests} | {features} |").expect("a text grows");
    }
    for (section, title, column) in [("HTTP ", "Requests", "Request"), ("AQL ", "AQL", "Feature")] {
        write!(text, "\n## {title}\n\n| {column} | Evidence | Where |\n|---|---|---|\n")
            .expect("a text grows");
        for line in lines.iter().filter(|line| line.starts_with(section)) {
            let (kind, place) = &evidence[line];
            let shown = line[section.len()..].replace('|', "\\|");
            writeln!(text, "| `{shown}` | {kind} | {place} |").expect("a text grows");
        }
    }
    text
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn everything_that_is_asked_of_the_database_is_known_by_something() {
    let mut lines = toured().await;
    lines.extend(toured_by_l2().await);
    lines.extend(toured_by_words().await);
    lines.extend(toured_by_change().await);
    lines.extend(toured_by_conversation().await);
    if let Some(path) = shapes_file() {
        // The tour must include all requests that other tests recorded, in this run or an earlier
        // one.
        let seen = fs::read_to_string(path).unwrap_or_default();
        let missed: BTreeSet<&str> = seen.lines().filter(|line| !lines.contains(*line)).collect();
        assert!(missed.is_empty(), "the tour does not come by:\n{missed:#?}");
    }
    let evidence = evidence();
    let unknown: Vec<&String> = lines.iter().filter(|line| !evidence.contains_key(*line)).collect();
    assert!(unknown.is_empty(), "no evidence in {EVIDENCE} for:\n{unknown:#?}");
    let unused: Vec<&String> = evidence.keys().filter(|line| !lines.contains(*line)).collect();
    assert!(unused.is_empty(), "{EVIDENCE} speaks of what is not asked:\n{unused:#?}");
    let text = printed(&lines, &evidence);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(file(FIDELITY), &text).expect(FIDELITY);
    }
    let kept = fs::read_to_string(file(FIDELITY)).unwrap_or_default();
    assert!(kept == text, "{FIDELITY} is not what the tour found: UPDATE_GOLDEN=1 cargo it tour");
}
