//! Creates and drops indexes.

use std::sync::Arc;

use super::others::realias;
use super::state::collection as find;
use crate::data::{begin_filling, build_index};
use crate::encode::{Key, encode_ordered};
use crate::engine::Engine;
use crate::error::{Code, Error, Result};
use crate::index::check_definition;
use crate::limits::COLLECTION_INDEXES_MAX;
use crate::schema::{Collection, Database, Index, IndexKind};
use crate::storage::Batch;
use crate::text::check_index;
use crate::txn::InTraining;
use crate::value::{Object, Value};

/// Attributes that a comparison of two index definitions ignores.
const NAMES: [&str; 4] = ["name", "id", "inBackground", "isNewlyCreated"];

impl Engine {
    /// Creates an index over the existing documents, or returns an existing index with an equal
    /// definition. The returned `bool` tells whether the index is new. Errors: 1005 if an index
    /// with another definition has the same name, 1210 if two documents share a unique key. The
    /// function also trains a new vector index if the collection has enough vectors and can be
    /// locked.
    pub fn create_index(
        &self,
        db: &str,
        collection: &str,
        index: Index,
    ) -> Result<(Arc<Index>, bool)> {
        let (index, is_new, claimed) = self.make_index(db, collection, index, false)?;
        if let Some((owner, training)) = claimed {
            self.train_now(db, owner, &index, training);
        }
        self.fill_inverted(db, &index, is_new)?;
        Ok((index, is_new))
    }

    /// Fills a new inverted index with the existing documents.
    fn fill_inverted(&self, db: &str, index: &Index, is_new: bool) -> Result<()> {
        if is_new && index.is_inverted() {
            self.define_views(db)?;
            self.drain_store(index.id)?;
        }
        Ok(())
    }

    /// Creates an index like [`Self::create_index`], but fills a new vector index while clients
    /// write. A background thread trains the vector index after it is filled. If the vector index
    /// refuses a document while this function fills it, the function removes the index and returns
    /// error 10 or 17. If the background thread continues the filling and finds such a document,
    /// the index stays and its state contains the error.
    pub fn create_index_in_background(
        &self,
        db: &str,
        collection: &str,
        index: Index,
    ) -> Result<(Arc<Index>, bool)> {
        let (index, is_new, claimed) = self.make_index(db, collection, index, true)?;
        if let Some((owner, training)) = claimed {
            self.fill_now(db, owner, &index, training)
                .inspect_err(|error| self.give_up(db, owner, &index, error))?;
        }
        self.fill_inverted(db, &index, is_new)?;
        Ok((index, is_new))
    }

    /// Creates an index; the returned `bool` tells whether the index is new. For a new vector
    /// index, also returns the collection's id and the exclusive right to train the index, taken
    /// before other threads can see the index. With `beside_writers`, the function leaves a new
    /// vector index empty, and the caller must fill it.
    fn make_index(
        &self,
        db: &str,
        collection: &str,
        mut index: Index,
        beside_writers: bool,
    ) -> Result<(Arc<Index>, bool, Option<(u64, InTraining<'_>)>)> {
        check_definition(&index)?;
        let before = find(&*self.database(db)?, collection)?;
        if index.is_inverted() {
            check_index(&*self.database(db)?, &before, &index)?;
        }
        let _alone = self.writers_out([before.id])?;
        let _changing = self.catalog.change();
        let mut database = Database::clone(&*self.database(db)?);
        let owner = Collection::clone(&*find(&database, collection)?);
        if let Some(same) = owner.indexes.iter().find(|known| is_same(known, &index)) {
            return Ok((same.clone(), false, None));
        }
        check_place(&owner, &index)?;
        index.id = self.next_id();
        if index.name.is_empty() {
            index.name = format!("idx_{}", index.id);
        }
        let mut definition = index.definition.as_object().cloned().unwrap_or_else(Object::new);
        definition.insert("name", index.name.as_str().into());
        index.definition = Value::object(definition);
        let mut claimed = None;
        if matches!(index.kind, IndexKind::Vector(_)) {
            claimed = self.resources.vectors.claim(index.id).map(|training| (owner.id, training));
        }
        if claimed.is_some() && beside_writers {
            let mut batch = Batch::default();
            begin_filling(&mut batch, &self.resources, index.id);
            let index = self.finish_index(batch, &mut database, owner, index)?;
            return Ok((index, true, claimed));
        }
        let Some(range) = range_of(&index) else {
            let index = self.finish_index(Batch::default(), &mut database, owner, index)?;
            return Ok((index, true, None));
        };
        // If the engine stops while it builds the index, the next start removes the index's
        // entries.
        let mut note = Batch::default();
        let leftover = self.leave_over(&mut note, &range);
        self.set_building(leftover, true);
        let built = self.resources.store.commit(note, true);
        let built = built.and_then(|()| build_index(&*self.resources.store, &owner, &index));
        let finished = built.and_then(|()| {
            let (mut batch, key) = (Batch::default(), Key::Leftover(leftover));
            batch.delete(key.space(), key.bytes());
            self.finish_index(batch, &mut database, owner, index)
        });
        self.set_building(leftover, false);
        let index = finished.inspect_err(|_| self.clear_leftovers_soon())?;
        Ok((index, true, claimed))
    }

    fn finish_index(
        &self,
        mut batch: Batch,
        database: &mut Database,
        mut owner: Collection,
        index: Index,
    ) -> Result<Arc<Index>> {
        let index = Arc::new(index);
        owner.indexes.push(index.clone());
        self.put_collection_with(&mut batch, database, owner)?;
        Ok(index)
    }

    /// Removes an index if `error` says that the index refused a document. After any other error
    /// the index stays, and the background thread continues to fill it.
    fn give_up(&self, db: &str, owner: u64, index: &Index, error: &Error) {
        if !matches!(error.code, Code::BadParameter | Code::TypeError) {
            return;
        }
        let dropped = self.database(db).and_then(|database| {
            // The collection may have been renamed since the index was created.
            let mut all = database.collections.values();
            let owner = all.find(|collection| collection.id == owner);
            owner.map_or(Ok(()), |owner| self.drop_index(db, &owner.name, index.id))
        });
        if let Err(why) = dropped {
            tracing::warn!(index = index.id, %why, "an index that refuses a document could not be removed");
            self.resources.vectors.set_failure(index.id, Some(error.clone()));
        }
    }

    /// Drops an index. Errors: 1212 for an unknown index, 11 for the primary and the edge index.
    pub fn drop_index(&self, db: &str, collection: &str, id: u64) -> Result<()> {
        let before = find(&*self.database(db)?, collection)?;
        let _alone = self.writers_out([before.id])?;
        let _changing = self.catalog.change();
        let mut database = Database::clone(&*self.database(db)?);
        let mut owner = Collection::clone(&*find(&database, collection)?);
        let at = owner.indexes.iter().position(|index| index.id == id);
        let at = at.ok_or_else(|| Error::of(Code::IndexNotFound))?;
        if matches!(owner.indexes[at].kind, IndexKind::Primary | IndexKind::Edge) {
            return Err(Error::new(Code::Forbidden, "primary and edge indexes cannot be dropped")
                .with_status(400));
        }
        let mut batch = Batch::default();
        let dropped = owner.indexes.remove(at);
        if let Some(range) = range_of(&dropped) {
            self.leave_over(&mut batch, &range);
        }
        if dropped.is_inverted() {
            self.forget_view(&mut batch, dropped.id);
            let goes = |of: &str, name: &str| of == owner.name && name == dropped.name;
            realias(&mut database, &mut batch, &goes, None);
        }
        self.put_collection_with(&mut batch, &mut database, owner)?;
        if dropped.is_inverted() {
            self.define_views(db)?;
        }
        self.clear_leftovers_soon();
        Ok(())
    }
}

/// The key range of an index's entries; `None` for an index that stores no entries.
pub(super) fn range_of(index: &Index) -> Option<Key<'static>> {
    match index.kind {
        IndexKind::Persistent | IndexKind::Ttl if index.unique => Some(Key::Unique(index.id)),
        IndexKind::Persistent | IndexKind::Ttl => Some(Key::Sorted(index.id)),
        IndexKind::Vector(_) => Some(Key::Vector(index.id)),
        IndexKind::Primary | IndexKind::Edge | IndexKind::DefinitionOnly(_) => None,
    }
}

fn is_same(known: &Index, new: &Index) -> bool {
    let rest = |index: &Index| {
        let mut object = index.definition.as_object().cloned().unwrap_or_default();
        NAMES.iter().for_each(|name| {
            object.remove(name);
        });
        let mut bytes = Vec::new();
        encode_ordered(&Value::object(object), &mut bytes);
        bytes
    };
    known.kind == new.kind
        && known.fields == new.fields
        && known.unique == new.unique
        && known.sparse == new.sparse
        && rest(known) == rest(new)
}

fn check_place(owner: &Collection, index: &Index) -> Result<()> {
    if owner.indexes.iter().any(|known| known.name == index.name) {
        return Err(Error::new(
            Code::DuplicateIdentifier,
            format!("duplicate value for `name`: another index is called {}", index.name),
        ));
    }
    if !index.name.is_empty() {
        super::names::check_data_source(&index.name, false)?;
    }
    if index.kind == IndexKind::Ttl
        && owner.indexes.iter().any(|known| known.kind == IndexKind::Ttl)
    {
        return Err(Error::new(
            Code::BadParameter,
            "there can only be one ttl index per collection",
        ));
    }
    if owner.indexes.len() >= COLLECTION_INDEXES_MAX + 2 {
        let text = format!("the collection has {COLLECTION_INDEXES_MAX} indexes already");
        return Err(Error::new(Code::ResourceLimit, text));
    }
    Ok(())
}
