//! Checks that the current program can import the export files and open the data directories that
//! the program of commit 1a69a55 wrote. `vctx verify` must accept the agents, and their prompts and
//! answers must be the same as before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::home::{Home, Process, Tuning};
use crate::outside::needs_an_engine_of_its_own;
use crate::talk::{Agent, assert_closed};

/// Name of the server's socket.
const SOCKET: &str = "vctx.sock";
/// Attributes of answers that may differ after an import, by the command's first word.
const VOLATILE: [(&str, &[&str]); 5] = [
    // The program that made the fixtures kept no ledger.
    ("verify", &["ledger", "missing", "places_away", "strays", "strays_more", "tombstones"]),
    // Each import gives the agent a new revision, and the old program knew one form of windows.
    ("state", &["_rev", "form", "outbound", "spending", "zone"]),
    // A new receipt names the current revision.
    ("context", &["_rev", "context_digest"]),
    // The value of `mode` depends on the settings of the server.
    ("quarantine", &["mode"]),
    // These attributes are positions in a result list. The positions may change, because views lag
    // after an import. The old program did not name the nearest messages.
    ("why", &["rank", "back", "note", "nearest"]),
];
/// The beginning of the line that shows the digest of a printed window, below the window.
const DIGEST: &str = "context digest ";
/// The beginning of the line that shows a tool call in a printed window.
const CALL: &str = "→ ";
/// Maximum number of differences that the test prints for one fixture.
const TOLD_MAX: usize = 5;

/// One command, and the output that the old binary printed.
#[derive(Clone, Deserialize)]
struct Told {
    command: Vec<String>,
    exit: i32,
    output: String,
}

/// The saved files of one agent.
#[derive(Clone)]
struct Fixture {
    folder: PathBuf,
    archive: String,
    told: Vec<Told>,
    /// Windows saved at several moments.
    windows: Vec<String>,
    /// Receipts of messages (position, digest and chain value), from the answers to appends.
    receipts: Vec<Value>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/1a69a55")
}

fn unpacked(path: &Path) -> String {
    let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    let read = GzDecoder::new(file).read_to_string(&mut text);
    read.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text
}

fn parsed<T: for<'a> Deserialize<'a>>(text: &str) -> Vec<T> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

impl Fixture {
    fn read(folder: &str) -> Fixture {
        let folder = root().join(folder);
        let text = |name: &str| unpacked(&folder.join(format!("{name}.jsonl.gz")));
        Fixture {
            archive: text("archive"),
            told: parsed(&text("told")),
            windows: text("windows").lines().map(str::to_owned).collect(),
            receipts: parsed(&text("receipts")),
            folder,
        }
    }

    /// Returns the agent's name, from the first line of the export file.
    fn agent(&self) -> String {
        let header: Value = parsed(self.archive.lines().next().expect("a first line")).remove(0);
        header["agent"].as_str().expect("a name").to_owned()
    }

    /// Imports the export file; returns the error if the server refuses the file.
    fn import(&self, home: &Home) -> Option<String> {
        let file = home.path("archive.jsonl");
        fs::write(&file, &self.archive).expect("a file");
        let (code, _, fault) = run(home, &["import", file.to_str().expect("a plain path")]);
        (code != 0).then_some(fault)
    }

    /// Returns the messages from the saved output of the command `messages`.
    fn messages(&self) -> Vec<Value> {
        let told = self.told.iter().find(|told| told.command[0] == "messages");
        parsed(&told.expect("the messages").output)
    }
}

/// Runs a command that asks the server; returns exit code, output and error output.
fn run(home: &Home, command: &[&str]) -> (i32, String, String) {
    let socket = home.path(SOCKET);
    let output =
        home.run(&[command, &["--socket", socket.to_str().expect("a plain path")]].concat());
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let code = output.status.code().expect("an exit code");
    (code, text(output.stdout), text(output.stderr))
}

/// Returns an answer without the attributes in `VOLATILE`, and with its other attributes sorted by
/// name.
fn kept(command: &[String], output: &str) -> String {
    let names = VOLATILE.iter().find(|(first, _)| *first == command[0]);
    let names = names.map_or(&[][..], |(_, names)| names);
    if !command.iter().any(|word| word == "--json") {
        let shown = output.split_once(DIGEST).map_or(output, |(before, _)| before);
        // The old program did not print the calls of an assistant's message.
        let lines = shown.split('\n').filter(|line| !line.starts_with(CALL));
        return lines.collect::<Vec<_>>().join("\n");
    }
    let mut values: Vec<Value> = parsed(output);
    for value in &mut values {
        strip(value, names);
        value.sort_all_objects();
    }
    values.iter().map(|value| format!("{value}\n")).collect()
}

fn strip(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(map) => {
            map.retain(|name, _| !names.contains(&name.as_str()));
            map.values_mut().for_each(|value| strip(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| strip(value, names)),
        _ => {}
    }
}

/// Returns the first position at which two texts differ, with excerpts of both; `None` if they are
/// equal.
fn parting(is: &str, was: &str) -> Option<String> {
    if is == was {
        return None;
    }
    let same = is.bytes().zip(was.bytes()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| {
        let bytes = &text.as_bytes()[same.saturating_sub(40).min(text.len())..];
        String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned()
    };
    Some(format!("byte {same}\n   is: {}\n  was: {}", part(is), part(was)))
}

/// Returns an export without the number of its schema, and without the digest of the whole file,
/// which covers this number.
fn schemaless(file: &str) -> String {
    let mut lines: Vec<String> = file.lines().map(str::to_owned).collect();
    let (last, mut ends) = (lines.len() - 1, [(0, "schema"), (0, "file")]);
    ends[1].0 = last;
    for (at, name) in ends {
        let mut line: Value = serde_json::from_str(&lines[at]).expect("a line of JSON");
        line.as_object_mut().expect("an object").remove(name);
        lines[at] = line.to_string();
    }
    lines.join("\n")
}

/// Returns the differences between two exports. Stored answers to calls expire after seven days, so
/// expired answers may be missing.
fn exports(is: &str, was: &str) -> Vec<String> {
    let (is, was) = (schemaless(is), schemaless(was));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_secs();
    let there: BTreeSet<&str> = is.lines().collect();
    let over = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("a line of JSON");
        row["in"] == "idempotency" && row["row"]["expires_at"].as_u64().is_some_and(|s| s <= now)
    };
    let (stay, gone): (Vec<&str>, Vec<&str>) =
        was.lines().partition(|line| there.contains(line) || !over(line));
    // The last line of an export contains the number of rows, so this line differs if rows are
    // missing.
    let last = usize::from(!gone.is_empty());
    let text = |lines: &[&str]| lines[..lines.len() - last].join("\n");
    let is: Vec<&str> = is.lines().collect();
    parting(&text(&is), &text(&stay)).map(|what| format!("export: {what}")).into_iter().collect()
}

/// Computes a SHA-256 digest in the test itself, so that the test does not rely on code of the
/// program.
fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs the fixture's commands again, or only those that assemble a prompt. Returns the differences
/// from the saved outputs.
fn commands(home: &Home, fixture: &Fixture, prompts_alone: bool) -> Vec<String> {
    let mut found = Vec::new();
    for told in &fixture.told {
        let mut command: Vec<&str> = told.command.iter().map(String::as_str).collect();
        let name = command.join(" ");
        // The saved output is from a version that showed texts in quarantine.
        if command[0] == "messages" {
            command.push("--originals");
        }
        let prompt = command[0] == "replay" && command.contains(&"--turn");
        if prompts_alone && !prompt {
            continue;
        }
        let (code, output, fault) = run(home, &command);
        if code != told.exit {
            found.push(format!("{name}: exit code {code}, was {}\n{output}{fault}", told.exit));
            continue;
        }
        if prompt {
            found.extend(replayed(&output, &told.output).map(|what| format!("{name}: {what}")));
        }
        if !prompts_alone {
            let (is, was) = (kept(&told.command, &output), kept(&told.command, &told.output));
            found.extend(parting(&is, &was).map(|what| format!("{name}: {what}")));
        }
    }
    found
}

/// Checks that a prompt is reassembled to the same bytes, and that these bytes match the record of
/// the prompt.
fn replayed(is: &str, was: &str) -> Option<String> {
    let (is, was): (Value, Value) = (parsed(is).remove(0), parsed(was).remove(0));
    if is["exact"] != was["exact"] {
        return Some(format!("exact: {}, was {}", is["exact"], was["exact"]));
    }
    if was["exact"] == false {
        return None;
    }
    let bytes = |value: &Value| value["request"].as_str().expect("the bytes").to_owned();
    let digest = sha256(&bytes(&is));
    let on_record = (digest != was["prompt"]["request_digest"])
        .then(|| format!("the digest {digest} is not the one on record"));
    parting(&bytes(&is), &bytes(&was)).or(on_record)
}

/// Compares the saved receipts with the current log; returns the differences.
async fn receipts(home: &Home, fixture: &Fixture, agent: &Agent) -> Vec<String> {
    let mut found = Vec::new();
    let messages: BTreeMap<u64, Value> = agent
        .messages()
        .await
        .into_iter()
        .map(|message| (message["seq"].as_u64().expect("a number"), message))
        .collect();
    for receipt in &fixture.receipts {
        let message = &messages[&receipt["seq"].as_u64().expect("a number")];
        for name in ["digest", "chain"] {
            if message[name] != receipt[name] {
                found.push(format!("{receipt}: {name} is {}", message[name]));
            }
        }
    }
    let file = home.path("receipt.json");
    for window in &fixture.windows {
        let mut window: Value = serde_json::from_str(window).expect("a receipt");
        // The command requests the messages of the agent that the attribute `agent` names. The
        // receipt's manifest still contains the agent's original name, from which the digests were
        // computed.
        window["agent"] = agent.name.as_str().into();
        fs::write(&file, window.to_string()).expect("a file");
        let asked = ["verify", "--receipt", file.to_str().expect("a plain path"), "--json"];
        let (code, output, fault) = run(home, &asked);
        if code != 0 || parsed::<Value>(&output)[0]["receipt"]["ok"] != true {
            found.push(format!("the receipt {}: {output}{fault}", window["context_digest"]));
        }
    }
    found
}

/// Returns all differences of an imported agent from its fixture.
async fn differences(home: &Home, fixture: &Fixture) -> Vec<String> {
    let agent = Agent::at(home.wire(SOCKET), &fixture.agent());
    let export = format!("{}/export", agent.path());
    let mut found = exports(&agent.wire.get(&export).await.text, &fixture.archive);
    found.extend(commands(home, fixture, false));
    found.extend(receipts(home, fixture, &agent).await);
    // The commands above changed nothing, so the export still equals the saved export file.
    found.extend(exports(&agent.wire.get(&export).await.text, &fixture.archive));
    found
}

fn assert_none(fixture: &Fixture, found: &[String]) {
    let told = found.iter().take(TOLD_MAX).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(found.is_empty(), "{}: {} differences\n{told}", fixture.folder.display(), found.len());
}

/// Starts an empty server of the current version, with the settings that the fixture needs.
async fn fresh(home: &Home, folder: &str) -> Process {
    let tuning = match folder {
        // Only a server with quarantine enabled shows quarantined texts.
        "tainted" => Tuning::variable("VCTX_TAINT__MODE", "quarantine"),
        "tenant" | "tenant-born" => Tuning::variable("VCTX_SERVER__TENANT", "acme"),
        _ => Tuning::default(),
    };
    home.serve_with(SOCKET, &tuning).await
}

/// Checks that an agent is imported from an export file without differences, that its export
/// contains the same rows, and that the agent accepts new messages.
async fn holds(folder: &str) {
    let (home, fixture) = (Home::new(), Fixture::read(folder));
    let _server = fresh(&home, folder).await;
    assert_eq!(fixture.import(&home), None);
    assert_none(&fixture, &differences(&home, &fixture).await);
    lives_on(&home, &fixture).await;
    told_in_closed_types(&home, &fixture).await;
    // The saved proof file can be verified without a server.
    let proof = home.path("proof.jsonl");
    fs::write(&proof, unpacked(&fixture.folder.join("proof.jsonl.gz"))).expect("a file");
    let output = home.run(&["verify", "--export", proof.to_str().expect("a plain path")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Checks that the events of the old program have the types and reasons of this program, and that
/// neither the list of events nor the score contains the entries that gave the agent its ledger.
async fn told_in_closed_types(home: &Home, fixture: &Fixture) {
    let agent = Agent::at(home.wire(SOCKET), &fixture.agent());
    let events = agent.wire.get(&format!("{}/events?limit=1000", agent.path())).await.ok();
    assert_closed(&events);
    let score = agent.wire.get(&format!("{}/conveyance?of=life", agent.path())).await.ok();
    let listed = events["events"].as_array().expect("events").len();
    if events["next_ts"].is_null() {
        assert_eq!(score["considered"]["events"], listed, "{}", fixture.folder.display());
    }
}

/// Checks that a script which creates the agent with its old settings goes on, that an append
/// continues the hash chain, and that the records of the agent's calls then have the keys of this
/// program version.
async fn lives_on(home: &Home, fixture: &Fixture) {
    let agent = Agent::at(home.wire(SOCKET), &fixture.agent());
    let state = agent.state().await;
    let mut body =
        json!({"context_window": state["context_window"], "encoding": state["encoding"]});
    if state["system"] != "" {
        body["system"] = state["system"].clone();
    }
    let again = agent.wire.put(&agent.path(), &body).await;
    assert_eq!((again.status, &again.body["form"]), (200, &state["form"]), "{}", again.text);
    agent.append("user", "It goes on.").await;
    let other = "FOR r IN idempotency
      FILTER r.agent_id == @agent AND r.key != null
      LET whole = SHA256(CONCAT(@agent, @nul, r.key))
      LET key = r.part == null ? whole : SHA256(CONCAT(whole, @nul, 'part', @nul, r.part))
      FILTER r._key != key OR NOT STARTS_WITH(r.key, 'sha256:')
      RETURN r.key";
    let binds = json!({"agent": agent.name, "nul": "\0"});
    assert_eq!(home.database_inside().rows(other, binds).await, Vec::<Value>::new());
    home.assert_verified(SOCKET, &agent.name);
}

macro_rules! held {
    ($($name:ident: $folder:literal,)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            holds($folder).await;
        })*

        /// The names of the folders with export files.
        const HELD: &[&str] = &[$($folder,)*];
    };
}

held! {
    messages_of_all_roles_and_scripts_with_flushes_are_what_they_were: "talk",
    copies_captured_calls_and_spooled_results_are_what_they_were: "recall",
    blocks_and_their_history_are_what_they_were: "blocks",
    documents_and_citations_are_what_they_were: "archive",
    vectors_of_a_model_are_what_they_were: "vectors",
    chains_of_heartbeats_with_all_ends_are_what_they_were: "beats",
    events_and_schedules_that_fired_are_what_they_were: "clock",
    prompts_of_a_caller_that_asks_its_model_itself_are_what_they_were: "prompts",
    windows_and_encodings_that_changed_are_what_they_were: "patched",
    runs_of_the_loop_are_what_they_were: "runs",
    runs_with_models_that_are_wrong_are_what_they_were: "rude",
    a_conversation_of_a_client_of_openai_is_what_it_was: "chat",
    a_branch_of_a_conversation_is_what_it_was: "chat-branch",
    a_branch_at_an_answer_is_what_it_was: "chat-second-branch",
    a_named_agent_of_clients_of_openai_is_what_it_was: "chat-named",
    tainted_text_and_its_release_are_what_they_were: "tainted",
    an_agent_that_was_moved_is_what_it_was: "moved",
    an_agent_that_was_moved_there_and_back_is_what_it_was: "moved-twice",
    what_is_left_of_what_was_forgotten_is_what_it_was: "forgotten",
    what_is_left_of_what_went_by_its_age_is_what_it_was: "expired",
    an_agent_under_a_second_name_is_what_it_was: "renamed",
    an_agent_that_came_to_another_tenant_is_what_it_was: "tenant",
    an_agent_of_another_tenant_is_what_it_was: "tenant-born",
    an_agent_with_nothing_in_it_is_what_it_was: "empty",
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_unfinished_keeps_its_messages_prompts_and_receipts_and_goes_on() {
    let (home, fixture) = (Home::new(), Fixture::read("unfinished"));
    let _server = fresh(&home, "unfinished").await;
    assert_eq!(fixture.import(&home), None);
    let agent = Agent::at(home.wire(SOCKET), &fixture.agent());
    let mut found = commands(&home, &fixture, true);
    found.extend(receipts(&home, &fixture, &agent).await);
    assert_none(&fixture, &found);
    // Background work after the import may add messages, but it changes no existing message.
    let (was, is) = (fixture.messages(), agent.messages().await);
    assert_eq!(is[..was.len()], was);
    home.assert_verified(SOCKET, &agent.name);
    lives_on(&home, &fixture).await;
    for moved in [vec![agent.name.as_str()], vec![]] {
        let (code, output, fault) = run(&home, &["agent", "upgrade", "--all", "--json"]);
        let told: Value = serde_json::from_str(&output).expect("an answer");
        assert_eq!(
            (code, &told["moved"], &told["failed"]),
            (0, &json!(moved), &json!([])),
            "{fault}"
        );
        assert_eq!(agent.state().await["form"], "2");
    }
    home.assert_verified(SOCKET, &agent.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn under_another_name_and_tenant_prompts_and_receipts_are_what_they_were() {
    for folder in ["prompts", "tenant-born"] {
        let (home, mut fixture) = (Home::new(), Fixture::read(folder));
        let _server = fresh(&home, "empty").await;
        let (file, name) = (home.path("archive.jsonl"), fixture.agent());
        fs::write(&file, &fixture.archive).expect("a file");
        let import = ["import", file.to_str().expect("a plain path"), "--as", "bea"];
        let (code, _, fault) = run(&home, &import);
        assert_eq!(code, 0, "{fault}");
        for word in fixture.told.iter_mut().flat_map(|told| &mut told.command) {
            if *word == name {
                *word = "bea".into();
            }
        }
        let mut found = commands(&home, &fixture, true);
        let bea = Agent::at(home.wire(SOCKET), "bea");
        found.extend(receipts(&home, &fixture, &bea).await);
        assert_none(&fixture, &found);
        home.assert_verified(SOCKET, "bea");
    }
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn data_directories_open_in_place_as_a_kill_a_stop_and_a_rewrite_left_them() {
    if needs_an_engine_of_its_own("opens a directory of the embedded engine") {
        return;
    }
    let fixture = Fixture::read("data");
    for left in ["killed", "stopped", "rewritten"] {
        let home = Home::new();
        let packed = fixture.folder.join(format!("{left}.tar.gz"));
        let unpack =
            Command::new("tar").arg("-xzf").arg(packed).arg("-C").arg(home.path("")).output();
        let unpack = unpack.expect("tar runs");
        assert!(unpack.status.success(), "{}", String::from_utf8_lossy(&unpack.stderr));
        for lives in [false, true] {
            let server = fresh(&home, "data").await;
            // If the data directory was rewritten, the first start builds the segments of views
            // again and logs this warning. All starts write to the same log, so the test permits
            // the warning for each of them.
            server.expect("the segments of a view are built again");
            assert_none(&fixture, &differences(&home, &fixture).await);
            if lives {
                lives_on(&home, &fixture).await;
            }
            assert!(server.stop().await.success());
        }
    }
}

#[test]
fn every_fixture_is_held_by_a_test_and_together_they_hold_rows_of_every_kind() {
    let entries = fs::read_dir(root()).expect("the fixtures").map(|entry| entry.expect("an entry"));
    let folders = entries.filter(|entry| entry.path().is_dir());
    let folders: BTreeSet<String> =
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let held = HELD.iter().chain(&["unfinished", "data"]).map(|name| (*name).to_owned());
    assert_eq!(folders, held.collect());
    let mut counts: Map<String, Value> = Map::new();
    for folder in &folders {
        let archive = Fixture::read(folder).archive;
        let trailer: Value = parsed(archive.lines().last().expect("a last line")).remove(0);
        for (kind, count) in trailer["counts"].as_object().expect("counts") {
            let sum = counts.get(kind).and_then(Value::as_u64).unwrap_or(0);
            counts.insert(kind.clone(), json!(sum + count.as_u64().expect("a number")));
        }
    }
    assert!(counts.values().all(|count| *count != 0), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_byte_that_changed_is_found_out() {
    let (home, fixture) = (Home::new(), Fixture::read("prompts"));
    let _server = fresh(&home, "prompts").await;
    let mut touched = fixture.clone();
    touched.archive = changed(&fixture.archive, "Question 7", "Question 8");
    let fault = touched.import(&home).expect("a refusal");
    assert!(fault.contains("is not what its digest was made of"), "{fault}");
    assert_eq!(fixture.import(&home), None);
    assert_none(&fixture, &differences(&home, &fixture).await);
    // The comparison must detect a changed, a missing and an extra line of the export.
    let lines: Vec<&str> = fixture.archive.lines().collect();
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat().join("\n");
    assert!(!exports(&touched.archive, &fixture.archive).is_empty());
    assert!(!exports(&without(9), &fixture.archive).is_empty());
    assert!(!exports(&fixture.archive, &without(9)).is_empty());
    // A stored answer to a call may be missing only if it has expired.
    let answer = lines.iter().find(|line| line.starts_with("{\"in\":\"idempotency\""));
    let mut answer: Value = parsed(answer.expect("an answer")).remove(0);
    for (expires_at, same) in [(1_u64, true), (u64::MAX, false)] {
        answer["row"]["expires_at"] = expires_at.into();
        let was = format!("{}\n{answer}\n{}", lines[0], lines[1]);
        assert_eq!(exports(&format!("{}\n{}", lines[0], lines[1]), &was).is_empty(), same);
    }
    // The comparison must detect one changed value in each command's output.
    for (first, from, to) in [
        ("verify", "\"messages\":7", "\"messages\":8"),
        ("state", "\"version\":1", "\"version\":2"),
        ("context", "Be brief", "Be grief"),
        ("messages", "Question 7", "Question 8"),
        ("history", "Be brief", "Be grief"),
        ("replay", "Question 7", "Question 8"),
        ("why", "\"exactly\"", "\"exactlx\""),
    ] {
        let mut touched = fixture.clone();
        touched.told.retain(|told| told.command[0] == first && told.output.contains(from));
        for told in &mut touched.told {
            told.output = changed(&told.output, from, to);
        }
        let found = commands(&home, &touched, false);
        assert!(
            !touched.told.is_empty() && found.len() >= touched.told.len(),
            "{first}: {found:?}"
        );
    }
    let agent = Agent::at(home.wire(SOCKET), &fixture.agent());
    let mut touched = fixture.clone();
    touched.receipts[3]["chain"] = fixture.receipts[4]["chain"].clone();
    touched.windows[0] = changed(&fixture.windows[0], "o200k_base", "o200k_bass");
    assert_eq!(receipts(&home, &touched, &agent).await.len(), 2);
}

/// Returns a text with one occurrence of `from` replaced by `to`.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in it");
    text.replacen(from, to, 1)
}
