//! Grades candidates: how well each of them answers a part of the question, on one scale for all
//! stores.

use serde::Serialize;

use super::candidate::Candidate;
use super::intent::SubQuestion;
use crate::search::{Likeness, PartScore, content_words, part_scores_of};

/// Grade from which a candidate answers its part of the question.
pub(super) const GRADE_CORRECT: f64 = 0.6;
/// The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009).
const RANK_CONSTANT: f64 = 60.0;
/// Weights of the question's words in a message, and the value at which its grade is one half.
const SAID: WordWeights = WordWeights { coverage: 5.0, bm25: 0.0, half: 4.2 };
/// The same for a document, in which a repeated word says more about its subject. Chosen on the
/// development halves of HotpotQA, MuSiQue and the questions about code.
const WRITTEN: WordWeights = WordWeights { coverage: 2.0, bm25: 4.0, half: 4.7 };
/// Weights of the other parts of a grade.
const NEAR: f64 = 2.5;
const SOFT: f64 = 1.5;
const TOGETHER: f64 = 1.5;
const ANSWERS: f64 = 1.0;
const ENTITIES: f64 = 1.5;
const TOPIC: f64 = 1.5;
const RANK: f64 = 1.5;
/// Weight of how far a document is ahead in a search. The search compares whole documents, the
/// grade compares words. Chosen on the development halves of HotpotQA, MuSiQue and the questions
/// about code, where it finds 4 to 11 points more among the best five.
const LEAD: f64 = 1.0;

/// Weight of the meaning in a grade, and the meaning that leaves a grade as it is.
const MEANING: f64 = 4.0;
const MEANING_HALF: f64 = 0.5;

/// Returns one number for a likeness.
pub(super) fn meaning(likeness: Likeness) -> f64 {
    f64::midpoint(likeness.whole, likeness.words).clamp(0.0, 1.0)
}

/// How much the words of the question count in a grade.
struct WordWeights {
    /// Weight of the share of the words that a text has.
    coverage: f64,
    /// Weight of BM25.
    bm25: f64,
    /// Value at which the grade is one half.
    half: f64,
}

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
    /// Share of the part's words for which the candidate has a word of the same everyday subject.
    pub near: f64,
    /// Share of the part's words for which the candidate has a word of a near meaning.
    pub soft: f64,
    /// Share of the part's pairs of neighbouring words that are neighbours in the candidate.
    pub together: f64,
    /// How near the subjects of part and candidate are.
    pub topic: f64,
    /// BM25 of the candidate relative to the sum of the words' weights.
    pub bm25: f64,
    /// How far the candidate is ahead of a usual result of its search of the archive, in standard
    /// scores; negative if it is not ahead, 0 for another text.
    pub lead: f64,
    /// How much a given document says that other given documents say, from 0 to 1; 0 for another
    /// text.
    pub agreement: f64,
    /// How near in meaning the candidate's best unit is, from 0 to 1; 0 without a model.
    pub meaning: f64,
    /// What a cross-encoder or a model says, from 0 to 1.
    pub model: Option<f64>,
}

impl Grade {
    /// Whether the candidate answers the part.
    pub fn is_correct(&self) -> bool {
        self.grade >= GRADE_CORRECT
    }

    /// Returns the grade of a candidate whose best unit has the given likeness.
    #[must_use]
    pub fn with_meaning(self, likeness: Likeness) -> Self {
        let meaning = meaning(likeness);
        Self { meaning, ..self.raised(MEANING * (meaning - MEANING_HALF)) }
    }

    /// Returns a grade whose logit is higher by a number.
    #[must_use]
    pub fn raised(self, by: f64) -> Self {
        let grade = self.grade.clamp(f64::EPSILON, 1.0 - f64::EPSILON);
        let value = (grade / (1.0 - grade)).ln() + by;
        Self { grade: 1.0 / (1.0 + (-value).exp()), ..self }
    }
}

/// Weights by which the best candidate says whether the memory holds anything on a part: of the
/// grade's logit, coverage, near, soft, together, answers, names, whether there are names, topic,
/// BM25, the number of words, coverage by this number, and whether there are at most two words. By
/// logistic regression on half of the development data: LoCoMo and BFCL memory against questions on
/// other memories and CLINC150. On the other half, 95 % of the former pass [`EVIDENCE_MIN`], 6 % of
/// CLINC150 and 23 % of BFCL's questions on other memories.
const EVIDENCE: [f64; 13] =
    [1.11, 0.64, -0.19, -0.15, 0.9, -1.83, 1.64, 1.03, -0.85, 0.63, 1.93, 1.92, -1.41];
const EVIDENCE_BIAS: f64 = -5.26;
/// Smallest chance that the memory holds anything on a part, for a context to show something.
const EVIDENCE_MIN: f64 = 0.18;
/// Number of words of a part from which more words make its best candidate no surer.
const WORDS_ENOUGH: f64 = 5.0;
const WORDS_MAX: f64 = 8.0;

/// Whether the memory holds anything on a part, by the grades of the candidates that a context may
/// show.
pub fn is_held(part: &SubQuestion, grades: impl Iterator<Item = Grade>) -> bool {
    let best = grades.max_by(|a, b| a.grade.total_cmp(&b.grade));
    best.is_some_and(|best| evidence(part, &best) >= EVIDENCE_MIN)
}

fn evidence(part: &SubQuestion, best: &Grade) -> f64 {
    let words = content_words(&part.text).len() as f64;
    let share = words.min(WORDS_MAX) / WORDS_ENOUGH;
    let grade = best.grade.clamp(f64::EPSILON, 1.0 - f64::EPSILON);
    let flag = |is: bool| f64::from(u8::from(is));
    let values = [
        (grade / (1.0 - grade)).ln(),
        best.coverage,
        best.near,
        best.soft,
        best.together,
        best.answers,
        best.entities,
        flag(!part.entities.is_empty()),
        best.topic,
        best.bm25,
        share,
        best.coverage * share.min(1.0),
        flag(words <= 2.0),
    ];
    let sum: f64 = values.iter().zip(EVIDENCE).map(|(value, weight)| value * weight).sum();
    1.0 / (1.0 + (-EVIDENCE_BIAS - sum).exp())
}

/// Returns the grades of all candidates for a part of the question.
pub fn graded(part: &SubQuestion, candidates: &[Candidate]) -> Vec<Grade> {
    graded_all(std::slice::from_ref(part), candidates).remove(0)
}

/// Returns for each part of the question the grades of all candidates.
pub fn graded_all(parts: &[SubQuestion], candidates: &[Candidate]) -> Vec<Vec<Grade>> {
    let texts: Vec<&str> = candidates.iter().map(|one| one.text.as_str()).collect();
    let questions: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    let all = part_scores_of(&questions, &texts);
    parts.iter().zip(all).map(|(part, scores)| grades_of(part, candidates, &scores)).collect()
}

fn grades_of(part: &SubQuestion, candidates: &[Candidate], scores: &[PartScore]) -> Vec<Grade> {
    let fused: Vec<f64> = candidates.iter().map(fusion).collect();
    let most = fused.iter().copied().fold(0.0, f64::max);
    let grade = |(at, score): (usize, &PartScore)| {
        let rank = if most > 0.0 { fused[at] / most } else { 0.5 };
        let weights = if candidates[at].is_said() { &SAID } else { &WRITTEN };
        // The search of messages compares their words and times, which a grade does, too.
        let lead = candidates[at].lead.filter(|_| !candidates[at].is_said()).unwrap_or_default();
        grade_of(score, weights, named(part, &candidates[at]), (rank, lead))
    };
    scores.iter().enumerate().map(grade).collect()
}

fn grade_of(
    score: &PartScore,
    weights: &WordWeights,
    entities: Option<f64>,
    (rank, lead): (f64, f64),
) -> Grade {
    let value = weights.coverage * score.coverage
        + weights.bm25 * score.bm25
        + NEAR * score.near
        + SOFT * score.soft
        + TOGETHER * score.together
        + ANSWERS * score.answers
        // Without a name in the question, its words decide.
        + ENTITIES * entities.unwrap_or(score.coverage)
        + TOPIC * score.topic
        + RANK * rank
        + LEAD * lead;
    Grade {
        grade: 1.0 / (1.0 + (weights.half - value).exp()),
        coverage: score.coverage,
        entities: entities.unwrap_or(0.0),
        answers: score.answers,
        rank,
        near: score.near,
        soft: score.soft,
        together: score.together,
        topic: score.topic,
        bm25: score.bm25,
        lead,
        agreement: 0.0,
        meaning: 0.0,
        model: None,
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
    use crate::memory::engineer::GRADE_MIN;

    fn candidate(text: &str) -> Candidate {
        Candidate::given("d", text)
    }

    #[test]
    fn of_two_equal_documents_the_one_ahead_in_its_search_has_the_better_grade() {
        let led = |lead| Candidate { lead, ..candidate("The sloop has two sails.") };
        let read = QuestionIntent::read("How many sails does the sloop have?");
        let grades = graded(&read.sub_questions[0], &[led(Some(1.5)), led(None), led(Some(-0.5))]);
        assert!(grades[0].grade > grades[1].grade && grades[1].grade > grades[2].grade);
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
            assert!(is_held(&read.sub_questions[0], grades.iter().copied()), "{question}");
            assert!(!is_held(&read.sub_questions[0], grades[1..].iter().copied()), "{question}");
        }
    }
}
