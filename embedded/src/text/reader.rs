//! Searches the segments of a view: converts conditions to matchers, and matchers to hits.

mod hits;
mod matching;
mod prepare;
mod prepared;
mod segment_cache;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use tantivy::index::InvertedIndexReader;
use tantivy::schema::IndexRecordOption;
use tantivy::{Searcher, SegmentReader};

pub(crate) use self::hits::Hits;
pub(super) use self::segment_cache::SegmentCache;
use super::best::{Bounds, Dense, FieldLengths};
use super::matcher::Lengths;
use super::query::Query;
use super::score::{Scoring, Weight};
use super::segments::{Fields, failed, lengths_column};
use super::terms::PART_END;
use crate::error::Result;

/// A document that a search found.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    /// Id of the found document's collection.
    pub(crate) collection: u64,
    /// Local id of the found document.
    pub(crate) local: u64,
    /// Revision of the document in the segment.
    pub(crate) revision: u64,
    /// The found document's scores, one for each scorer.
    pub(crate) scores: Vec<f32>,
}

/// A page of hits.
pub(crate) type Page = Vec<Hit>;

/// Minimum number of documents of a term whose score bounds are cached. The bounds of rarer terms
/// are not cached, because they are computed quickly.
const BOUNDS_KEPT_FROM: u32 = 512;
/// A term gets a table of its frequencies if it occurs in at least 1/`DENSE_FROM` of a segment's
/// documents.
const DENSE_FROM: u32 = 16;

/// A snapshot of the segments of one store, with cached data of these segments.
pub(super) struct Piece {
    pub(super) searcher: Searcher,
    pub(super) cache: Arc<SegmentCache>,
}

/// A snapshot of the segments of a view. The segments of a `search-alias` view belong to several
/// inverted indexes, each with its own store.
pub(super) struct ViewReader {
    pieces: Vec<Piece>,
    fields: Fields,
}

impl ViewReader {
    /// Creates a reader of the segments of one or more stores.
    pub(super) fn new(pieces: Vec<Piece>, fields: Fields) -> Self {
        Self { pieces, fields }
    }

    /// Searches for documents that fulfil a condition. With `collections`, returns only documents
    /// of these collections.
    pub(super) fn search(
        self,
        query: &Query,
        scorings: &[Scoring],
        collections: Option<BTreeSet<u64>>,
    ) -> Result<Hits> {
        let prepared = self.prepare(query, scorings, 1.0)?;
        Ok(Hits::new(self, prepared, scorings.len(), collections))
    }

    /// Computes and caches data of frequent terms, for searches with BM25 and its default
    /// arguments. Ends early if `stopped` returns true or the cache is full.
    pub(super) fn know(&self, stopped: &dyn Fn() -> bool) -> Result<()> {
        for segment in self.segments() {
            let cache = self.cache(segment);
            if !cache.is_new(segment.segment_id()) {
                continue;
            }
            let inverted = self.inverted(segment)?;
            let mut terms = inverted.terms().stream().map_err(failed)?;
            let mut field: Option<(String, Weight, Arc<FieldLengths>)> = None;
            let mut frequent = Vec::new();
            while terms.advance() {
                let info = terms.value();
                if info.doc_freq < BOUNDS_KEPT_FROM {
                    continue;
                }
                if stopped() {
                    return Ok(());
                }
                let term = std::str::from_utf8(terms.key()).map_err(failed)?;
                let Some(name) = field_of(term) else { continue };
                if field.as_ref().is_none_or(|(known, ..)| known != name) {
                    let weight = Weight::usual(self.statistics(name)?);
                    let lengths = self.field_lengths(segment, name)?;
                    field = Some((name.to_owned(), weight, lengths));
                }
                let Some((_, weight, lengths)) = &field else { continue };
                let key = (segment.segment_id(), term.to_owned());
                if info.doc_freq >= segment.max_doc() / DENSE_FROM {
                    frequent.push((info.clone(), key.clone()));
                }
                if cache.bounds_of(&key).is_some() {
                    continue;
                }
                let option = IndexRecordOption::WithFreqs;
                let postings = inverted.read_block_postings_from_terminfo(info, option);
                let lengths = weight.wants_length().then_some(&**lengths);
                let made = Bounds::read(weight, postings.map_err(failed)?, lengths);
                if !cache.keep_more_bounds(key, made) {
                    break;
                }
            }
            frequent.sort_by_key(|(info, _)| Reverse(info.doc_freq));
            for (info, key) in frequent {
                if stopped() || !cache.has_room_for(Dense::bytes_of(segment.max_doc())) {
                    break;
                }
                let Some(bounds) = cache.bounds_of(&key) else { continue };
                let option = IndexRecordOption::WithFreqs;
                let postings = inverted.read_block_postings_from_terminfo(&info, option);
                let dense = Dense::read(postings.map_err(failed)?, segment.max_doc());
                cache.keep_more_bounds(
                    key,
                    Bounds::clone(&bounds).with_dense(Some(Arc::new(dense))),
                );
            }
            cache.note_known(segment.segment_id());
        }
        Ok(())
    }

    fn segments(&self) -> impl Iterator<Item = &SegmentReader> {
        self.pieces.iter().flat_map(|piece| piece.searcher.segment_readers())
    }

    fn inverted(&self, segment: &SegmentReader) -> Result<Arc<InvertedIndexReader>> {
        segment.inverted_index(self.fields.terms).map_err(failed)
    }

    /// Returns the cache of the store to which a segment belongs.
    fn cache(&self, segment: &SegmentReader) -> &SegmentCache {
        let owns = |piece: &&Piece| {
            let own = piece.searcher.segment_readers();
            own.iter().any(|one| one.segment_id() == segment.segment_id())
        };
        let (first, others) = self.pieces.split_first().expect("each segment belongs to a piece");
        if others.is_empty() {
            return &first.cache;
        }
        &others.iter().find(owns).unwrap_or(first).cache
    }
}

/// Returns the field at the beginning of a term: the path and the analyzer or type, each with the
/// byte that ends it.
fn field_of(term: &str) -> Option<&str> {
    let mut ends = term.match_indices(PART_END).map(|(at, _)| at);
    ends.nth(1).map(|end| &term[..=end])
}

fn lengths(segment: &SegmentReader, field: &str) -> Result<Lengths> {
    segment.fast_fields().column_opt(&lengths_column(field)).map_err(failed)
}
