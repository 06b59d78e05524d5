//! Trains vector indexes without losing concurrent writes.
//!
//! The vectors of an untrained index are in list 0; `filling` puts the vectors of older documents
//! there. K-means runs on a sample while writers continue. Changes of a vector index that writers
//! must see (new lists, a moved vector) are made under the exclusive collection lock. A write
//! transaction takes its collection lock before its snapshot, so its snapshot contains every
//! earlier change of this kind. Every step of a training is one commit. After a crash, a vector
//! index is either untrained, or has trained lists and some vectors still in list 0.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::catalog::Catalog;
use crate::encode::{Key, Space, local_id_of_key};
use crate::error::{Code, Error, Result};
use crate::limits::{
    VECTOR_CENTROIDS_BYTES_MAX, VECTOR_LOCK_PAUSE_MS, VECTOR_LOCK_WAIT_MS, VECTOR_RETRY_MS,
    VECTOR_SAMPLE_BYTES_MAX, VECTOR_STEP,
};
use crate::random::Random;
use crate::schema::{Collection, Database, Index, IndexKind, VectorParams};
use crate::storage::{Batch, Bytes, Snapshot};
use crate::txn::{CollectionGuard, InTraining, Resources, range, standing};
use crate::vector::{Factory, Stage, Standing, bytes_of, train};

/// The result of one attempt to train or fill an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The index answers queries.
    Ready,
    /// The vector index has fewer vectors than lists and cannot be trained yet.
    TooFew,
    /// Writers blocked the attempt to train or fill an index; the next attempt continues from the
    /// last commit.
    Busy,
    /// Another thread trains the index, the index was dropped, or the engine stops.
    Left,
}

/// Trains all vector indexes in the background.
pub(crate) struct Trainer {
    resources: Arc<Resources>,
    catalog: Arc<Catalog>,
    /// Ids of the indexes whose training failed, with the time of the next attempt.
    resting: std::collections::BTreeMap<u64, Instant>,
}

impl Trainer {
    /// Returns a trainer of vector indexes that has not run yet.
    pub(crate) fn new(resources: Arc<Resources>, catalog: Arc<Catalog>) -> Self {
        Self { resources, catalog, resting: Default::default() }
    }

    /// Tries once to train or fill each vector index, except those whose last attempt failed
    /// recently.
    pub(crate) fn round(&mut self, stopped: &dyn Fn() -> bool) {
        let mut there = BTreeSet::new();
        let databases = self.catalog.all();
        for database in databases.values() {
            for (collection, index) in vector_indexes(database) {
                there.insert(index.id);
                let rests = self.resting.get(&index.id).is_some_and(|end| Instant::now() < *end);
                if stopped() || rests {
                    continue;
                }
                self.resting.remove(&index.id);
                let training = Training {
                    resources: &self.resources,
                    catalog: &self.catalog,
                    database: &database.name,
                    collection: collection.id,
                    index,
                };
                if let Err(error) = training.attempt(None, 1, stopped) {
                    tracing::warn!(index = index.id, %error, "a vector index could not be trained");
                    let end = Instant::now() + Duration::from_millis(VECTOR_RETRY_MS);
                    self.resting.insert(index.id, end);
                }
            }
        }
        self.resting.retain(|index, _| there.contains(index));
        self.resources.vectors.keep_only(&there);
    }
}

/// Returns the vector indexes of a database, with their collections.
fn vector_indexes(database: &Database) -> impl Iterator<Item = (&Arc<Collection>, &Arc<Index>)> {
    database.collections.values().flat_map(|collection| {
        let vectors = |index: &&Arc<Index>| matches!(index.kind, IndexKind::Vector(_));
        collection.indexes.iter().filter(vectors).map(move |index| (collection, index))
    })
}

/// The training of one vector index.
pub(crate) struct Training<'a> {
    pub(crate) resources: &'a Resources,
    pub(crate) catalog: &'a Catalog,
    pub(crate) database: &'a str,
    pub(crate) collection: u64,
    pub(crate) index: &'a Index,
}

impl Training<'_> {
    /// Trains the vector index if it has enough vectors and writers do not block the collection.
    /// `claimed` is the exclusive right to train, if the caller already has it. After `tries`
    /// failed attempts to lock the collection, the result is `Busy`.
    pub(crate) fn attempt(
        &self,
        claimed: Option<InTraining<'_>>,
        tries: u32,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Outcome> {
        let IndexKind::Vector(params) = &self.index.kind else { return Ok(Outcome::Left) };
        let before = self.standing()?;
        if before.stage == Stage::Ready {
            return Ok(Outcome::Ready);
        }
        if before.stage == Stage::Untrained && !self.has_enough(params)? {
            return Ok(Outcome::TooFew);
        }
        let claim = || self.resources.vectors.claim(self.index.id);
        let Some(_claimed) = claimed.or_else(claim) else { return Ok(Outcome::Left) };
        let outcome = self.run(params, tries, stopped);
        let failure = match &outcome {
            Ok(Outcome::TooFew) => Some(too_few()),
            Ok(_) => None,
            Err(error) => Some(error.clone()),
        };
        self.resources.vectors.set_failure(self.index.id, failure);
        outcome
    }

    fn run(
        &self,
        params: &VectorParams,
        tries: u32,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Outcome> {
        match self.fill(tries, stopped)? {
            Outcome::Ready => {}
            other => return Ok(other),
        }
        let before = self.standing()?;
        if before.stage == Stage::Untrained {
            let lists = self.lists(params)?;
            let sample = self.sample(params, lists)?;
            if sample.len() < lists as usize * params.dimension as usize {
                return Ok(Outcome::TooFew);
            }
            // A training is obsolete if the vector index was emptied or dropped.
            let over =
                || stopped() || self.owner().is_none() || self.standing().ok() != Some(before);
            let Some(centroids) = train(&sample, params, lists, self.index.id, &over) else {
                return Ok(Outcome::Left);
            };
            drop(sample);
            match self.publish(params, before, &centroids, tries)? {
                Outcome::Ready => {}
                other => return Ok(other),
            }
        }
        let mut from = Key::VectorList(self.index.id, 0).bytes();
        loop {
            if stopped() {
                return Ok(Outcome::Left);
            }
            if let Some(end) = self.move_some(params, &mut from, tries)? {
                return Ok(end);
            }
        }
    }

    pub(super) fn standing(&self) -> Result<Standing> {
        standing(&*self.resources.store.snapshot(), self.index.id)
    }

    /// Whether the vector index has at least as many vectors as lists.
    fn has_enough(&self, params: &VectorParams) -> Result<bool> {
        let wanted = params.lists as usize;
        Ok(count_up_to(&*self.resources.store.snapshot(), self.index.id, wanted)? >= wanted)
    }

    /// Returns the number of lists for the vector index's current vectors. Returns an error if the
    /// index's factory or the memory limit for centroids forbids the number of lists.
    fn lists(&self, params: &VectorParams) -> Result<u32> {
        let lists = match &params.scaling {
            None => params.lists,
            Some(_) => {
                let snapshot = self.resources.store.snapshot();
                params.lists_for(count_up_to(&*snapshot, self.index.id, usize::MAX)? as u64)
            }
        };
        let refusal = params.factory.as_deref().and_then(|text| Factory::refusal(text, lists));
        if let Some(refusal) = refusal {
            return Err(Error::new(Code::BadParameter, refusal));
        }
        if u64::from(params.dimension) * u64::from(lists) * 4 > VECTOR_CENTROIDS_BYTES_MAX {
            let text =
                format!("{lists} centroids take more than {VECTOR_CENTROIDS_BYTES_MAX} bytes");
            return Err(Error::new(Code::ResourceLimit, text));
        }
        Ok(lists)
    }

    /// A random sample of the vectors with a fixed seed; every vector is equally likely (Vitter,
    /// "Random sampling with a reservoir", 1985, algorithm R).
    fn sample(&self, params: &VectorParams, lists: u32) -> Result<Vec<f32>> {
        let dimension = params.dimension as usize;
        let most = u64::from(lists) * u64::from(params.documents_per_list);
        let most = most.min(VECTOR_SAMPLE_BYTES_MAX / (u64::from(params.dimension) * 4));
        let most = most.max(u64::from(lists));
        let mut chance = Random::new(self.index.id);
        let mut sample: Vec<f32> = Vec::new();
        let (lower, upper) = range(&Key::VectorList(self.index.id, 0));
        let snapshot = self.resources.store.snapshot();
        for (pair, seen) in snapshot.scan(Space::Indexes, &lower, &upper, false).zip(0_u64..) {
            let vector = components(&pair?.1, dimension)?;
            if seen < most {
                sample.extend(vector);
                continue;
            }
            let at = chance.below(seen + 1);
            if at < most {
                let at = at as usize * dimension;
                sample[at..at + dimension].copy_from_slice(&vector);
            }
        }
        Ok(sample)
    }

    /// Stores the centroids of the trained lists, so that writers use these lists. Does nothing if
    /// the index was emptied or dropped since the sample was read.
    fn publish(
        &self,
        params: &VectorParams,
        before: Standing,
        centroids: &[f32],
        tries: u32,
    ) -> Result<Outcome> {
        let Some(_alone) = self.alone(tries)? else { return Ok(Outcome::Busy) };
        if self.owner().is_none() || self.standing()? != before {
            return Ok(Outcome::Left);
        }
        let mut batch = Batch::default();
        for (centroid, list) in centroids.chunks_exact(params.dimension as usize).zip(1..) {
            let key = Key::VectorCentroid(self.index.id, list);
            batch.put(Space::Indexes, key.bytes(), bytes_of(centroid));
        }
        let generation = self.resources.clock.revision();
        let lists = (centroids.len() / params.dimension as usize) as u32;
        self.put_standing(&mut batch, Standing { stage: Stage::Ingesting, generation, lists });
        self.commit(batch, true)?;
        Ok(Outcome::Ready)
    }

    /// Moves some vectors from list 0 into the trained lists; sets the index ready when list 0 is
    /// empty. Returns `None` if vectors remain in list 0. First finds the trained list of each
    /// vector, without blocking writers. Then takes the collection lock and moves the vectors that
    /// still exist. `from` is the key where the previous step ended, so moved vectors are not read
    /// again. Writers that do not know the trained lists yet can add vectors to list 0 before
    /// `from`, so the last step reads list 0 from the beginning.
    fn move_some(
        &self,
        params: &VectorParams,
        from: &mut Vec<u8>,
        tries: u32,
    ) -> Result<Option<Outcome>> {
        let snapshot = self.resources.store.snapshot();
        let before = standing(&*snapshot, self.index.id)?;
        match before.stage {
            Stage::Filling(_) | Stage::Untrained => return Ok(Some(Outcome::Left)),
            Stage::Ready => return Ok(Some(Outcome::Ready)),
            Stage::Ingesting => {}
        }
        let model = self.resources.vectors.model(&*snapshot, self.index.id, params, before)?;
        let first = Key::VectorList(self.index.id, 0).bytes();
        let mut waiting = self.waiting(&*snapshot, from, VECTOR_STEP)?;
        if waiting.is_empty() {
            waiting = self.waiting(&*snapshot, &first, VECTOR_STEP)?;
        }
        let behind = waiting.last().map_or(first.clone(), |(key, _)| key.clone());
        let mut moves = Vec::with_capacity(waiting.len());
        for (key, value) in waiting {
            let list = model.list_of(&components(&value, params.dimension as usize)?);
            moves.push((key, value, list));
        }
        let Some(_alone) = self.alone(tries)? else { return Ok(Some(Outcome::Busy)) };
        let now = self.resources.store.snapshot();
        if self.owner().is_none() || standing(&*now, self.index.id)? != before {
            return Ok(Some(Outcome::Left));
        }
        let mut batch = Batch::default();
        for (key, value, list) in moves {
            if now.get(Space::Indexes, &key)?.is_some_and(|stored| stored == value) {
                let local = local_id_of_key(&key)?;
                let place = Key::VectorPlace(self.index.id, local);
                batch.put(Space::Indexes, place.bytes(), list.to_be_bytes());
                let entry = Key::VectorEntry(self.index.id, list, local);
                batch.put(Space::Indexes, entry.bytes(), value);
                batch.delete(Space::Indexes, key);
            }
        }
        if batch.is_empty() && self.waiting(&*now, &first, 1)?.is_empty() {
            self.put_standing(&mut batch, Standing { stage: Stage::Ready, ..before });
            self.commit(batch, true)?;
            return Ok(Some(Outcome::Ready));
        }
        self.commit(batch, false)?;
        *from = behind;
        Ok(None)
    }

    /// The first vectors of list 0 after a key.
    fn waiting(
        &self,
        snapshot: &dyn Snapshot,
        from: &[u8],
        most: usize,
    ) -> Result<Vec<(Vec<u8>, Bytes)>> {
        let (_, upper) = range(&Key::VectorList(self.index.id, 0));
        let pairs = snapshot.scan(Space::Indexes, from, &upper, false).take(most);
        pairs.map(|pair| pair.map(|(key, value)| (key.to_vec(), value))).collect()
    }

    pub(super) fn put_standing(&self, batch: &mut Batch, standing: Standing) {
        let key = Key::VectorStanding(self.index.id);
        batch.put(Space::Indexes, key.bytes(), standing.write());
    }

    pub(super) fn commit(&self, mut batch: Batch, sync: bool) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let ceilings = self.resources.clock.put_ceilings(&mut batch);
        self.resources.store.commit(batch, sync)?;
        self.resources.clock.written(ceilings);
        Ok(())
    }

    /// Takes the exclusive lock of the collection; returns `None` if writers hold the lock too
    /// long.
    pub(super) fn alone(&self, tries: u32) -> Result<Option<CollectionGuard>> {
        for tried in 0..tries {
            if tried > 0 {
                // The pause between attempts to lock the collection lets waiting writers run first.
                std::thread::sleep(Duration::from_millis(VECTOR_LOCK_PAUSE_MS));
            }
            let wait = Some(Duration::from_millis(VECTOR_LOCK_WAIT_MS));
            match self.resources.collection_locks.take(vec![(self.collection, true)], wait) {
                Ok(held) => return Ok(Some(held)),
                Err(error) if error.code == Code::LockTimeout => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The collection of the index, if the index still exists. The caller's lock prevents other
    /// threads from dropping the collection.
    pub(super) fn owner(&self) -> Option<Arc<Collection>> {
        let database = self.catalog.database(self.database).ok()?;
        let mut all = vector_indexes(&database);
        all.find(|(_, index)| index.id == self.index.id).map(|(owner, _)| owner.clone())
    }
}

/// ArangoDB's text for an index with too few vectors.
pub(crate) fn too_few() -> Error {
    Error::new(Code::QueryVectorIndexNotReady, "not enough training data for vector index")
}

/// The number of vectors in an index, or `most` if there are more.
pub(crate) fn count_up_to(snapshot: &dyn Snapshot, index: u64, most: usize) -> Result<usize> {
    let (lower, upper) = range(&Key::VectorPlaces(index));
    let mut count = 0;
    for pair in snapshot.scan(Space::Indexes, &lower, &upper, false).take(most) {
        pair?;
        count += 1;
    }
    Ok(count)
}

/// Removes the trained lists of all vector indexes of an empty collection that no other transaction
/// writes to.
pub(crate) fn reset_vector_indexes(resources: &Resources, collection: &Collection) -> Result<()> {
    let mut batch = Batch::default();
    let snapshot = resources.store.snapshot();
    for index in &collection.indexes {
        if !matches!(index.kind, IndexKind::Vector(_)) {
            continue;
        }
        let (lower, upper) = range(&Key::VectorCentroids(index.id));
        for pair in snapshot.scan(Space::Indexes, &lower, &upper, false) {
            batch.delete(Space::Indexes, pair?.0.to_vec());
        }
        // If a training of this index is running, it notices the new generation number and discards
        // its sample.
        let generation = resources.clock.revision();
        let fresh = Standing { stage: Stage::Untrained, generation, lists: 0 };
        batch.put(Space::Indexes, Key::VectorStanding(index.id).bytes(), fresh.write());
    }
    if batch.is_empty() {
        return Ok(());
    }
    let ceilings = resources.clock.put_ceilings(&mut batch);
    resources.store.commit(batch, true)?;
    resources.clock.written(ceilings);
    Ok(())
}

fn components(bytes: &[u8], dimension: usize) -> Result<Vec<f32>> {
    let (stored, rest) = bytes.as_chunks::<4>();
    if stored.len() != dimension || !rest.is_empty() {
        return Err(Error::new(Code::Internal, "a stored vector is damaged"));
    }
    Ok(stored.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
