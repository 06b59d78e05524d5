//! A cache of data about the segments of a store. Searches, and the maintenance of views without
//! recent changes, compute the data and add it to the cache.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use tantivy::columnar::Column;
use tantivy::index::SegmentId;
use tantivy::termdict::TermDictionary;
use tantivy::{DocId, SegmentReader};

use super::Hit;
use crate::error::Result;
use crate::limits::{VIEW_BOUNDS_BYTES_MAX, VIEW_FREQUENCIES_BYTES_MAX, VIEW_VOCABULARY_BYTES_MAX};
use crate::text::best::{Bounds, FieldLengths};
use crate::text::score::FieldStatistics;
use crate::text::segments::{COLUMNS, failed};
use crate::text::vocabulary::Vocabulary;

pub(super) const LOOKED_UP: &str = "only looked up inside";

/// Cached data of fields and terms by segment; it stays valid because segments are immutable.
#[derive(Default)]
pub(in crate::text) struct SegmentCache {
    pub(super) statistics: Mutex<HashMap<(SegmentId, String), FieldStatistics>>,
    pub(super) lengths: Mutex<HashMap<(SegmentId, String), Arc<FieldLengths>>>,
    bounds: Mutex<CachedBounds>,
    pub(super) columns: Mutex<HashMap<SegmentId, Columns>>,
    /// The vocabularies of fields; `None` for a vocabulary that takes too much memory.
    vocabularies: Mutex<HashMap<(SegmentId, String), Option<Arc<Vocabulary>>>>,
    /// Segments for which the data of frequent terms was computed in advance.
    ahead: Mutex<BTreeSet<SegmentId>>,
}

/// Score bounds of frequent terms, and their size in bytes.
#[derive(Default)]
struct CachedBounds {
    by_term: HashMap<(SegmentId, String), Arc<Bounds>>,
    bytes: usize,
    dense_bytes: usize,
}

#[derive(Clone)]
pub(super) struct Columns(pub(super) [Column<u64>; 3]);

impl SegmentCache {
    /// Removes the cached data of all segments except the given ones.
    pub(in crate::text) fn keep_only(&self, segments: &BTreeSet<SegmentId>) {
        self.statistics
            .lock()
            .expect(LOOKED_UP)
            .retain(|(segment, _), _| segments.contains(segment));
        self.lengths.lock().expect(LOOKED_UP).retain(|(segment, _), _| segments.contains(segment));
        self.columns.lock().expect(LOOKED_UP).retain(|segment, _| segments.contains(segment));
        self.ahead.lock().expect(LOOKED_UP).retain(|segment| segments.contains(segment));
        self.vocabularies
            .lock()
            .expect(LOOKED_UP)
            .retain(|(segment, _), _| segments.contains(segment));
        let mut bounds = self.bounds.lock().expect(LOOKED_UP);
        bounds.by_term.retain(|(segment, _), _| segments.contains(segment));
        bounds.bytes = bounds.by_term.values().map(|bounds| bounds.bytes()).sum();
        bounds.dense_bytes = bounds.by_term.values().map(|bounds| bounds.dense_bytes()).sum();
    }

    /// Returns the tokens of a field in a segment, and caches them for later searches. Returns
    /// `None` if they take too much memory.
    pub(super) fn vocabulary(
        &self,
        segment: SegmentId,
        field: &str,
        dictionary: &TermDictionary,
    ) -> Result<Option<Arc<Vocabulary>>> {
        let key = (segment, field.to_owned());
        if let Some(known) = self.vocabularies.lock().expect(LOOKED_UP).get(&key) {
            return Ok(known.clone());
        }
        let made = Vocabulary::read(dictionary, field, VIEW_VOCABULARY_BYTES_MAX / 2)?;
        let made = made.map(Arc::new);
        let mut known = self.vocabularies.lock().expect(LOOKED_UP);
        let all = known.values().chain([&made]).flatten();
        if all.map(|one| one.bytes()).sum::<usize>() > VIEW_VOCABULARY_BYTES_MAX {
            known.clear();
        }
        known.insert(key, made.clone());
        Ok(made)
    }

    pub(super) fn bounds_of(&self, key: &(SegmentId, String)) -> Option<Arc<Bounds>> {
        self.bounds.lock().expect(LOOKED_UP).by_term.get(key).cloned()
    }

    pub(super) fn is_new(&self, segment: SegmentId) -> bool {
        !self.ahead.lock().expect(LOOKED_UP).contains(&segment)
    }

    pub(super) fn note_known(&self, segment: SegmentId) {
        self.ahead.lock().expect(LOOKED_UP).insert(segment);
    }

    /// Caches a term's score bounds if the cache has space for them. Returns whether the bounds
    /// were cached.
    pub(super) fn keep_more_bounds(&self, key: (SegmentId, String), made: Bounds) -> bool {
        let mut bounds = self.bounds.lock().expect(LOOKED_UP);
        let fits = bounds.bytes + made.bytes() <= VIEW_BOUNDS_BYTES_MAX;
        if fits {
            bounds.insert(key, Arc::new(made));
        }
        fits
    }

    pub(super) fn keep_bounds(&self, key: (SegmentId, String), made: &Arc<Bounds>) {
        let mut bounds = self.bounds.lock().expect(LOOKED_UP);
        if bounds.bytes + made.bytes() > VIEW_BOUNDS_BYTES_MAX {
            *bounds = CachedBounds::default();
        }
        bounds.insert(key, made.clone());
    }

    /// Whether the cache has space for the frequencies of one more term.
    pub(super) fn has_room_for(&self, dense_bytes: usize) -> bool {
        let bounds = self.bounds.lock().expect(LOOKED_UP);
        bounds.dense_bytes + dense_bytes <= VIEW_FREQUENCIES_BYTES_MAX
    }
}

impl CachedBounds {
    fn insert(&mut self, key: (SegmentId, String), made: Arc<Bounds>) {
        self.bytes += made.bytes();
        self.dense_bytes += made.dense_bytes();
        if let Some(before) = self.by_term.insert(key, made) {
            self.bytes -= before.bytes();
            self.dense_bytes -= before.dense_bytes();
        }
    }
}

impl Columns {
    pub(super) fn of(segment: &SegmentReader) -> Result<Self> {
        let [local, collection, revision] = COLUMNS;
        let column = |name: &str| segment.fast_fields().u64(name).map_err(failed);
        Ok(Self([column(local)?, column(collection)?, column(revision)?]))
    }

    pub(super) fn hit(&self, doc: DocId, scores: Vec<f32>) -> Hit {
        let [local, collection, revision] =
            self.0.each_ref().map(|column| column.first(doc).unwrap_or_default());
        Hit { collection, local, revision, scores }
    }
}
