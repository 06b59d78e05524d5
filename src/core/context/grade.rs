//! Grades candidates: how well each of them answers a part of the question, on one scale for all
//! stores.

use serde::Serialize;

use super::candidate::Candidate;
use super::intent::SubQuestion;
use crate::search::{PartScore, part_scores};

/// Grade from which a candidate is shown.
pub const GRADE_MIN: f64 = 0.35;
/// Grade from which a candidate answers its part of the question.
const GRADE_CORRECT: f64 = 0.6;
/// The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009).
const RANK_CONSTANT: f64 = 60.0;
/// Weights of the parts of a grade, and the value at which the grade is one half.
const COVERAGE: f64 = 5.0;
const NEAR: f64 = 2.5;
const SOFT: f64 = 1.5;
const TOGETHER: f64 = 1.5;
const ANSWERS: f64 = 1.0;
const ENTITIES: f64 = 1.5;
const TOPIC: f64 = 1.5;
const RANK: f64 = 1.5;
const HALF: f64 = 4.2;

/// How well a candidate answers a part of the question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Grade {
    /// The grade, from 0 to 1.
    pub grade: f64,
    /// Share of the part's words, by rarity, that the candidate has.
    pub coverage: f64,
    /// Share of the part's names that the candidate has.
    pub entities: f64,
    /// Whether the candidate has what the part asks for.
    pub answers: f64,
    /// Place in the fused result lists, 1 for the first.
    pub rank: f64,
}

impl Grade {
    /// Whether the candidate answers the part.
    pub fn is_correct(&self) -> bool {
        self.grade >= GRADE_CORRECT
    }
}

/// Returns the grades of all candidates for a part of the question.
pub fn graded(part: &SubQuestion, candidates: &[Candidate]) -> Vec<Grade> {
    let texts: Vec<&str> = candidates.iter().map(|one| one.text.as_str()).collect();
    let scores = part_scores(&part.text, &texts);
    let fused: Vec<f64> = candidates.iter().map(fusion).collect();
    let most = fused.iter().copied().fold(0.0, f64::max);
    let grade = |(at, score): (usize, &PartScore)| {
        let rank = if most > 0.0 { fused[at] / most } else { 0.5 };
        grade_of(score, named(part, &candidates[at]), rank)
    };
    scores.iter().enumerate().map(grade).collect()
}

fn grade_of(score: &PartScore, entities: Option<f64>, rank: f64) -> Grade {
    let value = COVERAGE * score.coverage
        + NEAR * score.near
        + SOFT * score.soft
        + TOGETHER * score.together
        + ANSWERS * score.answers
        // Without a name in the question, its words decide.
        + ENTITIES * entities.unwrap_or(score.coverage)
        + TOPIC * score.topic
        + RANK * rank;
    Grade {
        grade: 1.0 / (1.0 + (HALF - value).exp()),
        coverage: score.coverage,
        entities: entities.unwrap_or(0.0),
        answers: score.answers,
        rank,
    }
}

/// Returns the share of the names of a part that a candidate has; `None` for a part without names.
fn named(part: &SubQuestion, candidate: &Candidate) -> Option<f64> {
    if part.entities.is_empty() {
        return None;
    }
    let speaker = candidate.speaker.as_deref().unwrap_or_default();
    let text = format!("{speaker}\n{}", candidate.text).to_lowercase();
    let held = part.entities.iter().filter(|name| text.contains(&name.to_lowercase())).count();
    Some(held as f64 / part.entities.len() as f64)
}

/// Returns the sum of the reciprocal ranks of a candidate in the looks that found it.
fn fusion(candidate: &Candidate) -> f64 {
    candidate.ranks.iter().map(|(_, rank)| 1.0 / (RANK_CONSTANT + *rank as f64)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::QuestionIntent;

    fn candidate(text: &str) -> Candidate {
        Candidate::given("d", text)
    }

    #[test]
    fn an_answer_is_correct_and_other_texts_are_poor() {
        for (question, answer, other) in [
            (
                "When did Ada move to Lisbon?",
                "Ada moved to Lisbon in March 2021.",
                "The recipe needs two eggs and a lemon.",
            ),
            (
                "What does the harbour master charge for a berth?",
                "The harbour master charges fourteen euros for a berth.",
                "My sister plays the violin.",
            ),
        ] {
            let read = QuestionIntent::read(question);
            let grades = graded(&read.sub_questions[0], &[candidate(answer), candidate(other)]);
            assert!(grades[0].is_correct(), "{question}: {grades:?}");
            assert!(grades[1].grade < GRADE_MIN, "{question}: {grades:?}");
        }
    }
}
