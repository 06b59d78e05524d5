//! Scores how well passages and entries match the words of a question.

use std::collections::{BTreeSet, HashSet};

use super::entry::{EntryWords, PassageWords};
use super::question::QuestionWords;
use super::words::Stem;
use crate::search::bm25::saturated;

/// Mean number of words in a passage, over short messages of conversations and passages of long
/// answers.
const PASSAGE_WORDS: f64 = 30.0;

/// Returns the BM25 score of a passage, divided by the total rarity of the question's words.
pub(super) fn passage(asked: &QuestionWords, part: &PassageWords) -> f64 {
    let length = part.words.len() as f64 / PASSAGE_WORDS;
    let hits = asked.terms.iter().zip(&part.counts);
    hits.map(|((_, rarity), count)| rarity * saturated(*count, length)).sum::<f64>() / asked.total
}

/// Returns the BM25 score of a whole entry; the entry's length is normalised by `mean_words`, the
/// mean length of all entries.
pub(super) fn whole(asked: &QuestionWords, read: &EntryWords<'_>, mean_words: f64) -> f64 {
    let length = read.length() as f64 / mean_words.max(1.0);
    let hits = asked.terms.iter().enumerate();
    hits.map(|(at, (_, rarity))| rarity * saturated(read.count(at), length)).sum()
}

/// Returns the share of the question's words that are present, weighted by rarity. For the index of
/// a word, `held` returns to what degree the word is present, from 0 to 1.
pub(super) fn coverage(asked: &QuestionWords, held: impl Fn(usize) -> f64) -> f64 {
    let terms = asked.terms.iter().enumerate();
    terms.map(|(at, (_, rarity))| rarity * held(at)).sum::<f64>() / asked.total
}

/// Returns the score for pairs of neighbouring words in the question that are also neighbours in a
/// passage. Each pair counts once, with the mean rarity of its two words.
pub(super) fn together(asked: &QuestionWords, part: &PassageWords) -> f64 {
    // The pairs' rarities are added in a fixed order, so that equal texts have equal sums.
    let wanted: BTreeSet<(Stem, Stem)> = asked.sequence.windows(2).map(|w| (w[0], w[1])).collect();
    let here: HashSet<(Stem, Stem)> =
        part.words.windows(2).map(|w| (w[0].stem, w[1].stem)).collect();
    let rarity = |stem: Stem| {
        asked.terms.iter().find(|(known, _)| *known == stem).map_or(0.0, |(_, rarity)| *rarity)
    };
    let pairs = wanted.iter().filter(|pair| here.contains(*pair));
    pairs.map(|(a, b)| f64::midpoint(rarity(*a), rarity(*b))).sum::<f64>() / asked.total
}
