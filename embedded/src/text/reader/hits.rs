//! Iterates over the hits of a search condition, either segment by segment or from the best to the
//! worst hit.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use tantivy::{DocId, SegmentReader, TERMINATED};

use super::prepared::Prepared;
use super::segment_cache::Columns;
use super::{Page, ViewReader};
use crate::error::Result;
use crate::text::best::{Heap, ScoreWindow, Scored, Search};
use crate::text::matcher::{Every, Matcher};

/// If the filter matches fewer documents than the terms by more than this factor, a search begins
/// with the documents of the filter instead of those of the terms.
const FILTER_LEADS: u32 = 8;

/// The hits of a condition, read segment by segment or best hits first.
pub(crate) struct Hits {
    reader: ViewReader,
    prepared: Prepared,
    scorers: usize,
    collections: Option<BTreeSet<u64>>,
    segment: usize,
    open: Option<Open>,
    best: Option<Best>,
}

/// The segment that is currently being read.
struct Open {
    matcher: Box<dyn Matcher>,
    columns: Columns,
    segment: SegmentReader,
}

/// Hits that were found for sorted pages: score, segment, document and, with several scorers, all
/// scores.
struct Best {
    found: Vec<(f32, u32, DocId, Vec<f32>)>,
    taken: usize,
    columns: Vec<Columns>,
    /// Whether `found` contains all hits of the condition.
    whole: bool,
}

impl Hits {
    /// Creates an iterator over the hits of a prepared condition. With `collections`, the iterator
    /// returns only documents of these collections.
    pub(super) fn new(
        reader: ViewReader,
        prepared: Prepared,
        scorers: usize,
        collections: Option<BTreeSet<u64>>,
    ) -> Self {
        Self { reader, prepared, scorers, collections, segment: 0, open: None, best: None }
    }

    /// Returns the next hits, at most `max`, in no particular order. Returns an empty page at the
    /// end.
    pub(crate) fn next(&mut self, max: usize) -> Result<Page> {
        let mut page = Vec::new();
        while page.len() < max {
            let Some(open) = &mut self.open else {
                if !self.open_next()? {
                    break;
                }
                continue;
            };
            let doc = open.matcher.doc();
            if doc == TERMINATED {
                self.open = None;
                continue;
            }
            if !open.segment.is_deleted(doc) {
                let scores = (0..self.scorers).map(|scorer| open.matcher.score(scorer));
                let hit = open.columns.hit(doc, scores.collect());
                if self.collections.as_ref().is_none_or(|of| of.contains(&hit.collection)) {
                    page.push(hit);
                }
            }
            open.matcher.advance();
        }
        Ok(page)
    }

    fn open_next(&mut self) -> Result<bool> {
        let Some(segment) = self.reader.segments().nth(self.segment) else { return Ok(false) };
        let matcher = self.reader.matcher(&self.prepared, segment)?;
        let columns = self.reader.columns(segment)?;
        self.open = Some(Open { matcher, columns, segment: segment.clone() });
        self.segment += 1;
        Ok(true)
    }

    /// Returns the next best hits by one scorer, at most `max`, in descending order. Returns an
    /// empty page at the end. During a search, `held` is regularly called with the memory that new
    /// hits take, in bytes; its error ends the search. If `ties` is true, the caller may also need
    /// later hits with the same score as the last returned hit, so the search keeps more hits than
    /// requested.
    pub(crate) fn next_best(
        &mut self,
        scorer: usize,
        max: usize,
        ties: bool,
        held: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Page> {
        let taken = match &self.best {
            Some(best) if best.whole || best.taken < best.found.len() => None,
            Some(best) => Some(best.taken),
            None => Some(0),
        };
        if let Some(taken) = taken {
            // The first search keeps a few more hits than requested if the caller may need hits
            // with equal scores. Later searches keep many more hits.
            let most = match (taken, ties) {
                (0, false) => max,
                (0, true) => max + max / 2 + 8,
                _ => 8 * (taken + max),
            };
            let mut best = match self.find_best(scorer, most, held)? {
                Some(best) => best,
                None if self.scorers == 1 => self.find_some(most, held)?,
                None => self.find_all(scorer, held)?,
            };
            best.skip(taken);
            self.best = Some(best);
        }
        let best = self.best.as_mut().expect("found above");
        let rest = &mut best.found[best.taken..];
        let count = max.min(rest.len());
        if count < rest.len() && count > 0 {
            rest.select_nth_unstable_by(count - 1, falling);
        }
        rest[..count].sort_unstable_by(falling);
        best.taken += count;
        let page = rest[..count].iter_mut().map(|(score, segment, doc, scores)| {
            let scores = std::mem::take(scores);
            let scores = if scores.is_empty() { vec![*score] } else { scores };
            best.columns[*segment as usize].hit(*doc, scores)
        });
        Ok(page.collect())
    }

    fn find_all(
        &mut self,
        scorer: usize,
        held: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Best> {
        /// Number of documents between two reports of the memory used.
        const STEP: usize = 4096;
        // A separate list of scores per hit is kept only with several scorers, because most queries
        // have one scorer and many hits.
        let list = if self.scorers > 1 { self.scorers * size_of::<f32>() } else { 0 };
        let entry = size_of::<(f32, u32, DocId, Vec<f32>)>() + list;
        let (mut looked, mut reported) = (0_usize, 0);
        let (mut found, mut columns) = (Vec::new(), Vec::new());
        for (number, segment) in self.reader.segments().enumerate() {
            let own = self.reader.columns(segment)?;
            let mut matcher = self.reader.matcher(&self.prepared, segment)?;
            while matcher.doc() != TERMINATED {
                let doc = matcher.doc();
                let collection = || own.0[1].first(doc).unwrap_or_default();
                let wanted = self.collections.as_ref().is_none_or(|of| of.contains(&collection()));
                if wanted && !segment.is_deleted(doc) {
                    let (score, scores) = if self.scorers > 1 {
                        let scores: Vec<f32> =
                            (0..self.scorers).map(|n| matcher.score(n)).collect();
                        (scores[scorer], scores)
                    } else {
                        (matcher.score(scorer), Vec::new())
                    };
                    found.push((score, number as u32, doc, scores));
                }
                looked += 1;
                if looked.is_multiple_of(STEP) {
                    held((found.len() - reported) * entry)?;
                    reported = found.len();
                }
                matcher.advance();
            }
            columns.push(own);
        }
        Ok(Best { found, taken: 0, columns, whole: true })
    }

    /// Returns the documents with the best scores by the only scorer, at most `most` documents. The
    /// matcher may skip documents that cannot be among the best.
    fn find_some(
        &mut self,
        most: usize,
        held: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Best> {
        /// Number of documents between two updates of the score threshold.
        const STEP: usize = 64;
        let mut heap = Heap::new(most);
        let (mut looked, mut columns) = (0_usize, Vec::new());
        for (number, segment) in (0..).zip(self.reader.segments()) {
            let own = self.reader.columns(segment)?;
            let mut matcher = self.reader.matcher(&self.prepared, segment)?;
            if heap.is_full() {
                matcher.exceed(heap.threshold());
            }
            while matcher.doc() != TERMINATED {
                let doc = matcher.doc();
                let collection = || own.0[1].first(doc).unwrap_or_default();
                let wanted = self.collections.as_ref().is_none_or(|of| of.contains(&collection()));
                if wanted && !segment.is_deleted(doc) {
                    heap.offer(Scored { score: matcher.score(0), segment: number, doc });
                }
                looked += 1;
                if looked.is_multiple_of(STEP) {
                    held(0)?;
                    if heap.is_full() {
                        matcher.exceed(heap.threshold());
                    }
                }
                matcher.advance();
            }
            columns.push(own);
        }
        let whole = !heap.is_full();
        let found = heap.into_all().into_iter();
        let found = found.map(|one| (one.score, one.segment, one.doc, Vec::new())).collect();
        Ok(Best { found, taken: 0, columns, whole })
    }

    /// Returns the documents with the best scores for an OR of terms, at most `most` documents.
    /// Returns `None` if the condition does not have this form.
    fn find_best(
        &self,
        scorer: usize,
        most: usize,
        held: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Option<Best>> {
        let Some(disjunction) = self.prepared.disjunction().filter(|_| self.scorers == 1) else {
            return Ok(None);
        };
        let (mut heap, mut window) = (Heap::new(most), ScoreWindow::new());
        let mut columns = Vec::new();
        for (number, segment) in (0..).zip(self.reader.segments()) {
            let own = self.reader.columns(segment)?;
            columns.push(own.clone());
            let wanted = |doc: DocId| {
                let collection = || own.0[1].first(doc).unwrap_or_default();
                !segment.is_deleted(doc)
                    && self.collections.as_ref().is_none_or(|of| of.contains(&collection()))
            };
            let lengths = self.reader.field_lengths(segment, disjunction.field)?;
            let Some(terms) = self.reader.term_postings(segment, &disjunction, &lengths)? else {
                return Ok(None);
            };
            if terms.is_empty() {
                continue;
            }
            let filters = disjunction.filters.iter().map(|part| self.reader.matcher(part, segment));
            let filters = filters.collect::<Result<Vec<_>>>()?;
            let filter = (!filters.is_empty()).then(|| Every::new(filters));
            let postings = terms.iter().fold(0, |sum: u32, term| sum.saturating_add(term.count()));
            if filter.as_ref().is_some_and(|filter| filter.cost() < postings / FILTER_LEADS) {
                let mut matcher = self.reader.matcher(&self.prepared, segment)?;
                while matcher.doc() != TERMINATED {
                    let doc = matcher.doc();
                    if wanted(doc) {
                        let score = matcher.score(scorer);
                        heap.offer(Scored { score, segment: number, doc });
                    }
                    matcher.advance();
                }
                held(0)?;
            } else {
                let filter = filter.map(|filter| Box::new(filter) as Box<dyn Matcher>);
                let documents = segment.max_doc();
                let search =
                    Search { segment: number, documents, lengths: &lengths, terms, filter };
                search.run(&mut window, &mut heap, wanted, &mut || held(0))?;
            }
        }
        let whole = !heap.is_full();
        let found = heap.into_all().into_iter();
        let found = found.map(|one| (one.score, one.segment, one.doc, Vec::new())).collect();
        Ok(Some(Best { found, taken: 0, columns, whole }))
    }
}

impl Best {
    /// Skips the hits that earlier pages contained.
    fn skip(&mut self, taken: usize) {
        self.taken = taken.min(self.found.len());
        if self.taken > 0 {
            self.found.sort_unstable_by(falling);
        }
    }
}

fn falling(a: &(f32, u32, DocId, Vec<f32>), b: &(f32, u32, DocId, Vec<f32>)) -> Ordering {
    b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2)))
}
