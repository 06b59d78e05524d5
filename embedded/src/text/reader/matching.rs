//! Converts prepared conditions to matchers over one segment.

use std::collections::BTreeMap;
use std::sync::Arc;

use tantivy::query::BitSetDocSet;
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocSet as _, SegmentReader, TERMINATED};

use super::prepared::{Disjunction, Prepared};
use super::segment_cache::{Columns, LOOKED_UP};
use super::{BOUNDS_KEPT_FROM, ViewReader, lengths};
use crate::error::Result;
use crate::limits::VIEW_LENGTHS_BYTES_MAX;
use crate::text::best::{Bounds, FieldLengths, TermPostings};
use crate::text::matcher::{All, Enough, Every, Matcher, Not, Numbers, Set, Term};
use crate::text::ngram::Ngrams;
use crate::text::phrase::{Phrase, PhrasePosition};
use crate::text::query::{Selection, Tokens};
use crate::text::score::Weight;
use crate::text::segments::{failed, numbers_column};

impl ViewReader {
    pub(super) fn matcher(
        &self,
        prepared: &Prepared,
        segment: &SegmentReader,
    ) -> Result<Box<dyn Matcher>> {
        let children = |children: &[Prepared]| -> Result<Vec<_>> {
            children.iter().map(|child| self.matcher(child, segment)).collect()
        };
        Ok(match prepared {
            Prepared::All => Box::new(All::new(segment.max_doc())),
            Prepared::Nothing => Box::new(All::new(0)),
            Prepared::Every(queries) => {
                let parts = queries.iter().filter(|part| !part.is_idle());
                let mut parts =
                    parts.map(|part| self.matcher(part, segment)).collect::<Result<Vec<_>>>()?;
                match parts.len() {
                    0 => Box::new(All::new(segment.max_doc())),
                    1 => parts.remove(0),
                    _ => Box::new(Every::new(parts)),
                }
            }
            Prepared::Enough(0, _) => Box::new(All::new(segment.max_doc())),
            Prepared::Enough(least, queries) => Box::new(Enough::new(children(queries)?, *least)),
            Prepared::Not(query) => {
                Box::new(Not::new(self.matcher(query, segment)?, segment.max_doc()))
            }
            Prepared::Between(between) => {
                let column = segment.fast_fields().column_opt(&numbers_column(&between.field));
                match column.map_err(failed)? {
                    Some(column) => {
                        Box::new(Numbers::new(between.clone(), column, segment.max_doc()))
                    }
                    None => Box::new(All::new(0)),
                }
            }
            Prepared::Terms { selection, weights, others } => {
                self.term_matcher(segment, selection, weights, *others)?
            }
            Prepared::Phrase { field, places, weights } => {
                self.phrase_matcher(segment, field, places, weights)?
            }
            Prepared::Ngram { field, terms, least, weights } => {
                let inverted = self.inverted(segment)?;
                let postings = |term: &String| -> Result<_> {
                    let found = inverted.terms().get(term).map_err(failed)?;
                    let option = IndexRecordOption::WithFreqsAndPositions;
                    let read = |info| inverted.read_postings_from_terminfo(&info, option);
                    found.map(read).transpose().map_err(failed)
                };
                let mut found = BTreeMap::new();
                for (place, term) in terms.iter().enumerate() {
                    if !found.contains_key(term)
                        && let Some(postings) = postings(term)?
                    {
                        found.insert(term.clone(), (postings, Vec::new()));
                    }
                    if let Some((_, places)) = found.get_mut(term) {
                        places.push(place);
                    }
                }
                let found = found.into_values().collect();
                let lengths = lengths(segment, field)?;
                Box::new(Ngrams::new(found, terms.len(), *least, lengths, weights.clone()))
            }
        })
    }

    fn term_matcher(
        &self,
        segment: &SegmentReader,
        selection: &Selection,
        weights: &BTreeMap<String, Arc<[Weight]>>,
        others: bool,
    ) -> Result<Box<dyn Matcher>> {
        let inverted = self.inverted(segment)?;
        let mut children: Vec<Box<dyn Matcher>> = Vec::new();
        let wants_length = |weights: &Arc<[Weight]>| weights.iter().any(Weight::wants_length);
        let lengths = if weights.values().any(wants_length) {
            lengths(segment, &selection.field)?
        } else {
            None
        };
        for (term, weights) in weights {
            let Some(info) = inverted.terms().get(term).map_err(failed)? else { continue };
            let option = if weights.is_empty() {
                IndexRecordOption::Basic
            } else {
                IndexRecordOption::WithFreqs
            };
            let postings = inverted.read_postings_from_terminfo(&info, option).map_err(failed)?;
            let (lengths, weights) = (lengths.clone(), weights.clone());
            children.push(Box::new(Term { postings, lengths, weights }));
        }
        if others {
            let mut set = BitSet::with_max_value(segment.max_doc());
            self.visit(segment, selection, |term, info| {
                if weights.contains_key(term) {
                    return Ok(());
                }
                let mut postings = inverted
                    .read_postings_from_terminfo(info, IndexRecordOption::Basic)
                    .map_err(failed)?;
                while postings.doc() != TERMINATED {
                    set.insert(postings.doc());
                    postings.advance();
                }
                Ok(())
            })?;
            if let Tokens::Geo(test) = &selection.tokens {
                test.check()?;
            }
            let count = u32::try_from(set.len()).unwrap_or(u32::MAX);
            children.push(Box::new(Set(BitSetDocSet::from(set), count)));
        }
        if children.len() == 1 {
            return Ok(children.remove(0));
        }
        Ok(Box::new(match &selection.tokens {
            Tokens::Near(_) => Enough::highest(children),
            _ => Enough::new(children, 1),
        }))
    }

    /// Returns the columns of a segment, and caches them for later searches.
    pub(super) fn columns(&self, segment: &SegmentReader) -> Result<Columns> {
        let (cache, key) = (self.cache(segment), segment.segment_id());
        if let Some(columns) = cache.columns.lock().expect(LOOKED_UP).get(&key) {
            return Ok(columns.clone());
        }
        let made = Columns::of(segment)?;
        cache.columns.lock().expect(LOOKED_UP).insert(key, made.clone());
        Ok(made)
    }

    /// Returns the lengths of a field in a segment, and caches them for later searches.
    pub(super) fn field_lengths(
        &self,
        segment: &SegmentReader,
        field: &str,
    ) -> Result<Arc<FieldLengths>> {
        let key = (segment.segment_id(), field.to_owned());
        if let Some(cached) = self.cache(segment).lengths.lock().expect(LOOKED_UP).get(&key) {
            return Ok(cached.clone());
        }
        let made = Arc::new(FieldLengths::read(lengths(segment, field)?, segment.max_doc()));
        let mut lengths = self.cache(segment).lengths.lock().expect(LOOKED_UP);
        lengths.insert(key, made.clone());
        if lengths.values().map(|lengths| lengths.bytes()).sum::<usize>() > VIEW_LENGTHS_BYTES_MAX {
            lengths.clear();
        }
        Ok(made)
    }

    /// Returns the postings of an OR's terms in a segment, or `None` if a term has no usable score
    /// bounds.
    pub(super) fn term_postings(
        &self,
        segment: &SegmentReader,
        disjunction: &Disjunction<'_>,
        lengths: &FieldLengths,
    ) -> Result<Option<Vec<TermPostings>>> {
        let inverted = self.inverted(segment)?;
        let mut terms = Vec::with_capacity(disjunction.terms.len());
        for (term, weight, group) in &disjunction.terms {
            let Some(info) = inverted.terms().get(term).map_err(failed)? else { continue };
            let postings = || {
                let option = IndexRecordOption::WithFreqs;
                inverted.read_block_postings_from_terminfo(&info, option).map_err(failed)
            };
            let key = (segment.segment_id(), (*term).to_owned());
            let known = self.cache(segment).bounds_of(&key);
            let bounds = match known {
                Some(known) if known.factor(weight).is_some() => known,
                known => {
                    let lengths = weight.wants_length().then_some(lengths);
                    let dense = known.and_then(|known| known.dense().cloned());
                    let made = Bounds::read(weight, postings()?, lengths).with_dense(dense);
                    let made = Arc::new(made);
                    if info.doc_freq >= BOUNDS_KEPT_FROM {
                        self.cache(segment).keep_bounds(key, &made);
                    }
                    made
                }
            };
            match TermPostings::new((*weight, *group), bounds, postings()?, postings()?) {
                Some(term) => terms.push(term),
                None => return Ok(None),
            }
        }
        Ok(Some(terms))
    }

    fn phrase_matcher(
        &self,
        segment: &SegmentReader,
        field: &str,
        places: &[(u32, Vec<String>)],
        weights: &Arc<[Weight]>,
    ) -> Result<Box<dyn Matcher>> {
        let inverted = self.inverted(segment)?;
        let mut found = Vec::new();
        for (offset, terms) in places {
            let mut choices = Vec::new();
            for term in terms {
                let Some(info) = inverted.terms().get(term).map_err(failed)? else { continue };
                let option = IndexRecordOption::WithFreqsAndPositions;
                choices.push(inverted.read_postings_from_terminfo(&info, option).map_err(failed)?);
            }
            if choices.is_empty() {
                return Ok(Box::new(All::new(0)));
            }
            found.push(PhrasePosition { offset: *offset, choices });
        }
        Ok(Box::new(Phrase::new(found, lengths(segment, field)?, weights.clone())))
    }
}
