//! Fills a vector index with the vectors of older documents while writers continue.
//!
//! After a new vector index becomes visible to writers, each write of a document also stores the
//! document's vector. The thread that fills a vector index therefore reads only documents that are
//! older than the index, once, in the order of local ids. Reading older documents does not block
//! writers. Under the collection lock (see `training`), the thread then stores each vector, but
//! only if its document has not changed since the thread read it. The commit that stores vectors of
//! older documents also stores the position of the last document read.

use super::training::{Outcome, Training};
use crate::encode::{Key, Record, Space, local_id_of_key};
use crate::error::Result;
use crate::limits::VECTOR_STEP;
use crate::schema::IndexKind;
use crate::storage::Batch;
use crate::txn::{Resources, standing, whole};
use crate::vector::{Stage, Standing, bytes_of, key_of, of_document};

/// Records in `batch` that a new vector index must be filled with older documents. The caller adds
/// the definition of the index to the same batch, and blocks writers of the collection until the
/// batch is committed.
pub(crate) fn begin_filling(batch: &mut Batch, resources: &Resources, index: u64) {
    let generation = resources.clock.revision();
    let filling = Standing { stage: Stage::Filling(0), generation, lists: 0 };
    batch.put(Space::Indexes, Key::VectorStanding(index).bytes(), filling.write());
}

impl Training<'_> {
    /// Runs until all documents are in the index, then returns `Ready`. Returns `Busy` or `Left` if
    /// the filling ends earlier. Returns error 10 or 17 for a document that the index refuses.
    pub(crate) fn fill(&self, tries: u32, stopped: &dyn Fn() -> bool) -> Result<Outcome> {
        loop {
            if stopped() {
                return Ok(Outcome::Left);
            }
            if let Some(end) = self.fill_some(tries)? {
                return Ok(end);
            }
        }
    }

    /// Adds the vectors of some older documents to a vector index; returns `None` if older
    /// documents remain.
    fn fill_some(&self, tries: u32) -> Result<Option<Outcome>> {
        let snapshot = self.resources.store.snapshot();
        let before = standing(&*snapshot, self.index.id)?;
        let Stage::Filling(behind) = before.stage else { return Ok(Some(Outcome::Ready)) };
        let (IndexKind::Vector(params), Some(owner)) = (&self.index.kind, self.owner()) else {
            return Ok(Some(Outcome::Left));
        };
        let place = |local| Key::VectorPlace(self.index.id, local).bytes();
        let lower = Key::Document(owner.id, behind + 1).bytes();
        let upper = Key::Document(owner.id, before.generation).bytes();
        let (mut last, mut found) = (None, Vec::new());
        for pair in snapshot.scan(Space::Documents, &lower, &upper, false).take(VECTOR_STEP) {
            let (key, stored) = pair?;
            let local = local_id_of_key(&key)?;
            last = Some(local);
            if snapshot.get(Space::Indexes, &place(local))?.is_some() {
                continue;
            }
            let document = whole(&owner, &stored)?;
            let object = document.as_object().expect("a stored document is an object");
            if let Some(vector) = of_document(self.index, params, key_of(object), object)? {
                let revision = Record::read(&stored)?.revision;
                found.push((local, key.to_vec(), revision, bytes_of(&vector)));
            }
        }
        let Some(_alone) = self.alone(tries)? else { return Ok(Some(Outcome::Busy)) };
        let now = self.resources.store.snapshot();
        if self.owner().is_none() || standing(&*now, self.index.id)? != before {
            return Ok(Some(Outcome::Left));
        }
        let mut batch = Batch::default();
        for (local, key, revision, vector) in found {
            // A writer that changed the document has stored the document's new vector; a removed
            // document needs no vector.
            let Some(current) = now.get(Space::Documents, &key)? else { continue };
            if Record::read(&current)?.revision == revision {
                batch.put(Space::Indexes, place(local), 0_u32.to_be_bytes());
                batch.put(
                    Space::Indexes,
                    Key::VectorEntry(self.index.id, 0, local).bytes(),
                    vector,
                );
            }
        }
        let stage = last.map_or(Stage::Untrained, Stage::Filling);
        self.put_standing(&mut batch, Standing { stage, ..before });
        self.commit(batch, last.is_none())?;
        Ok(last.is_none().then_some(Outcome::Ready))
    }
}
