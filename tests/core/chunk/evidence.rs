//! Tests the evidence with which a caller shows that its vectors were computed with late chunking:
//! valid evidence is accepted, and every kind of invalid evidence is refused.

use serde_json::json;
use vctx_core::chunk::{IngestCandidate, LateChunking, check, check_alone, samples};
use vctx_core::memory::receipt::sha256;

const TEXTS: [&str; 3] = ["Täglich ", "um sieben ", "steigt das Meer."];

fn whole() -> String {
    TEXTS.concat()
}

fn vectors() -> Vec<Vec<f64>> {
    vec![vec![1.0, 0.0], vec![0.0, 1.0], vec![0.5, 0.5]]
}

/// Returns evidence for the chunks `TEXTS`, with positions in characters. The evidence is valid
/// unless `changes` replaces some of its fields.
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
    let candidate =
        IngestCandidate { texts: &TEXTS, embeddings: &vectors, model_id: "m", document };
    check(Some(evidence), candidate).map_or_else(|naive| naive.reason, |()| "")
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
    let candidate = IngestCandidate { texts: &[], embeddings: &[], model_id: "m", document: None };
    assert_eq!(check(None, candidate).unwrap_err().reason, "missing");
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
        let candidate =
            IngestCandidate { texts: &texts, embeddings: &vectors, model_id: "m", document: None };
        assert_eq!(check(Some(&evidence), candidate).is_ok(), holds, "{texts:?}");
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
        let candidate = IngestCandidate {
            texts: &["a", "a"],
            embeddings: &vectors,
            model_id: "m",
            document: None,
        };
        assert_eq!(check(Some(&evidence), candidate).is_ok(), holds);
    }
}
