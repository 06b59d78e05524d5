//! Tests views with data on disk: scores, visibility of writes, restarts, damaged files and changed
//! definitions.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arango_embedded::error::{Code, Result};
use arango_embedded::query::{Query, QueryOptions, prepare};
use arango_embedded::schema::{Collection, CollectionKind, View};
use arango_embedded::txn::{Declared, Transaction, WriteOptions};
use arango_embedded::value::{Object, Value, parse};
use arango_embedded::{Engine, Options};
use proptest::prelude::*;

mod best;

const DATABASE: &str = "_system";
/// An interval longer than any test, so that views are committed only where the test requests it.
const NEVER_MS: u64 = u64::MAX / 2;
/// Maximum number of polls of a view, 10 ms apart, until it shows a commit.
const LOOKS_MAX: usize = 3000;

fn open(directory: &Path, view_commit_ms: u64) -> Arc<Engine> {
    let options = Options { sync: false, view_commit_ms, ..Options::default() };
    Engine::open(directory, options).expect("an engine")
}

fn collection(engine: &Engine, name: &str) {
    let collection = Collection::new(name, CollectionKind::Document);
    engine.create_collection(DATABASE, collection).expect("a new collection");
}

fn view(engine: &Engine, id: u64, name: &str, links: &str) -> u64 {
    let mut properties = Object::new();
    properties.push_new("links", parse(links.as_bytes()).expect("links"));
    let view = View {
        id,
        name: name.to_owned(),
        kind: "arangosearch".to_owned(),
        properties: Value::object(properties),
    };
    engine.put_view(DATABASE, view).expect("a view").id
}

fn begin(engine: &Engine, write: &str) -> Transaction {
    let declared =
        Declared { write: vec![write.to_owned()], allow_implicit: true, ..Declared::default() };
    engine.begin(DATABASE, &declared, false).expect("a transaction")
}

fn insert(engine: &Engine, name: &str, json: &str) {
    let transaction = begin(engine, name);
    put(&transaction, name, json);
    transaction.commit(false).expect("a commit");
}

fn put(transaction: &Transaction, name: &str, json: &str) {
    let document = parse(json.as_bytes()).expect("a document");
    let database = transaction.database();
    transaction
        .insert(&database.collections[name], &document, &WriteOptions::default())
        .expect("an insert");
}

fn rows_in(engine: &Engine, transaction: &Transaction, text: &str) -> Result<Vec<Value>> {
    let database = engine.database(DATABASE)?;
    let query =
        Query { text: text.to_owned(), binds: Object::new(), options: QueryOptions::default() };
    Ok(prepare(&database, &query)?.run(&database, transaction)?.rows)
}

fn rows(engine: &Engine, text: &str) -> Vec<Value> {
    let declared = Declared { allow_implicit: true, ..Declared::default() };
    let transaction = engine.begin(DATABASE, &declared, false).expect("a transaction");
    rows_in(engine, &transaction, text).expect("an answer")
}

fn keys(engine: &Engine, text: &str) -> BTreeSet<String> {
    rows(engine, text).iter().map(|row| row.as_str().expect("a key").to_owned()).collect()
}

fn set(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

const ALL: &str = "FOR d IN v RETURN d._key";
const TEXT: &str = r#"{"c": {"fields": {"text": {"analyzers": ["text_en"]}}}}"#;

/// An engine with the collection `c` and the view `v` over its attribute `text`.
fn with_view(directory: &Path, view_commit_ms: u64) -> Arc<Engine> {
    let engine = open(directory, view_commit_ms);
    collection(&engine, "c");
    view(&engine, 0, "v", TEXT);
    engine
}

#[test]
fn writes_show_after_a_commit_and_a_tick_and_not_before() {
    let home = tempfile::tempdir().unwrap();
    let engine = with_view(&home.path().join("engine"), NEVER_MS);
    let transaction = begin(&engine, "c");
    put(&transaction, "c", r#"{"_key": "a", "text": "one"}"#);
    assert!(rows_in(&engine, &transaction, ALL).unwrap().is_empty());
    engine.commit_views().unwrap();
    assert!(rows_in(&engine, &transaction, ALL).unwrap().is_empty());
    transaction.commit(false).unwrap();
    assert_eq!(keys(&engine, ALL), set(&[]));
    engine.commit_views().unwrap();
    assert_eq!(keys(&engine, ALL), set(&["a"]));
    let rolled_back = begin(&engine, "c");
    put(&rolled_back, "c", r#"{"_key": "b", "text": "two"}"#);
    rolled_back.abort();
    engine.commit_views().unwrap();
    assert_eq!(keys(&engine, ALL), set(&["a"]));
}

#[test]
fn a_hit_whose_document_has_changed_or_gone_is_dropped() {
    let home = tempfile::tempdir().unwrap();
    let engine = with_view(&home.path().join("engine"), NEVER_MS);
    for key in ["a", "b", "c"] {
        insert(&engine, "c", &format!(r#"{{"_key": "{key}", "text": "same words"}}"#));
    }
    engine.commit_views().unwrap();
    let transaction = begin(&engine, "c");
    let database = transaction.database();
    let c = &database.collections["c"];
    transaction.remove(c, "a", None, &WriteOptions::default()).unwrap();
    let patch = parse(br#"{"text": "other"}"#).unwrap();
    transaction.update(c, "b", &patch, &WriteOptions::default()).unwrap();
    transaction.commit(false).unwrap();
    let found = "FOR d IN v SEARCH ANALYZER(d.text == 'word', 'text_en') RETURN d._key";
    assert_eq!(keys(&engine, found), set(&["c"]));
    // The best hit is the remaining document; removed documents are not found.
    let best = "FOR d IN v SEARCH ANALYZER(d.text == 'word', 'text_en') SORT BM25(d) DESC LIMIT 1 RETURN d._key";
    assert_eq!(keys(&engine, best), set(&["c"]));
    engine.commit_views().unwrap();
    assert_eq!(keys(&engine, found), set(&["c"]));
    assert_eq!(keys(&engine, ALL), set(&["b", "c"]));
}

#[test]
fn wait_for_sync_takes_in_what_is_committed() {
    let home = tempfile::tempdir().unwrap();
    let engine = with_view(&home.path().join("engine"), NEVER_MS);
    insert(&engine, "c", r#"{"_key": "a", "text": "one"}"#);
    assert_eq!(keys(&engine, ALL), set(&[]));
    let waiting = "FOR d IN v OPTIONS {waitForSync: true} RETURN d._key";
    assert_eq!(keys(&engine, waiting), set(&["a"]));
    assert_eq!(keys(&engine, ALL), set(&["a"]));
}

#[test]
fn a_restart_catches_up_by_itself() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("engine");
    let engine = with_view(&directory, NEVER_MS);
    insert(&engine, "c", r#"{"_key": "a", "text": "one"}"#);
    engine.commit_views().unwrap();
    insert(&engine, "c", r#"{"_key": "b", "text": "two"}"#);
    drop(engine);
    let engine = open(&directory, 10);
    shows(&engine, &["a", "b"]);
    insert(&engine, "c", r#"{"_key": "c", "text": "three"}"#);
    shows(&engine, &["a", "b", "c"]);
}

fn shows(engine: &Engine, wanted: &[&str]) {
    let mut found = BTreeSet::new();
    for _ in 0..LOOKS_MAX {
        found = keys(engine, ALL);
        if found == set(wanted) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the view shows {found:?}");
}

#[test]
fn segments_that_cannot_be_read_are_built_again() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("engine");
    let engine = with_view(&directory, NEVER_MS);
    insert(&engine, "c", r#"{"_key": "a", "text": "one"}"#);
    engine.commit_views().unwrap();
    drop(engine);
    let segments = std::fs::read_dir(directory.join("views")).unwrap().next().unwrap().unwrap();
    std::fs::write(segments.path().join("meta.json"), "damaged").unwrap();
    let engine = open(&directory, NEVER_MS);
    engine.commit_views().unwrap();
    assert_eq!(keys(&engine, ALL), set(&["a"]));
    drop(engine);
    std::fs::remove_dir_all(directory.join("views")).unwrap();
    let engine = open(&directory, NEVER_MS);
    engine.commit_views().unwrap();
    assert_eq!(keys(&engine, ALL), set(&["a"]));
}

/// The engine opens even if a segment file is missing or changed.
#[test]
fn a_view_with_a_lost_or_damaged_file_is_built_again() {
    for damage in [
        (|file: &Path| std::fs::remove_file(file)) as fn(&Path) -> std::io::Result<()>,
        |file: &Path| std::fs::write(file, "damaged ".repeat(100)),
    ] {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("engine");
        let engine = with_view(&directory, NEVER_MS);
        insert(&engine, "c", r#"{"_key": "a", "text": "one"}"#);
        engine.commit_views().unwrap();
        drop(engine);
        let segments = std::fs::read_dir(directory.join("views")).unwrap().next().unwrap().unwrap();
        let files = std::fs::read_dir(segments.path()).unwrap().map(|file| file.unwrap().path());
        let terms = files.filter(|file| file.extension().is_some_and(|name| name == "term"));
        let terms: Vec<_> = terms.collect();
        assert!(!terms.is_empty());
        terms.iter().for_each(|file| damage(file).unwrap());
        let engine = open(&directory, NEVER_MS);
        engine.commit_views().unwrap();
        assert_eq!(keys(&engine, ALL), set(&["a"]));
        let found = "FOR d IN v SEARCH ANALYZER(d.text == 'one', 'text_en') RETURN d._key";
        assert_eq!(keys(&engine, found), set(&["a"]));
    }
}

#[test]
fn segments_of_another_state_of_the_store_are_built_again() {
    let home = tempfile::tempdir().unwrap();
    let (directory, before) = (home.path().join("engine"), home.path().join("before"));
    let engine = with_view(&directory, NEVER_MS);
    insert(&engine, "c", r#"{"_key": "a", "text": "one"}"#);
    engine.commit_views().unwrap();
    drop(engine);
    copy(&directory, &before);
    let engine = open(&directory, NEVER_MS);
    insert(&engine, "c", r#"{"_key": "b", "text": "two"}"#);
    insert(&engine, "c", r#"{"_key": "c", "text": "three"}"#);
    engine.commit_views().unwrap();
    drop(engine);
    // In the first case the view's segments are newer than the store; in the second, the segments
    // lack changes that the store records as committed.
    for (store, views, wanted) in
        [(&before, &directory, &["a"][..]), (&directory, &before, &["a", "b", "c"][..])]
    {
        let mixed = tempfile::tempdir().unwrap();
        let mixed = mixed.path().join("engine");
        copy(&store.join("store"), &mixed.join("store"));
        copy(&views.join("views"), &mixed.join("views"));
        let engine = open(&mixed, NEVER_MS);
        engine.commit_views().unwrap();
        assert_eq!(keys(&engine, ALL), set(wanted));
        let phrase = "FOR d IN v SEARCH PHRASE(d.text, 'two', 'text_en') RETURN d._key";
        assert_eq!(keys(&engine, phrase).len(), usize::from(wanted.len() > 1));
    }
}

fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        std::fs::copy(from, to).unwrap();
        return;
    }
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        copy(&from.join(&name), &to.join(&name));
    }
}

#[test]
fn a_view_follows_its_links_and_their_collections() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("engine");
    let engine = open(&directory, NEVER_MS);
    collection(&engine, "c");
    collection(&engine, "other");
    insert(&engine, "c", r#"{"_key": "a", "text": "Words", "title": "Words"}"#);
    insert(&engine, "other", r#"{"_key": "o", "text": "Words"}"#);
    let id = view(&engine, 0, "v", TEXT);
    assert_eq!(keys(&engine, ALL), set(&["a"]), "a new view holds what is there");
    let by_text = "FOR d IN v SEARCH ANALYZER(d.text == 'word', 'text_en') RETURN d._key";
    let by_title = "FOR d IN v SEARCH ANALYZER(d.title == 'word', 'text_en') RETURN d._key";
    assert_eq!((keys(&engine, by_text), keys(&engine, by_title)), (set(&["a"]), set(&[])));
    let title = r#"{"fields": {"title": {"analyzers": ["text_en"]}}}"#;
    let text = r#"{"fields": {"text": {"analyzers": ["text_en"]}}}"#;
    view(&engine, id, "v", &format!(r#"{{"c": {title}, "other": {text}}}"#));
    assert_eq!((keys(&engine, by_text), keys(&engine, by_title)), (set(&["o"]), set(&["a"])));
    engine.rename_collection(DATABASE, "other", "others").unwrap();
    insert(&engine, "others", r#"{"_key": "p", "text": "Words"}"#);
    engine.commit_views().unwrap();
    assert_eq!(keys(&engine, by_text), set(&["o", "p"]));
    engine.truncate(DATABASE, "others").unwrap();
    insert(&engine, "others", r#"{"_key": "q", "text": "Words"}"#);
    engine.commit_views().unwrap();
    assert_eq!(keys(&engine, by_text), set(&["q"]));
    engine.drop_collection(DATABASE, "c").unwrap();
    engine.commit_views().unwrap();
    assert_eq!(keys(&engine, ALL), set(&["q"]));
    let definition = engine.database(DATABASE).unwrap().views["v"].clone();
    assert!(!definition.holds("c") && definition.holds("others"));
    engine.drop_view(DATABASE, "v").unwrap();
    assert_eq!(std::fs::read_dir(directory.join("views")).unwrap().count(), 0);
}

#[test]
fn a_place_of_a_phrase_has_room_for_so_many_terms() {
    let most = arango_embedded::limits::VIEW_PHRASE_TERMS_MAX;
    let home = tempfile::tempdir().unwrap();
    let engine = with_view(&home.path().join("engine"), NEVER_MS);
    let words: Vec<String> = (0..most).map(|n| format!("w{n}x")).collect();
    insert(&engine, "c", &format!(r#"{{"_key": "a", "text": "{}"}}"#, words.join(" ")));
    engine.commit_views().unwrap();
    let phrase = "FOR d IN v SEARCH PHRASE(d.text, {STARTS_WITH: 'w'}, 0, {WILDCARD: 'w1%'}, 'text_en') RETURN d._key";
    assert_eq!(keys(&engine, phrase), set(&["a"]));
    insert(&engine, "c", r#"{"_key": "b", "text": "wonder"}"#);
    engine.commit_views().unwrap();
    let declared = Declared { allow_implicit: true, ..Declared::default() };
    let transaction = engine.begin(DATABASE, &declared, false).unwrap();
    let refused = rows_in(&engine, &transaction, phrase).unwrap_err();
    assert_eq!(refused.code, Code::ResourceLimit, "{refused}");
}

/// A collection may be dropped after a client has checked that it exists and before the client
/// defines a view on it.
#[test]
fn a_view_links_nothing_that_is_not_there() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(&home.path().join("engine"), NEVER_MS);
    let mut properties = Object::new();
    properties.push_new("links", parse(TEXT.as_bytes()).unwrap());
    let view = View {
        id: 0,
        name: "v".to_owned(),
        kind: "arangosearch".to_owned(),
        properties: Value::object(properties),
    };
    let refused = engine.put_view(DATABASE, view).unwrap_err();
    assert_eq!(refused.code, Code::DataSourceNotFound, "{refused}");
    assert!(engine.database(DATABASE).unwrap().views.is_empty());
}

/// The memory of a loop over a view is released after the loop, except the memory of rows that are
/// kept.
#[test]
fn rows_kept_behind_a_loop_over_a_view_count() {
    let home = tempfile::tempdir().unwrap();
    let engine = with_view(&home.path().join("engine"), NEVER_MS);
    for number in 0..20 {
        let other = "o".repeat(10_000);
        insert(
            &engine,
            "c",
            &format!(r#"{{"_key": "{number}", "text": "word", "other": "{other}"}}"#),
        );
    }
    engine.commit_views().unwrap();
    let run = |times: u32| {
        let text = format!(
            "FOR i IN 1..{times} FOR d IN v SEARCH ANALYZER(d.text == 'word', 'text_en') \
             SORT BM25(d) DESC LIMIT 100000 COLLECT WITH COUNT INTO n RETURN n"
        );
        let options = QueryOptions { memory_limit: 2 << 20, ..QueryOptions::default() };
        let query = Query { text, binds: Object::new(), options };
        let declared = Declared { allow_implicit: true, ..Declared::default() };
        let transaction = engine.begin(DATABASE, &declared, false).unwrap();
        let database = engine.database(DATABASE).unwrap();
        prepare(&database, &query).unwrap().run(&database, &transaction).map(|answer| answer.rows)
    };
    assert_eq!(run(2).unwrap(), [Value::Int(40)]);
    assert_eq!(run(50).unwrap_err().code, Code::ResourceLimit);
}

#[test]
fn views_that_are_made_at_once_can_all_be_searched() {
    const THREADS: usize = 8;
    const EACH: usize = 12;
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("engine");
    let engine = open(&directory, NEVER_MS);
    collection(&engine, "c");
    insert(&engine, "c", r#"{"_key": "a", "text": "Words"}"#);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let engine = &engine;
            scope.spawn(move || {
                for number in 0..EACH {
                    view(engine, 0, &format!("v{thread}_{number}"), TEXT);
                }
            });
        }
    });
    for (thread, number) in (0..THREADS).flat_map(|thread| (0..EACH).map(move |n| (thread, n))) {
        let text = format!("FOR d IN v{thread}_{number} RETURN d._key");
        assert_eq!(keys(&engine, &text), set(&["a"]), "{text}");
    }
}

const WORDS: [&str; 8] = ["apple", "river", "stone", "cloud", "forest", "lamp", "music", "paper"];

/// The scorer of a query and its parameters.
#[derive(Clone, Copy, Debug)]
enum Scorer {
    Bm25 { k: f64, b: f64 },
    Tfidf { normalize: bool },
}

/// Scorer calls in AQL, each with its formula and with a boost for the search condition.
const SCORERS: [(&str, Scorer, f64); 5] = [
    ("BM25(d)", Scorer::Bm25 { k: 1.2, b: 0.75 }, 1.0),
    ("BM25(d, 2.5, 0.3)", Scorer::Bm25 { k: 2.5, b: 0.3 }, 1.0),
    ("BM25(d, 1.2, 0)", Scorer::Bm25 { k: 1.2, b: 0.0 }, 2.5),
    ("TFIDF(d)", Scorer::Tfidf { normalize: false }, 1.0),
    ("TFIDF(d, true)", Scorer::Tfidf { normalize: true }, 2.5),
];

/// Computes the expected score of each document by the scorer's formula (manual, ArangoSearch
/// functions): a sum over the query's words, in double precision.
fn naive(documents: &[Vec<usize>], query: &BTreeSet<usize>, scorer: Scorer) -> Vec<Option<f64>> {
    let having: Vec<&Vec<usize>> = documents.iter().filter(|words| !words.is_empty()).collect();
    let count = having.len() as f64;
    let average = having.iter().map(|words| words.len()).sum::<usize>() as f64 / count;
    let one = |words: &Vec<usize>| {
        let mut score = None;
        for word in query {
            let tf = words.iter().filter(|w| *w == word).count() as f64;
            if tf > 0.0 {
                let df = having.iter().filter(|words| words.contains(word)).count() as f64;
                let length = words.len() as f64;
                *score.get_or_insert(0.0) += match scorer {
                    Scorer::Bm25 { k, b } => {
                        let idf = (1.0 + (count - df + 0.5) / (df + 0.5)).ln();
                        let c = k * (1.0 - b + b * length / average);
                        idf * (k + 1.0) * tf / (c + tf)
                    }
                    Scorer::Tfidf { normalize } => {
                        let idf = 1.0 + ((count + 1.0) / (df + 1.0)).ln();
                        tf.sqrt() * idf / if normalize { length.sqrt() } else { 1.0 }
                    }
                };
            }
        }
        score
    };
    documents.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn scores_are_the_sum_that_the_formula_says(
        first in prop::collection::vec(prop::collection::vec(0..WORDS.len(), 0..12), 1..20),
        second in prop::collection::vec(prop::collection::vec(0..WORDS.len(), 0..12), 0..20),
        query in prop::collection::btree_set(0..WORDS.len(), 1..4),
        limit in 1..8_usize,
    ) {
        let home = tempfile::tempdir().unwrap();
        let engine = with_view(&home.path().join("engine"), NEVER_MS);
        let documents: Vec<Vec<usize>> = first.iter().chain(&second).cloned().collect();
        for (number, words) in documents.iter().enumerate() {
            let text: Vec<&str> = words.iter().map(|word| WORDS[*word]).collect();
            insert(&engine, "c", &format!(r#"{{"_key": "{number}", "text": "{}"}}"#, text.join(" ")));
            if number + 1 == first.len() {
                engine.commit_views().unwrap();
            }
        }
        engine.commit_views().unwrap();
        let words: Vec<&str> = query.iter().map(|word| WORDS[*word]).collect();
        let tokens = format!("d.text IN TOKENS('{}', 'text_en')", words.join(" "));
        for (call, scorer, boost) in SCORERS {
            let text = format!(
                "FOR d IN v SEARCH BOOST(ANALYZER({tokens}, 'text_en'), {boost}) RETURN [d._key, {call}]"
            );
            let answer = rows(&engine, &text);
            let wanted = naive(&documents, &query, scorer);
            prop_assert_eq!(answer.len(), wanted.iter().flatten().count());
            for row in &answer {
                let [key, score] = row.as_array().unwrap() else { panic!("{row:?}") };
                let number: usize = key.as_str().unwrap().parse().unwrap();
                let (score, wanted) = (score.as_f64().unwrap(), boost * wanted[number].unwrap());
                let near = (score - wanted).abs() < 1e-4 * boost;
                prop_assert!(near, "{}: {} is not {}", call, score, wanted);
            }
        }
        let search = format!("SEARCH ANALYZER({tokens}, 'text_en')");
        // A search for only the top hits returns the first hits of the complete sorted list.
        for (call, ..) in SCORERS {
            let sort = format!("SORT {call} DESC, TO_NUMBER(d._key)");
            let all = format!("FOR d IN v {search} LET s = {call} {sort} RETURN d._key");
            let sorted: Vec<_> = rows(&engine, &all).iter().take(limit).map(Value::to_json).collect();
            let best = rows(&engine, &format!("FOR d IN v {search} {sort} LIMIT {limit} RETURN d._key"));
            prop_assert_eq!(best.iter().map(Value::to_json).collect::<Vec<_>>(), sorted, "{}", call);
        }
    }
}

/// Number of segments, counted by their dictionary files.
fn segments(directory: &Path) -> usize {
    let views = std::fs::read_dir(directory.join("views")).expect("views");
    let files = views.flat_map(|view| std::fs::read_dir(view.unwrap().path()).expect("segments"));
    let is_dictionary =
        |file: &std::fs::DirEntry| file.path().extension().is_some_and(|end| end == "term");
    files.filter(|file| is_dictionary(file.as_ref().unwrap())).count()
}
