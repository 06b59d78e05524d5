//! Lets a cross-encoder compare the best candidates with the question.

use serde_json::Value;

use super::{ModelAsk, ModelRole};

/// Maximum number of texts that are compared at once.
pub const RERANKED_MAX: usize = 32;
/// Length in bytes of what the model reads of a text: cross-encoders read about 512 tokens.
const RERANKED_BYTES_MAX: usize = 2_048;

/// Returns what the reranker asks its model on texts.
pub fn reranker<'t>(question: &str, texts: impl Iterator<Item = &'t str>) -> ModelAsk {
    let head = |text: &str| text[..text.floor_char_boundary(RERANKED_BYTES_MAX)].to_owned();
    ModelAsk {
        role: ModelRole::Reranker,
        instruction: "",
        text: question.to_owned(),
        documents: texts.take(RERANKED_MAX).map(head).collect(),
        tokens_max: 0,
    }
}

/// Reads the scores of `count` texts from 0 to 1, in their order; `None` if the answer has not
/// exactly these. Servers answer with `{"results": [{"index", "relevance_score"}]}` (Jina, Cohere,
/// vLLM, llama.cpp) or with `[{"index", "score"}]` (text-embeddings-inference). Scores outside of 0
/// to 1 are logits.
pub fn read_scores(answer: &str, count: usize) -> Option<Vec<f64>> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let all = answer.get("results").unwrap_or(&answer).as_array()?;
    let mut scores = vec![None; count];
    for one in all {
        let at = usize::try_from(one.get("index")?.as_u64()?).ok()?;
        let score = one.get("relevance_score").or(one.get("score"))?.as_f64()?;
        let place = scores.get_mut(at).filter(|place| place.is_none())?;
        *place = Some(score);
    }
    let scores: Vec<f64> = scores.into_iter().collect::<Option<_>>()?;
    let are_logits = scores.iter().any(|score| !(0.0..=1.0).contains(score));
    let share = |score: f64| if are_logits { 1.0 / (1.0 + (-score).exp()) } else { score };
    Some(scores.into_iter().map(share).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_scores_are_read() {
        let jina = r#"{"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]}"#;
        assert_eq!(read_scores(jina, 2), Some(vec![0.1, 0.9]));
        let logits = read_scores(r#"[{"index": 0, "score": 0}, {"index": 1, "score": -4}]"#, 2);
        assert!(logits.is_some_and(|all| all[0] == 0.5 && all[1] < 0.1));
        for babble in [
            r#"[{"index": 0, "score": 1}]"#,
            r#"[{"index": 0, "score": 1}, {"index": 0, "score": 1}]"#,
            r#"[{"index": 0, "score": 1}, {"index": 2, "score": 1}]"#,
            r#"{"scores": [1, 2]}"#,
            "none",
        ] {
            assert_eq!(read_scores(babble, 2), None, "{babble}");
        }
    }
}
