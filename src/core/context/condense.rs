//! Splits candidates into units (sentences, or turns of a conversation) and values each unit, so
//! that a context shows only the units that answer the question.

use std::ops::Range;

use super::candidate::Candidate;
use super::grade::Grade;
use super::intent::SubQuestion;
use crate::chunk::sentences;
use crate::search::{PartScore, part_scores_of, turn_values};

/// Length in bytes up to which a message is one unit.
const MESSAGE_BYTES_MAX: usize = 480;
/// Share of the lines of a document that begin with a speaker, from which it is a conversation.
const TALK_SHARE_MIN: f64 = 0.6;
/// Fewest lines of a conversation.
const TALK_LINES_MIN: usize = 4;
/// Length in bytes of the name of a speaker.
const SPEAKER_BYTES_MAX: usize = 40;

/// A part of a candidate that a context shows whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Index of the candidate.
    pub candidate: usize,
    /// Byte range in the candidate's text.
    pub range: Range<usize>,
    /// Value for the answer.
    pub value: f64,
    /// Index of the part of the question that the unit answers best.
    pub part: usize,
}

/// Returns the units of all candidates that may be shown, with their values for the parts of the
/// question. `grades` has for each part of the question the grades of all candidates.
pub fn units(
    parts: &[SubQuestion],
    candidates: &[Candidate],
    grades: &[Vec<Grade>],
    may_show: &dyn Fn(usize) -> bool,
) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut texts: Vec<&str> = Vec::new();
    // The units of one conversation, which count by their neighbours.
    let mut talks: Vec<Range<usize>> = Vec::new();
    for (at, candidate) in candidates.iter().enumerate().filter(|(at, _)| may_show(*at)) {
        let begin = units.len();
        let (ranges, is_talk) = split(candidate);
        for range in ranges {
            texts.push(&candidate.text[range.clone()]);
            units.push(Unit { candidate: at, range, value: 0.0, part: 0 });
        }
        if is_talk {
            talks.push(begin..units.len());
        }
    }
    let questions: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    for (number, scores) in part_scores_of(&questions, &texts).into_iter().enumerate() {
        let mut values: Vec<f64> = scores.iter().map(PartScore::of_sentence).collect();
        for talk in &talks {
            values[talk.clone()].copy_from_slice(&turn_values(&scores[talk.clone()]));
        }
        for (unit, value) in units.iter_mut().zip(values) {
            let value = value * grades[number][unit.candidate].grade;
            if value > unit.value {
                unit.value = value;
                unit.part = number;
            }
        }
    }
    units
}

/// Returns the byte ranges of a candidate's units, and whether they are turns of a conversation.
fn split(candidate: &Candidate) -> (Vec<Range<usize>>, bool) {
    let text = candidate.text.as_str();
    if candidate.is_said() && text.len() <= MESSAGE_BYTES_MAX {
        return (std::iter::once(0..text.len()).collect(), false);
    }
    let lines = lines(text);
    let said = lines.iter().filter(|line| has_speaker(&text[(*line).clone()])).count();
    if lines.len() >= TALK_LINES_MIN && said as f64 >= TALK_SHARE_MIN * lines.len() as f64 {
        return (lines, true);
    }
    (sentences(text), false)
}

fn lines(text: &str) -> Vec<Range<usize>> {
    let mut at = 0;
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        if !line.trim().is_empty() {
            lines.push(at..at + line.len());
        }
        at += line.len();
    }
    lines
}

/// Whether a line begins with the name of a speaker and a colon.
fn has_speaker(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(name, _)| {
        !name.is_empty()
            && name.len() <= SPEAKER_BYTES_MAX
            && name.starts_with(|c: char| c.is_alphabetic() || c == '[')
            && !name.contains(['.', '?', '!', ','])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{QuestionIntent, graded};

    fn given(text: &str) -> Candidate {
        Candidate::given("d", text)
    }

    #[test]
    fn a_document_is_split_into_sentences_and_a_talk_into_turns() {
        let prose = given("The sloop is old. It has two sails. Dogs: none.");
        assert_eq!(split(&prose).0.len(), 3);
        let talk = "Ada: The sloop?\nBea: It is old.\nAda: Hm.\n\nBea: Yes.\n";
        let (turns, is_talk) = split(&given(talk));
        assert!(is_talk);
        let texts: Vec<&str> = turns.into_iter().map(|turn| talk[turn].trim()).collect();
        assert_eq!(texts, ["Ada: The sloop?", "Bea: It is old.", "Ada: Hm.", "Bea: Yes."]);
    }

    #[test]
    fn the_unit_with_the_answer_is_worth_most() {
        let question = "How many sails does the sloop have?";
        let parts = QuestionIntent::read(question).sub_questions;
        let all = [
            given("The sloop is old. The sloop has two sails. It leaks."),
            given("Eggs are cheap. Two eggs make a cake."),
        ];
        let grades = vec![graded(&parts[0], &all)];
        let found = units(&parts, &all, &grades, &|_| true);
        let best = found.iter().max_by(|a, b| a.value.total_cmp(&b.value)).expect("a unit");
        assert_eq!(&all[best.candidate].text[best.range.clone()], "The sloop has two sails. ");
        assert!(units(&parts, &all, &grades, &|at| at == 1).iter().all(|u| u.candidate == 1));
    }
}
