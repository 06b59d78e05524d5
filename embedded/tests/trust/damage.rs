//! Flips bytes in files of every kind and truncates the files, one change at a time.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arango_embedded::error::Result;
use arango_embedded::query::{Query, prepare};
use arango_embedded::schema::{Collection, CollectionKind, Index, IndexKind, VectorParams, View};
use arango_embedded::txn::{Declared, WriteOptions};
use arango_embedded::value::{Object, Value, parse};
use arango_embedded::{Engine, Options};

use super::copy;

/// Number of documents, large enough that the store writes table files for documents and indexes in
/// addition to its journal.
const DOCUMENTS: i64 = 600;
/// Number of positions at which each file is changed, spread over the file; `DAMAGE_PLACES`
/// overrides it.
const PLACES: u64 = 4;

#[allow(clippy::disallowed_methods, reason = "a test reads its own settings from the environment")]
fn places() -> u64 {
    let asked = std::env::var("DAMAGE_PLACES").ok().and_then(|places| places.parse().ok());
    asked.unwrap_or(PLACES).max(2)
}

fn options() -> Options {
    // A small memtable forces the store to write table files; the test commits views explicitly.
    Options { memtable_bytes: 64 << 10, view_commit_ms: u64::MAX / 2, ..Options::default() }
}

fn object(json: &str) -> Value {
    parse(json.as_bytes()).expect("JSON")
}

fn define(engine: &Engine) {
    let collection =
        Collection { wait_for_sync: true, ..Collection::new("c", CollectionKind::Document) };
    engine.create_collection("_system", collection).expect("a collection");
    let index = |name: &str, kind, unique| Index {
        id: 0,
        name: name.into(),
        kind,
        fields: vec![vec![name.into()]],
        unique,
        sparse: false,
        definition: Value::object(Object::new()),
    };
    engine.create_index("_system", "c", index("n", IndexKind::Persistent, true)).expect("an index");
    let vectors = IndexKind::Vector(VectorParams { dimension: 2, ..VectorParams::of_cells(2) });
    engine.create_index("_system", "c", index("v", vectors, false)).expect("an index");
    let properties = object(r#"{"links": {"c": {"fields": {"w": {}, "n": {}}}}}"#);
    let view = View { id: 0, name: "view".into(), kind: "arangosearch".into(), properties };
    engine.put_view("_system", view).expect("a view");
}

/// Returns the directory of a closed engine with documents, a unique index, a vector index, a view,
/// table files and a journal.
fn filled() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a directory");
    for part in 0..2 {
        let engine = Engine::open(&home.path().join("data"), options()).expect("an engine");
        if part == 0 {
            define(&engine);
        }
        let database = engine.database("_system").expect("the database");
        let declared = Declared { write: vec!["c".into()], ..Declared::default() };
        for number in (part * DOCUMENTS / 2)..((part + 1) * DOCUMENTS / 2) {
            let document = format!(
                r#"{{"_key": "k{number}", "n": {number}, "w": "w{}", "v": [{number}, 1], "pad": "{}"}}"#,
                number % 5,
                "p".repeat(500)
            );
            let transaction = engine.begin("_system", &declared, false).expect("a transaction");
            let c = &database.collections["c"];
            transaction.insert(c, &object(&document), &WriteOptions::default()).expect("an insert");
            transaction.commit(number % 50 == 0).expect("a commit");
        }
        engine.commit_views().expect("a commit of the view");
    }
    home
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn rows(engine: &Engine, text: &str) -> Result<usize> {
    let database = engine.database("_system")?;
    let query = Query { text: text.to_owned(), ..Query::default() };
    let everything = Declared { allow_implicit: true, ..Declared::default() };
    let transaction = engine.begin("_system", &everything, false)?;
    Ok(prepare(&database, &query)?.run(&database, &transaction)?.rows.len())
}

/// Checks that no query returns a wrong answer; an error is not a wrong answer.
fn answers(engine: &Arc<Engine>) -> std::result::Result<(), String> {
    let half = DOCUMENTS as usize / 2;
    let queries = [
        ("FOR d IN c FILTER d.pad != '' RETURN d".to_owned(), 2 * half),
        (format!("FOR d IN c FILTER d.n >= {half} RETURN d"), half),
        (
            format!(
                "FOR n IN 0..{} FOR d IN c FILTER d._key == CONCAT('k', n) RETURN d.w",
                DOCUMENTS - 1
            ),
            2 * half,
        ),
        ("RETURN COLLECTION_COUNT('c')".to_owned(), 1),
        ("FOR d IN view SEARCH d.w == 'w3' RETURN d".to_owned(), 2 * half / 5),
    ];
    let look = || {
        let _ = engine.commit_views();
        for (query, expected) in &queries {
            if let Ok(found) = rows(engine, query)
                && found != *expected
            {
                return Err(format!("{found} rows instead of {expected}: {query}"));
            }
        }
        match engine.vector_faults("_system", "c", "v") {
            Ok(faults) if !faults.is_empty() => Err(format!("vectors: {}", faults.join("; "))),
            _ => Ok(()),
        }
    };
    // A panic is accepted: it ends only its request, not the engine, and gives no wrong answer.
    catch_unwind(AssertUnwindSafe(look)).unwrap_or(Ok(()))
}

/// Accepted results of opening an engine with a changed file: an error that names the file, or
/// right answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Refused,
    Right,
}

fn outcome(directory: &Path, what: &str) -> std::result::Result<Outcome, String> {
    let opened = catch_unwind(AssertUnwindSafe(|| Engine::open(directory, options())));
    match opened {
        Ok(Ok(engine)) => {
            answers(&engine).map(|()| Outcome::Right).map_err(|e| format!("{what}: {e}"))
        }
        Ok(Err(error)) => {
            let names_place = error.message.contains(&*directory.to_string_lossy());
            let told = names_place || error.message.contains("the store failed");
            if told { Ok(Outcome::Refused) } else { Err(format!("{what}: names no file: {error}")) }
        }
        Err(_) => Err(format!("{what}: opening panicked")),
    }
}

#[test]
fn damage_is_refused_or_changes_no_answer() {
    let home = filled();
    let whole = home.path().join("data");
    assert_eq!(outcome(&whole, "nothing"), Ok(Outcome::Right));
    let mut all = Vec::new();
    files(&whole, &mut all);
    let (mut wrong, mut seen) = (Vec::new(), BTreeMap::new());
    for file in all {
        let name = file.strip_prefix(&whole).expect("inside").to_owned();
        let length =
            fs::metadata(&file).unwrap_or_else(|e| panic!("{}: {e}", name.display())).len();
        if length == 0 {
            continue;
        }
        let changes = (0..places())
            .map(|place| (length - 1) * place / (places() - 1))
            .flat_map(|at| [(at, true), (at, false)]);
        for (at, flips) in changes {
            let broken = tempfile::tempdir().expect("a directory");
            let directory = broken.path().canonicalize().expect("a path").join("data");
            copy(&whole, &directory);
            let mut bytes = fs::read(&file).expect("a file");
            if flips {
                bytes[at as usize] ^= 0x55;
            } else {
                bytes.truncate(at as usize);
            }
            fs::write(directory.join(&name), bytes).expect("written");
            let what = format!(
                "{} {} {at} of {length}",
                name.display(),
                if flips { "flipped at" } else { "cut at" }
            );
            match outcome(&directory, &what) {
                Ok(outcome) => {
                    let kind = name.components().next().expect("a name").as_os_str().to_owned();
                    *seen.entry((kind, outcome)).or_insert(0) += 1;
                }
                Err(fault) => wrong.push(fault),
            }
        }
    }
    println!("{seen:?}");
    assert!(wrong.is_empty(), "{} changes:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen.keys().any(|(_, outcome)| *outcome == Outcome::Refused), "{seen:?}");
}
