//! Tests the vectors of the archive: one embedder computes all of them, with late chunking.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use vctx::text::lexical;

use super::{DIMENSION, Model, server};
use crate::home::Home;
use crate::talk::Agent;

/// Returns the vectors that a caller would compute with the test's model from each text separately.
fn alone(texts: &[&str]) -> Vec<Vec<f64>> {
    texts.iter().map(|text| lexical::embed_query(text, DIMENSION)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_holds_the_vectors_of_one_embedder_made_late() {
    let home = Home::new();
    let _engine = home.engine().await;
    let model = Model::start(&home.path("model.sock"), Duration::ZERO);
    let server = server(&home, "1").await;
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 8192, "Be kind.").await;
    let chunks = [
        "Berths in the harbour of Cuxhaven are let from May on. ",
        "The master charges fourteen euros a night. ",
        "Cards are accepted.",
    ];
    let spans =
        json!([{"start": 0, "end": 55}, {"start": 55, "end": 98}, {"start": 98, "end": 117}]);
    let offer = |embeddings: Vec<Vec<f64>>| {
        json!({"doc_id": "berths", "chunks": chunks, "embeddings": embeddings, "dimension": DIMENSION,
            "metric": "cosine", "embedding_version": "1", "model_id": "letters",
            "late_chunking": {"mode": "late", "pooling": "mean", "model": "letters", "document_chars": 117, "spans": spans}})
    };
    // The server has the same model as the caller, and detects vectors that were computed from each
    // chunk alone, without the rest of the document.
    let naive = ada.tool("ingest_archival", &offer(alone(&chunks)), "naive", "*").await;
    let told = naive.refused(422, "LATE_CHUNKING_REQUIRED");
    assert_eq!(told["reason"], "alone");
    assert_eq!(home.database().rows("FOR d IN archival_docs RETURN 1", json!({})).await.len(), 0);
    // Vectors that were computed with the whole document are accepted.
    let texts = chunks.map(str::to_owned);
    ada.tool("ingest_archival", &offer(lexical::embed_document(&texts, DIMENSION)), "late", "*")
        .await
        .ok();
    // The server computes its own vectors from the whole document too, so they differ from vectors
    // of each chunk alone.
    let own = json!({"doc_id": "fees", "chunks": chunks});
    ada.done("ingest_archival", &own).await;
    let kept = "FOR d IN archival_docs FILTER d.doc_id == 'fees' SORT d.index RETURN [d.model_id, d.embedding]";
    for (row, alone) in home.database().rows(kept, json!({})).await.iter().zip(alone(&chunks)) {
        assert_eq!(row[0], "letters");
        let kept: Vec<f64> =
            row[1].as_array().unwrap().iter().map(|c| c.as_f64().unwrap()).collect();
        let near: f64 = kept.iter().zip(&alone).map(|(a, b)| a * b).sum();
        assert!((0.9..0.9999).contains(&near), "{near}");
    }
    let asked = json!({"query_text": "what does the master charge", "limit": 1});
    let found = ada.done("search_archival", &asked).await;
    let best = found["result"]["results"][0]["text"].as_str().expect("a text");
    assert!(best.starts_with("The master"), "{found:#}");

    // While the model fails, an ingest that needs the model is refused, and stores nothing.
    model.fails.store(true, Ordering::SeqCst);
    server.expect("the embedder");
    server.expect("call failed");
    let late =
        json!({"doc_id": "tides", "chunks": ["The tide turns at seven.", "Mind the current."]});
    ada.tool("ingest_archival", &late, "fails", "*").await.refused(503, "EMBEDDER_UNAVAILABLE");
    model.fails.store(false, Ordering::SeqCst);
    ada.tool("ingest_archival", &late, "fails", "*").await.ok();
    server.stop().await;

    // Another version of the model computes other vectors, which are never mixed with the existing
    // vectors.
    let server = self::server(&home, "2").await;
    // Both servers write to one log, so the second server's log also contains the first server's
    // warnings.
    server.expect("the embedder");
    server.expect("call failed");
    let more = json!({"doc_id": "more", "chunks": ["One.", "Two."]});
    let told = ada
        .tool("ingest_archival", &more, "other", "*")
        .await
        .refused(409, "VECTOR_SETTING_MISMATCH");
    assert_eq!(told["stored"]["embedding_version"], "1");
    assert_eq!(told["given"]["embedding_version"], "2");
}
