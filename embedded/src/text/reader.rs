//! One look at the segments of a view: conditions become matchers, matchers become hits.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use tantivy::columnar::Column;
use tantivy::index::{InvertedIndexReader, SegmentId};
use tantivy::query::BitSetDocSet;
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocId, DocSet, Searcher, SegmentReader, TERMINATED};

use super::best::{Bounds, Dense, FieldLengths, Heap, Scored, Search, TermPostings, Window};
use super::matcher::{All, Enough, Every, Lengths, Matcher, Not, Numbers, Set, Term};
use super::ngram::Ngrams;
use super::phrase::{Phrase, Place};
use super::query::{Between, Field, Part, Query, Selection, Tokens, stored};
use super::score::{FieldStatistics, Scoring, Weight};
use super::segments::{COLUMNS, Fields, failed, lengths_column, numbers_column};
use super::terms::PART_END;
use crate::error::{Code, Error, Result};
use crate::limits::{
    VIEW_BOUNDS_BYTES_MAX, VIEW_FREQUENCIES_BYTES_MAX, VIEW_LENGTHS_BYTES_MAX,
    VIEW_PHRASE_TERMS_MAX, VIEW_SCORED_TERMS_MAX,
};

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

/// What is known of fields and terms, by segment; segments do not change.
#[derive(Default)]
pub(super) struct Known {
    statistics: Mutex<HashMap<(SegmentId, String), FieldStatistics>>,
    lengths: Mutex<HashMap<(SegmentId, String), Arc<FieldLengths>>>,
    bounds: Mutex<KnownBounds>,
    columns: Mutex<HashMap<SegmentId, Columns>>,
    /// Segments whose frequent terms were looked at ahead of all searches.
    ahead: Mutex<BTreeSet<SegmentId>>,
}

/// Bounds of frequent terms, and the bytes that they take.
#[derive(Default)]
struct KnownBounds {
    by_term: HashMap<(SegmentId, String), Arc<Bounds>>,
    bytes: usize,
    dense_bytes: usize,
}

impl Known {
    /// Forgets all other segments.
    pub(super) fn keep_only(&self, segments: &BTreeSet<SegmentId>) {
        self.statistics
            .lock()
            .expect(LOOKED_UP)
            .retain(|(segment, _), _| segments.contains(segment));
        self.lengths.lock().expect(LOOKED_UP).retain(|(segment, _), _| segments.contains(segment));
        self.columns.lock().expect(LOOKED_UP).retain(|segment, _| segments.contains(segment));
        self.ahead.lock().expect(LOOKED_UP).retain(|segment| segments.contains(segment));
        let mut bounds = self.bounds.lock().expect(LOOKED_UP);
        bounds.by_term.retain(|(segment, _), _| segments.contains(segment));
        bounds.bytes = bounds.by_term.values().map(|bounds| bounds.bytes()).sum();
        bounds.dense_bytes = bounds.by_term.values().map(|bounds| bounds.dense_bytes()).sum();
    }

    fn bounds_of(&self, key: &(SegmentId, String)) -> Option<Arc<Bounds>> {
        self.bounds.lock().expect(LOOKED_UP).by_term.get(key).cloned()
    }

    fn is_new(&self, segment: SegmentId) -> bool {
        !self.ahead.lock().expect(LOOKED_UP).contains(&segment)
    }

    fn is_known(&self, segment: SegmentId) {
        self.ahead.lock().expect(LOOKED_UP).insert(segment);
    }

    /// Keeps bounds if there is room for them; false if there is none.
    fn keep_more_bounds(&self, key: (SegmentId, String), made: Bounds) -> bool {
        let mut bounds = self.bounds.lock().expect(LOOKED_UP);
        let fits = bounds.bytes + made.bytes() <= VIEW_BOUNDS_BYTES_MAX;
        if fits {
            bounds.insert(key, Arc::new(made));
        }
        fits
    }

    fn keep_bounds(&self, key: (SegmentId, String), made: &Arc<Bounds>) {
        let mut bounds = self.bounds.lock().expect(LOOKED_UP);
        if bounds.bytes + made.bytes() > VIEW_BOUNDS_BYTES_MAX {
            *bounds = KnownBounds::default();
        }
        bounds.insert(key, made.clone());
    }

    /// Whether there is room for the frequencies of one more term.
    fn has_room_for(&self, dense_bytes: usize) -> bool {
        let bounds = self.bounds.lock().expect(LOOKED_UP);
        bounds.dense_bytes + dense_bytes <= VIEW_FREQUENCIES_BYTES_MAX
    }
}

impl KnownBounds {
    fn insert(&mut self, key: (SegmentId, String), made: Arc<Bounds>) {
        self.bytes += made.bytes();
        self.dense_bytes += made.dense_bytes();
        if let Some(before) = self.by_term.insert(key, made) {
            self.bytes -= before.bytes();
            self.dense_bytes -= before.dense_bytes();
        }
    }
}

const LOOKED_UP: &str = "only looked up inside";

/// Documents of a term from which its bounds are kept; those of others are soon made.
const BOUNDS_KEPT_FROM: u32 = 512;
/// One of so many documents has a term of which a look at any document is to be cheap.
const DENSE_FROM: u32 = 16;
/// How many times rarer than its terms a filter has to be to lead.
const FILTER_LEADS: u32 = 8;

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

/// A number in order.
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

/// A condition with its terms looked up and weighed.
enum Prepared {
    All,
    Nothing,
    Terms { selection: Selection, weights: BTreeMap<String, Arc<[Weight]>>, others: bool },
    Between(Between),
    Phrase { field: String, places: Vec<(u32, Vec<String>)>, weights: Arc<[Weight]> },
    Ngram { field: String, terms: Vec<String>, least: usize, weights: Arc<[Weight]> },
    Every(Vec<Self>),
    Enough(usize, Vec<Self>),
    Not(Box<Self>),
}

/// The documents that a condition found, read segment by segment or the best first.
pub(crate) struct Hits {
    reader: Reader,
    prepared: Prepared,
    scorers: usize,
    collections: Option<BTreeSet<u64>>,
    segment: usize,
    open: Option<Open>,
    best: Option<Best>,
}

/// A segment that is being walked.
struct Open {
    matcher: Box<dyn Matcher>,
    columns: Columns,
    segment: SegmentReader,
}

#[derive(Clone)]
struct Columns([Column<u64>; 3]);

/// All hits with the score that sorts them, and all their scores where there are several; the first `sorted` ones are in order, the best first.
struct Best {
    found: Vec<(f32, u32, DocId, Vec<f32>)>,
    taken: usize,
    columns: Vec<Columns>,
    /// Whether nothing else was found.
    whole: bool,
}

/// A condition whose score is the sum of some terms, one of which a document must have, and what it must fulfil besides.
struct Disjunction<'a> {
    terms: Vec<(&'a str, Weight)>,
    field: &'a str,
    filters: Vec<&'a Prepared>,
}

impl Prepared {
    /// This condition as a disjunction, if it is one and has one scorer.
    fn disjunction(&self) -> Option<Disjunction<'_>> {
        let (mut leaves, mut filters) = (Vec::new(), Vec::new());
        match self {
            Self::Every(parts) => {
                let (silent, scored): (Vec<_>, Vec<_>) =
                    parts.iter().partition(|part| part.is_silent());
                let [scored] = scored[..] else { return None };
                scored.leaves(&mut leaves)?;
                filters = silent;
                filters.retain(|filter| !filter.is_everything());
            }
            other => other.leaves(&mut leaves)?,
        }
        let field = leaves.first()?.0;
        let same = leaves.iter().all(|(other, _, weight)| {
            *other == field && weight.scale().is_finite() && weight.scale() >= 0.0
        });
        let terms = leaves.iter().map(|(_, term, weight)| (*term, *weight)).collect();
        same.then_some(Disjunction { terms, field, filters })
    }

    /// Its terms with their fields, if it is a term or any of several.
    fn leaves<'a>(&'a self, leaves: &mut Vec<(&'a str, &'a str, Weight)>) -> Option<()> {
        match self {
            Self::Terms { selection, weights, others: false } if weights.len() == 1 => {
                let (term, weights) = weights.first_key_value()?;
                let [weight] = weights[..] else { return None };
                leaves.push((&selection.field, term, weight));
                Some(())
            }
            // Sums within sums would be added up in another order.
            Self::Enough(1, parts) if parts.len() == 1 || leaves.is_empty() => {
                let nested = |part: &Self| matches!(part, Self::Enough(..)) && parts.len() > 1;
                if parts.iter().any(nested) {
                    return None;
                }
                parts.iter().try_for_each(|part| part.leaves(leaves))
            }
            _ => None,
        }
    }

    /// Whether it adds nothing to any score.
    fn is_silent(&self) -> bool {
        match self {
            Self::All | Self::Nothing | Self::Not(_) | Self::Between(_) => true,
            Self::Terms { weights, .. } => weights
                .values()
                .flat_map(|weights| weights.iter())
                .all(|weight| weight.scale() == 0.0),
            Self::Phrase { weights, .. } | Self::Ngram { weights, .. } => {
                weights.iter().all(|weight| weight.scale() == 0.0)
            }
            Self::Every(parts) | Self::Enough(_, parts) => parts.iter().all(Self::is_silent),
        }
    }
}

impl Prepared {
    /// Whether both are one phrase, weighed alike.
    fn is_same_phrase(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Phrase { field, places, weights },
                Self::Phrase { field: other, places: others, weights: theirs },
            ) => {
                let scales = |weights: &Arc<[Weight]>| -> Vec<u32> {
                    weights.iter().map(|weight| weight.scale().to_bits()).collect()
                };
                field == other && places == others && scales(weights) == scales(theirs)
            }
            _ => false,
        }
    }

    /// Whether every document fulfils it, as far as that can be seen.
    fn is_everything(&self) -> bool {
        match self {
            Self::All | Self::Enough(0, _) => true,
            Self::Every(parts) => parts.iter().all(Self::is_everything),
            Self::Enough(least, parts) => {
                parts.iter().filter(|part| part.is_everything()).count() >= *least
            }
            _ => false,
        }
    }
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
        let scorers = scorings.len();
        Ok(Hits {
            reader: self,
            prepared,
            scorers,
            collections,
            segment: 0,
            open: None,
            best: None,
        })
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

    fn prepare(&self, query: &Query, scorings: &[Scoring], boost: f32) -> Result<Prepared> {
        let all = |queries: &[Query]| -> Result<Vec<Prepared>> {
            queries.iter().map(|query| self.prepare(query, scorings, boost)).collect()
        };
        Ok(match query {
            Query::All => Prepared::All,
            Query::Nothing => Prepared::Nothing,
            Query::Equal(field, value) => self.terms(field.equal(value)?, scorings, boost)?,
            Query::Range(field, lower, upper) => {
                // Where they score nothing, many numbers are sooner compared than looked up as terms.
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

    /// Looks terms up and weighs them; where there are very many, only the most frequent ones score.
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

    /// Terms that are near a target: they are as frequent as all of them together, and the nearer weigh more (ArangoDB).
    fn near_weights(
        &self,
        selection: &Selection,
        edits: &super::query::Edits,
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

    /// One weight for each scorer.
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

    /// Documents with a term; removed ones count until their segment is written again.
    fn frequency(&self, term: &str) -> Result<u64> {
        let mut sum = 0;
        for segment in self.segments() {
            let found = self.inverted(segment)?.terms().get(term).map_err(failed)?;
            sum += found.map_or(0, |info| u64::from(info.doc_freq));
        }
        Ok(sum)
    }

    fn inverted(&self, segment: &SegmentReader) -> Result<Arc<InvertedIndexReader>> {
        segment.inverted_index(self.fields.terms).map_err(failed)
    }

    fn statistics(&self, field: &str) -> Result<FieldStatistics> {
        let mut sum = FieldStatistics::default();
        for piece in &self.pieces {
            for segment in piece.searcher.segment_readers() {
                let key = (segment.segment_id(), field.to_owned());
                let known = piece.known.statistics.lock().expect(LOOKED_UP).get(&key).copied();
                let found = match known {
                    Some(found) => found,
                    None => {
                        let found = lengths(segment, field)?.map_or_else(Default::default, counted);
                        piece.known.statistics.lock().expect(LOOKED_UP).insert(key, found);
                        found
                    }
                };
                sum.documents += found.documents;
                sum.tokens += found.tokens;
            }
        }
        Ok(sum)
    }

    /// Visits the terms of a selection in one segment with the number of their documents.
    fn visit(
        &self,
        segment: &SegmentReader,
        selection: &Selection,
        mut visit: impl FnMut(&str, &tantivy::postings::TermInfo) -> Result<()>,
    ) -> Result<()> {
        let field = &selection.field;
        let inverted = self.inverted(segment)?;
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

    /// The terms that most documents have, and whether there are others.
    fn most_frequent(&self, selection: &Selection) -> Result<(Vec<String>, bool)> {
        let mut candidates: BTreeSet<String> = BTreeSet::new();
        let mut others = false;
        for segment in self.segments() {
            // The smallest frequency first, so that it is the one to go.
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

    /// The terms within a number of edits and how near they are, the nearest ones if there are too many.
    fn nearest(
        &self,
        selection: &Selection,
        edits: &super::query::Edits,
    ) -> Result<Vec<(String, f32)>> {
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
            // Without places nothing is known to follow anything.
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
        // A part may stand before those that the text names first.
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

    /// Documents with so large a share of the tokens, in their order.
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
        let least = super::ngram::least(tokens.len(), share);
        Ok(Prepared::Ngram { field: selection.field, terms, least, weights })
    }

    fn matcher(&self, prepared: &Prepared, segment: &SegmentReader) -> Result<Box<dyn Matcher>> {
        let children = |children: &[Prepared]| -> Result<Vec<_>> {
            children.iter().map(|child| self.matcher(child, segment)).collect()
        };
        Ok(match prepared {
            Prepared::All => Box::new(All::new(segment.max_doc())),
            Prepared::Nothing => Box::new(All::new(0)),
            Prepared::Every(queries) if queries.is_empty() => Box::new(All::new(segment.max_doc())),
            Prepared::Every(queries) => Box::new(Every::new(children(queries)?)),
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

    /// The columns of a segment, kept for the next search.
    fn columns(&self, segment: &SegmentReader) -> Result<Columns> {
        let (known, key) = (self.known(segment), segment.segment_id());
        if let Some(columns) = known.columns.lock().expect(LOOKED_UP).get(&key) {
            return Ok(columns.clone());
        }
        let made = Columns::of(segment)?;
        known.columns.lock().expect(LOOKED_UP).insert(key, made.clone());
        Ok(made)
    }

    /// Lengths of a field, kept for the next search.
    fn field_lengths(&self, segment: &SegmentReader, field: &str) -> Result<Arc<FieldLengths>> {
        let key = (segment.segment_id(), field.to_owned());
        if let Some(known) = self.known(segment).lengths.lock().expect(LOOKED_UP).get(&key) {
            return Ok(known.clone());
        }
        let made = Arc::new(FieldLengths::read(lengths(segment, field)?, segment.max_doc()));
        let mut known = self.known(segment).lengths.lock().expect(LOOKED_UP);
        known.insert(key, made.clone());
        if known.values().map(|lengths| lengths.bytes()).sum::<usize>() > VIEW_LENGTHS_BYTES_MAX {
            known.clear();
        }
        Ok(made)
    }

    /// The terms of a disjunction that a segment has; none if their bounds cannot be known.
    fn term_postings(
        &self,
        segment: &SegmentReader,
        disjunction: &Disjunction<'_>,
        lengths: &FieldLengths,
    ) -> Result<Option<Vec<TermPostings>>> {
        let inverted = self.inverted(segment)?;
        let mut terms = Vec::with_capacity(disjunction.terms.len());
        for (term, weight) in &disjunction.terms {
            let Some(info) = inverted.terms().get(term).map_err(failed)? else { continue };
            let postings = || {
                let option = IndexRecordOption::WithFreqs;
                inverted.read_block_postings_from_terminfo(&info, option).map_err(failed)
            };
            let key = (segment.segment_id(), (*term).to_owned());
            let known = self.known(segment).bounds_of(&key);
            let bounds = match known {
                Some(known) if known.factor(weight).is_some() => known,
                known => {
                    let lengths = weight.wants_length().then_some(lengths);
                    let dense = known.and_then(|known| known.dense().cloned());
                    let made = Bounds::read(weight, postings()?, lengths).with_dense(dense);
                    let made = Arc::new(made);
                    if info.doc_freq >= BOUNDS_KEPT_FROM {
                        self.known(segment).keep_bounds(key, &made);
                    }
                    made
                }
            };
            match TermPostings::new(*weight, bounds, postings()?, postings()?) {
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
            found.push(Place { offset: *offset, choices });
        }
        Ok(Box::new(Phrase::new(found, lengths(segment, field)?, weights.clone())))
    }
}

impl Columns {
    fn of(segment: &SegmentReader) -> Result<Self> {
        let [local, collection, revision] = COLUMNS;
        let column = |name: &str| segment.fast_fields().u64(name).map_err(failed);
        Ok(Self([column(local)?, column(collection)?, column(revision)?]))
    }

    fn hit(&self, doc: DocId, scores: Vec<f32>) -> Hit {
        let [local, collection, revision] =
            self.0.each_ref().map(|column| column.first(doc).unwrap_or_default());
        Hit { collection, local, revision, scores }
    }
}

impl Hits {
    /// The next hits in no order, at most `max`; none is the end.
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

    /// The next best hits by one scorer, at most `max`, falling; none is the end. The first call finds all hits:
    /// `held` hears once in a while how many bytes more they hold. `ties` says whether those that score as the last one are
    /// asked for too.
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
            // Somewhat more than asked for where those that score as the last one are asked for next; then many more.
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
        /// Documents looked at between two reports.
        const STEP: usize = 4096;
        // A list of its own only for several scores: most queries have one, and many hits.
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

    /// The best documents by the only scorer, at least `most` if there are so many. What cannot be among them need not be looked at closely.
    fn find_some(
        &mut self,
        most: usize,
        held: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Best> {
        /// Documents looked at between two looks at what they have to exceed.
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

    /// The best documents of a disjunction, at least `most` if there are so many; none where only a look at all of them helps.
    fn find_best(
        &self,
        scorer: usize,
        most: usize,
        held: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Option<Best>> {
        let Some(disjunction) = self.prepared.disjunction().filter(|_| self.scorers == 1) else {
            return Ok(None);
        };
        let (mut heap, mut window) = (Heap::new(most), Window::new());
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

fn falling(a: &(f32, u32, DocId, Vec<f32>), b: &(f32, u32, DocId, Vec<f32>)) -> Ordering {
    b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2)))
}

impl Best {
    /// Goes behind what was handed out before.
    fn skip(&mut self, taken: usize) {
        self.taken = taken.min(self.found.len());
        if self.taken > 0 {
            self.found.sort_unstable_by(falling);
        }
    }
}

/// Of a phrase that is asked for twice one weighs as much as both.
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

/// 32 for more terms than may stand in one place of a phrase.
fn few_enough(terms: &BTreeSet<String>) -> Result<()> {
    if terms.len() <= VIEW_PHRASE_TERMS_MAX {
        return Ok(());
    }
    let text = format!("more than {VIEW_PHRASE_TERMS_MAX} terms fit in one place of a PHRASE");
    Err(Error::new(Code::ResourceLimit, text))
}

/// The field of a term: a path and an analyzer or type, each with the end of its part.
fn field_of(term: &str) -> Option<&str> {
    let mut ends = term.match_indices(PART_END).map(|(at, _)| at);
    ends.nth(1).map(|end| &term[..=end])
}

fn lengths(segment: &SegmentReader, field: &str) -> Result<Lengths> {
    segment.fast_fields().column_opt(&lengths_column(field)).map_err(failed)
}

fn counted(column: Column<i64>) -> FieldStatistics {
    let tokens = column.values.iter().map(i64::unsigned_abs).sum();
    FieldStatistics { documents: u64::from(column.values.num_vals()), tokens }
}
