//! Tests that `vctx verify` names what no ledger of an agent describes: false tombstones of
//! forgotten agents, rows of agents that do not exist, and rows that cannot be read.

mod replayed;

use serde_json::{Map, Value, json};

use crate::database::Database;
use crate::forgotten::{forget, forgotten};
use crate::home::{Home, Tuning};
use crate::ledger::{put_back, signed, verified as verified_by_both};
use crate::signed::verified;
use crate::talk::{Agent, key};

/// Returns what a server says about agents that contradict its checkpoints.
async fn told(home: &Home, socket: &str) -> Value {
    home.wire(socket).get("/v1/ledgers").await.ok()
}

async fn tombstone(database: &Database, agent: &str) -> Map<String, Value> {
    let query = "FOR f IN forgets FILTER f.agent_id == @agent AND f.what == 'agent' RETURN f";
    let row = database.row(query, json!({"agent": agent})).await;
    row.as_object().expect("a tombstone").clone()
}

async fn remove(database: &Database, collection: &str, key: &Value) {
    let query = format!("REMOVE {{ _key: @key }} IN {collection} RETURN 1");
    database.row(&query, json!({"key": key})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_accepts_only_tombstones_that_servers_of_its_database_wrote() {
    let home = Home::new();
    let _engine = home.engine().await;
    let mut servers = Vec::new();
    let sockets = ["east.sock", "west.sock"];
    for socket in sockets {
        let tuning = Tuning::default();
        servers.push(home.server(socket, "engine.sock", "engine-ro.sock", &tuning).await);
    }
    let database = home.database();
    for name in ["ada", "bob"] {
        Agent::create(home.wire(sockets[0]), name, 8192, "Be brief.").await;
        let west = Agent::at(home.wire(sockets[1]), name);
        west.append("user", "In the west.").await;
        signed(&west).await;
    }
    let ada = Agent::at(home.wire(sockets[0]), "ada");
    let done = forget(&ada, &json!({"all": true}), &key(), "*").await.ok();
    assert_eq!(done["state"], "done", "{done:#}");
    for socket in sockets {
        let told = told(&home, socket).await;
        assert_eq!((&told["missing"], &told["tombstones"]), (&json!([]), &json!([])), "{told}");
        let path = home.path(socket).display().to_string();
        assert_eq!(verified(&home, &["--socket", &path]).0, 0);
    }
    // A writer to the database removes the other agent in the same way, and has only the code of
    // the first tombstone.
    let last = tombstone(&database, "ada").await;
    assert!(last["last"]["n"].as_u64().is_some_and(|n| n > 1), "{last:?}");
    let mut forged = last.clone();
    forged.insert("_key".into(), vctx::memory::forget::tombstone_key("bob").into());
    forged.insert("agent_id".into(), "bob".into());
    remove(&database, "core_memory", &json!("bob")).await;
    put_back(&database, "forgets", &forged).await;
    for socket in sockets {
        let told = told(&home, socket).await;
        assert_eq!(told["missing"][0]["agent"], "bob", "{told}");
        assert!(told["missing"][0]["what"].to_string().contains("tombstone"), "{told}");
        assert_eq!(told["missing"].as_array().map(Vec::len), Some(1), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_or_removed_tombstone_is_named() {
    let home = Home::new();
    let server = home.serve().await;
    let socket = home.path("vctx.sock").display().to_string();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    ada.append("user", "My code is 4711.").await;
    ada.append("user", "The weather is fine today.").await;
    forgotten(&ada, &json!({"seqs": [1]})).await;
    signed(&ada).await;
    forgotten(&ada, &json!({"all": true})).await;
    let database = home.database_inside();
    let told_of_ada = async || {
        let told = told(&home, "vctx.sock").await;
        assert_eq!(told["missing"], json!([]), "{told}");
        let all = told["tombstones"].as_array().expect("a list").clone();
        assert!(all.iter().all(|one| one["agent"] == "ada"), "{told}");
        !all.is_empty()
    };
    assert!(!told_of_ada().await);
    let (code, report) = verified(&home, &["--socket", &socket]);
    assert_eq!((code, &report["strays"]), (0, &json!([])), "{report:#}");
    let own = tombstone(&database, "ada").await;
    let rows = database.rows("FOR f IN forgets SORT f._key RETURN f", json!({})).await;
    assert_eq!((rows.len(), &own["kept"]["count"]), (2, &json!(1)));
    for row in rows.iter().map(|row| row.as_object().expect("a row")) {
        for name in row.keys().filter(|name| !name.starts_with('_')) {
            let mut changed = row.clone();
            changed.insert(name.clone(), json!("forged"));
            put_back(&database, "forgets", &changed).await;
            assert!(told_of_ada().await, "{name} is changed");
        }
        remove(&database, "forgets", &row["_key"]).await;
        assert!(told_of_ada().await, "the row is removed");
        put_back(&database, "forgets", row).await;
        let mut added = row.clone();
        added.insert("_key".into(), json!("forged"));
        added.insert("what".into(), json!("messages"));
        put_back(&database, "forgets", &added).await;
        assert!(told_of_ada().await, "a row is added");
        remove(&database, "forgets", &json!("forged")).await;
        assert!(!told_of_ada().await, "a change was not undone");
    }
    // Without the tombstone, the name can be used again, but the new agent is not the one that was
    // signed.
    remove(&database, "forgets", &own["_key"]).await;
    let (code, report) = verified(&home, &["--socket", &socket]);
    assert_eq!((code, &report["tombstones"][0]["agent"]), (65, &json!("ada")), "{report:#}");
    server.expect("the ledger does not continue the last signed entry");
    let again = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    again.append("user", "I am another one.").await;
    let (code, report) = home.verify("vctx.sock", "ada");
    assert_eq!(code, 65, "{report:#}");
    let differences = report["agents"][0]["ledger"]["differences"].to_string();
    assert!(differences.contains("signed"), "{differences}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_agents_that_do_not_exist_are_named() {
    let home = Home::new();
    let _server = home.serve().await;
    let socket = home.path("vctx.sock").display().to_string();
    for name in ["ada", "bob", "eve"] {
        let agent = Agent::create(home.wire("vctx.sock"), name, 8192, "Be brief.").await;
        agent.append("user", "Good morning.").await;
    }
    let (code, report) = verified(&home, &["--socket", &socket]);
    assert_eq!((code, &report["strays"]), (0, &json!([])), "{report:#}");
    let database = home.database_inside();
    let query = "FOR m IN messages FILTER m.agent_id == 'ada' LIMIT 1 RETURN m";
    let message = database.row(query, json!({})).await;
    let mut message = message.as_object().expect("a message").clone();
    // Before, between and after the agents that exist.
    for (at, name) in ["a", "cat", "zoe", "not a name"].into_iter().enumerate() {
        message.insert("_key".into(), format!("stray-{at}").into());
        message.insert("agent_id".into(), name.into());
        put_back(&database, "messages", &message).await;
    }
    let tools = json!({"_key": "stray", "agent_id": "cat", "items": []});
    put_back(&database, "tool_sets", tools.as_object().expect("a row")).await;
    let (code, report) = verified(&home, &["--socket", &socket]);
    assert_eq!(code, 65, "{report:#}");
    let mut found: Vec<String> = report["strays"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| format!("{} {} {}", one["collection"], one["agent"], one["rows"]))
        .collect();
    found.sort();
    let text = |collection: &str, agent: &str| format!("{collection:?} {agent:?} 1");
    let expected = [
        text("messages", "a"),
        text("messages", "cat"),
        text("messages", "not a name"),
        text("messages", "zoe"),
        text("tool_sets", "cat"),
    ];
    assert_eq!(found, expected);
    assert!(report["agents"].as_array().expect("agents").iter().all(|one| one["ok"] == true));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_cannot_be_read_are_named() {
    let home = Home::new();
    let server = home.serve().await;
    // The server logs the rows that it cannot read.
    server.expect("answer not understood");
    server.expect("cannot be listed");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let letter = json!({"doc_id": "letter", "document": "The ship leaves on Monday."});
    ada.done("ingest_archival", &letter).await;
    ada.append("user", "Good morning.").await;
    home.assert_verified("vctx.sock", "ada");
    let database = home.database_inside();
    // The schema of a collection refuses some changes, but its owner can remove the schema.
    for collection in ["core_memory", "messages"] {
        let path = format!("/_api/collection/{collection}/properties");
        let answer = database.call("PUT", &path, &json!({"schema": null})).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    let core = "FOR r IN core_memory FILTER r._key == 'ada' RETURN r";
    let message = "FOR r IN messages FILTER r.agent_id == 'ada' RETURN r";
    let answer = "FOR r IN idempotency FILTER r.agent_id == 'ada' LIMIT 1 RETURN r";
    let setting = "FOR r IN vctx_meta FILTER r._key == 'vector' RETURN r";
    for (collection, query, path, value) in [
        ("core_memory", core, "/queue/tokens", Value::Null),
        ("core_memory", core, "/queue/tokens", json!("many")),
        ("core_memory", core, "/chain", Value::Null),
        ("core_memory", core, "/counters", json!([])),
        ("messages", message, "/token_estimate", json!("many")),
        ("messages", message, "/meta", json!("none")),
        ("idempotency", answer, "/key", json!(7)),
        ("idempotency", answer, "/response", json!("none")),
        ("vctx_meta", setting, "/dimension", json!("my code is 4711")),
    ] {
        let row = database.row(query, json!({})).await;
        let mut changed = row.clone();
        let (parent, name) = path.rsplit_once('/').expect("a path");
        let parent = changed.pointer_mut(parent).and_then(Value::as_object_mut).expect("a place");
        match value {
            Value::Null => drop(parent.shift_remove(name)),
            value => drop(parent.insert(name.into(), value)),
        }
        put_back(&database, collection, changed.as_object().expect("a row")).await;
        let (code, report) = home.verify("vctx.sock", "ada");
        assert_eq!(code, 65, "{collection} {path}: {report:#}");
        let differences = report["agents"][0]["ledger"]["differences"].to_string();
        assert!(differences.contains(collection), "{collection} {path}: {report:#}");
        assert!(!differences.contains("4711"), "a stored value is in the report: {report:#}");
        put_back(&database, collection, row.as_object().expect("a row")).await;
    }
    home.assert_verified("vctx.sock", "ada");
}

/// Replaces the first line of an export, and the digest of the file in the trailer.
fn with_header(export: &str, header: &Value) -> String {
    let mut lines: Vec<String> = export.lines().map(str::to_owned).collect();
    lines[0] = vctx::memory::receipt::canonical_json(header);
    let at = lines
        .iter()
        .position(|line| line.contains("\"chain_head\":") && line.contains("\"file\":"));
    let at = at.expect("a trailer");
    let text: String = lines[..at].iter().map(|line| format!("{line}\n")).collect();
    let mut trailer: Value = serde_json::from_str(&lines[at]).expect("JSON");
    trailer["file"] = vctx::memory::receipt::sha256(&text).into();
    lines[at] = vctx::memory::receipt::canonical_json(&trailer);
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_of_an_export_is_signed() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let letter = json!({"doc_id": "letter", "document": "The ship leaves on Monday."});
    ada.done("ingest_archival", &letter).await;
    let key = told(&home, "vctx.sock").await["key"].as_str().expect("a key").to_owned();
    let export = ada.wire.get(&format!("{}/export", ada.path())).await.text;
    let (agrees, said) = verified_by_both(&home, &export, &key);
    assert_eq!(agrees, [true; 2], "{said}");
    let header: Value = serde_json::from_str(export.lines().next().expect("a line")).expect("JSON");
    assert_eq!(with_header(&export, &header), export);
    for (path, value) in [
        ("/vector/model_id", json!("another")),
        ("/vector/embedding_version", json!("another")),
        ("/vector/metric", json!("l2")),
        ("/schema", json!(1)),
        ("/agent", json!("eve")),
    ] {
        let mut changed = header.clone();
        *changed.pointer_mut(path).expect("an attribute") = value;
        assert_ne!(changed, header, "{path}");
        let (agrees, said) = verified_by_both(&home, &with_header(&export, &changed), &key);
        assert_eq!(agrees, [false; 2], "{path}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_that_no_digest_covers_must_be_there() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = crate::keeper::plant(&home, "vctx.sock", "ada", "ada").await.agent;
    home.assert_verified("vctx.sock", "ada");
    let database = home.database_inside();
    let named = async |collection: &str| {
        let told = ada.wire.get(&format!("{}/ledger", ada.path())).await.ok();
        told["differences"].to_string().contains(collection)
    };
    let mut all: Vec<(&str, &str, Vec<&str>, Value)> = vec![
        ("idempotency", "response", vec!["_rev"], json!("no revision")),
        ("idempotency", "response", vec!["_rev"], json!(7)),
        ("cites", "", vec!["agent_id"], json!("eve")),
        ("derived_from", "", vec!["agent_id"], json!("eve")),
        ("recall_log", "", vec!["agent_id"], json!("ada")),
    ];
    let kind = vec!["model_id", "embedding_version", "dimension", "metric"];
    all.push(("archival_manifests", "", kind, json!("other")));
    for (collection, within, names, other) in all {
        let query = match collection {
            "derived_from" => {
                "FOR r IN derived_from FILTER STARTS_WITH(r._from, 'core_versions/') LIMIT 1 RETURN r"
                    .to_owned()
            }
            "recall_log" | "cites" => format!("FOR r IN {collection} LIMIT 1 RETURN r"),
            _ => format!("FOR r IN {collection} FILTER r.agent_id == 'ada' AND r.key != '' LIMIT 1 RETURN r"),
        };
        let row = database.row(&query, json!({})).await;
        for name in names {
            for value in [Some(other.clone()), None] {
                let mut changed = row.clone();
                let place = match within {
                    "" => changed.as_object_mut(),
                    within => changed[within].as_object_mut(),
                };
                let place = place.expect("an object");
                let before = place.shift_remove(name);
                match value {
                    Some(value) => drop(place.insert(name.into(), value)),
                    // An entry of recall storage has no such attribute.
                    None if before.is_none() => continue,
                    None => {}
                }
                put_back(&database, collection, changed.as_object().expect("a row")).await;
                assert!(named(collection).await, "{collection}.{name}: {changed}");
                put_back(&database, collection, row.as_object().expect("a row")).await;
            }
        }
    }
    home.assert_verified("vctx.sock", "ada");
}
