//! Tests stores that an older or a future release wrote.

use std::fs;
use std::path::Path;

use arango_embedded::query::{Query, prepare};
use arango_embedded::txn::Declared;
use arango_embedded::value::Value;
use arango_embedded::{Engine, Options};

use super::copy;

/// Returns a directory that release 0.1.0 wrote, without the file `seal`. It has two documents, a
/// unique index, a vector index and a view.
fn of_format_1() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a directory");
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format1"),
        &home.path().join("data"),
    );
    home
}

fn rows(engine: &Engine, text: &str) -> String {
    let database = engine.database("_system").expect("the database");
    let query = Query { text: text.to_owned(), ..Query::default() };
    let everything = Declared { allow_implicit: true, ..Declared::default() };
    let transaction = engine.begin("_system", &everything, false).expect("a transaction");
    let prepared = prepare(&database, &query).expect("a plan");
    let answer = prepared.run(&database, &transaction).expect("an answer");
    Value::from(answer.rows.clone()).to_json()
}

#[test]
fn a_store_of_format_1_is_brought_up_to_date_with_all_that_is_in_it() {
    let home = of_format_1();
    let directory = home.path().join("data");
    for round in 0..2 {
        let engine = Engine::open(&directory, Options::default()).expect("an older store");
        engine.commit_views().expect("a commit");
        let queries = [
            "FOR d IN c FILTER d.n == 2 RETURN d._key",
            "FOR d IN v SEARCH d.w == 'old' AND d.n == 2 RETURN d._key",
            "FOR d IN c SORT APPROX_NEAR_L2(d.v, [0, 1]) ASC LIMIT 1 RETURN d._key",
        ];
        for query in queries {
            assert_eq!(rows(&engine, query), r#"["b"]"#, "{query}, round {round}");
        }
        assert_eq!(engine.vector_faults("_system", "c", "near").expect("a look"), [""; 0]);
        drop(engine);
        assert!(directory.join("seal").exists(), "the new format has a seal");
    }
}

/// The test replaces the format number in the journal with the number of a future release.
#[test]
fn a_store_of_a_newer_format_is_refused_with_what_to_do() {
    let home = of_format_1();
    let journal = home.path().join("data/store/0.jnl");
    let engine =
        Engine::open(&home.path().join("data"), Options::default()).expect("an older store");
    drop(engine);
    // The last commit of the journal records format 3. The test replaces `3` with `7` and
    // recomputes the checksum of the batch.
    let mut bytes = fs::read(&journal).expect("the journal");
    let record = b"arango-embedded 3";
    let at = bytes.windows(record.len()).rposition(|window| window == record).expect("the record");
    bytes[at + record.len() - 1] = b'7';
    reseal(&mut bytes, at);
    fs::write(&journal, bytes).expect("the journal");
    let error =
        Engine::open(&home.path().join("data"), Options::default()).expect_err("a newer store");
    assert!(error.message.contains("its format is 7"), "{error}");
    assert!(error.message.contains("open it with the release that wrote it"), "{error}");
}

/// Recomputes the checksum of the journal batch around a position. A batch is a 13-byte head, the
/// items, the byte 3, a checksum of 8 bytes, and the magic number.
fn reseal(bytes: &mut [u8], inside: usize) {
    const MAGIC: &[u8] = b"FJL\x03";
    let end = inside + bytes[inside..].windows(4).position(|w| w == MAGIC).expect("a magic");
    let start = bytes[..inside].windows(4).rposition(|w| w == MAGIC).map_or(0, |at| at + 4);
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[start + 13..end - 9]);
    bytes[end - 8..end].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_store_that_is_older_than_its_seal_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path().join("data");
    drop(Engine::open(&directory, Options::default()).expect("an engine"));
    copy(&directory.join("store"), &home.path().join("older"));
    let engine = Engine::open(&directory, Options::default()).expect("an engine");
    engine.create_database("later", Value::Null).expect("a commit");
    drop(engine);
    fs::remove_dir_all(directory.join("store")).expect("removed");
    copy(&home.path().join("older"), &directory.join("store"));
    let error = Engine::open(&directory, Options::default()).expect_err("a store of before");
    assert!(
        error.message.contains("lost synced commits") && error.message.contains("seal"),
        "{error}"
    );
    // Without the file `seal` the engine cannot detect the lost commits.
    fs::remove_file(directory.join("seal")).expect("removed");
    assert!(Engine::open(&directory, Options::default()).is_ok());
}
