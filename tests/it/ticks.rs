//! Tests schedules on real processes: each tick fires once despite kills, missed ticks are reported
//! once, and no agent delays another.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chance::{Chance, rounds, setting};
use crate::home::{Home, PROGRAM, Process, Tuning};
use crate::talk::Agent;
use crate::wire::Answer;

/// Maximum time that a test waits for background work, even on a busy machine.
const FIRED_MAX: Duration = Duration::from_secs(60);
/// Pause between two polls.
const LOOK: Duration = Duration::from_millis(50);
/// The shortest interval that a schedule may have, in milliseconds.
const SECOND_MS: u64 = 1_000;

async fn put(agent: &Agent, name: &str, schedule: Value) -> Answer {
    agent.wire.put(&format!("{}/schedules/{name}", agent.path()), &schedule).await
}

async fn given(agent: &Agent, name: &str, schedule: Value) -> Value {
    let answer = put(agent, name, schedule).await;
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
    answer.body
}

async fn get(agent: &Agent, name: &str) -> Answer {
    agent.wire.get(&format!("{}/schedules/{name}", agent.path())).await
}

async fn remove(agent: &Agent, name: &str) -> Answer {
    let path = format!("{}/schedules/{name}", agent.path());
    agent.wire.call("DELETE", &path, &[], String::new()).await
}

/// Parses a timestamp to milliseconds since 1970.
fn ms(moment: &Value) -> u64 {
    let text = moment.as_str().expect("a moment");
    vctx::clock::unix_ms_of(text).unwrap_or_else(|| panic!("{text} is no moment"))
}

/// An event that a schedule posted: the due time of its tick, the number of missed ticks that it
/// reports, and its text.
#[derive(Debug)]
struct Event {
    due_ms: u64,
    missed: u64,
    text: String,
}

/// Returns the events that one schedule posted, in order.
async fn events(agent: &Agent, name: &str) -> Vec<Event> {
    let messages = agent.messages().await;
    let own = messages.iter().filter(|m| m["meta"]["event"] == name);
    let event = |m: &Value| {
        assert_eq!((&m["kind"], &m["role"]), (&json!("event"), &json!("system")));
        assert_eq!(m["meta"]["class"], "scheduled");
        Event {
            due_ms: ms(&m["meta"]["tick"]["due"]),
            missed: m["meta"]["tick"]["missed"].as_u64().expect("a number"),
            text: m["content"].as_str().expect("a text").to_owned(),
        }
    };
    own.map(event).collect()
}

/// Waits until a schedule has posted the given number of events.
async fn fired(agent: &Agent, name: &str, count: usize) -> Vec<Event> {
    let until = Instant::now() + FIRED_MAX;
    loop {
        let found = events(agent, name).await;
        if found.len() >= count {
            return found;
        }
        assert!(Instant::now() < until, "{name} of {} fired {}", agent.name, found.len());
        tokio::time::sleep(LOOK).await;
    }
}

/// Checks that each tick since the first one either has one event, or is counted once as missed.
fn assert_each_moment_once(events: &[Event], every_ms: u64) {
    for pair in events.windows(2) {
        let next = pair[0].due_ms + (pair[0].missed + 1) * every_ms;
        assert_eq!(pair[1].due_ms, next, "{events:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_fires_in_its_rhythm_until_it_is_taken_away() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let asked = json!({"every_ms": SECOND_MS, "content": "Look at the tide."});
    let answer = put(&ada, "tide", asked.clone()).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let first_ms = ms(&answer.body["next"]);
    // If the same schedule is set again, its ticks do not change.
    let again = put(&ada, "tide", asked).await;
    assert_eq!(again.status, 200);
    let found = fired(&ada, "tide", 3).await;
    assert_each_moment_once(&found, SECOND_MS);
    assert_eq!((found[0].due_ms - first_ms) % SECOND_MS, 0);
    assert!(
        found[0].text.starts_with("[scheduled tide, ")
            && found[0].text.ends_with("] Look at the tide."),
        "{found:?}"
    );
    let told = get(&ada, "tide").await.ok();
    assert!(told["fired"].as_u64() >= Some(3) && told["last"]["seq"].is_u64(), "{told}");
    let listed = ada.wire.get(&format!("{}/schedules", ada.path())).await.ok();
    assert_eq!(listed["schedules"].as_array().map(Vec::len), Some(1));

    remove(&ada, "tide").await.ok();
    get(&ada, "tide").await.refused(404, "SCHEDULE_NOT_FOUND");
    remove(&ada, "tide").await.refused(404, "SCHEDULE_NOT_FOUND");
    let count = events(&ada, "tide").await.len();
    tokio::time::sleep(Duration::from_millis(2 * SECOND_MS)).await;
    assert_eq!(events(&ada, "tide").await.len(), count, "what is gone fires no more");
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fires_once_fires_once_even_if_its_moment_is_past_and_it_is_given_again() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let once = json!({"at": "2020-02-29T12:00:00Z", "content": "Too late.", "run": true});
    let told = given(&ada, "leap", once.clone()).await;
    assert_eq!(
        (&told["every_ms"], &told["at"]),
        (&Value::Null, &json!("2020-02-29T12:00:00.000Z"))
    );
    let found = fired(&ada, "leap", 1).await;
    assert_eq!((found[0].due_ms, found[0].missed), (ms(&told["at"]), 0));
    given(&ada, "leap", once.clone()).await;
    // A schedule that is deleted and created again does not fire a past tick again, because the
    // idempotency key of that tick is already used.
    remove(&ada, "leap").await.ok();
    given(&ada, "leap", once).await;
    tokio::time::sleep(Duration::from_millis(3 * SECOND_MS)).await;
    assert_eq!(events(&ada, "leap").await.len(), 1);
    given(&ada, "leap", json!({"at": "2020-03-01", "content": "Another moment."})).await;
    assert_eq!(fired(&ada, "leap", 2).await.len(), 2);
    let told = get(&ada, "leap").await.ok();
    assert_eq!(told["next"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_time_without_servers_one_tick_tells_how_many_were_missed() {
    let home = Home::new();
    let _engine = home.engine().await;
    let server =
        home.server("vctx.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    given(&ada, "tide", json!({"every_ms": SECOND_MS, "content": "x"})).await;
    let before = fired(&ada, "tide", 1).await.len();
    assert!(server.stop().await.success());
    tokio::time::sleep(Duration::from_millis(4 * SECOND_MS)).await;
    let _server =
        home.server("vctx.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    let found = fired(&ada, "tide", before + 2).await;
    assert_each_moment_once(&found, SECOND_MS);
    // A slow machine may miss a tick already before the stop.
    let late = found.iter().max_by_key(|event| event.missed).expect("some were missed");
    assert!(late.missed >= 2, "{found:?}");
    assert!(late.text.contains(&format!("{} more were missed", late.missed)), "{}", late.text);
    let told = get(&ada, "tide").await.ok();
    let missed: u64 = events(&ada, "tide").await.iter().map(|event| event.missed).sum();
    assert!(
        told["missed"].as_u64() <= Some(missed) && told["missed"].as_u64() >= Some(late.missed)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_of_which_one_is_killed_at_random_fire_nothing_twice_and_leave_nobody_stuck() {
    let home = Home::new();
    let _engine = home.engine().await;
    let start = async |socket: &str| -> Process {
        let server = home.server(socket, "engine.sock", "engine-ro.sock", &Tuning::default()).await;
        // A server may log this warning about a call that the killed server had begun.
        server.expect("a job failed");
        server
    };
    let sockets = ["a.sock", "b.sock"];
    let mut servers = [start(sockets[0]).await, start(sockets[1]).await];
    let names = ["ada", "bob", "eve"];
    for name in names {
        let agent = Agent::create(home.wire("a.sock"), name, 4096, "").await;
        for schedule in ["tide", "wind"] {
            given(&agent, schedule, json!({"every_ms": SECOND_MS, "content": "x", "run": true}))
                .await;
        }
    }
    let mut chance = Chance::new(setting("TICKS_SEED", 11));
    for _ in 0..rounds("TICKS_KILLS", 5) {
        tokio::time::sleep(Duration::from_millis(400 + chance.below(1_500))).await;
        let victim = usize::from(chance.below(2) == 1);
        servers[victim].kill();
        tokio::time::sleep(Duration::from_millis(chance.below(1_200))).await;
        servers[victim] = start(sockets[victim]).await;
    }
    for (at, name) in names.iter().enumerate() {
        let agent = Agent::at(home.wire(sockets[at % 2]), name);
        let before = events(&agent, "tide").await.len();
        fired(&agent, "tide", before + 2).await;
        for schedule in ["tide", "wind"] {
            remove(&agent, schedule).await.ok();
            let found = events(&agent, schedule).await;
            assert!(!found.is_empty());
            assert_each_moment_once(&found, SECOND_MS);
        }
        agent.append("user", "Anybody there?").await;
        home.assert_verified(sockets[at % 2], name);
    }
}

/// Steps of a model that writes one note for each request and then yields.
const NOTING: &str = r#"{"repeat": true, "calls": [{"name": "store_core", "arguments": {"block_id": "log", "content": "seen", "policy": {"mode": "append"}}}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn each_tick_that_wants_a_run_has_one_whoever_is_killed_meanwhile() {
    let home = Home::new();
    let (model_socket, steps) = (home.path("model.sock"), home.path("steps.jsonl"));
    fs::write(&steps, NOTING).expect("steps");
    let mut command = Command::new(PROGRAM);
    command.arg("scripted-model").arg("--script").arg(&steps).arg("--socket").arg(&model_socket);
    let model = Process::start(&home, "model", command);
    model.ready(std::slice::from_ref(&model_socket), None).await;
    let _engine = home.engine().await;
    let mut tuning =
        Tuning::variable("VCTX_CHAT__SOCKET", model_socket.to_str().expect("a plain path"));
    tuning.environment.push(("VCTX_CHAT__MODEL".into(), "scripted".into()));
    let start = async |socket: &str| -> Process {
        let server = home.server(socket, "engine.sock", "engine-ro.sock", &tuning).await;
        for text in ["a job failed", "the run of a tick failed"] {
            server.expect(text);
        }
        server
    };
    let sockets = ["a.sock", "b.sock"];
    let mut servers = [start(sockets[0]).await, start(sockets[1]).await];
    let mut chance = Chance::new(setting("TICKS_SEED", 5));
    let mut agents = Vec::new();
    for at in 0..rounds("TICKS_RUNS", 6) {
        let victim = usize::from(chance.below(2) == 1);
        let agent =
            Agent::create(home.wire(sockets[1 - victim]), &format!("a{at}"), 16_384, "").await;
        given(&agent, "once", json!({"at": "2020-01-01", "content": "Do it.", "run": true})).await;
        agents.push(agent.name.clone());
        tokio::time::sleep(Duration::from_millis(chance.below(1_500))).await;
        servers[victim].kill();
        servers[victim] = start(sockets[victim]).await;
    }
    let until = Instant::now() + 2 * FIRED_MAX;
    for name in agents {
        let agent = Agent::at(home.wire("a.sock"), &name);
        loop {
            let told = get(&agent, "once").await.ok();
            if told["fired"] == 1 && told["running"] == false {
                break;
            }
            assert!(Instant::now() < until, "{name} is stuck: {told}");
            tokio::time::sleep(LOOK).await;
        }
        let state = agent.state().await;
        let log = &state["working_blocks"][0]["content"];
        assert_eq!(log, "seen", "{name} ran once: {:#?}", agent.messages().await);
        assert_eq!(events(&agent, "once").await.len(), 1);
        assert_eq!(state["run"], Value::Null, "{state}");
        home.assert_verified("a.sock", &name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_event_cannot_be_written_keeps_nobody_from_firing() {
    let home = Home::new();
    let _server = home.serve().await;
    let small = Agent::create(home.wire("vctx.sock"), "small", 256, "").await;
    let large = "word ".repeat(1_000);
    for number in 0..16 {
        given(&small, &format!("n{number}"), json!({"at": "2020-01-01", "content": large})).await;
    }
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    given(&ada, "tide", json!({"at": "2024-01-01", "content": "x"})).await;
    fired(&ada, "tide", 1).await;
    let until = Instant::now() + FIRED_MAX;
    while get(&small, "n0").await.ok()["failures"] == 0 {
        assert!(Instant::now() < until, "it was never tried");
        tokio::time::sleep(LOOK).await;
    }
    let told = get(&small, "n0").await.ok();
    assert_eq!((&told["fired"], &told["next"]), (&json!(0), &json!("2020-01-01T00:00:00.000Z")));
    // With a large enough window the schedule fires.
    let body = json!({"context_window": 65_536}).to_string();
    let headers = [("idempotency-key", "larger"), ("if-match", "*")];
    small.wire.call("PATCH", &small.path(), &headers, body).await.ok();
    fired(&small, "n0", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_schedule_is_refused_by_name() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    for (wrong, field) in [
        (json!({"every_ms": 999, "content": "x"}), "every_ms"),
        (json!({"every_ms": 31_622_400_001_u64, "content": "x"}), "every_ms"),
        (json!({"content": "x"}), "every_ms"),
        (json!({"every_ms": 1_000, "at": "2030-01-01", "content": "x"}), "every_ms"),
        (json!({"at": "2030-02-30", "content": "x"}), "at"),
        (json!({"at": "9999-01-01", "content": "x"}), "at"),
        (json!({"at": "tomorrow", "content": "x"}), "at"),
        (json!({"every_ms": 1_000, "content": ""}), "content"),
        (json!({"every_ms": 1_000, "content": "x".repeat(16_385)}), "content"),
        (json!({"every_ms": 1_000}), "content"),
        (json!({"every_ms": 1_000, "content": "x", "often": true}), "often"),
    ] {
        let refused = put(&ada, "tide", wrong.clone()).await.refused(400, "INVALID_ARGUMENT");
        assert_eq!(refused["field"], field, "{wrong}");
    }
    let fine = json!({"every_ms": 86_400_000, "content": "x"});
    put(&ada, "a%20b", fine.clone()).await.refused(400, "INVALID_NAME");
    let nobody = Agent::at(home.wire("vctx.sock"), "nobody");
    put(&nobody, "tide", fine.clone()).await.refused(404, "AGENT_NOT_FOUND");
    get(&nobody, "tide").await.refused(404, "AGENT_NOT_FOUND");
    nobody.wire.get("/v1/agents/nobody/schedules").await.refused(404, "AGENT_NOT_FOUND");
    for number in 0..32 {
        assert_eq!(put(&ada, &format!("n{number}"), fine.clone()).await.status, 201);
    }
    let full = put(&ada, "one-more", fine.clone()).await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(full["field"], "name");
    assert_eq!(put(&ada, "n7", fine).await.status, 200, "what is there may change");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_makes_lists_and_removes() {
    let home = Home::new();
    let _server = home.serve().await;
    Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    let socket = home.path("vctx.sock");
    let socket = socket.to_str().expect("a plain path");
    let run = |arguments: &[&str]| {
        let output = home.run(&[&["agent", "schedule"], arguments, &["--socket", socket]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    };
    let made =
        run(&["put", "ada", "water", "--every", "86400000", "--content", "Water the plants."]);
    assert!(made.contains("every 86400000 ms"), "{made}");
    run(&["put", "ada", "launch", "--at", "2999-01-01", "--content", "Go.", "--run"]);
    let listed = run(&["list", "ada"]);
    assert!(listed.contains("launch") && listed.contains("Water the plants."), "{listed}");
    let shown: Value =
        serde_json::from_str(&run(&["show", "ada", "launch", "--json"])).expect("JSON");
    assert_eq!((&shown["run"], &shown["next"]), (&json!(true), &json!("2999-01-01T00:00:00.000Z")));
    run(&["remove", "ada", "water"]);
    assert!(!run(&["list", "ada"]).contains("water"));
}
