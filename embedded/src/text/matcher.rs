//! Matchers, which are iterators over the matching documents of one segment, in ascending order,
//! with scores.

use std::sync::Arc;

use tantivy::columnar::Column;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::BitSetDocSet;
use tantivy::{DocId, DocSet, TERMINATED};

use super::query::Between;
use super::score::Weight;

/// An iterator over the documents of one segment that fulfil a search condition.
pub(super) trait Matcher: Send {
    /// Returns the matcher's current document, or `TERMINATED` after the last document.
    fn doc(&self) -> DocId;
    /// Advances the matcher to the next document and returns it.
    fn advance(&mut self) -> DocId;
    /// Advances the matcher to the first document at or after `target`, and returns it; `target`
    /// must not precede the current document.
    fn seek(&mut self, target: DocId) -> DocId;
    /// Returns the approximate number of matching documents.
    fn cost(&self) -> u32;
    /// Returns the current document's score, computed by the scorer with the given number.
    fn score(&mut self, scorer: usize) -> f32;
    /// Returns an upper bound of the first scorer's scores.
    fn most(&self) -> f32 {
        0.0
    }
    /// Allows the matcher to skip documents whose score from the first scorer does not exceed a
    /// threshold, or to return too low a score for them.
    fn exceed(&mut self, _threshold: f32) {}
}

/// A search for the first matching document at or after a given document.
pub(super) trait Finder: Send {
    /// Returns the first matching document at or after `target`, or `TERMINATED` if there is none.
    fn find(&mut self, target: DocId) -> DocId;
    /// Returns the approximate number of matching documents.
    fn cost(&self) -> u32;
    /// Returns the last found document's score, computed by the scorer with the given number.
    fn score(&mut self, scorer: usize, doc: DocId) -> f32;
    /// Returns an upper bound of the first scorer's scores.
    fn most(&self) -> f32 {
        0.0
    }
    /// Allows the finder to skip documents, as with [`Matcher::exceed`].
    fn exceed(&mut self, _threshold: f32) {}
}

/// A matcher that gets its documents from a [`Finder`].
pub(super) struct FinderMatcher<F> {
    finder: F,
    doc: DocId,
}

impl<F: Finder> FinderMatcher<F> {
    /// Creates a matcher positioned at the first matching document.
    pub(super) fn new(mut finder: F) -> Self {
        let doc = finder.find(0);
        Self { finder, doc }
    }
}

impl<F: Finder> Matcher for FinderMatcher<F> {
    fn doc(&self) -> DocId {
        self.doc
    }

    fn advance(&mut self) -> DocId {
        if self.doc != TERMINATED {
            self.doc = self.finder.find(self.doc + 1);
        }
        self.doc
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc < target {
            self.doc = self.finder.find(target);
        }
        self.doc
    }

    fn cost(&self) -> u32 {
        self.finder.cost()
    }

    fn score(&mut self, scorer: usize) -> f32 {
        self.finder.score(scorer, self.doc)
    }

    fn most(&self) -> f32 {
        self.finder.most()
    }

    fn exceed(&mut self, threshold: f32) {
        self.finder.exceed(threshold);
    }
}

/// The column with the lengths of one field, if the segment has it.
pub(super) type Lengths = Option<Column<i64>>;

/// Returns the length of the field in a document, or 0 if the document does not have the field.
pub(super) fn length(lengths: &Lengths, doc: DocId) -> f32 {
    lengths.as_ref().and_then(|column| column.first(doc)).map_or(0.0, |length| length as f32)
}

/// Matches the documents with a term.
pub(super) struct Term {
    pub(super) postings: SegmentPostings,
    pub(super) lengths: Lengths,
    pub(super) weights: Arc<[Weight]>,
}

impl Matcher for Term {
    fn doc(&self) -> DocId {
        self.postings.doc()
    }

    fn advance(&mut self) -> DocId {
        self.postings.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.postings.seek(target)
    }

    fn cost(&self) -> u32 {
        self.postings.size_hint()
    }

    fn score(&mut self, scorer: usize) -> f32 {
        let Some(weight) = self.weights.get(scorer) else { return 0.0 };
        let length =
            if weight.wants_length() { length(&self.lengths, self.postings.doc()) } else { 0.0 };
        weight.score(self.postings.term_freq() as f32, length)
    }

    fn most(&self) -> f32 {
        self.weights.first().map_or(0.0, Weight::most)
    }
}

/// Matches the documents of a set; all scores are 0.
pub(super) struct Set(pub(super) BitSetDocSet, pub(super) u32);

impl Matcher for Set {
    fn doc(&self) -> DocId {
        self.0.doc()
    }

    fn advance(&mut self) -> DocId {
        self.0.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.0.seek(target)
    }

    fn cost(&self) -> u32 {
        self.1
    }

    fn score(&mut self, _: usize) -> f32 {
        0.0
    }
}

/// Finds the documents with a number in a range; all scores are 0.
pub(super) struct Numbers {
    between: Between,
    column: Column<f64>,
    /// The document id that follows the last document to check.
    end: DocId,
}

impl Numbers {
    /// Creates a matcher that checks the documents before `end`.
    pub(super) fn new(between: Between, column: Column<f64>, end: DocId) -> FinderMatcher<Self> {
        FinderMatcher::new(Self { between, column, end })
    }
}

impl Finder for Numbers {
    fn find(&mut self, target: DocId) -> DocId {
        let holds =
            |doc: &DocId| self.column.values_for_doc(*doc).any(|number| self.between.holds(number));
        (target..self.end).find(holds).unwrap_or(TERMINATED)
    }

    fn cost(&self) -> u32 {
        self.end
    }

    fn score(&mut self, _: usize, _: DocId) -> f32 {
        0.0
    }
}

/// Matches all documents of a segment.
pub(super) struct All {
    doc: DocId,
    end: DocId,
}

impl All {
    /// Creates a matcher of all documents before `end`.
    pub(super) fn new(end: DocId) -> Self {
        Self { doc: if end == 0 { TERMINATED } else { 0 }, end }
    }
}

impl Matcher for All {
    fn doc(&self) -> DocId {
        self.doc
    }

    fn advance(&mut self) -> DocId {
        self.seek(self.doc.saturating_add(1))
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.doc = if target < self.end { target } else { TERMINATED };
        self.doc
    }

    fn cost(&self) -> u32 {
        self.end
    }

    fn score(&mut self, _: usize) -> f32 {
        0.0
    }
}

/// Matches the documents that all child matchers match. The child with the fewest documents
/// proposes candidates.
pub(super) struct Every {
    children: Vec<Box<dyn Matcher>>,
    doc: DocId,
}

impl Every {
    /// Creates a matcher from one or more child matchers.
    pub(super) fn new(mut children: Vec<Box<dyn Matcher>>) -> Self {
        children.sort_by_key(|child| child.cost());
        let first = children.first().map_or(TERMINATED, |child| child.doc());
        let mut every = Self { children, doc: TERMINATED };
        every.doc = every.align(first);
        every
    }

    fn align(&mut self, mut target: DocId) -> DocId {
        'again: while target != TERMINATED {
            for child in &mut self.children {
                let doc = if child.doc() < target { child.seek(target) } else { child.doc() };
                if doc > target {
                    target = doc;
                    continue 'again;
                }
            }
            return target;
        }
        TERMINATED
    }
}

impl Matcher for Every {
    fn doc(&self) -> DocId {
        self.doc
    }

    fn advance(&mut self) -> DocId {
        if self.doc != TERMINATED {
            let next = self.children[0].advance();
            self.doc = self.align(next);
        }
        self.doc
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc < target {
            self.doc = self.align(target);
        }
        self.doc
    }

    fn cost(&self) -> u32 {
        self.children.first().map_or(0, |child| child.cost())
    }

    fn score(&mut self, scorer: usize) -> f32 {
        self.children.iter_mut().map(|child| child.score(scorer)).sum()
    }

    fn most(&self) -> f32 {
        self.children.iter().map(|child| child.most()).sum()
    }

    fn exceed(&mut self, threshold: f32) {
        exceed_together(&mut self.children, threshold);
    }
}

/// Sets each child's threshold to the given threshold minus the score bounds of all other children.
fn exceed_together(children: &mut [Box<dyn Matcher>], threshold: f32) {
    let all: f32 = children.iter().map(|child| child.most()).sum();
    for child in children {
        let others = all - child.most();
        child.exceed(threshold - others);
    }
}

/// Matches the documents that at least `least` child matchers match.
pub(super) struct Enough {
    /// Whether a document's score is the highest of the children's scores instead of their sum.
    highest: bool,
    children: Vec<Box<dyn Matcher>>,
    least: usize,
    doc: DocId,
}

impl Enough {
    /// Creates a matcher from one or more child matchers; `least` must be at least 1.
    pub(super) fn new(children: Vec<Box<dyn Matcher>>, least: usize) -> Self {
        let mut enough = Self { highest: false, children, least, doc: TERMINATED };
        enough.doc = enough.find();
        enough
    }

    /// Creates a matcher of the documents that any child matches; the score is the highest of the
    /// matching children's scores.
    pub(super) fn highest(children: Vec<Box<dyn Matcher>>) -> Self {
        Self { highest: true, ..Self::new(children, 1) }
    }

    /// Advances the children from their current positions to the first document that enough of them
    /// match, and returns it.
    fn find(&mut self) -> DocId {
        loop {
            let doc = self.children.iter().map(|child| child.doc()).min().unwrap_or(TERMINATED);
            if doc == TERMINATED {
                return TERMINATED;
            }
            if self.children.iter().filter(|child| child.doc() == doc).count() >= self.least {
                return doc;
            }
            self.pass(doc);
        }
    }

    fn pass(&mut self, doc: DocId) {
        for child in self.children.iter_mut().filter(|child| child.doc() == doc) {
            child.advance();
        }
    }
}

impl Matcher for Enough {
    fn doc(&self) -> DocId {
        self.doc
    }

    fn advance(&mut self) -> DocId {
        if self.doc != TERMINATED {
            self.pass(self.doc);
            self.doc = self.find();
        }
        self.doc
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc < target {
            for child in self.children.iter_mut().filter(|child| child.doc() < target) {
                child.seek(target);
            }
            self.doc = self.find();
        }
        self.doc
    }

    fn cost(&self) -> u32 {
        self.children.iter().fold(0, |cost: u32, child| cost.saturating_add(child.cost()))
    }

    fn score(&mut self, scorer: usize) -> f32 {
        let doc = self.doc;
        let here = self.children.iter_mut().filter(|child| child.doc() == doc);
        let scores = here.map(|child| child.score(scorer));
        if self.highest { scores.reduce(f32::max).unwrap_or_default() } else { scores.sum() }
    }

    fn most(&self) -> f32 {
        let most = self.children.iter().map(|child| child.most());
        if self.highest { most.reduce(f32::max).unwrap_or_default() } else { most.sum() }
    }

    fn exceed(&mut self, threshold: f32) {
        if self.highest {
            self.children.iter_mut().for_each(|child| child.exceed(threshold));
        } else {
            exceed_together(&mut self.children, threshold);
        }
    }
}

/// Matches the documents that the child matcher does not match.
pub(super) struct Not {
    child: Box<dyn Matcher>,
    all: All,
}

impl Not {
    /// Creates a matcher over the documents before `end`.
    pub(super) fn new(child: Box<dyn Matcher>, end: DocId) -> Self {
        let mut not = Self { child, all: All::new(end) };
        not.skip();
        not
    }

    fn skip(&mut self) -> DocId {
        loop {
            let doc = self.all.doc();
            if doc == TERMINATED {
                return doc;
            }
            let other =
                if self.child.doc() < doc { self.child.seek(doc) } else { self.child.doc() };
            if other != doc {
                return doc;
            }
            self.all.advance();
        }
    }
}

impl Matcher for Not {
    fn doc(&self) -> DocId {
        self.all.doc()
    }

    fn advance(&mut self) -> DocId {
        self.all.advance();
        self.skip()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.all.doc() < target {
            self.all.seek(target);
        }
        self.skip()
    }

    fn cost(&self) -> u32 {
        self.all.cost()
    }

    fn score(&mut self, _: usize) -> f32 {
        0.0
    }
}
