//! Judges a whole build by the grades of its candidates: whether they answer the question, a part
//! of it, or nothing of it.

use serde::Serialize;

use super::candidate::Candidate;
use super::grade::{GRADE_CORRECT, Grade};
use super::intent::{SubQuestion, is_chain};
use super::link::{are_linked, name_of};
use crate::memory::engineer::GRADE_MIN;
use crate::search::{content_words, words_held};

/// Weights by which documents answer a question wholly, partly or not: of the shares of its words
/// and names that they have, of the names that no heading has, of the links of the best one, of a
/// chained question, and of the two best grades; and the bias. By multinomial regression on the
/// development half of HotpotQA, with all, half and none of the paragraphs of the answer: 61 %
/// right, each half judged by the weights of the other one.
const DOCUMENTS: [([f64; 7], f64, BuildGrade); 3] = [
    ([2.65, 1.83, -0.15, 0.34, 0.07, 0.1, -0.08], -3.29, BuildGrade::Correct),
    ([-0.03, 0.13, 0.0, 0.03, -0.03, 0.14, -0.15], 0.21, BuildGrade::Ambiguous),
    ([-2.62, -1.96, 0.15, -0.37, -0.04, -0.24, 0.23], 3.08, BuildGrade::Incorrect),
];
/// Weights by which messages answer a question: of the best grade of a message by a speaker whom
/// the question names, of whether the best message is one, of the mean of the next five grades, of
/// the subject, of the second best grade, and of messages that begin with a name of the question.
/// With the bias, by logistic regression on four conversations of LoCoMo at a time: on the fifth,
/// the area under the curve is 0.76.
const TALK: [f64; 6] = [0.42, 0.95, 1.27, -2.79, -0.58, -1.44];
const TALK_BIAS: f64 = 0.2;
/// Maximum number of links that count.
const LINKS_MAX: usize = 3;
/// Number of the best candidates whose grades are compared with that of the best one.
const RUNNERS_UP: usize = 5;
/// Smallest and largest grade whose logit counts.
const GRADES: (f64, f64) = (0.002, 0.998);
/// Chance from which a question on a conversation is answered, and from which it may be.
const TALK_CORRECT: f64 = 0.6;
const TALK_AMBIGUOUS: f64 = 0.35;

/// What the candidates of a build say on a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildGrade {
    /// They answer it.
    Correct,
    /// They answer a part of it, or lead to its answer.
    Ambiguous,
    /// They do not answer it.
    Incorrect,
}

/// What the candidates of a build say on a question, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BuildVerdict {
    /// The grade.
    pub grade: BuildGrade,
    /// The chance of an answer, from 0 to 1; a part of the answer counts half.
    pub number: f64,
}

impl BuildVerdict {
    /// Returns the verdict that follows from a model's best grade.
    pub fn of_model(number: f64) -> Self {
        let grade = match number {
            number if number >= GRADE_CORRECT => BuildGrade::Correct,
            number if number >= GRADE_MIN => BuildGrade::Ambiguous,
            _ => BuildGrade::Incorrect,
        };
        Self { grade, number }
    }
}

/// The candidates of a build, with what the question asks for.
struct Judged<'a> {
    question: &'a str,
    names: Vec<String>,
    candidates: &'a [Candidate],
    /// The candidates that may be shown, best first, with their grades.
    order: Vec<(usize, Grade)>,
}

/// Judges a build; `None` if there is nothing to look for. `grades` has for each part of the
/// question the grades of all candidates by their words.
pub fn judge_build(
    question: &str,
    parts: &[SubQuestion],
    candidates: &[Candidate],
    grades: &[Vec<Grade>],
) -> Option<BuildVerdict> {
    if parts.is_empty() {
        return None;
    }
    let best = |at: usize| {
        let of = grades.iter().map(|grades| grades[at]);
        of.max_by(|a, b| a.grade.total_cmp(&b.grade)).unwrap_or_default()
    };
    let shown = (0..candidates.len()).filter(|at| candidates[*at].fate.is_none());
    let mut order: Vec<(usize, Grade)> = shown.map(|at| (at, best(at))).collect();
    order.sort_by(|a, b| b.1.grade.total_cmp(&a.1.grade));
    let Some((first, _)) = order.first() else {
        return Some(BuildVerdict { grade: BuildGrade::Incorrect, number: 0.0 });
    };
    let is_talk = candidates[*first].is_said();
    let names = parts.iter().flat_map(|part| &part.entities).map(|name| name.to_lowercase());
    let judged = Judged { question, names: names.collect(), candidates, order };
    Some(if is_talk { judged.talk() } else { judged.documents() })
}

impl Judged<'_> {
    /// Returns the logit of the grade at a place of the order.
    fn logit(&self, place: usize) -> f64 {
        logit(self.order.get(place).map_or(0.0, |(_, grade)| grade.grade))
    }

    /// Returns the share of the question's names with which a candidate begins or that its heading
    /// has.
    fn titled(&self) -> f64 {
        let headings: Vec<String> = self
            .order
            .iter()
            .filter_map(|(at, _)| name_of(&self.candidates[*at].text))
            .map(str::to_lowercase)
            .collect();
        let is_titled = |name: &&String| {
            headings.iter().any(|heading| heading.contains(*name) || name.contains(heading))
        };
        share(self.names.iter().filter(is_titled).count(), self.names.len())
    }

    /// Returns the share of the question's words, by rarity, that the candidates have together.
    fn coverage(&self) -> f64 {
        let words = content_words(self.question);
        let texts = self.order.iter().map(|(at, _)| self.candidates[*at].text.as_str());
        let held: Vec<Vec<bool>> = texts.map(|text| words_held(&words, text)).collect();
        let (mut all, mut told) = (0.0, 0.0);
        for word in 0..words.len() {
            let count = held.iter().filter(|held| held[word]).count() as f64;
            let rarity = (1.0 + held.len() as f64 / (count + 0.5)).ln();
            all += rarity;
            told += if count > 0.0 { rarity } else { 0.0 };
        }
        if all > 0.0 { told / all } else { 0.0 }
    }

    fn documents(&self) -> BuildVerdict {
        let titled = self.titled();
        let first = &self.candidates[self.order[0].0];
        let links = self.order[1..].iter();
        let links = links.filter(|(at, _)| are_linked(first, &self.candidates[*at])).count();
        let values = [
            self.coverage(),
            titled,
            (1.0 - titled) * self.names.len() as f64,
            links.min(LINKS_MAX) as f64,
            flag(is_chain(self.question)),
            self.logit(0),
            self.logit(1),
        ];
        let chances = DOCUMENTS.map(|(weights, bias, _)| (dot(&weights, &values) + bias).exp());
        let all: f64 = chances.iter().sum();
        let likeliest = (0..chances.len()).max_by(|a, b| chances[*a].total_cmp(&chances[*b]));
        let grade = likeliest.map_or(BuildGrade::Incorrect, |at| DOCUMENTS[at].2);
        BuildVerdict { grade, number: (chances[0] + chances[1] / 2.0) / all }
    }

    /// A message by another speaker than the one whom the question names says little on them.
    fn talk(&self) -> BuildVerdict {
        let is_named = |at: usize| {
            let speaker = self.candidates[at].speaker.as_deref().unwrap_or_default().to_lowercase();
            let is_named = |name: &String| name.contains(&speaker) || speaker.contains(name);
            !speaker.is_empty() && self.names.iter().any(is_named)
        };
        // Every speaker may answer a question that names none of them.
        let names_speaker = self.order.iter().any(|(at, _)| is_named(*at));
        let is_asked = |at: usize| !names_speaker || is_named(at);
        let own = self.order.iter().find(|(at, _)| is_asked(*at));
        let runners = 1..self.order.len().min(RUNNERS_UP + 1);
        let count = runners.len();
        let around = runners.map(|place| self.logit(place)).sum::<f64>();
        let values = [
            logit(own.map_or(0.0, |(_, grade)| grade.grade)),
            flag(is_asked(self.order[0].0)),
            if count > 0 { around / count as f64 } else { logit(0.0) },
            self.order[0].1.topic,
            self.logit(1),
            self.titled(),
        ];
        let number = 1.0 / (1.0 + (-dot(&TALK, &values) - TALK_BIAS).exp());
        let grade = match number {
            number if number >= TALK_CORRECT => BuildGrade::Correct,
            number if number >= TALK_AMBIGUOUS => BuildGrade::Ambiguous,
            _ => BuildGrade::Incorrect,
        };
        BuildVerdict { grade, number }
    }
}

fn dot(weights: &[f64], values: &[f64]) -> f64 {
    weights.iter().zip(values).map(|(weight, value)| weight * value).sum()
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn logit(grade: f64) -> f64 {
    let grade = grade.clamp(GRADES.0, GRADES.1);
    (grade / (1.0 - grade)).ln()
}

fn share(part: usize, whole: usize) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{QuestionIntent, graded_all};
    use crate::memory::pack::Origin;

    fn judged(question: &str, candidates: &[Candidate]) -> BuildVerdict {
        let parts = QuestionIntent::read(question).sub_questions;
        let grades = graded_all(&parts, candidates);
        judge_build(question, &parts, candidates, &grades).unwrap()
    }

    #[test]
    fn documents_with_the_whole_answer_are_better_than_with_a_half_and_with_none() {
        let question = "In which city was the builder of the sloop The Gale born?";
        let texts = [
            "The Gale\nThe Gale is a sloop that was built by Ada Roe in Lisbon.",
            "Ada Roe\nAda Roe is a builder of sloops. She was born in the city of Porto.",
            "Bea Moss\nBea Moss is a painter of landscapes.",
            "Otters\nOtters live in rivers and eat fish.",
        ];
        let all = texts.map(|text| Candidate::given("d", text));
        let whole = judged(question, &all);
        let half = judged(question, &all[1..]);
        let none = judged(question, &all[2..]);
        assert_eq!(whole.grade, BuildGrade::Correct);
        assert_eq!(none.grade, BuildGrade::Incorrect);
        assert!(whole.number > half.number && half.number > none.number, "{half:?}");
        assert_eq!(judge_build(question, &[], &all, &[]), None);
        assert_eq!(judged(question, &[]).grade, BuildGrade::Incorrect);
    }

    #[test]
    fn a_message_by_the_person_of_the_question_says_more() {
        let said = |speaker: &str, seq: u64| Candidate {
            origin: Origin::Recall { id: "m".into(), seq },
            speaker: Some(speaker.to_owned()),
            ..Candidate::given("", "My grandmother gave me a silver necklace in March.")
        };
        let other = Candidate {
            origin: Origin::Recall { id: "n".into(), seq: 9 },
            speaker: Some("Melanie".to_owned()),
            ..Candidate::given("", "The soup was cold.")
        };
        let question = "What did the grandmother of Melanie give her?";
        let own = judged(question, &[said("Melanie", 1), other.clone()]);
        let wrong = judged(question, &[said("Caroline", 1), other.clone()]);
        assert!(own.number > wrong.number, "{own:?} {wrong:?}");
        // A name that no speaker has does not speak against the messages of a chat.
        let soup = Candidate { speaker: Some("user".to_owned()), ..other };
        let unnamed = judged(question, &[said("user", 1), soup]);
        assert!(unnamed.number > wrong.number, "{unnamed:?} {wrong:?}");
    }
}
