//! Tests faults on the sockets between server and engine: a conversation that faults disturb ends
//! in the same state as the same conversation without faults.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::archival::circle;
use crate::chance::share;
use crate::count;
use crate::home::Tuning;
use crate::one_transaction::Stage;
use crate::proxy::Fault;
use crate::talk::{Agent, key, said};
use crate::truths::{assert_archive, assert_chains, assert_log, assert_view};

/// Maximum number of times that one call is sent with its key before the test fails.
const SENDS_MAX: usize = 40;
/// Length of each period in which the sockets refuse connections.
const REFUSAL: Duration = Duration::from_millis(300);

/// Repeats a call with the same key until it succeeds, as the errors of failed attempts advise.
pub(crate) async fn insist(agent: &Agent, tool: &str, arguments: &Value) -> Value {
    let key = key();
    for _ in 0..SENDS_MAX {
        let _refused = match agent.attempt(tool, arguments, &key, "*").await {
            Ok(answer) if answer.status == 200 => {
                assert_replayed(agent, tool, arguments, &key, &answer.body).await;
                return answer.body;
            }
            // The server gave up after too many conflicts, and the call had no effect.
            Ok(answer) if answer.status == 409 => answer.refused(409, "CONFLICT"),
            Ok(answer) => {
                assert_eq!(answer.status, 503, "not what a fault makes of a call: {}", answer.text);
                answer.body
            }
            Err(lost) => panic!("the server itself must answer: {}", lost.0),
        };
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{tool} was never answered")
}

/// Repeats a call with its key, and checks that it returns the stored answer and has no second
/// effect, despite any fault between server and database.
async fn assert_replayed(agent: &Agent, tool: &str, arguments: &Value, key: &str, done: &Value) {
    let read = arguments["rehydrate"] == false;
    let writes =
        tool.starts_with("search") || tool == "record_heartbeat" || tool == "ingest_archival";
    if !writes || read {
        return;
    }
    for _ in 0..SENDS_MAX {
        let answer = agent.attempt(tool, arguments, key, "*").await;
        let answer = answer.unwrap_or_else(|lost| panic!("{tool} again: {}", lost.0));
        if answer.status != 503 && answer.status != 409 {
            let mut again = answer.ok();
            assert_eq!(again["replayed"], true, "{tool}");
            again["replayed"] = done["replayed"].clone();
            assert_eq!(&again, done, "{tool}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{tool} is never answered again")
}

/// Creates an agent whose heartbeat chains end by depth or by an event, never by time.
async fn unhurried(stage: &Stage, name: &str) -> Agent {
    let agent = stage.agent(name, 1024).await;
    let limits = json!({"heartbeat": {"rps_limit": 64, "cooldown_ms": 0, "floor_tokens": 0, "max_chain_depth": 2,
        "max_chain_duration_ms": 3_600_000}});
    let headers = [("idempotency-key", "limits"), ("if-match", "*")];
    agent.wire.call("PATCH", &agent.path(), &headers, limits.to_string()).await.ok();
    agent
}

/// Makes the calls of one turn: an ingest, searches in recall storage, and heartbeats.
async fn remember(agent: &Agent, turn: usize) {
    let document =
        circle(&format!("d{}", turn % 2), u32::try_from(turn).expect("a turn"), 5, "cosine");
    insist(agent, "ingest_archival", &document).await;
    let near = json!({"query_vector": [1.0, 0.0], "limit": 2, "heartbeat": true});
    let found = insist(agent, "search_archival", &near).await;
    assert_ne!(found["result"]["k_actual"], 0, "what was taken in is found: {found}");
    // The search finds evicted messages page by page; the message with the whole phrase ranks above
    // the message with the single word.
    let query = format!("\"{} marks\" {}", word(turn - 6), word(turn - 7));
    let mut asked = json!({"query": query, "limit": 1, "heartbeat": true});
    for said in [turn - 6, turn - 7] {
        let found = insist(agent, "search_recall", &asked).await["result"].take();
        let results = found["results"].as_array().expect("results");
        assert_eq!(results.len(), 1, "not what is there: {found}");
        assert!(
            results[0]["content"].as_str().is_some_and(|text| text.contains(&word(said))),
            "{query}: {} expected: {found}",
            word(said)
        );
        asked["page_token"] = found["next_page_token"].clone();
    }
    for state in ["continue", "continue", "continue", "yield"] {
        insist(agent, "record_heartbeat", &json!({"state": state})).await;
    }
}

/// Returns a word that only the texts of this turn contain.
fn word(turn: usize) -> String {
    format!("turn{turn}x")
}

/// Holds a conversation that causes several flushes.
async fn converse(agent: &Agent, mut meanwhile: impl AsyncFnMut(usize)) {
    for turn in 0..36 {
        meanwhile(turn).await;
        let text = format!("{} marks {}", word(turn), count::words(60));
        insist(agent, "append_fifo", &json!({"message": text, "role": "user"})).await;
        if turn % 9 == 4 {
            let line = json!({"block_id": "plan", "content": format!("line {turn}"), "policy": {"mode": "append"}});
            insist(agent, "store_core", &line).await;
        }
        if turn % 12 == 7 {
            insist(agent, "evict_fifo", &json!({"target_tokens": 300})).await;
            insist(
                agent,
                "write_recall",
                &json!({"entries": [{"content": format!("note {turn}")}]}),
            )
            .await;
            remember(agent, turn).await;
        }
    }
}

/// Returns the final memory, without ids and times.
async fn outcome(stage: &Stage, agent: &Agent) -> Value {
    let state = agent.state().await;
    let messages = agent.messages().await;
    let placed: Vec<Value> = messages
        .iter()
        .map(|m| {
            json!([
                m["seq"],
                m["kind"],
                m["in_queue"],
                m["token_estimate"],
                m["evicted_batch_id"].is_string()
            ])
        })
        .collect();
    let blocks: Vec<Value> = state["blocks"]
        .as_array()
        .expect("blocks")
        .iter()
        .map(|b| json!([b["id"], b["content"]]))
        .collect();
    let database = stage.home.database();
    assert_log(&database, &agent.name).await;
    assert_view(&database, &agent.name, &[]).await;
    assert_chains(&database, &agent.name).await;
    assert_archive(&database).await;
    let count =
        async |query: &str| stage.home.database().row(query, json!({"a": agent.name})).await;
    json!({
        "said": said(&messages), "placed": placed, "blocks": blocks, "tokens": state["tokens"],
        "summary": state["summary"]["content"], "counters": state["counters"], "version": state["version"],
        "head_seq": state["queue"]["head_seq"], "count": state["queue"]["count"],
        "audits": count("RETURN LENGTH(FOR e IN memory_events FILTER e.agent_id == @a AND e.type == 'audit' RETURN 1)").await,
        "entries": count("RETURN LENGTH(FOR e IN recall_log FILTER e._from == CONCAT('core_memory/', @a) RETURN 1)").await,
        "chunks": count("RETURN (FOR d IN archival_docs FILTER d.agent_id == @a SORT d.doc_id, d.index RETURN [d.doc_id, d.text])").await,
        "chains": count("RETURN (FOR e IN memory_events FILTER e.agent_id == @a AND e.type == 'hb_end' SORT e.details.reason
            COLLECT reason = e.details.reason WITH COUNT INTO number RETURN [reason, number])").await,
        "records": count("RETURN LENGTH(FOR r IN idempotency FILTER r.agent_id == @a RETURN 1)").await,
    })
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_through_any_fault_ends_as_it_does_without() {
    let stage = Stage::new(&Tuning::default()).await;
    for text in ["call failed", "read failed", "a job failed"] {
        stage.server.expect(text);
    }
    let clean = unhurried(&stage, "clean").await;
    converse(&clean, async |_| {}).await;
    let wanted = outcome(&stage, &clean).await;
    assert!(
        wanted["counters"]["flushes"].as_u64().is_some_and(|n| n > 4),
        "{:#}",
        wanted["counters"]
    );

    let classes = [
        (2, "cut-after", Fault::CutAfter),
        (0, "delay", Fault::Delay),
        (1, "cut-before", Fault::CutBefore),
        (3, "cut-inside", Fault::CutInside),
        (4, "garbage", Fault::Garbage),
        (6, "conflict", Fault::Conflict),
        (5, "busy", Fault::Busy),
    ];
    for &(seed, name, fault) in share(&classes) {
        let agent = unhurried(&stage, name).await;
        stage.writes.by_chance(&[fault], 5, 40, seed);
        // Reads have no write conflicts, so the test delays them instead.
        let on_reads = if fault == Fault::Conflict { Fault::Delay } else { fault };
        stage.reads.by_chance(&[on_reads], 5, 20, seed + 100);
        converse(&agent, async |_| {}).await;
        let (on_writes, on_reads) = (stage.writes.calm(), stage.reads.calm());
        assert_eq!(outcome(&stage, &agent).await, wanted, "after {name}");
        stage.home.assert_verified("vctx.sock", name);
        println!("{name}: {on_writes:?} on writes, {on_reads:?} on reads");
        let injected: u64 = on_writes.values().chain(on_reads.values()).sum();
        assert!(injected > 8, "only {injected} faults");
    }

    refused(&stage, &wanted).await;
    all_at_once(&stage, &wanted).await;
}

/// Holds a conversation. Several times during the conversation, the sockets refuse connections for
/// a short time.
async fn refused(stage: &Stage, wanted: &Value) {
    let agent = unhurried(stage, "refuse").await;
    converse(&agent, async |turn| {
        if turn % 12 == 6 {
            stage.writes.refuse();
            stage.reads.refuse();
            let (writes, reads) = (&stage.writes, &stage.reads);
            // The call of this turn begins while the sockets refuse connections.
            let back = async {
                tokio::time::sleep(REFUSAL).await;
                writes.listen();
                reads.listen();
            };
            let plan = json!({"block_id": "plan"});
            let other = agent.again();
            let asked = json!({"query": word(0), "rehydrate": false});
            let search = async {
                if turn > 12 { Some(insist(&other, "search_recall", &asked).await) } else { None }
            };
            let ((), found, searched) =
                tokio::join!(back, insist(&agent, "fetch_core", &plan), search);
            assert_eq!(found["result"]["block_id"], "plan");
            // The search began while the engine was unreachable. Nevertheless, the server did not
            // report the agent as missing, and the search returned its results.
            if let Some(searched) = searched {
                let results = searched["result"]["results"].as_array().expect("results");
                let said = |r: &&Value| r["content"].as_str().is_some_and(|t| t.contains(&word(0)));
                assert_eq!(results.iter().filter(said).count(), 1, "{searched}");
            }
        }
    })
    .await;
    assert_eq!(outcome(stage, &agent).await, *wanted, "after refusals");
    stage.home.assert_verified("vctx.sock", "refuse");
}

async fn all_at_once(stage: &Stage, wanted: &Value) {
    let agent = unhurried(stage, "storm").await;
    let faults = [
        Fault::Conflict,
        Fault::Busy,
        Fault::Delay,
        Fault::CutBefore,
        Fault::CutAfter,
        Fault::CutInside,
        Fault::Garbage,
    ];
    stage.writes.by_chance(&faults, 3, 80, 42);
    stage.reads.by_chance(&faults[1..], 4, 30, 43);
    converse(&agent, async |_| {}).await;
    let injected: BTreeMap<String, u64> = stage.writes.calm();
    stage.reads.calm();
    assert_eq!(outcome(stage, &agent).await, *wanted, "after all faults at once");
    stage.home.assert_verified("vctx.sock", "storm");
    println!("storm: {injected:?} on writes");
    assert!(injected.len() >= 4, "{injected:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_to_a_commit_is_neither_lost_nor_doubled() {
    let stage = Stage::new(&Tuning::default()).await;
    let ada = stage.agent("ada", 1024).await;
    for fault in [Fault::CutAfter, Fault::CutInside, Fault::Garbage, Fault::CutBefore] {
        for turn in 0..12 {
            ada.append("user", format!("{turn}: {}", count::words(20))).await;
        }
        let before = ada.state().await["version"].as_u64().expect("a version");
        let transaction = &stage.home.database().line("PUT", "/_api/transaction/");
        stage.writes.next(transaction, fault);
        insist(&ada, "evict_fifo", &json!({"target_tokens": 100})).await;
        assert_eq!(stage.writes.calm().len(), 1, "the commit met the fault");
        assert_eq!(ada.state().await["version"], before + 1, "{fault:?}: once");
        stage.home.assert_verified("vctx.sock", "ada");
        // After the call, no transaction may be open. The only exception is the fault that loses
        // the commit before the engine receives it.
        let open = stage.home.database().open_transactions().await;
        assert!(fault == Fault::CutBefore || open.is_empty(), "{fault:?}: {open:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_black_hole_is_left_after_a_while_and_the_call_is_done_once() {
    let stage = Stage::new(&Tuning::default()).await;
    let (ada, eve) = (stage.agent("ada", 1024).await, stage.agent("eve", 1024).await);
    for agent in [&ada, &eve] {
        for turn in 0..12 {
            agent.append("user", format!("{turn}: {}", count::words(20))).await;
        }
    }
    // The test injects two faults at the same time: one into a write that is a single request, and
    // one into a commit.
    let cursor = stage.home.database().line("POST", "/_api/cursor");
    stage.writes.next(&cursor, Fault::BlackHole);
    let append = json!({"message": "into the dark", "role": "user"});
    let dark = insist(&ada, "append_fifo", &append);
    let evict = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        stage.writes.next("PUT /_db/vctx/_api/transaction/", Fault::BlackHole);
        insist(&eve, "evict_fifo", &json!({"target_tokens": 100})).await
    };
    let (appended, evicted) = tokio::join!(dark, evict);
    assert_eq!(appended["receipt"]["seq"], 13);
    assert!(evicted["result"]["evicted_count"].as_u64().is_some_and(|n| n > 5), "{evicted}");
    assert_eq!(ada.messages().await.len(), 13);
    for agent in [&ada, &eve] {
        stage.home.assert_verified("vctx.sock", &agent.name);
        agent.append("user", "and on").await;
    }
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_cannot_look_says_so_and_denies_nothing() {
    let stage = Stage::new(&Tuning::default()).await;
    for text in ["call failed", "read failed", "a job failed"] {
        stage.server.expect(text);
    }
    let ada = stage.agent("ada", 4096).await;
    ada.done("write_recall", &json!({"entries": [{"content": "An anchor of bronze"}]})).await;
    ada.done("ingest_archival", &circle("d", 0, 5, "cosine")).await;
    let recall = json!({"query": "anchor", "limit": 1});
    let archive = json!({"query_vector": [1.0, 0.0], "limit": 2});
    let view = "/_api/view/recall_view";
    let database = stage.home.database();

    // The read-only socket answers garbage, like a process that is no database.
    stage.reads.by_chance(&[Fault::Garbage], 1, 1_000, 1);
    let other = ada.again();
    let (keys, both) = ([key(), key()], ["search_recall", "search_archival"]);
    let answers = tokio::join!(
        ada.tool(both[0], &recall, &keys[0], "*"),
        other.tool(both[1], &archive, &keys[1], "*")
    );
    for (tool, answer) in both.into_iter().zip([answers.0, answers.1]) {
        assert!(answer.status >= 500, "{tool}: {}", answer.text);
        assert!(answer.body.get("result").is_none(), "{tool}: {}", answer.text);
    }
    stage.reads.calm();

    // The test drops the view; the entry is so recent that a search finds it without the view.
    let made = database.call("GET", &format!("{view}/properties"), &Value::Null).await.ok();
    assert_eq!(made["type"], "arangosearch");
    database.call("DELETE", view, &Value::Null).await.ok();
    let answer = ada.tool("search_recall", &recall, "without", "*").await;
    assert!(answer.status >= 500 && answer.body.get("result").is_none(), "{}", answer.text);
    let definition: Value =
        serde_json::from_str(include_str!("../../arango-setup/view.json")).expect("JSON");
    database.call("POST", "/_api/view", &definition[0]).await.ok();

    // The test repeats the failed call with the same key, and the server executes it now.
    let found = ada.tool("search_recall", &recall, "without", "*").await.ok();
    assert_eq!((&found["replayed"], &found["result"]["total"]), (&json!(false), &json!(1)));
    let found =
        insist(&ada, "search_archival", &json!({"query_vector": [1.0, 0.0], "heartbeat": true}))
            .await;
    assert_eq!(found["result"]["k_actual"], 5);
    assert_view(&database, "ada", &["anchor"]).await;
}
