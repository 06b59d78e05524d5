//! Checks a caller's evidence that the vectors of a document's chunks were made by late chunking.
//!
//! A vector does not show how it was made, so the server relies on evidence that the caller sends.
//! The server compares the evidence with the chunks' texts and vectors, and with the document or
//! the document's digest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::memory::archive::Span;
use crate::memory::receipt::sha256;

/// Maximum number of chunks of a document that the server embeds alone, that is, without the rest
/// of the document. The server compares the resulting vectors with the caller's vectors.
const NAIVE_SAMPLES_MAX: usize = 4;

/// How the vectors of a document's chunks were made (arXiv 2409.04701: the document is encoded
/// whole, then its token states are pooled chunk by chunk).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct LateChunking {
    /// `late`: the document was encoded first and cut afterwards; `naive` is refused.
    pub mode: Mode,
    /// How the token states of a span became its vector.
    pub pooling: Pooling,
    /// The model whose token states were pooled; must be `model_id`.
    pub model: String,
    /// Length of the document in tokens, when the spans count tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_tokens: Option<u64>,
    /// Length of the document in characters, when the spans count characters. The texts of the
    /// chunks are then checked against the spans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_chars: Option<u64>,
    /// SHA-256 of the document's text in hex. The server checks the digest if the document is
    /// given, or if spans in characters let the server rebuild the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_sha256: Option<String>,
    /// How far a span may reach back into the span before it; 0 by default.
    #[serde(default)]
    pub overlap: u64,
    /// One span for each chunk, in order; together they cover the document.
    pub spans: Vec<Span>,
}

/// Whether the document was cut before or after its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Mode {
    /// The document was cut after it was encoded.
    Late,
    /// The document was cut first, and each chunk was encoded alone.
    Naive,
}

/// How the token states of a span become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Pooling {
    /// The mean of the token states.
    Mean,
    /// A weighted mean of the token states.
    Weighted,
    /// The maximum of each component.
    Max,
    /// The last token state.
    Last,
}

/// The chunks and vectors of an ingest, with which the evidence is compared.
#[derive(Clone, Copy, Debug)]
pub struct IngestCandidate<'a> {
    /// Texts of the chunks, in order.
    pub texts: &'a [&'a str],
    /// The vectors of the chunks, one for each chunk.
    pub embeddings: &'a [Vec<f64>],
    /// Name of the model that made the vectors.
    pub model_id: &'a str,
    /// The document's text, if it was sent.
    pub document: Option<&'a str>,
}

/// The reason why evidence is refused, as a short name for events and metrics and as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naive {
    /// The reason's short name: `missing`, `naive`, `model`, `length`, `spans`, `text`, `document`,
    /// `digest`, `vectors` or `alone`.
    pub reason: &'static str,
    /// The reason as a sentence for the caller.
    pub message: String,
}

fn naive<T>(reason: &'static str, message: impl Into<String>) -> Result<T, Naive> {
    Err(Naive { reason, message: message.into() })
}

/// Checks the late-chunking evidence in an ingest of a whole document.
pub fn check(evidence: Option<&LateChunking>, candidate: IngestCandidate<'_>) -> Result<(), Naive> {
    let (evidence, length, in_chars) = stated(evidence, candidate)?;
    check_spans(evidence, length, candidate.texts.len())?;
    if in_chars {
        check_chars(evidence, candidate)?;
    } else {
        check_tokens(evidence, candidate)?;
    }
    check_vectors(candidate)
}

/// Checks the evidence of one part of a document: the evidence must be present, must name the model
/// of the vectors, and must have one span for each chunk.
pub fn check_part(
    evidence: Option<&LateChunking>,
    candidate: IngestCandidate<'_>,
) -> Result<(), Naive> {
    let (evidence, _, _) = stated(evidence, candidate)?;
    match (evidence.spans.len(), candidate.texts.len()) {
        (spans, chunks) if spans != chunks => {
            naive("spans", format!("{spans} spans for {chunks} chunks"))
        }
        _ => check_vectors(candidate),
    }
}

/// Returns the evidence, the length of the document, and whether this length counts characters.
/// Refuses evidence that is missing, has the mode `naive`, names another model, or does not give
/// exactly one of the two lengths of the document (in tokens or in characters).
fn stated<'a>(
    evidence: Option<&'a LateChunking>,
    candidate: IngestCandidate<'_>,
) -> Result<(&'a LateChunking, u64, bool), Naive> {
    let Some(evidence) = evidence else {
        return naive("missing", "late_chunking is missing");
    };
    if evidence.mode == Mode::Naive {
        return naive("naive", "late_chunking.mode is naive");
    }
    if evidence.model != candidate.model_id {
        return naive("model", "late_chunking.model is not model_id");
    }
    match (evidence.document_tokens, evidence.document_chars) {
        (Some(tokens), None) => Ok((evidence, tokens, false)),
        (None, Some(chars)) => Ok((evidence, chars, true)),
        _ => naive(
            "length",
            "give either late_chunking.document_tokens or late_chunking.document_chars",
        ),
    }
}

/// Checks that each chunk has a span, that no span is empty, and that the spans have no gaps. Each
/// span may overlap the span before it by at most `overlap`, and the last span must end at the end
/// of the document.
fn check_spans(evidence: &LateChunking, length: u64, chunks: usize) -> Result<(), Naive> {
    let spans = &evidence.spans;
    if spans.len() != chunks {
        return naive("spans", format!("{} spans for {chunks} chunks", spans.len()));
    }
    let mut before = Span { start: 0, end: 0 };
    for (at, span) in spans.iter().enumerate() {
        if span.end <= span.start {
            return naive("spans", format!("spans[{at}] is empty"));
        }
        if span.start > before.end {
            return naive("spans", format!("there is a gap before spans[{at}]"));
        }
        if before.end - span.start > evidence.overlap {
            return naive("spans", format!("spans[{at}] overlaps by more than `overlap`"));
        }
        if at > 0 && (span.start <= before.start || span.end <= before.end) {
            return naive("spans", format!("spans[{at}] does not follow the span before it"));
        }
        before = *span;
    }
    if before.end != length {
        return naive("spans", "the last span does not end with the document");
    }
    Ok(())
}

/// Checks spans that count characters. From these spans and the chunks, the server rebuilds the
/// whole document, and compares it with the given document and the given digest.
fn check_chars(evidence: &LateChunking, candidate: IngestCandidate<'_>) -> Result<(), Naive> {
    let mut whole: Vec<char> = Vec::new();
    for (at, (span, text)) in evidence.spans.iter().zip(candidate.texts).enumerate() {
        let chars: Vec<char> = text.chars().collect();
        if span.end - span.start != chars.len() as u64 {
            return naive("text", format!("chunks[{at}] has another length than spans[{at}]"));
        }
        let shared = whole.len() - usize::try_from(span.start).unwrap_or(usize::MAX);
        if whole[whole.len() - shared..] != chars[..shared] {
            return naive("text", format!("chunks[{at}] does not repeat the previous chunk's end"));
        }
        whole.extend_from_slice(&chars[shared..]);
    }
    let whole: String = whole.into_iter().collect();
    if candidate.document.is_some_and(|document| document != whole) {
        return naive("document", "the chunks are not the document's text");
    }
    check_digest(evidence, &whole)
}

/// Checks spans that count tokens. Each chunk's text must be long enough for the number of tokens
/// in its span. In the document, each chunk's text must begin after the start of the previous
/// chunk's text.
fn check_tokens(evidence: &LateChunking, candidate: IngestCandidate<'_>) -> Result<(), Naive> {
    for (at, (span, text)) in evidence.spans.iter().zip(candidate.texts).enumerate() {
        // A token consists of at least one byte of the text. Only the special tokens that a model
        // adds contain no byte of the text.
        if span.end - span.start > text.len() as u64 + MARK_TOKENS_MAX {
            return naive("text", format!("chunks[{at}] is too short for spans[{at}]"));
        }
    }
    let Some(document) = candidate.document else { return Ok(()) };
    let mut from = 0;
    for (at, text) in candidate.texts.iter().enumerate() {
        let Some(found) = document[from..].find(text) else {
            return naive(
                "document",
                format!("chunks[{at}] is not in the document after the chunk before it"),
            );
        };
        let start = from + found;
        from = start + document[start..].chars().next().map_or(0, char::len_utf8);
    }
    check_digest(evidence, document)
}

/// Maximum number of special tokens that a model adds to a text (`[CLS]`, `[SEP]`, a prefix).
const MARK_TOKENS_MAX: u64 = 16;

fn check_digest(evidence: &LateChunking, document: &str) -> Result<(), Naive> {
    match &evidence.document_sha256 {
        Some(stated) if !stated.eq_ignore_ascii_case(&sha256(document)) => {
            naive("digest", "late_chunking.document_sha256 is not the digest of the document")
        }
        _ => Ok(()),
    }
}

/// Refuses two chunks with equal texts and equal vectors. In late chunking, a vector depends on the
/// whole document, so the vectors of equal texts at different positions differ.
fn check_vectors(candidate: IngestCandidate<'_>) -> Result<(), Naive> {
    let mut first_of = std::collections::HashMap::new();
    for (at, (text, vector)) in candidate.texts.iter().zip(candidate.embeddings).enumerate() {
        let first: usize = *first_of.entry(*text).or_insert(at);
        if first != at && candidate.embeddings[first] == *vector {
            return naive(
                "vectors",
                format!("chunks[{first}] and chunks[{at}] have the same text and the same vector"),
            );
        }
    }
    Ok(())
}

/// Smallest cosine at which the caller's vector of a chunk and the vector of the chunk embedded
/// alone count as equal. Two vectors that one model computes for one text have a larger cosine. The
/// context of a document reduces the cosine to a much smaller value.
const ALONE_COSINE: f64 = 0.9999;

/// Returns the indexes of the chunks that the server embeds alone, that is, without the rest of the
/// document, for comparison with the caller's vectors. The chunks are spread evenly over the
/// document. Returns no index if the document has a single chunk.
pub fn samples(chunks: usize) -> Vec<usize> {
    if chunks < 2 {
        return Vec::new();
    }
    let count = chunks.min(NAIVE_SAMPLES_MAX);
    (0..count).map(|at| at * (chunks - 1) / (count - 1)).collect()
}

/// Checks that the caller's vectors differ from the vectors of the same chunks embedded alone. One
/// equal pair proves nothing, but equal pairs in more than half of the samples prove naive
/// chunking.
pub fn check_alone(offered: &[&[f64]], alone: &[Vec<f64>]) -> Result<(), Naive> {
    let same = offered.iter().zip(alone).filter(|(a, b)| cosine(a, b) >= ALONE_COSINE).count();
    if same * 2 > offered.len() {
        return naive(
            "alone",
            format!(
                "{same} of {} sampled vectors equal the vectors of their chunks alone",
                offered.len()
            ),
        );
    }
    Ok(())
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 && a.len() == b.len() { dot(a, b) / lengths } else { 0.0 }
}
