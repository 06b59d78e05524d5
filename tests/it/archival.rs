//! The archive over the real socket: documents go in whole or not at all, are replaced whole, and belong to one agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use crate::count;
use crate::database::Database;
use crate::home::{Home, Tuning};
use crate::liar::{Liar, Told};
use crate::one_transaction::Stage;
use crate::talk::{Agent, key};
use crate::wire::Answer;

/// Arguments of an ingest of three chunks with vectors of two components and whole evidence, with some fields changed.
pub(crate) fn offer(doc_id: &str, changes: Value) -> Value {
    let mut arguments = json!({
        "doc_id": doc_id, "chunks": ["Low tide. ", "High tide. ", "Slack water."],
        "embeddings": [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]],
        "dimension": 2, "metric": "cosine", "embedding_version": "7", "model_id": "tides",
        "late_chunking": {"mode": "late", "pooling": "mean", "model": "tides", "document_tokens": 8,
            "spans": [{"start": 0, "end": 3}, {"start": 3, "end": 6}, {"start": 6, "end": 8}]},
        "provenance": {"source": "almanac"},
    });
    for (name, change) in changes.as_object().expect("changes") {
        if change.is_null() {
            arguments.as_object_mut().expect("an object").remove(name);
        } else {
            arguments[name] = change.clone();
        }
    }
    arguments
}

pub(crate) async fn ingest(agent: &Agent, arguments: &Value, revision: &str) -> Answer {
    agent.tool("ingest_archival", arguments, &key(), revision).await
}

/// What the archive holds, whoever it belongs to.
async fn archive(database: &Database) -> Value {
    database
        .row(
            "RETURN { chunks: LENGTH(archival_docs), manifests: LENGTH(archival_manifests),
               edges: LENGTH(derived_from), settings: LENGTH(FOR v IN vctx_meta FILTER v._key == 'vector' RETURN 1) }",
            json!({}),
        )
        .await
}

/// Server, its database and an agent.
async fn stage() -> (Home, crate::home::Process, Database, Agent) {
    let home = Home::new();
    let server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    (home, server, database, ada)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_goes_in_whole_with_everything_that_describes_it() {
    let (_home, _server, database, ada) = stage().await;
    let before = ada.state().await;
    let message = ada.append("user", "The almanac is on the shelf.").await;
    let message_id = message["result"]["message_id"].as_str().expect("an id").to_owned();
    let chunks = json!([
        {"text": "Low tide. ", "chunk_id": "low", "freshness_ts": "2026-02-03", "provenance": {"page": 3, "message_ids": [message_id]}},
        "High tide. ", {"text": "Slack water."}]);
    let done = ingest(&ada, &offer("tides.md", json!({"chunks": chunks})), "*").await.ok();
    let result = &done["result"];
    assert_eq!(result["inserted"], 3);
    assert_eq!(result["vector_index_used"], false, "there is no index yet");
    assert_eq!(result["doc_id"], "tides.md");
    assert_eq!(result["chunk_ids"], json!(["low", "0001", "0002"]));
    assert_eq!(done["_rev"], result["_rev"], "the revision of an ingest is its document's");
    assert_eq!(done["token_estimate"], 0, "the archive takes no room in the window");
    assert_eq!(done["agent_rev"], ada.state().await["_rev"]);

    let rows = database.rows("FOR d IN archival_docs SORT d.index RETURN d", json!({})).await;
    assert_eq!(rows.len(), 3);
    for (at, row) in rows.iter().enumerate() {
        for (name, value) in [
            ("agent_id", json!("ada")),
            ("doc_id", json!("tides.md")),
            ("index", json!(at)),
            ("dimension", json!(2)),
            ("metric", json!("cosine")),
            ("embedding_version", json!("7")),
            ("model_id", json!("tides")),
            ("revision", done["_rev"].clone()),
        ] {
            assert_eq!(row[name], value, "{name} of {row}");
        }
        assert_eq!(row["provenance"]["owner"], "ada");
        assert_eq!(row["provenance"]["source"], "almanac");
    }
    assert_eq!(rows[0]["provenance"]["page"], 3);
    assert_eq!(rows[0]["freshness_ts"], "2026-02-03T00:00:00.000Z");
    assert_eq!(rows[1]["chunk_links"], json!({"previous": "low", "next": "0002"}));
    assert_eq!(rows[2]["embedding"], json!([0.6, 0.8]));

    let setting =
        database.row("FOR v IN vctx_meta FILTER v._key == 'vector' RETURN v", json!({})).await;
    assert_eq!((&setting["dimension"], &setting["metric"]), (&json!(2), &json!("cosine")));
    assert!(setting["defaultNProbe"].as_u64().is_some_and(|n| (1..=32).contains(&n)), "{setting}");
    let edge = database.row("FOR e IN derived_from RETURN e", json!({})).await;
    assert_eq!(edge["_from"], rows[0]["_id"]);
    assert_eq!(edge["_to"], json!(format!("messages/{message_id}")));
    let state = ada.state().await;
    assert_eq!(state["archived"], json!({"documents": 1, "chunks": 3}));
    assert_eq!(before["archived"], json!({"documents": 0, "chunks": 0}));
    let audit = database
        .row(
            "FOR e IN memory_events FILTER e.details.tool == 'ingest_archival' RETURN e",
            json!({}),
        )
        .await;
    assert_eq!(audit["type"], "audit");
    assert_eq!(audit["details"]["ingest"]["offered_chunks"], 3);
    assert!(!audit.to_string().contains("tide"), "no text in the events: {audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_refused_whole() {
    let (_home, _server, database, ada) = stage().await;
    let nothing = archive(&database).await;
    let long = "x".repeat(32 * 1024 + 1);
    let many: Vec<String> = (0..513).map(|n| format!("chunk {n}")).collect();
    for (changes, field) in [
        (json!({"doc_id": ""}), "doc_id"),
        (json!({"chunks": []}), "chunks"),
        (json!({"chunks": many}), "chunks"),
        (json!({"chunks": ["a", "b", long]}), "chunks[2]"),
        (json!({"chunks": ["a", " ", "c"]}), "chunks[1]"),
        (
            json!({"chunks": [{"text": "a", "chunk_id": "x"}, {"text": "b", "chunk_id": "x"}, "c"]}),
            "chunks[1].chunk_id",
        ),
        (
            json!({"chunks": [{"text": "a", "freshness_ts": "soon"}, "b", "c"]}),
            "chunks[0].freshness_ts",
        ),
        (json!({"chunks": [{"text": "a", "size": 3}, "b", "c"]}), "chunks[0].size"),
        (json!({"embeddings": [[1, 0], [0, 1]]}), "embeddings"),
        (json!({"embeddings": [[1, 0], [0, 1], [1, 0, 0]]}), "embeddings[2]"),
        (json!({"embeddings": [[1, 0], [0, 1], [0, 0]]}), "embeddings[2]"),
        (json!({"embeddings": [[1, 0], [0, 1], [1, 1e300]]}), "embeddings[2]"),
        (json!({"embeddings": [[1, 0], [0, 1], [1, "NaN"]]}), "embeddings[2][1]"),
        (json!({"embeddings": [[1, 0], [0, 1], [1, null]]}), "embeddings[2][1]"),
        (json!({"dimension": 5000}), "dimension"),
        (json!({"dimension": null}), "dimension"),
        (json!({"metric": "manhattan"}), "metric"),
        (json!({"metric": null}), "metric"),
        (json!({"model_id": null}), "model_id"),
        (json!({"embedding_version": null}), "embedding_version"),
        (json!({"embeddings": null, "late_chunking": null}), "model_id"),
        (json!({"provenance": {"owner": "bob"}}), "provenance"),
        (json!({"provenance": {"message_ids": ["nobody"]}}), "provenance.message_ids"),
    ] {
        let refused = ingest(&ada, &offer("d", changes.clone()), "*").await;
        let problem = refused.refused(400, "INVALID_ARGUMENT");
        assert_eq!(problem["field"], field, "{changes}: {problem}");
    }
    // JSON has no NaN; what only looks like one is no JSON.
    let text = offer("d", json!({})).to_string().replace("0.6", "NaN");
    let path = format!("{}/tools/ingest_archival", ada.path());
    let headers = [("idempotency-key", "nan"), ("if-match", "*")];
    ada.wire.call("POST", &path, &headers, text).await.refused(400, "INVALID_JSON");
    let path_only = [("idempotency-key", "unguarded")];
    let unguarded =
        ada.wire.call("POST", &path, &path_only, offer("d", json!({})).to_string()).await;
    unguarded.refused(428, "PRECONDITION_REQUIRED");
    assert_eq!(archive(&database).await, nothing);
}

#[tokio::test(flavor = "multi_thread")]
async fn naive_chunks_are_refused_and_counted() {
    let (_home, _server, database, ada) = stage().await;
    let nothing = archive(&database).await;
    let naive = json!({"mode": "naive", "pooling": "mean", "model": "tides", "document_tokens": 8, "spans": []});
    let gap = json!({"mode": "late", "pooling": "mean", "model": "tides", "document_tokens": 8,
        "spans": [{"start": 0, "end": 2}, {"start": 3, "end": 6}, {"start": 6, "end": 8}]});
    for (changes, reason) in [
        (json!({"late_chunking": null}), "missing"),
        (json!({"late_chunking": naive}), "naive"),
        (json!({"late_chunking": gap}), "spans"),
        (json!({"document": "Low tide. Slack water. High tide."}), "document"),
        (
            json!({"chunks": ["Low tide. ", "Low tide. ", "Slack water."], "embeddings": [[1, 0], [1, 0], [0, 1]]}),
            "vectors",
        ),
    ] {
        let refused = ingest(&ada, &offer("d", changes), "*").await;
        let problem = refused.refused(422, "LATE_CHUNKING_REQUIRED");
        assert_eq!(problem["reason"], reason);
        assert_eq!(problem["refused_chunks"], 3);
    }
    assert_eq!(archive(&database).await, nothing, "nothing is stored");
    let events = database
        .rows(
            "FOR e IN memory_events FILTER e.type == 'error' SORT e._key RETURN e.details",
            json!({}),
        )
        .await;
    assert_eq!(events.len(), 5);
    for event in &events {
        assert_eq!(event["code"], "LATE_CHUNKING_REQUIRED");
        let counted = (&event["offered_chunks"], &event["compliant_chunks"]);
        assert_eq!(counted, (&json!(3), &json!(0)));
    }
    // A flood of them is counted, and noted a bounded number of times.
    for _ in 0..40 {
        ingest(&ada, &offer("d", json!({"late_chunking": null})), "*").await;
    }
    let noted = database
        .row("RETURN COUNT(FOR e IN memory_events FILTER e.type == 'error' RETURN 1)", json!({}))
        .await;
    assert_eq!(noted, 16);
    // A refusal stores no record: the same key is free for a call that is right.
    ada.tool("ingest_archival", &offer("d", json!({"late_chunking": null})), "k", "*").await;
    ada.tool("ingest_archival", &offer("d", json!({})), "k", "*").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_replaced_whole_by_whoever_knows_its_revision() {
    let (_home, _server, database, ada) = stage().await;
    let first = ingest(&ada, &offer("d", json!({})), "").await.ok();
    let revision = first["_rev"].as_str().expect("a revision").to_owned();
    let problem = ingest(&ada, &offer("d", json!({})), "").await.refused(412, "REVISION_STALE");
    assert_eq!(problem["_rev"], first["_rev"], "the document is there already");
    ingest(&ada, &offer("e", json!({})), &revision).await.refused(412, "REVISION_STALE");

    let two = json!({"chunks": ["Ebb. ", "Flood."], "embeddings": [[1, 0], [0, 1]],
        "late_chunking": {"mode": "late", "pooling": "mean", "model": "tides", "document_tokens": 2,
            "spans": [{"start": 0, "end": 1}, {"start": 1, "end": 2}]}});
    let second = ada.tool("ingest_archival", &offer("d", two.clone()), "k", &revision).await.ok();
    assert_eq!(second["result"]["replaced"], 3);
    let texts = "FOR d IN archival_docs SORT d.index RETURN d.text";
    assert_eq!(database.rows(texts, json!({})).await, [json!("Ebb. "), json!("Flood.")]);
    assert_eq!(ada.state().await["archived"], json!({"documents": 1, "chunks": 2}));
    ingest(&ada, &offer("d", json!({})), &revision).await.refused(412, "REVISION_STALE");

    let mut again = ada.tool("ingest_archival", &offer("d", two), "k", &revision).await.ok();
    assert_eq!(again["replayed"], true);
    again["replayed"] = false.into();
    assert_eq!(again, second, "the stored answer is replayed");
    ada.tool("ingest_archival", &offer("d", json!({})), "k", "*")
        .await
        .refused(409, "IDEMPOTENCY_KEY_REUSED");
    // An ingest does not spoil what the agent knows of its queue.
    let agent_rev = first["agent_rev"].as_str().expect("a revision");
    ada.tool("append_fifo", &json!({"message": "x", "role": "user"}), &key(), agent_rev).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_of_another_kind_are_refused_with_the_way_out() {
    let (home, _server, database, ada) = stage().await;
    ingest(&ada, &offer("d", json!({})), "*").await.ok();
    let there = archive(&database).await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "").await;
    let three = json!({"dimension": 3, "embeddings": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]});
    let mut other_model = offer("e", json!({"model_id": "waves"}));
    other_model["late_chunking"]["model"] = "waves".into();
    for (arguments, differing) in [
        (offer("e", three), json!(["dimension"])),
        (offer("e", json!({"metric": "l2"})), json!(["metric"])),
        (offer("e", json!({"embedding_version": "8"})), json!(["embedding_version"])),
        (other_model, json!(["model_id"])),
        (
            json!({"doc_id": "e", "chunks": ["text alone"]}),
            json!(["embedding_version", "model_id"]),
        ),
    ] {
        let problem = ingest(&bob, &arguments, "*").await.refused(409, "VECTOR_SETTING_MISMATCH");
        assert_eq!(problem["differing"], differing);
        assert!(problem["detail"].as_str().is_some_and(|d| d.contains("docs/how-to/reindex.md")));
    }
    assert_eq!(archive(&database).await, there);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_alone_get_late_vectors_of_the_server() {
    let (home, _server, database, ada) = stage().await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "").await;
    let shared = "The fee is due on the first of May.";
    let boats = json!({"doc_id": "d", "chunks": ["Berths in the harbour.", shared]});
    let flats = json!({"doc_id": "d", "chunks": ["Rooms in the student house.", shared]});
    ingest(&ada, &boats, "*").await.ok();
    ingest(&bob, &flats, "*").await.ok();
    let rows = database
        .rows("FOR d IN archival_docs FILTER d.index == 1 SORT d.agent_id RETURN d", json!({}))
        .await;
    assert_eq!(rows.len(), 2, "two agents have a document of the same name");
    assert_ne!(rows[0]["embedding"], rows[1]["embedding"], "the same chunk in two documents");
    assert_ne!(rows[0]["_key"], rows[1]["_key"]);
    for row in &rows {
        assert_eq!(row["model_id"], "vctx-lexical");
        assert_eq!(row["embedding"].as_array().map(Vec::len), Some(384));
    }
    let manifests =
        database.rows("FOR m IN archival_manifests RETURN m.late_chunking.by", json!({})).await;
    assert_eq!(manifests, [json!("server"), json!("server")]);
}

/// A server whose archive asks its vector index from the first chunk on.
pub(crate) fn eager() -> Tuning {
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let environment =
        vec![set("VCTX_ARCHIVE__EXACT_ROWS_MAX", "0"), set("VCTX_ARCHIVE__INDEX_ROWS_MIN", "80")];
    Tuning { environment, ..Tuning::default() }
}

/// Arguments of an ingest of so many chunks with vectors on the unit circle: the n-th points n degrees further than `from`.
pub(crate) fn circle(doc_id: &str, from: u32, count: u32, metric: &str) -> Value {
    let chunks: Vec<String> = (from..from + count).map(|n| format!("Bearing {n:03}. ")).collect();
    let vectors: Vec<[f64; 2]> = (from..from + count)
        .map(|n| f64::from(n).to_radians())
        .map(|angle| [angle.cos(), angle.sin()])
        .collect();
    let chars: Vec<u64> = chunks.iter().map(|c| c.chars().count() as u64).collect();
    let mut at = 0;
    let spans: Vec<Value> = chars
        .iter()
        .map(|length| {
            at += length;
            json!({"start": at - length, "end": at})
        })
        .collect();
    json!({"doc_id": doc_id, "chunks": chunks, "embeddings": vectors, "dimension": 2, "metric": metric,
        "embedding_version": "1", "model_id": "compass", "provenance": {"source": doc_id},
        "late_chunking": {"mode": "late", "pooling": "mean", "model": "compass", "document_chars": at, "spans": spans}})
}

/// A search by tool call with neither key nor revision, as a model makes it.
pub(crate) async fn search(agent: &Agent, arguments: Value) -> Answer {
    let path = format!("{}/tools/search_archival", agent.path());
    agent.wire.call("POST", &path, &[], arguments.to_string()).await
}

fn texts(result: &Value) -> Vec<&str> {
    let results = result["results"].as_array().expect("results");
    results.iter().map(|r| r["text"].as_str().expect("a text")).collect()
}

/// Walks all pages of a search; each must keep its tokens. Gives the results in order.
pub(crate) async fn walk(agent: &Agent, arguments: Value) -> Vec<Value> {
    let (mut all, mut arguments) = (Vec::new(), arguments);
    for number in 1..200 {
        let body = search(agent, arguments.clone()).await.ok();
        let result = &body["result"];
        let rendered = result["results"].to_string();
        let recounted = if rendered == "[]" { 0 } else { count::text(&rendered) };
        assert!(recounted <= 512, "page {number}: {recounted}");
        assert_eq!(result["page_tokens"], recounted);
        assert_eq!(result["tokens_added"], recounted);
        assert_eq!(result["page"], number);
        all.extend(result["results"].as_array().expect("results").iter().cloned());
        match result["next_page_token"].as_str() {
            Some(token) => arguments["page_token"] = token.into(),
            None => {
                assert!(result["next_page_token"].is_null());
                return all;
            }
        }
    }
    panic!("more than 200 pages");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nearest_come_first_in_both_metrics_and_without_their_vectors() {
    for (metric, sign) in [("cosine", -1.0), ("l2", 1.0)] {
        let (_home, _server, _database, ada) = stage().await;
        let empty = search(&ada, json!({"query_vector": [1, 0]})).await.ok();
        assert_eq!(empty["result"]["results"], json!([]), "an empty archive holds nothing");
        ingest(&ada, &circle("c", 0, 90, metric), "*").await.ok();
        // 30.2 degrees: the neighbours in order of their distance.
        let angle = 30.2_f64.to_radians();
        let query = json!([angle.cos() * 2.0, angle.sin() * 2.0]);
        let wanted: Vec<String> =
            [30, 31, 29, 32, 28].iter().map(|n| format!("Bearing {n:03}. ")).collect();
        let found = walk(&ada, json!({"query_vector": query, "limit": 5})).await;
        assert!(found.iter().all(|r| r.get("chunk_links").is_none()), "numbers need no links");
        let order: Vec<&str> = found.iter().map(|r| r["text"].as_str().expect("a text")).collect();
        assert_eq!(order, wanted, "{metric}");
        let scores: Vec<f64> =
            found.iter().map(|r| r["similarity"].as_f64().expect("one")).collect();
        assert!(scores.windows(2).all(|pair| (pair[0] - pair[1]) * sign <= 0.0), "{scores:?}");
        assert!(found.iter().all(|r| r.get("embedding").is_none()));
        let asked = json!({"query_vector": query, "limit": 1, "explain": true});
        let body = search(&ada, asked).await.ok();
        let result = &body["result"];
        assert_eq!(result["plan"], "exact");
        assert_eq!(result["k_actual"], 1);
        assert_eq!(result["metric"], metric);
        let first = &result["results"][0];
        assert!(first["id"].as_str().is_some_and(|id| id.starts_with("archival_docs/")));
        assert_eq!(first["chunk_id"], "0030");
        assert_eq!(first["chunk_links"], json!({"previous": "0029", "next": "0031"}));
        assert_eq!(first["offset"], json!({"start": 390, "end": 403}));
        assert_eq!(first["provenance"]["source"], "c");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_find_passages_and_filters_lose_nothing() {
    let (_home, _server, _database, ada) = stage().await;
    for (doc, source, day, texts) in [
        (
            "a",
            "letters",
            "2026-01-10",
            ["Ada moved to Lisbon in March.", "The river is near her flat."],
        ),
        (
            "b",
            "notes",
            "2026-02-10",
            ["The cat Biscuit needs drops from the vet.", "The choir sings Brahms on Thursdays."],
        ),
    ] {
        let chunks: Vec<Value> =
            texts.iter().map(|t| json!({"text": t, "freshness_ts": day})).collect();
        let arguments = json!({"doc_id": doc, "chunks": chunks, "provenance": {"source": source}});
        ingest(&ada, &arguments, "*").await.ok();
    }
    let first = async |arguments: Value| {
        let body = search(&ada, arguments).await.ok();
        body["result"].clone()
    };
    let found = first(json!({"query_text": "Where did Ada move?"})).await;
    assert_eq!(texts(&found)[0], "Ada moved to Lisbon in March.");
    for (filter, wanted) in [
        (json!({"source": "notes"}), 2),
        (json!({"source": "nowhere"}), 0),
        (json!({"doc_id": "a"}), 2),
        (json!({"freshness_after": "2026-02-01"}), 2),
        (json!({"doc_id": "a", "freshness_after": "2026-02-01"}), 0),
    ] {
        let found = first(json!({"query_text": "Ada", "filter": filter})).await;
        assert_eq!(found["k_actual"], wanted, "{filter}");
    }
    for (arguments, field) in [
        (json!({}), "query_vector"),
        (json!({"query_text": "a", "query_vector": [1]}), "query_vector"),
        (json!({"query_vector": [1], "mode": "text"}), "query_text"),
        (json!({"query_text": "a", "query_vector": [1], "mode": "text"}), "query_vector"),
        (json!({"query_vector": [1], "mode": "hybrid"}), "query_text"),
        (json!({"query_text": "a", "mode": "sideways"}), "mode"),
        (json!({"query_text": " "}), "query_text"),
        (json!({"query_vector": []}), "query_vector"),
        (json!({"query_vector": [1, 2]}), "query_vector"),
        (json!({"query_text": "a", "limit": 41}), "limit"),
        (json!({"query_text": "a", "limit": 0}), "limit"),
        (json!({"query_text": "a", "nProbe": 513}), "nProbe"),
        (
            json!({"query_text": "a", "filter": {"freshness_after": "now"}}),
            "filter.freshness_after",
        ),
        (json!({"query_text": "a", "filter": {"owner": "bob"}}), "filter.owner"),
    ] {
        let problem = search(&ada, arguments.clone()).await.refused(400, "INVALID_ARGUMENT");
        assert_eq!(problem["field"], field, "{arguments}: {problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_are_the_whole_list_while_others_write_and_large_chunks_are_cut() {
    let (_home, _server, database, ada) = stage().await;
    let bob = Agent::create(ada.wire.again(), "bob", 8192, "").await;
    let long: String = (0..900).map(|n| format!("wave {n} rolls over stone {n}. ")).collect();
    let mut chunks: Vec<String> =
        (0..30).map(|n| format!("Passage {n} about waves and stones.")).collect();
    chunks[7].clone_from(&long);
    ingest(&ada, &json!({"doc_id": "sea", "chunks": chunks}), "*").await.ok();
    let asked = json!({"query_text": "waves over stones", "limit": 40});

    let writer = bob.again();
    let writing = tokio::spawn(async move {
        for round in 0..20 {
            let arguments =
                json!({"doc_id": "sea", "chunks": [format!("waves over stones {round}")]});
            ingest(&writer, &arguments, "*").await.ok();
        }
    });
    let found = walk(&ada, asked.clone()).await;
    writing.await.expect("the writer ends");
    let mut whole: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
    for result in &found {
        let (id, text) =
            (result["id"].as_str().expect("an id"), result["text"].as_str().expect("a text"));
        let so_far = whole.entry(id).or_default();
        if let Some(part) = result.get("part") {
            assert_eq!(part["start"], so_far.chars().count(), "no gap and no double");
        } else {
            assert!(so_far.is_empty(), "a passage comes once");
        }
        so_far.push_str(text);
    }
    let mut all: Vec<String> = whole.into_values().collect();
    let mut wanted = chunks.clone();
    all.sort();
    wanted.sort();
    assert_eq!(all, wanted);

    // What is taken in again meanwhile is marked, not shown in the place of what was found.
    let body = search(&ada, asked.clone()).await.ok();
    let token = body["result"]["next_page_token"].as_str().expect("more pages").to_owned();
    ingest(&ada, &json!({"doc_id": "sea", "chunks": ["All is new."]}), "*").await.ok();
    let mut next = asked.clone();
    next["page_token"] = token.as_str().into();
    let body = search(&ada, next.clone()).await.ok();
    for result in body["result"]["results"].as_array().expect("results") {
        assert!(result["text"].is_null());
        assert!(result["gone"] == true || result["changed"] == true, "{result}");
    }
    // A token is bound to agent, tool and question.
    search(&bob, next.clone()).await.refused(400, "PAGE_TOKEN_INVALID");
    let mut other = next.clone();
    other["query_text"] = "other words".into();
    search(&ada, other).await.refused(400, "PAGE_TOKEN_INVALID");
    let mut tampered = next.clone();
    tampered["page_token"] = token.replacen('.', ".1", 1).into();
    search(&ada, tampered).await.refused(400, "PAGE_TOKEN_INVALID");
    let kept = database
        .rows("FOR p IN pages FILTER p.tool == 'search_archival' RETURN p", json!({}))
        .await;
    assert!(kept.iter().all(|p| p["agent_id"] == "ada"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tool_brings_another_agents_passage() {
    let (_home, _server, database, ada) = stage().await;
    let bob = Agent::create(ada.wire.again(), "bob", 8192, "").await;
    for (agent, secret) in [(&ada, "The code is 1111."), (&bob, "The code is 2222.")] {
        ingest(
            agent,
            &json!({"doc_id": "codes", "chunks": [secret], "provenance": {"source": "safe"}}),
            "*",
        )
        .await
        .ok();
    }
    for filter in [json!({}), json!({"doc_id": "codes"}), json!({"source": "safe"})] {
        let found = walk(&bob, json!({"query_text": "The code is 1111.", "filter": filter})).await;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["text"], "The code is 2222.");
    }
    // The document of one agent does not guard or replace that of the other.
    let first = ingest(&bob, &json!({"doc_id": "codes", "chunks": ["Changed."]}), "*").await.ok();
    assert_eq!(first["result"]["replaced"], 1);
    let rows =
        database.rows("FOR d IN archival_docs SORT d.agent_id RETURN d.text", json!({})).await;
    assert_eq!(rows, [json!("The code is 1111."), json!("Changed.")]);
    // A message of another agent is no source.
    let message = ada.append("user", "Mine.").await;
    let id = &message["result"]["message_id"];
    let stolen = json!({"doc_id": "x", "chunks": ["x"], "provenance": {"message_ids": [id]}});
    ingest(&bob, &stolen, "*").await.refused(400, "INVALID_ARGUMENT");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_without_room_for_a_page_gets_none() {
    let (home, _server, database, ada) = stage().await;
    let small = Agent::create(home.wire("vctx.sock"), "small", 1024, "").await;
    ingest(&small, &json!({"doc_id": "d", "chunks": ["The tide turns at seven."]}), "*").await.ok();
    small.append("user", count::words(560)).await;
    let state = small.state().await;
    assert!(
        state["tokens"]["free"].as_u64().is_some_and(|free| (256..512).contains(&free)),
        "{state}"
    );
    let body = search(&small, json!({"query_text": "tide"})).await.ok();
    let result = &body["result"];
    assert_eq!(result["results"], json!([]));
    assert_eq!(result["withheld"], "tokens");
    assert_eq!(result["tokens_added"], 0);
    assert!(result["next_page_token"].is_string(), "the page can be fetched when there is room");
    let id = result["spooled"][0].as_str().expect("an entry");
    let entry =
        database.row("FOR m IN messages FILTER m._key == @id RETURN m", json!({"id": id})).await;
    assert_eq!(entry["kind"], "spool");
    assert!(entry["content"].as_str().is_some_and(|c| c.contains("The tide turns at seven.")));
    let context = small.context().await.to_string();
    assert!(context.contains(id), "a notice names the entry: {context}");
    assert!(body["tokens"]["occupancy"].as_u64() <= Some(1024));
    small.done("evict_fifo", &json!({"target_tokens": 100})).await;
    let next = json!({"query_text": "tide", "page_token": result["next_page_token"]});
    let body = search(&small, next).await.ok();
    assert_eq!(texts(&body["result"]), ["The tide turns at seven."]);
    drop(ada);
}

/// A small agent with one passage, its window filled until exactly so many tokens are free.
async fn with_free(home: &Home, name: &str, free: u64) -> Agent {
    let agent = Agent::create(home.wire("vctx.sock"), name, 1024, "").await;
    ingest(&agent, &json!({"doc_id": "d", "chunks": ["The tide turns at seven."]}), "*").await.ok();
    let empty = agent.state().await["tokens"]["free"].as_u64().expect("a number");
    let frame = count::message(&json!({"role": "user", "content": ""}));
    agent.append("user", count::words(empty - free - frame)).await;
    assert_eq!(agent.state().await["tokens"]["free"], free);
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_comes_with_512_tokens_free_and_not_with_511() {
    let home = Home::new();
    let _server = home.serve().await;
    for (name, free, pages) in [("just", 512, 1), ("short", 511, 0)] {
        let agent = with_free(&home, name, free).await;
        let body = search(&agent, json!({"query_text": "tide"})).await.ok();
        let result = &body["result"];
        assert_eq!(result["results"].as_array().map(Vec::len), Some(pages), "{free}: {body}");
        assert_eq!(result.get("withheld").is_some(), pages == 0, "{free}: {body}");
        assert!(body["tokens"]["occupancy"].as_u64() <= Some(1024));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_in_between_two_pages_changes_none_of_them() {
    let (_home, _server, _database, ada) = stage().await;
    let chunks: Vec<String> =
        (0..8).map(|n| format!("Wave {n} rolls in. {}", count::words(150))).collect();
    ingest(&ada, &json!({"doc_id": "sea", "chunks": chunks}), "*").await.ok();
    let mut asked = json!({"query_text": "the waves roll in", "limit": 8});
    let ids = |found: &[Value]| -> Vec<Value> { found.iter().map(|r| r["id"].clone()).collect() };
    let wanted = walk(&ada, asked.clone()).await;
    assert_eq!(wanted.len(), 8, "no chunk of this test is cut");
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let body = search(&ada, asked.clone()).await.ok();
        found.extend(body["result"]["results"].as_array().expect("results").iter().cloned());
        pages += 1;
        assert!(pages <= 8, "the pages come to an end");
        match body["result"]["next_page_token"].as_str() {
            Some(token) => asked["page_token"] = token.into(),
            None => break,
        }
        // It is nearer than anything that was found.
        let nearer = json!({"doc_id": format!("n{pages}"), "chunks": ["the waves roll in"]});
        ingest(&ada, &nearer, "*").await.ok();
    }
    assert!(pages >= 3, "{pages} pages");
    assert_eq!(ids(&found), ids(&wanted));
    let now = walk(&ada, json!({"query_text": "the waves roll in", "limit": 8})).await;
    assert_eq!(now[0]["text"], "the waves roll in", "a new search finds what is new");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_is_asked_with_the_cells_of_the_call_or_the_stored_ones_and_its_score_stands() {
    let stage = Stage::new(&eager()).await;
    let ada = stage.agent("ada", 8192).await;
    ingest(&ada, &circle("c", 0, 120, "cosine"), "*").await.ok();
    index_becomes(&ada, "ready").await;
    let database = stage.home.database();
    let stored = measured(&database).await["nProbe"].clone();
    // An attribute of the name of the score does not take its place.
    let spoiled =
        "FOR d IN archival_docs UPDATE d WITH { similarity: 99 } IN archival_docs RETURN 1";
    assert_eq!(database.rows(spoiled, json!({})).await.len(), 120);
    let told = |cells: u32| (cells > 32).then(|| json!({"nProbe": 32}));
    for (arguments, cells) in [
        (json!({"query_vector": [1, 0], "limit": 1, "nProbe": 3}), json!(3)),
        (json!({"query_vector": [1, 0], "limit": 1, "nProbe": 32}), json!(32)),
        (json!({"query_vector": [1, 0], "limit": 1, "nProbe": 33}), json!(33)),
        (json!({"query_vector": [1, 0], "limit": 1}), stored.clone()),
    ] {
        stage.reads.clear();
        let body = search(&ada, arguments).await.ok();
        let result = &body["result"];
        assert_eq!((&result["plan"], &result["nProbe"]), (&json!("vector"), &cells), "{body}");
        let beyond = told(cells.as_u64().expect("cells") as u32);
        assert_eq!(result.get("beyond_slo"), beyond.as_ref(), "{body}");
        let similarity = result["results"][0]["similarity"].as_f64().expect("a score");
        assert!((similarity - 1.0).abs() < 1e-6, "{body}");
        assert!(result["results"][0].get("embedding").is_none());
        let asked: Vec<Value> = stage
            .reads
            .record()
            .iter()
            .filter(|e| {
                e.request["query"].as_str().is_some_and(|q| q.contains("APPROX_NEAR_COSINE"))
            })
            .map(|e| e.request["bindVars"]["n_probe"].clone())
            .collect();
        assert_eq!(asked, [cells]);
    }
}

/// How many cells were measured to be needed, as soon as that is known.
async fn measured(database: &Database) -> Value {
    for _ in 0..1_200 {
        let query = "FOR v IN vctx_meta FILTER v._key == 'vector' RETURN v.measured";
        let found = database.row(query, json!({})).await;
        if found.is_object() {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the index is never measured");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_filters_first_the_index_gives_only_what_passes_them() {
    let mut tuning = eager();
    tuning.environment.push(("VCTX_ARCHIVE__FILTERS_FIRST".into(), "true".into()));
    let home = Home::new();
    let _server = home.serve_with("vctx.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "").await;
    ingest(&ada, &circle("c", 0, 90, "cosine"), "*").await.ok();
    ingest(&bob, &circle("b", 0, 90, "cosine"), "*").await.ok();
    ingest(&ada, &circle("d", 90, 90, "cosine"), "*").await.ok();
    index_becomes(&ada, "ready").await;
    let angle = 30.2_f64.to_radians();
    let query = json!([angle.cos(), angle.sin()]);
    let text = |r: &Value| r["text"].as_str().expect("a text").to_owned();
    let near: Vec<String> = [30, 31, 29].iter().map(|n| format!("Bearing {n:03}. ")).collect();
    let far: Vec<String> = (90..93).map(|n| format!("Bearing {n:03}. ")).collect();
    for (filter, wanted) in [
        (json!({}), &near),
        (json!({"doc_id": "c", "freshness_after": "2020-01-01"}), &near),
        (json!({"source": "d"}), &far),
        (json!({"source": "d", "doc_id": "d"}), &far),
    ] {
        let asked = json!({"query_vector": query, "limit": 3, "nProbe": 12, "filter": filter});
        let body = search(&ada, asked).await.ok();
        let result = &body["result"];
        let found: Vec<String> =
            result["results"].as_array().expect("a list").iter().map(text).collect();
        assert_eq!(&found, wanted, "{filter}: {body}");
        assert_eq!(result["post_filter_dropped"], 0, "{filter}: nothing is dropped behind it");
    }
    let asked = json!({"query_vector": query, "limit": 3, "nProbe": 12, "filter": {"doc_id": "b"}});
    assert_eq!(search(&ada, asked).await.ok()["result"]["k_actual"], 0, "it is bob's");
    let asked = json!({"query_vector": query, "limit": 3, "nProbe": 12});
    assert_eq!(search(&ada, asked).await.ok()["result"]["plan"], "vector_filters_first");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_gives_the_nearest_in_both_metrics_and_filters_come_behind_it() {
    for (metric, sign) in [("cosine", -1.0), ("l2", 1.0)] {
        let home = Home::new();
        let _server = home.serve_with("vctx.sock", &eager()).await;
        let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
        ingest(&ada, &circle("c", 0, 90, metric), "*").await.ok();
        ingest(&ada, &circle("d", 90, 90, metric), "*").await.ok();
        index_becomes(&ada, "ready").await;
        let angle = 30.2_f64.to_radians();
        let query = json!([angle.cos(), angle.sin()]);
        let asked = json!({"query_vector": query, "limit": 5, "nProbe": 32});
        let body = search(&ada, asked.clone()).await.ok();
        let result = &body["result"];
        assert_eq!((&result["plan"], &result["metric"]), (&json!("vector"), &json!(metric)));
        let wanted: Vec<String> =
            [30, 31, 29, 32, 28].iter().map(|n| format!("Bearing {n:03}. ")).collect();
        let found = walk(&ada, asked.clone()).await;
        let text = |r: &Value| r["text"].as_str().expect("a text").to_owned();
        assert_eq!(found.iter().map(text).collect::<Vec<_>>(), wanted, "{metric}");
        let scores: Vec<f64> =
            found.iter().map(|r| r["similarity"].as_f64().expect("a score")).collect();
        assert!(scores.windows(2).all(|pair| (pair[0] - pair[1]) * sign < 0.0), "{scores:?}");

        // The nearest are all of the other document: the filter drops them, and the search goes on behind them.
        let mut of_d = asked;
        of_d["filter"] = json!({"source": "d"});
        let body = search(&ada, of_d.clone()).await.ok();
        let result = &body["result"];
        let found = walk(&ada, of_d).await;
        let wanted: Vec<String> = (90..95).map(|n| format!("Bearing {n:03}. ")).collect();
        assert_eq!(found.iter().map(text).collect::<Vec<_>>(), wanted, "{metric}");
        assert!(result["post_filter_dropped"].as_u64() > Some(0), "{body}");
        assert_eq!(result["k_actual"], 5);

        // Another agent's look meets the same vectors and is told of none of them.
        let bob = Agent::create(ada.wire.again(), "bob", 8192, "").await;
        ingest(&bob, &circle("b", 200, 1, metric), "*").await.ok();
        let body = search(&bob, json!({"query_vector": query, "limit": 5})).await.ok();
        let result = &body["result"];
        assert_eq!((&result["k_actual"], &result["post_filter_dropped"]), (&json!(1), &json!(0)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_of_heartbeats_pages_until_the_end_or_the_cap() {
    let (_home, _server, _database, ada) = stage().await;
    let chunks: Vec<String> = (0..40).map(|n| format!("Wave {n}. {}", count::words(200))).collect();
    ingest(&ada, &json!({"doc_id": "sea", "chunks": chunks}), "*").await.ok();
    let mut arguments = json!({"query_text": "wave", "limit": 40, "heartbeat": true});
    let mut depth = 0;
    for _ in 0..40 {
        let body = search(&ada, arguments.clone()).await.ok();
        let beat = &body["heartbeat"];
        if beat["terminated_reason"] == "depth" {
            assert_eq!(depth, 8);
            return;
        }
        if beat["granted"] == true {
            depth = beat["chain_depth"].as_u64().expect("a depth");
            arguments["page_token"] = body["result"]["next_page_token"].clone();
            assert!(arguments["page_token"].is_string(), "{body}");
        } else {
            let wait = beat["retry_after_ms"].as_u64().unwrap_or(50);
            tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
        }
    }
    panic!("the chain has no end");
}

/// Asks readiness until the vector index is in a state.
pub(crate) async fn index_becomes(agent: &Agent, state: &str) -> Value {
    for _ in 0..600 {
        let told = agent.wire.get("/readyz").await.ok()["vector_index"].clone();
        if told["state"] == state {
            return told;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the index never became {state}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_is_made_when_there_is_enough_and_then_serves() {
    let home = Home::new();
    let _server = home.serve_with("vctx.sock", &eager()).await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "").await;
    assert_eq!(index_becomes(&ada, "none").await["search"], "exact");
    let done = ingest(&ada, &circle("c", 0, 60, "cosine"), "*").await.ok();
    assert_eq!(done["result"]["vector_index_used"], false);
    let query = json!([30_f64.to_radians().cos(), 30_f64.to_radians().sin()]);
    let body = search(&ada, json!({"query_vector": query, "limit": 3})).await.ok();
    assert_eq!(body["result"]["plan"], "exact", "before there is an index");
    ingest(&bob, &circle("c", 60, 60, "cosine"), "*").await.ok();
    let told = index_becomes(&ada, "ready").await;
    let setting =
        database.row("FOR v IN vctx_meta FILTER v._key == 'vector' RETURN v", json!({})).await;
    assert_eq!(setting["nLists"], told["nLists"], "what is stored is what is there");
    let indexes =
        database.call("GET", "/_api/index?collection=archival_docs", &Value::Null).await.ok();
    let index =
        indexes["indexes"].as_array().expect("a list").iter().find(|i| i["type"] == "vector");
    let params = &index.expect("the index")["params"];
    for name in ["metric", "dimension", "defaultNProbe", "nLists"] {
        assert_eq!(params[name], setting[name], "{name}");
    }
    let done = ingest(&ada, &circle("d", 200, 3, "cosine"), "*").await.ok();
    assert_eq!(done["result"]["vector_index_used"], true);
    let body = search(&ada, json!({"query_vector": query, "limit": 3, "nProbe": 4})).await.ok();
    let result = &body["result"];
    assert_eq!(result["plan"], "vector");
    let mut near = texts(result);
    near.sort_unstable();
    assert_eq!(near, ["Bearing 029. ", "Bearing 030. ", "Bearing 031. "]);
    // What the index finds of another agent is dropped, and the search goes on until it has its own.
    let asked = json!({"query_vector": [-0.5, 0.866], "limit": 40, "explain": true});
    let found = walk(&ada, asked).await;
    assert_eq!(found.len(), 40);
    assert!(found.iter().all(|r| r["provenance"]["owner"] == "ada"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_gone_when_it_is_asked_is_done_without() {
    let home = Home::new();
    let _engine = home.engine().await;
    let gone = Arc::new(AtomicU16::new(0));
    let told = Arc::clone(&gone);
    // Each answer of ArangoDB to a search whose index went away behind its plan, or cannot serve.
    let _liar = Liar::instead(&home.path("liar.sock"), &home.path("engine.sock"), move |asked| {
        let num = told.load(Ordering::SeqCst);
        let near = asked.request["query"].as_str().is_some_and(|q| q.contains("APPROX_NEAR"));
        let (status, text) = if num == 1212 { (404, "index not found") } else { (500, "no index") };
        let body = json!({"error": true, "code": status, "errorNum": num, "errorMessage": text});
        (near && num != 0).then(|| Told::new(status, body))
    });
    let _server = home.server("vctx.sock", "engine.sock", "liar.sock", &eager()).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    ingest(&ada, &circle("c", 0, 120, "cosine"), "*").await.ok();
    index_becomes(&ada, "ready").await;
    let query = json!([30_f64.to_radians().cos(), 30_f64.to_radians().sin()]);
    // Through all cells, so that the index finds what a comparison one by one finds.
    let near = || search(&ada, json!({"query_vector": query, "limit": 3, "nProbe": 32}));
    let served = near().await.ok();
    assert_eq!(served["result"]["plan"], "vector", "{served}");
    for num in [1212, 1554, 1555] {
        gone.store(num, Ordering::SeqCst);
        let body = near().await.ok();
        assert_eq!(body["result"]["plan"], "exact", "{num}: {body}");
        assert_eq!(texts(&body["result"]), texts(&served["result"]), "{num}");
        gone.store(0, Ordering::SeqCst);
        index_becomes(&ada, "ready").await;
        assert_eq!(near().await.ok()["result"]["plan"], "vector", "behind {num}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_make_an_index_is_served_one_by_one() {
    let home = Home::new();
    let _engine = home.engine().await;
    let mut tuning = eager();
    let _admin = home.server("admin.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let database = home.database();
    let name = &database.name;
    let least = format!("least-of-{name}");
    let made = json!({"user": least, "passwd": "least"});
    database.system("POST", "/_api/user", &made).await.ok();
    for (path, grant) in [("", "ro"), ("/*", "rw")] {
        let path = format!("/_api/user/{least}/database/{name}{path}");
        database.system("PUT", &path, &json!({"grant": grant})).await.ok();
    }
    tuning.environment.push(("ARANGO_USER".into(), least));
    tuning.environment.push(("ARANGO_PASSWORD".into(), "least".into()));
    let _server = home.server("vctx.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    ingest(&ada, &circle("c", 0, 90, "l2"), "*").await.ok();
    let body = search(&ada, json!({"query_vector": [1, 0], "limit": 1})).await.ok();
    assert_eq!(body["result"]["plan"], "exact");
    for _ in 0..200 {
        let told = ada.wire.get("/readyz").await.ok()["vector_index"].clone();
        if told["reason"].as_str().is_some_and(|r| r.contains("may not make an index")) {
            assert_eq!(told["state"], "none");
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("readiness does not tell why there is no index");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_first_ingests_of_two_kinds_leave_one_kind() {
    let home = Home::new();
    let _engine = home.engine().await;
    let tuning = Tuning::default();
    let _one = home.server("one.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let _two = home.server("two.sock", "engine.sock", "engine-ro.sock", &tuning).await;
    let ada = Agent::create(home.wire("one.sock"), "ada", 8192, "").await;
    let bob = Agent::create(home.wire("two.sock"), "bob", 8192, "").await;
    let (cosine, l2) = (circle("d", 0, 50, "cosine"), circle("d", 0, 50, "l2"));
    let (first, second) = tokio::join!(ingest(&ada, &cosine, "*"), ingest(&bob, &l2, "*"));
    let mut codes = [first.status, second.status];
    codes.sort_unstable();
    assert_eq!(codes, [200, 409], "{}\n{}", first.text, second.text);
    let rows = home
        .database()
        .rows(
            "FOR d IN archival_docs COLLECT metric = d.metric WITH COUNT INTO n RETURN n",
            json!({}),
        )
        .await;
    assert_eq!(rows, [json!(50)]);
}
