//! After a kill of any process at any time, an ingest is complete or absent: every document has
//! exactly the chunks of one ingest, all of one revision.

use std::time::Duration;

use serde_json::{Value, json};

use crate::chance::{Chance, rounds, setting};
use crate::home::{Home, Process, TORN_TAIL, Tuning};
use crate::outside::outside;
use crate::talk::Agent;
use crate::truths::assert_archive;

/// Number of rounds; each round kills a process during an ingest.
const ROUNDS: u64 = 12;
/// Number of documents that are ingested repeatedly.
const DOCUMENTS: u64 = 2;

/// Maximum time in microseconds from the beginning of an ingest to the kill: for a plain ingest,
/// and for an ingest in parts.
const SPAN_US: u64 = 60_000;
const PARTS_SPAN_US: u64 = 1_500_000;
/// Number of sentences of a document that is ingested in parts.
const SENTENCES: u64 = 900;

/// Returns the ingest arguments of one round: each chunk contains the number of the round, and the
/// number of chunks differs between rounds. Every third document is so long that its vectors are
/// computed in parts.
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
        // When one process is killed, the other one logs the lost connection. A restarted process
        // appends to the log of the killed process, so these lines are declared as expected after
        // each start.
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
        // The test must not kill a database server that it did not start.
        let engines_turn = round % 2 == 0 && outside().is_none();
        let victim = if engines_turn { engine.clone() } else { server.clone() };
        let span = if call["document"].is_string() { PARTS_SPAN_US } else { SPAN_US };
        let pause = Duration::from_micros(chance.below(span));
        let killer = tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            victim.kill();
        });
        let again = ada.again();
        // If the engine was killed, the server would retry for half a minute. The test therefore
        // waits only briefly for the answer, and then kills the engine and the server.
        let attempt = again.attempt("ingest_archival", &call, &key, "*");
        drop(tokio::time::timeout(pause + Duration::from_millis(300), attempt).await);
        killer.await.expect("the killer ends");
        engine.kill();
        server.kill();
        (engine, server) = start(&home).await;
        assert_archive(&home.database()).await;
        // The test repeats the call with the same key. If the first call took effect, the repeated
        // call returns the stored answer; otherwise it is executed now.
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
        home.assert_verified("vctx.sock", "ada");
    }
}
