//! Tests that the ledger names every change that somebody makes in the database, and that signed
//! checkpoints reveal changes that also rewrite the ledger.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};
use vctx::ledger::{self, Item, LocalKind};
use vctx::memory::export::RowKind;
use vctx::trust::{Actor, Principal, admit};

use crate::database::Database;
use crate::home::Home;
use crate::keeper::{plant, rows};
use crate::talk::Agent;

mod before;
mod search;

/// Attributes that no digest covers: a lease, which ends by itself, and the code of an entry, which
/// counts only until the entry is signed.
const UNCOVERED: [(&str, &[&str]); 2] =
    [("recall_marks", &["claim"]), ("memory_events", &["code"])];

fn principal() -> Principal {
    Principal { actor: Actor { uid: 0, pid: 0, label: None }, tenant: String::new(), called: None }
}

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
pub(crate) async fn put_back(database: &Database, collection: &str, row: &Map<String, Value>) {
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
    let headers = [("idempotency-key", "forget"), ("if-match", "*")];
    let forget = json!({"seqs": [3]}).to_string();
    ada.wire.call("POST", &format!("{}/forget", ada.path()), &headers, forget).await.ok();
    home.assert_verified("vctx.sock", "ada");
    let mut all = rows(&database, "ada").await;
    let edges = "FOR e IN derived_from SORT e._key RETURN e";
    all.insert("derived_from".into(), database.rows(edges, json!({})).await);
    for collection in LocalKind::ALL.map(LocalKind::collection) {
        let own =
            format!("FOR d IN {collection} FILTER d.agent_id == 'ada' OR d._key == 'ada' RETURN d");
        all.insert(collection.into(), database.rows(&own, json!({})).await);
    }
    // Only a server with a model makes vectors of recall storage, and only long documents have
    // parts.
    for (collection, other) in [("archival_parts", "forged"), ("recall_marks", "ada")] {
        let insert = format!("INSERT {{ _key: '{other}', agent_id: 'ada' }} INTO {collection}");
        database.rows(&format!("{insert} RETURN NEW"), json!({})).await;
        assert!(named(&ada).await.iter().any(|named| named == collection), "{collection}");
        database.row(&format!("REMOVE '{other}' IN {collection} RETURN 1"), json!({})).await;
    }
    // A server that begins to make vectors takes a lease first; a lease alone is no mark.
    let lease = "INSERT { _key: 'ada', claim: { by: 'x', until_ms: 1 } } INTO recall_marks";
    database.rows(&format!("{lease} RETURN NEW"), json!({})).await;
    home.assert_verified("vctx.sock", "ada");
    database.row("REMOVE 'ada' IN recall_marks RETURN 1", json!({})).await;
    all.insert("recall_vectors".into(), Vec::new());
    let (mut tried, mut unnamed) = (0, Vec::new());
    let exported = RowKind::ALL.map(RowKind::collection);
    let local = LocalKind::ALL.map(LocalKind::collection);
    for collection in exported.into_iter().chain(local) {
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
            // Result lists, parts of documents and marks only save work.
            if !["pages", "archival_parts", "recall_marks"].contains(&collection) {
                tried += 1;
                if !named(&ada).await.iter().any(|named| named == collection) {
                    unnamed.push(format!("{collection}: a row removed"));
                }
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

/// Rewrites the ledger so that it describes a row as it is now: changes the last item of the row
/// and computes the hashes again, as a writer to the database can, who does not know the secret.
async fn rewritten(database: &Database, item: &Item) {
    let entries =
        "FOR e IN memory_events FILTER e.agent_id == 'ada' AND e.n != null SORT e.n RETURN e";
    let entries = database.rows(entries, json!({})).await;
    let text = item.to_string();
    let name = text.split(' ').next().expect("a name");
    let is = |row: &&Value| row.as_str().is_some_and(|row| row.split(' ').next() == Some(name));
    let lists = |entry: &Value| entry["rows"].as_array().expect("rows").iter().any(|row| is(&row));
    let at = entries.iter().rposition(lists).unwrap_or_else(|| panic!("no entry lists {name}"));
    let mut before = at.checked_sub(1).map_or_else(
        || ledger::genesis("ada"),
        |at| entries[at]["hash"].as_str().expect("a hash").to_owned(),
    );
    for (index, entry) in entries.iter().enumerate().skip(at) {
        let mut entry = entry.as_object().expect("a row").clone();
        let rows = entry["rows"].as_array_mut().expect("rows");
        if index == at {
            for row in rows.iter_mut().filter(|row| is(&&**row)) {
                *row = text.as_str().into();
            }
        }
        let n = entry["n"].as_u64().expect("a number");
        before = ledger::link(&before, n, &ledger::text_of(&entry));
        entry.insert("hash".into(), before.as_str().into());
        entry.shift_remove("code");
        put_back(database, "memory_events", &entry).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_was_rewritten_for_a_changed_row_contradicts_its_signature() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = plant(&home, "vctx.sock", "ada", "ada").await.agent;
    signed(&ada).await;
    let database = home.database_inside();
    let all = rows(&database, "ada").await;
    let scope = admit(&principal(), "ada").expect("a name");
    for kind in RowKind::ALL {
        let collection = kind.collection();
        let changeable = |row: &&Value| row.get("n").is_none();
        let rows = all.get(collection).map(Vec::as_slice).unwrap_or_default();
        let Some(row) = rows.iter().find(changeable).and_then(Value::as_object) else { continue };
        let salt = row.get("seq").and_then(|seq| {
            let message = all["messages"].iter().find(|message| message["seq"] == *seq)?;
            message["salt"].as_str()
        });
        let salt = salt.filter(|_| kind == RowKind::Recall);
        let mut forged = row.clone();
        let name = match kind {
            RowKind::Core => "turns",
            RowKind::Versions => "ts",
            RowKind::Messages => "token_estimate",
            RowKind::Recall => "summary_rev",
            RowKind::Manifests => "updated_at",
            RowKind::Passages => "token_estimate",
            RowKind::Cites => "revision",
            RowKind::Prompts => "model",
            RowKind::ToolSets | RowKind::Packs => "text",
            RowKind::Answers => "request_hash",
            RowKind::Schedules => "content",
            RowKind::Events => "ts",
            RowKind::RecallVectors | RowKind::Derived => continue,
        };
        forged.insert(name.into(), other(&row[name]));
        put_back(&database, collection, &forged).await;
        let items = Item::of_row(kind, forged, &scope, salt).expect("items");
        if kind == RowKind::Events {
            // The item of an event has no identity: the entry that lists it is not found by name.
            assert!(named(&ada).await.iter().any(|named| named == collection), "{collection}");
        } else {
            rewritten(&database, &items[0]).await;
            let told = ada.wire.get(&format!("{}/ledger", ada.path())).await.ok();
            let text = told["differences"].to_string();
            assert!(text.contains("is not the entry that was signed"), "{collection}: {text}");
            assert_eq!(told["differences"].as_array().map(Vec::len), Some(1), "{text}");
        }
        put_back(&database, collection, row).await;
        for entry in all["memory_events"].iter().filter_map(Value::as_object) {
            put_back(&database, "memory_events", entry).await;
        }
        assert_eq!(named(&ada).await, [""; 0], "{collection}: a change was not undone");
    }
    // An agent that was given to another tenant is missing.
    let hide = "UPDATE 'ada' WITH { tenant: 'eve' } IN core_memory RETURN 1";
    database.row(hide, json!({})).await;
    let missing = ada.wire.get("/v1/ledgers").await.ok()["missing"].clone();
    assert_eq!(missing[0]["agent"], "ada");
}

/// Waits until the newest entry of the agent's ledger is signed.
pub(crate) async fn signed(ada: &Agent) -> Value {
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

/// Copies a directory without its sockets.
pub(crate) fn copy(from: &Path, to: &Path) {
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
    let server = home.serve().await;
    server.expect("the ledger does not continue the last signed entry");
    let (code, report) = home.verify("vctx.sock", "ada");
    assert_eq!(code, 65, "{report:#}");
    let differences = report["agents"][0]["ledger"]["differences"].to_string();
    assert!(differences.contains("was signed up to entry"), "{differences}");
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_before_a_crash_are_signed_after_the_next_start() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    signed(&ada).await;
    ada.append("user", "The last word.").await;
    drop(server);
    let _server = home.serve().await;
    signed(&ada).await;
}

/// Runs the verifier that shares no code with vctx, and `vctx verify`, on an export; both check the
/// signature with the given public key. Returns whether each of them agrees, and what they said.
pub(crate) fn verified(home: &Home, export: &str, key: &str) -> ([bool; 2], String) {
    let path = home.path("export.jsonl");
    fs::write(&path, export).expect("a file");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ledger/verify_export.py");
    let apart = Command::new("python3").arg(program).arg(&path).arg(key).output().expect("python3");
    let path = path.display().to_string();
    let own = home.run(&["verify", "--export", &path, "--key", key]);
    let told = [&apart.stdout, &apart.stderr, &own.stdout, &own.stderr];
    let told: Vec<_> = told.into_iter().map(|text| String::from_utf8_lossy(text)).collect();
    let agrees = [&apart, &own].map(|output| match output.status.code() {
        Some(0) => true,
        Some(1 | 65) => false,
        code => panic!("{code:?}: {}", told.concat()),
    });
    (agrees, told.concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_without_code_of_vctx_agrees_on_an_export() {
    let home = Home::new();
    let _server = home.serve().await;
    let keeper = plant(&home, "vctx.sock", "ada", "ada").await;
    let path = format!("{}/export", keeper.agent.path());
    let export = keeper.agent.wire.get(&path).await.text;
    let key = keeper.agent.wire.get("/v1/ledgers").await.ok()["key"].clone();
    let key = key.as_str().expect("a key");
    let (agrees, told) = verified(&home, &export, key);
    assert_eq!(agrees, [true, true], "{told}");
    // Another key did not sign the export, and an export without a signed head is not proven.
    let other = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    assert!(verified(&home, &export, other).1.contains("PeterNeumann"));
    let (unsigned, _) = export.trim_end().rsplit_once('\n').expect("lines");
    assert_eq!(verified(&home, unsigned, key).0, [false, false]);
    let forged = export.replacen("\"hash\":\"0", "\"hash\":\"1", 1);
    let forged = if forged == export { export.replacen("\"n\":", "\"n\":1", 1) } else { forged };
    assert_eq!(verified(&home, &forged, key).0, [false, false]);
    // A change of each kind of row is named, as is a row or an entry that is missing.
    let lines: Vec<&str> = export.lines().collect();
    let rows = 1..lines.len() - 2;
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
            let (agrees, told) = verified(&home, &forged, key);
            assert_eq!(agrees, [false, false], "{kind}: {told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_after_the_signed_head_of_an_export_are_not_proven() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 65_536, "Be brief.").await;
    let key = ada.wire.get("/v1/ledgers").await.ok()["key"].clone();
    let key = key.as_str().expect("a key");
    let path = format!("{}/export", ada.path());
    // Other calls write to the agent meanwhile.
    let stop = Arc::new(AtomicBool::new(false));
    let (end, other) = (Arc::clone(&stop), Agent::at(home.wire("vctx.sock"), "ada"));
    let writer = tokio::spawn(async move {
        while !end.load(Ordering::Relaxed) {
            other.append("user", "Still here?").await;
        }
    });
    let mut exports = Vec::new();
    for _ in 0..4 {
        let export = ada.wire.get(&path).await.text;
        let (agrees, told) = verified(&home, &export, key);
        assert_eq!(agrees, [true, true], "{told}");
        exports.push(export);
        ada.append("user", "Once more.").await;
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.expect("a writer");
    // The head of an earlier export is signed, but says nothing about later entries.
    let split = |export: &str| {
        let (rows, head) = export.trim_end().rsplit_once('\n').expect("lines");
        (rows.to_owned(), head.to_owned())
    };
    let forged = format!("{}\n{}\n", split(&exports[3]).0, split(&exports[0]).1);
    let (agrees, told) = verified(&home, &forged, key);
    assert_eq!(agrees, [false, false], "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_without_the_secret_is_named_and_gets_no_signature() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    ada.append("user", "Pay Alice 100.").await;
    let before = signed(&ada).await["entries"].as_u64().expect("a number");
    // A writer to the database changes the message, and appends an entry with the right hash.
    let database = home.database_inside();
    let message =
        "FOR m IN messages FILTER m.agent_id == 'ada' UPDATE m WITH { content: 'Pay Mallory 999.' }
        IN messages RETURN NEW";
    let message = database.row(message, json!({})).await;
    let scope = admit(&principal(), "ada").expect("a name");
    let message = message.as_object().expect("a row").clone();
    let items = Item::of_row(RowKind::Messages, message, &scope, None).expect("items");
    let last = "FOR e IN memory_events FILTER e.agent_id == 'ada' AND e.n == @n RETURN e";
    let last = database.row(last, json!({"n": before})).await;
    let mut entry = json!({"agent_id": "ada", "type": "audit", "ts": last["ts"], "n": before + 1,
        "_key": format!("l:ada:{}", before + 1), "code": last["code"],
        "details": {"beside": "vectors"}, "rows": [ledger::ITEMS_VERSION, items[0].to_string()]});
    let text = ledger::text_of(entry.as_object().expect("a row"));
    let hash = last["hash"].as_str().expect("a hash");
    entry["hash"] = ledger::link(hash, before + 1, &text).into();
    put_back(&database, "memory_events", entry.as_object().expect("a row")).await;
    let what = "was not written by a server with the secret of this database";
    let named = async || {
        let (code, report) = home.verify("vctx.sock", "ada");
        assert_eq!(code, 65, "{report:#}");
        let told = report["agents"][0]["ledger"].clone();
        let named = told["differences"].to_string();
        assert!(named.contains(what) && named.contains(&format!("l:ada:{}", before + 1)), "{told}");
        assert_eq!(told["signed"]["entries"], before, "{told}");
    };
    named().await;
    // The server does not follow this entry.
    let refused = async |key: &str| {
        let headers = [("idempotency-key", key), ("if-match", "*")];
        let body = json!({"message": "Thank you.", "role": "user"}).to_string();
        let path = format!("{}/tools/append_fifo", ada.path());
        let answer = ada.wire.call("POST", &path, &headers, body).await;
        assert_eq!((answer.status, answer.code()), (409, "LEDGER_CONTRADICTED"), "{}", answer.text);
    };
    server.expect("the core contradicts the ledger");
    refused("one").await;
    named().await;
    assert!(server.stop().await.success());
    drop(server);
    let server = home.serve().await;
    server.expect("the ledger does not continue the last signed entry");
    server.expect("the core contradicts the ledger");
    refused("two").await;
    named().await;
}
