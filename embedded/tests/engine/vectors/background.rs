//! Indexes that are built in the background while writers run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arango_embedded::schema::Metric;

use super::{
    DATABASE, PATIENCE, assert_all_found, assert_whole, begin, fill, index, make_collection, open,
    put, remove, search, vector, wait_until_ready, why,
};

/// While the index is filled, writers replace documents, remove their vectors, or remove the
/// documents.
#[test]
fn an_index_in_the_background_takes_in_what_is_there_beside_its_writers() {
    const OLD: usize = 6000;
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    make_collection(&engine);
    fill(&engine, 0..OLD, 8);
    let is_there = || {
        engine.database(DATABASE).unwrap().collections["c"].indexes.iter().any(|i| i.name == "near")
    };
    let filled = AtomicBool::new(false);
    let mut beside = 0;
    std::thread::scope(|scope| {
        let (engine, filled, is_there) = (&engine, &filled, &is_there);
        // One writer starts from each end of the collection, so that one changes documents that are
        // already indexed, and the other changes documents that are not indexed yet.
        let writer = move |backwards: bool| {
            let mut beside = 0;
            for at in 0..OLD / 2 {
                let seed = if backwards { OLD - 1 - at } else { at };
                let before = is_there() && !filled.load(Ordering::SeqCst);
                let transaction = begin(engine);
                let key = format!("k{seed}");
                match seed % 3 {
                    0 => remove(&transaction, &key).expect("a removal"),
                    1 => put(&transaction, &key, None).expect("a write"),
                    _ => put(&transaction, &key, Some(&vector(seed + OLD, 8))).expect("a write"),
                }
                transaction.commit(false).expect("a commit");
                beside += usize::from(before && !filled.load(Ordering::SeqCst));
            }
            beside
        };
        let writers = [false, true].map(|backwards| scope.spawn(move || writer(backwards)));
        let (_, is_new) =
            engine.create_index_in_background(DATABASE, "c", index(Metric::L2, 8, 16)).unwrap();
        filled.store(true, Ordering::SeqCst);
        assert!(is_new);
        assert_whole(engine);
        beside = writers.into_iter().map(|writer| writer.join().expect("a writer")).sum();
    });
    assert!(beside > 0, "nobody wrote while the index took in what was there");
    wait_until_ready(&engine);
    assert_whole(&engine);
    assert_all_found(&engine, 8, OLD / 3);
}

/// A writer with an open transaction delays the filling of an index. The creation request is
/// answered anyway, and the background thread continues when the writer has ended.
#[test]
fn a_filling_that_writers_hold_up_is_gone_on_with() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    make_collection(&engine);
    fill(&engine, 0..6000, 8);
    std::thread::scope(|scope| {
        let creation = scope
            .spawn(|| engine.create_index_in_background(DATABASE, "c", index(Metric::L2, 8, 16)));
        let known = || {
            engine.database(DATABASE).unwrap().collections["c"]
                .indexes
                .iter()
                .any(|i| i.name == "near")
        };
        let started = Instant::now();
        while !known() {
            assert!(started.elapsed() < PATIENCE, "the index is never known");
        }
        let long = begin(&engine);
        put(&long, "late", Some(&vector(9, 8))).unwrap();
        let (_, is_new) = creation.join().expect("no panic").expect("an index");
        assert!(is_new);
        assert_eq!(why(&engine), "not all documents are in the index yet");
        assert_whole(&engine);
        let found = begin(&engine);
        let error = search(&found, Metric::L2, "", &vector(1, 8), 1).expect_err("it is not ready");
        assert!(error.message.contains("not ready"), "{}", error.message);
        drop(found);
        long.commit(false).unwrap();
    });
    wait_until_ready(&engine);
    assert_whole(&engine);
    assert_all_found(&engine, 8, 6001);
}

#[test]
fn an_index_that_refuses_a_document_is_not_made_in_the_background_either() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path());
    make_collection(&engine);
    fill(&engine, 0..2000, 8);
    let transaction = begin(&engine);
    put(&transaction, "short", Some(&vector(1, 3))).unwrap();
    transaction.commit(false).unwrap();
    for _ in 0..2 {
        let made = engine.create_index_in_background(DATABASE, "c", index(Metric::L2, 8, 16));
        let error = made.expect_err("a vector of another length");
        assert!(error.message.contains("index dimension: 8"), "{}", error.message);
        let indexes = engine.database(DATABASE).unwrap().collections["c"].indexes.len();
        assert_eq!(indexes, 1, "the primary index alone");
    }
    let transaction = begin(&engine);
    remove(&transaction, "short").unwrap();
    transaction.commit(false).unwrap();
    engine.create_index_in_background(DATABASE, "c", index(Metric::L2, 8, 16)).unwrap();
    wait_until_ready(&engine);
    assert_whole(&engine);
    assert_all_found(&engine, 8, 2000);
}
