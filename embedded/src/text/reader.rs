//! One look at the segments of a view: conditions become matchers, matchers become hits.

mod hits;
mod known;
mod matching;
mod prepare;
mod prepared;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use tantivy::index::InvertedIndexReader;
use tantivy::schema::IndexRecordOption;
use tantivy::{Searcher, SegmentReader};

pub(crate) use self::hits::Hits;
pub(super) use self::known::Known;
use super::best::{Bounds, Dense, FieldLengths};
use super::matcher::Lengths;
use super::query::Query;
use super::score::{Scoring, Weight};
use super::segments::{Fields, failed, lengths_column};
use super::terms::PART_END;
use crate::error::Result;

/// A found document.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    /// Its collection.
    pub(crate) collection: u64,
    /// Its local number.
    pub(crate) local: u64,
    /// The revision that was found.
    pub(crate) revision: u64,
    /// Its scores, one for each scorer.
    pub(crate) scores: Vec<f32>,
}

/// Some hits.
pub(crate) type Page = Vec<Hit>;

/// Documents of a term from which its bounds are kept; those of others are soon made.
const BOUNDS_KEPT_FROM: u32 = 512;
/// One of so many documents has a term of which a look at any document is to be cheap.
const DENSE_FROM: u32 = 16;

/// The segments of one store at one moment, and what is known of them.
pub(super) struct Piece {
    pub(super) searcher: Searcher,
    pub(super) known: Arc<Known>,
}

/// The segments of a view at one moment; those of a `search-alias` view are parts of several indexes.
pub(super) struct Reader {
    pieces: Vec<Piece>,
    fields: Fields,
}

impl Reader {
    /// Of some stores.
    pub(super) fn new(pieces: Vec<Piece>, fields: Fields) -> Self {
        Self { pieces, fields }
    }

    /// Looks for a condition; documents of other collections than those asked for are left out.
    pub(super) fn search(
        self,
        query: &Query,
        scorings: &[Scoring],
        collections: Option<BTreeSet<u64>>,
    ) -> Result<Hits> {
        let prepared = self.prepare(query, scorings, 1.0)?;
        Ok(Hits::new(self, prepared, scorings.len(), collections))
    }

    /// Makes what a search by BM25 with its defaults needs to know of frequent terms; ends early when `stopped`, or when what may
    /// be kept is full.
    pub(super) fn know(&self, stopped: &dyn Fn() -> bool) -> Result<()> {
        for segment in self.segments() {
            let known = self.known(segment);
            if !known.is_new(segment.segment_id()) {
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
                if known.bounds_of(&key).is_some() {
                    continue;
                }
                let option = IndexRecordOption::WithFreqs;
                let postings = inverted.read_block_postings_from_terminfo(info, option);
                let lengths = weight.wants_length().then_some(&**lengths);
                let made = Bounds::read(weight, postings.map_err(failed)?, lengths);
                if !known.keep_more_bounds(key, made) {
                    break;
                }
            }
            frequent.sort_by_key(|(info, _)| Reverse(info.doc_freq));
            for (info, key) in frequent {
                if stopped() || !known.has_room_for(Dense::bytes_of(segment.max_doc())) {
                    break;
                }
                let Some(bounds) = known.bounds_of(&key) else { continue };
                let option = IndexRecordOption::WithFreqs;
                let postings = inverted.read_block_postings_from_terminfo(&info, option);
                let dense = Dense::read(postings.map_err(failed)?, segment.max_doc());
                known.keep_more_bounds(
                    key,
                    Bounds::clone(&bounds).with_dense(Some(Arc::new(dense))),
                );
            }
            known.is_known(segment.segment_id());
        }
        Ok(())
    }

    fn segments(&self) -> impl Iterator<Item = &SegmentReader> {
        self.pieces.iter().flat_map(|piece| piece.searcher.segment_readers())
    }

    fn inverted(&self, segment: &SegmentReader) -> Result<Arc<InvertedIndexReader>> {
        segment.inverted_index(self.fields.terms).map_err(failed)
    }

    /// What is known of a segment.
    fn known(&self, segment: &SegmentReader) -> &Known {
        let owns = |piece: &&Piece| {
            let own = piece.searcher.segment_readers();
            own.iter().any(|one| one.segment_id() == segment.segment_id())
        };
        let (first, others) = self.pieces.split_first().expect("a segment is of a piece");
        if others.is_empty() {
            return &first.known;
        }
        &others.iter().find(owns).unwrap_or(first).known
    }
}

/// The field of a term: a path and an analyzer or type, each with the end of its part.
fn field_of(term: &str) -> Option<&str> {
    let mut ends = term.match_indices(PART_END).map(|(at, _)| at);
    ends.nth(1).map(|end| &term[..=end])
}

fn lengths(segment: &SegmentReader, field: &str) -> Result<Lengths> {
    segment.fast_fields().column_opt(&lengths_column(field)).map_err(failed)
}
