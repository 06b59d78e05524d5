//! Splits candidates into units (sentences, or turns of a conversation) and values each unit, so
//! that a context shows only the units that answer the question.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::candidate::Candidate;
use super::grade::{Grade, meaning};
use super::intent::SubQuestion;
use super::sentence::whole_sentences;
use crate::search::{Likeness, PartScore, part_scores_of, turn_values, with_neighbours};

/// Maximum number of units that are compared with the parts of the question by meaning.
const COMPARED_UNITS_MAX: usize = 64;
/// Maximum length of all compared units together, in bytes: about 2 000 tokens, which a small model
/// reads in half a second on two cores.
const COMPARED_BYTES_MAX: usize = 8 * 1024;
/// Weight of the meaning in the value of a unit, beside the weights of its words.
const MEANING: f64 = 3.0;
/// Weight of the meaning in the value of a turn of a conversation, with the turns around it.
const TALK_MEANING: f64 = 0.5;

/// Length in bytes up to which a message is one unit, and the same for a context that fills a
/// number of tokens, which has room for more messages if it shows the best sentence of each.
const MESSAGE_BYTES_MAX: usize = 480;
const MESSAGE_BYTES_FILLED: usize = 100;
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

/// The units of candidates, with their values for each part of the question.
#[derive(Clone, Debug, Default)]
pub struct Units {
    units: Vec<Unit>,
    /// For each part of the question, the value of each unit by its words.
    values: Vec<Vec<f64>>,
    /// The units of each conversation, which count by their neighbours.
    talks: Vec<Range<usize>>,
    /// The units that were compared by meaning, and for each part of the question their likeness.
    compared: (Vec<usize>, Vec<Vec<Likeness>>),
}

impl Units {
    /// Reads the units of all candidates that may be shown. `fills` says whether the context fills
    /// a number of tokens.
    pub fn read(
        parts: &[SubQuestion],
        candidates: &[Candidate],
        may_show: &dyn Fn(usize) -> bool,
        fills: bool,
    ) -> Self {
        let mut units: Vec<Unit> = Vec::new();
        let mut texts: Vec<&str> = Vec::new();
        let mut talks: Vec<Range<usize>> = Vec::new();
        let whole_max = if fills { MESSAGE_BYTES_FILLED } else { MESSAGE_BYTES_MAX };
        for (at, candidate) in candidates.iter().enumerate().filter(|(at, _)| may_show(*at)) {
            let begin = units.len();
            let (ranges, is_talk) = split(candidate, whole_max);
            for range in ranges {
                texts.push(&candidate.text[range.clone()]);
                units.push(Unit { candidate: at, range, value: 0.0, part: 0 });
            }
            if is_talk {
                talks.push(begin..units.len());
            }
        }
        let questions: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
        let scores = part_scores_of(&questions, &texts);
        let of_sentences = |scores: &Vec<PartScore>| -> Vec<f64> {
            scores.iter().map(PartScore::of_sentence).collect()
        };
        let mut values: Vec<Vec<f64>> = scores.iter().map(of_sentences).collect();
        for talk in &talks {
            let own: Vec<&[PartScore]> = scores.iter().map(|all| &all[talk.clone()]).collect();
            let turns = turn_values(&questions, &texts[talk.clone()], &own);
            for (values, turns) in values.iter_mut().zip(turns) {
                values[talk.clone()].copy_from_slice(&turns);
            }
        }
        Self { values, units, talks, ..Self::default() }
    }

    /// Returns the units that are worth a comparison by meaning: of each part of the question in
    /// turn the most valuable ones, by their words and the grades of their candidates.
    pub fn to_compare(&self, grades: &[Vec<Grade>]) -> Vec<usize> {
        let ranked: Vec<Vec<usize>> = self
            .values
            .iter()
            .zip(grades)
            .map(|(values, grades)| {
                let value = |at: usize| values[at] * grades[self.units[at].candidate].grade;
                let mut order: Vec<usize> = (0..self.units.len()).collect();
                order.sort_by(|a, b| value(*b).total_cmp(&value(*a)));
                order
            })
            .collect();
        let mut seen = HashSet::new();
        let turns =
            (0..self.units.len()).flat_map(|place| ranked.iter().map(move |one| one[place]));
        let mut bytes = 0;
        // A long unit that does not fit must not keep out the shorter ones after it.
        let fits = |at: &usize| {
            let length = self.units[*at].range.len();
            let fits = bytes + length <= COMPARED_BYTES_MAX;
            bytes += if fits { length } else { 0 };
            fits
        };
        turns.filter(|at| seen.insert(*at)).filter(fits).take(COMPARED_UNITS_MAX).collect()
    }

    /// Returns the text of a unit.
    pub fn text<'a>(&self, candidates: &'a [Candidate], unit: usize) -> &'a str {
        let unit = &self.units[unit];
        candidates[unit.candidate].text[unit.range.clone()].trim()
    }

    /// Notes how near in meaning units are to each part of the question, and grades their
    /// candidates by it.
    pub fn compare(
        &mut self,
        units: Vec<usize>,
        likeness: &[Vec<Likeness>],
        grades: &mut [Vec<Grade>],
    ) {
        for (grades, likeness) in grades.iter_mut().zip(likeness) {
            let mut best: HashMap<usize, Likeness> = HashMap::new();
            for (unit, one) in units.iter().zip(likeness) {
                let known = best.entry(self.units[*unit].candidate).or_insert(*one);
                if meaning(*one) > meaning(*known) {
                    *known = *one;
                }
            }
            for (candidate, likeness) in best {
                grades[candidate] = grades[candidate].with_meaning(likeness);
            }
        }
        self.compared = (units, likeness.to_vec());
    }

    /// Returns what each unit gains by its meaning; nothing if no unit was compared.
    fn meanings(&self, part: usize) -> Vec<f64> {
        let Some(likeness) = self.compared.1.get(part) else { return Vec::new() };
        let all: Vec<f64> = likeness.iter().copied().map(meaning).collect();
        let least = all.iter().copied().fold(1.0, f64::min);
        let mut own = vec![least; self.units.len()];
        for (unit, value) in self.compared.0.iter().zip(all) {
            own[*unit] = value;
        }
        let mut gains: Vec<f64> = own.iter().map(|value| MEANING * (value - least)).collect();
        for talk in &self.talks {
            let around = with_neighbours(&own[talk.clone()]);
            let around = around.iter().map(|value| TALK_MEANING * (value - least));
            gains.splice(talk.clone(), around);
        }
        gains
    }

    /// Returns the units of candidates that may be shown, each with its value for the part of the
    /// question that it answers best. `parts` has the numbers of the parts that count, and `grades`
    /// for each of them the grades of all candidates.
    pub fn valued(
        mut self,
        parts: &[usize],
        grades: &[Vec<Grade>],
        may_show: &dyn Fn(usize) -> bool,
    ) -> Vec<Unit> {
        for (number, part) in parts.iter().enumerate() {
            let mut values = self.values[*part].clone();
            for (value, meaning) in values.iter_mut().zip(self.meanings(*part)) {
                *value += meaning;
            }
            for (unit, value) in self.units.iter_mut().zip(values) {
                let value = value * grades[number][unit.candidate].grade;
                if value > unit.value {
                    unit.value = value;
                    unit.part = number;
                }
            }
        }
        self.units.retain(|unit| may_show(unit.candidate));
        self.units
    }
}

/// Returns the units of all candidates that may be shown, with their values for the parts of the
/// question. `grades` has for each part of the question the grades of all candidates.
#[cfg(test)]
pub(super) fn units(
    parts: &[SubQuestion],
    candidates: &[Candidate],
    grades: &[Vec<Grade>],
    may_show: &dyn Fn(usize) -> bool,
) -> Vec<Unit> {
    let all: Vec<usize> = (0..parts.len()).collect();
    Units::read(parts, candidates, may_show, false).valued(&all, grades, may_show)
}

/// Returns the byte ranges of a candidate's units, and whether they are turns of a conversation. A
/// message of up to `whole_max` bytes is one unit.
fn split(candidate: &Candidate, whole_max: usize) -> (Vec<Range<usize>>, bool) {
    let text = candidate.text.as_str();
    if candidate.is_said() && text.len() <= whole_max {
        return (std::iter::once(0..text.len()).collect(), false);
    }
    let lines = lines(text);
    let said = lines.iter().filter(|line| has_speaker(&text[(*line).clone()])).count();
    if lines.len() >= TALK_LINES_MIN && said as f64 >= TALK_SHARE_MIN * lines.len() as f64 {
        return (lines, true);
    }
    (whole_sentences(text), false)
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
        assert_eq!(split(&prose, 0).0.len(), 3);
        let initials = given("It is Dr. Roe's. The gallery of R. K. Roe opened. We met in May.");
        assert_eq!(split(&initials, 0).0.len(), 3);
        let talk = "Ada: The sloop?\nBea: It is old.\nAda: Hm.\n\nBea: Yes.\n";
        let (turns, is_talk) = split(&given(talk), 0);
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

    #[test]
    fn a_unit_of_the_same_meaning_is_worth_more_and_better_graded() {
        let question = "Which dentist do I see?";
        let parts = QuestionIntent::read(question).sub_questions;
        let long = "Which dentist ".repeat(COMPARED_BYTES_MAX / 10);
        let all = [
            given("Dogs bark at night. My teeth are fine."),
            given("Eggs are cheap."),
            given(&long),
        ];
        let value = |likeness: Option<f64>| {
            let mut grades = vec![graded(&parts[0], &all)];
            let mut read = Units::read(&parts, &all, &|_| true, false);
            let chosen = read.to_compare(&grades);
            assert_eq!(chosen.len(), 3, "the long one does not fit");
            if let Some(likeness) = likeness {
                let of = |unit: &usize| match read.text(&all, *unit) {
                    "My teeth are fine." => Likeness { whole: likeness, words: likeness },
                    _ => Likeness::default(),
                };
                let row = chosen.iter().map(of).collect();
                read.compare(chosen, &[row], &mut grades);
            }
            let found = read.valued(&[0], &grades, &|_| true);
            let value = |text: &str| {
                let unit =
                    found.iter().find(|one| all[one.candidate].text[one.range.clone()] == *text);
                unit.expect("a unit").value
            };
            (value("My teeth are fine."), value("Dogs bark at night. "), grades[0][0].grade)
        };
        let (plain, far, near) = (value(None), value(Some(0.0)), value(Some(0.9)));
        assert!(near.0 > plain.0 && near.0 > near.1, "{plain:?} {near:?}");
        assert!(near.2 > plain.2 && far.2 < plain.2, "{plain:?} {far:?} {near:?}");
    }
}
