//! Tests group writes: changes of several agents that share a request are each written once or not
//! at all, through any fault, and a change that is refused harms no other.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::faults::insist;
use crate::home::Tuning;
use crate::one_transaction::Stage;
use crate::proxy::{Exchange, Fault};
use crate::talk::Agent;

/// Number of agents that append at the same time.
const AGENTS: usize = 24;
/// Number of messages of each agent.
const MESSAGES: usize = 8;

/// Returns the numbers of changes in the recorded requests for several changes.
fn sizes(record: &[Exchange]) -> Vec<usize> {
    let changes = |one: &Exchange| one.request["bindVars"]["changes"].as_array().map(Vec::len);
    record.iter().filter_map(changes).collect()
}

/// Lets each agent append its messages one after another, all agents at the same time.
async fn all_append(agents: &[Agent], messages: usize) {
    let mut calls = JoinSet::new();
    for agent in agents {
        let agent = agent.again();
        calls.spawn(async move {
            for number in 0..messages {
                let said = json!({"message": format!("{} {number}", agent.name), "role": "user"});
                insist(&agent, "append_fifo", &said).await;
            }
        });
    }
    calls.join_all().await;
}

/// Checks that an agent has each of its messages once and in order, and that its ledger agrees.
async fn assert_whole(stage: &Stage, agent: &Agent, messages: usize) {
    let texts: Vec<Value> =
        agent.messages().await.iter().map(|message| message["content"].clone()).collect();
    let wanted: Vec<Value> =
        (0..messages).map(|number| format!("{} {number}", agent.name).into()).collect();
    assert_eq!(texts, wanted, "{}", agent.name);
    stage.home.assert_verified("vctx.sock", &agent.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_many_agents_share_requests_and_each_is_written_once() {
    let stage = Stage::new(&Tuning::default()).await;
    for text in ["call failed", "read failed", "a job failed"] {
        stage.server.expect(text);
    }
    let mut agents = Vec::new();
    for number in 0..AGENTS {
        agents.push(stage.agent(&format!("agent-{number}"), 8192).await);
    }
    let faults = [
        Fault::Delay,
        Fault::CutAfter,
        Fault::CutBefore,
        Fault::CutInside,
        Fault::Garbage,
        Fault::Conflict,
        Fault::Busy,
    ];
    stage.writes.clear();
    stage.writes.by_chance(&faults, 6, 60, 7);
    all_append(&agents, MESSAGES).await;
    let injected = stage.writes.calm();
    let sizes = sizes(&stage.writes.take());
    for agent in &agents {
        assert_whole(&stage, agent, MESSAGES).await;
    }
    println!("{injected:?}, changes in shared requests: {sizes:?}");
    assert!(injected.len() >= 4, "{injected:?}");
    assert!(sizes.iter().any(|size| *size > 4), "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_refused_harms_no_other_in_its_request() {
    let stage = Stage::new(&Tuning::default()).await;
    let tuning = Tuning::default();
    let _other = stage.home.server("b.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let mut agents = Vec::new();
    for number in 0..AGENTS {
        agents.push(stage.agent(&format!("agent-{number}"), 8192).await);
    }
    all_append(&agents, 1).await;
    // The second server writes to one agent, whose core in the first server's cache is then old.
    let eve = Agent::at(stage.home.wire("b.sock"), "agent-5");
    eve.append("user", "agent-5 1").await;

    stage.writes.clear();
    stage.writes.by_chance(&[Fault::Delay], 1, 4, 1);
    let mut calls = JoinSet::new();
    for agent in &agents {
        let agent = agent.again();
        let number = if agent.name == eve.name { 2 } else { 1 };
        calls.spawn(async move {
            agent.append("user", format!("{} {number}", agent.name)).await;
        });
    }
    calls.join_all().await;
    stage.writes.calm();
    let record = stage.writes.take();
    let refused =
        record.iter().filter(|one| one.status == Some(409) && !sizes(&[(*one).clone()]).is_empty());
    assert!(refused.count() > 0, "{:?}", sizes(&record));
    for agent in &agents {
        assert_whole(&stage, agent, if agent.name == eve.name { 3 } else { 2 }).await;
    }
}
