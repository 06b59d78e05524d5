//! Sends every request of a sequence twice, to two servers in any order. The sequence contains all
//! kinds of calls. The final state equals the state after the sequence is sent only once.

use std::time::Duration;

use serde_json::{Map, Value, json};
use vctx::memory::receipt;

use crate::chance::{Chance, rounds, setting};
use crate::database::Database;
use crate::home::{Home, Process, Tuning};
use crate::talk::Agent;
use crate::truths::{assert_archive, assert_chains, assert_log};
use crate::wire::Answer;

/// Number of calls in the sequence; `DOUBLED_CALLS` overrides it.
const CALLS: u64 = 600;
/// Maximum number of times that a call is sent with its key before the test fails.
const SENDS_MAX: usize = 200;
/// Window of the agents in tokens, small enough that the sequence of calls evicts repeatedly.
const WINDOW: u64 = 2_048;
/// Fields that differ between two agents with equal histories: row ids, times, random values, and
/// callers.
const OWN: [&str; 20] = [
    "_id",
    "_key",
    "_rev",
    "_from",
    "_to",
    "id",
    "agent_id",
    "created_at",
    "updated_at",
    "at",
    "ts",
    "salt",
    "digest",
    "chain",
    "key_hash",
    "actor",
    "duration_ms",
    "evicted_batch_id",
    "batch_id",
    "kept",
];

/// One request; `path` is the part after the agent's path.
struct Sent {
    method: &'static str,
    path: String,
    body: Value,
    key: String,
}

/// Generates the call with the given number. A searched word occurs only once in the whole
/// sequence, so that there is only one right answer, regardless of the view's lag.
fn call(chance: &mut Chance, number: u64) -> Sent {
    let mark = |n: u64| format!("mark{n:06}");
    let filler = "the harbour was quiet and the ferry came late that evening "
        .repeat(1 + chance.below(4) as usize);
    let text = format!("{} {filler}", mark(number));
    let earlier = mark(chance.below(number.max(1)));
    let block = *chance.one_of(&["human", "plans", "notes"]);
    let document = format!("doc-{}", chance.below(6));
    let role = *chance.one_of(&["user", "assistant"]);
    let tool = |name: &str, body: Value| ("POST", format!("/tools/{name}"), body);
    let (method, path, body) = match chance.below(20) {
        0..7 => tool("append_fifo", json!({"message": text, "role": role})),
        7 | 8 => tool(
            "store_core",
            json!({"block_id": block, "content": format!("{} {block}", mark(number))}),
        ),
        9 => tool(
            "store_core",
            json!({"block_id": block, "content": format!(" {}", mark(number)),
            "policy": {"mode": "append"}}),
        ),
        10 | 11 => tool("search_recall", json!({"query": earlier, "limit": 1, "memories": 1})),
        12 => tool("search_recall", json!({"query": earlier, "limit": 1, "heartbeat": true})),
        13 => tool(
            "write_recall",
            json!({"entries": [{"content": text}, {"content": format!("also {text}")}]}),
        ),
        14 => tool(
            "ingest_archival",
            json!({"doc_id": document, "document": text, "splitter": {"tokens_max": 16}}),
        ),
        15 => tool("ingest_archival", json!({"doc_id": document, "delete": true})),
        16 => tool("record_heartbeat", json!({"state": chance.one_of(&["continue", "yield"])})),
        17 => {
            ("POST", "/events".into(), json!({"class": "system", "name": "alert", "content": text}))
        }
        18 => tool("evict_fifo", json!({"target_tokens": 600 + chance.below(400)})),
        _ => ("PATCH", String::new(), json!({"system": format!("Be brief. {}", mark(number))})),
    };
    Sent { method, path, body, key: format!("call-{number}") }
}

/// Repeats the call as long as the answer is an error that advises the caller to try again.
async fn settled(agent: &Agent, sent: &Sent) -> Answer {
    let (path, headers) =
        (agent.path() + &sent.path, [("idempotency-key", sent.key.as_str()), ("if-match", "*")]);
    for _ in 0..SENDS_MAX {
        let answer = agent.wire.call(sent.method, &path, &headers, sent.body.to_string()).await;
        let again =
            ["CONFLICT", "HEARTBEAT_RATE_LIMITED", "HEARTBEAT_COOLDOWN"].contains(&answer.code());
        if !again {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} {} does not get through", sent.method, sent.path)
}

/// Returns an answer without the fields that may differ when the call is repeated: `replayed`, and
/// the heartbeat state, which contains ages.
fn told(answer: &Answer) -> Value {
    let mut body = answer.body.clone();
    if let Some(map) = body.as_object_mut() {
        map.remove("replayed");
        map.remove("heartbeat");
    }
    json!([answer.status, body])
}

/// Returns a value without the fields in `OWN` and without the agent's name.
fn bare(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(bare).collect(),
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
            Value::Object(
                kept.map(|(name, value)| (name.clone(), bare(value))).collect::<Map<_, _>>(),
            )
        }
        other => other.clone(),
    }
}

/// Returns all rows of an agent, in order, and their hash.
async fn state(database: &Database, agent: &str) -> (Value, String) {
    let query = r#"
        LET core = DOCUMENT("core_memory", @agent)
        RETURN {
            core: KEEP(core, "system", "working_blocks", "queue_head_summary", "queue", "notices", "counters", "archived", "version",
                "token_budget"),
            messages: (FOR m IN messages FILTER m.agent_id == @agent SORT m.seq
                RETURN MERGE(m, { copied: m.copy_of == null ? null : DOCUMENT("messages", m.copy_of).seq, copy_of: null,
                    meta: UNSET(m.meta, "recalled", "outside") })),
            logged: (FOR e IN recall_log FILTER e._from == CONCAT("core_memory/", @agent) SORT e.seq
                RETURN { seq: e.seq, summary_rev: e.summary_rev, payload: MERGE(e.payload, { meta: UNSET(e.payload.meta, "outside") }) }),
            texts: LENGTH(FOR v IN core_versions FILTER v.agent_id == @agent RETURN 1),
            documents: (FOR m IN archival_manifests FILTER m.agent_id == @agent SORT m.doc_id RETURN KEEP(m, "doc_id", "chunks")),
            chunks: (FOR d IN archival_docs FILTER d.agent_id == @agent SORT d.doc_id, d.index RETURN KEEP(d, "doc_id", "index", "text")),
            keys: LENGTH(FOR r IN idempotency FILTER r.agent_id == @agent RETURN 1),
            events: (FOR e IN memory_events FILTER e.agent_id == @agent COLLECT type = e.type WITH COUNT INTO times RETURN { type, times })
        }"#;
    let kept = bare(&database.row(query, json!({"agent": agent})).await);
    let hash = receipt::sha256(&receipt::canonical_json(&kept));
    (kept, hash)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_twice_is_every_request_once() {
    let calls = rounds("DOUBLED_CALLS", CALLS);
    let seed = setting("DOUBLED_SEED", 7);
    println!("DOUBLED_SEED={seed} DOUBLED_CALLS={calls}");
    let home = Home::new();
    let (_engine, servers) = two_servers(&home).await;
    let mut agents = Vec::new();
    for name in ["once", "twice"] {
        let agent = Agent::create(home.wire("a.sock"), name, WINDOW, "Be brief.").await;
        let limits = json!({"heartbeat": {"rps_limit": 64, "cooldown_ms": 0, "floor_tokens": 0, "max_chain_depth": 1024,
            "max_chain_duration_ms": 3_600_000}});
        let headers = [("idempotency-key", "limits"), ("if-match", "*")];
        agent.wire.call("PATCH", &agent.path(), &headers, limits.to_string()).await.ok();
        agents.push(agent);
    }
    let (once, twice) = (&agents[0], &agents[1]);
    let elsewhere = Agent::at(home.wire("b.sock"), "twice");
    let (mut chance, mut taken, mut refused) = (Chance::new(seed), 0_u64, 0_u64);
    for number in 0..calls {
        let sent = call(&mut chance, number);
        let alone = settled(once, &sent).await;
        // About half of the calls are sent to both servers at the same time, the others to one
        // server after the other.
        let (first, second) = match chance.below(2) {
            0 => tokio::join!(settled(twice, &sent), settled(&elsewhere, &sent)),
            _ => (settled(&elsewhere, &sent).await, settled(twice, &sent).await),
        };
        assert_eq!(
            told(&first),
            told(&second),
            "call {number}, {} {}: {}",
            sent.method,
            sent.path,
            sent.body
        );
        assert_eq!(
            first.status, alone.status,
            "call {number}, {}: {} {}",
            sent.path, alone.text, first.text
        );
        if first.status < 300 {
            let fresh =
                [&first, &second].iter().filter(|answer| answer.body["replayed"] == false).count();
            assert!(fresh <= 1, "call {number}, {}: both say that they did it", sent.path);
            taken += 1;
        } else {
            refused += 1;
        }
    }
    let database = home.database();
    let ((kept, hash), (doubled, doubled_hash)) =
        (state(&database, "once").await, state(&database, "twice").await);
    for part in ["core", "messages", "logged", "texts", "documents", "chunks", "keys", "events"] {
        assert_eq!(kept[part], doubled[part], "{part} differs");
    }
    assert_eq!(hash, doubled_hash);
    for agent in ["once", "twice"] {
        assert!(assert_log(&database, agent).await.evicted > 0, "nothing was evicted");
        assert!(assert_chains(&database, agent).await <= 1, "one chain may still run");
    }
    assert_archive(&database).await;
    assert!(taken > calls / 2, "{taken} of {calls} were taken, {refused} refused");
    println!("{taken} taken, {refused} refused, twice each: state {hash}");
    drop(servers);
}

async fn two_servers(home: &Home) -> (Process, [Process; 2]) {
    let engine = home.engine().await;
    let tuning = Tuning::default();
    let first = home.server("a.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let second = home.server("b.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    (engine, [first, second])
}
