//! BM25 over a pool of texts, computed here and not by the program under test.

use std::collections::HashMap;

use crate::eval::stems::Stems;

/// The usual parameters of BM25: `SATURATION` limits the effect of repeated words, `LENGTH_SHARE`
/// the effect of text length.
const SATURATION: f64 = 1.2;
const LENGTH_SHARE: f64 = 0.75;

/// The words of a pool of texts.
pub(super) struct Bm25 {
    stems: Stems,
    /// For each word, the texts that have it, each with the number of occurrences.
    holders: HashMap<String, Vec<(usize, f64)>>,
    /// Number of words of each text, relative to the mean.
    lengths: Vec<f64>,
}

impl Bm25 {
    /// Counts the words of all texts.
    pub(super) fn of(texts: &[String]) -> Bm25 {
        let stems = Stems::new();
        let mut holders: HashMap<String, Vec<(usize, f64)>> = HashMap::new();
        let mut lengths = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            let words = stems.all(text);
            lengths.push(words.len() as f64);
            for word in words {
                let list = holders.entry(word).or_default();
                match list.last_mut().filter(|(last, _)| *last == at) {
                    Some((_, count)) => *count += 1.0,
                    None => list.push((at, 1.0)),
                }
            }
        }
        let mean = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
        lengths.iter_mut().for_each(|length| *length /= mean.max(1.0));
        Bm25 { stems, holders, lengths }
    }

    /// Returns the score of each text for a question; 0 for a text without any of its words.
    pub(super) fn scores(&self, question: &str) -> Vec<f64> {
        let mut scores = vec![0.0; self.lengths.len()];
        let all = self.lengths.len() as f64;
        for word in self.stems.all(question) {
            let Some(list) = self.holders.get(&word) else { continue };
            let count = list.len() as f64;
            let rarity = (1.0 + (all - count + 0.5) / (count + 0.5)).ln();
            for (at, times) in list {
                let norm = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * self.lengths[*at]);
                scores[*at] += rarity * times * (SATURATION + 1.0) / (times + norm);
            }
        }
        scores
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_the_formula() {
        let texts = ["red kite", "red red boat", "a boat sails"].map(str::to_owned);
        let scores = Bm25::of(&texts).scores("the kites");
        // One of three texts has the word; its two words are 6/7 of the mean of 7/3.
        let rarity = (1.0f64 + 2.5 / 1.5).ln();
        let wanted = rarity * 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * 6.0 / 7.0));
        assert!((scores[0] - wanted).abs() < 1e-12, "{scores:?} {wanted}");
        assert_eq!(scores[1..], [0.0, 0.0]);
        let red = Bm25::of(&texts).scores("red");
        assert!(red[1] > red[0] && red[2] == 0.0, "{red:?}");
    }

    #[test]
    fn an_empty_pool_has_no_scores() {
        assert!(Bm25::of(&[]).scores("red").is_empty());
        assert_eq!(Bm25::of(&[String::new()]).scores("red"), [0.0]);
    }
}
