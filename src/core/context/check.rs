//! Checks which parts of a question the window answers already, so that nothing is looked for
//! twice.

use super::candidate::Candidate;
use super::grade::{Grade, graded_all};
use super::intent::SubQuestion;
use crate::chunk::sentences;
use crate::memory::pack::Fate;

/// Smallest share of a part's words, by rarity, that a sentence of the window has if it answers the
/// part without a look into the memory: all words that count. With less, a statement on one thing
/// passes for a statement on another thing of its kind.
const COVERAGE_MIN: f64 = 0.95;
/// Smallest grade of such a text.
const GRADE_ANSWERED: f64 = 0.9;
/// Smallest grade of a text of the window that answers a part if no text of the memory is better.
/// By this comparison, 60 % of LoCoMo's questions are recognised if a window of 30 turns has their
/// evidence, and 1.5 % if it has not.
const GRADE_BETTER: f64 = 0.5;

/// A text of the window.
#[derive(Clone, Copy, Debug)]
pub struct WindowText<'a> {
    /// The text.
    pub text: &'a str,
    /// Name or role of the speaker; `None` for a block or the summary.
    pub speaker: Option<&'a str>,
}

/// Returns for each part whether a text of the window answers it. Questions answer nothing.
pub fn answered(parts: &[SubQuestion], window: &[WindowText<'_>]) -> Vec<bool> {
    let told: Vec<Candidate> = window.iter().flat_map(statements).collect();
    let answers = |(part, grades): (&SubQuestion, Vec<Grade>)| {
        grades.iter().any(|grade| {
            let names = part.entities.is_empty() || grade.entities >= 1.0;
            grade.coverage >= COVERAGE_MIN && grade.grade >= GRADE_ANSWERED && names
        })
    };
    parts.iter().zip(graded_all(parts, &told)).map(answers).collect()
}

/// Keeps of the texts that the window shows only what answers questions.
pub fn keep_statements(candidates: &mut [Candidate]) {
    for candidate in candidates.iter_mut().filter(|one| one.fate == Some(Fate::InWindow)) {
        candidate.text = statements_of(&candidate.text);
    }
}

/// Returns for each part whether a text of the window answers it better than any text that could be
/// shown. `grades` has for each part the grades of all candidates.
pub fn answered_better(candidates: &[Candidate], grades: &[Vec<Grade>]) -> Vec<bool> {
    let best = |grades: &[Grade], fate: Option<Fate>| {
        let of = candidates.iter().zip(grades).filter(|(candidate, _)| candidate.fate == fate);
        of.map(|(_, grade)| grade.grade).fold(0.0, f64::max)
    };
    let answers = |grades: &Vec<Grade>| {
        let inside = best(grades, Some(Fate::InWindow));
        inside >= GRADE_BETTER && inside >= best(grades, None)
    };
    grades.iter().map(answers).collect()
}

/// Returns the sentences of a text that are no questions, as one text.
fn statements_of(text: &str) -> String {
    sentences_told(text).collect::<Vec<&str>>().join(" ")
}

fn sentences_told(text: &str) -> impl Iterator<Item = &str> {
    let told = sentences(text).into_iter().map(|range| text[range].trim());
    told.filter(|sentence| !sentence.is_empty() && !sentence.ends_with('?'))
}

/// Returns the statements of a text of the window, one by one: two sentences on different things
/// have the words of a question on a third one.
fn statements<'a>(one: &WindowText<'a>) -> impl Iterator<Item = Candidate> + use<'a> {
    let speaker = one.speaker.map(str::to_owned);
    sentences_told(one.text)
        .map(move |text| Candidate { speaker: speaker.clone(), ..Candidate::given("", text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::QuestionIntent;

    #[test]
    fn only_a_statement_on_all_of_a_part_answers_it() {
        let window = [
            ("My dentist is Bea Roe in the Harbour Street.", Some("user")),
            ("What does a ticket for the ferry cost?", Some("user")),
            ("The sloop has two sails. My sister has a ferret. My dentist has a parrot.", None),
        ];
        let window: Vec<WindowText<'_>> =
            window.iter().map(|(text, speaker)| WindowText { text, speaker: *speaker }).collect();
        for (question, expected) in [
            ("In which street is my dentist?", true),
            ("Has the sloop two sails?", true),
            ("In which street is my teacher?", false),
            ("What is the parrot of my sister called?", false),
            ("What does a ticket for the ferry cost?", false),
            ("When did my dentist move to Lisbon?", false),
            ("Which violin does Kasimir play?", false),
        ] {
            let parts = QuestionIntent::read(question).sub_questions;
            assert_eq!(answered(&parts, &window), [expected], "{question}");
        }
    }
}
