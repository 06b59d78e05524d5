//! Tests heartbeats on real processes: events and answers state the same reasons for the end of a
//! chain, two servers share one heartbeat state, and no chain continues beyond its limits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::count;
use crate::database::Database;
use crate::home::{Home, TORN_TAIL, Tuning};
use crate::talk::{Agent, key};
use crate::wire::Answer;

/// Maximum time that a test waits for background work, even on a busy machine.
const SWEPT_MAX: Duration = Duration::from_secs(60);
/// Pause between two polls.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum number of attempts at a step that the sweep may disturb. The sweep is the server's
/// background job that ends heartbeat chains after their time limit.
const TRIES_MAX: usize = 50;
/// Maximum number of pages that one loop over a search's pages reads.
const PAGES_MAX: u64 = 100;

async fn beat(agent: &Agent, state: &str) -> Answer {
    agent.tool("record_heartbeat", &json!({"state": state}), &key(), "*").await
}

/// Sends a heartbeat without key and revision.
async fn bare_beat(agent: &Agent) -> Value {
    let path = format!("{}/tools/record_heartbeat", agent.path());
    agent
        .wire
        .call("POST", &path, &[], r#"{"state": {"status": "continue", "note": "page-1"}}"#)
        .await
        .ok()
}

async fn tune(agent: &Agent, limits: Value) {
    let body = json!({"heartbeat": limits}).to_string();
    let headers = [("idempotency-key", &*key()), ("if-match", "*")];
    let state = agent.wire.call("PATCH", &agent.path(), &headers, body).await.ok();
    for (name, value) in limits.as_object().expect("limits") {
        assert_eq!(&state["heartbeat"]["limits"][name], value, "{name}");
    }
}

/// Returns the details of an agent's events of one type, in order of time.
async fn events(database: &Database, agent: &str, kind: &str) -> Vec<Value> {
    let query = "FOR e IN memory_events FILTER e.agent_id == @agent AND e.type == @kind
        SORT e.ts, e.details.chain RETURN e.details";
    database.rows(query, json!({"agent": agent, "kind": kind})).await
}

/// Checks that every chain of an agent has exactly one end event, except those that are still
/// running.
async fn assert_bracketed(database: &Database, agent: &str, running: usize) {
    let chains = |rows: &[Value]| -> Vec<String> {
        rows.iter().map(|row| row["chain"].as_str().expect("a chain").to_owned()).collect()
    };
    let started = chains(&events(database, agent, "hb_start").await);
    let ended = chains(&events(database, agent, "hb_end").await);
    let unique: BTreeSet<&String> = ended.iter().collect();
    assert_eq!(unique.len(), ended.len(), "a chain ended twice: {ended:?}");
    assert!(unique.iter().all(|chain| started.contains(chain)), "an end without a begin");
    assert_eq!(started.len(), ended.len() + running, "{started:?} {ended:?}");
}

/// The ends of chains that answers to heartbeats reported, by the id of the chain.
#[derive(Default)]
struct Told(BTreeMap<String, Value>);

impl Told {
    fn note(&mut self, body: &Value) {
        let beat = &body["heartbeat"];
        if beat["terminated_reason"].is_string() {
            let chain = beat["chain"].as_str().expect("a chain").to_owned();
            assert!(self.0.insert(chain, beat.clone()).is_none(), "an end was told twice");
        }
        if body["result"]["chain_depth"].is_u64() {
            for name in ["chain_depth", "duration_ms", "terminated_reason"] {
                assert_eq!(body["result"].get(name), beat.get(name), "{name}: {body}");
            }
        }
    }

    /// Checks that the `hb_end` events of chains agree with the ends that answers reported; returns
    /// the reasons of the ends.
    async fn compare(&self, database: &Database, agent: &str) -> BTreeSet<String> {
        let rows = events(database, agent, "hb_end").await;
        for row in &rows {
            let Some(beat) = self.0.get(row["chain"].as_str().expect("a chain")) else {
                assert_eq!(row["closed_by"], "sweep", "an end that nobody was told: {row}");
                continue;
            };
            assert_eq!(row["reason"], beat["terminated_reason"]);
            for name in ["chain_depth", "duration_ms", "tokens_remaining", "closed_by"] {
                assert_eq!(row[name], beat[name], "{name}");
            }
        }
        assert!(rows.len() >= self.0.len());
        self.0.values().map(|beat| beat["terminated_reason"].to_string()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_four_reasons_are_in_events_and_answers_alike() {
    let home = Home::new();
    let _server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "Be brief.").await;
    tune(&ada, json!({"rps_limit": 64, "cooldown_ms": 0})).await;
    let mut told = Told::default();

    for depth in 1..=8 {
        let body = beat(&ada, "continue").await.ok();
        assert_eq!(body["result"]["chain_depth"], depth);
        assert_eq!(
            (&body["heartbeat"]["granted"], body["result"].get("terminated_reason")),
            (&json!(true), None)
        );
    }
    let ninth = beat(&ada, "continue").await.ok();
    assert_eq!(
        (&ninth["result"]["terminated_reason"], &ninth["result"]["chain_depth"]),
        (&json!("depth"), &json!(8))
    );
    told.note(&ninth);

    told.note(&beat(&ada, "continue").await.ok());
    let body = beat(&ada, "yield").await.ok();
    assert_eq!(body["result"]["terminated_reason"], "explicit_yield");
    assert_eq!(body["heartbeat"]["closed_by"], "beat");
    told.note(&body);

    beat(&ada, "continue").await.ok();
    let body = ada.append("user", "Hello").await;
    assert_eq!(body["heartbeat"]["terminated_reason"], "explicit_yield");
    assert_eq!(body["heartbeat"]["closed_by"], "event");
    told.note(&body);

    beat(&ada, "continue").await.ok();
    tune(&ada, json!({"floor_tokens": 4096})).await;
    let body = beat(&ada, "continue").await.ok();
    assert_eq!(body["result"]["terminated_reason"], "tokens");
    assert_eq!(body["heartbeat"]["opportunity"], false);
    told.note(&body);

    tune(&ada, json!({"floor_tokens": 0, "max_chain_duration_ms": 100})).await;
    let mut found = false;
    for _ in 0..TRIES_MAX {
        beat(&ada, "continue").await.ok();
        tokio::time::sleep(Duration::from_millis(110)).await;
        let body = beat(&ada, "continue").await.ok();
        told.note(&body);
        found = body["result"]["terminated_reason"] == "duration";
        if found {
            break;
        }
        // The sweep closed the chain before this heartbeat arrived, so the heartbeat began another
        // chain.
        assert_eq!(body["result"]["chain_depth"], 1);
        told.note(&beat(&ada, "yield").await.ok());
    }
    assert!(found, "no chain was found dead by a beat");
    let reasons = told.compare(&database, "ada").await;
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    assert_bracketed(&database, "ada", 0).await;
    let metrics = home.wire("metrics.sock").get("/metrics").await.text;
    for reason in ["depth", "duration", "tokens", "explicit_yield"] {
        let name = format!("vctx_hb_terminated_total{{reason=\"{reason}\"}}");
        assert!(metrics.contains(&name), "no {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_depth_of_five_the_sixth_is_refused() {
    let home = Home::new();
    let config = home.path("vctx.toml");
    std::fs::write(
        &config,
        "[heartbeat]\nmax_chain_depth = 5\nrps_limit = 64\ncooldown_ms = 60000\n",
    )
    .expect("a file");
    let tuning = Tuning { config: Some(config), ..Tuning::default() };
    let server = home.serve_with("vctx.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    for depth in 1..=5 {
        assert_eq!(beat(&ada, "continue").await.ok()["result"]["chain_depth"], depth);
    }
    let sixth = beat(&ada, "continue").await.ok();
    assert_eq!(sixth["result"]["terminated_reason"], "depth");
    let cooling = beat(&ada, "continue").await;
    let seconds = cooling.headers["retry-after"].to_str().expect("a text").parse::<u64>();
    let cooling = cooling.refused(429, "HEARTBEAT_COOLDOWN");
    let waits_ms = cooling["retry_after_ms"].as_u64().expect("a wait");
    assert_eq!(seconds, Ok(waits_ms.div_ceil(1_000)));
    assert!(cooling["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0 && ms <= 60_000));
    assert_eq!(ada.append("assistant", "I wait.").await["heartbeat"]["opportunity"], false);

    // The limits are stored with the agent, so a server that is started later applies them too.
    assert!(server.stop().await.success());
    let _server = home.serve().await;
    assert_eq!(ada.state().await["heartbeat"]["limits"]["max_chain_depth"], 5);
    beat(&ada, "continue").await.refused(429, "HEARTBEAT_COOLDOWN");
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 4096, "").await;
    assert_eq!(bob.state().await["heartbeat"]["limits"]["max_chain_depth"], 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_beat_counts_once() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    let minted = bare_beat(&ada).await;
    let minted_key = minted["idempotency_key"].as_str().expect("a key").to_owned();
    let noted = json!({"state": {"status": "continue", "note": "page-1"}});
    let again = ada.tool("record_heartbeat", &noted, &minted_key, "*").await.ok();
    assert_eq!((&again["replayed"], &again["_rev"]), (&json!(true), &minted["_rev"]));
    let go = json!({"state": "continue"});
    let first = ada.tool("record_heartbeat", &go, "one", "*").await.ok();
    for _ in 0..5 {
        let mut again = ada.tool("record_heartbeat", &go, "one", "*").await.ok();
        assert_eq!(again["replayed"], true);
        again["replayed"] = false.into();
        assert_eq!(again, first);
    }
    let state = ada.state().await["heartbeat"].clone();
    assert_eq!(
        (&state["chain"]["depth"], state["recent_ms"].as_array().map(Vec::len)),
        (&json!(2), Some(2))
    );
    let yielded = json!({"state": "yield"});
    ada.tool("record_heartbeat", &yielded, "one", "*").await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    assert_bracketed(&home.database_inside(), "ada", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_leaves_the_chain_open_and_whole() {
    let home = Home::new();
    let _server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 1024, "").await;
    beat(&ada, "continue").await.ok();
    let large = json!({"block_id": "b", "content": "word ".repeat(5_000)});
    ada.tool("store_core", &large, &key(), "*").await.refused(422, "TOKEN_BUDGET_EXCEEDED");
    ada.tool("record_heartbeat", &json!({"state": 7}), &key(), "*")
        .await
        .refused(400, "INVALID_ARGUMENT");
    assert_bracketed(&database, "ada", 1).await;
    assert_eq!(beat(&ada, "yield").await.ok()["result"]["chain_depth"], 1);
    assert_bracketed(&database, "ada", 0).await;
}

/// Starts two servers on one engine; returns an agent on each of them.
async fn two_servers(home: &Home) -> ([Agent; 2], Vec<crate::home::Process>) {
    let engine = home.engine().await;
    let a = home.server("a.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    let b = home.server("b.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    let ada = Agent::create(home.wire("a.sock"), "ada", 4096, "").await;
    ([ada, Agent::at(home.wire("b.sock"), "ada")], vec![engine, a, b])
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_count_one_chain_and_one_cool_down() {
    let home = Home::new();
    let (ada, _processes) = two_servers(&home).await;
    tune(&ada[0], json!({"rps_limit": 64, "cooldown_ms": 60_000})).await;
    for depth in 1..=8 {
        let body = beat(&ada[depth % 2], "continue").await.ok();
        assert_eq!(body["result"]["chain_depth"], depth);
    }
    assert_eq!(beat(&ada[1], "continue").await.ok()["result"]["terminated_reason"], "depth");
    for agent in &ada {
        beat(agent, "continue").await.refused(429, "HEARTBEAT_COOLDOWN");
    }
    tune(&ada[0], json!({"cooldown_ms": 0})).await;
    assert_bracketed(&home.database(), "ada", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_share_one_rate() {
    let home = Home::new();
    let (ada, _processes) = two_servers(&home).await;
    tune(&ada[0], json!({"max_chain_depth": 1024})).await;
    // `granted` lists the age of the heartbeat chain at each granted heartbeat, in milliseconds by
    // the servers' clock.
    let (mut granted, mut refused) = (Vec::new(), [0, 0]);
    let until = Instant::now() + SWEPT_MAX;
    while granted.len() < 9 || refused.contains(&0) {
        assert!(Instant::now() < until, "{granted:?} granted, {refused:?} refused");
        for (at, agent) in ada.iter().enumerate() {
            let answer = beat(agent, "continue").await;
            if answer.status == 429 {
                answer.refused(429, "HEARTBEAT_RATE_LIMITED");
                refused[at] += 1;
            } else {
                granted.push(answer.ok()["result"]["duration_ms"].as_u64().expect("an age"));
            }
        }
    }
    for four in granted.windows(4) {
        assert!(four[3] - four[0] >= 1_000, "four beats within a second: {granted:?}");
    }
    let bob = Agent::create(home.wire("b.sock"), "bob", 4096, "").await;
    beat(&bob, "continue").await.ok();
    let state = ada[0].state().await;
    assert_eq!(
        state["heartbeat"]["chain"]["depth"],
        granted.len(),
        "what waits leaves the chain open"
    );
}

/// Waits until the given number of an agent's chains have ended.
async fn ended(database: &Database, agent: &str, count: usize) -> Vec<Value> {
    let until = Instant::now() + SWEPT_MAX;
    loop {
        let rows = events(database, agent, "hb_end").await;
        if rows.len() >= count {
            return rows;
        }
        assert!(Instant::now() < until, "{agent}: a chain stays open: {rows:?}");
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_leaves_no_chain_open() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    tune(&ada, json!({"max_chain_duration_ms": 6_000})).await;
    beat(&ada, "continue").await.ok();
    beat(&ada, "continue").await.ok();
    server.kill();
    let server = home.serve().await;
    server.expect(TORN_TAIL);
    let database = home.database_inside();
    let rows = ended(&database, "ada", 1).await;
    assert_eq!(rows.len(), 1);
    let end = &rows[0];
    assert_eq!((&end["reason"], &end["closed_by"]), (&json!("duration"), &json!("sweep")));
    assert_eq!(end["chain_depth"], 2);
    assert!(end["duration_ms"].as_u64().is_some_and(|ms| ms > 6_000), "{end}");
    assert_bracketed(&database, "ada", 0).await;
    let state = ada.again().state().await["heartbeat"].clone();
    assert_eq!(
        (&state["chain"], &state["limits"]["max_chain_duration_ms"]),
        (&Value::Null, &json!(6_000))
    );
    assert_eq!(state["ended"]["closed_by"], "sweep");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sweeping_servers_close_each_chain_once() {
    const AGENTS: usize = 12;
    let home = Home::new();
    let (_, _processes) = two_servers(&home).await;
    let database = home.database();
    let mut agents = Vec::new();
    for number in 0..AGENTS {
        let socket = if number % 2 == 0 { "a.sock" } else { "b.sock" };
        let agent = Agent::create(home.wire(socket), &format!("agent-{number}"), 4096, "").await;
        tune(&agent, json!({"max_chain_duration_ms": 500})).await;
        beat(&agent, "continue").await.ok();
        agents.push(agent);
    }
    for agent in &agents {
        let rows = ended(&database, &agent.name, 1).await;
        assert_eq!(rows[0]["closed_by"], "sweep");
        assert_bracketed(&database, &agent.name, 0).await;
    }
    // Both servers look for chains that are past their time limit. Nevertheless, each chain was
    // ended only once.
    tokio::time::sleep(Duration::from_millis(100)).await;
    for agent in &agents {
        assert_eq!(events(&database, &agent.name, "hb_end").await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_tenant_closes_what_a_dead_one_left() {
    let home = Home::new();
    let _engine = home.engine().await;
    let tenant = Tuning::variable("VCTX_SERVER__TENANT", "acme");
    let dying = home.server("acme.sock", "engine.sock", "engine-ro.sock", &tenant).await;
    let ada = Agent::create(home.wire("acme.sock"), "ada", 4096, "").await;
    tune(&ada, json!({"max_chain_duration_ms": 2_000})).await;
    beat(&ada, "continue").await.ok();
    dying.kill();
    let _other =
        home.server("vctx.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    // An agent with the same name that belongs to another tenant has its own chain.
    let namesake = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    beat(&namesake, "continue").await.ok();
    let database = home.database();
    assert_eq!(ended(&database, "acme:ada", 1).await[0]["closed_by"], "sweep");
    assert_bracketed(&database, "acme:ada", 0).await;
    assert_bracketed(&database, "ada", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_look_for_dead_chains_reads_an_index_that_holds_open_ones_only() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    beat(&ada, "continue").await.ok();
    let query = include_str!("../../aql/core_dead_chains.aql");
    let binds = json!({"now_ms": 1, "limit": 1});
    let body = json!({"query": query, "bindVars": binds});
    let plan = home.database_inside().call("POST", "/_api/explain", &body).await.ok();
    let nodes = plan["plan"]["nodes"].as_array().expect("nodes").clone();
    let index = nodes.iter().find(|node| node["type"] == "IndexNode").expect("an index");
    assert_eq!(index["indexes"][0]["name"], "core_by_deadline");
    assert!(nodes.iter().all(|node| node["type"] != "EnumerateCollectionNode"));
}

/// The result of a loop over pages.
struct Loop {
    /// Number of pages that the loop read.
    pages: u64,
    /// The last answer, which reported why the chain ended.
    end: Value,
}

/// Reads the pages of a search as an agent runtime does: continues while a heartbeat is granted and
/// there is a next page, and yields at the end of the list.
async fn page_through(agent: &Agent, tool: &str, query: &Value, pause: Duration) -> Loop {
    let mut query = query.clone();
    query["heartbeat"] = true.into();
    for pages in 1..=PAGES_MAX {
        let body = agent.tool(tool, &query, &key(), "*").await.ok();
        assert_ne!(body["result"]["results"], json!([]), "a page brings something: {body}");
        let told = body["heartbeat"].clone();
        if told["granted"] == false {
            assert_eq!(told.get("refused"), None, "nothing but an end is in the way: {told}");
            return Loop { pages, end: body };
        }
        assert_eq!(told["granted"], true, "{told}");
        query["page_token"] = body["result"]["next_page_token"].clone();
        if query["page_token"].is_null() {
            return Loop { pages, end: beat(agent, "yield").await.ok() };
        }
        tokio::time::sleep(pause).await;
    }
    panic!("a loop over {PAGES_MAX} pages has no end")
}

/// Runs several loops over the pages of one search. Each loop's heartbeat chain ends for another
/// reason, until every possible reason has occurred.
async fn loops_end(home: &Home, ada: &Agent, tool: &str, query: Value, pages: u64) {
    let unhurried =
        json!({"rps_limit": 64, "cooldown_ms": 0, "max_chain_depth": 1024, "floor_tokens": 0});
    let mut told = Told::default();

    tune(ada, unhurried).await;
    let all = page_through(ada, tool, &query, Duration::ZERO).await;
    assert_eq!(all.end["result"]["terminated_reason"], "explicit_yield");
    let depth = &all.end["result"]["chain_depth"];
    assert_eq!((all.pages, depth), (pages, &json!(pages)), "each page is a beat of one chain");
    told.note(&all.end);

    tune(ada, json!({"max_chain_depth": 3})).await;
    let capped = page_through(ada, tool, &query, Duration::ZERO).await;
    let beat = &capped.end["heartbeat"];
    assert_eq!((capped.pages, &beat["terminated_reason"]), (4, &json!("depth")));
    assert_eq!(beat["chain_depth"], 3);
    told.note(&capped.end);

    tune(ada, json!({"max_chain_depth": 1024, "max_chain_duration_ms": 100})).await;
    let mut late = false;
    for _ in 0..TRIES_MAX {
        let slow = page_through(ada, tool, &query, Duration::from_millis(60)).await;
        told.note(&slow.end);
        late = slow.end["heartbeat"]["terminated_reason"] == "duration";
        if late {
            break;
        }
        // In this attempt, the sweep ended the heartbeat chain first, so the loop reached the last
        // page in another chain.
    }
    assert!(late, "no loop ran out of time");

    // An append between two pages leaves no room in the window for the next page.
    let free = ada.state().await["tokens"]["free"].as_u64().expect("tokens");
    tune(ada, json!({"max_chain_duration_ms": 60_000, "floor_tokens": free - 50})).await;
    let mut first = query.clone();
    first["heartbeat"] = true.into();
    let body = ada.tool(tool, &first, &key(), "*").await.ok();
    assert_eq!(body["heartbeat"]["granted"], true);
    ada.append("assistant", count::words(100)).await;
    first["page_token"] = body["result"]["next_page_token"].clone();
    let body = ada.tool(tool, &first, &key(), "*").await.ok();
    let ended = &body["heartbeat"];
    assert_eq!((&ended["terminated_reason"], &ended["chain_depth"]), (&json!("tokens"), &json!(1)));
    assert_ne!(body["result"]["results"], json!([]), "the page itself is answered");
    told.note(&body);

    let database = home.database_inside();
    let reasons = told.compare(&database, &ada.name).await;
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    assert_bracketed(&database, &ada.name, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_over_pages_of_the_archive_runs_until_yield_tokens_or_a_cap() {
    const CHUNKS: u64 = 5;
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    // Each chunk fills more than half of a page of 512 tokens.
    let chunk = |number: u64| format!("Ship {number} lies in the harbour. {}", count::words(250));
    let chunks: Vec<String> = (1..=CHUNKS).map(chunk).collect();
    ada.done("ingest_archival", &json!({"doc_id": "ships", "chunks": chunks})).await;
    let query = json!({"query_text": "ships in the harbour", "limit": CHUNKS});
    loops_end(&home, &ada, "search_archival", query, CHUNKS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_over_pages_of_recall_storage_runs_until_yield_tokens_or_a_cap() {
    const MESSAGES: u64 = 6;
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    for number in 1..=MESSAGES {
        ada.append("user", format!("Ship {number} lies in the harbour.")).await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let query = json!({"query": "harbour", "limit": 1, "rehydrate": false});
    loops_end(&home, &ada, "search_recall", query, MESSAGES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_whose_beat_has_to_wait_answers_all_the_same() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    ada.append("user", "The ship lies in the harbour.").await;
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    tune(&ada, json!({"max_chain_depth": 1, "rps_limit": 64, "cooldown_ms": 60_000})).await;
    let search = json!({"query": "harbour", "rehydrate": false, "heartbeat": true});
    for (granted, reason, refused) in [
        (true, None, None),
        (false, Some("depth"), None),
        (false, None, Some("cooldown")),
        (false, None, Some("cooldown")),
    ] {
        let body = ada.done("search_recall", &search).await;
        assert_eq!(body["result"]["results"].as_array().map(Vec::len), Some(1));
        let told = &body["heartbeat"];
        assert_eq!(told["granted"], granted, "{told}");
        assert_eq!(told["terminated_reason"].as_str(), reason, "{told}");
        assert_eq!(told["refused"].as_str(), refused, "{told}");
        assert_eq!(told["retry_after_ms"].is_u64(), refused.is_some() || reason.is_some());
    }
    let without = json!({"query": "harbour", "rehydrate": false});
    let body = ada.done("search_recall", &without).await;
    assert_eq!(body["heartbeat"].get("granted"), None, "a search without a beat is none");
    assert_bracketed(&home.database_inside(), "ada", 0).await;
    let metrics = home.wire("metrics.sock").get("/metrics").await.text;
    let line = "vctx_hb_rate_limited_total{why=\"cooldown\"} 2";
    assert!(metrics.contains(line), "no {line} in\n{metrics}");
}
