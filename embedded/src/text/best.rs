//! Finds the documents with the highest scores for an OR of terms, or of groups of terms, by the
//! algorithm MaxScore (Turtle and Flood 1995) with score bounds for each block of postings (Ding
//! and Suel 2011).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tantivy::columnar::Column;
use tantivy::postings::BlockSegmentPostings;
use tantivy::{DocId, TERMINATED};

use super::matcher::Matcher;
use super::score::Weight;

/// Maximum number of consecutive documents in a window, the range whose scores are summed together.
const WINDOW: usize = 4096;
/// Number of documents in the first window, which is small because the score threshold is low at
/// first. Each further window is twice as large, up to `WINDOW`.
const WINDOW_FIRST: DocId = 512;
/// Number of documents in a block of postings (tantivy's block size).
const BLOCK: usize = 128;
/// The largest four-bit code of a term frequency. It represents a frequency of 15 and every larger
/// frequency.
const MANY: u8 = 15;
/// Number of candidate documents that are scored together before the score threshold is read again.
const CHUNK: usize = 32;
/// Maximum number of blocks of postings of a rare term. If a search requires rare terms, it skips
/// windows without any of them.
const SPARSE_BLOCKS_MAX: usize = 64;
/// Factor that raises score bounds, so that rounding cannot lift a score above its bound.
const SLACK: f32 = 1.000_1;
/// Maximum factor by which a changed mean field length may raise stored score bounds. Above this
/// factor, the stored bounds are not used.
const GROWTH_MAX: f32 = 1.05;
/// The largest compressed field length; the lengths of all longer fields are compressed to this
/// value too.
const LENGTH_LONG: u16 = u16::MAX;

/// Lengths of one field in all documents of a segment, compressed to 16 bits.
#[derive(Debug)]
pub(super) struct FieldLengths {
    short: Vec<u16>,
    column: Option<Column<i64>>,
}

impl FieldLengths {
    /// Reads the field lengths of all documents.
    pub(super) fn read(column: Option<Column<i64>>, documents: DocId) -> Self {
        let mut short = vec![0; documents as usize];
        if let Some(column) = &column {
            for (doc, short) in (0..).zip(&mut short) {
                let length = column.first(doc).unwrap_or(0);
                *short = u16::try_from(length.max(0)).unwrap_or(LENGTH_LONG);
            }
        }
        Self { short, column }
    }

    /// Returns the size of the compressed lengths in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.short.len() * size_of::<u16>()
    }

    /// Writes the field lengths of the documents `docs` to `lengths`.
    fn of_all(&self, docs: &[DocId], lengths: &mut [f32]) {
        for (doc, length) in docs.iter().zip(lengths) {
            *length = self.of(*doc);
        }
    }

    /// Returns the length of the field in a document, or 0 if the document does not have the field.
    fn of(&self, doc: DocId) -> f32 {
        match self.short.get(doc as usize) {
            Some(&LENGTH_LONG) | None => {
                let length = self.column.as_ref().and_then(|column| column.first(doc));
                length.map_or(0.0, |length| length as f32)
            }
            Some(short) => f32::from(*short),
        }
    }
}

/// Upper bounds of a term's contribution to scores (with weight 1), for each block of postings.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    unit: Weight,
    /// For each block of postings, its last document and its highest score.
    blocks: Vec<(DocId, f32)>,
    /// Highest score in all blocks of the term's postings.
    highest: f32,
    /// The term's frequencies in all documents, if they are cached for this term.
    dense: Option<Arc<Dense>>,
}

impl Bounds {
    /// Computes the score bounds from all postings of a term.
    pub(super) fn read(
        weight: &Weight,
        mut postings: BlockSegmentPostings,
        lengths: Option<&FieldLengths>,
    ) -> Self {
        let unit = weight.unit();
        let mut blocks = Vec::with_capacity(postings.doc_freq() as usize / 128 + 1);
        while let Some(last) = postings.docs().last() {
            let scores = postings.docs().iter().zip(postings.freqs()).map(|(doc, frequency)| {
                unit.score(*frequency as f32, lengths.map_or(0.0, |lengths| lengths.of(*doc)))
            });
            blocks.push((*last, scores.fold(0.0, f32::max)));
            postings.advance();
        }
        let highest = blocks.iter().map(|(_, score)| *score).fold(0.0, f32::max);
        Self { unit, blocks, highest, dense: None }
    }

    /// Adds the cached frequencies of the term in all documents.
    pub(super) fn with_dense(self, dense: Option<Arc<Dense>>) -> Self {
        Self { dense, ..self }
    }

    /// Returns the term's frequencies in all documents, if cached.
    pub(super) fn dense(&self) -> Option<&Arc<Dense>> {
        self.dense.as_ref()
    }

    /// Returns the factor by which the stored score bounds must be multiplied for a weight, or
    /// `None` if they do not apply to this weight.
    pub(super) fn factor(&self, weight: &Weight) -> Option<f32> {
        let growth = self.unit.growth(&weight.unit())?;
        (growth <= GROWTH_MAX).then_some(growth * weight.scale() * SLACK)
    }

    /// Returns the size of the score bounds in bytes, without the term's frequencies.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<(DocId, f32)>()
    }

    /// Returns the size of the term's cached frequencies in bytes.
    pub(super) fn dense_bytes(&self) -> usize {
        self.dense.as_ref().map_or(0, |dense| dense.0.len())
    }
}

/// The frequencies of a term in all documents of a segment, with four bits each. They are faster to
/// read than postings.
#[derive(Debug)]
pub(super) struct Dense(Vec<u8>);

impl Dense {
    /// Returns the size of a term's frequencies in a segment with the given number of documents, in
    /// bytes.
    pub(super) fn bytes_of(documents: DocId) -> usize {
        documents.div_ceil(2) as usize
    }

    /// Reads the frequencies from all postings of a term.
    pub(super) fn read(mut postings: BlockSegmentPostings, documents: DocId) -> Self {
        let mut all = vec![0; Self::bytes_of(documents)];
        while !postings.docs().is_empty() {
            for (doc, frequency) in postings.docs().iter().zip(postings.freqs()) {
                let frequency = (*frequency).min(u32::from(MANY)) as u8;
                all[*doc as usize / 2] |= frequency << (doc % 2 * 4);
            }
            postings.advance();
        }
        Self(all)
    }

    /// Returns the term's frequency in a document, or `None` if the frequency is too large for four
    /// bits.
    fn frequency(&self, doc: DocId) -> Option<u8> {
        let frequency = (self.0[doc as usize / 2] >> (doc % 2 * 4)) & MANY;
        (frequency < MANY).then_some(frequency)
    }
}

/// A document and its score. Of documents with equal scores, the document that comes first in the
/// segments is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scored {
    pub(super) score: f32,
    pub(super) segment: u32,
    pub(super) doc: DocId,
}

impl Eq for Scored {}

impl Ord for Scored {
    /// Compares documents so that the worse one is greater, because a heap removes its greatest
    /// element first.
    fn cmp(&self, other: &Self) -> Ordering {
        let earlier = (self.segment, self.doc).cmp(&(other.segment, other.doc));
        other.score.total_cmp(&self.score).then(earlier)
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The best documents that a search has found so far, in all segments.
pub(super) struct Heap {
    kept: BinaryHeap<Scored>,
    most: usize,
}

impl Heap {
    /// Creates a heap for at most the given number of documents.
    pub(super) fn new(most: usize) -> Self {
        Self { kept: BinaryHeap::new(), most: most.max(1) }
    }

    /// Returns the score that the next document must exceed to be among the best.
    pub(super) fn threshold(&self) -> f32 {
        match self.kept.peek() {
            Some(worst) if self.kept.len() == self.most => worst.score,
            _ => f32::NEG_INFINITY,
        }
    }

    /// Adds a document if it is among the best. Documents must be offered in ascending order.
    pub(super) fn offer(&mut self, scored: Scored) {
        if scored.score > self.threshold() {
            if self.kept.len() == self.most {
                self.kept.pop();
            }
            self.kept.push(scored);
        }
    }

    /// Whether the heap is full. If it is full, more documents may match than the heap contains.
    pub(super) fn is_full(&self) -> bool {
        self.kept.len() == self.most
    }

    /// Returns all documents, unordered.
    pub(super) fn into_all(self) -> Vec<Scored> {
        self.kept.into_vec()
    }
}

/// The postings of one term of an OR condition in one segment.
pub(super) struct TermPostings {
    weight: Weight,
    /// Number of the group whose scores are summed before they are added to the scores of the
    /// groups before it. The numbers of successive terms ascend.
    group: usize,
    bounds: Arc<Bounds>,
    factor: f32,
    /// A cursor that reads the postings window by window, and the number of its current block.
    scan: BlockSegmentPostings,
    block: usize,
    /// A cursor that looks up single documents in ascending order.
    probe: BlockSegmentPostings,
}

impl TermPostings {
    /// Combines a term's score bounds with two cursors, both at the term's first posting. Returns
    /// `None` if the stored bounds do not apply to the weight.
    pub(super) fn new(
        (weight, group): (Weight, usize),
        bounds: Arc<Bounds>,
        scan: BlockSegmentPostings,
        probe: BlockSegmentPostings,
    ) -> Option<Self> {
        let factor = bounds.factor(&weight)?;
        Some(Self { weight, group, bounds, factor, scan, block: 0, probe })
    }

    /// Returns the number of documents with the term.
    pub(super) fn count(&self) -> u32 {
        self.scan.doc_freq()
    }

    /// Returns an upper bound of the term's score in any document.
    fn highest(&self) -> f32 {
        self.bounds.highest * self.factor
    }

    /// Returns a lower bound of the next document at or after `from` that contains the term. For a
    /// rare term, the bound is that next document itself; for other terms, the bound is `from`.
    fn next_place(&mut self, from: DocId) -> DocId {
        if self.bounds.blocks.len() > SPARSE_BLOCKS_MAX {
            return from;
        }
        let at = self.scan.seek(from);
        self.scan.docs().get(at).copied().unwrap_or(TERMINATED)
    }

    /// Returns an upper bound of the term's score in a window, and advances to the window's first
    /// block of postings.
    fn bound(&mut self, start: DocId, end: DocId) -> f32 {
        let blocks = &self.bounds.blocks;
        while blocks.get(self.block).is_some_and(|(last, _)| *last < start) {
            self.block += 1;
        }
        let mut bound = 0.0_f32;
        for (last, score) in &blocks[self.block..] {
            bound = bound.max(*score);
            if *last >= end - 1 {
                break;
            }
        }
        bound * self.factor
    }

    /// Passes the term's documents in a window and their scores to `take`. Skips blocks whose bound
    /// plus `others`, the bound of all other terms, does not exceed the threshold.
    fn walk(
        &mut self,
        (start, end): (DocId, DocId),
        lengths: &FieldLengths,
        others: f32,
        threshold: f32,
        scores: &mut [f32],
        mut take: impl FnMut(&[DocId], &[f32]),
    ) {
        let mut from = start;
        let mut block = self.block;
        while let Some((last, score)) = self.bounds.blocks.get(block)
            && from < end
        {
            if score * self.factor + others > threshold {
                let at = self.scan.seek(from);
                let docs = &self.scan.docs()[at..];
                let docs = if *last < end {
                    docs
                } else {
                    &docs[..docs.partition_point(|doc| *doc < end)]
                };
                let frequencies = &self.scan.freqs()[at..at + docs.len()];
                let scores = &mut scores[..docs.len()];
                lengths.of_all(docs, scores);
                self.weight.score_all(frequencies, scores);
                take(docs, scores);
            }
            from = *last + 1;
            block += 1;
        }
    }

    /// Returns the term's score in a document. Successive calls must pass documents in ascending
    /// order.
    fn score(&mut self, doc: DocId, lengths: &FieldLengths) -> f32 {
        match self.bounds.dense.as_ref().and_then(|dense| dense.frequency(doc)) {
            Some(0) => return 0.0,
            Some(some) => return self.weight.score(f32::from(some), lengths.of(doc)),
            None => {}
        }
        let at = self.probe.seek(doc);
        if at < self.probe.block_len() && self.probe.doc(at) == doc {
            self.weight.score(self.probe.freq(at) as f32, lengths.of(doc))
        } else {
            0.0
        }
    }
}

/// The score sums of the documents in a window. One value is reused for all windows and segments of
/// a search.
pub(super) struct ScoreWindow {
    start: DocId,
    end: DocId,
    sums: Vec<f32>,
    touched: Vec<u64>,
    /// Documents of the window that may be among the best, with their score sums so far.
    candidates: Vec<(DocId, f32)>,
    /// Buffer for the scores of the documents in one block of a posting list.
    scores: Vec<f32>,
    /// Buffer for the scores of one group of [`CHUNK`] candidates, by term.
    found: Vec<[f32; CHUNK]>,
}

impl ScoreWindow {
    /// Creates an empty window.
    pub(super) fn new() -> Self {
        Self {
            start: 0,
            end: 0,
            sums: Vec::new(),
            touched: Vec::new(),
            candidates: Vec::new(),
            scores: vec![0.0; BLOCK],
            found: Vec::new(),
        }
    }

    /// Moves the documents with a score sum above `least` to the candidates, in ascending order,
    /// and clears the sums.
    fn settle(&mut self, least: f32) {
        for (word, touched) in self.touched.iter_mut().enumerate() {
            let mut bits = std::mem::take(touched);
            while bits != 0 {
                let at = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let sum = std::mem::take(&mut self.sums[at % WINDOW]);
                if sum > least {
                    self.candidates.push((self.start + at as DocId, sum));
                }
            }
        }
    }
}

/// A search for the best documents in one segment.
pub(super) struct Search<'a> {
    pub(super) segment: u32,
    pub(super) documents: DocId,
    pub(super) lengths: &'a FieldLengths,
    pub(super) terms: Vec<TermPostings>,
    /// A condition that documents must also fulfil.
    pub(super) filter: Option<Box<dyn Matcher>>,
}

impl Search<'_> {
    /// Offers to the heap all documents of the segment that may be among the best. Documents for
    /// which `wanted` returns false are left out. The function `look` is called for each window of
    /// documents; its error stops the search.
    pub(super) fn run<E>(
        mut self,
        window: &mut ScoreWindow,
        heap: &mut Heap,
        wanted: impl Fn(DocId) -> bool,
        look: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        (window.start, window.end) = (0, 0);
        let mut width = WINDOW_FIRST;
        let mut order: Vec<(f32, usize)> = Vec::with_capacity(self.terms.len());
        let mut by_highest: Vec<(f32, usize)> =
            self.terms.iter().map(TermPostings::highest).zip(0..).collect();
        by_highest.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        while window.end < self.documents {
            window.start = self.next_place(window.end, &by_highest, heap.threshold());
            if window.start >= self.documents {
                break;
            }
            window.end = window.start.saturating_add(width).min(self.documents);
            width = (width * 2).min(WINDOW as DocId);
            look()?;
            order.clear();
            let bounds = self.terms.iter_mut().map(|term| term.bound(window.start, window.end));
            order.extend(bounds.zip(0..));
            order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            // The terms with the smallest bounds are optional, as long as their bounds together do
            // not exceed the threshold.
            let threshold = heap.threshold();
            let mut sum = 0.0;
            let optional = order.iter().take_while(|(bound, _)| {
                sum += bound;
                sum * SLACK <= threshold
            });
            let optional = optional.count();
            self.gather(window, &order, optional, threshold);
            let mut candidates = std::mem::take(&mut window.candidates);
            for some in candidates.chunks_mut(CHUNK) {
                self.consider(some, &order, optional, &mut window.found, heap, &wanted);
            }
            window.candidates = candidates;
        }
        Ok(())
    }

    /// Collects the documents of a window whose scores may exceed the threshold. Only documents
    /// with a required term are considered, because the first `optional` terms in `order` alone
    /// cannot exceed the threshold.
    fn gather(
        &mut self,
        window: &mut ScoreWindow,
        order: &[(f32, usize)],
        optional: usize,
        threshold: f32,
    ) {
        let (optional, needed) = order.split_at(optional);
        let rest: f32 = optional.iter().map(|(bound, _)| bound).sum();
        // A document is not among the best if the scores of its required terms sum to at most
        // `least`.
        let least = threshold / SLACK - rest * SLACK;
        let range = (window.start, window.end);
        let ScoreWindow { candidates, scores, sums, touched, .. } = &mut *window;
        candidates.clear();
        if let [(_, term)] = *needed {
            let keep = |docs: &[DocId], scores: &[f32]| {
                let both = docs.iter().copied().zip(scores.iter().copied());
                candidates.extend(both.filter(|(_, score)| *score > least));
            };
            self.terms[term].walk(range, self.lengths, rest * SLACK, threshold, scores, keep);
            return;
        }
        // With several required terms, the scores of each document must be summed.
        sums.resize(WINDOW, 0.0);
        touched.resize(WINDOW / 64, 0);
        let all: f32 = order.iter().map(|(bound, _)| bound).sum();
        for (bound, term) in needed {
            let add = |docs: &[DocId], scores: &[f32]| {
                for (doc, score) in docs.iter().zip(scores) {
                    let at = (doc - range.0) as usize % WINDOW;
                    sums[at] += score;
                    touched[at / 64] |= 1 << (at % 64);
                }
            };
            let others = (all - bound) * SLACK;
            self.terms[*term].walk(range, self.lengths, others, threshold, scores, add);
        }
        window.settle(least);
    }

    /// Returns a lower bound of the next document at or after `from` whose score may exceed the
    /// threshold.
    fn next_place(&mut self, from: DocId, by_highest: &[(f32, usize)], threshold: f32) -> DocId {
        let mut sum = 0.0;
        let optional = by_highest.iter().take_while(|(bound, _)| {
            sum += bound;
            sum * SLACK <= threshold
        });
        let needed = &by_highest[optional.count()..];
        needed
            .iter()
            .map(|(_, term)| self.terms[*term].next_place(from))
            .min()
            .unwrap_or(TERMINATED)
    }

    /// Completes the scores of candidates, term by term, and offers the best ones to the heap. A
    /// candidate is dropped as soon as it cannot be among the best.
    fn consider(
        &mut self,
        candidates: &mut [(DocId, f32)],
        order: &[(f32, usize)],
        optional: usize,
        found: &mut Vec<[f32; CHUNK]>,
        heap: &mut Heap,
        wanted: &impl Fn(DocId) -> bool,
    ) {
        let (optional, needed) = order.split_at(optional);
        found.resize(order.len(), [0.0; CHUNK]);
        let mut places = [0_u8; CHUNK];
        let mut rest: f32 = optional.iter().map(|(bound, _)| bound).sum();
        let least = heap.threshold() / SLACK - rest * SLACK;
        let mut left = 0;
        for (place, (_, sum)) in (0..).zip(&*candidates) {
            places[left] = place;
            left += usize::from(*sum > least);
        }
        if let [(_, term)] = *needed {
            for (score, (_, sum)) in found[term].iter_mut().zip(&*candidates) {
                *score = *sum;
            }
        }
        for (bound, term) in optional.iter().rev() {
            rest = (rest - bound).max(0.0);
            let least = heap.threshold() / SLACK - rest * SLACK;
            let scores = &mut found[*term];
            let term = &mut self.terms[*term];
            let mut kept = 0;
            for at in 0..left {
                let place = usize::from(places[at]);
                let (doc, sum) = &mut candidates[place];
                let score = term.score(*doc, self.lengths);
                scores[place] = score;
                *sum += score;
                places[kept] = place as u8;
                kept += usize::from(*sum > least);
            }
            left = kept;
        }
        for place in &places[..left] {
            let place = usize::from(*place);
            let (doc, sum) = candidates[place];
            if sum * SLACK <= heap.threshold() {
                continue;
            }
            let fulfilled = match &mut self.filter {
                None => true,
                Some(filter) => {
                    let found = if filter.doc() < doc { filter.seek(doc) } else { filter.doc() };
                    found != TERMINATED && found == doc
                }
            };
            if !fulfilled || !wanted(doc) {
                continue;
            }
            if needed.len() > 1 {
                for (_, term) in needed {
                    found[*term][place] = self.terms[*term].score(doc, self.lengths);
                }
            }
            // Scores are summed in the order of the query's terms and groups, so that rounding is
            // the same as in other searches.
            let groups = self.terms.chunk_by(|one, next| one.group == next.group);
            let mut scores = found.iter().map(|scores| scores[place]);
            let score = groups.map(|group| scores.by_ref().take(group.len()).sum::<f32>()).sum();
            heap.offer(Scored { score, segment: self.segment, doc });
        }
    }
}
