//! Faults on the sockets between server and engine: whatever happens there, a conversation ends as it does without.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::count;
use crate::home::Tuning;
use crate::one_transaction::Stage;
use crate::proxy::Fault;
use crate::talk::{Agent, key, said};

/// Times one call is sent with its key before the test gives up.
const SENDS_MAX: usize = 40;
/// How long the sockets are gone in one spell.
const REFUSAL: Duration = Duration::from_millis(300);

/// Sends a call with one key until it is answered, as a caller is told to.
async fn insist(agent: &Agent, tool: &str, arguments: &Value) -> Value {
    let key = key();
    for _ in 0..SENDS_MAX {
        match agent.attempt(tool, arguments, &key, "*").await {
            Ok(answer) if answer.status == 200 => return answer.body,
            Ok(answer) => {
                assert_eq!(answer.status, 503, "not what a fault makes of a call: {}", answer.text)
            }
            Err(lost) => panic!("the server itself must answer: {}", lost.0),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{tool} was never answered")
}

/// A conversation that flushes a few times.
async fn converse(agent: &Agent, mut meanwhile: impl AsyncFnMut(usize)) {
    for turn in 0..36 {
        meanwhile(turn).await;
        let text = format!("Turn {turn}: {}", count::words(60));
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
        }
    }
}

/// What a conversation led to, without ids and times.
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
    let count =
        async |query: &str| stage.home.database().row(query, json!({"a": agent.name})).await;
    json!({
        "said": said(&messages), "placed": placed, "blocks": blocks, "tokens": state["tokens"],
        "summary": state["summary"]["content"], "counters": state["counters"], "version": state["version"],
        "head_seq": state["queue"]["head_seq"], "count": state["queue"]["count"],
        "audits": count("RETURN LENGTH(FOR e IN memory_events FILTER e.agent_id == @a AND e.type == 'audit' RETURN 1)").await,
        "records": count("RETURN LENGTH(FOR r IN idempotency FILTER r.agent_id == @a RETURN 1)").await,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_through_any_fault_ends_as_it_does_without() {
    let stage = Stage::new(&Tuning::default()).await;
    for text in ["call failed", "read failed", "a job failed"] {
        stage.server.expect(text);
    }
    let clean = stage.agent("clean", 1024).await;
    converse(&clean, async |_| {}).await;
    let wanted = outcome(&stage, &clean).await;
    assert!(
        wanted["counters"]["flushes"].as_u64().is_some_and(|n| n > 4),
        "{:#}",
        wanted["counters"]
    );

    let classes = [
        ("delay", Fault::Delay),
        ("cut-before", Fault::CutBefore),
        ("cut-after", Fault::CutAfter),
        ("cut-inside", Fault::CutInside),
        ("garbage", Fault::Garbage),
    ];
    for (seed, (name, fault)) in classes.into_iter().enumerate() {
        let agent = stage.agent(name, 1024).await;
        let seed = seed as u64;
        stage.writes.by_chance(&[fault], 5, 40, seed);
        stage.reads.by_chance(&[fault], 5, 20, seed + 100);
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

/// The sockets vanish for a while, several times.
async fn refused(stage: &Stage, wanted: &Value) {
    let agent = stage.agent("refuse", 1024).await;
    converse(&agent, async |turn| {
        if turn % 12 == 6 {
            stage.writes.refuse();
            stage.reads.refuse();
            let (writes, reads) = (&stage.writes, &stage.reads);
            // The call of this turn begins while nobody listens.
            let back = async {
                tokio::time::sleep(REFUSAL).await;
                writes.listen();
                reads.listen();
            };
            let plan = json!({"block_id": "plan"});
            let ((), found) = tokio::join!(back, insist(&agent, "fetch_core", &plan));
            assert_eq!(found["result"]["block_id"], "plan");
        }
    })
    .await;
    assert_eq!(outcome(stage, &agent).await, *wanted, "after refusals");
    stage.home.assert_verified("vctx.sock", "refuse");
}

async fn all_at_once(stage: &Stage, wanted: &Value) {
    let agent = stage.agent("storm", 1024).await;
    let faults =
        [Fault::Delay, Fault::CutBefore, Fault::CutAfter, Fault::CutInside, Fault::Garbage];
    stage.writes.by_chance(&faults, 3, 60, 42);
    stage.reads.by_chance(&faults, 4, 30, 43);
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
        let transaction = "PUT /_db/vctx/_api/transaction/";
        stage.writes.next(transaction, fault);
        insist(&ada, "evict_fifo", &json!({"target_tokens": 100})).await;
        assert_eq!(stage.writes.calm().len(), 1, "the commit met the fault");
        assert_eq!(ada.state().await["version"], before + 1, "{fault:?}: once");
        stage.home.assert_verified("vctx.sock", "ada");
        // Nothing stays open behind it.
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
    // One for a write in one request, one for a commit, both at the same time.
    stage.writes.next("POST /_db/vctx/_api/cursor", Fault::BlackHole);
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
