//! An ingest is whole or not there, whoever is killed when: every document has exactly the chunks of one ingest, all of one revision.

use std::time::Duration;

use serde_json::{Value, json};

use crate::chance::{Chance, setting};
use crate::home::{Home, Process, TORN_TAIL, Tuning};
use crate::talk::Agent;

/// Rounds of a run; each kills somebody in the middle of an ingest.
const ROUNDS: u64 = 8;
/// Documents that are taken in again and again.
const DOCUMENTS: u64 = 2;

/// The ingest of one round: its chunks name it, and their number differs from round to round.
fn arguments(round: u64) -> Value {
    let chunks: Vec<String> =
        (0..5 + round * 7 % 90).map(|n| format!("round {round} chunk {n}")).collect();
    json!({"doc_id": format!("d{}", round % DOCUMENTS), "chunks": chunks})
}

async fn start(home: &Home) -> (Process, Process) {
    let engine = home.engine().await;
    engine.expect(TORN_TAIL);
    let server =
        home.server("vctx.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    (engine, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_never_half_taken_in() {
    let home = Home::new();
    let mut chance = Chance::new(setting("ARCHIVAL_SEED", 7));
    let (mut engine, mut server) = start(&home).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    for round in 0..ROUNDS {
        let (call, key) = (arguments(round), format!("round-{round}"));
        let victim = if round % 2 == 0 { engine.clone() } else { server.clone() };
        for process in [&engine, &server] {
            // The other side says that its peer went silent.
            process.expect("call failed");
            process.expect("database");
        }
        let pause = Duration::from_micros(chance.below(60_000));
        let killer = tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            victim.kill();
        });
        let again = ada.again();
        // Who lost its engine would try for half a minute; its end comes first.
        let attempt = again.attempt("ingest_archival", &call, &key, "*");
        drop(tokio::time::timeout(pause + Duration::from_millis(300), attempt).await);
        killer.await.expect("the killer ends");
        engine.kill();
        server.kill();
        (engine, server) = start(&home).await;
        check(&home, &ada).await;
        // The same key finds out what became of it, or does it now.
        let ada = ada.again();
        let done = ada.tool("ingest_archival", &call, &key, "*").await.ok();
        assert_eq!(done["result"]["inserted"], call["chunks"].as_array().map(Vec::len).unwrap());
        let texts = home
            .database()
            .rows(
                "FOR d IN archival_docs FILTER d.doc_id == @doc SORT d.index RETURN d.text",
                json!({"doc": call["doc_id"]}),
            )
            .await;
        assert_eq!(json!(texts), call["chunks"], "round {round}");
        check(&home, &ada).await;
    }
}

/// Each manifest counts its chunks, they carry its revision, their places are dense, and the core counts them all.
async fn check(home: &Home, ada: &Agent) {
    let database = home.database();
    let documents = database
        .rows(
            "FOR m IN archival_manifests
               LET chunks = (FOR d IN archival_docs FILTER d.agent_id == m.agent_id AND d.doc_id == m.doc_id SORT d.index RETURN d)
               RETURN { chunks: m.chunks, there: LENGTH(chunks), revisions: UNIQUE(chunks[*].revision), revision: m.revision, places: chunks[*].index }",
            json!({}),
        )
        .await;
    let mut total = 0;
    for document in &documents {
        assert_eq!(document["chunks"], document["there"], "{document}");
        assert_eq!(document["revisions"], json!([document["revision"]]));
        let count = document["chunks"].as_u64().expect("a number");
        assert_eq!(document["places"], json!((0..count).collect::<Vec<u64>>()));
        total += count;
    }
    let all = database.row("RETURN LENGTH(archival_docs)", json!({})).await;
    assert_eq!(all, total, "no chunk without a manifest");
    let state = ada.again().state().await;
    assert_eq!(state["archived"], json!({"documents": documents.len(), "chunks": total}));
}
