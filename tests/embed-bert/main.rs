//! Compares the local embedder's vectors with vectors that an independent implementation computed,
//! on a tiny generated BERT model.

mod tiny;

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use vctx_base::embedder::{Embedder, Kind};
use vctx_core::error::Result;

use self::tiny::{SENTENCES, write};

/// Maximum time that a query waits for its vector.
const LIMIT: Duration = Duration::from_secs(60);
/// First components of the expected sentence vectors. Each token's state is the mean over all
/// windows that contain the token.
const SPANS: [[f32; 6]; 5] = [
    [0.040319, 0.209837, -0.112047, 0.034160, -0.332297, 0.262655],
    [-0.212502, 0.162880, -0.075823, -0.024828, -0.231884, 0.340566],
    [-0.086043, 0.268752, 0.065197, 0.013013, -0.140610, 0.218905],
    [0.048145, 0.183425, 0.090907, 0.113781, -0.220911, 0.234458],
    [-0.090720, 0.175780, -0.064302, -0.023865, -0.312948, 0.184050],
];

fn opened(model: impl AsRef<Path>) -> Result<Arc<dyn Embedder>> {
    vctx_embed_bert::load(model.as_ref(), "", LIMIT)
}

fn near(made: &[f32], wanted: &[f32], bound: f32) {
    let length: f32 = made.iter().map(|c| c * c).sum();
    assert!((length - 1.0).abs() < 1e-4, "{length}");
    for (made, wanted) in made.iter().zip(wanted) {
        assert!((made - wanted).abs() < bound, "{made} {wanted}");
    }
}

async fn one(embedder: &dyn Embedder, text: &str) -> Vec<f32> {
    embedder.embed(&[text.to_owned()], Kind::Passage).await.unwrap().remove(0)
}

#[tokio::test]
async fn vectors_are_those_of_an_independent_forward_pass() {
    let directory = tempfile::tempdir().unwrap();
    let embedder = opened(write(directory.path(), json!({}))).unwrap();
    let fingerprint = embedder.fingerprint();
    assert_eq!((fingerprint.model_id.as_str(), fingerprint.dimension), ("tiny", 32));
    let sentence = one(&*embedder, "The boat sails to Lisbon.").await;
    near(&sentence, &[0.026789, 0.231912, -0.137952, -0.000622, -0.288974, 0.221771], 1e-5);
    near(
        &one(&*embedder, "").await,
        &[-0.217562, 0.225804, -0.349433, -0.061473, -0.174508, -0.020896],
        1e-5,
    );
    // If texts with different lengths are embedded in one batch, each text gets the same vector as
    // if it were embedded alone, and the vectors are in the order of the texts.
    let texts =
        ["", "A cat sleeps on the deck.", "the", "The boat sails to Lisbon."].map(str::to_owned);
    let batch = embedder.embed(&texts, Kind::Query).await.unwrap();
    for (text, made) in texts.iter().zip(&batch) {
        near(made, &one(&*embedder, text).await, 1e-5);
    }
}

#[tokio::test]
async fn spans_are_pooled_from_windows_that_overlap() {
    let directory = tempfile::tempdir().unwrap();
    let embedder = opened(write(directory.path(), json!({}))).unwrap();
    let document = SENTENCES.join(" ");
    let mut spans: Vec<Range<usize>> = Vec::new();
    for sentence in SENTENCES {
        let start = spans.last().map_or(0, |span| span.end + 1);
        spans.push(start..start + sentence.len());
    }
    let made = embedder.embed_spans(&document, &spans).await.unwrap();
    for (made, wanted) in made.iter().zip(&SPANS) {
        near(made, wanted, 1e-5);
    }
    // With late chunking, a sentence's vector depends on its document, so the same sentence
    // embedded alone has a different vector.
    let alone = one(&*embedder, SENTENCES[4]).await;
    assert!(made[4].iter().zip(&alone).any(|(a, b)| (a - b).abs() > 1e-3));
    // A text that is longer than one window of the model is not truncated: a change at its end
    // changes the vector.
    let long = one(&*embedder, &document).await;
    let other = one(&*embedder, &document.replace("the harbour.", "the euros.")).await;
    assert!(long.iter().zip(&other).any(|(a, b)| (a - b).abs() > 1e-3));
    // White space has no token of its own and takes the vector of the neighbouring token.
    let odd = embedder.embed_spans(&document, &[6..6, 8..9]).await.unwrap();
    assert!(odd.iter().flatten().all(|c| c.is_finite()));
    assert_eq!(embedder.embed_spans("  \n", std::slice::from_ref(&(0..3))).await.unwrap().len(), 1);
}

#[tokio::test]
async fn other_weights_are_another_fingerprint_and_what_is_no_bert_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let model = write(directory.path(), json!({}));
    let first = opened(&model).unwrap().fingerprint().clone();
    let mut bytes = fs::read(model.join("model.safetensors")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(model.join("model.safetensors"), bytes).unwrap();
    let second = vctx_embed_bert::load(&model, "tiny", LIMIT).unwrap().fingerprint().clone();
    assert_eq!(first.model_id, second.model_id);
    assert_ne!(first.embedding_version, second.embedding_version);

    for (changes, why) in [
        (json!({"model_type": "roberta"}), "not bert"),
        (json!({"model_type": null}), "not bert"),
        (json!({"hidden_size": 64}), "model.safetensors"),
        (json!({"max_position_embeddings": 2}), "no room"),
        (json!({"vocab_size": "many"}), "config.json"),
    ] {
        let error = opened(write(directory.path(), changes)).err().unwrap();
        assert!(error.message.contains(why), "{why}: {error}");
    }
    let model = write(directory.path(), json!({}));
    fs::create_dir(model.join("1_Pooling")).unwrap();
    fs::write(model.join("1_Pooling/config.json"), r#"{"pooling_mode_mean_tokens": false}"#)
        .unwrap();
    assert!(opened(&model).err().unwrap().message.contains("pooling method"));
    fs::remove_file(model.join("tokenizer.json")).unwrap();
    assert!(opened(&model).is_err());
}

#[tokio::test]
async fn a_question_overtakes_a_long_document() {
    let directory = tempfile::tempdir().unwrap();
    let embedder = opened(write(directory.path(), json!({}))).unwrap();
    let document = SENTENCES.join(" ").repeat(2_000);
    let long = tokio::spawn({
        let embedder = Arc::clone(&embedder);
        async move { embedder.embed_spans(&document, std::slice::from_ref(&(0..document.len()))).await }
    });
    tokio::task::yield_now().await;
    let question = embedder.embed(&["the tide".into()], Kind::Query).await;
    assert!(question.is_ok());
    assert!(!long.is_finished(), "the question waited for the document");
    assert!(long.await.unwrap().is_ok());
}

#[tokio::test]
async fn texts_are_compared_by_their_vectors_and_by_their_words() {
    let directory = tempfile::tempdir().unwrap();
    let embedder = opened(write(directory.path(), json!({}))).unwrap();
    let texts = ["The boat sails to Lisbon.", "The boat", ""].map(str::to_owned);
    let question = "The boat sails to Lisbon.".to_owned();
    let rows = embedder.compare(std::slice::from_ref(&question), &texts).await.unwrap();
    let (asked, others) = (one(&*embedder, &question).await, &rows[0]);
    assert_eq!((rows.len(), others.len()), (1, 3));
    for (text, likeness) in texts.iter().zip(others) {
        let own = one(&*embedder, text).await;
        let cosine: f32 = asked.iter().zip(&own).map(|(a, b)| a * b).sum();
        assert!((likeness.whole - f64::from(cosine)).abs() < 1e-4, "{text}: {likeness:?} {cosine}");
    }
    // The same text has the same words, and a part of it only some of them.
    assert!((others[0].words - 1.0).abs() < 1e-4, "{others:?}");
    assert!(others[1].words < others[0].words, "{others:?}");
    assert_eq!(others[2].words, 0.0, "a text without a word is near to nothing");
}
