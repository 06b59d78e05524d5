//! Implements `NGRAM_MATCH`, which counts the tokens of a target that a field contains in the same
//! order.

use std::sync::Arc;

use tantivy::postings::{Postings, SegmentPostings};
use tantivy::{DocId, DocSet, TERMINATED};

use super::matcher::{Finder, FinderMatcher, Lengths, length};
use super::score::Weight;

/// Returns how many of the `tokens` tokens of a target must match, if at least the given share must
/// match.
pub(crate) fn least(tokens: usize, share: f32) -> usize {
    ((tokens as f32 * share).ceil() as usize).clamp(1, tokens.max(1))
}

/// Returns how many tokens occur in the same order in the text and in the target. Each element of
/// `pairs` is a token's position in the text and its position in the target; the elements may be in
/// any order.
fn longest(pairs: &mut [(u32, usize)]) -> usize {
    // If a text position has several target positions, the sort puts the later target positions
    // first, so that at most one of them counts.
    pairs.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    let mut ends: Vec<usize> = Vec::new();
    for (_, place) in pairs.iter() {
        let at = ends.partition_point(|end| end < place);
        if at == ends.len() {
            ends.push(*place);
        } else {
            ends[at] = *place;
        }
    }
    ends.len()
}

/// Returns how many of a target's tokens another text contains in the same order.
pub(crate) fn in_order(text: &[String], target: &[String]) -> usize {
    let mut pairs = Vec::new();
    for (at, token) in text.iter().enumerate() {
        let places = target.iter().enumerate().filter(|(_, other)| *other == token);
        pairs.extend(places.map(|(place, _)| (at as u32, place)));
    }
    longest(&mut pairs)
}

/// Finds the documents that contain enough tokens of a target in the same order.
pub(super) struct Ngrams {
    /// For each distinct token, its postings and its positions in the target.
    terms: Vec<(SegmentPostings, Vec<usize>)>,
    count: usize,
    least: usize,
    lengths: Lengths,
    weights: Arc<[Weight]>,
    found: usize,
}

impl Ngrams {
    /// Creates a finder for a target of `count` tokens.
    pub(super) fn new(
        terms: Vec<(SegmentPostings, Vec<usize>)>,
        count: usize,
        least: usize,
        lengths: Lengths,
        weights: Arc<[Weight]>,
    ) -> FinderMatcher<Self> {
        FinderMatcher::new(Self { terms, count, least, lengths, weights, found: 0 })
    }
}

impl Finder for Ngrams {
    fn most(&self) -> f32 {
        self.weights.first().map_or(0.0, Weight::most)
    }

    fn find(&mut self, target: DocId) -> DocId {
        let mut positions = Vec::new();
        let mut pairs = Vec::new();
        let mut target = target;
        loop {
            let mut next = TERMINATED;
            for (postings, _) in &mut self.terms {
                let doc =
                    if postings.doc() < target { postings.seek(target) } else { postings.doc() };
                next = next.min(doc);
            }
            if next == TERMINATED {
                return TERMINATED;
            }
            let here = self.terms.iter().filter(|(postings, _)| postings.doc() == next);
            if here.map(|(_, places)| places.len()).sum::<usize>() >= self.least {
                pairs.clear();
                for (postings, places) in &mut self.terms {
                    if postings.doc() == next {
                        postings.positions(&mut positions);
                        for at in &positions {
                            pairs.extend(places.iter().map(|place| (*at, *place)));
                        }
                    }
                }
                self.found = longest(&mut pairs);
                if self.found >= self.least {
                    return next;
                }
            }
            target = next + 1;
        }
    }

    fn cost(&self) -> u32 {
        let cost = |(postings, _): &(SegmentPostings, Vec<usize>)| postings.size_hint();
        self.terms.iter().map(cost).fold(0, u32::saturating_add)
    }

    fn score(&mut self, scorer: usize, doc: DocId) -> f32 {
        let Some(weight) = self.weights.get(scorer) else { return 0.0 };
        let length = if weight.wants_length() { length(&self.lengths, doc) } else { 0.0 };
        weight.score(1.0, length) * self.found as f32 / self.count as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_count_in_the_order_of_the_target() {
        let bigrams = |text: &str| -> Vec<String> {
            let chars: Vec<char> = text.chars().collect();
            chars.windows(2).map(|two| two.iter().collect()).collect()
        };
        let cases = [
            ("quick red fox", "quick fox", 8),
            ("quick red fox", "quick blue fox", 8),
            ("fox quick", "quick fox", 4),
            ("aaaa", "aa", 1),
            ("", "aa", 0),
        ];
        for (text, target, wanted) in cases {
            assert_eq!(in_order(&bigrams(text), &bigrams(target)), wanted, "{text} {target}");
        }
        assert_eq!((least(8, 0.7), least(8, 1.0), least(8, 0.0)), (6, 8, 1));
    }
}
