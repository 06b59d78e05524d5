//! Splits candidates into units (sentences, or turns of a conversation) and values each unit, so
//! that a context shows only the units that answer the question.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::candidate::Candidate;
use super::grade::{Grade, meaning};
use super::intent::SubQuestion;
use super::sentence::whole_sentences;
use crate::search::{
    Likeness, PartScore, near_known, part_scores_of, spread, standard, turn_values,
};

/// Maximum number of units that are compared with the parts of the question by meaning.
const COMPARED_UNITS_MAX: usize = 64;
/// Maximum length of all compared units together, in bytes: about 2 000 tokens, which a small model
/// reads in half a second on two cores.
const COMPARED_BYTES_MAX: usize = 8 * 1024;
/// Weight of the meaning in the value of a unit, beside the weights of its words.
const MEANING: f64 = 3.0;
/// Weight of the meaning in the value of a turn of a conversation, in standard scores, and the
/// weight of turns of unknown meaning around it. Chosen on the development half of QMSum.
const TALK_MEANING: f64 = 0.8;
const TALK_UNKNOWN: f64 = 1.0;
/// Number of turns of a conversation of which one is compared by meaning, as it stands for the
/// others, and the length in bytes up to which a turn is compared.
const TALK_STEP: usize = 4;
const TALK_BYTES_MAX: usize = 300;

/// Length in bytes up to which a message is one unit, and the same for a context that fills a
/// number of tokens, which has room for more messages if it shows the best sentence of each.
const MESSAGE_BYTES_MAX: usize = 480;
const MESSAGE_BYTES_FILLED: usize = 100;
/// Share of the lines of a document that begin with a speaker, from which it is a conversation.
const TALK_SHARE_MIN: f64 = 0.6;
/// Fewest lines of a conversation.
const TALK_LINES_MIN: usize = 4;
/// Length in bytes of the name of a speaker.
const SPEAKER_BYTES_MAX: usize = 80;
/// Length in bytes of a title with its full stop, such as `Prof.`.
const TITLE_BYTES_MAX: usize = 5;

/// A part of a candidate that a context shows whole or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unit {
    /// Index of the candidate.
    pub candidate: usize,
    /// Byte range in the candidate's text.
    pub range: Range<usize>,
    /// Value for the answer.
    pub value: f64,
    /// Index of the part of the question that the unit answers best.
    pub part: usize,
    /// Whether it is a turn of a conversation in a document.
    pub is_turn: bool,
    /// Whether it has a lasting request of the user.
    pub is_lasting: bool,
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
                let is_lasting = candidate.has_lasting(&range);
                let is_turn = is_talk;
                units.push(Unit { candidate: at, range, is_turn, is_lasting, ..Unit::default() });
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
    /// turn the most valuable ones, by their words and the grades of their candidates. Of a few
    /// turns of a conversation, the longest of a bounded length is compared.
    pub fn to_compare(&self, grades: &[Vec<Grade>]) -> Vec<usize> {
        let groups = self.groups();
        let ranked: Vec<Vec<usize>> = self
            .values
            .iter()
            .zip(grades)
            .map(|(values, grades)| {
                let value = |at: usize| values[at] * grades[self.units[at].candidate].grade;
                let of_group = |(unit, group): &(usize, Range<usize>)| {
                    (group.clone().map(value).fold(f64::MIN, f64::max), *unit)
                };
                let mut order: Vec<(f64, usize)> = groups.iter().map(of_group).collect();
                order.sort_by(|a, b| b.0.total_cmp(&a.0));
                order.into_iter().map(|(_, unit)| unit).collect()
            })
            .collect();
        let mut seen = HashSet::new();
        let turns = (0..groups.len()).flat_map(|place| ranked.iter().map(move |one| one[place]));
        let mut bytes = 0;
        // A long unit that does not fit must not keep out the shorter ones after it.
        let fits = |at: &usize| {
            let length = self.compared_bytes(*at);
            let fits = bytes + length <= COMPARED_BYTES_MAX;
            bytes += if fits { length } else { 0 };
            fits
        };
        turns.filter(|at| seen.insert(*at)).filter(fits).take(COMPARED_UNITS_MAX).collect()
    }

    /// Returns the units that are compared, each with the units for which it stands.
    fn groups(&self) -> Vec<(usize, Range<usize>)> {
        let mut groups = Vec::new();
        let mut at = 0;
        let end = self.units.len()..self.units.len();
        for talk in self.talks.iter().chain(std::iter::once(&end)) {
            groups.extend((at..talk.start).map(|unit| (unit, unit..unit + 1)));
            for from in talk.clone().step_by(TALK_STEP) {
                let group = from..(from + TALK_STEP).min(talk.end);
                let length = |unit: &usize| self.units[*unit].range.len();
                let whole = group.clone().filter(|unit| length(unit) <= TALK_BYTES_MAX);
                let unit = whole.max_by_key(length).or(group.clone().min_by_key(length));
                groups.extend(unit.map(|unit| (unit, group)));
            }
            at = talk.end;
        }
        groups
    }

    fn compared_bytes(&self, unit: usize) -> usize {
        let unit = &self.units[unit];
        let length = unit.range.len();
        if unit.is_turn { length.min(TALK_BYTES_MAX) } else { length }
    }

    /// Returns the part of a unit's text that is compared by meaning.
    pub fn text<'a>(&self, candidates: &'a [Candidate], unit: usize) -> &'a str {
        let text = &candidates[self.units[unit].candidate].text[self.units[unit].range.clone()];
        text[..text.floor_char_boundary(self.compared_bytes(unit))].trim()
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
            gains.splice(talk.clone(), self.talk_meanings(part, talk));
        }
        gains
    }

    /// Returns what each turn of a conversation gains by the meaning of the turns around it, as the
    /// talk about a subject takes several turns.
    fn talk_meanings(&self, part: usize, talk: &Range<usize>) -> Vec<f64> {
        let (units, likeness) = (&self.compared.0, &self.compared.1[part]);
        let compared = units.iter().zip(likeness).filter(|(unit, _)| talk.contains(unit));
        let (units, known): (Vec<usize>, Vec<f64>) =
            compared.map(|(unit, one)| (*unit, meaning(*one))).unzip();
        let mut own = vec![None; talk.len()];
        for (unit, score) in units.iter().zip(standard(known)) {
            own[unit - talk.start] = Some(score);
        }
        let around = near_known(&own, TALK_UNKNOWN);
        let least = around.iter().copied().fold(0.0, f64::min);
        let weight = TALK_MEANING * spread(&self.values[part][talk.clone()]);
        around.into_iter().map(|score| weight * (score - least)).collect()
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

/// Whether a line begins with the name of a speaker and a colon. A name may have titles, and more
/// in brackets: `Hon. Ada Roe (Lisbon, Ind.)`.
fn has_speaker(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(name, _)| {
        let own = name.split_once(" (").map_or(name, |(own, _)| own);
        let is_title = |word: &str| {
            word.len() <= TITLE_BYTES_MAX && word.starts_with(|c: char| c.is_uppercase())
        };
        let ends = |word: &str| word.ends_with('.') && !is_title(word);
        !own.is_empty()
            && name.len() <= SPEAKER_BYTES_MAX
            && own.starts_with(|c: char| c.is_alphabetic() || c == '[')
            && !own.contains(['?', '!', ','])
            && !own.split(' ').any(ends)
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
        for (line, is_said) in [
            ("Ada: The sloop?", true),
            ("Hon. Ada Roe (Lisbon, Ind.): The sloop?", true),
            ("[Ada]: Hm.", true),
            ("The sloop is old. Note: it leaks.", false),
            ("Sails, masts and oars: all are old.", false),
            ("Why? Because: it leaks.", false),
        ] {
            assert_eq!(has_speaker(line), is_said, "{line}");
        }
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
