//! The late-chunking evidence of an ingest, and what can be checked of it: that the chunks are cuts of one document, whole and in order.
//!
//! A vector itself does not tell how it was made, so evidence is an attestation. What it states is checked against everything that was
//! sent with it: spans against texts, texts against the document or its digest, equal texts against equal vectors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::NAIVE_SAMPLES_MAX;
use crate::memory::archive::Span;
use crate::memory::receipt::sha256;

/// How the vectors of a document's chunks were made (arXiv 2409.04701: the document is encoded whole, then its token states are
/// pooled chunk by chunk).
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
    /// Length of the document in characters, when the spans count characters; then the texts are checked against them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_chars: Option<u64>,
    /// SHA-256 of the document's text in hex; checked when the document is given or follows from spans in characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_sha256: Option<String>,
    /// How far a span may reach back into the one before; 0 unless given.
    #[serde(default)]
    pub overlap: u64,
    /// One span for each chunk, in order; together they cover the document.
    pub spans: Vec<Span>,
}

/// When the document was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Mode {
    /// After it was encoded.
    Late,
    /// Before: each chunk was encoded alone.
    Naive,
}

/// How token states become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// A weighted mean.
    Weighted,
    /// The largest of each component.
    Max,
    /// The last one.
    Last,
}

/// What is offered with the evidence.
#[derive(Clone, Copy, Debug)]
pub struct Offered<'a> {
    /// Texts of the chunks, in order.
    pub texts: &'a [&'a str],
    /// Their vectors, one each.
    pub embeddings: &'a [Vec<f64>],
    /// What made them.
    pub model_id: &'a str,
    /// The document's text, if it was sent.
    pub document: Option<&'a str>,
}

/// Why chunks do not count as late: a short name for events and metrics, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naive {
    /// `missing`, `naive`, `model`, `length`, `spans`, `text`, `document`, `digest`, `vectors`, `alone`.
    pub reason: &'static str,
    /// What was wrong.
    pub message: String,
}

fn naive<T>(reason: &'static str, message: impl Into<String>) -> Result<T, Naive> {
    Err(Naive { reason, message: message.into() })
}

/// Whether the evidence holds for what is offered.
pub fn check(evidence: Option<&LateChunking>, offered: Offered<'_>) -> Result<(), Naive> {
    let (evidence, length, in_chars) = stated(evidence, offered)?;
    check_spans(evidence, length, offered.texts.len())?;
    if in_chars {
        check_chars(evidence, offered)?;
    } else {
        check_tokens(evidence, offered)?;
    }
    check_vectors(offered)
}

/// What can be said of a part of a document: that its evidence is there, is about this model, and has a span for each chunk.
pub fn check_part(evidence: Option<&LateChunking>, offered: Offered<'_>) -> Result<(), Naive> {
    let (evidence, _, _) = stated(evidence, offered)?;
    match (evidence.spans.len(), offered.texts.len()) {
        (spans, chunks) if spans != chunks => {
            naive("spans", format!("{spans} spans for {chunks} chunks"))
        }
        _ => check_vectors(offered),
    }
}

/// The evidence, the length of the document, and whether that counts characters.
fn stated<'a>(
    evidence: Option<&'a LateChunking>,
    offered: Offered<'_>,
) -> Result<(&'a LateChunking, u64, bool), Naive> {
    let Some(evidence) = evidence else {
        return naive("missing", "there is no late_chunking");
    };
    if evidence.mode == Mode::Naive {
        return naive("naive", "late_chunking.mode is naive");
    }
    if evidence.model != offered.model_id {
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

/// One span for each chunk, none empty, each beginning where the one before ends (or at most `overlap` before), the last one ending
/// with the document.
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
            return naive("spans", format!("a gap lies before spans[{at}]"));
        }
        if before.end - span.start > evidence.overlap {
            return naive("spans", format!("spans[{at}] overlaps by more than `overlap`"));
        }
        if at > 0 && (span.start <= before.start || span.end <= before.end) {
            return naive("spans", format!("spans[{at}] does not lie behind the one before"));
        }
        before = *span;
    }
    if before.end != length {
        return naive("spans", "the last span does not end with the document");
    }
    Ok(())
}

/// Spans in characters give the whole document back from its chunks, so everything can be compared.
fn check_chars(evidence: &LateChunking, offered: Offered<'_>) -> Result<(), Naive> {
    let mut whole: Vec<char> = Vec::new();
    for (at, (span, text)) in evidence.spans.iter().zip(offered.texts).enumerate() {
        let chars: Vec<char> = text.chars().collect();
        if span.end - span.start != chars.len() as u64 {
            return naive("text", format!("chunks[{at}] has another length than spans[{at}]"));
        }
        let shared = whole.len() - usize::try_from(span.start).unwrap_or(usize::MAX);
        if whole[whole.len() - shared..] != chars[..shared] {
            return naive("text", format!("chunks[{at}] disagrees with the one before"));
        }
        whole.extend_from_slice(&chars[shared..]);
    }
    let whole: String = whole.into_iter().collect();
    if offered.document.is_some_and(|document| document != whole) {
        return naive("document", "the chunks are not the document's text");
    }
    check_digest(evidence, &whole)
}

/// Spans in another model's tokens: each text must be long enough for its tokens, and stand in the document behind the one before.
fn check_tokens(evidence: &LateChunking, offered: Offered<'_>) -> Result<(), Naive> {
    for (at, (span, text)) in evidence.spans.iter().zip(offered.texts).enumerate() {
        // No token stands for less than a byte, but for those that a model puts around a document.
        if span.end - span.start > text.len() as u64 + MARK_TOKENS_MAX {
            return naive("text", format!("chunks[{at}] is too short for spans[{at}]"));
        }
    }
    let Some(document) = offered.document else { return Ok(()) };
    let mut from = 0;
    for (at, text) in offered.texts.iter().enumerate() {
        let Some(found) = document[from..].find(text) else {
            return naive(
                "document",
                format!("chunks[{at}] does not stand in the document behind the one before"),
            );
        };
        let start = from + found;
        from = start + document[start..].chars().next().map_or(0, char::len_utf8);
    }
    check_digest(evidence, document)
}

/// Tokens that a model may add to a text (`[CLS]`, `[SEP]`, a prefix).
const MARK_TOKENS_MAX: u64 = 16;

fn check_digest(evidence: &LateChunking, document: &str) -> Result<(), Naive> {
    match &evidence.document_sha256 {
        Some(stated) if !stated.eq_ignore_ascii_case(&sha256(document)) => {
            naive("digest", "late_chunking.document_sha256 is not the document's")
        }
        _ => Ok(()),
    }
}

/// Equal texts in two places of a document cannot have equal vectors if those were made in its light.
fn check_vectors(offered: Offered<'_>) -> Result<(), Naive> {
    let mut first_of = std::collections::HashMap::new();
    for (at, (text, vector)) in offered.texts.iter().zip(offered.embeddings).enumerate() {
        let first: usize = *first_of.entry(*text).or_insert(at);
        if first != at && offered.embeddings[first] == *vector {
            return naive(
                "vectors",
                format!("chunks[{first}] and chunks[{at}] have the same text and the same vector"),
            );
        }
    }
    Ok(())
}

/// Cosine from which on a vector counts as that of its chunk alone: what two computations of one model differ by is far smaller, what a
/// document adds is far larger.
const ALONE_COSINE: f64 = 0.9999;

/// Which chunks of a document are embedded alone, to compare: a few, evenly spread. None of a document of one chunk, since that one was
/// made in the light of the whole.
pub fn samples(chunks: usize) -> Vec<usize> {
    if chunks < 2 {
        return Vec::new();
    }
    let count = chunks.min(NAIVE_SAMPLES_MAX);
    (0..count).map(|at| at * (chunks - 1) / (count - 1)).collect()
}

/// Whether vectors were made in the light of their document, as far as the model that made them can tell: those that it makes of the same
/// chunks alone are others. A single chunk that hardly differs from its document proves nothing; more than half of the samples do.
pub fn check_alone(offered: &[&[f64]], alone: &[Vec<f64>]) -> Result<(), Naive> {
    let same = offered.iter().zip(alone).filter(|(a, b)| cosine(a, b) >= ALONE_COSINE).count();
    if same * 2 > offered.len() {
        return naive(
            "alone",
            format!("{same} of {} sampled vectors are those of their chunks alone", offered.len()),
        );
    }
    Ok(())
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 && a.len() == b.len() { dot(a, b) / lengths } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXTS: [&str; 3] = ["Täglich ", "um sieben ", "steigt das Meer."];

    fn whole() -> String {
        TEXTS.concat()
    }

    fn vectors() -> Vec<Vec<f64>> {
        vec![vec![1.0, 0.0], vec![0.0, 1.0], vec![0.5, 0.5]]
    }

    /// The evidence of `TEXTS` in characters, with some fields changed.
    fn evidence(changes: serde_json::Value) -> LateChunking {
        let mut value = json!({"mode": "late", "pooling": "mean", "model": "m", "document_chars": 34,
            "spans": [{"start": 0, "end": 8}, {"start": 8, "end": 18}, {"start": 18, "end": 34}]});
        for (name, change) in changes.as_object().unwrap() {
            value[name] = change.clone();
        }
        serde_json::from_value(value).unwrap()
    }

    fn reason(evidence: &LateChunking, document: Option<&str>) -> &'static str {
        let vectors = vectors();
        let offered = Offered { texts: &TEXTS, embeddings: &vectors, model_id: "m", document };
        check(Some(evidence), offered).map_or_else(|naive| naive.reason, |()| "")
    }

    #[test]
    fn whole_evidence_holds() {
        let whole = whole();
        assert_eq!(reason(&evidence(json!({})), None), "");
        assert_eq!(reason(&evidence(json!({})), Some(&whole)), "");
        assert_eq!(reason(&evidence(json!({"document_sha256": sha256(&whole)})), None), "");
        let tokens = json!({"document_chars": null, "document_tokens": 9,
            "spans": [{"start": 0, "end": 2}, {"start": 2, "end": 4}, {"start": 4, "end": 9}]});
        assert_eq!(reason(&evidence(tokens.clone()), None), "");
        assert_eq!(reason(&evidence(tokens), Some(&whole)), "");
    }

    #[test]
    fn whatever_is_not_late_has_its_reason() {
        let spans = |text: &str| {
            let numbers: Vec<u64> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
            let pairs: Vec<_> =
                numbers.chunks(2).map(|p| json!({"start": p[0], "end": p[1]})).collect();
            json!({"spans": pairs})
        };
        for (changes, wanted) in [
            (json!({"mode": "naive"}), "naive"),
            (json!({"model": "other"}), "model"),
            (json!({"document_tokens": 3}), "length"),
            (json!({"document_chars": null}), "length"),
            (json!({"document_chars": 35}), "spans"),
            (spans("0 8 8 18"), "spans"),
            (spans("1 8 8 18 18 34"), "spans"),
            (spans("0 8 9 18 18 34"), "spans"),
            (spans("0 8 7 18 18 34"), "spans"),
            (spans("0 8 8 8 8 34"), "spans"),
            (spans("0 9 9 18 18 34"), "text"),
            (json!({"document_sha256": "00"}), "digest"),
        ] {
            assert_eq!(reason(&evidence(changes.clone()), None), wanted, "{changes}");
        }
        assert_eq!(
            reason(&evidence(json!({})), Some("Täglich um acht steigt das Meer.  ")),
            "document"
        );
        let offered = Offered { texts: &[], embeddings: &[], model_id: "m", document: None };
        assert_eq!(check(None, offered).unwrap_err().reason, "missing");
    }

    #[test]
    fn tokens_need_a_text_and_chunks_their_order() {
        let long = json!({"document_chars": null, "document_tokens": 99,
            "spans": [{"start": 0, "end": 80}, {"start": 80, "end": 90}, {"start": 90, "end": 99}]});
        assert_eq!(reason(&evidence(long), None), "text");
        let tokens = json!({"document_chars": null, "document_tokens": 9,
            "spans": [{"start": 0, "end": 2}, {"start": 2, "end": 4}, {"start": 4, "end": 9}]});
        let turned = format!("{}{}{}", TEXTS[1], TEXTS[0], TEXTS[2]);
        assert_eq!(reason(&evidence(tokens), Some(&turned)), "document");
    }

    #[test]
    fn a_declared_overlap_must_repeat_the_same_text() {
        let evidence: LateChunking = serde_json::from_value(json!({"mode": "late", "pooling": "mean", "model": "m",
            "document_chars": 6, "overlap": 2, "spans": [{"start": 0, "end": 4}, {"start": 2, "end": 6}]}))
        .unwrap();
        let vectors = vec![vec![1.0], vec![2.0]];
        for (texts, holds) in [(["abcd", "cdef"], true), (["abcd", "xdef"], false)] {
            let offered =
                Offered { texts: &texts, embeddings: &vectors, model_id: "m", document: None };
            assert_eq!(check(Some(&evidence), offered).is_ok(), holds, "{texts:?}");
        }
    }

    #[test]
    fn vectors_of_chunks_alone_are_naive() {
        assert_eq!((samples(0), samples(1), samples(2)), (vec![], vec![], vec![0, 1]));
        assert_eq!((samples(3), samples(100)), (vec![0, 1, 2], vec![0, 33, 66, 99]));
        let (x, y, near) = (vec![2.0, 0.0], vec![0.0, 3.0], vec![1.0, 0.05]);
        for (offered, holds) in
            [([&x[..], &y[..]], false), ([&near[..], &y[..]], true), ([&near[..], &near[..]], true)]
        {
            let alone = [vec![1.0, 0.0], vec![0.0, 1.0]];
            let told = check_alone(&offered, &alone);
            assert_eq!(told.is_ok(), holds);
            assert!(told.err().is_none_or(|naive| naive.reason == "alone"));
        }
        assert!(check_alone(&[], &[]).is_ok());
    }

    #[test]
    fn equal_texts_with_equal_vectors_are_naive() {
        let evidence: LateChunking =
            serde_json::from_value(json!({"mode": "late", "pooling": "mean", "model": "m",
            "document_chars": 2, "spans": [{"start": 0, "end": 1}, {"start": 1, "end": 2}]}))
            .unwrap();
        for (vectors, holds) in [([[1.0], [2.0]], true), ([[1.0], [1.0]], false)] {
            let vectors: Vec<Vec<f64>> = vectors.iter().map(|v| v.to_vec()).collect();
            let offered =
                Offered { texts: &["a", "a"], embeddings: &vectors, model_id: "m", document: None };
            assert_eq!(check(Some(&evidence), offered).is_ok(), holds);
        }
    }
}
