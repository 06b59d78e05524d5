//! What commit 1a69a55 exported and kept on disk imports, opens, verifies and replays as then.

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
use crate::talk::Agent;

/// Name of the server's socket.
const SOCKET: &str = "vctx.sock";
/// Attributes of an answer that are not the agent's own, by the command's first word.
const VOLATILE: [(&str, &[&str]); 4] = [
    // The database gives a revision with every import.
    ("state", &["_rev"]),
    // A receipt of now is of the revision of now.
    ("context", &["_rev", "context_digest"]),
    // A setting of the server.
    ("quarantine", &["mode"]),
    // Places in a list of results: views lag behind an import, and the ranking may change.
    ("why", &["rank", "back"]),
];
/// Begins the line of figures under a window that is printed.
const DIGEST: &str = "context digest ";
/// Differences of one fixture that are printed.
const TOLD_MAX: usize = 5;

/// One command and what it said in its day.
#[derive(Clone, Deserialize)]
struct Told {
    command: Vec<String>,
    exit: i32,
    output: String,
}

/// What is kept of one agent.
#[derive(Clone)]
struct Fixture {
    folder: PathBuf,
    archive: String,
    told: Vec<Told>,
    /// Windows as they were saved at several moments.
    windows: Vec<String>,
    /// Place, digest and chain of messages, as appends told them.
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

    /// The agent's name.
    fn agent(&self) -> String {
        let header: Value = parsed(self.archive.lines().next().expect("a first line")).remove(0);
        header["agent"].as_str().expect("a name").to_owned()
    }

    /// Takes the archive in; what was wrong with it, if it is refused.
    fn import(&self, home: &Home) -> Option<String> {
        let file = home.path("archive.jsonl");
        fs::write(&file, &self.archive).expect("a file");
        let (code, _, fault) = run(home, &["import", file.to_str().expect("a plain path")]);
        (code != 0).then_some(fault)
    }

    /// The answer of a command on the messages, one for each.
    fn messages(&self) -> Vec<Value> {
        let told = self.told.iter().find(|told| told.command[0] == "messages");
        parsed(&told.expect("the messages").output)
    }
}

/// Exit code, output and faults of a command that asks the server.
fn run(home: &Home, command: &[&str]) -> (i32, String, String) {
    let socket = home.path(SOCKET);
    let output =
        home.run(&[command, &["--socket", socket.to_str().expect("a plain path")]].concat());
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let code = output.status.code().expect("an exit code");
    (code, text(output.stdout), text(output.stderr))
}

/// An answer without what is not the agent's own, its attributes in one order.
fn kept(command: &[String], output: &str) -> String {
    let names = VOLATILE.iter().find(|(first, _)| *first == command[0]);
    let names = names.map_or(&[][..], |(_, names)| names);
    if !command.iter().any(|word| word == "--json") {
        return output.split_once(DIGEST).map_or(output, |(before, _)| before).to_owned();
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

/// Where two texts part, with what stands there.
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

/// Where two exports part. Answers to calls live seven days, so older ones may be gone.
fn exports(is: &str, was: &str) -> Vec<String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_secs();
    let there: BTreeSet<&str> = is.lines().collect();
    let over = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("a line of JSON");
        row["in"] == "idempotency" && row["row"]["expires_at"].as_u64().is_some_and(|s| s <= now)
    };
    let (stay, gone): (Vec<&str>, Vec<&str>) =
        was.lines().partition(|line| there.contains(line) || !over(line));
    // The last line counts the rows that are there.
    let last = usize::from(!gone.is_empty());
    let text = |lines: &[&str]| lines[..lines.len() - last].join("\n");
    let is: Vec<&str> = is.lines().collect();
    parting(&text(&is), &text(&stay)).map(|what| format!("export: {what}")).into_iter().collect()
}

/// Of this file's own, so that no helper of the program vouches for it.
fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs each command again, or those alone that put together what was sent to a model.
fn commands(home: &Home, fixture: &Fixture, prompts_alone: bool) -> Vec<String> {
    let mut found = Vec::new();
    for told in &fixture.told {
        let command: Vec<&str> = told.command.iter().map(String::as_str).collect();
        let name = command.join(" ");
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

/// Whether a prompt is put together to the same bytes, and these are what is on record.
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

/// Holds receipts that were given out against the log of now.
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
        // The name to ask for. The name under the digests stays in the manifest.
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

/// What is not as it was of an agent that is there.
async fn differences(home: &Home, fixture: &Fixture) -> Vec<String> {
    let agent = Agent::at(home.wire(SOCKET), &fixture.agent());
    let export = format!("{}/export", agent.path());
    let mut found = exports(&agent.wire.get(&export).await.text, &fixture.archive);
    found.extend(commands(home, fixture, false));
    found.extend(receipts(home, fixture, &agent).await);
    // The commands left no trace.
    found.extend(exports(&agent.wire.get(&export).await.text, &fixture.archive));
    found
}

fn assert_none(fixture: &Fixture, found: &[String]) {
    let told = found.iter().take(TOLD_MAX).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(found.is_empty(), "{}: {} differences\n{told}", fixture.folder.display(), found.len());
}

/// A server of today with nothing in it.
async fn fresh(home: &Home, folder: &str) -> Process {
    let tuning = match folder {
        // What is held back is told by a server that holds back.
        "tainted" => Tuning::variable("VCTX_TAINT__MODE", "quarantine"),
        "tenant" | "tenant-born" => Tuning::variable("VCTX_SERVER__TENANT", "acme"),
        _ => Tuning::default(),
    };
    home.serve_with(SOCKET, &tuning).await
}

/// An archive imports, is what it was, exports the same, and lives on.
async fn holds(folder: &str) {
    let (home, fixture) = (Home::new(), Fixture::read(folder));
    let _server = fresh(&home, folder).await;
    assert_eq!(fixture.import(&home), None);
    assert_none(&fixture, &differences(&home, &fixture).await);
    lives_on(&home, &fixture).await;
    // The proof that was saved beside it needs no server.
    let proof = home.path("proof.jsonl");
    fs::write(&proof, unpacked(&fixture.folder.join("proof.jsonl.gz"))).expect("a file");
    let output = home.run(&["verify", "--export", proof.to_str().expect("a plain path")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// What is appended goes on with the chain.
async fn lives_on(home: &Home, fixture: &Fixture) {
    let agent = Agent::at(home.wire(SOCKET), &fixture.agent());
    agent.append("user", "It goes on.").await;
    home.assert_verified(SOCKET, &agent.name);
}

macro_rules! held {
    ($($name:ident: $folder:literal,)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            holds($folder).await;
        })*

        /// The folders of archives that are held so.
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
    // What happens by itself after the import only adds messages.
    let (was, is) = (fixture.messages(), agent.messages().await);
    assert_eq!(is[..was.len()], was);
    home.assert_verified(SOCKET, &agent.name);
    lives_on(&home, &fixture).await;
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
            // A rewrite leaves no segments, and each start adds to one log.
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
    // A line of the export that is another one, one that is not there, and one too many.
    let lines: Vec<&str> = fixture.archive.lines().collect();
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat().join("\n");
    assert!(!exports(&touched.archive, &fixture.archive).is_empty());
    assert!(!exports(&without(9), &fixture.archive).is_empty());
    assert!(!exports(&fixture.archive, &without(9)).is_empty());
    // Of answers to calls only those that are too old may be gone.
    let answer = lines.iter().find(|line| line.starts_with("{\"in\":\"idempotency\""));
    let mut answer: Value = parsed(answer.expect("an answer")).remove(0);
    for (expires_at, same) in [(1_u64, true), (u64::MAX, false)] {
        answer["row"]["expires_at"] = expires_at.into();
        let was = format!("{}\n{answer}\n{}", lines[0], lines[1]);
        assert_eq!(exports(&format!("{}\n{}", lines[0], lines[1]), &was).is_empty(), same);
    }
    // What commands told, each in one byte.
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

/// A text with another one in one place.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in it");
    text.replacen(from, to, 1)
}
