//! Phrases: terms that stand one behind the other, with gaps and with several choices for one place.

use std::sync::Arc;

use tantivy::postings::{Postings, SegmentPostings};
use tantivy::{DocId, DocSet, TERMINATED};

use super::matcher::{Finder, Found, Lengths, length};
use super::score::Weight;

/// One place of a phrase: the postings of what may stand there.
pub(super) struct Place {
    /// How far it is from the first place.
    pub(super) offset: u32,
    /// Postings with positions, one for each term.
    pub(super) choices: Vec<SegmentPostings>,
}

/// Documents with a phrase.
pub(super) struct Phrase {
    /// The rarest first: it leads.
    places: Vec<Place>,
    lengths: Lengths,
    weights: Arc<[Weight]>,
    /// How often the phrase stands in the current document.
    frequency: u32,
    /// What a document has to score more than.
    threshold: f32,
    /// Places of the current document, kept for the next one.
    starts: Vec<u32>,
    here: Vec<u32>,
}

/// What a bound is raised by, so that no rounding puts a score above it.
const SLACK: f32 = 1.000_1;

impl Phrase {
    /// Of one place or more.
    pub(super) fn new(
        mut places: Vec<Place>,
        lengths: Lengths,
        weights: Arc<[Weight]>,
    ) -> Found<Self> {
        places.sort_by_key(Place::cost);
        let threshold = f32::NEG_INFINITY;
        let (starts, here) = (Vec::new(), Vec::new());
        Found::new(Self { places, lengths, weights, frequency: 0, threshold, starts, here })
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

    /// Whether a document may score enough: a phrase stands there no more often than the rarest of its terms.
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

impl Place {
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

    /// How often its terms stand in a document that all places have come to.
    fn frequency(&self, doc: DocId) -> u32 {
        let here = self.choices.iter().filter(|choice| choice.doc() == doc);
        here.fold(0, |sum: u32, choice| sum.saturating_add(choice.term_freq()))
    }

    /// Where a phrase would begin that has one of the choices here, in rising order.
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
        self.places.first().map_or(0, Place::cost)
    }

    fn score(&mut self, scorer: usize, doc: DocId) -> f32 {
        let Some(weight) = self.weights.get(scorer) else { return 0.0 };
        weight.score(self.frequency as f32, self.length(weight, doc))
    }

    fn most(&self) -> f32 {
        self.weights.first().map_or(0.0, Weight::most)
    }

    fn exceed(&mut self, threshold: f32) {
        // What others add may have no bound.
        self.threshold = if threshold.is_nan() { f32::NEG_INFINITY } else { threshold };
    }
}
