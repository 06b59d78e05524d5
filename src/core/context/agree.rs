//! Compares the given documents with each other: a document that says what the others say is more
//! likely on the question than one that stands alone.

use std::collections::{BTreeMap, HashSet};

use super::candidate::Candidate;
use super::grade::Grade;
use crate::memory::pack::Origin;
use crate::search::{content_words, standard, telling_words};

/// Weights in the logit of a grade: of the agreement of a document with the others, of its standard
/// score among them, and of the standard score of the document's BM25. By the development half of
/// RAMDocs: irrelevant documents share little with the others.
const AGREEMENT: f64 = 30.0;
const AGREES_MORE: f64 = 3.0;
const AHEAD: f64 = 1.0;
/// Number of documents with which a standard score of BM25 counts half.
const DOCUMENTS: f64 = 4.0;

/// The weights of a document's words; the vector has the length 1. Sums are in the order of the
/// words, so that the same documents have the same grades on every server.
type WordWeights = BTreeMap<String, f64>;

/// Raises or lowers the grades of given documents by their agreement with the other ones. Equal
/// documents are no confirmation of each other. `grades` has for each part of the question the
/// grades of all candidates.
pub fn agree(question: &str, candidates: &[Candidate], grades: &mut [Vec<Grade>]) {
    let is_given = |at: &usize| {
        let one = &candidates[*at];
        one.fate.is_none() && matches!(one.origin, Origin::Document { .. })
    };
    let given: Vec<usize> = (0..candidates.len()).filter(is_given).collect();
    let texts: Vec<&str> = given.iter().map(|at| candidates[*at].text.as_str()).collect();
    let agreements = agreements(question, &texts);
    if agreements.is_empty() {
        return;
    }
    let more = standard(agreements.clone());
    let sure = given.len() as f64 / (given.len() as f64 + DOCUMENTS);
    for grades in grades {
        let ahead = standard(given.iter().map(|at| grades[*at].bm25).collect());
        for (place, at) in given.iter().enumerate() {
            let by = AGREEMENT * agreements[place]
                + AGREES_MORE * more[place]
                + AHEAD * sure * ahead[place];
            grades[*at] = Grade { agreement: agreements[place], ..grades[*at].raised(by) };
        }
    }
}

/// Returns for each text the mean cosine of its words, without those of the question, with the
/// words of the other texts; nothing if all texts are equal.
fn agreements(question: &str, texts: &[&str]) -> Vec<f64> {
    let asked: HashSet<String> = content_words(question).into_iter().collect();
    let words: Vec<WordWeights> = texts.iter().map(|text| weighted(text, &asked)).collect();
    let mut sum = WordWeights::new();
    let mut seen = HashSet::new();
    for (_, weights) in texts.iter().zip(&words).filter(|(text, _)| seen.insert(**text)) {
        for (word, weight) in weights {
            *sum.entry(word.clone()).or_default() += weight;
        }
    }
    if seen.len() < 2 {
        return Vec::new();
    }
    let others = (seen.len() - 1) as f64;
    let with_all = |own: &WordWeights| {
        let all: f64 = own.iter().map(|(word, weight)| weight * sum[word]).sum();
        let itself: f64 = own.values().map(|weight| weight * weight).sum();
        (all - itself) / others
    };
    words.iter().map(with_all).collect()
}

fn weighted(text: &str, asked: &HashSet<String>) -> WordWeights {
    let mut counts = WordWeights::new();
    for word in telling_words(text).into_iter().filter(|word| !asked.contains(word)) {
        *counts.entry(word).or_default() += 1.0;
    }
    counts.values_mut().for_each(|count| *count = 1.0 + count.ln());
    let length = counts.values().map(|weight| weight * weight).sum::<f64>().sqrt();
    counts.values_mut().for_each(|weight| *weight /= length.max(f64::MIN_POSITIVE));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{QuestionIntent, graded_all};

    const QUESTION: &str = "When was the sloop Gale built?";

    fn grades(texts: &[&str]) -> Vec<Grade> {
        let all: Vec<Candidate> = texts.iter().map(|text| Candidate::given("d", text)).collect();
        let parts = QuestionIntent::read(QUESTION).sub_questions;
        let mut grades = graded_all(&parts, &all);
        agree(QUESTION, &all, &mut grades);
        grades.remove(0)
    }

    #[test]
    fn a_document_that_stands_alone_has_a_worse_grade() {
        let texts = [
            "The Gale left the shipyard of Porto in 1904 with an oak hull.",
            "An oak hull from the shipyard of Porto: the Gale, finished in 1904.",
            "A gale is a strong wind; sailors fear it in winter.",
        ];
        let alone = grades(&texts[2..])[0];
        let all = grades(&texts);
        assert!(all[2].agreement < all[0].agreement && all[2].agreement < all[1].agreement);
        assert!(all[2].grade < alone.grade, "{all:?} {alone:?}");
        assert!(all[0].grade > grades(&texts[..1])[0].grade);
    }

    #[test]
    fn equal_documents_confirm_nothing() {
        let text = "The Gale left the shipyard of Porto in 1904.";
        let (one, two) = (grades(&[text]), grades(&[text, text]));
        assert_eq!([one[0].agreement, two[0].agreement, two[1].agreement], [0.0; 3]);
        let other = "A gale is a strong wind.";
        let (two, three) = (grades(&[text, other]), grades(&[text, other, text]));
        assert_eq!(two[0].agreement, 0.0, "nothing in common");
        assert!(three.iter().all(|one| one.agreement.abs() < 1e-9), "{three:?}");
        assert!(grades(&[]).is_empty());
    }
}
