//! Tests the archive over the real socket: a document is ingested completely or not at all, is
//! replaced as a whole, and belongs to one agent.

use serde_json::{Value, json};

use crate::count;
use crate::database::Database;
use crate::home::{Home, Tuning};
use crate::talk::{Agent, key};
use crate::wire::Answer;

mod index;
mod pages;

/// Returns ingest arguments for three chunks with two-dimensional vectors and complete evidence of
/// late chunking; `changes` overrides fields.
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

/// Returns the contents of the archive, over all agents.
async fn archive(database: &Database) -> Value {
    database
        .row(
            "RETURN { chunks: LENGTH(archival_docs), manifests: LENGTH(archival_manifests),
               edges: LENGTH(derived_from), settings: LENGTH(FOR v IN vctx_meta FILTER v._key == 'vector' RETURN 1) }",
            json!({}),
        )
        .await
}

/// Starts a server, and returns it with its database and an agent.
async fn stage() -> (Home, crate::home::Process, Database, Agent) {
    let home = Home::new();
    let server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    (home, server, database, ada)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ingest_of_the_stored_document_changes_nothing() {
    let (_home, _server, database, ada) = stage().await;
    let tides = json!({"doc_id": "tides.md", "document": "Low tide. High tide."});
    let first = ingest(&ada, &tides, "").await.ok();
    let rows = || async { database.rows("FOR d IN archival_docs RETURN d", json!({})).await };
    let (stored, state) = (rows().await, ada.state().await);
    let stale = first["agent_rev"].as_str().expect("a revision");
    for revision in ["", "*", first["_rev"].as_str().expect("a revision"), stale] {
        let again = ingest(&ada, &tides, revision).await.ok();
        assert_eq!(again["result"]["unchanged"], true, "{revision}: {again}");
        assert_eq!(again["_rev"], first["_rev"]);
        assert_eq!((&again["result"]["inserted"], &again["replayed"]), (&json!(0), &json!(false)));
    }
    assert_eq!((rows().await, ada.state().await), (stored, state));
    let told = "Unchanged: it is already archived.";
    let captured =
        json!({"doc_id": "tides.md", "document": "Low tide. High tide.", "capture": true});
    let result = ingest(&ada, &captured, "*").await.ok();
    assert_eq!(result["result"]["unchanged"], true);
    let last = ada.messages().await.pop().expect("a message");
    assert!(last["content"].as_str().is_some_and(|text| text.starts_with(told)), "{last}");

    // Every argument counts, not only the text.
    for change in [
        json!({"document": "Low tide. High tide!"}),
        json!({"provenance": {"source": "almanac"}}),
        json!({"splitter": {"by": "sentence"}}),
    ] {
        let mut other = tides.clone();
        other.as_object_mut().expect("an object").extend(change.as_object().cloned().expect("one"));
        ingest(&ada, &other, "").await.refused(412, "REVISION_STALE");
        assert_eq!(ingest(&ada, &other, "*").await.ok()["result"]["replaced"], 1, "{other}");
    }
    ingest(&ada, &json!({"doc_id": "tides.md", "delete": true}), "*").await.ok();
    assert_eq!(ingest(&ada, &tides, "").await.ok()["result"]["inserted"], 1);
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
    for (changes, field) in [
        (json!({"chunks": ["a", " ", "c"]}), "chunks[1]"),
        (json!({"embeddings": [[1, 0], [0, 1], [1, 1e300]]}), "embeddings[2]"),
        (json!({"provenance": {"message_ids": ["nobody"]}}), "provenance.message_ids"),
    ] {
        let refused = ingest(&ada, &offer("d", changes.clone()), "*").await;
        let problem = refused.refused(400, "INVALID_ARGUMENT");
        assert_eq!(problem["field"], field, "{changes}: {problem}");
    }
    // JSON has no NaN, so a body with a bare `NaN` is not JSON.
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
    // All refusals are counted, but only a bounded number of them is recorded as events.
    for _ in 0..40 {
        ingest(&ada, &offer("d", json!({"late_chunking": null})), "*").await;
    }
    let noted = database
        .row("RETURN COUNT(FOR e IN memory_events FILTER e.type == 'error' RETURN 1)", json!({}))
        .await;
    assert_eq!(noted, 16);
    // A refusal stores nothing under the key, so a correct call may use the same key.
    ada.tool("ingest_archival", &offer("d", json!({"late_chunking": null})), "k", "*").await;
    ada.tool("ingest_archival", &offer("d", json!({})), "k", "*").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_replaced_whole_by_whoever_knows_its_revision() {
    let (_home, _server, database, ada) = stage().await;
    let first = ingest(&ada, &offer("d", json!({})), "").await.ok();
    let revision = first["_rev"].as_str().expect("a revision").to_owned();
    let other = offer("d", json!({"provenance": {"source": "harbour"}}));
    let problem = ingest(&ada, &other, "").await.refused(412, "REVISION_STALE");
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
    // An ingest does not change the agent's queue.
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

/// Settings of a server whose archive needs only a few chunks to create and use a vector index.
pub(crate) fn eager() -> Tuning {
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let environment =
        vec![set("VCTX_ARCHIVE__EXACT_ROWS_MAX", "0"), set("VCTX_ARCHIVE__INDEX_ROWS_MIN", "80")];
    Tuning { environment, ..Tuning::default() }
}

/// Returns ingest arguments for `count` chunks with vectors on the unit circle: the angles are
/// `from`, `from` + 1, … degrees.
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

/// Searches the archive without an idempotency key and without a revision, as a model does.
pub(crate) async fn search(agent: &Agent, arguments: Value) -> Answer {
    let path = format!("{}/tools/search_archival", agent.path());
    agent.wire.call("POST", &path, &[], arguments.to_string()).await
}

fn texts(result: &Value) -> Vec<&str> {
    let results = result["results"].as_array().expect("results");
    results.iter().map(|r| r["text"].as_str().expect("a text")).collect()
}

/// Reads all pages of a search; each page must keep its token limit. Returns the results in the
/// order of the pages.
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
        // The query vector points to 30.2 degrees; the results are the nearest vectors in order of
        // distance.
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
    // The document of one agent does not affect the other agent's document, although both documents
    // have the same name.
    let first = ingest(&bob, &json!({"doc_id": "codes", "chunks": ["Changed."]}), "*").await.ok();
    assert_eq!(first["result"]["replaced"], 1);
    let rows =
        database.rows("FOR d IN archival_docs SORT d.agent_id RETURN d.text", json!({})).await;
    assert_eq!(rows, [json!("The code is 1111."), json!("Changed.")]);
    // A document must not name another agent's message as its source.
    let message = ada.append("user", "Mine.").await;
    let id = &message["result"]["message_id"];
    let stolen = json!({"doc_id": "x", "chunks": ["x"], "provenance": {"message_ids": [id]}});
    ingest(&bob, &stolen, "*").await.refused(400, "INVALID_ARGUMENT");
}

/// Polls `/readyz` until the vector index is in the given state.
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
