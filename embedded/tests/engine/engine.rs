//! Tests the engine's Rust interface with data on disk: documents, indexes, transactions,
//! definitions and a restart.

use std::sync::Arc;

use arango_embedded::error::{Code, Result};
use arango_embedded::schema::{Collection, CollectionKind, Index, IndexKind};
use arango_embedded::txn::{
    Declared, IndexRange, OverwriteMode, StreamSettings, Transaction, WriteOptions, Written,
};
use arango_embedded::value::{Object, Value};
use arango_embedded::{Engine, Options};

mod definitions;

fn collection(name: &str, kind: CollectionKind) -> Collection {
    Collection::new(name, kind)
}

fn index(fields: &[&str], unique: bool) -> Index {
    Index {
        id: 0,
        name: String::new(),
        kind: IndexKind::Persistent,
        fields: fields.iter().map(|field| field.split('.').map(str::to_owned).collect()).collect(),
        unique,
        sparse: false,
        definition: Value::object(Object::new()),
    }
}

/// Parses text such as `a=1 b=x` into a document; values that look like numbers become numbers, and
/// `null` becomes null.
fn doc(text: &str) -> Value {
    let mut object = Object::new();
    for pair in text.split_whitespace() {
        let (name, value) = pair.split_once('=').unwrap();
        let value = match (value, value.parse::<i64>()) {
            (_, Ok(number)) => number.into(),
            ("null", _) => Value::Null,
            _ => value.into(),
        };
        object.insert(name, value);
    }
    Value::object(object)
}

fn show(value: &Value) -> String {
    let Value::Object(object) = value else { return format!("{value:?}") };
    let shown = object.iter().filter(|(name, _)| !["_id", "_rev"].contains(&&***name));
    let attribute = |(name, value): (&Arc<str>, &Value)| match value {
        Value::String(text) => format!("{name}={text}"),
        Value::Int(number) => format!("{name}={number}"),
        Value::Null => format!("{name}=null"),
        Value::Object(_) => format!("{name}={{{}}}", show(value)),
        other => format!("{name}={other:?}"),
    };
    shown.map(attribute).collect::<Vec<_>>().join(" ")
}

struct House {
    engine: Arc<Engine>,
    _directory: tempfile::TempDir,
}

fn house() -> House {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::open(directory.path(), Options::default()).unwrap();
    engine.create_collection("_system", collection("c", CollectionKind::Document)).unwrap();
    House { engine, _directory: directory }
}

impl House {
    fn begin(&self, write: &[&str]) -> Transaction {
        let write = write.iter().map(|name| (*name).to_owned()).collect();
        let declared = Declared { write, allow_implicit: true, ..Declared::default() };
        self.engine.begin("_system", &declared, false).unwrap()
    }

    fn c(&self) -> Arc<Collection> {
        self.engine.database("_system").unwrap().collections["c"].clone()
    }

    fn in_one<T>(&self, work: impl FnOnce(&Transaction, &Collection) -> Result<T>) -> Result<T> {
        let transaction = self.begin(&["c"]);
        let result = work(&transaction, &self.c())?;
        transaction.commit(true)?;
        Ok(result)
    }

    fn insert(&self, text: &str) -> Result<Written> {
        self.in_one(|t, c| t.insert(c, &doc(text), &WriteOptions::default()))
    }

    fn all(&self) -> Vec<String> {
        let transaction = self.begin(&[]);
        let mut scan = transaction.scan(&self.c()).unwrap();
        drain(&transaction, &mut scan)
    }

    fn range(&self, index: &Index, range: &IndexRange, backwards: bool) -> Vec<String> {
        let transaction = self.begin(&[]);
        let mut scan = transaction.index_scan(&self.c(), index, 0, range, backwards).unwrap();
        drain(&transaction, &mut scan)
    }
}

fn drain(transaction: &Transaction, scan: &mut arango_embedded::txn::Scan) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let some = transaction.next(scan, 2).unwrap();
        if some.is_empty() {
            return all;
        }
        all.extend(some.iter().map(show));
    }
}

/// Returns the values of a revision's digits. Sorting by these values sorts revisions by number;
/// this order differs from the ASCII order of their texts.
fn digits(revision: &str) -> Vec<Option<usize>> {
    const ALPHABET: &str = "-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    revision.chars().map(|digit| ALPHABET.find(digit)).collect()
}

#[test]
fn documents_come_back_in_the_order_of_their_insertion_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut last = String::new();
    for round in 0..3 {
        let engine = Engine::open(directory.path(), Options::default()).unwrap();
        if round == 0 {
            engine.create_collection("_system", collection("c", CollectionKind::Document)).unwrap();
        }
        let house = House { engine, _directory: tempfile::tempdir().unwrap() };
        let written = house.insert(&format!("_key=k{} n={round}", 9 - round)).unwrap();
        assert_eq!(written.rev.len(), 11, "{}", written.rev);
        assert!(digits(&written.rev) > digits(&last), "{} behind {last}", written.rev);
        last = written.rev;
        let generated = house.insert("g=1").unwrap();
        assert!(generated.key.parse::<u64>().unwrap() > 0);
        let count = house.begin(&[]).count(&house.c()).unwrap();
        assert_eq!(count, 2 * (round + 1));
        let keyed: Vec<_> =
            house.all().into_iter().filter(|shown| shown.contains("_key=k")).collect();
        let expected: Vec<_> = (0..=round).map(|n| format!("_key=k{} n={n}", 9 - n)).collect();
        assert_eq!(keyed, expected);
    }
}

#[test]
fn one_directory_takes_one_engine_and_foreign_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::open(directory.path(), Options::default()).unwrap();
    let error = Engine::open(directory.path(), Options::default()).unwrap_err();
    assert!(error.message.contains("another engine"), "{error}");
    drop(engine);
    std::fs::write(directory.path().join("photo.jpg"), "x").unwrap();
    let error = Engine::open(directory.path(), Options::default()).unwrap_err();
    assert!(error.message.contains("photo.jpg"), "{error}");
}

#[test]
fn an_index_answers_ranges_in_order_and_follows_every_write() {
    let house = house();
    for text in
        ["_key=a n=3 m=x", "_key=b n=1 m=y", "_key=c m=z", "_key=d n=2 m=x", "_key=e n=2 m=a"]
    {
        house.insert(text).unwrap();
    }
    let (made, new) = house.engine.create_index("_system", "c", index(&["n", "m"], false)).unwrap();
    assert!(new && made.name.starts_with("idx_"));
    let (same, new) = house.engine.create_index("_system", "c", index(&["n", "m"], false)).unwrap();
    assert!(!new && same.id == made.id);
    let keys = |range: &IndexRange, backwards| -> String {
        house.range(&made, range, backwards).iter().map(|shown| &shown[5..6]).collect()
    };
    let whole = IndexRange::default();
    assert_eq!((keys(&whole, false), keys(&whole, true)), ("cbeda".into(), "adebc".into()));
    let equal = IndexRange { equals: vec![2i64.into()], ..IndexRange::default() };
    assert_eq!(keys(&equal, false), "ed");
    let both = |lower: (i64, bool), upper: (i64, bool)| IndexRange {
        lower: Some((lower.0.into(), lower.1)),
        upper: Some((upper.0.into(), upper.1)),
        ..IndexRange::default()
    };
    assert_eq!(keys(&both((1, true), (2, true)), false), "bed");
    assert_eq!(keys(&both((1, false), (3, false)), true), "de");
    let deep =
        IndexRange { equals: vec![2i64.into()], lower: Some(("b".into(), true)), upper: None };
    assert_eq!(keys(&deep, false), "d");
    house.in_one(|t, c| t.update(c, "a", &doc("n=0"), &WriteOptions::default())).unwrap();
    house.in_one(|t, c| t.remove(c, "d", None, &WriteOptions::default())).unwrap();
    assert_eq!(keys(&whole, false), "cabe");
    let primary = house.c().indexes[0].clone();
    let one = IndexRange { equals: vec!["b".into()], ..IndexRange::default() };
    assert_eq!(house.range(&primary, &one, false), ["_key=b n=1 m=y"]);
    house.engine.drop_index("_system", "c", made.id).unwrap();
    assert_eq!(
        house.engine.drop_index("_system", "c", made.id).unwrap_err().code,
        Code::IndexNotFound
    );
    assert_eq!(house.c().indexes.len(), 1);
}

#[test]
fn a_unique_value_stands_once() {
    let house = house();
    house.insert("_key=a u=1").unwrap();
    let (unique, _) = house.engine.create_index("_system", "c", index(&["u"], true)).unwrap();
    let error = house.insert("_key=b u=1").unwrap_err();
    assert_eq!(error.code, Code::UniqueConstraintViolated);
    assert!(
        error.message.contains(&unique.name) && error.message.contains("conflicting key: a"),
        "{error}"
    );
    house.insert("_key=b u=2").unwrap();
    let o = WriteOptions::default();
    // Two documents swap their unique values within one transaction, in three updates.
    house
        .in_one(|t, c| {
            t.update(c, "a", &doc("u=3"), &o)?;
            t.update(c, "b", &doc("u=1"), &o)?;
            t.update(c, "a", &doc("u=2"), &o)
        })
        .unwrap();
    assert_eq!(house.range(&unique, &IndexRange::default(), false), ["_key=b u=1", "_key=a u=2"]);
    house.insert("_key=c v=1").unwrap();
    assert_eq!(
        house.insert("_key=d v=1").unwrap_err().code,
        Code::UniqueConstraintViolated,
        "null counts"
    );
    house.insert("_key=e u=9 w=1").unwrap();
    house.insert("_key=f u=8 w=1").unwrap();
    let error = house.engine.create_index("_system", "c", index(&["w"], true)).unwrap_err();
    assert_eq!(error.code, Code::UniqueConstraintViolated);
    assert_eq!(house.c().indexes.len(), 2);
}

#[test]
fn writes_follow_arangodbs_document_rules() {
    let house = house();
    let o = WriteOptions::default();
    let code = |text: &str| house.insert(text).unwrap_err().code;
    assert_eq!(code("_key=5"), Code::DocumentKeyBad);
    assert_eq!(code("_key=a/b"), Code::DocumentKeyBad);
    let first = house.insert("_key=a x=1 y=2").unwrap();
    assert_eq!(code("_key=a"), Code::UniqueConstraintViolated);
    assert_eq!(
        house.in_one(|t, c| t.insert(c, &1i64.into(), &o)).unwrap_err().code,
        Code::DocumentTypeInvalid
    );
    assert_eq!(
        house.in_one(|t, c| t.update(c, "no", &doc(""), &o)).unwrap_err().code,
        Code::DocumentNotFound
    );

    let second =
        house.in_one(|t, c| t.update(c, "a", &doc("x=null z=3 _key=ignored"), &o)).unwrap();
    assert_eq!(
        (show(&second.old), show(&second.new)),
        ("_key=a x=1 y=2".into(), "_key=a x=null y=2 z=3".into())
    );
    assert_eq!(second.old_rev.as_deref(), Some(first.rev.as_str()));
    let drop_null = WriteOptions { keep_null: false, ..o.clone() };
    let third = house.in_one(|t, c| t.update(c, "a", &doc("y=null"), &drop_null)).unwrap();
    assert_eq!(show(&third.new), "_key=a x=null z=3");
    let fourth = house.in_one(|t, c| t.replace(c, "a", &doc("only=1"), &o)).unwrap();
    assert_eq!(show(&fourth.new), "_key=a only=1");

    let stale = WriteOptions { if_match: Some(format!("\"{}\"", first.rev)), ..o.clone() };
    let error = house.in_one(|t, c| t.remove(c, "a", None, &stale)).unwrap_err();
    assert_eq!((error.code, error.status()), (Code::Conflict, 412));
    assert_eq!(error.extra.unwrap().text_of("_rev"), Some(fourth.rev.as_str()));
    let checked = WriteOptions { ignore_revs: false, ..o.clone() };
    let patch = doc(&format!("_rev={} x=1", first.rev));
    let error = house.in_one(|t, c| t.update(c, "a", &patch, &checked)).unwrap_err();
    assert_eq!((error.code, error.status()), (Code::Conflict, 409));

    let mode = |overwrite| WriteOptions { overwrite, ..o.clone() };
    let ignored =
        house.in_one(|t, c| t.insert(c, &doc("_key=a n=1"), &mode(OverwriteMode::Ignore))).unwrap();
    assert!(!ignored.executed && ignored.new.is_null());
    let updated =
        house.in_one(|t, c| t.insert(c, &doc("_key=a n=1"), &mode(OverwriteMode::Update))).unwrap();
    assert_eq!(show(&updated.new), "_key=a only=1 n=1");
    let replaced = house
        .in_one(|t, c| t.insert(c, &doc("_key=a v=5"), &mode(OverwriteMode::Replace)))
        .unwrap();
    assert_eq!(show(&replaced.new), "_key=a v=5");

    let versioned = WriteOptions { version_attribute: Some("v".into()), ..o.clone() };
    let skipped = house.in_one(|t, c| t.update(c, "a", &doc("v=5 n=2"), &versioned)).unwrap();
    assert!(!skipped.executed && skipped.old_rev == Some(skipped.rev));
    let newer = house.in_one(|t, c| t.update(c, "a", &doc("v=6 n=2"), &versioned)).unwrap();
    assert_eq!(show(&newer.new), "_key=a v=6 n=2");
    let removed = house.in_one(|t, c| t.remove(c, "a", None, &o)).unwrap();
    assert_eq!((removed.rev, removed.new.is_null()), (newer.rev, true));
    assert_eq!(house.begin(&[]).count(&house.c()).unwrap(), 0);
}

#[test]
fn sub_objects_merge_deeply_unless_told_otherwise() {
    let house = house();
    let nested = |text: &str| Value::object([("o".into(), doc(text))].into_iter().collect());
    let o = WriteOptions::default();
    let insert = nested("a=1 b=2");
    let key = house.in_one(|t, c| t.insert(c, &insert, &o)).unwrap().key;
    let merged = house.in_one(|t, c| t.update(c, &key, &nested("b=3 c=null"), &o)).unwrap();
    assert!(show(&merged.new).ends_with("o={a=1 b=3 c=null}"), "{}", show(&merged.new));
    let drop_null = WriteOptions { keep_null: false, ..o.clone() };
    let dropped =
        house.in_one(|t, c| t.update(c, &key, &nested("a=null c=null"), &drop_null)).unwrap();
    assert!(show(&dropped.new).ends_with("o={b=3}"));
    let whole = WriteOptions { merge_objects: false, ..o };
    let replaced = house.in_one(|t, c| t.update(c, &key, &nested("z=1"), &whole)).unwrap();
    assert!(show(&replaced.new).ends_with("o={z=1}"));
}

#[test]
fn edges_need_both_ends_and_are_found_by_them() {
    let house = house();
    house.engine.create_collection("_system", collection("e", CollectionKind::Edge)).unwrap();
    let e = house.engine.database("_system").unwrap().collections["e"].clone();
    let transaction = house.begin(&["e"]);
    let o = WriteOptions::default();
    for bad in ["", "_from=c/a", "_from=c/a _to=b", "_from=/a _to=c/b", "_from=c/a _to=1"] {
        let error = transaction.insert(&e, &doc(bad), &o).unwrap_err();
        assert_eq!(error.code, Code::InvalidEdgeAttribute, "{bad}");
    }
    for edge in
        ["_key=1x _from=c/a _to=c/b", "_key=2x _from=c/a _to=c/c", "_key=3x _from=c/b _to=c/a"]
    {
        transaction.insert(&e, &doc(edge), &o).unwrap();
    }
    let edges = |transaction: &Transaction, field| {
        let range = IndexRange { equals: vec!["c/a".into()], ..IndexRange::default() };
        let mut scan = transaction.index_scan(&e, &e.indexes[1], field, &range, false).unwrap();
        drain(transaction, &mut scan)
    };
    assert_eq!(edges(&transaction, 0), ["_key=1x _from=c/a _to=c/b", "_key=2x _from=c/a _to=c/c"]);
    transaction.commit(true).unwrap();
    let later = house.begin(&["e"]);
    later.update(&e, "2x", &doc("_from=c/b"), &o).unwrap();
    assert_eq!(edges(&later, 0), ["_key=1x _from=c/a _to=c/b"]);
    assert_eq!(edges(&later, 1), ["_key=3x _from=c/b _to=c/a"]);
}

#[test]
fn the_first_writer_wins_and_a_stale_snapshot_conflicts() {
    let house = house();
    house.insert("_key=a n=0").unwrap();
    let (first, second, c, o) =
        (house.begin(&["c"]), house.begin(&["c"]), house.c(), WriteOptions::default());
    first.update(&c, "a", &doc("n=1"), &o).unwrap();
    assert_eq!(show(&first.get(&c, "a").unwrap().unwrap()), "_key=a n=1");
    assert_eq!(show(&second.get(&c, "a").unwrap().unwrap()), "_key=a n=0");
    let error = second.update(&c, "a", &doc("n=2"), &o).unwrap_err();
    assert_eq!((error.code, error.status()), (Code::Conflict, 409));
    let (told, stored) = (error.extra.unwrap(), second.get(&c, "a").unwrap().unwrap());
    assert_eq!((told.text_of("_key"), told.text_of("_rev")), (Some("a"), stored.text_of("_rev")));
    first.commit(false).unwrap();
    assert_eq!(show(&second.get(&c, "a").unwrap().unwrap()), "_key=a n=0");
    assert_eq!(second.update(&c, "a", &doc("n=2"), &o).unwrap_err().code, Code::Conflict);
    second.insert(&c, &doc("_key=b"), &o).unwrap();
    second.commit(false).unwrap();
    assert_eq!(second.commit(false).unwrap_err().code, Code::TransactionAborted);
    assert_eq!(house.all(), ["_key=a n=1", "_key=b"]);
}

#[test]
fn requests_of_the_document_api_wait_for_each_other() {
    let house = house();
    house.insert("_key=a n=0").unwrap();
    let c = house.c();
    let patient = WriteOptions { lock_wait_ms: 1000, sees_newest: true, ..WriteOptions::default() };
    let first = house.begin(&["c"]);
    first.update(&c, "a", &doc("n=1"), &patient).unwrap();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| house.in_one(|t, c| t.update(c, "a", &doc("m=2"), &patient)));
        std::thread::sleep(std::time::Duration::from_millis(50));
        first.commit(false).unwrap();
        assert_eq!(show(&second.join().unwrap().unwrap().new), "_key=a n=1 m=2");
    });
}

#[test]
fn a_savepoint_undoes_a_failed_statement_alone() {
    let house = house();
    let (transaction, c, o) = (house.begin(&["c"]), house.c(), WriteOptions::default());
    transaction.insert(&c, &doc("_key=a n=1"), &o).unwrap();
    let savepoint = transaction.savepoint();
    transaction.insert(&c, &doc("_key=b n=1"), &o).unwrap();
    transaction.update(&c, "a", &doc("n=2"), &o).unwrap();
    transaction.remove(&c, "a", None, &o).unwrap();
    assert_eq!(transaction.count(&c).unwrap(), 1);
    transaction.rollback_to(savepoint);
    assert_eq!(transaction.count(&c).unwrap(), 1);
    transaction.commit(true).unwrap();
    assert_eq!(house.all(), ["_key=a n=1"]);
}

#[test]
fn a_scan_does_not_see_what_is_inserted_while_it_runs() {
    let house = house();
    let (transaction, c, o) = (house.begin(&["c"]), house.c(), WriteOptions::default());
    for key in 0..5 {
        transaction.insert(&c, &doc(&format!("_key=k{key}")), &o).unwrap();
    }
    let mut scan = transaction.scan(&c).unwrap();
    let mut seen = 0;
    loop {
        let documents = transaction.next(&mut scan, 2).unwrap();
        if documents.is_empty() {
            break;
        }
        for document in documents {
            seen += 1;
            transaction.insert(&c, &doc("copy=1"), &o).unwrap();
            transaction.remove(&c, document.text_of("_key").unwrap(), None, &o).unwrap();
        }
    }
    assert_eq!((seen, transaction.count(&c).unwrap()), (5, 5));
}

#[test]
fn only_declared_collections_may_be_touched() {
    let house = house();
    let c = house.c();
    let o = WriteOptions::default();
    let reader = house.begin(&[]);
    assert_eq!(
        reader.insert(&c, &doc(""), &o).unwrap_err().code,
        Code::TransactionUnregisteredCollection
    );
    let strict = house.engine.begin("_system", &Declared::default(), false).unwrap();
    assert_eq!(strict.get(&c, "a").unwrap_err().code, Code::TransactionUnregisteredCollection);
    let unknown = Declared { read: vec!["nope".into()], ..Declared::default() };
    assert_eq!(
        house.engine.begin("_system", &unknown, false).unwrap_err().code,
        Code::DataSourceNotFound
    );
}

#[test]
fn a_stream_transaction_lives_until_it_is_over_and_is_remembered() {
    let house = house();
    let c = house.c();
    let streams = house.engine.streams();
    let declared =
        Declared { write: vec!["c".into()], allow_implicit: true, ..Declared::default() };
    let begin = || {
        streams
            .begin(&house.engine, "_system", "root", &declared, StreamSettings::default())
            .unwrap()
    };
    let id = begin();
    assert_eq!(streams.list("_system", "root"), [(id, "running")]);
    assert_eq!(streams.status(id, "_system", "other").unwrap_err().code, Code::TransactionNotFound);
    streams
        .lend(id, "_system", "root")
        .unwrap()
        .insert(&c, &doc("_key=a"), &WriteOptions::default())
        .unwrap();
    assert!(house.all().is_empty());
    streams.commit(id, "_system", "root").unwrap();
    streams.commit(id, "_system", "root").unwrap();
    assert_eq!(house.all(), ["_key=a"]);
    assert_eq!(
        streams.abort(id, "_system", "root").unwrap_err().code,
        Code::TransactionDisallowedOperation
    );
    let id = begin();
    streams
        .lend(id, "_system", "root")
        .unwrap()
        .insert(&c, &doc("_key=b"), &WriteOptions::default())
        .unwrap();
    streams.abort(id, "_system", "root").unwrap();
    assert_eq!(streams.lend(id, "_system", "root").unwrap_err().code, Code::TransactionAborted);
    assert_eq!(
        streams.commit(id, "_system", "root").unwrap_err().code,
        Code::TransactionDisallowedOperation
    );
    assert_eq!(streams.status(id, "_system", "root").unwrap(), "aborted");
    assert_eq!(house.all(), ["_key=a"]);
}

#[test]
fn an_idle_stream_transaction_is_aborted_and_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    // The test itself calls the collector.
    let options = Options {
        stream_idle_ms: 1_000,
        stream_lock_wait_ms: 20,
        stream_sweeps: false,
        ..Options::default()
    };
    let engine = Engine::open(directory.path(), options).unwrap();
    let c = engine.create_collection("_system", collection("c", CollectionKind::Document)).unwrap();
    let streams = engine.streams();
    let declared = Declared { exclusive: vec!["c".into()], ..Declared::default() };
    let id =
        streams.begin(&engine, "_system", "root", &declared, StreamSettings::default()).unwrap();
    let lent = streams.lend(id, "_system", "root").unwrap();
    lent.insert(&c, &doc("_key=a"), &WriteOptions::default()).unwrap();
    assert_eq!(streams.lend(id, "_system", "root").unwrap_err().code, Code::Locked);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    streams.sweep();
    assert_eq!(streams.status(id, "_system", "root").unwrap(), "running", "in use is not idle");
    drop(lent);
    let impatient = StreamSettings { lock_timeout_ms: Some(10), ..StreamSettings::default() };
    let error = streams.begin(&engine, "_system", "root", &declared, impatient).unwrap_err();
    assert_eq!(error.code, Code::LockTimeout);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    streams.sweep();
    assert_eq!(streams.status(id, "_system", "root").unwrap(), "aborted");
    streams.begin(&engine, "_system", "root", &declared, impatient).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    streams.sweep();
    assert_eq!(streams.status(id, "_system", "root").unwrap_err().code, Code::TransactionNotFound);
}

#[test]
fn a_transaction_that_writes_too_much_gets_32() {
    let house = house();
    let declared = Declared { write: vec!["c".into()], ..Declared::default() };
    let settings = StreamSettings { max_transaction_size: Some(2000), ..StreamSettings::default() };
    let streams = house.engine.streams();
    let id = streams.begin(&house.engine, "_system", "root", &declared, settings).unwrap();
    let lent = streams.lend(id, "_system", "root").unwrap();
    let full = (0..100)
        .find_map(|_| lent.insert(&house.c(), &doc("text=hello"), &WriteOptions::default()).err());
    assert_eq!(full.unwrap().code, Code::ResourceLimit);
}
