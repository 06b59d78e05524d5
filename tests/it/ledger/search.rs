//! Tests that a server signs what it knows while it still looks for unsigned entries, and that it
//! finishes this search for the entries of an earlier program version.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vctx::ledger::note::{Head, SignedHead};
use vctx_server::checkpoints::Checkpoints;

use super::{signed, verified};
use crate::home::{Home, Process, Tuning};
use crate::proxy::Proxy;
use crate::talk::{Agent, key};

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
    let public = ada.wire.get("/v1/ledgers").await.ok()["key"].clone();
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
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be brief.").await;
    signed(&bob).await;
    let export = ada.wire.get(&format!("{}/export", ada.path())).await.text;
    let (agrees, told) = verified(&home, &export, public.as_str().expect("a key"));
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

/// Gives the entries of an agent the form that an earlier program version wrote.
async fn without_codes(home: &Home, agent: &str) {
    let query = "FOR e IN memory_events FILTER e.agent_id == @agent AND e.n != null
        UPDATE e WITH { code: null } IN memory_events OPTIONS { keepNull: false } RETURN e.code";
    let rows = home.database().rows(query, json!({"agent": agent})).await;
    assert!(rows.iter().any(|code| !code.is_null()), "no entry had a code");
}

/// Waits until a file is there.
async fn made(path: &Path) {
    for _ in 0..LOOKS_MAX {
        if path.exists() {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("{} is missing", path.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_whose_first_start_was_killed_is_finished_by_the_next_start() {
    let home = Home::new();
    let _engine = home.engine().await;
    let (tuning, rw, ro) = (Tuning::default(), "engine.sock", "engine-ro.sock");
    let serve = async || home.server("vctx.sock", rw, ro, &tuning).await;
    let ada = Agent::at(home.wire("vctx.sock"), "ada");
    let path = directory(&home).join("checkpoints");
    let searched = directory(&home).join("searched.home");
    let server = serve().await;
    Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    assert!(searched.exists(), "a new server has nothing to look at");
    signed(&ada).await;
    // The last entry is not signed, and an earlier program version wrote all of them.
    let unsigned = async |server: Process| {
        let kept = fs::read(&path).expect("checkpoints");
        ada.append("user", "The last word.").await;
        assert!(server.stop().await.success());
        fs::write(&path, kept).expect("checkpoints");
        without_codes(&home, "ada").await;
    };
    unsigned(server).await;
    let secret = home.path("server/ledger/secret");
    [&secret, &searched].into_iter().for_each(|path| fs::remove_file(path).expect("a removal"));

    // At the first start of this program version, the database is away.
    let first = home.server_begun("vctx.sock", "away.sock", "away-ro.sock", &tuning);
    first.expect("not ready");
    made(&secret).await;
    drop(first);
    assert!(!searched.exists());
    let server = serve().await;
    server.expect("not ready");
    ada.append("user", "Still here.").await;
    signed(&ada).await;
    home.assert_verified("vctx.sock", "ada");
    made(&searched).await;

    // After this, entries without a code are neither signed nor used.
    unsigned(server).await;
    let server = serve().await;
    server.expect("not ready");
    server.expect("the ledger does not continue the last signed entry");
    server.expect("the core contradicts the ledger");
    let message = json!({"message": "Hello.", "role": "user"});
    let answer = ada.tool("append_fifo", &message, &key(), "*").await;
    let told = (answer.status, &answer.body["error"]);
    assert_eq!(told, (409, &json!("LEDGER_CONTRADICTED")), "{}", answer.text);
}
