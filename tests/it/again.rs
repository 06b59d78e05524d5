//! Tests names that mean another agent than before: those of deleted agents, and those that an
//! agent is given. No call, key or revision of one agent reaches another.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chance::{Chance, rounds, setting};
use crate::home::{Home, Tuning};
use crate::killer::{Stage, Victim, somebody_dies};
use crate::outside::needs_an_engine_of_its_own;
use crate::proxy::Phase;
use crate::talk::{Agent, key, said};
use crate::wire::{Answer, Wire};

const SECRET: &str = "The berth of the Zephyrine costs fourteen a night.";
/// Maximum number of attempts of a call that another server's change makes outdated once.
const REPEATS: usize = 5;
/// Maximum time of a call whose server or database is killed.
const CALL_MAX: Duration = Duration::from_secs(120);

fn body(incarnation: Option<u64>) -> Value {
    let mut body = json!({"context_window": 8192, "system": "Be brief."});
    if let Some(incarnation) = incarnation {
        body["incarnation"] = incarnation.into();
    }
    body
}

pub(crate) async fn delete(agent: &Agent, key: &str, revision: &str) -> Answer {
    let headers = [("idempotency-key", key), ("if-match", revision)];
    agent.wire.call("DELETE", &agent.path(), &headers, String::new()).await
}

/// Repeats a call as a client does while the answer is 503, and returns the last answer.
pub(crate) async fn repeated(call: impl AsyncFn() -> Answer) -> Answer {
    for _ in 0..REPEATS {
        let answer = call().await;
        if answer.status != 503 {
            return answer;
        }
        assert_eq!(answer.code(), "NOT_READY", "{}", answer.text);
    }
    panic!("the call is outdated each time")
}

/// Makes an agent with a secret in each kind of memory, and returns the agent's revision.
pub(crate) async fn with_secret(wire: Wire, name: &str) -> (Agent, String) {
    let agent = Agent::create(wire, name, 8192, "Be brief.").await;
    agent.append("user", SECRET).await;
    agent.done("evict_fifo", &json!({"target_tokens": 0})).await;
    agent.done("store_core", &json!({"block_id": "plan", "content": SECRET})).await;
    agent.done("ingest_archival", &json!({"doc_id": "letter", "chunks": [SECRET]})).await;
    let schedule = json!({"at": "2999-01-01", "content": SECRET});
    agent.wire.put(&format!("{}/schedules/bell", agent.path()), &schedule).await.ok();
    let told = agent.append("user", "What is left?").await;
    (agent, told["_rev"].as_str().expect("a revision").to_owned())
}

/// Checks that no answer about the agent has the secret.
async fn assert_without_secret(agent: &Agent) {
    for path in ["", "/messages", "/context", "/history", "/schedules", "/events", "/export"] {
        let answer = agent.wire.get(&format!("{}{path}", agent.path())).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert!(!answer.text.contains("Zephyrine"), "{path}: {}", answer.text);
    }
    for (tool, name) in [("search_recall", "query"), ("search_archival", "query_text")] {
        let found = agent.done(tool, &json!({name: "berth of the Zephyrine"})).await;
        assert_eq!(found["result"]["results"], json!([]), "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_name_gets_a_new_agent_only_by_its_number() {
    let home = Home::new();
    let _server = home.serve().await;
    let wire = || home.wire("vctx.sock");
    let (ada, revision) = with_secret(wire(), "ada").await;
    assert_eq!(ada.state().await["incarnation"], Value::Null);
    for (incarnation, field) in [(0, "incarnation"), (3, "incarnation"), (1_000, "incarnation")] {
        let refused = wire().put("/v1/agents/ada", &body(Some(incarnation))).await;
        assert_eq!(refused.refused(400, "INVALID_ARGUMENT")["field"], field, "{incarnation}");
    }
    let early = wire().put("/v1/agents/ada", &body(Some(2))).await;
    let early = early.refused(400, "INVALID_ARGUMENT");
    assert!(early["detail"].as_str().is_some_and(|text| text.contains("delete it first")));

    delete(&ada, &key(), "_nothing---").await.refused(412, "REVISION_STALE");
    let gone = delete(&ada, "the-end", &revision).await.ok();
    assert_eq!((&gone["state"], &gone["what"]), (&json!("done"), &json!("agent")), "{gone:#}");
    assert_eq!(delete(&ada, "the-end", &revision).await.ok()["replayed"], true);
    wire().get("/v1/agents/ada").await.refused(404, "AGENT_NOT_FOUND");
    for incarnation in [None, Some(1)] {
        let refused = wire().put("/v1/agents/ada", &body(incarnation)).await;
        assert_eq!(refused.refused(410, "AGENT_FORGOTTEN")["incarnation"], 2, "{incarnation:?}");
    }
    wire().put("/v1/agents/ada@2", &body(None)).await.refused(400, "INVALID_NAME");

    assert_eq!(wire().put("/v1/agents/ada", &body(Some(2))).await.status, 201);
    for incarnation in [Some(2), None] {
        assert_eq!(wire().put("/v1/agents/ada", &body(incarnation)).await.status, 200);
    }
    let state = ada.state().await;
    assert_eq!((&state["agent"], &state["incarnation"]), (&json!("ada"), &json!(2)));
    assert_eq!((&state["agent_id"], &state["queue"]["next_seq"]), (&json!("ada@2"), &json!(1)));
    assert_without_secret(&ada).await;
    wire().put("/v1/agents/ada", &body(Some(1))).await.refused(410, "AGENT_FORGOTTEN");

    // A client of the first agent that has slept: its revision is unknown, its key has no answer,
    // and its call that deleted the first agent does not delete the second.
    let late = json!({"block_id": "plan", "content": "Late."});
    ada.tool("store_core", &late, &key(), &revision).await.refused(412, "REVISION_STALE");
    delete(&ada, "the-end", "*").await.refused(410, "AGENT_FORGOTTEN");
    delete(&ada, "the-end", &revision).await.refused(410, "AGENT_FORGOTTEN");
    ada.append("user", "Good morning.").await;
    assert_eq!(said(&ada.messages().await), [("user".into(), "Good morning.".into())]);

    // The name means the second agent; the tombstone of the first one has an address.
    let manifests = |path: &'static str| async move {
        let told = home_get(path, wire()).await;
        told["forgettings"].as_array().map(Vec::len)
    };
    assert_eq!(manifests("/v1/agents/ada/forget").await, Some(0));
    assert_eq!(manifests("/v1/agents/ada@1/forget").await, Some(1));
    wire().get("/v1/agents/ada@1").await.refused(404, "AGENT_NOT_FOUND");
    let exact = wire().get("/v1/agents/ada@2/messages").await.ok();
    assert_eq!(exact["messages"].as_array().map(Vec::len), Some(1));
    let listed = wire().get("/v1/agents").await.ok();
    assert_eq!(
        (&listed["agents"][0]["agent"], &listed["agents"][0]["key"]),
        (&json!("ada"), &json!("ada@2"))
    );
    home.assert_verified("vctx.sock", "ada");
    home.assert_verified("vctx.sock", "ada@2");
    let ledgers = wire().get("/v1/ledgers").await.ok();
    for found in ["missing", "tombstones", "strays"] {
        assert_eq!(ledgers[found], json!([]), "{ledgers:#}");
    }

    delete(&ada, "the-second-end", "*").await.ok();
    let refused = wire().put("/v1/agents/ada", &body(None)).await;
    assert_eq!(refused.refused(410, "AGENT_FORGOTTEN")["incarnation"], 3);
    assert_eq!(wire().put("/v1/agents/ada", &body(Some(3))).await.status, 201);
    for old in ["the-end", "the-second-end"] {
        delete(&ada, old, "*").await.refused(410, "AGENT_FORGOTTEN");
    }
    home.assert_verified("vctx.sock", "ada");
}

async fn home_get(path: &str, wire: Wire) -> Value {
    wire.get(path).await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_names_no_agent_is_refused() {
    let home = Home::new();
    let _server = home.serve().await;
    let wire = home.wire("vctx.sock");
    Agent::create(wire.again(), "ada", 8192, "Be brief.").await;
    for address in ["ada@0", "ada@02", "ada@1000", "ada@x", "ada@", "@1", "ada@1@1", "ada@-1"] {
        let path = format!("/v1/agents/{address}");
        wire.get(&path).await.refused(400, "INVALID_NAME");
        wire.put(&path, &body(None)).await.refused(400, "INVALID_NAME");
    }
    wire.get("/v1/agents/ada@2").await.refused(404, "AGENT_NOT_FOUND");
    wire.get("/v1/agents/ada@1").await.ok();
    let wrong = json!({"context_window": 8192, "incarnation": "2"});
    wire.put("/v1/agents/bea", &wrong).await.refused(400, "INVALID_ARGUMENT");
    wire.put("/v1/agents/bea", &body(Some(2))).await.refused(400, "INVALID_ARGUMENT");
    wire.get("/v1/agents/bea").await.refused(404, "AGENT_NOT_FOUND");
    assert_eq!(wire.put("/v1/agents/bea", &body(Some(1))).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_finds_the_new_agent_and_never_the_old_one() {
    let home = Home::new();
    let _engine = home.engine().await;
    let none = Tuning::default();
    let _one = home.server("one.sock", "engine.sock", "engine-ro.sock", &none).await;
    let _two = home.server("two.sock", "engine.sock", "engine-ro.sock", &none).await;
    let acme = Tuning::variable("VCTX_SERVER__TENANT", "acme");
    let _acme = home.server("acme.sock", "engine.sock", "engine-ro.sock", &acme).await;
    let (here, _) = with_secret(home.wire("one.sock"), "ada").await;
    let there = Agent::at(home.wire("two.sock"), "ada");
    let other = Agent::create(home.wire("acme.sock"), "ada", 8192, "Be brief.").await;
    other.append("user", "Of another tenant.").await;
    there.append("user", "Said on the other server.").await;
    for number in 2..5 {
        delete(&here, &format!("end-{number}"), "*").await.ok();
        assert_eq!(here.wire.put(&here.path(), &body(Some(number))).await.status, 201);
        match number {
            2 => {
                let path = format!("{}/forget", there.path());
                let told = repeated(async || there.wire.get(&path).await).await.ok();
                assert_eq!(told["forgettings"], json!([]), "the new agent has forgotten nothing");
            }
            3 => {
                let told =
                    repeated(async || there.wire.put("/v1/agents/ada", &body(Some(3))).await).await;
                assert_eq!(told.status, 200, "{}", told.text);
            }
            _ => {}
        }
        let said_there = json!({"message": format!("Said to {number}."), "role": "user"});
        let append = async || there.tool("append_fifo", &said_there, "the-same", "*").await;
        repeated(append).await.ok();
        let texts = said(&here.messages().await);
        assert_eq!(texts, [("user".into(), format!("Said to {number}."))], "on agent {number}");
        let again = repeated(async || delete(&there, &format!("end-{number}"), "*").await).await;
        again.refused(410, "AGENT_FORGOTTEN");
        home.assert_verified("two.sock", "ada");
    }
    // The agent of the other tenant has the same name, and nothing happened to it.
    assert_eq!(other.state().await["incarnation"], Value::Null);
    assert_eq!(said(&other.messages().await), [("user".into(), "Of another tenant.".into())]);
    home.wire("acme.sock").get("/v1/agents/ada@4").await.refused(404, "AGENT_NOT_FOUND");
    // A server that starts later knows the name.
    let _three = home.server("three.sock", "engine.sock", "engine-ro.sock", &none).await;
    let later = Agent::at(home.wire("three.sock"), "ada");
    assert_eq!(later.state().await["incarnation"], 4);
}

/// Arms a kill at a byte of a phase that the same calls had in an earlier round.
pub(crate) fn arm(stage: &Stage, chance: &mut Chance, bytes: &BTreeMap<Phase, u64>) {
    let victim = *chance.one_of(&[Victim::Server, Victim::Engine, Victim::Both]);
    let phases: Vec<(Phase, u64)> =
        bytes.iter().filter(|(_, most)| **most > 0).map(|(phase, most)| (*phase, *most)).collect();
    let (phase, most) = *chance.one_of(&phases);
    stage.arm(victim, phase, chance.below(most), Duration::from_micros(chance.below(3_000)));
}

/// Removes a kill that did not happen, and restarts the processes after one that did.
pub(crate) async fn settle(stage: &mut Stage, hits: &mut u64) {
    stage.writes.disarm();
    if stage.hit.lock().expect("a phase").take().is_some() {
        *hits += 1;
        stage.revive(true).await;
    }
}

/// Repeats a request until it is answered; restarts dead processes meanwhile.
pub(crate) async fn survived(
    stage: &mut Stage,
    (method, path, key): (&str, &str, &str),
    body: &str,
    hits: &mut u64,
) -> Answer {
    let stream = hits.is_multiple_of(2);
    let until = Instant::now() + CALL_MAX;
    loop {
        assert!(Instant::now() < until, "{method} is not answered within {CALL_MAX:?}");
        let wire = stage.home.wire("vctx.sock");
        let headers = [("idempotency-key", key), ("if-match", "*")];
        let headers = if method == "PUT" { &[] } else { &headers[..] };
        let attempt = wire.try_call(method, path, headers, body.to_owned());
        let answer = tokio::select! {
            answer = attempt => answer.ok(),
            () = somebody_dies(stage) => None,
        };
        match answer {
            // The name of a clone stays reserved until the lease of its dead server ends.
            Some(answer) if answer.status < 500 && answer.code() != "CONFLICT" => return answer,
            _ if stage.hit.lock().expect("a phase").take().is_some() => *hits += 1,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
        stage.revive(stream).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_leaves_the_old_agent_the_tombstone_or_the_new_agent() {
    if needs_an_engine_of_its_own("it kills the database") {
        return;
    }
    let mut chance = Chance::new(setting("VCTX_AGAIN_SEED", 21));
    let mut stage = Stage::new().await;
    Agent::create(stage.home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let mut bytes = BTreeMap::new();
    let mut hits = 0;
    for round in 0..rounds("VCTX_AGAIN_ROUNDS", 32) {
        let ada = Agent::at(stage.home.wire("vctx.sock"), "ada");
        ada.append("user", format!("Zephyrine {round}.")).await;
        let (the_end, next) = (format!("end-{round}"), body(Some(round + 2)).to_string());
        stage.writes.clear();
        if round > 0 {
            arm(&stage, &mut chance, &bytes);
        }
        let gone =
            survived(&mut stage, ("DELETE", "/v1/agents/ada", &the_end), "", &mut hits).await;
        assert!([200, 202].contains(&gone.status), "round {round}: {}", gone.text);
        let made = survived(&mut stage, ("PUT", "/v1/agents/ada", ""), &next, &mut hits).await;
        assert!([200, 201].contains(&made.status), "round {round}: {}", made.text);
        settle(&mut stage, &mut hits).await;
        if round == 0 {
            bytes = stage.writes.bytes();
        }
        let ada = Agent::at(stage.home.wire("vctx.sock"), "ada");
        assert_eq!(ada.state().await["incarnation"], round + 2);
        assert_eq!(said(&ada.messages().await), [], "round {round}: a text of the deleted agent");
        let late =
            survived(&mut stage, ("DELETE", "/v1/agents/ada", &the_end), "", &mut hits).await;
        late.refused(410, "AGENT_FORGOTTEN");
        stage.home.assert_verified("vctx.sock", "ada");
    }
    assert!(hits > 0, "nothing died in any round");
}

pub(crate) async fn rename(agent: &Agent, name: &str, key: &str, revision: &str) -> Answer {
    let headers = [("idempotency-key", key), ("if-match", revision)];
    let path = format!("{}/rename", agent.path());
    agent.wire.call("POST", &path, &headers, json!({"name": name}).to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_agent_has_all_its_names_and_no_other_agent_gets_one() {
    let home = Home::new();
    let _server = home.serve().await;
    let wire = || home.wire("vctx.sock");
    let ada = Agent::create(wire(), "ada", 8192, "Be brief.").await;
    let bea = Agent::create(wire(), "bea", 8192, "Be brief.").await;
    ada.append("user", "Said to Ada.").await;
    let before = ada.state().await;
    let revision = before["_rev"].as_str().expect("a revision").to_owned();
    for wrong in ["", "a b", "ada@2", "..", &"x".repeat(129)] {
        rename(&ada, wrong, &key(), "*").await.refused(400, "INVALID_NAME");
    }
    rename(&ada, "bea", &key(), "*").await.refused(409, "AGENT_EXISTS");
    rename(&ada, "robert", &key(), "_nothing---").await.refused(412, "REVISION_STALE");
    wire().get("/v1/agents/robert").await.refused(404, "AGENT_NOT_FOUND");
    let nobody = Agent::at(wire(), "nobody");
    rename(&nobody, "robert", &key(), "*").await.refused(404, "AGENT_NOT_FOUND");

    let told = rename(&ada, "robert", "the-rename", &revision).await.ok();
    assert_eq!((&told["names"], &told["replayed"]), (&json!(["ada", "robert"]), &json!(false)));
    let again = rename(&ada, "robert", "the-rename", &revision).await.ok();
    assert_eq!((&again["names"], &again["replayed"]), (&json!(["ada", "robert"]), &json!(true)));
    rename(&ada, "roberta", "the-rename", "*").await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    wire().put("/v1/agents/roberta", &body(None)).await.ok();
    let robert = Agent::at(wire(), "robert");
    robert.append("user", "Said to Robert.").await;
    let texts = [("user".into(), "Said to Ada.".into()), ("user".into(), "Said to Robert.".into())];
    assert_eq!(
        (said(&ada.messages().await), said(&robert.messages().await)),
        (texts.to_vec(), texts.to_vec())
    );
    let state = robert.state().await;
    assert_eq!((&state["agent"], &state["agent_id"]), (&json!("robert"), &json!("ada")));
    let listed = wire().get("/v1/agents").await.ok();
    let names: Vec<&Value> =
        listed["agents"].as_array().expect("agents").iter().map(|one| &one["agent"]).collect();
    assert_eq!(names, ["robert", "bea", "roberta"]);
    for name in ["ada", "robert"] {
        home.assert_verified("vctx.sock", name);
        rename(&bea, name, &key(), "*").await.refused(409, "AGENT_EXISTS");
        let other = json!({"context_window": 4096, "system": "Another."});
        wire().put(&format!("/v1/agents/{name}"), &other).await.refused(409, "AGENT_EXISTS");
        assert_eq!(wire().put(&format!("/v1/agents/{name}"), &body(None)).await.status, 200);
    }
    // The old name can be the newest again, and the number of names is limited.
    let back = rename(&robert, "ada", &key(), "*").await.ok();
    assert_eq!(back["names"], json!(["robert", "ada"]));
    for number in 0..6 {
        rename(&ada, &format!("name-{number}"), &key(), "*").await.ok();
    }
    rename(&ada, "one-too-many", &key(), "*").await.refused(400, "INVALID_ARGUMENT");
    wire().put("/v1/agents/one-too-many", &body(None)).await.ok();
    home.assert_verified("vctx.sock", "robert");
    let events = wire().get("/v1/agents/ada/events?limit=1000").await;
    assert!(!events.text.contains("robert"), "an event has a digest in place of the name");

    // After the agent is deleted, each of its names says so, and is passed on by itself.
    delete(&robert, "the-end", "*").await.ok();
    for name in ["ada", "robert", "name-3"] {
        let path = format!("/v1/agents/{name}");
        wire().get(&path).await.refused(404, "AGENT_NOT_FOUND");
        let refused = wire().put(&path, &body(None)).await.refused(410, "AGENT_FORGOTTEN");
        assert_eq!(refused["incarnation"], 2, "{name}");
        rename(&bea, name, &key(), "*").await.refused(409, "AGENT_EXISTS");
    }
    assert_eq!(wire().put("/v1/agents/robert", &body(Some(2))).await.status, 201);
    assert_eq!(robert.state().await["agent_id"], "robert@2");
    wire().get("/v1/agents/ada").await.refused(404, "AGENT_NOT_FOUND");
    assert_eq!(said(&robert.messages().await), []);
    home.assert_verified("vctx.sock", "robert");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_and_two_tenants_agree_on_names() {
    let home = Home::new();
    let _engine = home.engine().await;
    let none = Tuning::default();
    let _one = home.server("one.sock", "engine.sock", "engine-ro.sock", &none).await;
    let _two = home.server("two.sock", "engine.sock", "engine-ro.sock", &none).await;
    let acme = Tuning::variable("VCTX_SERVER__TENANT", "acme");
    let _acme = home.server("acme.sock", "engine.sock", "engine-ro.sock", &acme).await;
    let ada = Agent::create(home.wire("one.sock"), "ada", 8192, "Be brief.").await;
    let there = Agent::at(home.wire("two.sock"), "robert");
    there.wire.get(&there.path()).await.refused(404, "AGENT_NOT_FOUND");
    rename(&ada, "robert", &key(), "*").await.ok();
    let made = repeated(async || there.wire.put("/v1/agents/robert", &body(None)).await).await;
    assert_eq!(made.status, 200, "the name is the first agent's: {}", made.text);
    let message = json!({"message": "There.", "role": "user"});
    repeated(async || there.tool("append_fifo", &message, "k", "*").await).await.ok();
    assert_eq!(said(&ada.messages().await), [("user".into(), "There.".into())]);
    // To another tenant, the name is as free as any other.
    let other = home.wire("acme.sock");
    other.get("/v1/agents/robert").await.refused(404, "AGENT_NOT_FOUND");
    assert_eq!(other.put("/v1/agents/robert", &body(None)).await.status, 201);
    // Of a rename and a creation with one name at the same time, one happens.
    for round in 0..rounds("VCTX_NAMES_ROUNDS", 64) {
        let name = format!("both-{round}");
        let mover = Agent::create(home.wire("one.sock"), &format!("m-{round}"), 8192, "x").await;
        let (made, named) = tokio::join!(
            async { home.wire("two.sock").put(&format!("/v1/agents/{name}"), &body(None)).await },
            rename(&mover, &name, "r", "*"),
        );
        let is_made = made.status == 201;
        assert!(is_made || [409, 503].contains(&made.status), "{}", made.text);
        if is_made {
            named.refused(409, "AGENT_EXISTS");
        } else {
            assert_eq!(repeated(async || rename(&mover, &name, "r", "*").await).await.status, 200);
        }
        let at = Agent::at(home.wire("one.sock"), &name);
        let state = repeated(async || at.wire.get(&at.path()).await).await.ok();
        let owner = if is_made { name.clone() } else { format!("m-{round}") };
        assert_eq!(state["agent_id"], json!(owner), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rename_that_was_cut_off_is_completed_by_its_repetition() {
    if needs_an_engine_of_its_own("it kills the database") {
        return;
    }
    let mut chance = Chance::new(setting("VCTX_AGAIN_SEED", 22));
    let mut stage = Stage::new().await;
    let mut bytes = BTreeMap::new();
    let mut hits = 0;
    for round in 0..rounds("VCTX_AGAIN_ROUNDS", 32) {
        let (old, new) = (format!("old-{round}"), format!("new-{round}"));
        let agent = Agent::create(stage.home.wire("vctx.sock"), &old, 8192, "Be brief.").await;
        agent.append("user", format!("Said to {round}.")).await;
        stage.writes.clear();
        if round > 0 {
            arm(&stage, &mut chance, &bytes);
        }
        let asked = json!({"name": new}).to_string();
        let path = format!("/v1/agents/{old}/rename");
        let named = survived(&mut stage, ("POST", &path, "the-rename"), &asked, &mut hits).await;
        settle(&mut stage, &mut hits).await;
        if round == 0 {
            bytes = stage.writes.bytes();
        }
        let state = named.ok();
        assert_eq!(state["names"], json!([old, new]), "round {round}");
        let texts = [("user".into(), format!("Said to {round}."))];
        for name in [&old, &new] {
            let agent = Agent::at(stage.home.wire("vctx.sock"), name);
            assert_eq!(said(&agent.messages().await), texts, "round {round}: {name}");
        }
        stage.home.assert_verified("vctx.sock", &new);
    }
    assert!(hits > 0, "nothing died in any round");
}
