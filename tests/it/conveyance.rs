//! Tests the Conveyance score: a second program recomputes every term. A term is null without its
//! inputs, and the score is zero while a storage tier is down.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use vctx::conveyance::{Considered, Inputs, Path, PathTime, Places, Ratio, Times, report};
use vctx::metric;

use crate::chance::Chance;
use crate::count;
use crate::home::{Home, TORN_TAIL, Tuning};
use crate::outside::needs_an_engine_of_its_own;
use crate::talk::{Agent, key};

const SECOND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/second/conveyance.py");
/// Maximum number of polls of the metrics, a tenth of a second apart, before a test fails.
const LOOKS_MAX: u32 = 300;

/// Passes a score answer to the Python program that computes the score independently, and returns
/// the program's result.
fn second(answer: &Value) -> Value {
    let mut child = Command::new("python3")
        .arg(SECOND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs the second program");
    let text = answer.to_string();
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "the second program failed on {answer:#}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Checks that both programs compute the same score C and the same terms, with a tolerance of 1e-9,
/// and that they report the same missing terms.
#[track_caller]
fn assert_summed_again(answer: &Value) {
    let again = second(answer);
    let same = |a: &Value, b: &Value, what: &str| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => {
            assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{what}: {a} and {b}")
        }
        _ => assert_eq!((a, b), (&Value::Null, &Value::Null), "{what} in {answer:#}"),
    };
    same(&answer["c"], &again["c"], "C");
    let terms = again["terms"].as_object().expect("terms");
    assert_eq!(terms.len(), 8);
    for (term, value) in terms {
        same(&answer["terms"][term]["value"], value, term);
    }
    assert_eq!(missing(answer), again["missing"]);
}

/// Returns the letters of the missing terms, sorted.
fn missing(answer: &Value) -> Value {
    let list = answer["missing"].as_array().expect("a list");
    let mut letters: Vec<&str> = list.iter().map(|m| m["term"].as_str().expect("a term")).collect();
    letters.sort_unstable();
    json!(letters)
}

async fn score(agent: &Agent, of: &str) -> Value {
    agent.wire.get(&format!("{}/conveyance?of={of}", agent.path())).await.ok()
}

/// Returns a metric's value; `None` if it is not recorded yet.
async fn metric(home: &Home, socket: &str, name: &str) -> Option<f64> {
    let metrics = home.wire(socket).get("/metrics").await;
    let line = metrics.text.lines().find(|line| line.split(' ').next() == Some(name))?;
    line.split(' ').next_back()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_measured_is_named_and_the_score_is_none() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    let fresh = score(&ada, "session").await;
    assert_eq!(fresh["c"], Value::Null);
    for term in ["W", "H", "T", "L", "A"] {
        assert!(missing(&fresh).as_array().expect("letters").contains(&json!(term)), "{fresh:#}");
        assert_eq!(fresh["terms"][term]["value"], Value::Null);
    }
    assert_eq!(fresh["zero"], json!([]));
    assert_summed_again(&fresh);
    let unknown = home.wire("vctx.sock").get("/v1/agents/nobody/conveyance").await;
    unknown.refused(404, "AGENT_NOT_FOUND");
    let wrong = ada.wire.get(&format!("{}/conveyance?of=week", ada.path())).await;
    wrong.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_count_is_what_happened() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 1024, "Be brief.").await;
    let mut flushes = 0;
    for turn in 0..30 {
        let body = ada.append("user", format!("Turn {turn}: {}", count::words(25))).await;
        flushes += u64::from(body["flush"].is_object());
    }
    ada.done("write_recall", &json!({"entries": [{"content": "Has a boat."}]})).await;
    assert!(flushes > 0, "the window was too large for this test");

    let told = score(&ada, "session").await;
    let state = ada.state().await;
    let terms = &told["terms"];
    let pair = |of: &Value| (of["numerator"].as_u64(), of["denominator"].as_u64());
    assert_eq!(pair(&terms["W"]["conservation"]), (Some(31), Some(31)), "{told:#}");
    assert_eq!(terms["W"]["messages"]["queued"], state["queue"]["count"]);
    let requests = pair(&terms["R"]);
    assert!(requests.0 == requests.1 && requests.0 >= Some(31), "{told:#}");
    assert_eq!(terms["A"]["denominator"], flushes);
    let version = state["version"].as_u64();
    assert_eq!(pair(&terms["G"]["audited_writes"]), (version, version));
    let guards = pair(&terms["G"]["guards"]);
    assert!(guards.0 == guards.1 && guards.0 >= Some(5), "{told:#}");
    let samples = terms["T"]["paths"]["core_write"]["samples"].as_u64();
    assert_eq!(samples, Some(31 - flushes), "appends that flush are no plain core writes");
    assert!(terms["I"]["value"] == 1.0 && pair(&terms["I"]).1 >= Some(3), "{told:#}");
    assert_summed_again(&told);
    assert_summed_again(&score(&ada, "life").await);

    // `vctx verify` detects a deleted message and a deleted audit row.
    let database = home.database_inside();
    database
        .rows(
            "FOR m IN messages FILTER m.agent_id == 'ada' AND m.seq == 3 REMOVE m IN messages",
            json!({}),
        )
        .await;
    database
        .rows(
            "FOR e IN memory_events FILTER e.agent_id == 'ada' AND e.details.version_after == 5 REMOVE e IN memory_events",
            json!({}),
        )
        .await;
    let told = score(&ada, "session").await;
    assert_eq!(pair(&told["terms"]["W"]["conservation"]), (Some(30), Some(31)), "{told:#}");
    let audited = pair(&told["terms"]["G"]["audited_writes"]);
    assert_eq!(audited, (version.map(|v| v - 1), version), "{told:#}");

    let socket = home.path("vctx.sock");
    let socket = socket.to_str().expect("a plain path");
    let table = home.run(&["conveyance", "--agent", "ada", "--socket", socket]);
    let table = String::from_utf8(table.stdout).expect("UTF-8");
    assert!(table.contains("conservation") && table.contains("weakest term"), "{table}");
    let json = home.run(&["conveyance", "--agent", "ada", "--json", "--socket", socket]);
    assert_summed_again(&serde_json::from_slice(&json.stdout).expect("JSON"));
    let all = home.run(&["conveyance", "--socket", socket]);
    assert!(
        String::from_utf8_lossy(&all.stdout).lines().nth(1).is_some_and(|l| l.starts_with("ada"))
    );

    assert!(server.stop().await.success());
    let said = server.said();
    let line =
        said.lines().find(|line| line.contains(" conveyance ")).expect("a line for the session");
    for part in ["agent=\"ada\"", "why=\"drain\"", "missing=\"W,H,T,L\"", "zero=[]"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    let call =
        said.lines().find(|line| line.contains(r#"call tool="write_recall""#)).expect("a line");
    assert!(call.contains(" trips=1 ") && call.contains(" tokens="), "{call}");
    assert!(!said.contains("key-"), "a key in the log");
    assert!(!said.contains("Has a boat") && !said.contains("Turn 3"), "content in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_engine_is_zero_within_one_probe_and_a_started_one_is_not() {
    if needs_an_engine_of_its_own("stops it") {
        return;
    }
    let home = Home::new();
    let engine = home.engine().await;
    let tuning = Tuning::variable("VCTX_CONVEYANCE__PROBE_MS", "500");
    let server = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    // The server's background jobs log that the database does not answer.
    server.expect("a job failed");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    ada.append("user", "Hello").await;
    assert_eq!(score(&ada, "session").await["zero"], json!([]));

    engine.kill();
    // A score that a client requests is current, because the server probes the storage tiers for
    // the request.
    let down = score(&ada, "session").await;
    assert_eq!(down["c"], 0.0, "{down:#}");
    assert_eq!(down["zero"], json!(["tier_down_core", "tier_down_recall", "tier_down_archival"]));
    assert_summed_again(&down);
    let flag = r#"vctx_zero_propagation{why="tier_down_core"}"#;
    assert_eq!(metric(&home, "vctx-metrics.sock", flag).await, Some(1.0));

    let again = home.engine().await;
    again.expect(TORN_TAIL);
    // The background probes notice the recovery, although no client requests a score.
    let mut looks = 0;
    while metric(&home, "vctx-metrics.sock", flag).await != Some(0.0) {
        looks += 1;
        assert!(looks < LOOKS_MAX, "the tier was never found again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    again.kill();
    let mut looks = 0;
    while metric(&home, "vctx-metrics.sock", flag).await != Some(1.0) {
        looks += 1;
        assert!(looks < LOOKS_MAX, "nobody noticed that the tier is down");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_went_quiet_gets_its_line_and_the_next_call_begins_another() {
    let home = Home::new();
    let mut tuning = Tuning::variable("VCTX_CONVEYANCE__PROBE_MS", "500");
    tuning.environment.push(("VCTX_CONVEYANCE__SESSION_IDLE_MS".into(), "700".into()));
    let server = home.serve_with("vctx.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    for _ in 0..2 {
        let lines = || server.said().matches("why=\"idle\"").count();
        let before = lines();
        ada.append("user", "Hello").await;
        let mut looks = 0;
        while lines() == before {
            looks += 1;
            assert!(looks < LOOKS_MAX, "no line for a session that is over");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let closed = metric(&home, "metrics.sock", r#"vctx_sessions_closed_total{why="idle"}"#).await;
    assert_eq!(closed, Some(2.0));
    assert_eq!(metric(&home, "metrics.sock", "vctx_sessions").await, Some(0.0));
    // The log line about the second session counts only the writes of that session.
    let said = server.said();
    let line = said.lines().rfind(|line| line.contains(" conveyance ")).expect("a line");
    assert!(line.contains(r#""audited_writes":{"numerator":1,"denominator":1"#), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn naive_chunks_make_zero_and_late_ones_are_counted() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    let naive = json!({"doc_id": "naive", "chunks": ["Low tide.", "High tide."], "embeddings": [[1, 0], [0, 1]],
        "dimension": 2, "metric": "cosine", "embedding_version": "1", "model_id": "tides"});
    ada.tool("ingest_archival", &naive, &key(), "*").await.refused(422, "LATE_CHUNKING_REQUIRED");
    let told = score(&ada, "session").await;
    assert_eq!((&told["c"], &told["zero"]), (&json!(0.0), &json!(["naive_chunking"])), "{told:#}");
    assert_eq!(told["terms"]["L"]["denominator"], 2);
    assert_summed_again(&told);
    let flag = r#"vctx_zero_propagation{why="naive_chunking"}"#;
    assert_eq!(metric(&home, "metrics.sock", flag).await, Some(1.0));

    let late = json!({"doc_id": "late", "chunks": ["Low tide at seven.", "High tide at one."]});
    ada.done("ingest_archival", &late).await;
    let told = score(&ada, "session").await;
    assert_eq!(told["terms"]["L"]["value"], 0.5, "two of four were late: {told:#}");
    assert_eq!(told["c"], 0.0, "what was offered in this session stays offered");

    // Another agent's score is unaffected.
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 4096, "").await;
    bob.done("ingest_archival", &late).await;
    let told = score(&bob, "session").await;
    assert_eq!((&told["zero"], &told["terms"]["L"]["value"]), (&json!([]), &json!(1.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_uses_everything_has_a_score_and_every_metric_of_the_requirement() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    for turn in 0..12 {
        ada.append(
            "user",
            format!("Turn {turn}: the sloop has a brass compass. {}", count::words(20)),
        )
        .await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 200})).await;
    ada.done("search_recall", &json!({"query": "compass", "limit": 2})).await;
    let document =
        json!({"doc_id": "tides", "chunks": ["Low tide at seven.", "High tide at one."]});
    ada.done("ingest_archival", &document).await;
    let found = ada
        .done("search_archival", &json!({"query_text": "low tide", "limit": 2, "mode": "hybrid"}))
        .await;
    assert!(!found["result"]["results"].as_array().expect("results").is_empty(), "{found:#}");
    ada.done("record_heartbeat", &json!({"state": "continue"})).await;
    ada.done("record_heartbeat", &json!({"state": "yield"})).await;

    let told = score(&ada, "session").await;
    assert_eq!((&told["missing"], &told["zero"]), (&json!([]), &json!([])), "{told:#}");
    for term in ["W", "R", "H", "L", "I", "A", "G"] {
        assert_eq!(told["terms"][term]["value"], 1.0, "{term}: {told:#}");
    }
    let (c, time) = (told["c"].as_f64(), told["terms"]["T"]["value"].as_f64());
    let (c, time) = (c.expect("a score"), time.expect("a time"));
    assert!((c * time - 1.0).abs() < 1e-9, "all shares are whole, so C is one over T: {told:#}");
    assert_summed_again(&told);
    let gauge = metric(&home, "metrics.sock", "vctx_conveyance").await.expect("a gauge");
    assert!((gauge - c).abs() < 1e-9 * c, "{gauge} and {c}");

    // Records a prompt for which the provider counts far more tokens than the server.
    let record = async |rest: &str, body: Value| {
        let (path, key) = (format!("{}/prompts{rest}", ada.path()), key());
        let headers = [("idempotency-key", key.as_str())];
        ada.wire.call("POST", &path, &headers, body.to_string()).await.ok()
    };
    let asked = record("", json!({"run": "r", "model": "m"})).await;
    let answer = json!({"run": "r", "finish": "stop", "content": "At seven.", "end_run": "yield",
        "usage": {"prompt": 4_000, "completion": 3}});
    record(&format!("/{}/answer", asked["turn"]), answer).await;

    // After the calls of this test, every required metric is exported.
    let scraped = home.wire("metrics.sock").get("/metrics").await.text;
    for meter in metric::ALL.iter().filter(|meter| !meter.seed.is_empty()) {
        let series = |line: &str| line.starts_with(&meter.exported()) && !line.starts_with('#');
        assert!(
            scraped.lines().any(series),
            "{} ({}) is not exported",
            meter.exported(),
            meter.seed
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_count_as_hits_whether_they_write_or_only_read() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    ada.done("write_recall", &json!({"entries": [{"content": "The sloop has a brass compass."}]}))
        .await;
    let search = async |query: &str, rehydrate: bool| {
        let body =
            ada.done("search_recall", &json!({"query": query, "rehydrate": rehydrate})).await;
        body["result"]["results"].as_array().expect("results").len()
    };
    assert_eq!(search("compass", false).await, 1);
    assert_eq!(search("compass", true).await, 1);
    assert_eq!(search("piano", true).await, 0);
    // What is found in the window counts as found: a message, or a block without a message.
    ada.append("user", "The lantern hangs aft.").await;
    assert_eq!(search("lantern", true).await, 1);
    ada.done("store_core", &json!({"block_id": "boat", "content": "The rudder is oak."})).await;
    assert_eq!((search("rudder", true).await, search("rudder", false).await), (0, 0));
    let rate = |told: &Value| {
        let share = &told["terms"]["W"]["recall_hit_rate"];
        (share["numerator"].as_u64(), share["denominator"].as_u64())
    };
    for of in ["session", "life"] {
        let told = score(&ada, of).await;
        assert_eq!(rate(&told), (Some(5), Some(6)), "{of}: {told:#}");
        assert_eq!(told["terms"]["T"]["paths"]["recall"]["samples"], 6);
        let kept = &told["terms"]["W"]["conservation"];
        assert_eq!((&kept["numerator"], &kept["value"]), (&kept["denominator"], &json!(1.0)));
    }
    let gauge = metric(&home, "metrics.sock", "vctx_recall_hit_rate").await;
    assert_eq!(gauge, Some(5.0 / 6.0));

    // A copy that leaves the queue does not count as lost, because the copied message stays in
    // recall storage.
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let told = score(&ada, "session").await;
    let kept = &told["terms"]["W"];
    assert_eq!(
        (&kept["messages"]["copies"], &kept["messages"]["queued"]),
        (&json!(1), &json!(0)),
        "{told:#}"
    );
    assert_eq!((&kept["conservation"]["value"], &told["flags"]), (&json!(1.0), &json!([])));

    // The server stores counts of writes in the database and counts of reads only in memory, so
    // only the counts of writes survive a restart.
    assert!(server.stop().await.success());
    let _server = home.serve().await;
    let told = score(&ada.again(), "life").await;
    assert_eq!(rate(&told), (Some(1), Some(1)), "{told:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_ends_for_the_same_reason_in_its_event_and_in_its_answer() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    ada.done("record_heartbeat", &json!({"state": "continue"})).await;
    let open = score(&ada, "session").await;
    let counts = |told: &Value| {
        let term = &told["terms"]["H"];
        (term["numerator"].as_u64(), term["denominator"].as_u64())
    };
    assert_eq!(counts(&open), (Some(0), Some(1)));
    let ended = ada.done("record_heartbeat", &json!({"state": "yield"})).await;
    assert_eq!(counts(&score(&ada, "session").await), (Some(1), Some(1)));
    let query = "FOR e IN memory_events FILTER e.agent_id == 'ada' AND e.type == 'hb_end' RETURN e.details.reason";
    let reason = home.database_inside().row(query, json!({})).await;
    assert_eq!(ended["result"]["terminated_reason"], reason);
    assert_eq!(reason, "explicit_yield");
}

/// Generates random inputs of the score: any count may be zero, and any tier may be down.
fn any(chance: &mut Chance) -> Inputs {
    let mut ratio = || {
        let denominator = if chance.below(12) == 0 { 0 } else { 1 + chance.below(1000) };
        Ratio::of(chance.below(denominator + 1), denominator)
    };
    let [recall_hits, store_requests, chains, chunks] = [ratio(), ratio(), ratio(), ratio()];
    let [probes, flushes, guards, audited] = [ratio(), ratio(), ratio(), ratio()];
    let appended = chance.below(50) * (1 + chance.below(9));
    let stored = chance.below(appended + 1);
    let times = Path::ALL.map(|path| {
        let mut times = Times::default();
        let samples = if chance.below(12) == 0 { 0 } else { 1 + chance.below(300) };
        for _ in 0..samples {
            times.record(chance.below(2_000_000) as f64 / 37.0);
        }
        PathTime { path, times, of_session: chance.below(2) == 0 }
    });
    let queued = chance.below(appended + 2);
    Inputs {
        places: Places {
            from_seq: 1,
            next_seq: 1 + appended,
            stored,
            queued,
            logged: chance.below(appended + 2),
            copies: 0,
            expired: 0,
        },
        recall_hits,
        store_requests,
        store_requests_of_session: true,
        chains,
        times,
        chunks,
        probes,
        flushes,
        guards,
        audited,
        zero: Vec::new(),
    }
}

#[test]
fn a_second_program_comes_to_the_same_sum_whatever_was_counted() {
    let considered = Considered {
        of: "life",
        since: String::new(),
        until: String::new(),
        events: 0,
        events_cut: false,
    };
    let mut whole = 0;
    for seed in 0..60 {
        let inputs = any(&mut Chance::new(seed));
        let answer = Value::Object(report(&inputs, &considered));
        whole += u32::from(answer["c"].is_number());
        assert_summed_again(&answer);
    }
    assert!(whole >= 3, "only {whole} of the inputs were whole");
}
