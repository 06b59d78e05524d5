//! Prepares search conditions: looks up their terms in all segments, and computes the weights of
//! the terms for every scorer.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tantivy::SegmentReader;
use tantivy::columnar::Column;

use super::prepared::Prepared;
use super::segment_cache::LOOKED_UP;
use super::{ViewReader, lengths};
use crate::error::{Code, Error, Result};
use crate::limits::{VIEW_PHRASE_TERMS_MAX, VIEW_SCORED_TERMS_MAX};
use crate::text::query::{Edits, Field, Part, Query, Selection, Tokens, stored};
use crate::text::score::{FieldStatistics, Scoring, Weight};
use crate::text::segments::failed;

/// A floating-point number with a total order, as a key of sorted sets.
struct Rising(f32);

impl PartialEq for Rising {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rising {}

impl PartialOrd for Rising {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rising {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl ViewReader {
    pub(super) fn prepare(
        &self,
        query: &Query,
        scorings: &[Scoring],
        boost: f32,
    ) -> Result<Prepared> {
        let all = |queries: &[Query]| -> Result<Vec<Prepared>> {
            queries.iter().map(|query| self.prepare(query, scorings, boost)).collect()
        };
        Ok(match query {
            Query::All => Prepared::All,
            Query::Nothing => Prepared::Nothing,
            Query::Equal(field, value) => self.terms(field.equal(value)?, scorings, boost)?,
            Query::Range(field, lower, upper) => {
                // In a search without scores, comparing numbers in a column is faster than looking
                // up many terms.
                let between = field.between(lower.as_ref(), upper.as_ref());
                if let Some(between) = between.filter(|_| scorings.is_empty() || boost == 0.0) {
                    return Ok(Prepared::Between(between));
                }
                match field.range(lower.as_ref(), upper.as_ref())? {
                    Some(selection) => self.terms(selection, scorings, boost)?,
                    None => Prepared::Nothing,
                }
            }
            Query::Prefix(field, prefix) => {
                self.terms(field.selection(Tokens::Prefix(prefix.clone())), scorings, boost)?
            }
            Query::Like(field, pattern) if field.analysis.is_wildcard() => {
                self.terms(field.wholes(Tokens::Like(pattern.clone())), &[], boost)?
            }
            Query::Like(field, pattern) => {
                self.terms(field.selection(Tokens::Like(pattern.clone())), scorings, boost)?
            }
            Query::Near(field, edits) => {
                self.terms(field.selection(Tokens::Near(edits.clone())), scorings, boost)?
            }
            Query::Exists(path, what) => self.terms(stored(path, what), scorings, boost)?,
            Query::Phrase(field, parts) => self.phrase(field, parts, scorings, boost)?,
            Query::Geo(field, test) if field.analysis.is_geo() => {
                self.terms(field.shapes(test.clone()), &[], boost)?
            }
            Query::Geo(..) => Prepared::Nothing,
            Query::Ngram(field, tokens, share) => {
                self.ngram(field, tokens, *share, scorings, boost)?
            }
            Query::And(queries) => Prepared::Every(all(queries)?),
            Query::AtLeast(least, queries) => {
                let mut parts = all(queries)?;
                if *least == 1 {
                    merge_phrases(&mut parts);
                }
                Prepared::Enough(*least, parts)
            }
            Query::Not(query) => Prepared::Not(Box::new(self.prepare(query, &[], boost)?)),
            Query::Boost(query, factor) => self.prepare(query, scorings, boost * factor)?,
        })
    }

    /// Looks up the selected terms and computes their weights. If there are too many terms, only
    /// the most frequent ones get weights.
    fn terms(&self, selection: Selection, scorings: &[Scoring], boost: f32) -> Result<Prepared> {
        let (terms, others) = match &selection.tokens {
            Tokens::One(token) => (vec![format!("{}{token}", selection.field)], false),
            Tokens::Near(edits) => {
                let weights = self.near_weights(&selection, edits, scorings, boost)?;
                return Ok(Prepared::Terms { selection, weights, others: false });
            }
            _ if scorings.is_empty() => (Vec::new(), true),
            _ => self.most_frequent(&selection)?,
        };
        let mut weights = BTreeMap::new();
        for term in terms {
            let weight = self.weights(&selection, &[&term], scorings, boost)?;
            weights.insert(term, weight);
        }
        Ok(Prepared::Terms { selection, weights, others })
    }

    /// Computes the weights of the terms within an edit distance of a target. As in ArangoDB, the
    /// weight of each term uses the sum of the document frequencies of all these terms, and nearer
    /// terms have larger weights.
    fn near_weights(
        &self,
        selection: &Selection,
        edits: &Edits,
        scorings: &[Scoring],
        boost: f32,
    ) -> Result<BTreeMap<String, Arc<[Weight]>>> {
        let terms = self.nearest(selection, edits)?;
        let mut frequency = 0;
        if !scorings.is_empty() {
            for (term, _) in &terms {
                frequency += self.frequency(term)?;
            }
        }
        let weigh = |(term, similarity): (String, f32)| {
            let weights = self.weights_of(selection, &[frequency], scorings, boost * similarity)?;
            Ok((term, weights))
        };
        terms.into_iter().map(weigh).collect()
    }

    /// Computes the weight of one or more terms for each scorer.
    fn weights(
        &self,
        selection: &Selection,
        terms: &[&String],
        scorings: &[Scoring],
        boost: f32,
    ) -> Result<Arc<[Weight]>> {
        if scorings.is_empty() {
            return Ok(Arc::default());
        }
        let frequencies =
            terms.iter().map(|term| self.frequency(term)).collect::<Result<Vec<_>>>()?;
        self.weights_of(selection, &frequencies, scorings, boost)
    }

    fn weights_of(
        &self,
        selection: &Selection,
        frequencies: &[u64],
        scorings: &[Scoring],
        boost: f32,
    ) -> Result<Arc<[Weight]>> {
        let Some(features) = selection.features.filter(|_| !scorings.is_empty()) else {
            return Ok(Arc::default());
        };
        let field = self.statistics(&selection.field)?;
        let weigh = |scoring: &Scoring| Weight::new(*scoring, features, field, frequencies, boost);
        Ok(scorings.iter().map(weigh).collect())
    }

    /// Returns the number of documents with a term. A removed document counts until its segment is
    /// merged.
    fn frequency(&self, term: &str) -> Result<u64> {
        let mut sum = 0;
        for segment in self.segments() {
            let found = self.inverted(segment)?.terms().get(term).map_err(failed)?;
            sum += found.map_or(0, |info| u64::from(info.doc_freq));
        }
        Ok(sum)
    }

    pub(super) fn statistics(&self, field: &str) -> Result<FieldStatistics> {
        let mut sum = FieldStatistics::default();
        for piece in &self.pieces {
            for segment in piece.searcher.segment_readers() {
                let key = (segment.segment_id(), field.to_owned());
                let known = piece.cache.statistics.lock().expect(LOOKED_UP).get(&key).copied();
                let found = match known {
                    Some(found) => found,
                    None => {
                        let found = lengths(segment, field)?.map_or_else(Default::default, counted);
                        piece.cache.statistics.lock().expect(LOOKED_UP).insert(key, found);
                        found
                    }
                };
                sum.documents += found.documents;
                sum.tokens += found.tokens;
            }
        }
        Ok(sum)
    }

    /// Calls `visit` for each selected term in a segment, with the term's metadata, such as its
    /// number of documents.
    pub(super) fn visit(
        &self,
        segment: &SegmentReader,
        selection: &Selection,
        mut visit: impl FnMut(&str, &tantivy::postings::TermInfo) -> Result<()>,
    ) -> Result<()> {
        let field = &selection.field;
        let inverted = self.inverted(segment)?;
        if selection.tokens.looks_at_all() {
            let id = segment.segment_id();
            if let Some(all) = self.cache(segment).vocabulary(id, field, inverted.terms())? {
                return all.select(&selection.tokens, |token| {
                    let term = format!("{field}{token}");
                    match inverted.terms().get(&term).map_err(failed)? {
                        Some(info) => visit(&term, &info),
                        None => Ok(()),
                    }
                });
            }
        }
        let (lower, inclusive) = selection.tokens.lower().unwrap_or((String::new(), true));
        let lower = format!("{field}{lower}");
        let range = inverted.terms().range();
        let range = if inclusive { range.ge(&lower) } else { range.gt(&lower) };
        let mut stream = range.into_stream().map_err(failed)?;
        while stream.advance() {
            let term = std::str::from_utf8(stream.key()).map_err(failed)?;
            let Some(token) = term.strip_prefix(field.as_str()) else { return Ok(()) };
            match selection.tokens.holds(token) {
                None => return Ok(()),
                Some(false) => {}
                Some(true) => visit(term, stream.value())?,
            }
        }
        Ok(())
    }

    /// Returns the selected terms with the largest numbers of documents, and whether there are
    /// further terms.
    fn most_frequent(&self, selection: &Selection) -> Result<(Vec<String>, bool)> {
        let mut candidates: BTreeSet<String> = BTreeSet::new();
        let mut others = false;
        for segment in self.segments() {
            // The set is sorted by frequency, so the rarest term is removed first.
            let mut kept: BTreeSet<(u32, Reverse<String>)> = BTreeSet::new();
            self.visit(segment, selection, |term, info| {
                kept.insert((info.doc_freq, Reverse(term.to_owned())));
                if kept.len() > VIEW_SCORED_TERMS_MAX {
                    kept.pop_first();
                    others = true;
                }
                Ok(())
            })?;
            candidates.extend(kept.into_iter().map(|(_, Reverse(term))| term));
        }
        let weighed = candidates
            .into_iter()
            .map(|term| Ok((Reverse(self.frequency(&term)?), term)))
            .collect::<Result<BTreeSet<_>>>()?;
        others |= weighed.len() > VIEW_SCORED_TERMS_MAX;
        let terms = weighed.into_iter().map(|(_, term)| term).take(VIEW_SCORED_TERMS_MAX);
        Ok((terms.collect(), others))
    }

    /// Returns the terms within an edit distance of a target, with their similarities. If there are
    /// too many such terms, returns only the terms nearest to the target.
    fn nearest(&self, selection: &Selection, edits: &Edits) -> Result<Vec<(String, f32)>> {
        let mut found = BTreeSet::new();
        for segment in self.segments() {
            self.visit(segment, selection, |term, _| {
                let token = &term[selection.field.len() + edits.prefix.len()..];
                found.insert((Rising(edits.similarity(token)), term.to_owned()));
                if edits.terms_max > 0 && found.len() > edits.terms_max {
                    found.pop_first();
                }
                Ok(())
            })?;
        }
        Ok(found.into_iter().map(|(similarity, term)| (term, similarity.0)).collect())
    }

    fn phrase(
        &self,
        field: &Field,
        parts: &[Part],
        scorings: &[Scoring],
        boost: f32,
    ) -> Result<Prepared> {
        if !field.analysis.position || !field.analysis.frequency || parts.is_empty() {
            // Without stored positions, the order of the terms in a field is unknown.
            return Ok(Prepared::Nothing);
        }
        let mut places = Vec::new();
        let mut offset = 0_i64;
        for (at, part) in parts.iter().enumerate() {
            offset += if at == 0 { 0 } else { part.gap + 1 };
            let mut terms = BTreeSet::new();
            for choice in &part.choices {
                let selection = field.selection(choice.tokens());
                match &selection.tokens {
                    Tokens::One(token) => {
                        terms.insert(format!("{}{token}", selection.field));
                    }
                    Tokens::Near(edits) => {
                        let nearest = self.nearest(&selection, edits)?;
                        terms.extend(nearest.into_iter().map(|(term, _)| term));
                        few_enough(&terms)?;
                    }
                    _ => {
                        for segment in self.segments() {
                            self.visit(segment, &selection, |term, _| {
                                terms.insert(term.to_owned());
                                few_enough(&terms)
                            })?;
                        }
                    }
                }
            }
            places.push((offset, terms.into_iter().collect::<Vec<_>>()));
        }
        // A part with a negative gap may come before earlier parts of the phrase.
        let first = places.iter().map(|(offset, _)| *offset).min().unwrap_or(0);
        let from_first = |(offset, terms): (i64, Vec<String>)| {
            (u32::try_from(offset - first).unwrap_or(u32::MAX), terms)
        };
        let places: Vec<(u32, Vec<String>)> = places.into_iter().map(from_first).collect();
        let selection = field.selection(Tokens::One(String::new()));
        let terms: Vec<&String> = places.iter().flat_map(|(_, terms)| terms).collect();
        let weights = self.weights(&selection, &terms, scorings, boost)?;
        Ok(Prepared::Phrase { field: selection.field, places, weights })
    }

    /// Prepares an `NGRAM_MATCH`: a search for documents with the required share of the tokens in
    /// order.
    fn ngram(
        &self,
        field: &Field,
        tokens: &[String],
        share: f32,
        scorings: &[Scoring],
        boost: f32,
    ) -> Result<Prepared> {
        if !field.analysis.position || !field.analysis.frequency || tokens.is_empty() {
            return Ok(Prepared::Nothing);
        }
        let selection = field.selection(Tokens::One(String::new()));
        let terms: Vec<String> =
            tokens.iter().map(|token| format!("{}{token}", selection.field)).collect();
        let all: Vec<&String> = terms.iter().collect();
        let weights = self.weights(&selection, &all, scorings, boost)?;
        let least = crate::text::ngram::least(tokens.len(), share);
        Ok(Prepared::Ngram { field: selection.field, terms, least, weights })
    }
}

/// Merges two equal phrases into one phrase with twice the weight.
fn merge_phrases(parts: &mut Vec<Prepared>) {
    let [first, second] = &parts[..] else { return };
    if let (Prepared::Phrase { field, places, weights }, Prepared::Phrase { .. }) = (first, second)
        && first.is_same_phrase(second)
    {
        let weights = weights.iter().map(Weight::twice).collect();
        let one = Prepared::Phrase { field: field.clone(), places: places.clone(), weights };
        *parts = vec![one];
    }
}

/// Returns error 32 if one position of a phrase has too many terms.
fn few_enough(terms: &BTreeSet<String>) -> Result<()> {
    if terms.len() <= VIEW_PHRASE_TERMS_MAX {
        return Ok(());
    }
    let text = format!("more than {VIEW_PHRASE_TERMS_MAX} terms match one position of a PHRASE");
    Err(Error::new(Code::ResourceLimit, text))
}

fn counted(column: Column<i64>) -> FieldStatistics {
    let tokens = column.values.iter().map(i64::unsigned_abs).sum();
    FieldStatistics { documents: u64::from(column.values.num_vals()), tokens }
}
