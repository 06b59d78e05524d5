//! Parses a request of `/v1/embeddings` and writes the answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::fields::Fields;
use crate::error::{Error, Result};
use crate::memory::Fingerprint;

/// Maximum number of texts in one request, as at OpenAI.
const EMBEDDINGS_TEXTS_MAX: usize = 2_048;
/// Maximum length of one text, in bytes: OpenAI's 8192 tokens at four bytes each.
const EMBEDDINGS_TEXT_BYTES_MAX: usize = 32 * 1024;
/// Maximum length of all texts of one request, in bytes: about OpenAI's 300 000 tokens.
const EMBEDDINGS_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of vector components in one answer, which then has at most about 12 MB: all texts
/// of a request with vectors of 512 components, or 341 texts with vectors of 3072.
const EMBEDDINGS_COMPONENTS_MAX: usize = EMBEDDINGS_TEXTS_MAX * 512;

/// How the vectors of an answer are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorFormat {
    /// A list of numbers.
    Float,
    /// The components as 32-bit floats, the lowest byte first, in Base64.
    Base64,
}

/// A request for the vectors of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingsRequest {
    /// The texts, at least one.
    pub texts: Vec<String>,
    /// How the vectors are written.
    pub format: VectorFormat,
}

/// Parses a request. The request must name the server's embedder, whose vectors have the given
/// fingerprint, as its model.
pub fn parse_embeddings(body: Map<String, Value>, made: &Fingerprint) -> Result<EmbeddingsRequest> {
    let mut fields = Fields::of(Value::Object(body), "")?;
    let (model, own) = (fields.required("model")?, &made.model_id);
    if model != *own {
        return Err(fields.fault("model", format!("the embedder of this server is {own}: use it")));
    }
    let texts = match fields.take("input") {
        Some(Value::String(text)) => vec![checked("input", text)?],
        Some(Value::Array(list)) if !list.is_empty() => texts_of(list)?,
        _ => return Err(fields.fault("input", "is missing: give a text or a list of texts")),
    };
    bounded(&texts, made)?;
    let format = match fields.text("encoding_format")?.as_deref() {
        None | Some("float") => VectorFormat::Float,
        Some("base64") => VectorFormat::Base64,
        Some(_) => return Err(fields.fault("encoding_format", "use float or base64")),
    };
    let dimension = made.dimension;
    if fields.take("dimensions").is_some_and(|asked| asked != dimension) {
        let why = format!("the vectors of this server have {dimension} components: leave it out");
        return Err(fields.fault("dimensions", why));
    }
    fields.text("user")?;
    fields.end()?;
    Ok(EmbeddingsRequest { texts, format })
}

fn texts_of(list: Vec<Value>) -> Result<Vec<String>> {
    if list.len() > EMBEDDINGS_TEXTS_MAX {
        let why = format!("more than {EMBEDDINGS_TEXTS_MAX} texts: send several requests");
        return Err(Error::argument("input", why));
    }
    let text = |(number, value)| {
        let at = format!("input[{number}]");
        match value {
            Value::String(text) => checked(&at, text),
            Value::Number(_) | Value::Array(_) => Err(Error::argument(
                &at,
                "tokens are not accepted, since each model has its own: send the text",
            )),
            _ => Err(Error::argument(&at, "must be a text")),
        }
    };
    list.into_iter().enumerate().map(text).collect()
}

fn checked(at: &str, text: String) -> Result<String> {
    if text.is_empty() {
        return Err(Error::argument(at, "empty: give a text"));
    }
    if text.len() > EMBEDDINGS_TEXT_BYTES_MAX {
        let why = format!("longer than {EMBEDDINGS_TEXT_BYTES_MAX} bytes: split the text");
        return Err(Error::argument(at, why));
    }
    Ok(text)
}

/// Checks the length of all texts together, and the length of the answer.
fn bounded(texts: &[String], made: &Fingerprint) -> Result<()> {
    let bytes: usize = texts.iter().map(String::len).sum();
    if bytes > EMBEDDINGS_BYTES_MAX {
        let why =
            format!("together longer than {EMBEDDINGS_BYTES_MAX} bytes: send several requests");
        return Err(Error::argument("input", why));
    }
    let most = EMBEDDINGS_COMPONENTS_MAX / made.dimension.max(1) as usize;
    if texts.len() > most {
        let why = format!(
            "more than {most} texts, which is the maximum for vectors of {} components: send several requests",
            made.dimension
        );
        return Err(Error::argument("input", why));
    }
    Ok(())
}

/// Returns the body of an answer; `tokens` is the number of tokens of all texts.
pub fn embeddings_answer(
    vectors: &[Vec<f32>],
    format: VectorFormat,
    model: &str,
    tokens: u64,
) -> Value {
    let entry = |(index, vector): (usize, &Vec<f32>)| {
        let embedding = match format {
            VectorFormat::Float => numbers(vector),
            VectorFormat::Base64 => packed(vector).into(),
        };
        json!({"object": "embedding", "index": index, "embedding": embedding})
    };
    let data: Vec<Value> = vectors.iter().enumerate().map(entry).collect();
    json!({"object": "list", "model": model, "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens}})
}

/// Returns the components as numbers with the shortest decimals that mean the same 32-bit float.
fn numbers(vector: &[f32]) -> Value {
    let number = |component: &f32| -> f64 {
        component.to_string().parse().expect("a printed number can be parsed")
    };
    vector.iter().map(number).collect::<Vec<f64>>().into()
}

fn packed(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|component| component.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}
