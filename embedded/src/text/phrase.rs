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
    places: Vec<Place>,
    lengths: Lengths,
    weights: Arc<[Weight]>,
    /// How often the phrase stands in the current document.
    frequency: u32,
}

impl Phrase {
    /// Of one place or more.
    pub(super) fn new(places: Vec<Place>, lengths: Lengths, weights: Arc<[Weight]>) -> Found<Self> {
        Found::new(Self { places, lengths, weights, frequency: 0 })
    }

    fn count(&mut self, doc: DocId) -> u32 {
        let mut starts: Option<Vec<u32>> = None;
        for place in &mut self.places {
            let here = place.starts(doc);
            starts = Some(match starts {
                None => here,
                Some(before) => {
                    before.into_iter().filter(|at| here.binary_search(at).is_ok()).collect()
                }
            });
        }
        starts.map_or(0, |starts| starts.len() as u32)
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

    /// Where a phrase would begin that has one of the choices here.
    fn starts(&mut self, doc: DocId) -> Vec<u32> {
        let mut out = Vec::new();
        let mut positions = Vec::new();
        for choice in self.choices.iter_mut().filter(|choice| choice.doc() == doc) {
            choice.positions(&mut positions);
            out.extend(positions.iter().filter_map(|at| at.checked_sub(self.offset)));
        }
        out.sort_unstable();
        out.dedup();
        out
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
            self.frequency = self.count(target);
            if self.frequency > 0 {
                return target;
            }
            target += 1;
        }
        TERMINATED
    }

    fn cost(&self) -> u32 {
        let cost = |place: &Place| {
            place.choices.iter().fold(0, |sum: u32, choice| sum.saturating_add(choice.size_hint()))
        };
        self.places.iter().map(cost).min().unwrap_or(0)
    }

    fn score(&mut self, scorer: usize, doc: DocId) -> f32 {
        let Some(weight) = self.weights.get(scorer) else { return 0.0 };
        let length = if weight.wants_length() { length(&self.lengths, doc) } else { 0.0 };
        weight.score(self.frequency as f32, length)
    }
}
