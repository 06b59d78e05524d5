//! How well passages and entries match the words of a question: BM25 and its kin, all as shares of what the question could get.

use std::collections::{BTreeSet, HashSet};

use super::asked::Asked;
use super::spoken::{Part, Read};
use super::words::Stem;

/// How soon further occurrences of a word stop to count, and how much a long text costs: ArangoDB's defaults for BM25.
const SATURATION: f64 = 1.2;
const LENGTH_SHARE: f64 = 0.75;
/// Words of a passage of usual length: the mean of turns of conversations and of passages of long answers alike.
const PASSAGE_WORDS: f64 = 30.0;

/// BM25 of a passage, as a share of the question's weight.
pub(super) fn passage(asked: &Asked, part: &Part) -> f64 {
    let length = part.words.len() as f64 / PASSAGE_WORDS;
    let hits = asked.terms.iter().zip(&part.counts);
    hits.map(|((_, rarity), count)| rarity * saturated(*count, length)).sum::<f64>() / asked.total
}

/// BM25 of a whole entry beside others of a mean length.
pub(super) fn whole(asked: &Asked, read: &Read<'_>, mean_words: f64) -> f64 {
    let length = read.length() as f64 / mean_words.max(1.0);
    let hits = asked.terms.iter().enumerate();
    hits.map(|(at, (_, rarity))| rarity * saturated(read.count(at), length)).sum()
}

/// Share of the question's words, by rarity, of which each is held as far as `held` says, 0 to 1.
pub(super) fn coverage(asked: &Asked, held: impl Fn(usize) -> f64) -> f64 {
    let terms = asked.terms.iter().enumerate();
    terms.map(|(at, (_, rarity))| rarity * held(at)).sum::<f64>() / asked.total
}

/// Neighbouring words of the question that are neighbours in a passage, each pair once, by the mean of their rarities.
pub(super) fn together(asked: &Asked, part: &Part) -> f64 {
    // In one order, so that equal texts have equal sums.
    let wanted: BTreeSet<(Stem, Stem)> = asked.sequence.windows(2).map(|w| (w[0], w[1])).collect();
    let here: HashSet<(Stem, Stem)> =
        part.words.windows(2).map(|w| (w[0].stem, w[1].stem)).collect();
    let rarity = |stem: Stem| {
        asked.terms.iter().find(|(known, _)| *known == stem).map_or(0.0, |(_, rarity)| *rarity)
    };
    let pairs = wanted.iter().filter(|pair| here.contains(*pair));
    pairs.map(|(a, b)| f64::midpoint(rarity(*a), rarity(*b))).sum::<f64>() / asked.total
}

/// `(k + 1) · f / (f + k · (1 − b + b · length))`: 1 for one occurrence in a text of usual length.
fn saturated(count: u32, length: f64) -> f64 {
    let held = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length);
    (SATURATION + 1.0) * f64::from(count) / (f64::from(count) + held)
}
