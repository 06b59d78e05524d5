//! Tests schedule ticks, runs and heartbeat chains on two servers with random kills: each tick
//! fires once, each run and chain happens once and ends, and no agent stays blocked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::chance::{Chance, rounds, setting};
use crate::home::{Home, Process};
use crate::scripted::Scripted;
use crate::talk::Agent;

/// Names of the servers' sockets.
const SOCKETS: [&str; 2] = ["a.sock", "b.sock"];
/// Names of the agents; each has its own schedule and a client that requests runs.
const AGENTS: [&str; 3] = ["ada", "bob", "eve"];
/// Maximum time until all work that was started has ended.
const QUIET_MAX: Duration = Duration::from_secs(120);
/// Pause between two polls or attempts.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum number of times that a run is requested with its key before the test fails.
const SENDS_MAX: usize = 2_000;

/// Requests a run with its key, at alternating servers, until a server answers.
async fn asked(agents: &[Agent; 2], number: u64) -> Value {
    let body = json!({"input": format!("go {number}")}).to_string();
    let key = format!("run-{number}");
    for attempt in 0..SENDS_MAX {
        let agent = &agents[attempt % 2];
        let path = format!("{}/runs", agent.path());
        let headers = [("idempotency-key", key.as_str())];
        match agent.wire.try_call("POST", &path, &headers, body.clone()).await {
            Ok(answer) if answer.status == 200 => return answer.body,
            // Either the server was killed, or it has not restarted yet, or the agent is busy with
            // another run.
            Ok(_) | Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
    panic!("run {number} of {} does not get through", agents[0].name)
}

/// Waits until the agent is idle; returns its state.
async fn quiet(agent: &Agent) -> Value {
    let until = Instant::now() + QUIET_MAX;
    loop {
        let schedule = agent.wire.get(&format!("{}/schedules/tide", agent.path())).await.ok();
        let state = agent.state().await;
        let rests = schedule["running"] == false
            && state["run"] == Value::Null
            && state["heartbeat"]["chain"] == Value::Null;
        if rests {
            return state;
        }
        assert!(Instant::now() < until, "{} is stuck: {schedule} {state:#}", agent.name);
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until a schedule has fired more than once.
async fn fired_twice(agent: &Agent, path: &str) {
    let begun = Instant::now();
    while agent.wire.get(path).await.ok()["fired"].as_u64().expect("a number") < 2 {
        assert!(begun.elapsed() < QUIET_MAX, "the schedule did not fire twice: {path}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Checks that each recorded call has one result; returns how many of the calls to the given tool
/// had an effect.
fn done(messages: &[Value], tool: &str) -> usize {
    let mut calls: BTreeMap<&str, (&str, usize, bool)> = BTreeMap::new();
    for message in messages {
        for call in message["meta"]["tool_calls"].as_array().into_iter().flatten() {
            let name = call["function"]["name"].as_str().expect("a name");
            let before = calls.insert(call["id"].as_str().expect("an id"), (name, 0, false));
            assert!(before.is_none(), "a call stands twice: {call}");
        }
        if let Some(id) = message["meta"]["tool_call_id"].as_str() {
            let (_, results, is_done) = calls.get_mut(id).expect("a result after its call");
            *results += 1;
            *is_done = message["content"] == "Done.";
        }
    }
    assert!(calls.values().all(|(_, results, _)| *results == 1), "{calls:?}");
    calls.values().filter(|(name, _, is_done)| *name == tool && *is_done).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn ticks_runs_and_chains_happen_once_whoever_is_killed() {
    let home = Home::new();
    let note = json!({"name": "store_core",
        "arguments": {"block_id": "log", "content": "x", "policy": {"mode": "append"}}});
    let beat = json!({"name": "record_heartbeat", "arguments": {"state": "continue"}});
    let steps = [
        json!({"when": "go ", "repeat": true, "calls": [note, beat]}),
        json!({"repeat": true, "text": "Done."}),
    ];
    let model = Scripted::steps(&home, &steps).await;
    let _engine = home.engine().await;
    let tuning = model.tuning(&["store_core", "record_heartbeat"]);
    let start = async |socket: &str| -> Process {
        let server = home.server(socket, "engine.sock", "engine-ro.sock", &tuning).await;
        // A server may log these warnings about a call that the killed server had begun.
        for text in ["a job failed", "the run of a tick failed"] {
            server.expect(text);
        }
        server
    };
    let mut servers = [start(SOCKETS[0]).await, start(SOCKETS[1]).await];
    let (kills, seed) = (rounds("STORM_KILLS", 6), setting("STORM_SEED", 17));
    println!("STORM_SEED={seed} STORM_KILLS={kills}");
    for name in AGENTS {
        let agent = Agent::create(home.wire(SOCKETS[0]), name, 65_536, "Be brief.").await;
        let limits = json!({"heartbeat": {"rps_limit": 64}}).to_string();
        let headers = [("idempotency-key", "limits"), ("if-match", "*")];
        agent.wire.call("PATCH", &agent.path(), &headers, limits).await.ok();
        let tide = json!({"every_ms": 1_000, "content": "go with the tide", "run": true});
        agent.wire.put(&format!("{}/schedules/tide", agent.path()), &tide).await;
    }
    let mut clients = JoinSet::new();
    for name in AGENTS {
        let agents = SOCKETS.map(|socket| Agent::at(home.wire(socket), name));
        clients.spawn(async move {
            let mut ends = Vec::new();
            for number in 0..kills {
                ends.push(asked(&agents, number).await);
            }
            (name, ends)
        });
    }
    let mut chance = Chance::new(seed);
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(300 + chance.below(1_500))).await;
        let victim = usize::from(chance.below(2) == 1);
        servers[victim].kill();
        tokio::time::sleep(Duration::from_millis(chance.below(800))).await;
        servers[victim] = start(SOCKETS[victim]).await;
    }
    for (name, ends) in clients.join_all().await {
        let reasons: Vec<&Value> = ends.iter().map(|end| &end["reason"]).collect();
        assert!(reasons.iter().all(|reason| **reason == "yield"), "{name}: {reasons:?}");
    }
    for (at, name) in AGENTS.into_iter().enumerate() {
        let agent = Agent::at(home.wire(SOCKETS[at % 2]), name);
        let path = format!("{}/schedules/tide", agent.path());
        fired_twice(&agent, &path).await;
        // The test gives the schedule such a long interval that it no longer fires. Then it waits
        // until the work that the schedule has started is finished.
        let never = json!({"every_ms": 3_600_000, "content": "go with the tide", "run": true});
        agent.wire.put(&path, &never).await;
        let state = quiet(&agent).await;
        let messages = agent.messages().await;
        for number in 0..kills {
            let said = messages.iter().filter(|m| m["content"] == format!("go {number}").as_str());
            assert_eq!(said.count(), 1, "{name}: what begins run {number}");
        }
        let log = state["blocks"].as_array().expect("blocks").iter().find(|b| b["id"] == "log");
        let notes = log.expect("a log")["content"].as_str().expect("a text").matches('x').count();
        assert_eq!(notes, done(&messages, "store_core"), "{name}: each note was made by one call");
        home.assert_verified(SOCKETS[at % 2], name);
    }
}
