//! Reads vector indexes in the snapshot of a transaction: their state, their centroids, and the
//! vectors nearest to a query.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use super::cells::{CellLookup, Cells};
use super::transaction::{Resources, State, Transaction};
use crate::encode::{Key, Record, Space, local_id_of_key, successor};
use crate::error::{Code, Error, Result};
use crate::limits::{VECTOR_KEYS_MAX, VECTORS_PER_LOOK};
use crate::schema::{Collection, Index, VectorParams};
use crate::storage::{Bytes, Snapshot};
use crate::value::Value;
use crate::vector::{Cell, Model, Near, Stage, Standing, Top, closeness};

/// Cached data of vector indexes that all transactions share.
#[derive(Debug)]
pub(crate) struct Vectors {
    /// The cached lists of all vector indexes.
    pub(super) cells: Cells,
    /// Cached centroids by index id. Centroids of another training than the snapshot's training are
    /// read again.
    models: Mutex<HashMap<u64, Arc<Model>>>,
    /// Ids of the vector indexes that are being trained.
    in_training: Mutex<BTreeSet<u64>>,
    /// Document keys by local id. They stay valid, because a local id is used only once and a
    /// document's key never changes.
    keys: Mutex<HashMap<u64, Arc<str>>>,
    /// Errors of vector indexes whose last training failed, by index id.
    failures: Mutex<HashMap<u64, Error>>,
}

/// The exclusive claim to train a vector index. Dropping the value releases the claim.
#[derive(Debug)]
pub(crate) struct InTraining<'a> {
    vectors: &'a Vectors,
    index: u64,
}

impl Vectors {
    /// Creates an empty cache. `cache_bytes_max` limits the size of the cached lists.
    pub(crate) fn new(cache_bytes_max: u64) -> Self {
        Self {
            cells: Cells::new(cache_bytes_max),
            models: Mutex::default(),
            in_training: Mutex::default(),
            keys: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// Returns the claim to train an index, or `None` if another thread has it.
    pub(crate) fn claim(&self, index: u64) -> Option<InTraining<'_>> {
        let free = self.in_training.lock().expect("only moves inside").insert(index);
        free.then_some(InTraining { vectors: self, index })
    }

    /// Whether a vector index is being trained.
    pub(crate) fn is_in_training(&self, index: u64) -> bool {
        self.in_training.lock().expect("only moves inside").contains(&index)
    }

    /// Records the error of an index's last training; `None` removes it.
    pub(crate) fn set_failure(&self, index: u64, failure: Option<Error>) {
        let mut failures = self.failures.lock().expect("only moves inside");
        match failure {
            Some(failure) => failures.insert(index, failure),
            None => failures.remove(&index),
        };
    }

    /// Returns the error of a vector index's last training, if the training failed.
    pub(crate) fn failure(&self, index: u64) -> Option<Error> {
        self.failures.lock().expect("only moves inside").get(&index).cloned()
    }

    /// Removes the cached data of all vector indexes except the given ones.
    pub(crate) fn keep_only(&self, indexes: &BTreeSet<u64>) {
        self.models.lock().expect("only moves inside").retain(|index, _| indexes.contains(index));
        self.failures.lock().expect("only moves inside").retain(|index, _| indexes.contains(index));
        self.cells.keep_only(indexes);
    }

    /// Returns the centroids of a trained vector index in a snapshot.
    pub(crate) fn model(
        &self,
        snapshot: &dyn Snapshot,
        index: u64,
        params: &VectorParams,
        standing: Standing,
    ) -> Result<Arc<Model>> {
        let generation = standing.generation;
        let known = self.models.lock().expect("only moves inside").get(&index).cloned();
        if let Some(known) = known.filter(|known| known.generation == generation) {
            return Ok(known);
        }
        let lists = if standing.lists == 0 { params.lists } else { standing.lists };
        let wanted = lists as usize * params.dimension as usize;
        let mut centroids = Vec::with_capacity(wanted);
        let (lower, upper) = range(&Key::VectorCentroids(index));
        for pair in snapshot.scan(Space::Indexes, &lower, &upper, false) {
            let (_, bytes) = pair?;
            let (components, rest) = bytes.as_chunks::<4>();
            if components.len() != params.dimension as usize || !rest.is_empty() {
                return Err(damaged());
            }
            centroids.extend(components.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        }
        if centroids.len() != wanted {
            return Err(damaged());
        }
        let model = Arc::new(Model::new(generation, params.metric, params.dimension, centroids));
        self.models.lock().expect("only moves inside").insert(index, model.clone());
        Ok(model)
    }
}

impl Drop for InTraining<'_> {
    fn drop(&mut self) {
        self.vectors.in_training.lock().expect("only moves inside").remove(&self.index);
    }
}

/// Returns the state of a vector index in a snapshot.
pub(crate) fn standing(snapshot: &dyn Snapshot, index: u64) -> Result<Standing> {
    match snapshot.get(Space::Indexes, &Key::VectorStanding(index).bytes())? {
        Some(bytes) => Standing::read(&bytes).ok_or_else(damaged),
        None => Ok(Standing::default()),
    }
}

/// Returns the range of all keys with a prefix.
pub(crate) fn range(prefix: &Key<'_>) -> (Vec<u8>, Vec<u8>) {
    let lower = prefix.bytes();
    let upper = successor(lower.clone()).expect("a key begins with a small kind byte");
    (lower, upper)
}

fn damaged() -> Error {
    Error::new(Code::Internal, "a stored vector index is damaged")
}

/// Returns error 1555 for a vector index that is not trained yet.
pub(crate) fn not_ready(index: &Index) -> Error {
    let text = format!("vector index '{}' is not ready for queries", index.name);
    Error::new(Code::QueryVectorIndexNotReady, text)
}

/// The vectors that a search has found so far: a limited number of the nearest, or all.
enum Nearest {
    Top(Top),
    All(Vec<Near>),
}

impl Nearest {
    fn len(&self) -> usize {
        match self {
            Self::Top(top) => top.len(),
            Self::All(all) => all.len(),
        }
    }
}

impl State {
    /// Searches the vectors of one list, including the transaction's own writes.
    fn look_into(
        &self,
        index: u64,
        list: u32,
        params: &VectorParams,
        query: &[f32],
        nearest: &mut Nearest,
        look: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let (lower, upper) = range(&Key::VectorList(index, list));
        let mut seen = 0_usize;
        self.merged(Space::Indexes, &lower, &upper, false, |key, value| {
            let (stored, rest) = value.as_chunks::<4>();
            if stored.len() != query.len() || !rest.is_empty() {
                return Err(damaged());
            }
            let closeness = closeness(params.metric, query, stored);
            let near = Near { closeness, local: local_id_of_key(key)? };
            match nearest {
                Nearest::Top(top) => top.offer(near),
                Nearest::All(all) => all.push(near),
            }
            seen += 1;
            if seen.is_multiple_of(VECTORS_PER_LOOK) {
                look(nearest.len())?;
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Whether the background job that adds existing documents to a vector index will still add
    /// this document.
    pub(crate) fn is_filled_later(&self, index: u64, local: u64) -> Result<bool> {
        let standing = standing(&*self.snapshot, index)?;
        Ok(standing.has_to_come_to(local))
    }

    /// Returns the number of the list for a new vector, or 0 before the training. The index's state
    /// and centroids change only while no transaction writes to the collection, so the state and
    /// the centroids in a writer's snapshot are current.
    pub(crate) fn list_for(
        &self,
        resources: &Resources,
        index: u64,
        params: &VectorParams,
        vector: &[f32],
    ) -> Result<u32> {
        let standing = standing(&*self.snapshot, index)?;
        match standing.stage {
            Stage::Filling(_) | Stage::Untrained => Ok(0),
            Stage::Ingesting | Stage::Ready => {
                let model = resources.vectors.model(&*self.snapshot, index, params, standing)?;
                Ok(model.list_of(vector))
            }
        }
    }
}

/// The settings of a vector search.
pub(crate) struct Wanted<'a> {
    /// The query vector, as [`crate::vector::components`] returns it.
    pub(crate) query: &'a [f32],
    /// Number of lists to read.
    pub(crate) probes: usize,
    /// Number of vectors to return; `None` for all vectors in the lists.
    pub(crate) keep: Option<usize>,
}

impl Transaction {
    /// Returns the vectors of an index nearest to a query, including the transaction's own writes.
    /// They are sorted, nearest first, if `wanted.keep` limits their number. Returns error 1555
    /// until the index is trained. The function `look` is called regularly with the number of
    /// vectors found; its error stops the search.
    pub(crate) fn nearest(
        &self,
        collection: &Collection,
        index: &Index,
        params: &VectorParams,
        wanted: &Wanted<'_>,
        look: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Near>> {
        if !self.readable(collection)?.indexes.iter().any(|own| own.id == index.id) {
            return Err(Error::new(
                Code::IndexNotFound,
                format!("index not found: {}", index.name),
            ));
        }
        let state = self.state()?;
        let standing = standing(&*state.snapshot, index.id)?;
        if standing.stage != Stage::Ready {
            return Err(not_ready(index));
        }
        let model = self.resources.vectors.model(&*state.snapshot, index.id, params, standing)?;
        let mut nearest = match wanted.keep {
            Some(keep) => Nearest::Top(Top::new(keep)),
            None => Nearest::All(Vec::new()),
        };
        for list in model.lists_near(wanted.query, wanted.probes) {
            match self.cell(&state, index.id, list, standing.generation, wanted.query.len())? {
                Some(cell) => {
                    for first in (0..cell.len()).step_by(VECTORS_PER_LOOK) {
                        let part = (first, VECTORS_PER_LOOK);
                        match &mut nearest {
                            Nearest::Top(top) => {
                                cell.keep_nearest(params.metric, wanted.query, part, top);
                            }
                            Nearest::All(all) => {
                                cell.all_near(params.metric, wanted.query, part, all);
                            }
                        }
                        look(nearest.len())?;
                    }
                }
                None => {
                    state.look_into(index.id, list, params, wanted.query, &mut nearest, look)?
                }
            }
        }
        look(nearest.len())?;
        Ok(match nearest {
            Nearest::Top(top) => top.into_sorted(),
            Nearest::All(all) => all,
        })
    }

    /// Returns a list of a vector index as in the transaction's snapshot. A list that is not cached
    /// is read into the cache. Returns `None` if a concurrent change of the list prevents the use
    /// of the cache, or if the list is too large; the caller must then read the list vector by
    /// vector.
    fn cell(
        &self,
        state: &State,
        index: u64,
        list: u32,
        generation: u64,
        dimension: usize,
    ) -> Result<Option<Arc<Cell>>> {
        let (lower, upper) = range(&Key::VectorList(index, list));
        if state.overlay.range(Space::Indexes, &lower, &upper).next().is_some() {
            return Ok(None);
        }
        let cells = &self.resources.vectors.cells;
        let version = match cells.find(index, list, generation, state.seen) {
            CellLookup::Cell(cell) => return Ok(Some(cell)),
            CellLookup::Unknown => return Ok(None),
            CellLookup::Missing(version) => version,
        };
        let mut cell = Cell::default();
        for pair in state.snapshot.scan(Space::Indexes, &lower, &upper, false) {
            let (key, value) = pair?;
            if !cell.push(local_id_of_key(&key)?, &value, dimension) {
                return Err(damaged());
            }
            if cell.bytes() > cells.bytes_max() {
                cells.keep(index, list, version, None);
                return Ok(None);
            }
        }
        cell.shrink();
        let cell = Arc::new(cell);
        cells.keep(index, list, version, Some(cell.clone()));
        Ok(Some(cell))
    }

    /// Returns the key of a document that a vector search found. The key may come from the cache,
    /// because a snapshot that contains a vector also contains its document.
    pub(crate) fn key_by_local(
        &self,
        collection: &Collection,
        local: u64,
    ) -> Result<Option<Value>> {
        let collection = self.readable(collection)?;
        let keys = || self.resources.vectors.keys.lock().expect("only moves inside");
        if let Some(key) = keys().get(&local) {
            return Ok(Some(Value::String(key.clone())));
        }
        let Some(bytes) = self.state()?.document(collection.id, local)? else { return Ok(None) };
        let key: Arc<str> = Arc::from(Record::read(&bytes)?.key);
        let mut keys = keys();
        if keys.len() >= VECTOR_KEYS_MAX {
            keys.clear();
        }
        keys.insert(local, key.clone());
        Ok(Some(Value::String(key)))
    }

    /// Returns a document that a vector search found, whole or only with the wanted attributes.
    pub(crate) fn by_local(
        &self,
        collection: &Collection,
        local: u64,
        wanted: Option<&[String]>,
    ) -> Result<Option<Value>> {
        let collection = self.readable(collection)?;
        let bytes = self.state()?.document(collection.id, local)?;
        let read = |bytes: Bytes| match wanted {
            Some(wanted) => super::read::part(collection, &bytes, wanted),
            None => super::read::whole(collection, &bytes),
        };
        bytes.map(read).transpose()
    }
}
