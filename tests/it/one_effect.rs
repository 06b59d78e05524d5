//! Tests that calls with the same idempotency key together have the effect of one call: many
//! concurrent callers on two servers send heartbeats, searches with copies, and ingests of one
//! document.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::archival::circle;
use crate::home::{Home, Process, Tuning};
use crate::talk::{Agent, key};
use crate::truths::{assert_archive, assert_chains, assert_log, assert_vectors, assert_view};
use crate::wire::Answer;

/// Number of concurrent callers, half of them on each server.
const CALLERS: usize = 12;
/// Maximum number of times that a call is sent with its key before the test fails.
const SENDS_MAX: usize = 200;

/// Two servers on one engine.
struct Pair {
    home: Home,
    _processes: Vec<Process>,
}

impl Pair {
    async fn start() -> (Pair, Agent) {
        let home = Home::new();
        let engine = home.engine().await;
        let tuning = Tuning::default();
        let first = home.server("a.sock", "engine.sock", "engine-ro.sock", &tuning).await;
        let second = home.server("b.sock", "engine.sock", "engine-ro.sock", &tuning).await;
        let ada = Agent::create(home.wire("a.sock"), "ada", 8192, "Be brief.").await;
        let limits = json!({"heartbeat": {"rps_limit": 64, "cooldown_ms": 0, "floor_tokens": 0,
            "max_chain_depth": 1024, "max_chain_duration_ms": 3_600_000}});
        let headers = [("idempotency-key", "limits"), ("if-match", "*")];
        ada.wire.call("PATCH", &ada.path(), &headers, limits.to_string()).await.ok();
        (Pair { home, _processes: vec![engine, first, second] }, ada)
    }

    /// Returns the agent on a separate connection to one of the servers.
    fn caller(&self, number: usize) -> Agent {
        Agent::at(self.home.wire(["a.sock", "b.sock"][number % 2]), "ada")
    }

    /// Lets all callers call the same tool concurrently; `call` returns arguments, key and revision
    /// for each caller. Returns the answers in the order of the callers.
    async fn all_at_once(
        &self,
        tool: &'static str,
        call: impl Fn(usize) -> (Value, String, String),
    ) -> Vec<Answer> {
        let mut calls = JoinSet::new();
        for number in 0..CALLERS {
            let (agent, (arguments, key, revision)) = (self.caller(number), call(number));
            calls.spawn(async move {
                (number, settled(&agent, tool, &arguments, &key, &revision).await)
            });
        }
        let answers: BTreeMap<usize, Answer> = calls.join_all().await.into_iter().collect();
        answers.into_values().collect()
    }
}

/// Repeats a call with its key until the answer does not request a retry.
async fn settled(
    agent: &Agent,
    tool: &str,
    arguments: &Value,
    key: &str,
    revision: &str,
) -> Answer {
    for _ in 0..SENDS_MAX {
        let answer = agent.tool(tool, arguments, key, revision).await;
        let again = answer.code() == "CONFLICT" || answer.code() == "HEARTBEAT_RATE_LIMITED";
        if !again {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{tool} does not get through")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn beats_from_everywhere_count_each_once() {
    let (pair, ada) = Pair::start().await;
    let go = json!({"state": "continue"});
    let answers = pair.all_at_once("record_heartbeat", |_| (go.clone(), key(), "*".into())).await;
    let depths: BTreeSet<u64> =
        answers.into_iter().map(|a| number(&a.ok()["result"]["chain_depth"])).collect();
    assert_eq!(depths, (1..=CALLERS as u64).collect(), "each beat is another step of one chain");
    // A heartbeat that all callers send with one key counts once.
    let answers =
        pair.all_at_once("record_heartbeat", |_| (go.clone(), "one beat".into(), "*".into())).await;
    let bodies: Vec<Value> = answers.into_iter().map(Answer::ok).collect();
    let fresh = bodies.iter().filter(|body| body["replayed"] == false).count();
    assert!(fresh <= 1, "{fresh} say that they did it");
    assert!(bodies.iter().all(|body| body["result"] == bodies[0]["result"]));
    assert_eq!(bodies[0]["result"]["chain_depth"], CALLERS as u64 + 1);
    assert_eq!(ada.state().await["heartbeat"]["chain"]["depth"], CALLERS as u64 + 1);
    // All callers yield, but only one heartbeat chain ends, because there is only one.
    let back = json!({"state": "yield"});
    let answers = pair.all_at_once("record_heartbeat", |_| (back.clone(), key(), "*".into())).await;
    let ends =
        answers.into_iter().filter(|a| a.body["result"]["terminated_reason"] == "explicit_yield");
    assert_eq!(ends.count(), 1);
    let database = pair.home.database();
    assert_eq!(assert_chains(&database, "ada").await, 0);
    let ended = "RETURN LENGTH(FOR e IN memory_events FILTER e.type == 'hb_end' RETURN 1)";
    assert_eq!(database.row(ended, json!({})).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_everybody_finds_comes_back_once() {
    let (pair, ada) = Pair::start().await;
    for at in 0..9 {
        ada.append("user", format!("Entry {at}: the tide table hangs behind the door.")).await;
    }
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let database = pair.home.database();
    let entries = database.counts().await["recall"].clone();
    for round in 0..3 {
        let before = number(&ada.again().state().await["tokens"]["occupancy"]);
        // The searches find the same entries but return lists of different lengths. Each pair of
        // callers shares a key.
        let answers = pair
            .all_at_once("search_recall", |number| {
                let limit = 3 + number / 2 % 4;
                let key = format!("round {round} search {}", number / 4 * 4 + number % 4 / 2 * 2);
                (
                    json!({"query": "tide table", "limit": limit, "heartbeat": limit == 4}),
                    key,
                    "*".into(),
                )
            })
            .await;
        let bodies: Vec<Value> = answers.into_iter().map(Answer::ok).collect();
        let mut copies: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for result in
            bodies.iter().flat_map(|b| b["result"]["results"].as_array().expect("results"))
        {
            let id = result["id"].as_str().expect("an id").to_owned();
            copies.entry(id).or_default().insert(number(&result["copy_seq"]));
        }
        assert!(copies.values().all(|seqs| seqs.len() == 1), "a copy twice: {copies:?}");
        let state = ada.again().state().await;
        assert_eq!(number(&state["queue"]["count"]), copies.len() as u64);
        // Searches with the same key added their copies only once, and all added copies are in the
        // window.
        let mut added = BTreeMap::new();
        for body in &bodies {
            added.insert(
                body["_rev"].to_string(),
                body["result"]["tokens_added"].as_i64().expect("a number"),
            );
        }
        let grown = number(&state["tokens"]["occupancy"]) - before;
        assert_eq!(added.values().sum::<i64>(), i64::try_from(grown).expect("few tokens"));
        ada.again().done("evict_fifo", &json!({"target_tokens": 0})).await;
        assert_eq!(database.counts().await["recall"], entries, "a copy was logged");
    }
    assert_log(&database, "ada").await;
    assert_view(&database, "ada", &["tide"]).await;
    assert_chains(&database, "ada").await;
    for socket in ["a.sock", "b.sock"] {
        pair.home.assert_verified(socket, "ada");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_ingests_on_one_revision_one_is_taken_whole() {
    let (pair, ada) = Pair::start().await;
    let database = pair.home.database();
    // Each round offers other texts: the document that is stored already is no change.
    let offer = |round: usize, number: usize| {
        let from = u32::try_from((round * CALLERS + number) * 20).expect("a bearing");
        let number = u32::try_from(number).expect("a caller");
        circle("d", from, 5 + number, "cosine")
    };
    let mut revision = String::new();
    for round in 0..3 {
        let known = revision.clone();
        let answers =
            pair.all_at_once("ingest_archival", |n| (offer(round, n), key(), known.clone())).await;
        let mut won = Vec::new();
        for (number, answer) in answers.into_iter().enumerate() {
            if answer.status == 200 {
                won.push((number, answer.ok()));
            } else {
                answer.refused(412, "REVISION_STALE");
            }
        }
        let [(winner, done)] = won.as_slice() else { panic!("round {round}: {} won", won.len()) };
        revision = done["_rev"].as_str().expect("a revision").to_owned();
        assert_taken(&pair, &offer(round, *winner), &revision).await;
    }
    // With the revision `*` all ingests succeed in some order, and the last one is stored
    // completely.
    let answers = pair.all_at_once("ingest_archival", |n| (offer(3, n), key(), "*".into())).await;
    let done: Vec<Value> = answers.into_iter().map(Answer::ok).collect();
    let revisions: BTreeSet<&str> = done.iter().map(|d| d["_rev"].as_str().expect("one")).collect();
    assert_eq!(revisions.len(), CALLERS);
    let manifest = database.row("FOR m IN archival_manifests RETURN m.revision", json!({})).await;
    let last = done.iter().position(|d| d["_rev"] == manifest).expect("one of them");
    assert_taken(&pair, &offer(3, last), manifest.as_str().expect("a revision")).await;
    // Calls with the same key cause only one ingest.
    let answers = pair
        .all_at_once("ingest_archival", |_| (offer(4, 3), "one ingest".into(), "*".into()))
        .await;
    let done: Vec<Value> = answers.into_iter().map(Answer::ok).collect();
    assert!(done.iter().filter(|d| d["replayed"] == false).count() <= 1);
    assert!(done.iter().all(|d| d["_rev"] == done[0]["_rev"]));
    assert_taken(&pair, &offer(4, 3), done[0]["_rev"].as_str().expect("a revision")).await;
    assert_eq!(ada.state().await["archived"], json!({"documents": 1, "chunks": 8}));
}

/// Checks that the archive contains exactly this document.
async fn assert_taken(pair: &Pair, offered: &Value, revision: &str) {
    let database = pair.home.database();
    assert_archive(&database).await;
    let query = "FOR d IN archival_docs SORT d.index RETURN { text: d.text, revision: d.revision }";
    let rows = database.rows(query, json!({})).await;
    let texts: Vec<&Value> = rows.iter().map(|row| &row["text"]).collect();
    assert_eq!(json!(texts), offered["chunks"]);
    assert!(rows.iter().all(|row| row["revision"] == revision));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_it_at_once_is_one_history() {
    let (pair, ada) = Pair::start().await;
    ada.done("write_recall", &json!({"entries": [{"content": "The bell of the harbour."}]})).await;
    let mut work = JoinSet::new();
    for caller in 0..CALLERS {
        let agent = pair.caller(caller);
        work.spawn(async move {
            for turn in 0..6 {
                let (tool, arguments) = match (caller + turn) % 6 {
                    0 => ("record_heartbeat", json!({"state": "continue"})),
                    1 => (
                        "search_recall",
                        json!({"query": "harbour bell", "limit": 2, "heartbeat": true}),
                    ),
                    2 => {
                        let from = u32::try_from(caller * 6 + turn).expect("an angle");
                        ("ingest_archival", circle(&format!("d{}", turn % 2), from, 6, "cosine"))
                    }
                    3 => (
                        "append_fifo",
                        json!({"message": format!("harbour {caller} {turn}"), "role": "user"}),
                    ),
                    4 => ("evict_fifo", json!({"target_tokens": 0})),
                    _ => (
                        "search_archival",
                        json!({"query_vector": [1.0, 0.0], "limit": 40, "heartbeat": true}),
                    ),
                };
                settled(&agent, tool, &arguments, &key(), "*").await.ok();
            }
        });
    }
    work.join_all().await;
    let database = pair.home.database();
    let row = database
        .row(
            "LET versions = (FOR e IN memory_events FILTER e.type == 'audit' SORT e.details.version_after RETURN e.details.version_after)
            RETURN { versions, version: DOCUMENT('core_memory/ada').version, records: LENGTH(idempotency) }",
            json!({}),
        )
        .await;
    // The expected number of versions of the core: one each for the creation of the agent, the
    // change of its limits and the call of `write_recall`, and one for each concurrent call.
    let calls = CALLERS as u64 * 6 + 3;
    assert_eq!((&row["version"], &row["records"]), (&json!(calls), &json!(calls - 1)));
    assert_eq!(row["versions"], json!((1..=calls).collect::<Vec<_>>()));
    assert_log(&database, "ada").await;
    assert_view(&database, "ada", &["harbour"]).await;
    assert_chains(&database, "ada").await;
    assert_archive(&database).await;
    let copies = "FOR m IN messages FILTER m.kind == 'copy' AND m.seq >= DOCUMENT('core_memory/ada').queue.head_seq
        COLLECT of = m.copy_of WITH COUNT INTO number FILTER number > 1 RETURN of";
    assert_eq!(database.rows(copies, json!({})).await, Vec::<Value>::new(), "a copy twice");
    assert!(!assert_vectors(&database, &json!([1.0, 0.0])).await, "too few for an index");
    for socket in ["a.sock", "b.sock"] {
        pair.home.assert_verified(socket, "ada");
    }
}
