//! Finds what to look for next: names and identifiers that a good text mentions and that lead to a
//! further text.

use std::collections::HashSet;

use super::candidate::Candidate;
use super::grade::Grade;
use super::intent::{AnswerKind, SubQuestion, entities_of, is_chain};
use crate::memory::engineer::GRADE_MIN;
use crate::memory::pack::Fate;
use crate::search::{PartScore, content_words, part_scores};

/// Number of the best texts of a part whose names are looked for.
const TEXTS_MAX: usize = 2;
/// Number of names of one text that are looked for.
const NAMES_MAX: usize = 2;
/// Maximum number of further looks of one round.
const BRIDGES_MAX: usize = 4;
/// Share of a part's words, by rarity, from which a text has all that the part asks for.
const COVERED: f64 = 0.75;
/// Fewest names of a part that are looked for one by one.
const NAMES_APART_MIN: usize = 2;
/// Shortest identifier, in bytes. Shorter words with digits are numbers, dates or units.
const IDENTIFIER_BYTES_MIN: usize = 8;

/// A further question, about something that a text mentions.
#[derive(Clone, Debug, PartialEq)]
pub struct Bridge {
    /// Index of the part of the question that it continues.
    pub part: usize,
    /// The further question.
    pub question: SubQuestion,
}

/// Whether a word is an identifier: long, with digits, and no plain number or date.
pub fn is_identifier(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    word.len() >= IDENTIFIER_BYTES_MIN
        && !word.contains(char::is_whitespace)
        && digits >= 2
        && letters >= 1
}

/// Returns the further questions of the next round. `asked` has what was looked for before, in
/// lower case, and gets the new names. `follows_names` says whether names are followed from a part
/// that only describes what it asks about; identifiers always are, if the question has one.
pub fn bridges(
    parts: &[SubQuestion],
    candidates: &[Candidate],
    grades: &[Vec<Grade>],
    follows_names: bool,
    asked: &mut HashSet<String>,
) -> Vec<Bridge> {
    let mut found = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let has_identifier = part.entities.iter().any(|name| is_identifier(name));
        let best = best(candidates, &grades[number]);
        // A text with all words of the part leads nowhere else.
        let is_covered = |at: &usize| grades[number][*at].coverage >= COVERED;
        let leads = is_chain(&part.text) || !best.iter().any(is_covered);
        let follows = has_identifier || (follows_names && !part.entities.is_empty() && leads);
        for at in best.into_iter().filter(|_| follows) {
            let text = candidates[at].text.as_str();
            for name in names_in(part, text, has_identifier, asked) {
                if found.len() < BRIDGES_MAX && asked.insert(name.to_lowercase()) {
                    found.push(Bridge { part: number, question: about(part, &name, text) });
                }
            }
        }
    }
    found
}

/// Returns a question about each name of a part that has several: the texts on what is compared
/// name one of them each.
pub fn apart(part: &SubQuestion) -> Vec<SubQuestion> {
    if part.entities.len() < NAMES_APART_MIN {
        return Vec::new();
    }
    let names = part.entities.join(" ").to_lowercase();
    let others: Vec<String> = content_words(&part.text)
        .into_iter()
        .filter(|word| !names.contains(word.as_str()))
        .collect();
    let about = |name: &String| SubQuestion {
        text: format!("{name} {}", others.join(" ")).trim().to_owned(),
        entities: vec![name.clone()],
        answer: part.answer,
        critical: false,
    };
    part.entities.iter().take(NAMES_MAX).map(about).collect()
}

/// Returns the best texts on a part, best first.
fn best(candidates: &[Candidate], grades: &[Grade]) -> Vec<usize> {
    let may_lead = |at: &usize| {
        let leads = matches!(candidates[*at].fate, None | Some(Fate::InWindow));
        leads && grades[*at].grade >= GRADE_MIN
    };
    let mut order: Vec<usize> = (0..candidates.len()).filter(may_lead).collect();
    order.sort_by(|a, b| grades[*b].grade.total_cmp(&grades[*a].grade));
    order.truncate(TEXTS_MAX);
    order
}

/// Returns the names of a text that could lead further: those of its best lines first.
fn names_in(
    part: &SubQuestion,
    text: &str,
    has_identifier: bool,
    asked: &HashSet<String>,
) -> Vec<String> {
    let question = part.text.to_lowercase();
    let lines: Vec<&str> = text.split(['\n', '.', ';']).filter(|line| !line.is_empty()).collect();
    let scores = part_scores(&part.text, &lines);
    let mut order: Vec<usize> = (0..lines.len()).collect();
    let value = |at: usize| PartScore::of_sentence(&scores[at]);
    order.sort_by(|a, b| value(*b).total_cmp(&value(*a)));
    let names = order.into_iter().flat_map(|at| entities_of(lines[at]));
    let mut found: Vec<String> = Vec::new();
    for name in names {
        let lower = name.to_lowercase();
        let is_new = !question.contains(&lower)
            && !asked.contains(&lower)
            && !found.iter().any(|other| other.to_lowercase() == lower);
        if is_new && (!has_identifier || is_identifier(&name)) {
            found.push(name);
        }
        if found.len() == NAMES_MAX {
            break;
        }
    }
    found
}

/// Returns the further question about a name: the name, and the words of the part that the text
/// does not have. Of an identifier, only the identifier.
fn about(part: &SubQuestion, name: &str, text: &str) -> SubQuestion {
    let has = text.to_lowercase();
    let missing = content_words(&part.text).into_iter().filter(|word| !has.contains(word.as_str()));
    let words: Vec<String> = match is_identifier(name) {
        true => vec![name.to_owned()],
        false => std::iter::once(name.to_owned()).chain(missing).collect(),
    };
    SubQuestion {
        text: words.join(" "),
        entities: vec![name.to_owned()],
        answer: if is_identifier(name) { AnswerKind::Text } else { part.answer },
        critical: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{QuestionIntent, graded};

    fn led(question: &str, texts: &[&str], follows_names: bool) -> Vec<String> {
        let parts = QuestionIntent::read(question).sub_questions;
        let all: Vec<Candidate> = texts.iter().map(|text| Candidate::given("d", text)).collect();
        let grades: Vec<Vec<Grade>> = parts.iter().map(|part| graded(part, &all)).collect();
        let found = bridges(&parts, &all, &grades, follows_names, &mut HashSet::new());
        found.into_iter().map(|bridge| bridge.question.text).collect()
    }

    #[test]
    fn a_name_in_a_good_text_is_looked_for_with_what_is_still_missing() {
        let question = "Where was the man born who built the sloop Albatross?";
        let texts = ["The sloop Albatross was built by Peter Roe.", "Eggs are cheap in Oslo."];
        let found = led(question, &texts, true);
        assert!(found[0].starts_with("Peter Roe") && found[0].contains("born"), "{found:?}");
        assert!(!found.iter().any(|text| text.contains("Oslo")), "{found:?}");
        assert!(led(question, &texts, false).is_empty());
        let two = QuestionIntent::read("Are Ada Lovelace and Peter Roe of the same nationality?");
        let apart = apart(&two.sub_questions[0]);
        let texts: Vec<&str> = apart.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(texts, ["Ada Lovelace nationality", "Peter Roe nationality"]);
    }

    #[test]
    fn an_identifier_leads_to_the_next_one() {
        let (one, two) = ("831ce0e2-0bb1-4a2b", "77be9ad1-11aa-4c3c");
        let found =
            led(&format!("What is the value of {one}?"), &[&format!("{one}: {two}")], false);
        assert_eq!(found, [two]);
        assert!(is_identifier("AB-12345") && !is_identifier("2021") && !is_identifier("14:00"));
    }
}
