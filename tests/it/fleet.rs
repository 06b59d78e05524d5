//! Tests agents in several databases: every call finds its agent, a moved agent is unchanged, and
//! no row is lost or in the wrong database.

mod away;
mod followed;
mod gone;
mod named;
mod packed;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use vctx::store::{Names, OWNED};

use crate::chance::{Chance, rounds, setting};
use crate::database::Database;
use crate::home::{Home, PASSWORD, Process, Tuning};
use crate::isolation_cases::said_once;
use crate::keeper::plant;
use crate::outside::needs_an_engine_of_its_own;
use crate::planted::assert_listed;
use crate::scripted::Scripted;
use crate::talk::{Agent, key, said};
use crate::wire::Wire;

const WHY: &str = "has two engines of its own";
/// Maximum time that a test waits for background work.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);

/// Two engines with one database each, and the configuration of servers that use both.
struct World {
    here: Home,
    there: Home,
    one: Process,
    two: Process,
}

impl World {
    async fn begun() -> World {
        let (here, there) = (Home::new(), Home::new());
        let (one, two) = (here.engine().await, there.engine().await);
        let socket = |name: &str| there.path(name).display().to_string();
        let (rw, ro) = (socket("engine.sock"), socket("engine-ro.sock"));
        let text = format!(
            "[[store.places]]\nname = \"east\"\nrw_uds = \"{rw}\"\nro_uds = \"{ro}\"\nuser = \"root\"\ndatabase = \"vctx\"\n"
        );
        fs::write(here.path("places.toml"), text).expect("a configuration");
        World { here, there, one, two }
    }

    fn tuning(&self) -> Tuning {
        // The second database has its own password variable, which takes precedence over the
        // general one.
        let mut tuning = Tuning::variable("ARANGO_PASSWORD_EAST", PASSWORD);
        tuning.config = Some(self.here.path("places.toml"));
        tuning
    }

    async fn server(&self, socket: &str) -> Process {
        self.server_with(socket, &self.tuning()).await
    }

    async fn server_with(&self, socket: &str, tuning: &Tuning) -> Process {
        let server = self.here.server(socket, "engine.sock", "engine-ro.sock", tuning).await;
        open(&self.here.wire(socket)).await;
        server
    }

    fn databases(&self) -> BTreeMap<&'static str, Database> {
        BTreeMap::from([("home", self.here.database()), ("east", self.there.database())])
    }
}

/// Waits until every database is connected.
async fn open(wire: &Wire) {
    let until = Instant::now() + PATIENCE;
    loop {
        let told = wire.get("/v1/places").await.ok();
        let places = told["places"].as_array().expect("places").clone();
        if places.iter().all(|place| place["state"] == "open") {
            return;
        }
        assert!(Instant::now() < until, "{told:#}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the server reports the given state of the second database.
async fn stands(wire: &Wire, state: &str) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let told = wire.get("/v1/places").await.ok();
        let east = told["places"][1].clone();
        if east["state"] == state {
            return east;
        }
        assert!(Instant::now() < until, "{told:#}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the database of each agent in the server's list.
async fn listed(wire: &Wire) -> BTreeMap<String, String> {
    let told = wire.get("/v1/agents").await.ok();
    assert_eq!(told["places_away"], json!([]), "{told}");
    let text = |row: &Value, name: &str| row[name].as_str().expect("a text").to_owned();
    let agents = told["agents"].as_array().expect("agents").clone();
    let all: BTreeMap<String, String> =
        agents.iter().map(|row| (text(row, "agent"), text(row, "place"))).collect();
    assert_eq!(all.len(), agents.len(), "an agent is listed twice: {told}");
    all
}

/// Returns the agents that have rows in a database, by collection, without the collections
/// `directory` and `departures`.
async fn owners(database: &Database) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for owned in OWNED {
        let query = match owned.names {
            _ if ["directory", "departures"].contains(&owned.collection) => continue,
            Names::AgentId => "FOR r IN @@c RETURN DISTINCT r.agent_id",
            Names::Key => "FOR r IN @@c RETURN DISTINCT r._key",
            Names::FromCore => "FOR r IN @@c RETURN DISTINCT PARSE_IDENTIFIER(r._from).key",
            Names::From(_) => {
                "FOR r IN @@c LET from = DOCUMENT(r._from) RETURN DISTINCT from == null ? r._from : from.agent_id"
            }
        };
        let rows = database.rows(query, json!({"@c": owned.collection})).await;
        let names = rows.iter().map(|row| row.as_str().expect("a name").to_owned());
        found.insert(owned.collection.to_owned(), names.collect());
    }
    let marks = "FOR m IN vctx_meta FILTER m.agent_id != null RETURN m.agent_id";
    let marks = database.rows(marks, json!({})).await;
    assert_eq!(marks, Vec::<Value>::new(), "a mark was left behind");
    found
}

/// Checks that every row is in the database of its agent, according to the directory and the agent
/// list.
async fn in_their_places(world: &World, wire: &Wire) {
    let listed = listed(wire).await;
    let databases = world.databases();
    // A server with a single database notes none.
    let known = "FOR d IN directory RETURN [d._key, d.place == null ? 'home' : d.place, d.moving]";
    for row in databases["home"].rows(known, json!({})).await {
        let name = row[0].as_str().expect("a name");
        assert_eq!(row[2], Value::Null, "a move of {name} is under way");
        assert_eq!(row[1].as_str(), listed.get(name).map(String::as_str), "{name}");
    }
    for (place, database) in &databases {
        for (collection, names) in owners(database).await {
            for name in names {
                let at = listed.get(&name).map(String::as_str);
                assert_eq!(at, Some(*place), "{collection} holds a row of {name}");
            }
        }
        let moving = "FOR c IN core_memory FILTER c.moving != null RETURN c._key";
        assert_eq!(database.rows(moving, json!({})).await, Vec::<Value>::new(), "{place}");
        assert_listed(database).await;
    }
}

async fn moved(wire: &Wire, agent: &str, to: &str) -> Value {
    let path = format!("/v1/agents/{agent}/move");
    wire.call("POST", &path, &[], json!({"to": to}).to_string()).await.ok()
}

/// Moves an agent. Under load, the lease of a move may expire, and the other server then continues
/// the move. In this case the request to the first server fails. The test repeats the request, as
/// the error advises.
async fn moved_under_load(wire: &Wire, agent: &str, to: &str) {
    let (path, until) = (format!("/v1/agents/{agent}/move"), Instant::now() + PATIENCE);
    for attempt in 0.. {
        let answer = wire.call("POST", &path, &[], json!({"to": to}).to_string()).await;
        if answer.code() != "MOVE_BUSY" {
            let told = answer.ok();
            return assert!(told["to"] == to && (told["moved"] == true || attempt > 0), "{told}");
        }
        assert!(Instant::now() < until, "{}", answer.text);
        tokio::time::sleep(LOOK).await;
    }
}

async fn exported(wire: &Wire, agent: &str) -> String {
    let answer = wire.get(&format!("/v1/agents/{agent}/export")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text
}

/// Returns the rows of an export without the core's list of recent revisions and without the entry
/// about this list in the ledger, because a move adds a revision to this list.
fn unrevised(file: &str) -> String {
    let mut lines: Vec<&str> = unsigned(file).collect();
    lines.pop();
    let mut core: Value = serde_json::from_str(lines[1]).expect("JSON");
    let revisions = core["row"].as_object_mut().expect("a row").remove("recent_revisions");
    assert!(revisions.is_some(), "{}", lines[1]);
    let core = core.to_string();
    lines[1] = &core;
    lines.retain(|line| !line.contains("\"details\":{\"beside\":\"move\"}"));
    lines.join("\n")
}

/// Returns the lines of an export without the signed head, which the server adds that exports.
fn unsigned(file: &str) -> impl Iterator<Item = &str> {
    file.lines().filter(|line| !line.starts_with("{\"checkpoint\":"))
}

/// Returns the hash of an export's content, which the last line of the export contains.
fn state(file: &str) -> Value {
    let trailer: Value = serde_json::from_str(unsigned(file).last().expect("lines")).expect("JSON");
    trailer["state"].clone()
}

fn other(place: &str) -> &'static str {
    if place == "home" { "east" } else { "home" }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_spread_and_every_call_finds_its_own() {
    if needs_an_engine_of_its_own(WHY) {
        return;
    }
    let world = World::begun().await;
    // Some agents are created before the second database is configured.
    let plain = Tuning::default();
    let before = world.here.server("old.sock", "engine.sock", "engine-ro.sock", &plain).await;
    let old = Agent::create(world.here.wire("old.sock"), "old", 4096, "Serve.").await;
    old.append("user", "It was there before.").await;
    assert!(before.stop().await.success());

    let _server = world.server("vctx.sock").await;
    let wire = world.here.wire("vctx.sock");
    for n in 0..24 {
        let agent = Agent::create(wire.again(), &format!("a{n}"), 4096, "Serve.").await;
        agent.append("user", format!("I am {n}.")).await;
        // A repeated creation of an existing agent does not move it.
        Agent::create(wire.again(), &format!("a{n}"), 4096, "Serve.").await;
    }
    let again = Agent::create(wire.again(), "old", 4096, "Serve.").await;
    assert_eq!(said(&again.messages().await)[0].1, "It was there before.");
    let places = listed(&wire).await;
    assert_eq!((places.len(), places["old"].as_str()), (25, "home"));
    let (mut paged, mut path) = (BTreeMap::new(), "/v1/agents?limit=7".to_owned());
    while !path.is_empty() {
        let page = wire.get(&path).await.ok();
        let rows = page["agents"].as_array().expect("agents");
        assert!(!rows.is_empty() && rows.len() <= 7, "{page}");
        for row in rows {
            let text = |name: &str| row[name].as_str().expect("a text").to_owned();
            assert!(paged.insert(text("agent"), text("place")).is_none(), "{row} comes twice");
        }
        let next = page["next"].as_str();
        path = next.map_or(String::new(), |next| format!("/v1/agents?limit=7&after={next}"));
    }
    assert_eq!(paged, places);
    for wrong in ["after=old", "after=west/old", "limit=0"] {
        let refused = wire.get(&format!("/v1/agents?{wrong}")).await;
        refused.refused(400, "INVALID_ARGUMENT");
    }
    let east = places.values().filter(|place| *place == "east").count();
    assert!((4..=20).contains(&east), "{places:?}");
    for n in 0..24 {
        let agent = Agent::at(wire.again(), &format!("a{n}"));
        assert_eq!(said(&agent.messages().await)[0].1, format!("I am {n}."));
        world.here.assert_verified("vctx.sock", &agent.name);
    }
    in_their_places(&world, &wire).await;
    wire.get("/v1/agents/nobody").await.refused(404, "AGENT_NOT_FOUND");
    wire.get("/v1/agents/b%20d").await.refused(400, "INVALID_NAME");
    // A percent-encoded name means the same agent.
    let odd = wire.get("/v1/agents/%611").await.ok();
    assert_eq!(odd["agent"], "a1", "{odd}");
    let ready = wire.get("/readyz").await.ok();
    assert_eq!(ready["places"].as_array().map(Vec::len), Some(2), "{ready}");
    let table = world.here.path("vctx.sock");
    let shown = world.here.run(&["places", "--socket", table.to_str().expect("a path")]);
    let shown = String::from_utf8(shown.stdout).expect("UTF-8");
    assert!(shown.contains("east") && shown.contains("open"), "{shown}");
    // A forgotten agent stays forgotten in every database.
    let gone = places.iter().find(|(_, place)| *place == "east").expect("one").0;
    let all = json!({"all": true}).to_string();
    let headers = [("idempotency-key", "gone"), ("if-match", "*")];
    wire.call("POST", &format!("/v1/agents/{gone}/forget"), &headers, all).await.ok();
    let body = json!({"context_window": 4096, "system": "Serve."});
    wire.put(&format!("/v1/agents/{gone}"), &body).await.refused(410, "AGENT_FORGOTTEN");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_moves_is_the_same_and_its_callers_see_no_difference() {
    if needs_an_engine_of_its_own(WHY) {
        return;
    }
    let world = World::begun().await;
    let (_one, _two) = (world.server("vctx.sock").await, world.server("b.sock").await);
    let keeper = plant(&world.here, "vctx.sock", "ada", "ada").await;
    let ada = &keeper.agent;
    let spoken = ada.append("user", "The pass phrase is herring.").await;
    let forget = json!({"seqs": [spoken["receipt"]["seq"]]}).to_string();
    let headers = [("idempotency-key", "forget"), ("if-match", "*")];
    ada.wire.call("POST", &format!("{}/forget", ada.path()), &headers, forget).await.ok();
    let manifests = ada.wire.get(&format!("{}/forget", ada.path())).await.ok();
    let stale = Agent::at(world.here.wire("b.sock"), "ada");
    let revision = stale.revision().await;
    let file = unrevised(&exported(&ada.wire, "ada").await);
    world.here.assert_verified("vctx.sock", "ada");
    let from = listed(&ada.wire).await["ada"].clone();
    let to = other(&from);

    let socket = world.here.path("vctx.sock");
    let socket = socket.to_str().expect("a plain path");
    let command = ["move", "--agent", "ada", "--to", to, "--json", "--socket", socket];
    let output = world.here.run(&command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((told["moved"].clone(), told["from"].clone()), (json!(true), json!(from)), "{told}");
    assert_eq!(told["records_left"], 0);
    let metrics = world.here.wire("vctx-metrics.sock").get("/metrics").await.text;
    assert!(metrics.contains("vctx_moves_total{outcome=\"done\"} 1\n"), "{metrics}");
    assert!(metrics.contains("vctx_moves_standing 0\n"), "{metrics}");
    assert_eq!(listed(&ada.wire).await["ada"], to);
    let there = exported(&ada.wire, "ada").await;
    assert_eq!(told["state"], state(&there), "{told}");
    assert_eq!(unrevised(&there), file, "it is another one there");
    world.here.assert_verified("vctx.sock", "ada");
    // An agent in another database is not missing.
    let output = world.here.run(&["verify", "--socket", socket]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(ada.wire.get(&format!("{}/forget", ada.path())).await.ok(), manifests);
    in_their_places(&world, &ada.wire).await;

    // The other server still caches the agent's old database. Nevertheless, calls to this server
    // succeed: the agent's revision is still valid, and an idempotency key that was used before the
    // move is still known.
    let replayed = stale.tool("append_fifo", &said_once(), &keeper.names.key, "*").await.ok();
    assert_eq!(replayed["replayed"], true, "{replayed}");
    let next = json!({"message": "It goes on.", "role": "user"});
    stale.tool("append_fifo", &next, &key(), &revision).await.ok();
    assert_eq!(moved(&ada.wire, "ada", to).await["moved"], false);
    let nowhere = json!({"to": "west"}).to_string();
    let path = format!("{}/move", ada.path());
    ada.wire.call("POST", &path, &[], nowhere.clone()).await.refused(400, "INVALID_ARGUMENT");
    ada.wire
        .call("POST", "/v1/agents/nobody/move", &[], json!({"to": to}).to_string())
        .await
        .refused(404, "AGENT_NOT_FOUND");
    let word = json!({"to": to, "by": "me"}).to_string();
    ada.wire.call("POST", &path, &[], word).await.refused(400, "INVALID_ARGUMENT");

    // The agent is moved back: it keeps its changes, and no row remains in the other database.
    let file = unrevised(&exported(&stale.wire, "ada").await);
    let told = moved(&stale.wire, "ada", &from).await;
    let back = exported(&ada.wire, "ada").await;
    assert_eq!((told["moved"].clone(), told["state"].clone()), (json!(true), state(&back)));
    assert_eq!(unrevised(&back), file);
    ada.append("assistant", "Home again.").await;
    world.here.assert_verified("vctx.sock", "ada");
    in_their_places(&world, &ada.wire).await;
}

/// Appends numbered messages to some agents in turn until stopped, at least one to each. Returns
/// the number of messages of each agent.
async fn talking(agents: Vec<Agent>, mut stop: tokio::sync::watch::Receiver<bool>) -> Vec<u64> {
    let mut taken = vec![0; agents.len()];
    for turn in 0.. {
        if turn >= agents.len() && *stop.borrow_and_update() {
            break;
        }
        let at = turn % agents.len();
        say(&agents[at], taken[at]).await;
        taken[at] += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    taken
}

/// Appends a message with the given number; repeats the call with the same key until it succeeds.
async fn say(agent: &Agent, number: u64) {
    let body = json!({"message": format!("{number}"), "role": "user"});
    let key = format!("said-{number}");
    let until = Instant::now() + PATIENCE;
    loop {
        match agent.attempt("append_fifo", &body, &key, "*").await {
            Ok(answer) if answer.status == 200 => return,
            // These refusals are allowed: their cause is a killed server, or an agent that a killed
            // server was moving.
            Ok(answer) if ["CONFLICT", "AGENT_MOVING", "NOT_READY"].contains(&answer.code()) => {}
            Ok(answer) => panic!("{} {number}: {}", agent.name, answer.text),
            Err(_) => {}
        }
        assert!(Instant::now() < until, "{} does not get {number} through", agent.name);
        tokio::time::sleep(LOOK).await;
    }
}

fn numbers(messages: &[Value]) -> Vec<String> {
    said(messages).into_iter().filter(|(role, _)| role == "user").map(|(_, text)| text).collect()
}

/// Checks that an agent's messages are exactly the appended numbers, in order.
async fn whole(wire: &Wire, name: &str, count: u64) {
    let agent = Agent::at(wire.again(), name);
    let wanted: Vec<String> = (0..count).map(|n| n.to_string()).collect();
    assert_eq!(numbers(&agent.messages().await), wanted, "{name}");
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn half_of_many_move_under_load_and_nothing_is_lost_or_elsewhere() {
    if needs_an_engine_of_its_own(WHY) {
        return;
    }
    let agents = rounds("FLEET_AGENTS", 128);
    // An agent that is written to all the time cannot move, so each writer has four agents.
    let writers = setting("FLEET_WRITERS", agents.div_ceil(4));
    let world = World::begun().await;
    let (_one, _two) = (world.server("a.sock").await, world.server("b.sock").await);
    let wires = [world.here.wire("a.sock"), world.here.wire("b.sock")];
    let name = |n: u64| format!("agent-{n}");
    let mut making = JoinSet::new();
    for n in 0..agents {
        let (wire, name) = (wires[n as usize % 2].again(), name(n));
        making.spawn(async move { Agent::create(wire, &name, 2048, "Count.").await });
        if making.len() >= 8 {
            making.join_next().await;
        }
    }
    while making.join_next().await.is_some() {}
    let before = listed(&wires[0]).await;
    assert_eq!(before.len() as u64, agents);
    // Each writer appends to some of the agents. Meanwhile, every second agent is moved.
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let mut talks = JoinSet::new();
    for first in 0..agents.min(writers) {
        let own = (first..agents).step_by(writers as usize);
        let own: Vec<Agent> =
            own.map(|n| Agent::at(wires[(n as usize + 1) % 2].again(), &name(n))).collect();
        let (names, stopping) = (own.iter().map(|agent| agent.name.clone()), stopping.clone());
        let names: Vec<String> = names.collect();
        talks.spawn(async move { names.into_iter().zip(talking(own, stopping).await) });
    }
    let chosen: Vec<String> = (0..agents).step_by(2).map(name).collect();
    let queue = Arc::new(std::sync::Mutex::new(chosen.clone()));
    let mut movers = JoinSet::new();
    for n in 0..3 {
        let (wire, queue, before) = (wires[n % 2].again(), Arc::clone(&queue), before.clone());
        movers.spawn(async move {
            let mut done = 0;
            loop {
                let next = queue.lock().expect("a list").pop();
                let Some(agent) = next else { return done };
                moved_under_load(&wire, &agent, other(&before[&agent])).await;
                done += 1;
            }
        });
    }
    let done: usize = movers.join_all().await.into_iter().sum();
    assert_eq!(done, chosen.len());
    stop.send_replace(true);
    let mut written = 0;
    while let Some(talk) = talks.join_next().await {
        for (name, count) in talk.expect("a writer") {
            whole(&wires[0], &name, count).await;
            world.here.assert_verified("a.sock", &name);
            written += count;
        }
    }
    let after = listed(&wires[1]).await;
    for (name, place) in &after {
        let goes = chosen.contains(name);
        assert_eq!(*place == before[name], !goes, "{name} is in {place}");
    }
    in_their_places(&world, &wires[0]).await;
    println!("{agents} agents, {done} moved while {written} messages were written");
    assert!(written > 0);
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_mover_that_is_killed_anywhere_leaves_a_move_that_ends() {
    if needs_an_engine_of_its_own(WHY) {
        return;
    }
    let world = World::begun().await;
    let mut chance = Chance::new(setting("FLEET_SEED", 7));
    let _other = world.server("b.sock").await;
    let wire = world.here.wire("b.sock");
    let ada = Agent::create(wire.again(), "ada", 4096, "Count.").await;
    ada.done(
        "ingest_archival",
        &json!({"doc_id": "log", "document": "The harbour log. ".repeat(200)}),
    )
    .await;
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let talk = tokio::spawn(talking(vec![ada.again()], stopping));
    let mut cut = 0;
    for _ in 0..rounds("FLEET_KILLS", 6) {
        let mover = world.server("mover.sock").await;
        let to = other(&listed_place(&wire, "ada").await);
        let asked = world.here.wire("mover.sock");
        let asking = tokio::spawn(async move {
            let body = json!({"to": to}).to_string();
            asked.try_call("POST", "/v1/agents/ada/move", &[], body).await.is_ok()
        });
        tokio::time::sleep(Duration::from_millis(chance.below(260))).await;
        mover.kill();
        cut += usize::from(!asking.await.expect("a call"));
        settled(&world).await;
    }
    stop.send_replace(true);
    let count = talk.await.expect("a writer")[0];
    whole(&wire, "ada", count).await;
    world.here.assert_verified("b.sock", "ada");
    in_their_places(&world, &wire).await;
    println!("{cut} moves were cut off; {count} messages");
    assert!(cut > 0, "no kill met a move");
}

async fn listed_place(wire: &Wire, agent: &str) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        // During a move there is a moment in which no database lists the agent.
        if let Some(place) = listed(wire).await.get(agent) {
            return place.clone();
        }
        assert!(Instant::now() < until, "{agent} is nowhere");
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until no agent is moving.
async fn settled(world: &World) {
    let until = Instant::now() + PATIENCE;
    let query = "FOR d IN directory FILTER d.moving != null RETURN d";
    loop {
        let open = world.here.database().rows(query, json!({})).await;
        if open.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "a move does not end: {open:?}");
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_names_nobody_goes_on_where_its_agent_went() {
    if needs_an_engine_of_its_own(WHY) {
        return;
    }
    let world = World::begun().await;
    let answers = ["One.", "Two.", "Three.", "Four."].map(|text| json!({"text": text}));
    let model = Scripted::steps(&world.here, &answers).await;
    let mut tuning = world.tuning();
    tuning.environment.extend(model.tuning(&[]).environment);
    let _server = world.server_with("vctx.sock", &tuning).await;
    let wire = world.here.wire("vctx.sock");
    let mut history = Vec::new();
    let mut agent = None;
    for question in ["First?", "Second?", "Third?"] {
        history.push(json!({"role": "user", "content": question}));
        let body = json!({"model": "scripted", "messages": history}).to_string();
        let told = wire.call("POST", "/v1/chat/completions", &[], body).await.ok();
        history.push(told["choices"][0]["message"].clone());
        let places = listed(&wire).await;
        assert_eq!(places.len(), 1, "it began anew: {places:?}");
        let (name, place) = places.into_iter().next().expect("one");
        assert_eq!(*agent.get_or_insert(name.clone()), name);
        moved(&wire, &name, other(&place)).await;
    }
    // Its compaction is found there too.
    let said_item = |m: &Value| json!({"role": m["role"], "content": m["content"]});
    let items: Vec<Value> = history.iter().map(said_item).collect();
    let body = json!({"model": "scripted", "input": items}).to_string();
    let told = wire.call("POST", "/v1/responses/compact", &[], body).await.ok();
    let mut items = told["output"].as_array().expect("items").clone();
    items.push(json!({"role": "user", "content": "Fourth?"}));
    let body = json!({"model": "scripted", "input": items}).to_string();
    let told = wire.call("POST", "/v1/responses", &[], body).await.ok();
    let agent = agent.expect("an agent");
    assert_eq!(told["vctx"]["agent"], agent);
    let agent = Agent::at(wire.again(), &agent);
    let texts: Vec<String> =
        said(&agent.messages().await).into_iter().map(|(_, text)| text).collect();
    let expected = ["First?", "One.", "Second?", "Two.", "Third?", "Three.", "Fourth?", "Four."];
    assert_eq!(texts, expected);
    in_their_places(&world, &wire).await;
}
