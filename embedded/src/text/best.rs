//! The best documents of a disjunction of terms, without a look at those that cannot be among them (MaxScore by Turtle and Flood
//! 1995, in windows of documents and with a bound for each block of postings, after Ding and Suel 2011).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tantivy::columnar::Column;
use tantivy::postings::BlockSegmentPostings;
use tantivy::{DocId, TERMINATED};

use super::matcher::Matcher;
use super::score::Weight;

/// Documents of a window, over which scores are added up.
const WINDOW: usize = 4096;
/// Documents of the first window; each further one is twice as large, since there is little to exceed at first.
const WINDOW_FIRST: DocId = 512;
/// Documents of a block of postings (tantivy's).
const BLOCK: usize = 128;
/// What stands for this frequency and all above.
const MANY: u8 = 15;
/// Candidates that are scored together, before what they have to exceed is looked at again.
const CHUNK: usize = 32;
/// Blocks of a term that is so rare that windows without it are worth finding.
const SPARSE_BLOCKS_MAX: usize = 64;
/// What a bound is raised by, so that no rounding puts a score above it.
const SLACK: f32 = 1.000_1;
/// Times that bounds may have grown with the mean length before they are made anew.
const GROWTH_MAX: f32 = 1.05;
/// The length that stands for itself and all longer ones.
const LENGTH_LONG: u16 = u16::MAX;

/// Lengths of one field of a segment by document, in little memory.
#[derive(Debug)]
pub(super) struct FieldLengths {
    short: Vec<u16>,
    column: Option<Column<i64>>,
}

impl FieldLengths {
    /// Reads all of them.
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

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.short.len() * size_of::<u16>()
    }

    /// The lengths of several documents.
    fn of_all(&self, docs: &[DocId], lengths: &mut [f32]) {
        for (doc, length) in docs.iter().zip(lengths) {
            *length = self.of(*doc);
        }
    }

    /// The length of a document's field, 0 without one.
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

/// What the postings of a term can add to a score at most, by block, for a weight of 1.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    unit: Weight,
    /// Last document and highest score of each block.
    blocks: Vec<(DocId, f32)>,
    /// Highest score of all.
    highest: f32,
    /// Frequencies in all documents, of a term that many of them have.
    dense: Option<Arc<Dense>>,
}

impl Bounds {
    /// Looks at all postings of a term.
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

    /// The same with the frequencies in all documents.
    pub(super) fn with_dense(self, dense: Option<Arc<Dense>>) -> Self {
        Self { dense, ..self }
    }

    /// Frequencies in all documents, where they are known.
    pub(super) fn dense(&self) -> Option<&Arc<Dense>> {
        self.dense.as_ref()
    }

    /// What to multiply them by for a weight now; none if they do not fit it.
    pub(super) fn factor(&self, weight: &Weight) -> Option<f32> {
        let growth = self.unit.growth(&weight.unit())?;
        (growth <= GROWTH_MAX).then_some(growth * weight.scale() * SLACK)
    }

    /// Bytes in memory, without the frequencies.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<(DocId, f32)>()
    }

    /// Bytes of the frequencies.
    pub(super) fn dense_bytes(&self) -> usize {
        self.dense.as_ref().map_or(0, |dense| dense.0.len())
    }
}

/// How often a frequent term stands in each document of a segment, four bits each: a look costs less than a place in postings.
#[derive(Debug)]
pub(super) struct Dense(Vec<u8>);

impl Dense {
    /// Bytes that it takes.
    pub(super) fn bytes_of(documents: DocId) -> usize {
        documents.div_ceil(2) as usize
    }

    /// Looks at all postings of a term.
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

    /// How often it stands there; None if that is more often than four bits tell.
    fn frequency(&self, doc: DocId) -> Option<u8> {
        let frequency = (self.0[doc as usize / 2] >> (doc % 2 * 4)) & MANY;
        (frequency < MANY).then_some(frequency)
    }
}

/// A document and its score; of two with one score the earlier is the better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scored {
    pub(super) score: f32,
    pub(super) segment: u32,
    pub(super) doc: DocId,
}

impl Eq for Scored {}

impl Ord for Scored {
    /// The worse is the greater, so that a heap gives it away first.
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

/// The best so far, over the segments in their order.
pub(super) struct Heap {
    kept: BinaryHeap<Scored>,
    most: usize,
}

impl Heap {
    /// Keeps so many.
    pub(super) fn new(most: usize) -> Self {
        Self { kept: BinaryHeap::new(), most: most.max(1) }
    }

    /// What a document that comes now has to exceed.
    pub(super) fn threshold(&self) -> f32 {
        match self.kept.peek() {
            Some(worst) if self.kept.len() == self.most => worst.score,
            _ => f32::NEG_INFINITY,
        }
    }

    /// Takes a document that comes after all that were offered before it.
    pub(super) fn offer(&mut self, scored: Scored) {
        if scored.score > self.threshold() {
            if self.kept.len() == self.most {
                self.kept.pop();
            }
            self.kept.push(scored);
        }
    }

    /// Whether it holds as many as it may, so that there may be others.
    pub(super) fn is_full(&self) -> bool {
        self.kept.len() == self.most
    }

    /// All of them, in no order.
    pub(super) fn into_all(self) -> Vec<Scored> {
        self.kept.into_vec()
    }
}

/// A term of the disjunction in one segment.
pub(super) struct TermPostings {
    weight: Weight,
    bounds: Arc<Bounds>,
    factor: f32,
    /// Walks window by window; the number of its block.
    scan: BlockSegmentPostings,
    block: usize,
    /// Looks at single documents, in rising order.
    probe: BlockSegmentPostings,
}

impl TermPostings {
    /// Two cursors at the first posting; none if the bounds do not fit the weight.
    pub(super) fn new(
        weight: Weight,
        bounds: Arc<Bounds>,
        scan: BlockSegmentPostings,
        probe: BlockSegmentPostings,
    ) -> Option<Self> {
        let factor = bounds.factor(&weight)?;
        Some(Self { weight, bounds, factor, scan, block: 0, probe })
    }

    /// Documents with the term.
    pub(super) fn count(&self) -> u32 {
        self.scan.doc_freq()
    }

    /// What any document can get of this term at most.
    fn highest(&self) -> f32 {
        self.bounds.highest * self.factor
    }

    /// The first document from `from` on that may have the term; the very first one where the term is rare.
    fn next_place(&mut self, from: DocId) -> DocId {
        if self.bounds.blocks.len() > SPARSE_BLOCKS_MAX {
            return from;
        }
        let at = self.scan.seek(from);
        self.scan.docs().get(at).copied().unwrap_or(TERMINATED)
    }

    /// What the documents of a window can get of this term at most; the walk goes on at its first block.
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

    /// Hands the term's documents of a window with their scores on, but for blocks that with `others` do not exceed the
    /// threshold.
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

    /// The term's score of a document, which is not before the last one that was asked for.
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

/// Sums of a window's documents; one serves all segments of a search.
pub(super) struct Window {
    start: DocId,
    end: DocId,
    sums: Vec<f32>,
    touched: Vec<u64>,
    /// Documents of the window that may be among the best, with what they have of the terms looked at first.
    candidates: Vec<(DocId, f32)>,
    /// Scores of a block.
    scores: Vec<f32>,
    /// Scores of some candidates, term by term.
    found: Vec<[f32; CHUNK]>,
}

impl Window {
    /// An empty one.
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

    /// Empties it into the documents that exceed a sum, in their order.
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

/// One segment's part of the search.
pub(super) struct Search<'a> {
    pub(super) segment: u32,
    pub(super) documents: DocId,
    pub(super) lengths: &'a FieldLengths,
    pub(super) terms: Vec<TermPostings>,
    /// What a document has to fulfil besides.
    pub(super) filter: Option<Box<dyn Matcher>>,
}

impl Search<'_> {
    /// Offers all documents that may be among the best; `wanted` says whether one counts, `look` is asked now and then whether to go on.
    pub(super) fn run<E>(
        mut self,
        window: &mut Window,
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
            // The first ones of them cannot lift a document above the threshold, all together.
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

    /// Collects the documents of a window that the terms behind the first `optional` ones may have lifted above the threshold.
    fn gather(
        &mut self,
        window: &mut Window,
        order: &[(f32, usize)],
        optional: usize,
        threshold: f32,
    ) {
        let (optional, needed) = order.split_at(optional);
        let rest: f32 = optional.iter().map(|(bound, _)| bound).sum();
        // With no more than this in the needed terms a document is not among the best.
        let least = threshold / SLACK - rest * SLACK;
        let range = (window.start, window.end);
        let Window { candidates, scores, sums, touched, .. } = &mut *window;
        candidates.clear();
        if let [(_, term)] = *needed {
            let keep = |docs: &[DocId], scores: &[f32]| {
                let both = docs.iter().copied().zip(scores.iter().copied());
                candidates.extend(both.filter(|(_, score)| *score > least));
            };
            self.terms[term].walk(range, self.lengths, rest * SLACK, threshold, scores, keep);
            return;
        }
        // A search for one word needs no sums.
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

    /// Where the first document is, from `from` on, that has a term without which nothing exceeds the threshold.
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

    /// Scores some documents of a window in full, as far as it can matter.
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
            // Added up in the order of the query, as every other way to this score does.
            let score = found.iter().map(|scores| scores[place]).sum();
            heap.offer(Scored { score, segment: self.segment, doc });
        }
    }
}
