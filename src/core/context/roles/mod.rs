//! The steps of a build that a model may take over: what each role asks its model, and how its
//! answer is read. An answer that cannot be read counts as none, and the local step stands.

mod grader;
mod judge;
mod planner;
mod reranker;
mod rewriter;
mod summariser;

use serde_json::{Map, Value};

pub use grader::{GRADED_MAX, grader, read_grades};
pub use judge::{JudgedCase, judge, read_verdict};
pub use planner::{ModelPlan, planner, read_plan};
pub use reranker::{RERANKED_MAX, read_scores, reranker};
pub use rewriter::{Rewrite, read_rewrite, rewriter};
pub use summariser::{read_summary, summariser};

use crate::memory::model_role::{ModelAsk, ModelRole};

/// Returns the JSON object in a model's answer. Models like to write a sentence or a fence around
/// it.
fn object_in(answer: &str) -> Option<Map<String, Value>> {
    let (from, to) = (answer.find('{')?, answer.rfind('}')?);
    serde_json::from_str(answer.get(from..=to)?).ok()
}

/// Returns the texts of a list in an answer: trimmed, at most `count_max`, each of 1 to `bytes_max`
/// bytes. Fails if the list is missing or has anything else.
fn texts_of(value: Option<&Value>, count_max: usize, bytes_max: usize) -> Option<Vec<String>> {
    let all = value?.as_array().filter(|all| all.len() <= count_max)?;
    let text = |value: &Value| {
        let text = value.as_str()?.trim();
        (1..=bytes_max).contains(&text.len()).then(|| text.to_owned())
    };
    all.iter().map(text).collect()
}

/// Returns at most `bytes_max` bytes of a text on one line, for a list in a request.
fn line_of(text: &str, bytes_max: usize) -> String {
    let text = &text[..text.floor_char_boundary(bytes_max)];
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_found_among_other_words() {
        assert!(object_in("Here: ```json\n{\"a\": 1}\n``` Done.").is_some_and(|it| it["a"] == 1));
        for babble in ["", "no", "{", "}{", "{a}", "[1]"] {
            assert_eq!(object_in(babble), None, "{babble}");
        }
    }
}
