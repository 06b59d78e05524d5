//! The writes of the child process, and checks that accept the state after any prefix of these
//! writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arango_embedded::query::{Query, prepare};
use arango_embedded::schema::{Collection, CollectionKind, Index, IndexKind, VectorParams, View};
use arango_embedded::txn::{Declared, IndexRange, Transaction, WriteOptions};
use arango_embedded::value::{Object, Value, parse};
use arango_embedded::{Engine, Options};

/// Number of parallel writers, each with its own documents.
const WRITERS: i64 = 3;

/// Milliseconds between two commits of the view, short enough that a run has many of them.
const VIEW_COMMIT_MS: u64 = 30;

/// The amount of data that the child process writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Number of commits of each writer before and after the engine is reopened.
    pub(crate) round: i64,
    /// Bytes of the largest document.
    pub(crate) pad: i64,
    /// Whether the store is rewritten before the engine is opened again.
    pub(crate) rewrites: bool,
}

impl Load {
    /// Many small commits, which cause flushes, compactions and torn batches.
    pub(crate) const SMALL: Self = Self { round: 60, pad: 9_000, rewrites: false };
    /// A few large commits, which exceed the journal size of 64 MB at which the store begins
    /// another journal.
    pub(crate) const LARGE: Self = Self { round: 16, pad: 3_000_000, rewrites: false };
    /// Small commits, with a rewrite of the store halfway.
    pub(crate) const REWRITTEN: Self = Self { rewrites: true, ..Self::SMALL };

    pub(crate) fn name(self) -> &'static str {
        match (self.rewrites, self.round == Self::SMALL.round) {
            (true, _) => "rewritten",
            (false, true) => "small",
            (false, false) => "large",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "large" => Self::LARGE,
            "rewritten" => Self::REWRITTEN,
            _ => Self::SMALL,
        }
    }

    /// Minimum number of synced commits in a run.
    pub(crate) fn commits(self) -> usize {
        (2 * (WRITERS - 1) * self.round) as usize
    }
}
/// Number of documents that remain of each writer, because each new document removes the one that
/// is `KEPT` documents older.
const KEPT: i64 = 12;

fn options(sync: bool) -> Options {
    Options { sync, memtable_bytes: 64 << 10, view_commit_ms: VIEW_COMMIT_MS, ..Options::default() }
}

/// Number of acknowledged commits of each writer.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    ready: bool,
    commits: BTreeMap<i64, i64>,
    lines: u64,
}

impl Acks {
    pub(crate) fn read(text: &str) -> Self {
        let mut acks = Self::default();
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["ready"] => acks.ready = true,
                ["ack", writer, commit] => {
                    // A kill may truncate the last line of the child's output.
                    let (Ok(writer), Ok(commit)) = (writer.parse(), commit.parse()) else {
                        continue;
                    };
                    acks.commits.insert(writer, commit);
                    acks.lines += 1;
                }
                _ => {}
            }
        }
        acks
    }

    /// Returns the number of acknowledged commits of all writers.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }
}

impl fmt::Display for Acks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.commits.values().collect::<Vec<_>>())
    }
}

fn say(text: &str) {
    // Each answer is a single `write` call, so that it has exactly one position in the trace.
    std::io::stdout().lock().write_all(text.as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

/// Whether a commit is synced. Writer 0 syncs only every eighth commit, so a power loss may remove
/// its latest commits, but only as a whole.
fn is_synced(writer: i64, commit: i64) -> bool {
    writer > 0 || commit % 8 == 0
}

/// Runs the child process, which continues from the state that it finds in its directory.
pub(crate) fn run(directory: &Path, load: Load, sync: bool) {
    for round in 0..2 {
        if round > 0 && load.rewrites {
            say("rewriting\n");
            arango_embedded::rewrite(directory, &mut |_| ()).unwrap();
            say("rewritten\n");
        }
        let engine = Engine::open(directory, options(sync)).unwrap();
        define(&engine);
        say("ready\n");
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let engine = &engine;
                scope.spawn(move || write(engine, load, writer));
            }
        });
    }
}

fn define(engine: &Engine) {
    let database = engine.database("_system").unwrap();
    for (name, kind) in [("c", CollectionKind::Document), ("e", CollectionKind::Edge)] {
        if !database.collections.contains_key(name) {
            engine.create_collection("_system", collection(name, kind)).unwrap();
        }
    }
    for (field, unique) in [("n", true), ("m", false)] {
        engine.create_index("_system", "c", index(field, unique)).unwrap();
    }
    if !database.views.contains_key("v") {
        engine.put_view("_system", view()).unwrap();
    }
    engine.create_index("_system", "c", vectors()).unwrap();
}

fn write(engine: &Arc<Engine>, load: Load, writer: i64) {
    let declared = Declared {
        write: vec!["c".into(), "e".into()],
        allow_implicit: true,
        ..Declared::default()
    };
    let o = WriteOptions::default();
    let database = engine.database("_system").unwrap();
    let (c, e) = (&database.collections["c"], &database.collections["e"]);
    let reader = engine.begin("_system", &declared, false).unwrap();
    let first = head_of(&reader, c, writer).unwrap() + 1;
    drop(reader);
    for commit in first..first + load.round {
        let transaction = engine.begin("_system", &declared, false).unwrap();
        transaction.insert(c, &document(load, writer, commit), &o).unwrap();
        transaction.insert(e, &edge(writer, commit), &o).unwrap();
        if commit == 1 {
            transaction.insert(c, &head(writer, commit), &o).unwrap();
        } else {
            transaction.update(c, &format!("{writer}-head"), &head(writer, commit), &o).unwrap();
        }
        if commit > KEPT {
            transaction.remove(c, &format!("{writer}-{}", commit - KEPT), None, &o).unwrap();
        }
        let synced = is_synced(writer, commit);
        transaction.commit(synced).unwrap();
        if synced {
            say(&format!("ack {writer} {commit}\n"));
        }
    }
}

fn object(entries: Vec<(&str, Value)>) -> Value {
    Value::object(entries.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn document(load: Load, writer: i64, commit: i64) -> Value {
    let pad = "x".repeat((commit * 7_919_397 % load.pad) as usize);
    object(vec![
        ("_key", format!("{writer}-{commit}").into()),
        ("n", (writer * 1_000_000 + commit).into()),
        ("m", (commit % 7).into()),
        ("words", format!("Commit {commit} of the writers").into()),
        ("v", vector(writer, commit)),
        ("pad", pad.into()),
    ])
}

fn head(writer: i64, commit: i64) -> Value {
    object(vec![
        ("_key", format!("{writer}-head").into()),
        ("n", (writer * 1_000_000 + 900_000 + commit).into()),
        ("m", (commit % 5 + 100).into()),
        ("at", commit.into()),
        ("v", vector(writer, commit)),
    ])
}

fn edge(writer: i64, commit: i64) -> Value {
    object(vec![
        ("_key", format!("{writer}-{commit}").into()),
        ("_from", format!("c/{writer}-head").into()),
        ("_to", format!("c/{writer}-{commit}").into()),
    ])
}

fn collection(name: &str, kind: CollectionKind) -> Collection {
    Collection::new(name, kind)
}

fn index(field: &str, unique: bool) -> Index {
    Index {
        id: 0,
        name: format!("by_{field}"),
        kind: IndexKind::Persistent,
        fields: vec![vec![field.into()]],
        unique,
        sparse: false,
        definition: Value::object(Object::new()),
    }
}

/// A view over the words and numbers of collection `c`.
fn view() -> View {
    let links = r#"{"c": {"fields": {"words": {"analyzers": ["text_en"]}, "m": {}, "n": {}}}}"#;
    let links = parse(links.as_bytes()).expect("links");
    View {
        id: 0,
        name: "v".into(),
        kind: "arangosearch".into(),
        properties: object(vec![("links", links)]),
    }
}

/// A vector index over the documents (not the edges), which is trained as soon as four documents
/// exist.
fn vectors() -> Index {
    let params = VectorParams { dimension: 3, ..VectorParams::of_cells(4) };
    let kind = IndexKind::Vector(params);
    Index { name: "near".into(), kind, sparse: true, ..index("v", false) }
}

fn vector(writer: i64, commit: i64) -> Value {
    vec![writer.into(), (commit % 11).into(), (commit % 17).into()].into()
}

type Fault = Result<(), String>;

/// Opens a directory and checks its content. Returns the number of commits found for each writer.
pub(crate) fn check(directory: &Path, load: Load, acks: &Acks) -> Result<String, String> {
    let engine = Engine::open(directory, options(true))
        .map_err(|error| format!("it does not open: {error}"))?;
    let database = engine.database("_system").map_err(|error| error.to_string())?;
    let both = database.collections.get("c").zip(database.collections.get("e"));
    let Some((c, e)) = both.filter(|(c, _)| c.indexes.len() == 4) else {
        return if acks.ready {
            Err("definitions are lost".into())
        } else {
            Ok("no definitions yet".into())
        };
    };
    let declared =
        Declared { write: vec!["c".into()], allow_implicit: true, ..Declared::default() };
    let transaction =
        engine.begin("_system", &declared, true).map_err(|error| error.to_string())?;
    let mut heads = Vec::new();
    let (mut documents, mut edges) = (BTreeMap::new(), BTreeMap::new());
    for writer in 0..WRITERS {
        let commit = head_of(&transaction, c, writer)?;
        let answered = acks.commits.get(&writer).copied().unwrap_or(0);
        if commit < answered {
            return Err(format!(
                "writer {writer}: commit {answered} was answered, but {commit} is the last one: lost"
            ));
        }
        for number in (1..=commit).filter(|number| number + KEPT > commit) {
            documents.insert(format!("{writer}-{number}"), document(load, writer, number));
        }
        for number in 1..=commit {
            edges.insert(format!("{writer}-{number}"), edge(writer, number));
        }
        if commit > 0 {
            documents.insert(format!("{writer}-head"), head(writer, commit));
        }
        heads.push(commit);
    }
    check_collection(&transaction, c, &documents)?;
    let faults = engine.vector_faults("_system", "c", "near").map_err(|error| error.to_string())?;
    if !faults.is_empty() {
        return Err(format!("vectors and documents disagree: {}", faults.join("; ")));
    }
    check_collection(&transaction, e, &edges)?;
    check_view(&engine, &transaction, &documents)?;
    // The engine can continue from the found state.
    let more = object(vec![("n", 1.5f64.to_string().into())]);
    transaction
        .insert(c, &more, &WriteOptions::default())
        .map_err(|error| format!("it takes no write: {error}"))?;
    transaction.commit(true).map_err(|error| format!("it takes no commit: {error}"))?;
    let undo = engine.begin("_system", &declared, true).map_err(|error| error.to_string())?;
    let equals = IndexRange { equals: vec!["1.5".into()], ..IndexRange::default() };
    let found = all(&undo, undo.index_scan(c, &c.indexes[1], 0, &equals, false))?;
    let [(key, _)] = &found[..] else {
        return Err(format!("{} new documents are found", found.len()));
    };
    undo.remove(c, key, None, &WriteOptions::default()).map_err(|error| error.to_string())?;
    undo.commit(true).map_err(|error| error.to_string())?;
    Ok(format!("{heads:?}"))
}

fn head_of(transaction: &Transaction, c: &Collection, writer: i64) -> Result<i64, String> {
    let head = transaction.get(c, &format!("{writer}-head")).map_err(|error| error.to_string())?;
    match head.map(|head| head.attribute("at")) {
        None => Ok(0),
        Some(Value::Int(at)) => Ok(at),
        Some(other) => Err(format!("the head says {other:?}")),
    }
}

/// Checks that the documents, the count and every index except vector indexes match the expected
/// documents exactly.
fn check_collection(
    transaction: &Transaction,
    collection: &Collection,
    expected: &BTreeMap<String, Value>,
) -> Fault {
    let name = &collection.name;
    let count = transaction.count(collection).map_err(|error| error.to_string())?;
    if count != expected.len() as u64 {
        return Err(format!("{name} counts {count} documents instead of {}", expected.len()));
    }
    same(name, expected, &all(transaction, transaction.scan(collection))?)?;
    let sorted = |index: &&Arc<Index>| !matches!(index.kind, IndexKind::Vector(_));
    for index in collection.indexes.iter().filter(sorted) {
        let fields = if index.kind == IndexKind::Edge { 0..2 } else { 0..1 };
        for field in fields {
            let scan =
                transaction.index_scan(collection, index, field, &IndexRange::default(), false);
            same(&format!("{name}, index {}", index.name), expected, &all(transaction, scan)?)?;
        }
    }
    Ok(())
}

/// Commits the view, and checks that it returns every document once and finds each document only by
/// its own number and words.
fn check_view(
    engine: &Engine,
    transaction: &Transaction,
    expected: &BTreeMap<String, Value>,
) -> Fault {
    let database = engine.database("_system").map_err(|error| error.to_string())?;
    if !database.views.contains_key("v") {
        return Ok(());
    }
    engine.commit_views().map_err(|error| format!("the view cannot be committed: {error}"))?;
    let found = |text: &str| -> Result<Vec<(String, Value)>, String> {
        let query = Query { text: text.to_owned(), ..Query::default() };
        let answer = prepare(&database, &query)
            .and_then(|prepared| prepared.run(&database, transaction))
            .map_err(|error| format!("{text}: {error}"))?;
        let key = |row: &Value| row.text_of("_key").unwrap_or_default().to_owned();
        Ok(answer.rows.into_iter().map(|row| (key(&row), row)).collect())
    };
    same("the view", expected, &found("FOR d IN v RETURN d")?)?;
    let of = |wanted: &dyn Fn(&Value) -> bool| -> BTreeMap<String, Value> {
        let expected = expected.iter().filter(|(_, document)| wanted(document));
        expected.map(|(key, document)| (key.clone(), document.clone())).collect()
    };
    let words = of(&|document| !document.attribute("words").is_null());
    same(
        "the view by words",
        &words,
        &found("FOR d IN v SEARCH PHRASE(d.words, 'of the writer', 'text_en') RETURN d")?,
    )?;
    let third = of(&|document| document.attribute("m").to_json() == "3");
    same("the view by number", &third, &found("FOR d IN v SEARCH d.m == 3 RETURN d")?)
}

fn same(place: &str, expected: &BTreeMap<String, Value>, found: &[(String, Value)]) -> Fault {
    let keys: BTreeSet<_> = found.iter().map(|(key, _)| key).collect();
    if keys.len() != found.len() || !keys.iter().copied().eq(expected.keys()) {
        return Err(format!("{place}: {} entries for {} documents", found.len(), expected.len()));
    }
    for (key, value) in found {
        let wanted = expected[key].as_object().ok_or("not an object")?;
        if let Some((name, _)) =
            wanted.iter().find(|(name, wanted)| value.attribute(name).to_json() != wanted.to_json())
        {
            return Err(format!("{place}: {key} has another {name}"));
        }
    }
    Ok(())
}

fn all(
    transaction: &Transaction,
    scan: arango_embedded::error::Result<arango_embedded::txn::Scan>,
) -> Result<Vec<(String, Value)>, String> {
    let mut scan = scan.map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    loop {
        let some = transaction.next(&mut scan, 100).map_err(|error| error.to_string())?;
        if some.is_empty() {
            return Ok(all);
        }
        all.extend(
            some.into_iter()
                .map(|value| (value.text_of("_key").unwrap_or_default().to_owned(), value)),
        );
    }
}
