//! An ingest is whole or not there, whoever is killed when: every document has exactly the chunks of one ingest, all of one revision.

use std::time::Duration;

use serde_json::{Value, json};

use crate::chance::{Chance, rounds, setting};
use crate::home::{Home, Process, TORN_TAIL, Tuning};
use crate::outside::outside;
use crate::talk::Agent;
use crate::truths::assert_archive;

/// Rounds of a run; each kills somebody in the middle of an ingest.
const ROUNDS: u64 = 12;
/// Documents that are taken in again and again.
const DOCUMENTS: u64 = 2;

/// Within which time somebody is killed, in microseconds, and within which while parts are made.
const SPAN_US: u64 = 60_000;
const PARTS_SPAN_US: u64 = 1_500_000;
/// Sentences of a document that goes in in parts.
const SENTENCES: u64 = 900;

/// The ingest of one round: its chunks name it, and their number differs from round to round. Every third one is a document that is so long
/// that its vectors are made in parts.
fn arguments(round: u64) -> Value {
    if round % 3 == 2 {
        let text: String =
            (0..SENTENCES).map(|n| format!("In round {round} sentence {n} follows. ")).collect();
        return json!({"doc_id": format!("d{}", round % DOCUMENTS), "document": text, "splitter": {"tokens_max": 16}});
    }
    let chunks: Vec<String> =
        (0..5 + round * 7 % 90).map(|n| format!("round {round} chunk {n}")).collect();
    json!({"doc_id": format!("d{}", round % DOCUMENTS), "chunks": chunks})
}

async fn start(home: &Home) -> (Process, Process) {
    let engine = home.engine().await;
    engine.expect(TORN_TAIL);
    let server =
        home.server("vctx.sock", "engine.sock", "engine-ro.sock", &Tuning::default()).await;
    for process in [&engine, &server] {
        // The other side says that its peer went silent; those who come after it write into the same log.
        process.expect("call failed");
        process.expect("database");
    }
    (engine, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_never_half_taken_in() {
    let home = Home::new();
    let mut chance = Chance::new(setting("ARCHIVAL_SEED", 7));
    let (mut engine, mut server) = start(&home).await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "").await;
    for round in 0..rounds("ARCHIVAL_ROUNDS", ROUNDS) {
        let (call, key) = (arguments(round), format!("round-{round}"));
        // A database server that runs already is not ours to kill.
        let engines_turn = round % 2 == 0 && outside().is_none();
        let victim = if engines_turn { engine.clone() } else { server.clone() };
        let span = if call["document"].is_string() { PARTS_SPAN_US } else { SPAN_US };
        let pause = Duration::from_micros(chance.below(span));
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
        assert_archive(&home.database()).await;
        // The same key finds out what became of it, or does it now.
        let ada = ada.again();
        let done = ada.tool("ingest_archival", &call, &key, "*").await.ok();
        let texts = home
            .database()
            .rows(
                "FOR d IN archival_docs FILTER d.doc_id == @doc SORT d.index RETURN d.text",
                json!({"doc": call["doc_id"]}),
            )
            .await;
        assert_eq!(done["result"]["inserted"], texts.len());
        match call["document"].as_str() {
            None => assert_eq!(json!(texts), call["chunks"], "round {round}"),
            Some(document) => {
                assert!(texts.len() > 256, "{} chunks are one part", texts.len());
                let whole: Vec<&str> = texts.iter().map(|t| t.as_str().unwrap()).collect();
                assert_eq!(whole.concat(), document, "round {round}");
            }
        }
        let parts = home.database().row("RETURN LENGTH(archival_parts)", json!({})).await;
        assert_eq!(parts, 0, "no part outlives its document");
        assert_archive(&home.database()).await;
    }
}
