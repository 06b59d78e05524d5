//! Plants a unique text in every field that a caller can set, and searches for these texts where
//! none may be: in the database and its files after a forget operation, in answers, logs, metrics
//! and process arguments.
//!
//! The calls are in `planted.json`: `@` is a new text each time, `<name>` the same text each time.
//! A test compares their fields with the served description of the API.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use vctx::memory::stored::{self, Holds, Selection};

use crate::database::Database;
use crate::home::{Home, Process};
use crate::outside::needs_an_engine_of_its_own;
use crate::scripted::Scripted;
use crate::talk::Agent;
use crate::wire::{Answer, Wire};

/// The calls that plant texts.
const CALLS: &str = include_str!("planted.json");
/// The beginning of every planted text.
const CANARY: &str = "zq7c";
/// Fields in which no call plants a text, and why.
const UNPLANTED: &[(&str, &str)] = &[
    ("cites.[]", "ids of chunks that exist"),
    ("late_chunking.model", "needs vectors of the caller; always the name of the configured model"),
    ("late_chunking.document_sha256", "a digest"),
    ("model_id", "must be the database's model"),
    ("embedding_version", "must be the database's version"),
    ("chunks.[].freshness_ts", "a time"),
    ("chunks.[].provenance.message_ids.[]", "ids of messages that exist"),
    ("provenance.message_ids.[]", "ids of messages that exist"),
    ("part.upload", "needs vectors of the caller; every forget operation removes all parts"),
    ("after", "a time"),
    ("time_filter", "a time"),
    ("pack", "the digest of a context pack that exists"),
    ("zone", "must be the name of a time zone"),
    ("before", "a time"),
    ("text.format.type", "a word of the API"),
    ("tool_choice", "a word of the API"),
    ("tool_choice.name", "the name of an offered tool"),
    ("messages.[].content", "the text of each role"),
    ("model", "a model that the server offers; the calls of `/prompts` plant one"),
    ("", "an export file"),
];
/// Stored texts that the calls do not fill, and why.
const UNFILLED: &[(&str, &str)] = &[
    ("archival_manifests.late_chunking", "needs vectors of the caller"),
    ("archival_manifests.embedding_version", "the configured model's"),
    ("archival_manifests.model_id", "the configured model's"),
    ("archival_docs.embedding_version", "the configured model's"),
    ("archival_docs.model_id", "the configured model's"),
    ("cites.chunk_id", "needs a chunk that exists"),
    ("cites.doc_id", "needs a chunk that exists"),
    ("core_memory.run", "the run has ended"),
    ("core_memory.asked", "the prompt has its answer"),
    ("prompts.owner", "a server's name"),
    ("prompts.notices", "only words of the server"),
    ("prompts.open_calls", "every call has its result"),
    (
        "idempotency.key",
        "a digest; `tests/it/forgotten.rs` has a key of an earlier program version",
    ),
    ("schedules.running", "the schedule has not fired"),
];

/// The planted texts, each with the place where it was planted.
#[derive(Default)]
struct Planted {
    places: BTreeMap<String, String>,
    named: BTreeMap<String, String>,
}

impl Planted {
    fn next(&mut self, place: &str) -> String {
        let canary = format!("{CANARY}{:03}x", self.places.len());
        self.places.insert(canary.clone(), place.to_owned());
        canary
    }

    /// Returns a text in which planted texts replace the placeholders.
    fn text(&mut self, text: &str, place: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['@', '<']) {
            out.push_str(&rest[..at]);
            if rest[at..].starts_with('@') {
                out.push_str(&self.next(place));
                rest = &rest[at + 1..];
                continue;
            }
            let end = rest[at..].find('>').expect("the end of a name") + at;
            let name = rest[at + 1..end].to_owned();
            if !self.named.contains_key(&name) {
                let canary = self.next(place);
                self.named.insert(name.clone(), canary);
            }
            out.push_str(&self.named[&name]);
            rest = &rest[end + 1..];
        }
        out + rest
    }

    fn value(&mut self, value: &Value, place: &str) -> Value {
        match value {
            Value::String(text) => self.text(text, place).into(),
            Value::Array(all) => all.iter().map(|one| self.value(one, place)).collect(),
            Value::Object(map) => {
                let filled = map.iter().map(|(name, value)| {
                    let place = format!("{place} {name}");
                    (self.text(name, &place), self.value(value, &place))
                });
                filled.collect::<Map<_, _>>().into()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Makes all calls for one agent.
    async fn plant(&mut self, wire: &Wire, agent: &str) {
        for call in calls() {
            let line = call["call"].as_str().expect("a call");
            let (method, path) = line.split_once(' ').expect("a method");
            let path = self.text(&path.replace("{agent}", agent), line);
            let mut body = self.value(&call["body"], line);
            if let Some(id) = call["capture"].as_str() {
                body["capture"] = json!({"tool_call_id": self.text(id, line)});
            }
            let key = call["key"].as_str().map_or_else(crate::talk::key, str::to_owned);
            let key = self.text(&key, line);
            let headers = [("idempotency-key", key.as_str()), ("if-match", "*")];
            let told = wire.call(method, &path, &headers, body.to_string()).await;
            let refused = call["refused"] == true;
            assert_eq!(told.status >= 400, refused, "{line} {body}\n{}", told.text);
            assert!(told.status < 500, "{line}\n{}", told.text);
        }
    }

    /// Names the places whose texts are in a text.
    fn found(&self, text: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        for (at, _) in text.match_indices(CANARY) {
            let canary = text.get(at..at + CANARY.len() + 4);
            let place = canary.and_then(|canary| self.places.get(canary));
            found.insert(place.map_or("a text of another agent", String::as_str));
        }
        found
    }

    fn assert_none(&self, text: &str, place: &str) {
        assert!(self.found(text).is_empty(), "{place}: {:#?}\n{text}", self.found(text));
    }
}

fn calls() -> Vec<Value> {
    serde_json::from_str(CALLS).expect("JSON")
}

/// Returns the target of a reference in the description of the API.
fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    match schema["$ref"].as_str() {
        Some(path) => {
            resolved(document, document.pointer(&path[1..]).expect("the target of a reference"))
        }
        None => schema,
    }
}

/// Whether texts with this pattern may contain a planted text.
fn takes_any(pattern: &str) -> bool {
    pattern.is_empty() || ["A-Za-z0-9", "^\\s", "u0000"].iter().any(|part| pattern.contains(part))
}

/// Adds the paths of all fields of a schema that take any text.
fn fields(document: &Value, schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let schema = resolved(document, schema);
    let below = |name: &str| if path.is_empty() { name.into() } else { format!("{path}.{name}") };
    let is = |kind: &str| {
        schema["type"] == kind
            || schema["type"].as_array().is_some_and(|all| all.iter().any(|one| one == kind))
    };
    let fixed = schema.get("enum").is_some() || schema.get("const").is_some();
    if is("string") && !fixed && takes_any(schema["pattern"].as_str().unwrap_or_default()) {
        found.insert(path.to_owned());
    }
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        fields(document, of, &below(name), found);
    }
    if schema["items"].is_object() {
        fields(document, &schema["items"], &below("[]"), found);
    }
    for name in ["anyOf", "oneOf", "allOf"] {
        for of in schema[name].as_array().into_iter().flatten() {
            fields(document, of, path, found);
        }
    }
}

/// Adds the paths of all fields in which a body plants a text.
fn planted_fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    let below = |name: &str| if path.is_empty() { name.into() } else { format!("{path}.{name}") };
    match value {
        Value::String(text) if text.contains(['@', '<']) => drop(found.insert(path.to_owned())),
        Value::Array(all) => {
            all.iter().for_each(|one| planted_fields(one, &below("[]"), found));
        }
        Value::Object(map) => {
            map.iter().for_each(|(name, one)| planted_fields(one, &below(name), found));
        }
        _ => {}
    }
}

#[tokio::test]
async fn a_text_is_planted_in_every_field_that_takes_one() {
    let home = Home::new();
    let _server = home.serve().await;
    let document = home.wire("vctx.sock").get("/v1/openapi.json").await.ok();
    let mut planted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for call in calls() {
        let line = call["call"].as_str().expect("a call").to_owned();
        let line = line
            .split_once("/schedules/")
            .map_or(line.clone(), |(before, _)| format!("{before}/schedules/{{name}}"));
        let line = line.replace("/prompts/1/", "/prompts/{turn}/");
        let line = line.replace("/users/@/", "/users/{user}/");
        planted_fields(&call["body"], "", planted.entry(line).or_default());
    }
    let mut seen = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let body = resolved(&document, &operation["requestBody"]);
            let mut takes = BTreeSet::new();
            for (_, content) in body["content"].as_object().into_iter().flatten() {
                fields(&document, &content["schema"], "", &mut takes);
            }
            // A route without an agent is the same as the route with the agent in its path.
            let below = if path.starts_with("/v1/messages") { "anthropic/v1/" } else { "" };
            let agents = path.replacen("/v1/", &format!("/v1/agents/{{agent}}/{below}"), 1);
            let parts = ["/agents/", "/users/", "/v1/embeddings"];
            let is_own = parts.iter().any(|part| path.contains(part));
            let own = if is_own { path.clone() } else { agents };
            let line = format!("{} {own}", method.to_uppercase());
            let has = planted.get(&line).cloned().unwrap_or_default();
            // A forget operation leaves the names of agents.
            let of_agent = path.ends_with("/rename") || path.ends_with("/clone");
            let excused = |field: &String| {
                field == "capture.tool_call_id"
                    || of_agent
                    || UNPLANTED.iter().any(|(one, _)| one == field)
            };
            seen += takes.len();
            let missing: Vec<&String> =
                takes.iter().filter(|field| !has.contains(*field) && !excused(field)).collect();
            assert!(missing.is_empty(), "{line} has fields without a planted text: {missing:?}");
        }
    }
    assert!(seen > 100, "only {seen} fields: the description was not read");
}

/// Returns the names of the collections of the database.
async fn collections(database: &Database) -> Vec<String> {
    let names = "FOR c IN COLLECTIONS() FILTER !STARTS_WITH(c.name, '_') SORT c.name RETURN c.name";
    let names = database.rows(names, json!({})).await;
    names.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
}

/// Fails if a row has an attribute without a line in the list of stored attributes.
pub(crate) async fn assert_listed(database: &Database) {
    for collection in collections(database).await {
        let query = format!(
            "FOR d IN {collection} FOR name IN ATTRIBUTES(d) FILTER name NOT IN ['_id', '_rev'] RETURN DISTINCT name"
        );
        for name in database.rows(&query, json!({})).await {
            let name = name.as_str().expect("a name");
            let line = stored::stored(&collection, name);
            assert!(
                line.is_some(),
                "src/core/memory/stored.rs has no line for {collection}.{name}"
            );
        }
    }
}

/// Returns all rows of all collections as text, by collection and attribute.
async fn texts(database: &Database) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for collection in collections(database).await {
        let query = format!("FOR d IN {collection} RETURN d");
        for row in database.rows(&query, json!({})).await {
            for (name, value) in row.as_object().expect("a row") {
                all.entry(format!("{collection}.{name}")).or_default().push_str(&value.to_string());
            }
        }
    }
    all
}

/// Asks every route that only reads, and returns each path with its answer.
pub(crate) async fn answers(wire: &Wire, agent: &str) -> Vec<(String, Answer)> {
    let document = wire.get("/v1/openapi.json").await.ok();
    let mut told = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        if methods.get("get").is_none() {
            continue;
        }
        let query = match path.rsplit('/').next() {
            Some("trace") => "?from=agent",
            Some("why") => "?turn=1",
            Some("changes") => "?after=0&wait=false",
            Some("messages" | "events" | "history" | "prompts") => "?limit=200",
            _ => "",
        };
        let path = path.replace("{agent}", agent).replace("{name}", "bell").replace("{turn}", "1");
        let path = format!("{path}{query}");
        let answer = wire.get(&path).await;
        told.push((path, answer));
    }
    assert!(told.len() > 20, "only {} routes", told.len());
    told
}

/// Returns the files below a directory.
fn files(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

/// Returns the planted texts in the files below a directory, by file.
fn in_files(home: &Home, planted: &Planted) -> Vec<(String, String)> {
    let mut all = Vec::new();
    files(&home.path(""), &mut all);
    let mut found = Vec::new();
    for path in all {
        let bytes = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let places = planted.found(&text);
        if !places.is_empty() {
            found.push((path.display().to_string(), format!("{places:?}")));
        }
    }
    found
}

/// Fails if a log line, a metric or a process shows a planted text.
async fn assert_quiet(home: &Home, server: &Process, planted: &Planted) {
    planted.assert_none(&server.said(), "the log");
    let metrics = home.wire("metrics.sock").get("/metrics").await;
    assert!(metrics.text.contains("vctx_"), "{}", metrics.text);
    planted.assert_none(&metrics.text, "the metrics");
    for file in ["cmdline", "environ", "comm"] {
        let path = format!("/proc/{}/{file}", server.id());
        let bytes = fs::read(&path).expect("a file of the kernel");
        planted.assert_none(&String::from_utf8_lossy(&bytes), &path);
    }
}

async fn forget(wire: &Wire, agent: &str, asked: &Value) -> Value {
    let key = crate::talk::key();
    let headers = [("idempotency-key", key.as_str()), ("if-match", "*")];
    let path = format!("/v1/agents/{agent}/forget");
    wire.call("POST", &path, &headers, asked.to_string()).await.ok()
}

/// Starts a server with a scripted model.
async fn served(home: &Home) -> (Scripted, Process) {
    let steps = [json!({"text": "Very well.", "repeat": true})];
    let model = Scripted::steps(home, &steps).await;
    let server = home.serve_with("vctx.sock", &model.tuning(&[])).await;
    (model, server)
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_text_is_in_no_row_no_answer_no_log_and_no_file() {
    if needs_an_engine_of_its_own("it looks into the files of the database") {
        return;
    }
    let home = Home::new();
    let (model, server) = served(&home).await;
    let wire = home.wire("vctx.sock");
    let mut planted = Planted::default();
    planted.plant(&wire, "ada").await;
    let database = home.database_inside();
    assert_listed(&database).await;
    // Each attribute that may hold a text holds one before, so that the search afterwards proves
    // something.
    let before = texts(&database).await;
    for one in stored::attributes().filter(|one| one.stored && one.holds == Holds::Text) {
        let place = format!("{}.{}", one.collection, one.name);
        let goes = one.query(Selection::Match).is_some();
        let unfilled = UNFILLED.iter().any(|(name, _)| *name == place);
        let temporary = ["forgets", "archival_parts"].contains(&one.collection);
        let text = before.get(&place).map_or("", String::as_str);
        if goes && !unfilled && !temporary {
            assert!(text.contains(CANARY), "no text was planted in {place}");
        }
    }
    for (place, text) in &before {
        let (collection, name) = place.split_once('.').expect("a place");
        let line = stored::stored(collection, name);
        let holds = line.is_some_and(|line| line.holds == Holds::Text);
        assert!(holds || !text.contains(CANARY), "{place} holds a text: {:?}", planted.found(text));
    }
    assert_quiet(&home, &server, &planted).await;
    for (path, _) in in_files(&home, &planted) {
        let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
        let own = path.contains("model.jsonl");
        let is_private =
            |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o077 == 0;
        let inside = Path::new(&path).ancestors().take_while(|above| *above != home.path(""));
        let closed = inside.map(Path::to_path_buf).any(|above| is_private(&above));
        assert!(own || closed, "{path} has the mode {mode:o} and holds a text");
    }

    planted.plant(&wire, "bea").await;
    let asked = json!({"match": CANARY, "blocks": true});
    let told = forget(&wire, "ada", &asked).await;
    assert_eq!(told["state"], "done", "{told:#}");
    planted.assert_none(&told.to_string(), "the manifest");
    home.assert_verified("vctx.sock", "ada");
    let told = forget(&wire, "bea", &json!({"all": true})).await;
    assert_eq!(told["state"], "done", "{told:#}");
    for (place, text) in texts(&database).await {
        planted.assert_none(&text, &place);
    }
    for (path, answer) in answers(&wire, "ada").await {
        planted.assert_none(&answer.text, &path);
    }
    for (tool, arguments) in [
        ("search_recall", json!({"query": "berth"})),
        ("search_archival", json!({"query_text": "berth"})),
    ] {
        let agent = Agent::at(wire.again(), "ada");
        let found = agent.done(tool, &arguments).await;
        planted.assert_none(&found.to_string(), tool);
    }
    assert_quiet(&home, &server, &planted).await;
    server.expect("the segments of a view are built again");
    server.stop().await;
    drop(model);
    fs::remove_file(home.path("model.jsonl")).expect("the model's own log");
    let engine = home.path("data").join("engine");
    arango_embedded::rewrite(&engine, &mut |_| ()).expect("a rewrite");
    assert_eq!(in_files(&home, &planted), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_of_changes_shows_no_text_that_was_ever_planted() {
    let home = Home::new();
    let (_model, _server) = served(&home).await;
    let wire = home.wire("vctx.sock");
    let mut planted = Planted::default();
    planted.plant(&wire, "ada").await;
    let feed = wire.get("/v1/agents/ada/changes?after=0&wait=false").await;
    assert_eq!(feed.status, 200, "{}", feed.text);
    assert!(feed.text.matches("event: change").count() > 20, "{}", feed.text);
    planted.assert_none(&feed.text, "the feed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_forgotten_by_position_takes_its_names_with_it() {
    let home = Home::new();
    let (_model, _server) = served(&home).await;
    let wire = home.wire("vctx.sock");
    let mut planted = Planted::default();
    planted.plant(&wire, "ada").await;
    let ada = Agent::at(wire.again(), "ada");
    let seqs: Vec<u64> = (1..=ada.messages().await.len() as u64).collect();
    let told = forget(&wire, "ada", &json!({"seqs": seqs})).await;
    assert_eq!(told["state"], "done", "{told:#}");
    let of_messages = ["append_fifo", "/events", "write_recall", "send_message", "/runs"];
    for (place, text) in texts(&home.database_inside()).await {
        let left = planted.found(&text);
        let left: Vec<&&str> =
            left.iter().filter(|one| of_messages.iter().any(|part| one.contains(part))).collect();
        let other = place.starts_with("prompts.") || place.starts_with("tool_sets.");
        assert!(left.is_empty() || other, "{place}: {left:?}");
    }
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_counts_what_goes_and_changes_nothing() {
    let home = Home::new();
    let (_model, _server) = served(&home).await;
    let wire = home.wire("vctx.sock");
    let mut planted = Planted::default();
    for agent in ["ada", "bea"] {
        planted.plant(&wire, agent).await;
    }
    let database = home.database_inside();
    let before = texts(&database).await;
    let asked = json!({"match": CANARY, "blocks": true, "dry_run": true});
    let preview = forget(&wire, "ada", &asked).await;
    let whole = forget(&wire, "bea", &json!({"all": true, "dry_run": true})).await;
    assert_eq!(texts(&database).await, before, "a preview changes nothing");
    assert_eq!((&preview["summary"], &whole["summary"]), (&json!(true), &json!(true)));
    assert!(preview["kinds"]["copy"].as_u64() > Some(0), "{preview:#}");
    let count = async |collection: &str, agent: &str| -> u64 {
        let query = format!(
            "RETURN LENGTH(FOR d IN {collection} FILTER d.agent_id == @agent OR d._key == @agent OR d._from == @core RETURN 1)"
        );
        let binds = json!({"agent": agent, "core": format!("core_memory/{agent}")});
        database.row(&query, binds).await.as_u64().expect("a number")
    };
    let removed =
        ["recall_log", "archival_docs", "archival_manifests", "pages", "schedules", "tool_sets"];
    let mut stood = BTreeMap::new();
    for name in removed {
        stood.insert(name, count(name, "ada").await);
    }
    let told = forget(&wire, "ada", &json!({"match": CANARY, "blocks": true})).await;
    for name in removed {
        let gone = stood[name] - count(name, "ada").await;
        assert_eq!(preview["places"][name].as_u64().unwrap_or(0), gone, "{name}");
    }
    for name in ["messages", "core_versions", "prompts"] {
        assert_eq!(preview["places"][name], told["counts"][name], "{name}: {told:#}");
    }
    // The operation removes each document by a call, whose answer names the document and goes too.
    let answers = |value: &Value| value["idempotency"].as_u64().expect("a number");
    let documents = preview["documents"].as_array().expect("documents").len() as u64;
    assert_eq!(answers(&preview["places"]) + documents, answers(&told["counts"]), "{told:#}");
    let told = forget(&wire, "bea", &json!({"all": true})).await;
    for name in ["messages", "prompts", "archival_docs", "archival_manifests"] {
        assert_eq!(whole["places"][name], told["counts"][name], "{name}: {told:#}");
    }
}
