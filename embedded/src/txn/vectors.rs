//! Vector indexes as a transaction sees them: how far one is, its cells, and the vectors near a query.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use super::transaction::{Resources, State, Transaction};
use crate::encode::{Key, Space, local_id_of_key, successor};
use crate::error::{Code, Error, Result};
use crate::limits::VECTORS_PER_LOOK;
use crate::schema::{Collection, Index, VectorParams};
use crate::storage::Snapshot;
use crate::value::Value;
use crate::vector::{Model, Near, Stage, Standing, Top, closeness};

/// What all transactions know of vector indexes besides what is stored.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    /// Cells by index; those of another training than a snapshot shows are read anew.
    models: Mutex<HashMap<u64, Arc<Model>>>,
    /// Indexes that somebody is training.
    in_training: Mutex<BTreeSet<u64>>,
    /// Why the last training of an index failed.
    failures: Mutex<HashMap<u64, String>>,
}

/// The right to train an index; dropping gives it back.
#[derive(Debug)]
pub(crate) struct InTraining<'a> {
    vectors: &'a Vectors,
    index: u64,
}

impl Vectors {
    /// The right to train an index, if nobody has it.
    pub(crate) fn claim(&self, index: u64) -> Option<InTraining<'_>> {
        let free = self.in_training.lock().expect("only moves inside").insert(index);
        free.then_some(InTraining { vectors: self, index })
    }

    /// Whether somebody is training an index.
    pub(crate) fn is_in_training(&self, index: u64) -> bool {
        self.in_training.lock().expect("only moves inside").contains(&index)
    }

    /// Notes why a training failed, or that none has.
    pub(crate) fn set_failure(&self, index: u64, failure: Option<String>) {
        let mut failures = self.failures.lock().expect("only moves inside");
        match failure {
            Some(failure) => failures.insert(index, failure),
            None => failures.remove(&index),
        };
    }

    /// Why the last training of an index failed, if it did.
    pub(crate) fn failure(&self, index: u64) -> Option<String> {
        self.failures.lock().expect("only moves inside").get(&index).cloned()
    }

    /// Forgets what is known of indexes that are not among these.
    pub(crate) fn keep_only(&self, indexes: &BTreeSet<u64>) {
        self.models.lock().expect("only moves inside").retain(|index, _| indexes.contains(index));
        self.failures.lock().expect("only moves inside").retain(|index, _| indexes.contains(index));
    }

    /// The cells of an index that has some, as a snapshot shows it.
    pub(crate) fn model(
        &self,
        snapshot: &dyn Snapshot,
        index: u64,
        params: &VectorParams,
        generation: u64,
    ) -> Result<Arc<Model>> {
        let known = self.models.lock().expect("only moves inside").get(&index).cloned();
        if let Some(known) = known.filter(|known| known.generation == generation) {
            return Ok(known);
        }
        let mut centroids = Vec::with_capacity((params.lists * params.dimension) as usize);
        let (lower, upper) = range(&Key::VectorCentroids(index));
        for pair in snapshot.scan(Space::Indexes, &lower, &upper, false) {
            let (_, bytes) = pair?;
            let (components, rest) = bytes.as_chunks::<4>();
            if components.len() != params.dimension as usize || !rest.is_empty() {
                return Err(damaged());
            }
            centroids.extend(components.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        }
        if centroids.len() != params.lists as usize * params.dimension as usize {
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

/// How far an index is, as a snapshot shows it.
pub(crate) fn standing(snapshot: &dyn Snapshot, index: u64) -> Result<Standing> {
    match snapshot.get(Space::Indexes, &Key::VectorStanding(index).bytes())? {
        Some(bytes) => Standing::read(&bytes).ok_or_else(damaged),
        None => Ok(Standing::default()),
    }
}

/// All keys that begin like this one.
pub(crate) fn range(prefix: &Key<'_>) -> (Vec<u8>, Vec<u8>) {
    let lower = prefix.bytes();
    let upper = successor(lower.clone()).expect("a key begins with a small kind byte");
    (lower, upper)
}

fn damaged() -> Error {
    Error::new(Code::Internal, "a stored vector index is damaged")
}

impl State {
    /// The list for a new vector: 0 as long as there are no cells. Standing and cells change only while nobody writes
    /// the collection, so the snapshot of a writer is as good as the newest one.
    pub(crate) fn list_for(
        &self,
        resources: &Resources,
        index: u64,
        params: &VectorParams,
        vector: &[f32],
    ) -> Result<u32> {
        let Standing { stage, generation } = standing(&*self.snapshot, index)?;
        match stage {
            Stage::Untrained => Ok(0),
            Stage::Ingesting | Stage::Ready => {
                let model = resources.vectors.model(&*self.snapshot, index, params, generation)?;
                Ok(model.list_of(vector))
            }
        }
    }
}

/// Which vectors a query wants.
pub(crate) struct Wanted<'a> {
    /// The query vector as [`crate::vector::components`] made it.
    pub(crate) query: &'a [f32],
    /// Cells to look into.
    pub(crate) probes: usize,
    /// How many to keep; all of those cells without a number.
    pub(crate) keep: Option<usize>,
}

impl Transaction {
    /// The vectors of an index nearest to a query, the nearest first, own writes among them; 1555 until it is trained.
    /// `look` is asked now and then whether to go on, with the number of vectors held.
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
        let Standing { stage, generation } = standing(&*state.snapshot, index.id)?;
        if stage != Stage::Ready {
            let text = format!("vector index '{}' is not ready for queries", index.name);
            return Err(Error::new(Code::QueryVectorIndexNotReady, text));
        }
        let model = self.resources.vectors.model(&*state.snapshot, index.id, params, generation)?;
        let mut top = wanted.keep.map(Top::new);
        let mut all = Vec::new();
        let mut seen = 0_usize;
        for list in model.lists_near(wanted.query, wanted.probes) {
            let (lower, upper) = range(&Key::VectorList(index.id, list));
            state.merged(Space::Indexes, &lower, &upper, false, |key, value| {
                let (stored, rest) = value.as_chunks::<4>();
                if stored.len() != wanted.query.len() || !rest.is_empty() {
                    return Err(damaged());
                }
                let near = Near {
                    closeness: closeness(params.metric, wanted.query, stored),
                    local: local_id_of_key(key)?,
                };
                match &mut top {
                    Some(top) => top.offer(near),
                    None => all.push(near),
                }
                seen += 1;
                if seen.is_multiple_of(VECTORS_PER_LOOK) {
                    look(top.as_ref().map_or(all.len(), Top::len))?;
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        look(top.as_ref().map_or(all.len(), Top::len))?;
        Ok(top.map_or(all, Top::into_sorted))
    }

    /// A document that an index led to.
    pub(crate) fn by_local(&self, collection: &Collection, local: u64) -> Result<Option<Value>> {
        let collection = self.readable(collection)?;
        let bytes = self.state()?.document(collection.id, local)?;
        bytes.map(|bytes| super::read::whole(collection, &bytes)).transpose()
    }
}
