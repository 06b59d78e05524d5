//! Checks invariants of a database after any kills and lost requests: its recall storage, view,
//! heartbeat chains, archive and vectors.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::database::Database;

/// Maximum time until delayed work is done, such as the commit of a view, or the end of heartbeat
/// chains that are past their time limit.
const LATER_MAX: Duration = Duration::from_secs(60);
/// Pause between two polls.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum number of chunks whose distances the check of the vector index compares.
const CHUNKS_MAX: usize = 1_000;

/// Number of entries of each kind in an agent's recall storage.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) evicted: usize,
    pub(crate) written: usize,
    pub(crate) spooled: usize,
}

/// Checks that recall storage contains exactly the messages that were evicted, written by
/// `write_recall` or spooled, each once with its own text, and no copy.
pub(crate) async fn assert_log(database: &Database, agent: &str) -> Logged {
    let query = r#"
        LET head_seq = DOCUMENT("core_memory", @agent).queue.head_seq
        LET meant = (FOR m IN messages FILTER m.agent_id == @agent
            FILTER m.kind IN ["recall", "spool"] OR (m.kind IN ["turn", "event"] AND m.seq < head_seq)
            SORT m.seq RETURN { key: m._key, to: m._id, seq: m.seq, kind: m.kind, content: m.content })
        LET found = (FOR e IN recall_log FILTER e._from == CONCAT("core_memory/", @agent)
            SORT e.seq RETURN { key: e._key, to: e._to, seq: e.seq, content: e.payload.content })
        RETURN { meant, found }"#;
    let row = database.row(query, json!({"agent": agent})).await;
    let (meant, found) =
        (row["meant"].as_array().expect("rows"), row["found"].as_array().expect("rows"));
    assert_eq!(meant.len(), found.len(), "{agent}: entries missing or doubled");
    for (meant, found) in meant.iter().zip(found) {
        for part in ["key", "to", "seq", "content"] {
            assert_eq!(meant[part], found[part], "{agent}: {part} of an entry");
        }
    }
    let of = |kinds: &[&str]| {
        meant.iter().filter(|m| kinds.contains(&m["kind"].as_str().expect("a kind"))).count()
    };
    Logged { evicted: of(&["turn", "event"]), written: of(&["recall"]), spooled: of(&["spool"]) }
}

/// Waits until the view shows exactly the entries of recall storage, and checks that the view finds
/// each given word in the entry that contains it.
pub(crate) async fn assert_view(database: &Database, agent: &str, words: &[&str]) {
    let until = Instant::now() + LATER_MAX;
    let binds = json!({"core": format!("core_memory/{agent}")});
    loop {
        let shown = "FOR e IN recall_view SEARCH e._from == @core SORT e._key RETURN e._key";
        let (shown, logged) = (
            database.rows(shown, binds.clone()).await,
            database
                .rows(
                    "FOR e IN recall_log FILTER e._from == @core SORT e._key RETURN e._key",
                    binds.clone(),
                )
                .await,
        );
        if shown == logged {
            break;
        }
        assert!(Instant::now() < until, "{agent}: {} shown, {} logged", shown.len(), logged.len());
        tokio::time::sleep(LOOK).await;
    }
    for word in words {
        let binds = json!({"core": format!("core_memory/{agent}"), "word": word});
        let shown = r#"FOR e IN recall_view SEARCH e._from == @core AND ANALYZER(e.payload.content IN TOKENS(@word, "text_en"), "text_en")
            SORT e._key RETURN e._key"#;
        let said = "FOR e IN recall_log FILTER e._from == @core AND CONTAINS(LOWER(e.payload.content), @word)
            SORT e._key RETURN e._key";
        let logged = database.rows(said, binds.clone()).await;
        assert_eq!(database.rows(shown, binds).await, logged, "{agent}: {word}");
    }
}

/// Checks that every ended chain has one start and one end event, that it stayed within its limits
/// or ended because of them, and that at most one chain runs. Returns the number of end events that
/// the sweep wrote, a background job that ends chains after their time limit.
pub(crate) async fn assert_chains(database: &Database, agent: &str) -> u64 {
    let query = r#"
        LET of = (FOR e IN memory_events FILTER e.agent_id == @agent AND e.type IN ["hb_start", "hb_end"]
            RETURN { type: e.type, details: e.details })
        RETURN { of, heartbeat: DOCUMENT("core_memory", @agent).heartbeat }"#;
    let row = database.row(query, json!({"agent": agent})).await;
    let (events, heartbeat) = (row["of"].as_array().expect("events"), &row["heartbeat"]);
    let cap_ms = heartbeat["limits"]["max_chain_duration_ms"].as_u64().expect("a cap");
    let chains = |kind: &str| -> Vec<&str> {
        let of = events.iter().filter(|e| e["type"] == kind);
        of.map(|e| e["details"]["chain"].as_str().expect("a chain")).collect()
    };
    let (started, ended) = (chains("hb_start"), chains("hb_end"));
    let (begun, over): (BTreeSet<&str>, BTreeSet<&str>) =
        (started.iter().copied().collect(), ended.iter().copied().collect());
    assert_eq!((begun.len(), over.len()), (started.len(), ended.len()), "{agent}: a chain twice");
    let running: Vec<&str> = begun.difference(&over).copied().collect();
    assert_eq!(running, heartbeat["chain"]["id"].as_str().into_iter().collect::<Vec<_>>());
    assert!(over.is_subset(&begun), "{agent}: an end without a begin");
    let mut swept = 0;
    for end in events.iter().filter(|e| e["type"] == "hb_end").map(|e| &e["details"]) {
        let duration_ms = end["duration_ms"].as_u64().expect("a time");
        assert_eq!(end["reason"] == "duration", duration_ms > cap_ms, "{agent}: {end}");
        assert!(end["chain_depth"].as_u64() <= heartbeat["limits"]["max_chain_depth"].as_u64());
        swept += u64::from(end["closed_by"] == "sweep");
    }
    swept
}

/// Waits until no chain exceeds its time limit, because a background job must end such chains.
pub(crate) async fn assert_no_dead_chain(database: &Database) {
    let until = Instant::now() + LATER_MAX;
    loop {
        let query = "FOR c IN core_memory FILTER c.heartbeat.chain != null AND c.heartbeat.chain.deadline_ms < DATE_NOW()
            RETURN { agent: c._key, chain: c.heartbeat.chain }";
        let dead = database.rows(query, json!({})).await;
        if dead.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "nobody ends {dead:?}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Checks that every document has exactly the chunks of its manifest, all of one revision and with
/// consecutive positions. Also checks that no other chunks exist, and that the counts in the cores
/// match.
pub(crate) async fn assert_archive(database: &Database) {
    let query = "
        LET documents = (FOR m IN archival_manifests
            LET chunks = (FOR d IN archival_docs FILTER d.agent_id == m.agent_id AND d.doc_id == m.doc_id SORT d.index RETURN d)
            RETURN { agent: m.agent_id, chunks: m.chunks, revisions: UNIQUE(chunks[*].revision), revision: m.revision, places: chunks[*].index })
        LET counted = (FOR c IN core_memory RETURN { agent: c._key, archived: c.archived })
        RETURN { documents, counted, total: LENGTH(archival_docs) }";
    let row = database.row(query, json!({})).await;
    let documents = row["documents"].as_array().expect("documents");
    let chunks = |document: &Value| document["chunks"].as_u64().expect("a number");
    for document in documents {
        assert_eq!(
            document["places"],
            json!((0..chunks(document)).collect::<Vec<u64>>()),
            "{document}"
        );
        assert_eq!(document["revisions"], json!([document["revision"]]));
    }
    assert_eq!(row["total"], documents.iter().map(chunks).sum::<u64>(), "a chunk of no document");
    for core in row["counted"].as_array().expect("cores") {
        let own: Vec<&Value> = documents.iter().filter(|d| d["agent"] == core["agent"]).collect();
        let total: u64 = own.iter().map(|d| chunks(d)).sum();
        assert_eq!(core["archived"], json!({"documents": own.len(), "chunks": total}), "{core}");
    }
}

/// Checks that all lists of the vector index together contain exactly the chunks of the collection,
/// and that the index reports each chunk's true distance to a vector. Returns false if there is no
/// index.
pub(crate) async fn assert_vectors(database: &Database, vector: &Value) -> bool {
    let indexes =
        database.call("GET", "/_api/index?collection=archival_docs", &Value::Null).await.ok();
    let index =
        indexes["indexes"].as_array().expect("a list").iter().find(|i| i["type"] == "vector");
    let Some(index) = index.filter(|index| index["trainingState"] == "ready") else { return false };
    let binds = json!({"vector": vector, "limit": CHUNKS_MAX, "cells": index["params"]["nLists"]});
    let near = "FOR d IN archival_docs LET near = APPROX_NEAR_COSINE(d.embedding, @vector, { nProbe: @cells })
        SORT near DESC LIMIT @limit RETURN { key: d._key, near }";
    let mut near = database.rows(near, binds).await;
    let exact = "FOR d IN archival_docs LET near = COSINE_SIMILARITY(d.embedding, @vector) SORT d._key LIMIT @limit
        RETURN { key: d._key, near }";
    let exact = database.rows(exact, json!({"vector": vector, "limit": CHUNKS_MAX})).await;
    assert!(exact.len() < CHUNKS_MAX, "more chunks than are compared");
    near.sort_by(|a, b| a["key"].as_str().cmp(&b["key"].as_str()));
    let keys = |rows: &[Value]| rows.iter().map(|row| row["key"].to_string()).collect::<Vec<_>>();
    assert_eq!(keys(&near), keys(&exact), "lists and documents differ");
    for (near, exact) in near.iter().zip(&exact) {
        let (a, b) = (near["near"].as_f64().expect("one"), exact["near"].as_f64().expect("one"));
        assert!((a - b).abs() < 1e-6, "{near} {exact}");
    }
    true
}
