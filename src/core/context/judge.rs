//! Judges a prompt with a context and the answer to it, without a model: what the answer says is
//! compared with the texts that the model saw, and these with the question.

use super::check::{WindowText, answered};
use super::grade::GRADE_CORRECT;
use super::intent::{QuestionIntent, Task, entities_of};
use super::sentence::sentences_of_lines;
use crate::search::{content_words, words_held};

/// Smallest share of a statement's content words that the texts must have. An answer says things in
/// words of its own, so not all of them are asked for.
const WORDS_SHARE_MIN: f64 = 0.5;
/// Number of content words from which a sentence without a name or number is a statement: "I hope
/// this helps." is none.
const STATEMENT_WORDS_MIN: usize = 3;

/// A text that a context showed.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedText {
    /// The text; `None` if it is no longer stored.
    pub text: Option<String>,
    /// Its grade, from 0 to 1.
    pub grade: f64,
    /// Index of the part of the question that the text answers best.
    pub part: usize,
}

/// A prompt with a context, and the answer to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JudgedPrompt {
    /// What the context was built for.
    pub question: String,
    /// The texts that the context showed.
    pub shown: Vec<JudgedText>,
    /// All texts that the model saw, those of the context included.
    pub seen: Vec<String>,
    /// What the model answered; `None` if it did not.
    pub answer: Option<String>,
}

/// How good a prompt and its answer are: each measure is from 0 to 1, and `None` if there is
/// nothing to measure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Share of the answer's statements that the texts say: all names and numbers of the statement,
    /// and at least half of its other words.
    pub faithfulness: Option<f64>,
    /// Share of the shown texts, by grade, that have a word of the question.
    pub relevance: Option<f64>,
    /// Share of the question's parts for which the context has a text of a good grade, or which the
    /// window answers.
    pub completeness: Option<f64>,
    /// The parts of the question.
    pub parts: Vec<String>,
    /// The statements of the answer that the texts do not say.
    pub unsupported: Vec<String>,
}

impl JudgedPrompt {
    /// Judges the prompt.
    pub fn verdict(&self) -> Verdict {
        let intent = QuestionIntent::read(&self.question);
        let statements = self.answer.as_deref().map(statements_of).unwrap_or_default();
        let unsupported = self.unsupported(&statements);
        let supported = statements.len() - unsupported.len();
        Verdict {
            faithfulness: share(supported as f64, statements.len() as f64),
            relevance: self.relevance(),
            completeness: self.completeness(&intent),
            parts: intent.sub_questions.into_iter().map(|part| part.text).collect(),
            unsupported: unsupported.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Returns the statements that the texts do not say. The question is no evidence of names and
    /// numbers, as a wrong one may come from it.
    fn unsupported<'s>(&self, statements: &[&'s str]) -> Vec<&'s str> {
        let seen = self.seen.join("\n");
        let told = match self.question.trim() {
            "" => seen.clone(),
            question => seen.replace(question, "\n"),
        };
        let says = |statement: &&str| {
            let names = content_words(&names_of(statement).join("\n"));
            let words = content_words(statement);
            let held = words_held(&words, &seen).into_iter().filter(|held| *held).count();
            let names_held = words_held(&names, &told).into_iter().all(|held| held);
            names_held && held as f64 >= WORDS_SHARE_MIN * words.len() as f64
        };
        statements.iter().filter(|statement| !says(statement)).copied().collect()
    }

    fn relevance(&self) -> Option<f64> {
        let words = content_words(&self.question);
        let touched = |one: &&JudgedText| {
            one.text.as_ref().is_some_and(|text| words_held(&words, text).contains(&true))
        };
        let all = self.shown.iter().filter(|one| one.text.is_some());
        let sum: f64 = all.map(|one| one.grade).sum();
        share(self.shown.iter().filter(touched).map(|one| one.grade).sum(), sum)
    }

    fn completeness(&self, intent: &QuestionIntent) -> Option<f64> {
        let parts = &intent.sub_questions;
        let window: Vec<WindowText<'_>> =
            self.seen.iter().map(|text| WindowText { text, speaker: None }).collect();
        let answered = answered(parts, &window);
        let is_shown = |part: usize| {
            self.shown.iter().any(|one| one.part == part && one.grade >= GRADE_CORRECT)
        };
        let complete = (0..parts.len()).filter(|part| answered[*part] || is_shown(*part)).count();
        share(complete as f64, parts.len() as f64)
    }
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Returns the sentences of an answer that state something.
fn statements_of(answer: &str) -> Vec<&str> {
    let states = |sentence: &&str| {
        let talks = || QuestionIntent::read(sentence).task == Task::SmallTalk;
        let names = !names_of(sentence).is_empty();
        let tells = names || content_words(sentence).len() >= STATEMENT_WORDS_MIN;
        !sentence.ends_with('?') && tells && !talks()
    };
    let sentences = sentences_of_lines(answer).into_iter().map(|range| &answer[range]);
    sentences.filter(states).collect()
}

/// Returns the names, numbers and identifiers in a sentence. The first word has a capital letter in
/// any case.
fn names_of(sentence: &str) -> Vec<String> {
    let first = sentence.split_whitespace().next().unwrap_or_default();
    let first = first.trim_matches(|c: char| !c.is_alphanumeric());
    let is_first = |name: &String| name == first && !name.contains(|c: char| c.is_ascii_digit());
    entities_of(sentence).into_iter().filter(|name| !is_first(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENTIST: &str = "My dentist is Dr. Roe in the Harbour Street.";
    const FERRY: &str = "A ticket for the ferry costs 14 euros.";
    const SOUP: &str = "We had soup yesterday.";

    fn shown(text: &str, part: usize, grade: f64) -> JudgedText {
        JudgedText { text: Some(text.to_owned()), grade, part }
    }

    fn prompt(question: &str, shown: &[JudgedText], answer: &str) -> JudgedPrompt {
        let mut seen: Vec<String> = shown.iter().filter_map(|one| one.text.clone()).collect();
        seen.push(question.to_owned());
        JudgedPrompt {
            question: question.to_owned(),
            shown: shown.to_vec(),
            seen,
            answer: Some(answer.to_owned()),
        }
    }

    #[test]
    fn an_answer_is_faithful_as_far_as_the_texts_say_its_names_numbers_and_words() {
        let question = "Who is my dentist, and what does a ticket cost? Is it 17 euros?";
        let texts = [shown(DENTIST, 0, 0.9), shown(FERRY, 1, 0.9)];
        for (answer, faithfulness, unsupported) in [
            ("Your dentist is Dr. Roe.", Some(1.0), None),
            ("Tickets cost 14 euros.", Some(1.0), None),
            ("Your dentist is Dr. Doe.", Some(0.0), Some("Your dentist is Dr. Doe.")),
            // The question is no evidence.
            (
                "Your dentist is Dr. Roe. A ticket costs 17 euros.",
                Some(0.5),
                Some("A ticket costs 17 euros."),
            ),
            (
                "The captain breeds grey parrots.",
                Some(0.0),
                Some("The captain breeds grey parrots."),
            ),
            ("Thanks! I hope this helps. Shall I call the practice for you?", None, None),
        ] {
            let verdict = prompt(question, &texts, answer).verdict();
            assert_eq!(verdict.faithfulness, faithfulness, "{answer}: {verdict:?}");
            assert_eq!(verdict.unsupported.first().map(String::as_str), unsupported, "{answer}");
        }
        let unanswered = JudgedPrompt { answer: None, ..prompt(question, &texts, "") };
        assert_eq!(unanswered.verdict().faithfulness, None);
    }

    #[test]
    fn texts_without_a_word_of_the_question_are_not_relevant() {
        let question = "Who is my dentist?";
        let of = |texts: &[JudgedText]| prompt(question, texts, "").verdict().relevance;
        assert_eq!(of(&[shown(DENTIST, 0, 0.8)]), Some(1.0));
        assert_eq!(of(&[shown(DENTIST, 0, 0.6), shown(SOUP, 0, 0.2)]), Some(0.6 / 0.8));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[JudgedText { text: None, grade: 0.5, part: 0 }]), None);
    }

    #[test]
    fn each_part_needs_a_text_of_a_good_grade_or_the_window() {
        let question = "Who is my dentist? What does a ticket for the ferry cost?";
        let of = |texts: &[JudgedText]| prompt(question, texts, "").verdict();
        assert_eq!(of(&[shown(DENTIST, 0, 0.9)]).completeness, Some(0.5));
        assert_eq!(of(&[shown(DENTIST, 0, 0.9), shown(SOUP, 1, 0.4)]).completeness, Some(0.5));
        assert_eq!(
            of(&[shown(DENTIST, 0, 0.9), shown("Roughly ten.", 1, 0.7)]).completeness,
            Some(1.0)
        );
        assert_eq!(of(&[]).parts, ["Who is my dentist?", "What does a ticket for the ferry cost?"]);
        let mut seen = prompt(question, &[shown(DENTIST, 0, 0.9)], "");
        seen.seen.push(FERRY.to_owned());
        assert_eq!(seen.verdict().completeness, Some(1.0));
        assert_eq!(prompt("Thanks!", &[], "").verdict().completeness, None);
    }
}
