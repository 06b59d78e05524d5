//! Tests which requests `vctx proxy` allows and which it refuses. The requests are derived from the
//! engine's routes and from its parser; `bytes.rs` adds raw bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use arango_embedded::syntax::{Mentions, parse};
use serde_json::{Value, json};
use vctx::store::QUERIES;

use crate::archival::{circle, eager, index_becomes};
use crate::count;
use crate::database::Database;
use crate::home::{Home, Process, Tuning};
use crate::setup::setup;
use crate::standin::{Manner, StandIn, metric, proxy, proxy_begun};
use crate::talk::Agent;
use crate::wire::Answer;

mod bytes;

/// Source text of the engine's routes, from which the test reads all paths.
const ROUTES: &str = include_str!("../../embedded/src/http/routes.rs");
/// Methods that the test tries on every path.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// Methods other than GET, each with a path prefix, that a read-only proxy allows if the request's
/// body does not write.
const QUESTIONS: [(&str, &str); 5] = [
    ("POST", "/_api/cursor"),
    ("POST", "/_api/cursor/1"),
    ("PUT", "/_api/cursor/1"),
    ("DELETE", "/_api/cursor/1"),
    ("POST", "/_api/explain"),
];

/// An engine with the server's schema, and a read-only and a writing proxy in front of it.
struct Stage {
    reads: Process,
    writes: Process,
    _engine: Process,
    home: Home,
}

impl Stage {
    async fn new() -> Stage {
        let home = Home::new();
        let engine = home.engine().await;
        let made = setup(&home, &home.path("engine.sock").display().to_string());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let usual = Tuning::default();
        let reads = proxy(&home, "ro", "ro.sock", "engine.sock", &usual).await;
        let writes = proxy(&home, "rw", "rw.sock", "engine.sock", &usual).await;
        Stage { reads, writes, _engine: engine, home }
    }

    /// Returns a client of the database through a proxy's socket, for a caller without an account.
    fn through(&self, socket: &str) -> Database {
        Database::new(&self.home.path(socket), &self.home.database().name, "nobody", "nothing")
    }

    /// Returns all state that a request could change: documents, definitions, users, open
    /// transactions.
    async fn state(&self) -> BTreeMap<String, Value> {
        let database = self.home.database();
        let mut state = BTreeMap::new();
        let listed = database.call("GET", "/_api/collection", &Value::Null).await.ok();
        for collection in listed["result"].as_array().expect("collections") {
            let name = collection["name"].as_str().expect("a name");
            for what in ["checksum?withRevisions=true&withData=true", "properties"] {
                let path = format!("/_api/collection/{name}/{what}");
                let told = database.call("GET", &path, &Value::Null).await.ok();
                state.insert(path, told);
            }
            let path = format!("/_api/index?collection={name}");
            let indexes = database.call("GET", &path, &Value::Null).await.ok();
            state.insert(path, indexes["indexes"].clone());
        }
        for path in ["/_api/view", "/_api/analyzer", "/_api/gharial", "/_api/transaction"] {
            state.insert(path.into(), database.call("GET", path, &Value::Null).await.ok());
        }
        for path in ["/_api/database", "/_api/user"] {
            state.insert(path.into(), database.system("GET", path, &Value::Null).await.ok());
        }
        state
    }
}

/// Checks that an answer is a refusal in ArangoDB's format.
#[track_caller]
fn assert_refused(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 403, "{what}: {}", answer.text);
    // The answer to HEAD has no body.
    if !answer.text.is_empty() {
        assert_eq!(answer.body["errorNum"], 11, "{what}: {}", answer.text);
        assert_eq!(answer.body["error"], true, "{what}");
        let message = answer.body["errorMessage"].as_str().expect("a message");
        assert!(message.starts_with("vctx proxy (r"), "{what}: {message}");
    }
}

/// Returns every path of the engine's routes, with sample names in place of the variables.
fn paths() -> BTreeSet<String> {
    let code = ROUTES.split("fn dispatch").nth(1).expect("the list");
    let code = code.split("fn unknown").next().expect("its end");
    let mut paths = BTreeSet::new();
    for (at, _) in code.match_indices(", [\"_") {
        let inside = code[at + 3..].split(']').next().expect("a pattern");
        // A pattern such as `kind @ ("vertex" | "edge")` matches each of its words, so each word
        // gives a path.
        let mut found = vec![String::new()];
        let mut rest = inside;
        while !rest.trim().is_empty() {
            let (segment, after) = match rest.find('(') {
                Some(open) if rest[..open].find(',').is_none() => {
                    let close = rest.find(')').expect("a closing bracket");
                    (&rest[open..close], rest[close + 1..].trim_start_matches(','))
                }
                _ => rest.split_once(',').unwrap_or((rest, "")),
            };
            rest = after;
            let quoted: Vec<&str> = segment.split('"').skip(1).step_by(2).collect();
            let words = match (quoted.is_empty(), segment.trim()) {
                (false, _) => quoted,
                (true, "c" | "name") => vec!["messages"],
                (true, "db") => vec!["vctx"],
                (true, "..") => vec!["x"],
                (true, _) => vec!["1"],
            };
            found = found
                .iter()
                .flat_map(|path| words.iter().map(move |word| format!("{path}/{word}")))
                .collect();
        }
        paths.extend(found);
    }
    // Paths that the engine handles before its routes, and paths of ArangoDB that the engine lacks.
    for path in [
        "/_open/auth",
        "/_admin/shutdown",
        "/_admin/execute",
        "/_admin/backup/create",
        "/_api/batch",
        "/_api/foxx",
        "/_api/aqlfunction",
        "/_api/simple/remove-by-example",
        "/_api/replication/restore-data",
        "/_api/wal/flush",
        "/_api/control_pregel",
        "/_api/cluster/maintenance",
        "/_db",
        "/anything",
    ] {
        paths.insert(path.to_owned());
    }
    paths
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_that_modifies_passes_for_reads_and_nothing_changes() {
    let stage = Stage::new().await;
    let paths = paths();
    assert!(paths.len() > 80, "{} paths: {paths:?}", paths.len());
    let before = stage.state().await;
    let (reads, writes) = (stage.home.wire("ro.sock"), stage.home.wire("rw.sock"));
    let body = json!({"name": "evil", "collections": {"write": ["messages"]}, "type": "persistent", "fields": ["a"],
        "user": "evil", "passwd": "x", "grant": "rw", "action": "function () {}", "query": "REMOVE 'a' IN messages"});
    let (mut refused, mut passed) = (0, BTreeSet::new());
    for path in &paths {
        for method in METHODS {
            for prefix in ["", "/_db/vctx"] {
                let target = format!("{prefix}{path}");
                let carried =
                    if ["GET", "HEAD"].contains(&method) { "".into() } else { body.to_string() };
                let headers =
                    [("authorization", "Basic eDp5"), ("content-type", "application/json")];
                let line = format!("{method} {target}");
                let answer = reads.call(method, &target, &headers, carried).await;
                let may_pass = method == "GET" || QUESTIONS.contains(&(method, path));
                if answer.status == 403 || !may_pass {
                    assert_refused(&answer, &line);
                    refused += 1;
                } else {
                    passed.insert(format!("{method} {path}"));
                }
                // No proxy mode allows writes to documents or users by their paths.
                if method != "GET"
                    && ["/_api/document", "/_api/user"].iter().any(|p| path.starts_with(p))
                {
                    let answer = writes.call(method, &target, &headers, body.to_string()).await;
                    assert_refused(&answer, &line);
                }
            }
        }
    }
    assert!(refused > 900, "{refused} refused");
    assert!(passed.iter().all(|line| line.starts_with("GET ")), "{passed:?}");
    for needed in ["GET /_api/version", "GET /_api/index", "GET /_api/database/current"] {
        assert!(passed.contains(needed), "{needed} does not pass: {passed:?}");
    }
    let after = stage.state().await;
    assert!(before.len() > 60, "{} parts of the state", before.len());
    assert_eq!(before, after);
    // Each kind of refusal is logged only once, without any text of the request.
    let said = stage.reads.said();
    assert_eq!(said.matches("reason=\"writes\"").count(), 1, "{said}");
    assert!(!said.contains("evil") && !said.contains("messages"), "{said}");
}

/// Generates modifying queries: each modifying statement, in each possible position and spelling.
fn modifying() -> Vec<String> {
    let statements = [
        "INSERT {a: 1} INTO messages",
        "INSERT {a: 1} INTO messages OPTIONS {overwriteMode: 'replace', waitForSync: true} RETURN NEW",
        "UPDATE 'k' WITH {a: 1} IN messages",
        "UPDATE {_key: 'k', a: 1} IN messages OPTIONS {ignoreRevs: false}",
        "REPLACE 'k' WITH {a: 1} IN messages",
        "REMOVE 'k' IN messages",
        "REMOVE {_key: 'k'} IN messages OPTIONS {exclusive: true} RETURN OLD",
        "UPSERT {a: 1} INSERT {a: 1} UPDATE {a: 2} IN messages",
        "UPSERT {a: 1} INSERT {a: 1} REPLACE {a: 2} IN messages",
    ];
    let places = [
        "@",
        "FOR d IN messages @",
        "FOR d IN messages FILTER d.a == 1 SORT d.a LIMIT 5 @",
        "LET s = (@) RETURN s",
        "LET s = (FOR d IN messages LET t = (@) RETURN t) RETURN s",
        "RETURN (@)",
        "RETURN {a: [1, {b: (@)}]}",
        "RETURN LENGTH((@))",
        "RETURN true ? 1 : (@)",
        "RETURN [1][* RETURN (@)]",
        "RETURN 'REMOVE' == FIRST((@))",
        "FOR d IN (@) RETURN d",
        "FOR d IN messages FILTER LENGTH((@)) > 0 RETURN d",
        "FOR d IN messages SORT (@) RETURN d",
        "FOR d IN messages LIMIT 1 COLLECT a = (@) RETURN a",
        "FOR v IN 1..2 OUTBOUND FIRST((@)) recall_log RETURN v",
        "LET a = 1 @ LET b = 2 RETURN b",
    ];
    let spellings: [fn(&str) -> String; 7] = [
        str::to_owned,
        str::to_lowercase,
        |text| {
            text.chars()
                .enumerate()
                .map(
                    |(at, c)| {
                        if at % 2 == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
                    },
                )
                .collect()
        },
        |text| text.replace(' ', " /* RETURN 1 // */ "),
        |text| text.replace(' ', " // harmless\n"),
        |text| text.replace(' ', "\u{a0}"),
        |text| text.replace(' ', "\t\r\n").replace("messages", "`messages`"),
    ];
    let mut texts = Vec::new();
    for statement in statements {
        for place in places {
            let text = place.replace('@', statement);
            texts.extend(spellings.iter().map(|spell| spell(&text)));
        }
    }
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_that_modifies_passes_for_reads_and_nothing_changes() {
    let stage = Stage::new().await;
    let (reads, direct) = (stage.through("ro.sock"), stage.home.database());
    let before = stage.state().await;
    let texts = modifying();
    assert!(texts.len() > 1_000, "{}", texts.len());
    let mut modify = 0;
    for (at, text) in texts.iter().enumerate() {
        let path = ["/_api/cursor", "/_api/explain"][at % 2];
        let answer = reads.call("POST", path, &json!({"query": text})).await;
        assert_refused(&answer, text);
        // The refusal is correct: the engine's plan of the query contains a node that writes.
        if at % 7 == 0 {
            let plan = direct.call("POST", "/_api/explain", &json!({"query": text})).await.text;
            let writes = ["InsertNode", "UpdateNode", "ReplaceNode", "RemoveNode", "UpsertNode"];
            modify += usize::from(writes.iter().any(|node| plan.contains(node)));
        }
    }
    assert!(modify > 60, "only {modify} of the texts modify by the engine's word");
    assert_eq!(before, stage.state().await);
    let refused = metric(&stage.home, "ro.sock", "vctx_proxy_refused_total", "").await;
    assert!(refused >= texts.len() as f64, "{refused} of {}", texts.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_of_the_server_that_reads_passes_and_no_other() {
    let stage = Stage::new().await;
    let (reads, writes) = (stage.through("ro.sock"), stage.through("rw.sock"));
    let (mut passed, mut refused) = (0, 0);
    for query in QUERIES.iter() {
        let mut mentions = Mentions::default();
        mentions.read(&parse(query.text).expect("a query"));
        let body = json!({"query": query.text});
        let answer = reads.call("POST", "/_api/cursor", &body).await;
        if mentions.modifies {
            assert_refused(&answer, query.name);
            // The writing proxy forwards the query; the database then explains it, or reports
            // missing bind parameters (1551).
            let answer = writes.call("POST", "/_api/explain", &body).await;
            assert!([200, 400].contains(&answer.status), "{}: {}", query.name, answer.text);
            refused += 1;
        } else {
            assert_ne!(answer.status, 403, "{}: {}", query.name, answer.text);
            assert!(
                answer.status == 201 || answer.status == 400,
                "{}: {}",
                query.name,
                answer.text
            );
            passed += 1;
        }
    }
    assert!(passed > 40 && refused > 20, "{passed} passed, {refused} refused");
    // A cursor works through the proxy: the next batch, a repeated batch, and the deletion of the
    // cursor.
    let body =
        json!({"query": "FOR i IN 1..5 RETURN i", "batchSize": 2, "options": {"allowRetry": true}});
    let first = reads.call("POST", "/_api/cursor", &body).await.ok();
    let next = format!("/_api/cursor/{}", first["id"].as_str().expect("an id"));
    let second = reads.call("POST", &next, &Value::Null).await.ok();
    assert_eq!(second["result"], json!([3, 4]));
    let again = format!("{next}/2");
    assert_eq!(reads.call("POST", &again, &Value::Null).await.ok()["result"], json!([3, 4]));
    assert_eq!(reads.call("DELETE", &next, &Value::Null).await.status, 202);
    assert_refused(&reads.call("POST", &next, &json!({"query": "RETURN 1"})).await, "a body");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_server_works_through_both_proxies() {
    let stage = Stage::new().await;
    let mut tuning = eager();
    // The credentials of the vctx server have no effect, because the proxies use their own.
    tuning.environment.push(("ARANGO_USER".into(), "stranger".into()));
    tuning.environment.push(("ARANGO_PASSWORD".into(), "wrong".into()));
    let server = stage.home.server("vctx.sock", "rw.sock", "ro.sock", &tuning).await;
    let ada = Agent::create(stage.home.wire("vctx.sock"), "ada", 1_024, "Be kind.").await;
    let mut flushed = false;
    for turn in 0..40 {
        let done = ada.append("user", format!("Turn {turn}: {}", count::words(20))).await;
        flushed |= done["flush"].is_object();
    }
    assert!(flushed, "nothing was evicted");
    ada.done("store_core", &json!({"block_id": "human", "content": "Likes sailing."})).await;
    ada.done(
        "write_recall",
        &json!({"entries": [{"content": "The blue boat is called Swallow."}]}),
    )
    .await;
    let found = ada.done("search_recall", &json!({"query": "blue boat"})).await;
    assert!(found.to_string().contains("Swallow"), "{found}");
    let bob = Agent::create(stage.home.wire("vctx.sock"), "bob", 8_192, "Be kind.").await;
    bob.done("ingest_archival", &circle("d", 0, 100, "cosine")).await;
    index_becomes(&bob, "ready").await;
    let near = bob.done("search_archival", &json!({"query_vector": [1.0, 0.0], "limit": 3})).await;
    assert_eq!(near["result"]["results"].as_array().map(Vec::len), Some(3), "{near}");
    ada.done("trace_memory", &json!({"from": "agent", "depth": 2})).await;
    for name in ["ada", "bob"] {
        stage.home.assert_verified("vctx.sock", name);
    }
    // The server has checked through the proxy whether the database requires authentication.
    assert!(server.said().contains("authentication is on"), "{}", server.said());
    assert!(server.stop().await.success());
    for socket in ["ro.sock", "rw.sock"] {
        let count = async |name, label| metric(&stage.home, socket, name, label).await;
        assert_eq!(count("vctx_proxy_refused_total", "").await, 0.0, "{socket}");
        assert!(count("vctx_proxy_requests_total", "passed").await > 10.0, "{socket}");
        assert!(count("vctx_proxy_seconds_count", "").await > 10.0, "{socket}");
        assert!(count("vctx_proxy_added_seconds_count", "").await > 10.0, "{socket}");
        assert_eq!(count("vctx_proxy_upstream_up", "").await, 1.0, "{socket}");
        assert_eq!(count("vctx_proxy_in_flight", "").await, 0.0, "{socket}");
    }
    for process in [&stage.reads, &stage.writes] {
        assert!(process.stop().await.success());
        assert!(!process.said().contains("Turn "), "{}", process.said());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn for_writes_all_passes_that_a_running_server_needs_and_no_more() {
    let stage = Stage::new().await;
    let (writes, reads) = (stage.through("rw.sock"), stage.through("ro.sock"));
    let begin = json!({"collections": {"write": ["messages"]}});
    assert_refused(&reads.call("POST", "/_api/transaction/begin", &begin).await, "begin");
    let begun = writes.call("POST", "/_api/transaction/begin", &begin).await.ok();
    let id = begun["result"]["id"].as_str().expect("an id").to_owned();
    let insert = json!({"query": "INSERT {_key: 'k', agent_id: 'a', seq: 1} INTO messages OPTIONS {} RETURN NEW._key"});
    let inside = writes.inside(&id, "POST", "/_api/cursor", &insert).await;
    assert!([201, 400].contains(&inside.status), "{}", inside.text);
    assert_refused(
        &reads.inside(&id, "POST", "/_api/cursor", &json!({"query": "RETURN 1"})).await,
        "inside",
    );
    let path = format!("/_api/transaction/{id}");
    assert_refused(&reads.call("DELETE", &path, &Value::Null).await, "abort");
    assert_eq!(writes.call("GET", &path, &Value::Null).await.ok()["result"]["status"], "running");
    assert_eq!(
        writes.call("DELETE", &path, &Value::Null).await.ok()["result"]["status"],
        "aborted"
    );
    for (method, path, body) in [
        ("POST", "/_api/transaction", json!({"collections": {}, "action": "function () {}"})),
        ("DELETE", "/_api/transaction/write", Value::Null),
        ("POST", "/_api/collection", json!({"name": "evil"})),
        ("PUT", "/_api/collection/messages/truncate", json!({})),
        ("DELETE", "/_api/collection/messages", Value::Null),
        ("POST", "/_api/view", json!({"name": "evil", "type": "arangosearch"})),
        ("POST", "/_api/document/messages", json!({"a": 1})),
        ("POST", "/_api/database", json!({"name": "evil"})),
        ("POST", "/_api/user", json!({"user": "evil"})),
        ("PUT", "/_api/user/vctx_rw/database/vctx", json!({"grant": "none"})),
        ("POST", "/_api/tasks", json!({"command": "1"})),
        ("POST", "/_api/aqlfunction", json!({"name": "a::b", "code": "1"})),
        ("PUT", "/_admin/server/mode", json!({"mode": "readonly"})),
        ("DELETE", "/_admin/shutdown", Value::Null),
        ("PUT", "/_admin/log/level", json!({"general": "trace"})),
        ("POST", "/_open/auth", json!({"username": "root", "password": "x"})),
        ("DELETE", "/_api/query/1", Value::Null),
    ] {
        assert_refused(&writes.call(method, path, &body).await, path);
    }
    for header in ["x-http-method-override", "x-arango-async", "content-encoding"] {
        let wire = stage.home.wire("rw.sock");
        let answer = wire.call("GET", "/_api/version", &[(header, "store")], "").await;
        assert_refused(&answer, header);
    }
    // The proxy ignores the caller's credentials. This proxy has no credentials of its own, so the
    // database refuses its requests.
    let wire = stage.home.wire("ro.sock");
    assert_eq!(wire.get("/_api/version").await.status, 401);
    let named = [("authorization", "Basic eDp5")];
    assert_eq!(wire.call("GET", "/_api/version", &named, "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_database_and_no_system_collection_is_written() {
    let stage = Stage::new().await;
    let before = stage.state().await;
    let named = [("authorization", "Basic eDp5"), ("content-type", "application/json")];
    let query = json!({"query": "RETURN 1"}).to_string();
    for socket in ["ro.sock", "rw.sock"] {
        let wire = stage.home.wire(socket);
        for (method, path, passes) in [
            ("GET", "/_db/vctx/_api/collection", true),
            ("GET", "/_db/_system/_api/collection", false),
            ("GET", "/_api/collection", false),
            ("GET", "/_db/_system/_api/version", false),
            ("GET", "/_api/version", true),
            ("POST", "/_db/vctx/_api/cursor", true),
            ("POST", "/_db/_system/_api/cursor", false),
            ("POST", "/_api/cursor", false),
        ] {
            let body = if method == "POST" { query.as_str() } else { "" };
            let answer = wire.call(method, path, &named, body.to_owned()).await;
            match passes {
                true => assert!(answer.status < 300, "{socket} {path}: {}", answer.text),
                false => assert_refused(&answer, &format!("{socket} {path}")),
            }
        }
    }
    let writes = stage.through("rw.sock");
    let bound =
        |value: Value| json!({"query": "INSERT {a: 1} INTO @@c", "bindVars": {"@c": value}});
    for (path, body) in [
        ("/_api/cursor", json!({"query": "INSERT {a: 1} INTO _graphs"})),
        ("/_api/cursor", json!({"query": "LET a = (REMOVE 'a' IN `_aqlfunctions`) RETURN a"})),
        ("/_api/cursor", json!({"query": "UPSERT {a: 1} INSERT {} UPDATE {} IN _jobs"})),
        ("/_api/explain", json!({"query": "INSERT {a: 1} INTO _analyzers"})),
        ("/_api/cursor", bound("_apps".into())),
        ("/_api/cursor", bound("17".into())),
        ("/_api/transaction/begin", json!({"collections": {"write": ["messages", "_queues"]}})),
        ("/_api/index?collection=_graphs", json!({"type": "persistent", "fields": ["a"]})),
    ] {
        assert_refused(&writes.call("POST", path, &body).await, path);
    }
    // A body that is too long for a repetition is checked too.
    let long =
        json!({"query": "INSERT {a: @a} INTO _graphs", "bindVars": {"a": "x".repeat(3 << 20)}});
    assert_refused(&writes.call("POST", "/_api/cursor", &long).await, "a long body");
    assert_eq!(before, stage.state().await);
    let long = json!({"query": "FOR i IN [] INSERT {a: @a} INTO messages", "bindVars": {"a": "x".repeat(3 << 20)}});
    writes.call("POST", "/_api/cursor", &long).await.ok();
}

const AT_ONCE: Manner = Manner::Answers(Duration::ZERO);

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_is_private_under_any_umask_and_the_directory_is_looked_at() {
    let home = Home::new();
    let _stand_in = StandIn::start(&home.path("db.sock"), AT_ONCE);
    for umask in ["000", "077"] {
        let open = Tuning {
            under: ["sh", "-c", &format!("umask {umask}; exec \"$@\""), "sh"]
                .map(str::to_owned)
                .into(),
            ..Tuning::default()
        };
        let listen = format!("own-{umask}/p.sock");
        let _proxy = proxy(&home, "ro", &listen, "db.sock", &open).await;
        let mode = |name: &str| {
            fs::metadata(home.path(name)).expect("it is there").permissions().mode() & 0o777
        };
        assert_eq!(mode(&listen), 0o660, "umask {umask}");
        assert_eq!(mode(&format!("own-{umask}")) & 0o077, 0, "umask {umask}");
    }
    let shared = home.path("shared");
    fs::create_dir(&shared).expect("a directory");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).expect("a mode");
    let refused = proxy_begun(&home, "ro", "shared/p.sock", "db.sock", &Tuning::default());
    assert_eq!(refused.end().await.code(), Some(77));
    assert!(refused.said().contains("chmod 700"), "{}", refused.said());
}

#[test]
fn the_rules_are_printed_for_people_and_for_programs() {
    let home = Home::new();
    let table = home.run(&["proxy", "--rules"]);
    let table = String::from_utf8(table.stdout).expect("UTF-8");
    for part in [
        "ro rw  POST    /_api/cursor ",
        "   rw  POST    /_api/transaction/begin",
        "users, grants",
        "x-http-method",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let output = home.run(&["proxy", "--rules", "--json"]);
    let rules: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(rules["pass"].as_array().expect("rules").len() > 25, "{rules}");
    assert_eq!(rules["pass"][0]["modes"], json!(["ro", "rw"]));
    assert_eq!(
        home.run(&["proxy", "--mode", "rx", "--listen", "a", "--upstream", "b"]).status.code(),
        Some(64)
    );
    let one = home.path("one.sock").display().to_string();
    let same = home.run(&["proxy", "--mode", "ro", "--listen", &one, "--upstream", &one]);
    assert_eq!(same.status.code(), Some(78), "{}", String::from_utf8_lossy(&same.stderr));
}
