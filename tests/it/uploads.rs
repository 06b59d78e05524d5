//! Tests a document with the caller's vectors that is too large for one call: it is sent in parts,
//! is visible as a whole or not at all, and any caller can resume the upload.

use std::time::Duration;

use serde_json::{Value, json};

use crate::archival::{ingest, search};
use crate::chance::{Chance, rounds, setting};
use crate::database::Database;
use crate::home::{Home, Process, TORN_TAIL, Tuning};
use crate::outside::outside;
use crate::planted::assert_listed;
use crate::talk::Agent;
use crate::truths::assert_archive;

/// Number of parts of the document, and number of chunks in each part except the last.
const PARTS: u64 = 4;
const CHUNKS: u64 = 300;
/// Number of rounds, each of which kills a process during an upload, and the maximum time until the
/// kill, in microseconds.
const ROUNDS: u64 = 6;
const SPAN_US: u64 = 120_000;

/// Returns ingest arguments for one part of an upload. The character positions and vectors of a
/// part continue where the previous part ended.
fn part(upload: &str, number: u64) -> Value {
    let text = |n: u64| format!("In {upload} sentence {n:04} follows. ");
    let length = text(0).chars().count() as u64;
    let last = (PARTS - 1) * CHUNKS + 5;
    let own: Vec<u64> = ((number - 1) * CHUNKS..(number * CHUNKS).min(last)).collect();
    let angle = |n: &u64| (*n as f64 / last as f64) * std::f64::consts::PI;
    let vectors: Vec<[f64; 2]> = own.iter().map(angle).map(|a| [a.cos(), a.sin()]).collect();
    let spans: Vec<Value> =
        own.iter().map(|n| json!({"start": n * length, "end": (n + 1) * length})).collect();
    json!({"doc_id": "log", "chunks": own.iter().map(|n| text(*n)).collect::<Vec<_>>(), "embeddings": vectors,
        "dimension": 2, "metric": "cosine", "embedding_version": "1", "model_id": "compass", "provenance": {"source": upload},
        "late_chunking": {"mode": "late", "pooling": "mean", "model": "compass", "document_chars": last * length, "spans": spans},
        "part": {"upload": upload, "number": number, "of": PARTS}})
}

fn whole(upload: &str) -> Vec<Value> {
    (1..=PARTS).flat_map(|n| part(upload, n)["chunks"].as_array().unwrap().clone()).collect()
}

async fn texts(database: &Database) -> Vec<Value> {
    let query = "FOR d IN archival_docs FILTER d.doc_id == 'log' SORT d.index RETURN d.text";
    database.rows(query, json!({})).await
}

async fn kept(database: &Database) -> Value {
    assert_listed(database).await;
    database.row("RETURN LENGTH(archival_parts)", json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_are_seen_when_all_are_there_and_checked_as_one_document() {
    let home = Home::new();
    let _server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "").await;
    for (sent, missing) in [(2, json!([1, 3, 4])), (4, json!([1, 3])), (4, json!([1, 3]))] {
        let done = ingest(&ada, &part("first", sent), "*").await.ok();
        let result = &done["result"];
        assert_eq!((&result["inserted"], &result["missing"]), (&json!(0), &missing), "{done}");
        assert_eq!(result["parts_missing"], missing.as_array().unwrap().len());
    }
    // Parts of another agent or of another upload do not count as parts of this upload.
    ingest(&bob, &part("first", 1), "*").await.ok();
    let other = ingest(&ada, &part("second", 1), "*").await.ok();
    assert_eq!(other["result"]["parts_missing"], PARTS - 1);
    let mut twisted = part("first", 3);
    twisted["late_chunking"]["spans"][7]["start"] = 0.into();
    ingest(&ada, &twisted, "*").await.ok();
    assert!(texts(&database).await.is_empty(), "nothing is seen of a document that is not whole");
    let found = search(&ada, json!({"query_vector": [1, 0], "limit": 5})).await.ok();
    assert_eq!(found["result"]["k_actual"], 0);
    assert_eq!(ada.state().await["archived"], json!({"documents": 0, "chunks": 0}));

    // When all parts are there, the server checks the whole document. It finds that the spans do
    // not cover the text, and refuses the last part. The client then sends the part with the wrong
    // spans again, with the right spans.
    let refused = ingest(&ada, &part("first", 1), "*").await.refused(422, "LATE_CHUNKING_REQUIRED");
    assert_eq!(refused["reason"], "spans", "{refused}");
    assert!(texts(&database).await.is_empty());
    let done = ingest(&ada, &part("first", 3), "*").await.ok();
    let wanted = whole("first");
    assert_eq!(done["result"]["inserted"], wanted.len(), "{done}");
    assert_eq!(texts(&database).await, wanted);
    assert_archive(&database).await;
    let query = "FOR d IN archival_docs SORT d.index LIMIT 299, 3 RETURN [d.chunk_id, d.chunk_links.previous, d.chunk_links.next, d.offset.start]";
    let length = wanted[0].as_str().unwrap().chars().count();
    let seam = json!([
        ["0299", "0298", "0300", 299 * length],
        ["0300", "0299", "0301", 300 * length],
        ["0301", "0300", "0302", 301 * length]
    ]);
    assert_eq!(
        json!(database.rows(query, json!({})).await),
        seam,
        "chunks follow each other over parts"
    );

    // The new version replaces the old document only when its last part arrives.
    for number in 2..PARTS {
        ingest(&ada, &part("second", number), "*").await.ok();
    }
    assert_eq!(texts(&database).await, wanted, "until then the earlier one is found");
    let done = ingest(&ada, &part("second", PARTS), "*").await.ok();
    assert_eq!(done["result"]["replaced"], wanted.len());
    assert_eq!(texts(&database).await, whole("second"));
    assert_eq!(kept(&database).await, 1, "bob's part alone is left");
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_part_is_refused_by_its_name() {
    let home = Home::new();
    let _server = home.serve().await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let table = [
        (json!({"part": {"upload": "u", "number": 5, "of": 4}}), "part.number"),
        (json!({"part": {"upload": "u", "number": 0, "of": 4}}), "part.number"),
        (json!({"part": {"upload": "u", "number": 1, "of": 1025}}), "part.of"),
        (json!({"document": "In"}), "document"),
        (json!({"embeddings": null, "late_chunking": null}), "part"),
    ];
    for (changes, field) in table {
        let mut arguments = part("u", 1);
        for (name, change) in changes.as_object().expect("changes") {
            arguments[name] = change.clone();
        }
        let refused = ingest(&ada, &arguments, "*").await.refused(400, "INVALID_ARGUMENT");
        assert_eq!(refused["field"], field, "{changes}: {refused}");
    }
    let mut nameless = part("u", 1);
    nameless["part"]["upload"] = "".into();
    ingest(&ada, &nameless, "*").await.refused(400, "INVALID_NAME");
    let mut naive = part("u", 1);
    naive["late_chunking"]["mode"] = "naive".into();
    ingest(&ada, &naive, "*").await.refused(422, "LATE_CHUNKING_REQUIRED");
    let mut short = part("u", 1);
    short["late_chunking"]["spans"].as_array_mut().unwrap().pop();
    ingest(&ada, &short, "*").await.refused(422, "LATE_CHUNKING_REQUIRED");
    assert_eq!(kept(&home.database_inside()).await, 0, "nothing of them is kept");
}

async fn start(home: &Home) -> (Process, Process) {
    let engine = home.engine().await;
    engine.expect(TORN_TAIL);
    let server =
        home.server("vctx.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    for process in [&engine, &server] {
        process.expect("call failed");
        process.expect("database");
    }
    (engine, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_cut_off_goes_on_where_it_was_and_nothing_is_half_seen() {
    let home = Home::new();
    let mut chance = Chance::new(setting("UPLOADS_SEED", 5));
    let (mut engine, mut server) = start(&home).await;
    Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let mut before: Vec<Value> = Vec::new();
    for round in 0..rounds("UPLOADS_ROUNDS", ROUNDS) {
        let upload = format!("round-{round}");
        let engines_turn = round % 2 == 0 && outside().is_none();
        let victim = if engines_turn { engine.clone() } else { server.clone() };
        let pause = Duration::from_micros(chance.below(SPAN_US));
        let killer = tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            victim.kill();
        });
        let ada = Agent::at(home.wire("vctx.sock"), "ada");
        let sending = async {
            for number in 1..=PARTS {
                let key = format!("{upload}-{number}");
                if ada.attempt("ingest_archival", &part(&upload, number), &key, "*").await.is_err()
                {
                    return;
                }
            }
        };
        drop(tokio::time::timeout(pause + Duration::from_millis(300), sending).await);
        killer.await.expect("the killer ends");
        engine.kill();
        server.kill();
        (engine, server) = start(&home).await;
        let database = home.database();
        let there = texts(&database).await;
        let wanted = whole(&upload);
        assert!(there == before || there == wanted, "round {round}: {} chunks", there.len());
        assert_archive(&database).await;
        // The caller resumes the upload: it sends all parts again with the same keys. A part that
        // was stored before the kill gets its stored answer.
        let ada = Agent::at(home.wire("vctx.sock"), "ada");
        for number in 1..=PARTS {
            let key = format!("{upload}-{number}");
            ada.tool("ingest_archival", &part(&upload, number), &key, "*").await.ok();
        }
        assert_eq!(texts(&database).await, wanted, "round {round}");
        assert_archive(&database).await;
        before = wanted;
        home.assert_verified("vctx.sock", "ada");
    }
}
