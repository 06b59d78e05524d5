//! Tests that the ledger names every change that somebody makes in the database, and that signed
//! checkpoints reveal changes that also rewrite the ledger.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};
use vctx::memory::export::RowKind;

use crate::database::Database;
use crate::home::Home;
use crate::keeper::{plant, rows};
use crate::talk::Agent;

/// Attributes that no digest covers yet: vectors of chunks and what describes them.
const UNCOVERED: [(&str, &[&str]); 3] = [
    ("archival_docs", &["embedding", "dimension", "embedding_version", "metric", "model_id"]),
    ("archival_manifests", &["embedded", "dimension", "embedding_version", "metric", "model_id"]),
    ("core_memory", &["moving"]),
];

/// Returns another value of the same kind.
fn other(value: &Value) -> Value {
    match value {
        Value::Null => json!("x"),
        Value::Bool(is) => json!(!is),
        Value::Number(number) => match number.as_u64() {
            Some(whole) => json!(whole + 1),
            None => json!(number.as_f64().unwrap_or(0.0) + 0.5),
        },
        Value::String(text) => json!(format!("{text}x")),
        Value::Array(items) if items.is_empty() => json!(["x"]),
        Value::Array(items) => json!(items[1..]),
        Value::Object(map) => {
            let mut map = map.clone();
            // No digest covers the revision in a stored answer.
            match map.iter_mut().find(|(name, _)| *name != "_rev") {
                Some((_, first)) => *first = other(first),
                None => drop(map.insert("x".into(), json!(1))),
            }
            Value::Object(map)
        }
    }
}

/// Returns the collections that the ledger's differences name.
async fn named(ada: &Agent) -> Vec<String> {
    let told = ada.wire.get(&format!("{}/ledger", ada.path())).await.ok();
    let differences = told["differences"].as_array().expect("differences");
    differences.iter().map(|one| one["collection"].as_str().expect("a name").to_owned()).collect()
}

/// Writes a row as it was before a change.
async fn put_back(database: &Database, collection: &str, row: &Map<String, Value>) {
    let mut row = row.clone();
    row.remove("_rev");
    row.remove("_id");
    let query = format!(
        "INSERT @row INTO {collection} OPTIONS {{ overwriteMode: 'replace' }} RETURN NEW._key"
    );
    database.row(&query, json!({"row": row})).await;
}

/// Tries to change an attribute. Returns `false` if the database refuses the change.
async fn changed(
    database: &Database,
    collection: &str,
    key: &Value,
    name: &str,
    to: Value,
) -> bool {
    let query = format!(
        "UPDATE {{ _key: @key }} WITH {{ [@name]: @to }} IN {collection}
           OPTIONS {{ mergeObjects: false }} RETURN 1"
    );
    let binds = json!({"key": key, "name": name, "to": to});
    let body = json!({"query": query, "bindVars": binds});
    database.call("POST", "/_api/cursor", &body).await.status == 201
}

#[cfg_attr(not(feature = "long-tests"), ignore = "long: `cargo it` runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_a_row_is_named() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = plant(&home, "vctx.sock", "ada", "ada").await.agent;
    let database = home.database_inside();
    home.assert_verified("vctx.sock", "ada");
    let mut all = rows(&database, "ada").await;
    let edges = "FOR e IN derived_from SORT e._key RETURN e";
    all.insert("derived_from".into(), database.rows(edges, json!({})).await);
    // Only a server with a model makes vectors of recall storage.
    all.insert("recall_vectors".into(), Vec::new());
    let (mut tried, mut unnamed) = (0, Vec::new());
    for collection in RowKind::ALL.map(RowKind::collection) {
        let uncovered = UNCOVERED.iter().find(|(name, _)| *name == collection);
        let uncovered = uncovered.map_or(&[][..], |(_, names)| names);
        // For each attribute, the first row that has a value.
        let mut samples: BTreeMap<&str, &Map<String, Value>> = BTreeMap::new();
        for row in all[collection].iter().filter_map(Value::as_object) {
            for (name, value) in row {
                if !value.is_null() && !name.starts_with('_') && !uncovered.contains(&name.as_str())
                {
                    samples.entry(name).or_insert(row);
                }
            }
        }
        for (name, row) in samples {
            if !changed(&database, collection, &row["_key"], name, other(&row[name])).await {
                continue;
            }
            tried += 1;
            if !named(&ada).await.iter().any(|named| named == collection) {
                unnamed.push(format!("{collection}.{name}"));
            }
            put_back(&database, collection, row).await;
        }
        for row in [all[collection].first(), all[collection].last()].into_iter().flatten() {
            let row = row.as_object().expect("a row");
            if collection == "core_memory" {
                continue;
            }
            let remove = format!("REMOVE {{ _key: @key }} IN {collection} RETURN 1");
            database.row(&remove, json!({"key": row["_key"]})).await;
            tried += 1;
            if !named(&ada).await.iter().any(|named| named == collection) {
                unnamed.push(format!("{collection}: a row removed"));
            }
            put_back(&database, collection, row).await;
            // A unique index may refuse a second row.
            let mut twin = row.clone();
            twin.insert("_key".into(), json!("forged"));
            twin.remove("_id");
            twin.remove("_rev");
            let insert = format!("INSERT @row INTO {collection} RETURN NEW._key");
            let body = json!({"query": insert, "bindVars": {"row": twin}});
            if database.call("POST", "/_api/cursor", &body).await.status == 201 {
                tried += 1;
                if !named(&ada).await.iter().any(|named| named == collection) {
                    unnamed.push(format!("{collection}: a row added"));
                }
                database.row(&remove, json!({"key": "forged"})).await;
            }
        }
    }
    assert_eq!(named(&ada).await, [""; 0], "a change was not undone");
    println!("{tried} changes");
    assert!(unnamed.is_empty(), "{} of {tried} not named: {unnamed:#?}", unnamed.len());
    assert!(tried >= 150, "only {tried} changes");
}

/// Waits until the newest entry of the agent's ledger is signed.
async fn signed(ada: &Agent) -> Value {
    for _ in 0..1_200 {
        let told = ada.wire.get(&format!("{}/ledger", ada.path())).await.ok();
        if told["signed"]["entries"] == told["entries"] {
            return told;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("nothing is signed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_was_cut_or_removed_contradicts_its_signature() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    for turn in 0..4 {
        ada.append("user", format!("Turn {turn}.")).await;
    }
    let told = signed(&ada).await;
    let entries = told["entries"].as_u64().expect("a number");
    home.assert_verified("vctx.sock", "ada");
    // A writer to the database can remove the last entry of the ledger.
    let database = home.database_inside();
    let last = "FOR e IN memory_events FILTER e.agent_id == 'ada' AND e.n == @n
        REMOVE e IN memory_events RETURN OLD.n";
    database.row(last, json!({"n": entries})).await;
    let (code, report) = home.verify("vctx.sock", "ada");
    assert_eq!(code, 65, "{report:#}");
    let differences = report["agents"][0]["ledger"]["differences"].to_string();
    assert!(differences.contains(&format!("entry {entries}")), "{differences}");
    // An agent that is removed as a whole is missing.
    let core = "FOR c IN core_memory FILTER c._key == 'ada' REMOVE c IN core_memory RETURN 1";
    database.row(core, json!({})).await;
    let socket = home.path("vctx.sock").display().to_string();
    let output = home.run(&["verify", "--json", "--socket", &socket]);
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &told["missing"][0]["agent"]), (Some(65), &json!("ada")));
}

/// Copies a directory.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &target),
            false if entry.file_type().expect("a type").is_file() => {
                fs::copy(entry.path(), target).expect("a copy");
            }
            false => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_database_contradicts_the_checkpoints() {
    let home = Home::new();
    let ada = Agent::at(home.wire("vctx.sock"), "ada");
    let server = home.serve().await;
    Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    ada.append("user", "Before.").await;
    drop(server);
    let (engine, saved) = (home.path("data/engine"), home.path("saved"));
    copy(&engine, &saved);
    let server = home.serve().await;
    ada.append("user", "After.").await;
    signed(&ada).await;
    drop(server);
    fs::remove_dir_all(&engine).expect("a removal");
    copy(&saved, &engine);
    let _server = home.serve().await;
    let (code, report) = home.verify("vctx.sock", "ada");
    assert_eq!(code, 65, "{report:#}");
    let differences = report["agents"][0]["ledger"]["differences"].to_string();
    assert!(differences.contains("was signed up to entry"), "{differences}");
}

/// Runs the verifier that shares no code with vctx; returns its exit code and output.
fn verified_apart(home: &Home, export: &str) -> (Option<i32>, String) {
    let path = home.path("export.jsonl");
    fs::write(&path, export).expect("a file");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ledger/verify_export.py");
    let output = Command::new("python3").arg(program).arg(&path).output().expect("python3");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_without_code_of_vctx_agrees_on_an_export() {
    let home = Home::new();
    let _server = home.serve().await;
    let keeper = plant(&home, "vctx.sock", "ada", "ada").await;
    let path = format!("{}/export", keeper.agent.path());
    let export = keeper.agent.wire.get(&path).await.text;
    let (code, told) = verified_apart(&home, &export);
    assert_eq!(code, Some(0), "{told}");
    // A change of each kind of row is named, as is a row or an entry that is missing.
    let lines: Vec<&str> = export.lines().collect();
    let rows = 1..lines.len() - 1;
    for kind in RowKind::ALL.map(RowKind::collection) {
        let start = format!("{{\"in\":\"{kind}\"");
        let Some(at) = rows.clone().find(|at| lines[*at].starts_with(&start)) else { continue };
        let mut changed: Value = serde_json::from_str(lines[at]).expect("a row");
        changed["row"]["forged"] = json!(1);
        let changed = changed.to_string();
        let with = |line: Option<&str>| {
            let mut lines = lines.clone();
            match line {
                Some(line) => lines[at] = line,
                None => drop(lines.remove(at)),
            }
            lines.join("\n")
        };
        // An entry's own row has no digest, but its text is in the hash.
        let entry = lines[at].contains("\"hash\"");
        for forged in [(!entry).then(|| with(Some(&changed))), Some(with(None))] {
            let Some(forged) = forged else { continue };
            let (code, told) = verified_apart(&home, &forged);
            assert_eq!(code, Some(1), "{kind}: {told}");
        }
    }
}
