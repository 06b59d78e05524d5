//! Vector indexes on disk: their lists agree with the documents after writes, aborts, truncations,
//! restarts and kills, and a search of all lists finds the same documents as a scan.

#![allow(
    clippy::disallowed_methods,
    reason = "a test waits for another thread and another process"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arango_embedded::error::Result;
use arango_embedded::query::{Query, QueryOptions, prepare};
use arango_embedded::schema::{Collection, CollectionKind, Index, IndexKind, Metric, VectorParams};
use arango_embedded::txn::{Declared, OverwriteMode, Transaction, WriteOptions};
use arango_embedded::value::{Object, Value};
use arango_embedded::{Engine, Options};
use proptest::prelude::*;

mod background;
mod kills;

const DATABASE: &str = "_system";
/// Maximum time that the test waits for an index state; the engine has no such limit.
const PATIENCE: Duration = Duration::from_secs(120);

fn open(directory: &Path) -> Arc<Engine> {
    let options =
        Options { sync: false, vector_index: true, memtable_bytes: 64 << 10, ..Options::default() };
    Engine::open(directory, options).expect("the engine opens")
}

fn make_collection(engine: &Engine) {
    let collection = Collection::new("c", CollectionKind::Document);
    engine.create_collection(DATABASE, collection).expect("a collection");
}

fn index(metric: Metric, dimension: u32, lists: u32) -> Index {
    let params = VectorParams { metric, dimension, ..VectorParams::of_cells(lists) };
    Index {
        id: 0,
        name: "near".into(),
        kind: IndexKind::Vector(params),
        fields: vec![vec!["v".into()]],
        unique: false,
        sparse: true,
        definition: Value::object(Object::new()),
    }
}

fn begin(engine: &Engine) -> Transaction {
    let declared =
        Declared { write: vec!["c".into()], allow_implicit: true, ..Declared::default() };
    engine.begin(DATABASE, &declared, false).expect("a transaction")
}

fn document(key: &str, vector: Option<&[f64]>) -> Value {
    let mut object = Object::new();
    object.insert("_key", key.into());
    if let Some(vector) = vector {
        let vector = vector.iter().map(|x| Value::Double(*x)).collect();
        object.insert("v", Value::array(vector));
    }
    Value::object(object)
}

fn put(transaction: &Transaction, key: &str, vector: Option<&[f64]>) -> Result<()> {
    let options = WriteOptions { overwrite: OverwriteMode::Replace, ..WriteOptions::default() };
    let database = transaction.database();
    transaction.insert(&database.collections["c"], &document(key, vector), &options).map(|_| ())
}

fn remove(transaction: &Transaction, key: &str) -> Result<()> {
    let database = transaction.database();
    let options = WriteOptions::default();
    transaction.remove(&database.collections["c"], key, None, &options).map(|_| ())
}

/// Returns pseudo-random vectors that are the same in every run.
fn vector(seed: usize, dimension: usize) -> Vec<f64> {
    (0..dimension).map(|at| (((seed * 31 + at) * 7919) as f64).sin() * 5.0 + 0.01).collect()
}

fn fill(engine: &Engine, seeds: std::ops::Range<usize>, dimension: usize) {
    let seeds: Vec<usize> = seeds.collect();
    for some in seeds.chunks(500) {
        let transaction = begin(engine);
        for seed in some {
            put(&transaction, &format!("k{seed}"), Some(&vector(*seed, dimension)))
                .expect("a write");
        }
        transaction.commit(false).expect("a commit");
    }
}

/// Returns the keys and similarities that a search of all lists finds.
fn nearest(
    transaction: &Transaction,
    metric: Metric,
    query: &[f64],
    count: usize,
) -> Vec<(String, f64)> {
    nearest_of(transaction, metric, "", query, count)
}

/// Searches all lists for documents that fulfil a condition; returns their keys and similarities.
fn nearest_of(
    transaction: &Transaction,
    metric: Metric,
    filter: &str,
    query: &[f64],
    count: usize,
) -> Vec<(String, f64)> {
    search(transaction, metric, filter, query, count).expect("an answer")
}

/// Like `nearest_of`, but returns an error instead of panicking.
fn search(
    transaction: &Transaction,
    metric: Metric,
    filter: &str,
    query: &[f64],
    count: usize,
) -> Result<Vec<(String, f64)>> {
    let direction = if metric.is_descending() { "DESC" } else { "ASC" };
    let text = format!(
        "FOR d IN c {filter} LET s = {}(d.v, @q, {{nProbe: 100}}) SORT s {direction} LIMIT @k RETURN [d._key, s]",
        metric.function()
    );
    let mut binds = Object::new();
    binds.insert("q", Value::array(query.iter().map(|x| Value::Double(*x)).collect()));
    binds.insert("k", (count as u64).into());
    let database = transaction.database();
    let query = Query { text, binds, options: QueryOptions::default() };
    let prepared = prepare(&database, &query).expect("a plan");
    let answer = prepared.run(&database, transaction)?;
    let row = |row: &Value| {
        let row = row.as_array().expect("a pair");
        (row[0].as_str().expect("a key").to_owned(), row[1].as_f64().expect("a number"))
    };
    Ok(answer.rows.iter().map(row).collect())
}

fn state(engine: &Engine) -> &'static str {
    let database = engine.database(DATABASE).expect("a database");
    let indexes = &database.collections["c"].indexes;
    let index = indexes.iter().find(|index| index.name == "near").expect("the index");
    engine.training(index).expect("a state").expect("a vector index").state
}

/// Returns why the index is not ready. While the background thread tries again, there is no reason
/// for a moment.
fn why(engine: &Engine) -> String {
    let database = engine.database(DATABASE).expect("a database");
    let index = database.collections["c"].indexes.last().expect("the index");
    let begin = Instant::now();
    loop {
        let training = engine.training(index).expect("a state").expect("a vector index");
        if let Some(error) = training.error {
            return error.message;
        }
        assert!(begin.elapsed() < PATIENCE, "no reason, and it stays {}", state(engine));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn wait_until_ready(engine: &Engine) {
    let begin = Instant::now();
    while state(engine) != "ready" {
        assert!(begin.elapsed() < PATIENCE, "it stays {}", state(engine));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn assert_whole(engine: &Engine) {
    let faults = engine.vector_faults(DATABASE, "c", "near").expect("a comparison");
    assert!(faults.is_empty(), "{} while {}:\n{}", faults.len(), state(engine), faults.join("\n"));
}

/// Every document with a vector must be found once.
fn assert_all_found(engine: &Engine, dimension: usize, count: usize) {
    let found = nearest(&begin(engine), Metric::L2, &vector(1, dimension), 1_000_000);
    let mut keys: Vec<&String> = found.iter().map(|(key, _)| key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!((found.len(), keys.len()), (count, count));
    assert!(found.is_sorted_by(|a, b| a.1 <= b.1));
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Option<[i8; 3]>),
    Remove(u8),
    Look([i8; 3], usize),
    Commit,
    Abort,
    Savepoint,
    Undo,
}

fn any_vector() -> impl Strategy<Value = [i8; 3]> {
    [-4_i8..5, -4_i8..5, 1_i8..5]
}

fn any_step() -> impl Strategy<Value = Step> {
    let key = 0_u8..24;
    prop_oneof![
        8 => (key.clone(), prop::option::weighted(0.9, any_vector())).prop_map(|(key, v)| Step::Put(key, v)),
        3 => key.prop_map(Step::Remove),
        5 => (any_vector(), 1_usize..30).prop_map(|(query, count)| Step::Look(query, count)),
        2 => Just(Step::Commit),
        1 => Just(Step::Abort),
        1 => Just(Step::Savepoint),
        1 => Just(Step::Undo),
    ]
}

type Documents = BTreeMap<String, Option<[i8; 3]>>;

fn wide(vector: [i8; 3]) -> Vec<f64> {
    vector.map(f64::from).to_vec()
}

fn exact(metric: Metric, a: &[f64], b: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(x, y)| x * y).sum() };
    match metric {
        Metric::InnerProduct => product(a, b),
        Metric::Cosine => product(a, b) / (product(a, a) * product(b, b)).sqrt(),
        Metric::L2 => a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt(),
    }
}

fn compare(
    transaction: &Transaction,
    metric: Metric,
    model: &Documents,
    query: [i8; 3],
    count: usize,
) {
    let query = wide(query);
    let of = |vector: [i8; 3]| exact(metric, &wide(vector), &query);
    for filter in ["", "FILTER d._key < '2' || d._key == '7'"] {
        let fulfils = |key: &str| filter.is_empty() || key < "2" || key == "7";
        let fulfilling = model.iter().filter(|(key, _)| fulfils(key));
        let mut wanted: Vec<f64> = fulfilling.filter_map(|(_, vector)| vector.map(of)).collect();
        wanted.sort_by(|a, b| if metric.is_descending() { b.total_cmp(a) } else { a.total_cmp(b) });
        wanted.truncate(count);
        let found = nearest_of(transaction, metric, filter, &query, count);
        assert_eq!(found.len(), wanted.len(), "{filter}");
        for ((key, similarity), wanted) in found.iter().zip(wanted) {
            let own = of(model[key].expect("a document with a vector"));
            assert!((similarity - wanted).abs() < 1e-4 && (similarity - own).abs() < 1e-4, "{key}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// A search of all lists is exact, including the transaction's own writes.
    #[test]
    fn the_index_finds_what_a_look_at_every_document_finds(
        steps in prop::collection::vec(any_step(), 1..60),
        metric in prop::sample::select(Metric::ALL.to_vec()),
        trained_first in any::<bool>(),
    ) {
        let home = tempfile::tempdir().unwrap();
        let engine = open(home.path());
        make_collection(&engine);
        if !trained_first {
            engine.create_index(DATABASE, "c", index(metric, 3, 4)).unwrap();
        }
        let mut stored = Documents::new();
        let first = begin(&engine);
        for at in 0_i8..8 {
            let v = [at - 4, 3 - at, 1 + at % 3];
            put(&first, &at.to_string(), Some(&wide(v))).unwrap();
            stored.insert(at.to_string(), Some(v));
        }
        first.commit(false).unwrap();
        if trained_first {
            engine.create_index(DATABASE, "c", index(metric, 3, 4)).unwrap();
        }
        wait_until_ready(&engine);
        let (mut own, mut transaction, mut savepoint) = (stored.clone(), begin(&engine), None);
        for step in steps {
            match step {
                Step::Put(key, v) => {
                    let key = key.to_string();
                    put(&transaction, &key, v.map(wide).as_deref()).unwrap();
                    own.insert(key, v);
                }
                Step::Remove(key) => {
                    let key = key.to_string();
                    prop_assert_eq!(remove(&transaction, &key).is_ok(), own.remove(&key).is_some());
                }
                Step::Look(query, count) => {
                    compare(&transaction, metric, &own, query, count);
                    compare(&begin(&engine), metric, &stored, query, count);
                }
                Step::Commit => {
                    transaction.commit(false).unwrap();
                    stored = own.clone();
                    (transaction, savepoint) = (begin(&engine), None);
                    assert_whole(&engine);
                }
                Step::Abort => {
                    transaction.abort();
                    own = stored.clone();
                    (transaction, savepoint) = (begin(&engine), None);
                    assert_whole(&engine);
                }
                Step::Savepoint => savepoint = Some((transaction.savepoint(), own.clone())),
                Step::Undo => if let Some((at, before)) = savepoint.take() {
                    transaction.rollback_to(at);
                    own = before;
                },
            }
        }
    }
}

/// Writers that put, remove and abort, each among its own keys, until `stop`.
fn write_until(engine: &Engine, writer: usize, stop: &AtomicBool) -> usize {
    let mut live = BTreeMap::new();
    for round in 0..20_000 {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let transaction = begin(engine);
        let before = live.clone();
        for step in 0..3 {
            let seed = writer * 1_000_003 + round * 7 + step;
            let key = format!("w{writer}-{}", seed % 60);
            match seed % 5 {
                0 if live.remove(&key).is_some() => remove(&transaction, &key).expect("a removal"),
                1 => {
                    put(&transaction, &key, None).expect("a write");
                    live.insert(key, false);
                }
                _ => {
                    put(&transaction, &key, Some(&vector(seed, 8))).expect("a write");
                    live.insert(key, true);
                }
            }
        }
        if round % 4 == 3 {
            transaction.abort();
            live = before;
        } else {
            transaction.commit(false).expect("a commit");
        }
    }
    live.values().filter(|has_vector| **has_vector).count()
}

#[test]
fn nothing_is_lost_while_writers_run_and_the_index_is_trained() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    make_collection(&engine);
    fill(&engine, 0..2500, 8);
    let stop = AtomicBool::new(false);
    let written: usize = std::thread::scope(|scope| {
        let (engine, stop) = (&engine, &stop);
        let writers: Vec<_> =
            (0..3).map(|writer| scope.spawn(move || write_until(engine, writer, stop))).collect();
        engine.create_index_in_background(DATABASE, "c", index(Metric::L2, 8, 16)).unwrap();
        let begin = Instant::now();
        while state(engine) != "ready" && begin.elapsed() < PATIENCE {
            assert_whole(engine);
        }
        // Some writers continue after the index is trained.
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("a writer")).sum()
    });
    // Writers without pauses may delay the training until the writers have ended.
    wait_until_ready(&engine);
    assert_whole(&engine);
    assert_all_found(&engine, 8, 2500 + written);
    drop(engine);
    let engine = open(home.path());
    assert_eq!(state(&engine), "ready");
    assert_whole(&engine);
    assert_all_found(&engine, 8, 2500 + written);
}

/// Each commit removes one document and adds another. Every search, from cached lists or from the
/// store, finds the same number of documents. A search in an older snapshot finds the documents of
/// that snapshot.
#[test]
fn lists_in_memory_show_each_commit_whole_and_each_snapshot_its_own() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    make_collection(&engine);
    fill(&engine, 0..120, 4);
    engine.create_index(DATABASE, "c", index(Metric::L2, 4, 3)).unwrap();
    wait_until_ready(&engine);
    let keys = |transaction: &Transaction| {
        let mut keys: Vec<String> = nearest(transaction, Metric::L2, &vector(5, 4), 1000)
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        keys.sort();
        keys
    };
    let (old, stop) = (begin(&engine), AtomicBool::new(false));
    let at_first = keys(&old);
    std::thread::scope(|scope| {
        let (engine, stop, keys) = (&engine, &stop, &keys);
        let writers: Vec<_> = (0..2_usize)
            .map(|writer| {
                scope.spawn(move || {
                    for round in 0..150_usize {
                        let transaction = begin(engine);
                        let (gone, new) = (round * 2 + writer, (round + 60) * 2 + writer);
                        remove(&transaction, &format!("k{gone}")).expect("a removal");
                        put(&transaction, &format!("k{new}"), Some(&vector(new, 4)))
                            .expect("a write");
                        transaction.commit(false).expect("a commit");
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(move || {
                    let mut looks = 0;
                    while !stop.load(Ordering::Relaxed) || looks < 20 {
                        let transaction = begin(engine);
                        let first = keys(&transaction);
                        assert_eq!(first.len(), 120);
                        assert_eq!(keys(&transaction), first, "one snapshot, one answer");
                        looks += 1;
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("a reader"));
    });
    assert_eq!(keys(&old), at_first);
    let mut wanted: Vec<String> = (300..420).map(|at| format!("k{at}")).collect();
    wanted.sort();
    assert_eq!(keys(&begin(&engine)), wanted);
    assert_whole(&engine);
}

#[test]
fn a_truncation_in_the_middle_of_a_training_leaves_nothing_of_it() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    make_collection(&engine);
    engine.create_index(DATABASE, "c", index(Metric::L2, 8, 16)).unwrap();
    for round in 0..4 {
        fill(&engine, 0..1500, 8);
        let begin = Instant::now();
        let wanted = ["training", "ingesting", "ready"];
        while !wanted[round % 3..].contains(&state(&engine)) && begin.elapsed() < PATIENCE {}
        engine.truncate(DATABASE, "c").unwrap();
        // The truncation makes the current training obsolete, but the trainer may not have noticed
        // this yet.
        assert!(["unusable", "training"].contains(&state(&engine)), "{}", state(&engine));
        assert_whole(&engine);
    }
    fill(&engine, 0..100, 8);
    wait_until_ready(&engine);
    assert_whole(&engine);
    assert_all_found(&engine, 8, 100);
}

#[test]
fn an_open_write_transaction_holds_the_training_up_and_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    make_collection(&engine);
    engine.create_index(DATABASE, "c", index(Metric::L2, 4, 2)).unwrap();
    let long = begin(&engine);
    put(&long, "late", Some(&vector(7, 4))).unwrap();
    fill(&engine, 0..50, 4);
    std::thread::sleep(Duration::from_millis(1500));
    assert_ne!(state(&engine), "ready");
    // Other writers continue while the transaction is open.
    fill(&engine, 50..60, 4);
    long.commit(false).unwrap();
    wait_until_ready(&engine);
    assert_whole(&engine);
    assert_all_found(&engine, 4, 61);
}
