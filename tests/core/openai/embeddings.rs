//! Tests request bodies of `/v1/embeddings`, and how vectors are written.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use vctx_core::error::{Error, Result};
use vctx_core::memory::Fingerprint;
use vctx_core::openai::{EmbeddingsRequest, VectorFormat, embeddings_answer, parse_embeddings};

fn made(dimension: u32) -> Fingerprint {
    Fingerprint { model_id: "minilm".into(), embedding_version: "1".into(), dimension }
}

fn parsed(body: &Value, dimension: u32) -> Result<EmbeddingsRequest> {
    parse_embeddings(body.as_object().expect("an object").clone(), &made(dimension))
}

fn refused(body: &Value, dimension: u32) -> Error {
    parsed(body, dimension).expect_err("refused")
}

#[test]
fn a_text_and_a_list_of_texts_are_taken() {
    let one = parsed(&json!({"model": "minilm", "input": "tea"}), 3).unwrap();
    assert_eq!((one.texts, one.format), (vec!["tea".to_owned()], VectorFormat::Float));
    let body = json!({"model": "minilm", "input": ["tea", " "], "encoding_format": "base64",
        "dimensions": 3, "user": "u"});
    let two = parsed(&body, 3).unwrap();
    assert_eq!((two.texts, two.format), (vec!["tea".into(), " ".into()], VectorFormat::Base64));
    let nulls = json!({"model": "minilm", "input": "tea", "encoding_format": null, "user": null,
        "dimensions": null});
    assert_eq!(parsed(&nulls, 3).unwrap().format, VectorFormat::Float);
}

#[test]
fn what_cannot_be_honoured_names_its_field_and_says_what_to_do() {
    for (name, value, field, what) in [
        ("model", json!("text-embedding-3-small"), "model", "is minilm: use it"),
        ("model", json!(null), "model", "missing"),
        ("input", json!(null), "input", "give a text"),
        ("input", json!([]), "input", "give a text"),
        ("input", json!({}), "input", "give a text"),
        ("input", json!(""), "input", "empty"),
        ("input", json!(["tea", ""]), "input[1]", "empty"),
        ("input", json!([1212, 318]), "input[0]", "send the text"),
        ("input", json!([[1212, 318]]), "input[0]", "send the text"),
        ("input", json!(["tea", true]), "input[1]", "must be a text"),
        ("input", json!("x".repeat(32_769)), "input", "split the text"),
        ("input", json!(vec!["x"; 2_049]), "input", "several requests"),
        ("input", json!(vec!["x".repeat(32_768); 33]), "input", "several requests"),
        ("encoding_format", json!("hex"), "encoding_format", "float or base64"),
        ("dimensions", json!(256), "dimensions", "3 components: leave it out"),
        ("user", json!(7), "user", "must be a text"),
        ("invented", json!(1), "invented", "leave it out"),
    ] {
        let mut body = json!({"model": "minilm", "input": "tea"});
        body[name] = value;
        let error = refused(&body, 3);
        assert_eq!(error.fields["field"], field, "{error}");
        assert!(error.message.contains(what), "{error}");
    }
    assert!(parsed(&json!({"model": "minilm", "input": vec!["x"; 2_048]}), 512).is_ok());
    let many = json!({"model": "minilm", "input": vec!["x"; 342]});
    assert!(refused(&many, 3_072).message.contains("more than 341 texts"));
    assert!(parsed(&many, 3_000).is_ok());
}

#[test]
fn both_formats_hold_the_same_floats() {
    let vectors = [vec![0.1_f32, -0.333_333_34, 1e-7], vec![1.0, 0.0, -1.0]];
    let floats = embeddings_answer(&vectors, VectorFormat::Float, "minilm", 7);
    assert_eq!(floats["data"][0]["embedding"].to_string(), "[0.1,-0.33333334,1e-7]");
    let expected = json!({"object": "embedding", "index": 1, "embedding": [1.0, 0.0, -1.0]});
    assert_eq!(floats["data"][1], expected);
    assert_eq!(floats["usage"], json!({"prompt_tokens": 7, "total_tokens": 7}));
    assert_eq!((&floats["object"], &floats["model"]), (&json!("list"), &json!("minilm")));
    let packed = embeddings_answer(&vectors, VectorFormat::Base64, "minilm", 7);
    for (at, vector) in vectors.iter().enumerate() {
        let text = packed["data"][at]["embedding"].as_str().expect("a text");
        let bytes = STANDARD.decode(text).expect("Base64");
        let floats: Vec<f32> =
            bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        assert_eq!(&floats, vector);
    }
}
