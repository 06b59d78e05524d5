//! The archive over the real socket: documents go in whole or not at all, are replaced whole, and belong to one agent.

use serde_json::{Value, json};

use crate::database::Database;
use crate::home::Home;
use crate::talk::{Agent, key};
use crate::wire::Answer;

/// Arguments of an ingest of three chunks with vectors of two components and whole evidence, with some fields changed.
fn offer(doc_id: &str, changes: Value) -> Value {
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

async fn ingest(agent: &Agent, arguments: &Value, revision: &str) -> Answer {
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
    let long = "x".repeat(64 * 1024 + 1);
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
        assert!(problem["detail"].as_str().is_some_and(|d| d.contains("docs/reindex.md")));
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
