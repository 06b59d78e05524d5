//! Finds links between documents: a document that a good document names, or that names it, is worth
//! more, as the answer may be in two documents.

use super::candidate::Candidate;
use super::grade::Grade;

/// Number of the best documents whose links count.
const TEXTS_MAX: usize = 3;
/// Weight of a link in the logit of a grade: to a document that a good document names, and to one
/// that names a good document. Chosen on the development half of HotpotQA.
const NAMED: f64 = 3.0;
const NAMES: f64 = 1.0;
/// Length in bytes of the name of a document.
const NAME_BYTES_MIN: usize = 4;
const NAME_BYTES_MAX: usize = 80;
/// Words of a name that are written small.
const SMALL_WORDS: [&str; 9] = ["a", "and", "de", "for", "in", "of", "on", "the", "von"];

/// Raises the grades of documents by their links with the best ones. `grades` has for each part of
/// the question the grades of all candidates; a link counts for the part that a document answers
/// best.
pub fn link(candidates: &[Candidate], grades: &mut [Vec<Grade>]) {
    let best_part = |at: usize| {
        let parts = (0..grades.len()).filter(|part| at < grades[*part].len());
        parts.max_by(|a, b| grades[*a][at].grade.total_cmp(&grades[*b][at].grade))
    };
    let parts: Vec<Option<usize>> = (0..candidates.len()).map(best_part).collect();
    let grade = |at: usize| parts[at].map_or(0.0, |part| grades[part][at].grade);
    let mut order: Vec<usize> =
        (0..candidates.len()).filter(|at| !candidates[*at].is_said()).collect();
    order.sort_by(|a, b| grade(*b).total_cmp(&grade(*a)));
    let top: Vec<(usize, Option<&str>, f64)> = order
        .iter()
        .take(TEXTS_MAX)
        .map(|at| (*at, name_of(&candidates[*at].text), grade(*at)))
        .collect();
    let bonus = |at: usize| {
        let own = name_of(&candidates[at].text);
        let (mut named, mut names) = (0.0_f64, 0.0_f64);
        for (other, name, grade) in top.iter().filter(|(other, ..)| *other != at) {
            if own.is_some_and(|own| has_name(&candidates[*other].text, own)) {
                named = named.max(*grade);
            }
            if name.is_some_and(|name| has_name(&candidates[at].text, name)) {
                names = names.max(*grade);
            }
        }
        NAMED * named + NAMES * names
    };
    let bonuses: Vec<(usize, f64)> = order.iter().map(|at| (*at, bonus(*at))).collect();
    for (at, bonus) in bonuses.into_iter().filter(|(_, bonus)| *bonus > 0.0) {
        if let Some(part) = parts[at] {
            grades[part][at] = grades[part][at].raised(bonus);
        }
    }
}

/// Whether one of two documents names the other.
pub(super) fn are_linked(one: &Candidate, other: &Candidate) -> bool {
    let names = |one: &Candidate, other: &Candidate| {
        name_of(&other.text).is_some_and(|name| has_name(&one.text, name))
    };
    names(one, other) || names(other, one)
}

/// Returns the name of what a document is about: its heading, or the name with which it begins.
pub(super) fn name_of(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let line = text.lines().next()?.trim_end();
    let is_heading = line.len() < text.trim_end().len() && line.len() <= NAME_BYTES_MAX;
    let name = if is_heading && is_name(line) { without_remark(line) } else { first_name(line) };
    (NAME_BYTES_MIN..=NAME_BYTES_MAX).contains(&name.len()).then_some(name)
}

/// Whether a line has only what names have.
fn is_name(line: &str) -> bool {
    let begins = line.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit());
    begins && line.chars().all(|c| c.is_alphanumeric() || " -'’.,&()!:/".contains(c))
}

/// Returns a heading without what is in brackets at its end.
fn without_remark(line: &str) -> &str {
    line.split_once(" (").map_or(line, |(name, _)| name)
}

/// Returns the words in capitals with which a text begins, without an article.
fn first_name(line: &str) -> &str {
    let line =
        ["The ", "A ", "An "].iter().find_map(|word| line.strip_prefix(word)).unwrap_or(line);
    let mut end = 0;
    let mut at = 0;
    for word in line.split_inclusive(' ') {
        let bare = word.trim_end();
        let is_last = bare.ends_with([',', '.', ':', ';']);
        let bare = bare.trim_end_matches([',', '.', ':', ';']);
        if bare.starts_with(char::is_uppercase) {
            end = at + bare.len();
        } else if !SMALL_WORDS.contains(&bare) {
            break;
        }
        if is_last {
            break;
        }
        at += word.len();
    }
    &line[..end]
}

/// Whether a text has a name as whole words.
fn has_name(text: &str, name: &str) -> bool {
    let is_border = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    text.match_indices(name).any(|(at, _)| {
        is_border(text[..at].chars().next_back())
            && is_border(text[at + name.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{QuestionIntent, graded_all};

    #[test]
    fn a_document_is_named_by_its_heading_or_its_first_words() {
        for (text, name) in [
            ("Ada Roe\nAda Roe is a painter.", Some("Ada Roe")),
            ("The Gale (ship)\nThe Gale is a sloop.", Some("The Gale")),
            ("Bay of Fundy, in Canada, is wide.", Some("Bay of Fundy")),
            ("The Harbour Street is long.", Some("Harbour Street")),
            ("use std::fmt;\nfn main() {}", None),
            ("it is so", None),
            ("", None),
        ] {
            assert_eq!(name_of(text), name, "{text}");
        }
        assert!(has_name("with Ada Roe.", "Ada Roe") && !has_name("with Ada Roes.", "Ada Roe"));
    }

    #[test]
    fn a_document_that_the_best_one_names_is_worth_more() {
        let texts = [
            "The Gale\nThe Gale is a sloop that was built by Ada Roe in Lisbon.",
            "Ada Roe\nShe was born in Porto in 1950.",
            "Bea Roe\nShe was born in Faro in 1951.",
        ];
        let candidates = texts.map(|text| Candidate::given("d", text));
        let question = "Where was the builder of the sloop The Gale born?";
        let parts = QuestionIntent::read(question).sub_questions;
        let mut grades = graded_all(&parts, &candidates);
        let before = grades[0].clone();
        link(&candidates, &mut grades);
        assert!(grades[0][1].grade > before[1].grade, "{grades:?}");
        assert!(grades[0][1].grade > grades[0][2].grade, "{grades:?}");
        assert_eq!(grades[0][2], before[2]);
    }
}
