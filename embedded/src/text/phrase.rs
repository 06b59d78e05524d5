//! Finds phrases: terms at consecutive positions, possibly with gaps and alternative terms.

use std::sync::Arc;

use tantivy::postings::{Postings, SegmentPostings};
use tantivy::{DocId, DocSet, TERMINATED};

use super::matcher::{Finder, FinderMatcher, Lengths, length};
use super::score::Weight;

/// One position of a phrase, with the postings of its alternative terms.
pub(super) struct PhrasePosition {
    /// Distance of this position from the phrase's first position.
    pub(super) offset: u32,
    /// Postings with positions, one for each alternative term.
    pub(super) choices: Vec<SegmentPostings>,
}

/// Finds the documents that contain a phrase.
pub(super) struct Phrase {
    /// The positions of the phrase. The position with the rarest terms comes first, because the
    /// search begins with it.
    places: Vec<PhrasePosition>,
    lengths: Lengths,
    weights: Arc<[Weight]>,
    /// Number of occurrences of the phrase in the current document.
    frequency: u32,
    /// The score that a document must exceed to be found.
    threshold: f32,
    /// Buffer for the start positions of the phrase in a document.
    starts: Vec<u32>,
    here: Vec<u32>,
}

/// Factor that raises score bounds, so that rounding cannot lift a score above its bound.
const SLACK: f32 = 1.000_1;

impl Phrase {
    /// Creates a matcher for a phrase with at least one position.
    pub(super) fn new(
        mut places: Vec<PhrasePosition>,
        lengths: Lengths,
        weights: Arc<[Weight]>,
    ) -> FinderMatcher<Self> {
        places.sort_by_key(PhrasePosition::cost);
        let threshold = f32::NEG_INFINITY;
        let (starts, here) = (Vec::new(), Vec::new());
        FinderMatcher::new(Self { places, lengths, weights, frequency: 0, threshold, starts, here })
    }

    fn count(&mut self, doc: DocId) -> u32 {
        let Self { places, starts, here, .. } = self;
        for (at, place) in places.iter_mut().enumerate() {
            if at == 0 {
                place.starts(doc, starts);
                continue;
            }
            if starts.is_empty() {
                return 0;
            }
            place.starts(doc, here);
            starts.retain(|start| here.binary_search(start).is_ok());
        }
        starts.len() as u32
    }

    /// Whether a document's score may exceed the threshold. The check assumes that the phrase
    /// occurs as often in the document as the rarest of its positions; the phrase cannot occur more
    /// often.
    fn may_exceed(&self, doc: DocId) -> bool {
        if self.threshold <= 0.0 {
            return true;
        }
        let Some(weight) = self.weights.first() else { return true };
        let often = self.places.iter().map(|place| place.frequency(doc)).min().unwrap_or(0);
        weight.score(often as f32, self.length(weight, doc)) * SLACK > self.threshold
    }

    fn length(&self, weight: &Weight, doc: DocId) -> f32 {
        if weight.wants_length() { length(&self.lengths, doc) } else { 0.0 }
    }
}

impl PhrasePosition {
    fn seek(&mut self, target: DocId) -> DocId {
        let docs = self
            .choices
            .iter_mut()
            .map(|choice| if choice.doc() < target { choice.seek(target) } else { choice.doc() });
        docs.min().unwrap_or(TERMINATED)
    }

    fn cost(&self) -> u32 {
        self.choices.iter().fold(0, |sum: u32, choice| sum.saturating_add(choice.size_hint()))
    }

    /// Returns the number of occurrences of the position's alternative terms in a document.
    fn frequency(&self, doc: DocId) -> u32 {
        let here = self.choices.iter().filter(|choice| choice.doc() == doc);
        here.fold(0, |sum: u32, choice| sum.saturating_add(choice.term_freq()))
    }

    /// For each occurrence of a term of this phrase position in the document, writes to `out` the
    /// position at which an occurrence of the phrase with this term would start. The positions are
    /// in ascending order.
    fn starts(&mut self, doc: DocId, out: &mut Vec<u32>) {
        out.clear();
        let mut positions = Vec::new();
        for choice in self.choices.iter_mut().filter(|choice| choice.doc() == doc) {
            choice.positions(&mut positions);
            out.extend(positions.iter().filter_map(|at| at.checked_sub(self.offset)));
        }
        out.sort_unstable();
        out.dedup();
    }
}

impl Finder for Phrase {
    fn find(&mut self, mut target: DocId) -> DocId {
        'again: while target != TERMINATED {
            for place in &mut self.places {
                let doc = place.seek(target);
                if doc > target {
                    target = doc;
                    continue 'again;
                }
            }
            if self.may_exceed(target) {
                self.frequency = self.count(target);
                if self.frequency > 0 {
                    return target;
                }
            }
            target += 1;
        }
        TERMINATED
    }

    fn cost(&self) -> u32 {
        self.places.first().map_or(0, PhrasePosition::cost)
    }

    fn score(&mut self, scorer: usize, doc: DocId) -> f32 {
        let Some(weight) = self.weights.get(scorer) else { return 0.0 };
        weight.score(self.frequency as f32, self.length(weight, doc))
    }

    fn most(&self) -> f32 {
        self.weights.first().map_or(0.0, Weight::most)
    }

    fn exceed(&mut self, threshold: f32) {
        // The given threshold is NaN if the scores of other conditions have no upper bound.
        self.threshold = if threshold.is_nan() { f32::NEG_INFINITY } else { threshold };
    }
}
