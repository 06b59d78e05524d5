//! Tests `vctx proxy` under faults: random kills under load, a database that disappears and
//! returns, a stop of the proxy, and each limit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::chance::{Chance, rounds, setting};
use crate::home::{Home, Process, TORN_TAIL, Tuning};
use crate::outside::needs_an_engine_of_its_own;
use crate::setup::setup;
use crate::standin::{Manner, StandIn, metric, proxy, raw};
use crate::talk::Agent;

/// Maximum time until one call succeeds, including restarts.
const CALL_MAX: Duration = Duration::from_secs(120);
/// Pause before an unanswered call is repeated.
const PAUSE: Duration = Duration::from_millis(10);
/// Names of the agents that append concurrently.
const AGENTS: [&str; 4] = ["ada", "bob", "cyd", "eve"];
/// Number of messages that each agent appends after the last kill.
const TAIL: u64 = 5;

/// An engine with the server's schema, both proxies, and a server.
struct Stage {
    server: Process,
    reads: Process,
    writes: Process,
    engine: Process,
    home: Home,
}

impl Stage {
    async fn new() -> Stage {
        let home = Home::new();
        let engine = home.engine().await;
        let made = setup(&home, &home.path("engine.sock").display().to_string());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let usual = Tuning::default();
        let reads = proxy(&home, "ro", "ro.sock", "engine.sock", &usual).await;
        let writes = proxy(&home, "rw", "rw.sock", "engine.sock", &usual).await;
        let server = home.server("vctx.sock", "rw.sock", "ro.sock", &usual).await;
        for text in ["call failed", "read failed", "a job failed", "a probe failed"] {
            server.expect(text);
        }
        Stage { server, reads, writes, engine, home }
    }
}

/// Repeats an append with the same key until it succeeds; returns the number of attempts.
async fn append(agent: &Agent, number: u64) -> u64 {
    let call = json!({"message": format!("Word {number} of {}.", agent.name), "role": "user"});
    let key = format!("{}-{number}", agent.name);
    let until = Instant::now() + CALL_MAX;
    for sent in 1.. {
        assert!(Instant::now() < until, "append {key} is not answered within {CALL_MAX:?}");
        match agent.attempt("append_fifo", &call, &key, "*").await {
            Ok(answer) if answer.status == 200 => return sent,
            Ok(answer) => assert!([503, 504].contains(&answer.status), "{}", answer.text),
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
    unreachable!("the loop ends by its answer or its time")
}

/// Starts one task for each agent. A task appends messages until it is stopped, and then [`TAIL`]
/// more messages.
fn load(home: &Home, stop: &Arc<AtomicU64>) -> JoinSet<(String, u64, u64)> {
    let mut clients = JoinSet::new();
    for name in AGENTS {
        let agent = Agent::at(home.wire("vctx.sock"), name);
        let stop = Arc::clone(stop);
        clients.spawn(async move {
            let (mut number, mut repeated, mut left) = (0, 0, TAIL);
            while left > 0 {
                repeated += append(&agent, number).await - 1;
                number += 1;
                left -= stop.load(Ordering::Relaxed).min(1);
            }
            (agent.name, number, repeated)
        });
    }
    clients
}

/// Checks that each message of each agent is stored once and in order, and that `vctx verify` finds
/// no fault in the memory.
async fn check(home: &Home, clients: JoinSet<(String, u64, u64)>) -> (u64, u64) {
    let (mut all, mut all_repeated) = (0, 0);
    for (name, count, repeated) in clients.join_all().await {
        let agent = Agent::at(home.wire("vctx.sock"), &name);
        let messages = agent.messages().await;
        let said: Vec<&str> = messages.iter().filter_map(|m| m["content"].as_str()).collect();
        let meant: Vec<String> = (0..count).map(|n| format!("Word {n} of {name}.")).collect();
        assert_eq!(said, meant, "{name}");
        home.assert_verified("vctx.sock", &name);
        (all, all_repeated) = (all + count, all_repeated + repeated);
    }
    let database = home.database();
    let rows =
        database.rows("FOR m IN messages COLLECT WITH COUNT INTO n RETURN n", json!({})).await;
    assert_eq!(rows, [json!(all)], "rows of messages");
    (all, all_repeated)
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_that_are_killed_under_load_lose_and_double_nothing() {
    let mut stage = Stage::new().await;
    let (kills, seed) = (rounds("PROXY_KILLS", 5), setting("PROXY_SEED", 11));
    println!("PROXY_SEED={seed} PROXY_KILLS={kills}");
    for name in AGENTS {
        Agent::create(stage.home.wire("vctx.sock"), name, 131_072, "Be brief.").await;
    }
    let (mut chance, stop) = (Chance::new(seed), Arc::<AtomicU64>::default());
    let clients = load(&stage.home, &stop);
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_micros(chance.below(60_000))).await;
        // About three of four kills hit the writing proxy.
        let (mode, listen, victim) = match chance.below(4) {
            0 => ("ro", "ro.sock", &mut stage.reads),
            _ => ("rw", "rw.sock", &mut stage.writes),
        };
        victim.kill();
        tokio::time::sleep(Duration::from_micros(chance.below(30_000))).await;
        *victim = proxy(&stage.home, mode, listen, "engine.sock", &Tuning::default()).await;
    }
    stop.store(1, Ordering::Relaxed);
    let (appended, repeated) = check(&stage.home, clients).await;
    // The test counts the requests that got no answer or found no listening proxy. Without any such
    // request, the kills would have tested nothing.
    let metrics = stage.home.wire("vctx-metrics.sock").get("/metrics").await.text;
    let hit: f64 = metrics
        .lines()
        .filter(|line| line.starts_with("vctx_store_unanswered_total"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum();
    println!(
        "{kills} kills, {appended} appends, {repeated} sent again, {hit} requests without an answer, none lost, none doubled"
    );
    assert!(hit > 0.0, "no kill met a request");
    assert!(appended >= AGENTS.len() as u64 * TAIL);
    assert!(stage.server.ended().is_none() && stage.engine.ended().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_and_comes_is_found_again() {
    if needs_an_engine_of_its_own("kills it") {
        return;
    }
    let mut stage = Stage::new().await;
    stage.engine.expect(TORN_TAIL);
    for proxy in [&stage.reads, &stage.writes] {
        proxy.expect("the database does not answer on its socket");
    }
    for name in AGENTS {
        Agent::create(stage.home.wire("vctx.sock"), name, 131_072, "Be brief.").await;
    }
    let stop = Arc::<AtomicU64>::default();
    let clients = load(&stage.home, &stop);
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        stage.engine.kill();
        // If no database listens, the error says so, and says that no request was sent.
        let answer = stage.home.wire("rw.sock").get("/_api/version").await;
        assert_eq!(
            (answer.status, &answer.body["errorNum"]),
            (503, &json!(2001)),
            "{}",
            answer.text
        );
        assert_eq!(answer.headers["retry-after"], "1");
        assert_eq!(metric(&stage.home, "rw.sock", "vctx_proxy_upstream_up", "").await, 0.0);
        stage.engine = stage.home.engine().await;
        stage.engine.expect(TORN_TAIL);
    }
    stop.store(1, Ordering::Relaxed);
    check(&stage.home, clients).await;
    assert!(stage.reads.ended().is_none() && stage.writes.ended().is_none());
    let unreachable =
        metric(&stage.home, "rw.sock", "vctx_proxy_requests_total", "unreachable").await;
    assert!(unreachable >= 3.0, "{unreachable}");
}

/// Starts a fake database, and a proxy of each mode in front of it.
async fn before(manner: Manner, settings: &[(&str, &str)]) -> (Home, StandIn, [Process; 2]) {
    let home = Home::new();
    let stand_in = StandIn::start(&home.path("db.sock"), manner);
    let environment =
        settings.iter().map(|(name, value)| (format!("VCTX_PROXY__{name}"), (*value).into()));
    let tuning = Tuning { environment: environment.collect(), ..Tuning::default() };
    let reads = proxy(&home, "ro", "ro.sock", "db.sock", &tuning).await;
    let writes = proxy(&home, "rw", "rw.sock", "db.sock", &tuning).await;
    (home, stand_in, [reads, writes])
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_changes_nothing_is_sent_again() {
    let (home, stand_in, _proxies) = before(Manner::HangsUp, &[]).await;
    let query = json!({"query": "RETURN 1"}).to_string();
    let begin = json!({"collections": {"write": ["messages"]}}).to_string();
    let json_type = [("content-type", "application/json")];
    let mut came = 0;
    // A proxy sends a repeatable request up to four times, and any other request only once.
    for (socket, method, path, body, times) in [
        ("ro.sock", "GET", "/_api/version", "", 4),
        ("ro.sock", "POST", "/_db/vctx/_api/cursor", query.as_str(), 4),
        ("ro.sock", "POST", "/_db/vctx/_api/cursor/1", "", 1),
        ("ro.sock", "DELETE", "/_db/vctx/_api/cursor/1", "", 1),
        ("rw.sock", "GET", "/_db/vctx/_api/transaction/1", "", 4),
        ("rw.sock", "POST", "/_db/vctx/_api/cursor", query.as_str(), 1),
        ("rw.sock", "POST", "/_db/vctx/_api/transaction/begin", begin.as_str(), 1),
        ("rw.sock", "PUT", "/_db/vctx/_api/transaction/1", "", 1),
        ("rw.sock", "DELETE", "/_db/vctx/_api/index/messages/1", "", 1),
    ] {
        let answer = home.wire(socket).call(method, path, &json_type, body.to_owned()).await;
        assert_eq!(
            (answer.status, &answer.body["errorNum"]),
            (502, &json!(2003)),
            "{method} {path}"
        );
        assert!(answer.text.contains("may have been executed"), "{}", answer.text);
        let seen = stand_in.seen().len();
        assert_eq!(seen - came, times, "{socket}: {method} {path}");
        came = seen;
    }
    assert_eq!(metric(&home, "ro.sock", "vctx_proxy_resent_total", "").await, 6.0);
    assert_eq!(metric(&home, "rw.sock", "vctx_proxy_requests_total", "lost").await, 5.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_ends_when_a_proxy_stops() {
    let slow = Manner::Answers(Duration::from_millis(700));
    let (home, stand_in, [reads, _writes]) = before(slow, &[]).await;
    let wire = home.wire("ro.sock");
    let asked = tokio::spawn(async move { wire.get("/_api/version").await });
    while stand_in.seen().is_empty() {
        tokio::time::sleep(PAUSE).await;
    }
    let ended = reads.stop().await;
    assert!(ended.success(), "{ended}");
    assert_eq!(asked.await.expect("a task").status, 200);
    assert!(!home.path("ro.sock").exists(), "its socket went with it");
    assert!(UnixStream::connect(home.path("ro.sock")).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_when_the_queue_is_full_is_told_so_at_once() {
    let settings = [("IN_FLIGHT_MAX", "1"), ("WAITING_MAX", "2"), ("WAIT_MS", "60000")];
    let slow = Manner::Answers(Duration::from_secs(4));
    let (home, stand_in, _proxies) = before(slow, &settings).await;
    let mut asked = JoinSet::new();
    for _ in 0..8 {
        let wire = home.wire("ro.sock");
        asked.spawn(async move { wire.get("/_api/version").await });
    }
    let answers = asked.join_all().await;
    let busy: Vec<_> = answers.iter().filter(|answer| answer.status == 503).collect();
    assert_eq!((answers.len(), busy.len()), (8, 5), "one at work, two wait");
    for answer in busy {
        assert_eq!((&answer.body["errorNum"], &answer.body["code"]), (&json!(21003), &json!(503)));
        assert_eq!(answer.headers["retry-after"], "1");
    }
    assert_eq!(stand_in.seen().len(), 3);
    assert_eq!(metric(&home, "ro.sock", "vctx_proxy_requests_total", "busy").await, 5.0);
    assert_eq!(metric(&home, "ro.sock", "vctx_proxy_waiting", "").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_a_turn_and_for_an_answer_have_an_end() {
    let settings = [("IN_FLIGHT_MAX", "1"), ("WAIT_MS", "50"), ("ANSWER_MS", "3000")];
    let never = Manner::Answers(Duration::from_secs(3_600));
    let (home, _stand_in, _proxies) = before(never, &settings).await;
    let (first, second) = (home.wire("rw.sock"), home.wire("rw.sock"));
    let begin = json!({"collections": {}}).to_string();
    let first = tokio::spawn(async move {
        first.call("POST", "/_db/vctx/_api/transaction/begin", &[], begin).await
    });
    while metric(&home, "rw.sock", "vctx_proxy_in_flight", "").await < 1.0 {
        tokio::time::sleep(PAUSE).await;
    }
    let busy = second.get("/_api/version").await;
    assert_eq!((busy.status, &busy.body["errorNum"]), (503, &json!(21003)), "{}", busy.text);
    let late = first.await.expect("a task");
    assert_eq!(late.status, 504, "{}", late.text);
    assert!(late.text.contains("may have been executed"), "{}", late.text);
    assert_eq!(metric(&home, "rw.sock", "vctx_proxy_in_flight", "").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_and_heads_have_bounds_and_long_ones_pass_as_they_come() {
    let settings = [("QUERY_BYTES_MAX", "2048")];
    let (home, stand_in, _proxies) = before(Manner::Answers(Duration::ZERO), &settings).await;
    let query =
        |bytes: usize| json!({"query": format!("RETURN '{}'", "x".repeat(bytes))}).to_string();
    let call = async |socket: &str, body: String| {
        home.wire(socket).call("POST", "/_db/vctx/_api/cursor", &[], body).await
    };
    assert_eq!(call("ro.sock", query(1_900)).await.status, 200);
    let refused = call("ro.sock", query(2_048)).await;
    assert_eq!(refused.status, 413, "{}", refused.text);
    // The writing proxy forwards bodies of any length, after it has checked them.
    let long = query(3 << 20);
    assert_eq!(call("rw.sock", long.clone()).await.status, 200);
    let seen = stand_in.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen[1].ends_with(&long), "{} bytes of {}", seen[1].len(), long.len());
    let stated =
        "POST /_db/vctx/_api/cursor HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999999\r\n\r\n";
    for socket in ["ro.sock", "rw.sock"] {
        let answer = raw(&home.path(socket), stated.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
        let heads: String = (0..150).map(|n| format!("x-{n}: y\r\n")).collect();
        let many = format!("GET /_api/version HTTP/1.1\r\nhost: x\r\n{heads}\r\n");
        let answer = raw(&home.path(socket), many.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
    assert_eq!(stand_in.seen().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_cut_off_comes_to_nobody() {
    let (home, stand_in, _proxies) = before(Manner::Answers(Duration::ZERO), &[]).await;
    for socket in ["ro.sock", "rw.sock"] {
        let mut stream = UnixStream::connect(home.path(socket)).await.expect("a connection");
        let half =
            b"POST /_db/vctx/_api/cursor HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{\"query\":";
        stream.write_all(half).await.expect("it is taken");
        drop(stream);
    }
    // Both proxies keep running, and forwarded no part of the invalid requests.
    for socket in ["ro.sock", "rw.sock"] {
        assert_eq!(home.wire(socket).get("/_api/version").await.status, 200);
        let until = Instant::now() + CALL_MAX;
        while metric(&home, socket, "vctx_proxy_in_flight", "").await > 0.0 {
            assert!(Instant::now() < until, "{socket}: a place is kept by nobody");
            tokio::time::sleep(PAUSE).await;
        }
    }
    let lines: BTreeSet<String> =
        stand_in.seen().iter().filter_map(|r| r.lines().next().map(str::to_owned)).collect();
    assert_eq!(lines, BTreeSet::from(["GET /_api/version HTTP/1.1".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_waits_for_its_proxies_and_says_what_is_missing() {
    let home = Home::new();
    let _engine = home.engine().await;
    let usual = Tuning::default();
    let _reads = proxy(&home, "ro", "ro.sock", "engine.sock", &usual).await;
    let _writes = proxy(&home, "rw", "rw.sock", "engine.sock", &usual).await;
    // The database has no schema, and no proxy allows a server to create it.
    let server = home.server_begun("vctx.sock", "rw.sock", "ro.sock", &usual);
    server.expect("not ready: database vctx has no schema");
    let wire = home.wire("vctx.sock");
    let told = async || match wire.try_call("GET", "/readyz", &[], "").await {
        Ok(answer) => answer.text,
        Err(_) => String::new(),
    };
    let until = Instant::now() + CALL_MAX;
    while !told().await.contains("vctx setup") {
        assert!(server.ended().is_none() && Instant::now() < until, "{}", server.said());
        tokio::time::sleep(PAUSE).await;
    }
    let made = setup(&home, &home.path("engine.sock").display().to_string());
    assert!(made.status.success());
    server.ready(&[], Some(&home.path("vctx.sock"))).await;
    let collections = home.database().call("GET", "/_api/collection", &Value::Null).await.ok();
    assert!(collections["result"].as_array().is_some_and(|all| all.len() > 10));
}
