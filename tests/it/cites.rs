//! Tests the citations of an answer and the sources of a summary. A citation names a chunk of the
//! same agent. It is stored in the message and as an edge, with the chunk's revision and digest. It
//! stays valid if the document changes later.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::archival::{ingest, offer};
use crate::database::Database;
use crate::home::{Home, Process};
use crate::talk::{Agent, key};

/// Starts a server; returns it with its database, an agent, and the chunks of the agent's document.
async fn stage() -> (Home, Process, Database, Agent, Vec<String>) {
    let home = Home::new();
    let server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    ingest(&ada, &offer("tides.md", json!({})), "*").await.ok();
    let ids = chunks_of(&database, "ada").await;
    (home, server, database, ada, ids)
}

async fn chunks_of(database: &Database, agent: &str) -> Vec<String> {
    let query =
        "FOR d IN archival_docs FILTER d.agent_id == @agent SORT d.doc_id, d.index RETURN d._id";
    let rows = database.rows(query, json!({"agent": agent})).await;
    rows.iter().map(|id| id.as_str().expect("an id").to_owned()).collect()
}

async fn edges(database: &Database) -> Vec<Value> {
    database.rows("FOR e IN cites SORT e.seq, e.chunk_id RETURN e", json!({})).await
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_keeps_what_it_cites_in_itself_and_in_edges_and_a_replay_doubles_nothing() {
    let (home, _server, database, ada, ids) = stage().await;
    let found = ada.done("search_archival", &json!({"query_text": "high tide"})).await;
    let best = found["result"]["results"][0].clone();
    let bare = ids[2].strip_prefix("archival_docs/").expect("a key");
    let call = json!({"message": "It turns at seven.", "role": "assistant",
        "cites": [best["id"], bare, ids[2]]});
    let key = key();
    let done = ada.tool("append_fifo", &call, &key, "*").await.ok();
    assert_eq!(done["result"]["cited"], 2, "the third names the second once more: {done}");
    let again = ada.tool("append_fifo", &call, &key, "*").await.ok();
    assert_eq!((&again["replayed"], &again["result"]), (&json!(true), &done["result"]));

    let message = ada.messages().await.pop().expect("a message");
    let kept = message["meta"]["cites"].as_array().expect("cites").clone();
    let edges = edges(&database).await;
    assert_eq!((kept.len(), edges.len()), (2, 2), "{kept:?} {edges:?}");
    for (cited, text) in kept.iter().zip(["High tide. ", "Slack water."]) {
        assert_eq!(cited["digest"], json!(sha256(text)), "{cited}");
        let edge = edges.iter().find(|edge| edge["_to"] == cited["id"]).expect("an edge");
        for name in ["doc_id", "chunk_id", "offset", "revision", "digest"] {
            assert_eq!(edge[name], cited[name], "{name}");
        }
        assert_eq!(
            edge["_from"],
            json!(format!("messages/{}", message["id"].as_str().expect("an id")))
        );
        assert_eq!((&edge["agent_id"], &edge["seq"]), (&json!("ada"), &message["seq"]));
    }
    // The citations of a message are part of its digest.
    home.assert_verified("vctx.sock", "ada");
    ada.done("evict_fifo", &json!({"target_tokens": 0})).await;
    let path = "FOR v, e, path IN 2 OUTBOUND 'core_memory/ada' recall_log, cites
        FILTER IS_SAME_COLLECTION('archival_docs', v) SORT v.index RETURN v.text";
    assert_eq!(database.rows(path, json!({})).await, ["High tide. ", "Slack water."]);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_citation_that_leads_nowhere_is_named_and_changes_nothing() {
    let (home, _server, database, ada, ids) = stage().await;
    let bob = Agent::create(home.wire("vctx.sock"), "bob", 8192, "Be brief.").await;
    ingest(&bob, &offer("tides.md", json!({})), "*").await.ok();
    let foreign = chunks_of(&database, "bob").await[0].clone();
    let before = ada.state().await;
    let many: Vec<&String> = vec![&ids[0]; 33];
    for (role, cites, field) in [
        ("assistant", json!([ids[0], foreign]), "cites[1]"),
        ("assistant", json!(["archival_docs/0123456789abcdef0123"]), "cites[0]"),
        ("assistant", json!([ids[0], ""]), "cites[1]"),
        ("assistant", json!(["archival_docs/"]), "cites[0]"),
        ("assistant", json!(["messages/1"]), "cites[0]"),
        ("assistant", json!(["a b"]), "cites[0]"),
        ("assistant", json!(["x".repeat(300)]), "cites[0]"),
        ("assistant", json!([7]), "cites[0]"),
        ("assistant", json!("archival_docs/x"), "cites"),
        ("assistant", json!(many), "cites"),
        ("user", json!([ids[0]]), "cites"),
    ] {
        let call = json!({"message": "It turns at seven.", "role": role, "cites": cites});
        let refused = ada.tool("append_fifo", &call, &key(), "*").await;
        refused.refused(400, "INVALID_ARGUMENT");
        let told = ada.tool("append_fifo", &call, &key(), "*").await;
        assert_eq!(told.body["field"], field, "{cites}: {}", told.text);
    }
    assert_eq!(ada.state().await, before);
    assert_eq!(edges(&database).await, Vec::<Value>::new());
    let none = json!({"message": "Nothing to cite.", "role": "user", "cites": []});
    let done = ada.done("append_fifo", &none).await;
    assert_eq!(done["result"]["cited"], Value::Null);
    let message = ada.messages().await.pop().expect("a message");
    assert_eq!(message["meta"], json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_citation_goes_with_its_chunk_and_the_answer_remembers_it() {
    let (home, _server, database, ada, ids) = stage().await;
    let call = json!({"message": "It turns.", "role": "assistant", "cites": ids});
    ada.done("append_fifo", &call).await;
    let told = ada.messages().await.pop().expect("a message")["meta"]["cites"].clone();
    assert_eq!(edges(&database).await.len(), 3);
    // The new version of the document has two chunks instead of three, so the third chunk is
    // removed.
    let fewer = json!({"doc_id": "tides.md", "chunks": ["Low tide. ", "Neap tide. "]});
    let fewer = offer(
        "tides.md",
        json!({"chunks": fewer["chunks"], "embeddings": [[1.0, 0.0], [0.0, 1.0]],
        "late_chunking": {"mode": "late", "pooling": "mean", "model": "tides", "document_tokens": 6,
            "spans": [{"start": 0, "end": 3}, {"start": 3, "end": 6}]}}),
    );
    ingest(&ada, &fewer, "*").await.ok();
    let left = edges(&database).await;
    assert_eq!(left.len(), 2);
    for edge in &left {
        let now = database.row("RETURN DOCUMENT(@id)", json!({"id": edge["_to"]})).await;
        assert_ne!(edge["revision"], now["revision"], "it was cited under the earlier revision");
        let same = edge["digest"] == json!(sha256(now["text"].as_str().expect("a text")));
        assert_eq!(
            same,
            now["text"] == "Low tide. ",
            "the digest tells whether it is the same text"
        );
    }
    ada.done("ingest_archival", &json!({"doc_id": "tides.md", "delete": true})).await;
    assert_eq!(edges(&database).await, Vec::<Value>::new());
    assert_eq!(ada.messages().await.pop().expect("a message")["meta"]["cites"], told);
    home.assert_verified("vctx.sock", "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_leads_to_the_batch_that_it_took_up_and_to_the_one_before() {
    let (_home, _server, database, ada, _) = stage().await;
    for round in 0..3 {
        for turn in 0..3 {
            ada.append("user", format!("Round {round} turn {turn} at the quay.")).await;
        }
        ada.done("evict_fifo", &json!({"target_tokens": 0, "summarize": round != 1})).await;
    }
    let query = "FOR v IN core_versions FILTER v.agent_id == 'ada' AND v.queue_head_summary.revision > 0
        SORT v.version
        LET made_of = (
          FOR to, e IN 1..1 OUTBOUND v GRAPH 'g_mem' OPTIONS { edgeCollections: 'derived_from' }
            LET batch = (
              FOR entry IN recall_log FILTER entry.evicted_batch_id == e.evicted_batch_id SORT entry.seq
                RETURN [entry.seq, entry.summary_rev])
            SORT to._id RETURN [PARSE_IDENTIFIER(to).collection, batch])
        RETURN { of: v.queue_head_summary.revision, made_of }";
    let rows = database.rows(query, json!({})).await;
    let batch = |seqs: [u64; 3], rev: u64| seqs.map(|seq| json!([seq, rev]));
    assert_eq!(
        rows,
        [
            json!({"of": 1, "made_of": [["messages", batch([1, 2, 3], 1)]]}),
            json!({"of": 2, "made_of": [["core_versions", batch([7, 8, 9], 2)], ["messages", batch([7, 8, 9], 2)]]}),
        ],
        "the second eviction made no summary, and no summary claims it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_place_of_a_passage_is_cited_where_it_is_known() {
    let home = Home::new();
    let _server = home.serve().await;
    let database = home.database_inside();
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be brief.").await;
    let text = "The ferry leaves at ebb. It is slow water then.";
    ada.done("ingest_archival", &json!({"doc_id": "ferry.md", "document": text})).await;
    let id = chunks_of(&database, "ada").await.remove(0);
    let answer = json!({"message": "At ebb.", "role": "assistant", "cites": [id]});
    ada.done("append_fifo", &answer).await;
    let cited = ada.messages().await.pop().expect("a message")["meta"]["cites"][0].clone();
    let edge = edges(&database).await.remove(0);
    for told in [cited, edge] {
        assert_eq!(told["offset"], json!({"start": 0, "end": text.len()}), "{told}");
        assert_eq!(told["digest"], json!(sha256(text)));
    }
}
