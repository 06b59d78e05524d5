//! Tests `/v1/embeddings`: the vectors are those of the server's embedder, and nothing is stored.

use serde_json::{Value, json};

use super::post;
use crate::home::{Home, Tuning};
use crate::talk::Agent;
use crate::wire::Wire;

const PATH: &str = "/v1/embeddings";

async fn embedded(wire: &Wire, body: &Value) -> Value {
    post(wire, PATH, &[], body).await.ok()
}

fn vectors(answer: &Value) -> Vec<Vec<f64>> {
    let data = answer["data"].as_array().expect("data").iter().enumerate();
    let vector = |(index, entry): (usize, &Value)| {
        assert_eq!((&entry["object"], &entry["index"]), (&json!("embedding"), &json!(index)));
        let components = entry["embedding"].as_array().expect("numbers").iter();
        components.map(|one| one.as_f64().expect("a number")).collect()
    };
    data.map(vector).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_vectors_are_those_of_the_archive_and_nothing_is_stored() {
    let home = Home::new();
    let _server = home.serve().await;
    let wire = home.wire("vctx.sock");
    let ada = Agent::create(home.wire("vctx.sock"), "ada", 4096, "").await;
    let texts = ["The boat lies in the harbour.", "Tea at five.", "!!!"];
    let models = wire.get("/v1/models").await.ok();
    let model = models["data"][0]["id"].as_str().expect("the embedder").to_owned();
    let before = wire.get("/v1/agents").await.ok();
    let answer = embedded(&wire, &json!({"model": model, "input": texts})).await;
    assert_eq!((&answer["object"], &answer["model"]), (&json!("list"), &json!("vctx-lexical")));
    let all = vectors(&answer);
    assert_eq!(all.len(), 3);
    for vector in &all {
        let length: f64 = vector.iter().map(|one| one * one).sum();
        assert!(vector.len() == 384 && (length - 1.0).abs() < 1e-3, "{length}");
    }
    assert!(answer["usage"]["prompt_tokens"].as_u64().is_some_and(|tokens| tokens > 5));
    // A text has one vector, alone or among others.
    for (text, vector) in texts.iter().zip(&all) {
        let alone =
            embedded(&wire, &json!({"model": model, "input": text, "dimensions": 384})).await;
        assert_eq!(vectors(&alone)[0], *vector);
    }
    assert_eq!(wire.get("/v1/agents").await.ok(), before, "nothing was written");
    // The archive has the same vectors.
    ada.done("ingest_archival", &json!({"doc_id": "boat.md", "chunks": [texts[0], texts[1]]}))
        .await;
    for (text, vector) in texts.iter().zip(&all).take(2) {
        let found = ada.done("search_archival", &json!({"query_vector": vector, "limit": 1})).await;
        assert_eq!(found["result"]["results"][0]["text"], *text, "{found:#}");
    }
    for (body, param) in [
        (json!({"model": "text-embedding-3-small", "input": "tea"}), "model"),
        (json!({"model": model, "input": [1, 2]}), "input[0]"),
        (json!({"model": model, "input": "tea", "dimensions": 256}), "dimensions"),
    ] {
        let refused = post(&wire, PATH, &[], &body).await;
        assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!(param)));
        assert_eq!(refused.body["error"]["type"], "invalid_request_error");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedder_that_does_not_answer_is_named_in_the_form_that_clients_read() {
    let home = Home::new();
    let socket = home.path("none.sock");
    let environment = [
        ("VCTX_EMBEDDER__KIND", "endpoint"),
        ("VCTX_EMBEDDER__SOCKET", socket.to_str().expect("a plain path")),
        ("VCTX_EMBEDDER__MODEL", "minilm"),
        ("VCTX_EMBEDDER__DIMENSION", "384"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let tuning = Tuning { environment: environment.into(), ..Tuning::default() };
    let server = home.serve_with("vctx.sock", &tuning).await;
    server.expect("embedder");
    server.expect("request failed");
    let body = json!({"model": "minilm", "input": "tea"});
    let refused = post(&home.wire("vctx.sock"), PATH, &[], &body).await;
    let error = &refused.body["error"];
    assert_eq!((refused.status, &error["code"]), (503, &json!("EMBEDDER_UNAVAILABLE")));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("none.sock")), "{error}");
}
