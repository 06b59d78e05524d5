//! Tests that a server signs what it knows while it still looks for unsigned entries.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use vctx::ledger::note::{Head, SignedHead};
use vctx_server::checkpoints::Checkpoints;

use super::{signed, verified};
use crate::home::{Home, Tuning};
use crate::proxy::Proxy;
use crate::talk::Agent;

/// Number of agents that are signed and in no database.
const AGENTS: usize = 1_200;
/// Number of agents at which one request of the search looks.
const SEARCHED_AGENTS: usize = 500;
/// Maximum number of polls until a background job must have run.
const LOOKS_MAX: usize = 1_200;
/// Pause between two polls.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// Returns the directory of a server's checkpoints.
fn directory(home: &Home) -> PathBuf {
    home.path("server/ledger/vctx")
}

fn absent() -> Vec<String> {
    (0..AGENTS).map(|number| format!("gone{number:04}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_knows_is_signed_before_it_has_looked_at_all_agents() {
    let home = Home::new();
    let _engine = home.engine().await;
    let proxy = Proxy::start(&home.path("rw.sock"), &home.path("engine.sock"));
    let serve =
        async || home.server("vctx.sock", "rw.sock", "engine-ro.sock", &Tuning::default()).await;
    let server = serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    signed(&ada).await;
    // The last entry is not signed, and the checkpoints name many more agents.
    let path = directory(&home).join("checkpoints");
    let kept = fs::read(&path).expect("checkpoints");
    ada.append("user", "The last word.").await;
    assert!(server.stop().await.success());
    fs::write(&path, kept).expect("checkpoints");
    let all = Checkpoints::open(&directory(&home)).expect("checkpoints");
    let before = all.signed("ada").and_then(|signed| signed.head).expect("a head").n;
    let head = |agent| SignedHead { agent, head: Some(Head { n: 1, hash: "0".repeat(64) }) };
    let heads = absent().into_iter().map(head).collect();
    all.sign(heads, "2026-01-01T00:00:00.000Z").expect("a checkpoint");
    drop(all);

    // The search does not get on.
    proxy.spoil("gone0000");
    let server = serve().await;
    server.expect("a job failed twice");
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be brief.").await;
    signed(&bob).await;
    let key = ada.wire.get("/v1/ledgers").await.ok()["key"].clone();
    let export = ada.wire.get(&format!("{}/export", ada.path())).await.text;
    let (agrees, told) = verified(&home, &export, key.as_str().expect("a key"));
    assert_eq!(agrees, [true, true], "{told}");
    bob.append("user", "Good night.").await;
    let told = bob.wire.get(&format!("{}/ledger", bob.path())).await.ok();
    assert!(server.stop().await.success());
    let all = Checkpoints::open(&directory(&home)).expect("checkpoints");
    let head = |agent| all.signed(agent).and_then(|signed| signed.head).expect("a head");
    assert_eq!(told["entries"], head("bob").n, "a server that stops signs without a search");
    assert_eq!(head("ada").n, before + 1);
    drop(all);

    // Each request of the search looks at a part of the agents, and each agent is in one of them.
    proxy.calm();
    proxy.clear();
    let server = serve().await;
    let mut expected = vec!["ada".to_owned(), "bob".to_owned()];
    expected.extend(absent());
    let mut found: Vec<Vec<String>> = Vec::new();
    for _ in 0..LOOKS_MAX {
        let record = proxy.record();
        let agents = record.iter().map(|exchange| &exchange.request["bindVars"]["agents"]);
        let agents = agents.filter_map(|agents| serde_json::from_value(agents.clone()).ok());
        found = agents.collect();
        if found.concat().len() >= expected.len() {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(found.concat(), expected);
    assert!(found.iter().all(|agents| agents.len() <= SEARCHED_AGENTS));
    assert!(server.stop().await.success());
    let missing = |told: &Value| told["missing"].as_array().map(Vec::len);
    let server = serve().await;
    assert_eq!(missing(&ada.wire.get("/v1/ledgers").await.ok()), Some(AGENTS));
    drop(server);
}
