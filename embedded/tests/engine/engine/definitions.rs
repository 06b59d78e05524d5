//! Tests how indexes, schemas, collections and databases are created, changed and dropped.

use arango_embedded::error::Code;
use arango_embedded::schema::{CollectionKind, Index, IndexKind, Validation, ValidationLevel};
use arango_embedded::txn::{Declared, IndexRange, StreamSettings, WriteOptions};
use arango_embedded::value::Value;
use arango_embedded::{Engine, Options};

use super::{House, collection, doc, house, index, show};

#[test]
fn definitions_survive_a_restart_and_dropped_data_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::open(directory.path(), Options::default()).unwrap();
    let names: Vec<_> = engine.database("_system").unwrap().collections.keys().cloned().collect();
    assert_eq!(names.len(), 12, "{names:?}");
    assert!(
        names.iter().any(|name| name == "_users") && names.iter().any(|name| name == "_graphs"),
        "{names:?}"
    );
    engine.create_database("vctx", Value::Null).unwrap();
    assert_eq!(engine.create_database("vctx", Value::Null).unwrap_err().code, Code::DuplicateName);
    assert_eq!(
        engine.create_database("9", Value::Null).unwrap_err().code,
        Code::DatabaseNameInvalid
    );
    let c = engine.create_collection("vctx", collection("c", CollectionKind::Document)).unwrap();
    let error =
        engine.create_collection("vctx", collection("c", CollectionKind::Edge)).unwrap_err();
    assert_eq!(error.code, Code::DuplicateName);
    let (made, _) = engine.create_index("vctx", "c", index(&["a.b"], false)).unwrap();
    let declared = Declared { write: vec!["c".into()], ..Declared::default() };
    let transaction = engine.begin("vctx", &declared, true).unwrap();
    transaction.insert(&c, &doc("_key=x"), &WriteOptions::default()).unwrap();
    transaction.commit(false).unwrap();
    engine.rename_collection("vctx", "c", "d").unwrap();
    engine.put_setting("user:root", Some(doc("active=1"))).unwrap();
    drop(transaction);
    drop(engine);
    let engine = Engine::open(directory.path(), Options::default()).unwrap();
    let d = engine.database("vctx").unwrap().collections["d"].clone();
    assert_eq!((d.id, d.indexes[1].id, &d.indexes[1].fields), (c.id, made.id, &made.fields));
    assert_eq!(show(&engine.setting("user:root").unwrap().unwrap()), "active=1");
    let reader = engine
        .begin("vctx", &Declared { allow_implicit: true, ..Declared::default() }, false)
        .unwrap();
    assert_eq!(reader.get(&d, "x").unwrap().unwrap().text_of("_id"), Some("d/x"));
    // More documents than a truncation processes in two steps.
    let declared =
        Declared { allow_implicit: true, write: vec!["d".into()], ..Declared::default() };
    let writer = engine.begin("vctx", &declared, false).unwrap();
    for number in 0..2_500 {
        writer.insert(&d, &doc(&format!("_key=n{number}")), &WriteOptions::default()).unwrap();
    }
    writer.commit(false).unwrap();
    engine.truncate("vctx", "d").unwrap();
    assert_eq!(engine.begin("vctx", &declared, false).unwrap().count(&d).unwrap(), 0);
    engine.drop_collection("vctx", "d").unwrap();
    assert!(!engine.database("vctx").unwrap().collections.contains_key("d"));
    assert!(reader.get(&d, "x").unwrap().is_some(), "an older snapshot keeps what it saw");
    engine.drop_database("vctx").unwrap();
    assert_eq!(engine.database("vctx").unwrap_err().code, Code::DatabaseNotFound);
    assert_eq!(engine.drop_database("_system").unwrap_err().code, Code::Forbidden);
}

#[test]
fn a_dropped_database_takes_those_along_that_waited_for_its_transactions() {
    let directory = tempfile::tempdir().unwrap();
    // The idle limit of transactions is longer than the maximum wait of a database drop, so the
    // idle limit does not end the waiting transactions.
    let options = Options { stream_idle_ms: 600_000, ..Options::default() };
    let engine = Engine::open(directory.path(), options).unwrap();
    engine.create_database("gone", Value::Null).unwrap();
    engine.create_collection("gone", collection("c", CollectionKind::Document)).unwrap();
    let declared = Declared { exclusive: vec!["c".into()], ..Declared::default() };
    let begin =
        || engine.streams().begin(&engine, "gone", "root", &declared, StreamSettings::default());
    begin().unwrap();
    std::thread::scope(|scope| {
        let waiting = [scope.spawn(begin), scope.spawn(begin)];
        // A request that begins after the drop finds no database, which is also correct.
        std::thread::sleep(std::time::Duration::from_millis(100));
        engine.drop_database("gone").unwrap();
        for begun in waiting {
            drop(begun.join().unwrap());
        }
    });
    assert!(engine.streams().list("gone", "root").is_empty());
    assert_eq!(begin().unwrap_err().code, Code::DatabaseNotFound);
}

#[test]
fn an_array_index_has_an_entry_per_element() {
    let house = house();
    let tagged = |key: &str, tags: &[&str]| {
        let tags = tags.iter().map(|tag| Value::from(*tag)).collect::<Vec<_>>();
        Value::object(
            [("_key".into(), key.into()), ("tags".into(), tags.into())].into_iter().collect(),
        )
    };
    let o = WriteOptions::default();
    let (made, _) = house.engine.create_index("_system", "c", index(&["tags[*]"], false)).unwrap();
    house.in_one(|t, c| t.insert(c, &tagged("a", &["x", "y", "x"]), &o)).unwrap();
    house.in_one(|t, c| t.insert(c, &tagged("b", &["y"]), &o)).unwrap();
    let of = |tag: &str| {
        let range = IndexRange { equals: vec![tag.into()], ..IndexRange::default() };
        house
            .range(&made, &range, false)
            .iter()
            .map(|shown| shown[5..6].to_owned())
            .collect::<String>()
    };
    assert_eq!((of("x"), of("y"), of("z")), ("a".into(), "ab".into(), String::new()));
    house.in_one(|t, c| t.replace(c, "a", &tagged("a", &["z"]), &o)).unwrap();
    assert_eq!((of("x"), of("y"), of("z")), (String::new(), "b".into(), "a".into()));
}

#[test]
fn the_sweeper_removes_what_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { ttl_interval_ms: 10, ..Options::default() };
    let house =
        House { engine: Engine::open(directory.path(), options).unwrap(), _directory: directory };
    house.engine.create_collection("_system", collection("c", CollectionKind::Document)).unwrap();
    for text in [
        "_key=a t=1000",
        "_key=b t=99999999999",
        "_key=c t=2001-01-01T00:00:00Z",
        "_key=d t=abc",
        "_key=e",
    ] {
        house.insert(text).unwrap();
    }
    let ttl = Index {
        kind: IndexKind::Ttl,
        sparse: true,
        definition: doc("expireAfter=5"),
        ..index(&["t"], false)
    };
    house.engine.create_index("_system", "c", ttl).unwrap();
    for _ in 0..200 {
        if house.all().len() == 3 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(house.all(), ["_key=b t=99999999999", "_key=d t=abc", "_key=e"]);
}

#[test]
fn a_schema_is_checked_at_its_level() {
    let house = house();
    let parse = |json: &str| arango_embedded::value::parse(json.as_bytes()).unwrap();
    house.insert("_key=old n=x").unwrap();
    let set = |rule: &str, level| {
        house.engine.change_collection("_system", "c", &mut |collection| {
            collection.validation =
                Some(Validation { rule: parse(rule), level, message: "n is a number".into() });
            Ok(())
        })
    };
    assert_eq!(
        set(r#"{"pattern": "a"}"#, ValidationLevel::Strict).unwrap_err().code,
        Code::ValidationBadParameter
    );
    let (o, rule) = (
        WriteOptions::default(),
        r#"{"properties": {"n": {"type": "number"}}, "additionalProperties": false}"#,
    );
    let levels = [
        // Validation level; whether an invalid document can be inserted; whether an invalid
        // document can be changed to another invalid one.
        (ValidationLevel::None, true, true),
        (ValidationLevel::New, false, true),
        (ValidationLevel::Moderate, false, true),
        (ValidationLevel::Strict, false, false),
    ];
    for (level, insert, change) in levels {
        set(rule, level).unwrap();
        let good = house.in_one(|t, c| t.insert(c, &doc("n=1"), &o)).unwrap().key;
        let inserted = house.insert("n=x");
        assert_eq!(inserted.is_ok(), insert, "{level:?}");
        if let Err(error) = inserted {
            assert_eq!(
                (error.code, error.message.as_str()),
                (Code::ValidationFailed, "n is a number")
            );
        }
        assert_eq!(
            house.in_one(|t, c| t.update(c, "old", &doc("n=y"), &o)).is_ok(),
            change,
            "{level:?}"
        );
        let to_bad = house.in_one(|t, c| t.update(c, &good, &doc("n=y"), &o)).is_ok();
        assert_eq!(
            to_bad,
            matches!(level, ValidationLevel::None | ValidationLevel::New),
            "{level:?}"
        );
    }
}
