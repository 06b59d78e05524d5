//! Creates, changes, truncates and drops collections.

use std::sync::Arc;
use std::time::Duration;

use super::indexes::range_of;
use super::others::realias;
use super::state::collection as find;
use super::{names, record};
use crate::data::{check_rule, computed_values, empty_collection, reset_vector_indexes};
use crate::encode::{Key, encode_value};
use crate::engine::Engine;
use crate::error::{Code, Error, Result};
use crate::index::{edge_index, primary_index};
use crate::limits::{COLLECTIONS_MAX, DEFINITION_LOCK_WAIT_MS, REQUEST_WRITES_BYTES_MAX};
use crate::schema::{Collection, CollectionKind, Database, View};
use crate::storage::Batch;
use crate::txn::{Beginning, CollectionGuard, Declared};
use crate::value::Value;

impl Engine {
    /// Creates a collection, with a new id and the primary index or edge index. Errors: 1207 if a
    /// collection or view already has the name, 1208 for an illegal name, 1621 for a schema that
    /// the engine cannot check.
    pub fn create_collection(
        &self,
        db: &str,
        mut collection: Collection,
    ) -> Result<Arc<Collection>> {
        names::check_data_source(&collection.name, collection.is_system)?;
        check_properties(&collection)?;
        let _changing = self.catalog.change();
        let mut database = Database::clone(&*self.database(db)?);
        check_free(&database, &collection.name)?;
        if database.collections.len() + database.views.len() >= COLLECTIONS_MAX {
            let text = format!("the database has {COLLECTIONS_MAX} collections and views already");
            return Err(Error::new(Code::ResourceLimit, text));
        }
        collection.id = self.next_id();
        collection.indexes = vec![Arc::new(primary_index())];
        if collection.kind == CollectionKind::Edge {
            collection.indexes.push(Arc::new(edge_index()));
        }
        self.put_collection(&mut database, collection)
    }

    /// Changes a collection's properties. The collection's name, id, type and indexes stay the
    /// same.
    pub fn change_collection(
        &self,
        db: &str,
        name: &str,
        change: &mut dyn FnMut(&mut Collection) -> Result<()>,
    ) -> Result<Arc<Collection>> {
        let _changing = self.catalog.change();
        let mut database = Database::clone(&*self.database(db)?);
        let before = find(&database, name)?;
        let mut after = Collection::clone(&before);
        change(&mut after)?;
        after.id = before.id;
        after.name.clone_from(&before.name);
        after.kind = before.kind;
        after.indexes.clone_from(&before.indexes);
        check_properties(&after)?;
        self.put_collection(&mut database, after)
    }

    /// Renames a collection. Errors: 1207 if another collection or view has the name, 1208 for an
    /// illegal name.
    pub fn rename_collection(&self, db: &str, name: &str, new: &str) -> Result<Arc<Collection>> {
        let before = find(&*self.database(db)?, name)?;
        if before.is_system {
            return Err(Error::new(Code::Forbidden, "system collections cannot be renamed"));
        }
        names::check_data_source(new, false)?;
        let _alone = self.writers_out([before.id])?;
        let _changing = self.catalog.change();
        let mut database = Database::clone(&*self.database(db)?);
        let mut collection = Collection::clone(&*find(&database, name)?);
        if name == new {
            return Ok(Arc::new(collection));
        }
        check_free(&database, new)?;
        database.collections.remove(name);
        new.clone_into(&mut collection.name);
        let mut batch = Batch::default();
        relink(&mut database, &mut batch, name, Some(new));
        realias(&mut database, &mut batch, &|_, _| false, Some((name, new)));
        let renamed = self.put_collection_with(&mut batch, &mut database, collection)?;
        self.define_views(db)?;
        Ok(renamed)
    }

    /// Drops a collection. A background thread later removes the collection's data.
    pub fn drop_collection(&self, db: &str, name: &str) -> Result<()> {
        let before = find(&*self.database(db)?, name)?;
        let _alone = self.writers_out([before.id])?;
        let _changing = self.catalog.change();
        let mut database = Database::clone(&*self.database(db)?);
        let collection = find(&database, name)?;
        let mut batch = Batch::default();
        self.forget_collection(&mut batch, database.id, &collection);
        database.collections.remove(name);
        relink(&mut database, &mut batch, name, None);
        realias(&mut database, &mut batch, &|collection, _| collection == name, None);
        self.catalog.replace(&self.resources, db, Some(database), batch)?;
        self.define_views(db)?;
        self.clear_leftovers_soon();
        Ok(())
    }

    /// Removes all documents of a collection in several commits. Other writers wait until the last
    /// of these commits is complete.
    pub fn truncate(&self, db: &str, name: &str) -> Result<()> {
        let before = find(&*self.database(db)?, name)?;
        let _alone = self.writers_out([before.id])?;
        let collection = find(&*self.database(db)?, name)?;
        let declared = Declared { write: vec![name.to_owned()], ..Declared::default() };
        let beginning = Beginning {
            lock_wait: None,
            writes_bytes_max: REQUEST_WRITES_BYTES_MAX,
            wait_for_sync: false,
            one_request: true,
            locked_outside: true,
        };
        empty_collection(|| self.begin_with(db, &declared, beginning), &collection)?;
        if self.options().release.untrained_vectors() {
            reset_vector_indexes(&self.resources, &collection)?;
        }
        Ok(())
    }

    /// Writes a collection's definition durably, then makes it visible to other threads.
    pub(super) fn put_collection(
        &self,
        database: &mut Database,
        collection: Collection,
    ) -> Result<Arc<Collection>> {
        let mut batch = Batch::default();
        self.put_collection_with(&mut batch, database, collection)
    }

    /// Writes a collection's definition in one batch with the caller's other changes, then makes
    /// the definition visible to other threads.
    pub(super) fn put_collection_with(
        &self,
        batch: &mut Batch,
        database: &mut Database,
        collection: Collection,
    ) -> Result<Arc<Collection>> {
        let key = Key::Collection(database.id, collection.id);
        batch.put(key.space(), key.bytes(), encode_value(&record::of_collection(&collection)));
        let collection = Arc::new(collection);
        database.collections.insert(collection.name.clone(), collection.clone());
        let name = database.name.clone();
        self.catalog.replace(
            &self.resources,
            &name,
            Some(std::mem::take(database)),
            std::mem::take(batch),
        )?;
        Ok(collection)
    }

    /// Removes a collection's definition and marks its key ranges for removal, in one batch.
    pub(super) fn forget_collection(
        &self,
        batch: &mut Batch,
        database: u64,
        collection: &Collection,
    ) {
        let id = collection.id;
        for key in [Key::Collection(database, id), Key::Count(id), Key::LastKey(id)] {
            batch.delete(key.space(), key.bytes());
        }
        for key in [Key::Documents(id), Key::Primary(id), Key::EdgeFrom(id), Key::EdgeTo(id)] {
            self.leave_over(batch, &key);
        }
        for range in collection.indexes.iter().filter_map(|index| range_of(index)) {
            self.leave_over(batch, &range);
        }
        for index in collection.indexes.iter().filter(|index| index.is_inverted()) {
            self.forget_view(batch, index.id);
        }
    }

    /// Marks a key range, which a background thread then removes. Returns the id of the mark.
    pub(super) fn leave_over(&self, batch: &mut Batch, range: &Key<'_>) -> u64 {
        let id = self.next_id();
        let key = Key::Leftover(id);
        let mut value = vec![range.space() as u8];
        value.extend_from_slice(&range.bytes());
        batch.put(key.space(), key.bytes(), value);
        id
    }

    /// Waits until no transaction writes to the collections, and blocks new writers. Returns error
    /// 18 if the writers do not finish in time.
    pub(super) fn writers_out(
        &self,
        ids: impl IntoIterator<Item = u64>,
    ) -> Result<CollectionGuard> {
        let wanted = ids.into_iter().map(|id| (id, true)).collect();
        self.resources
            .collection_locks
            .take(wanted, Some(Duration::from_millis(DEFINITION_LOCK_WAIT_MS)))
    }
}

/// Updates the links of views when a collection is renamed (`new`) or dropped (`None`).
fn relink(database: &mut Database, batch: &mut Batch, name: &str, new: Option<&str>) {
    let holding: Vec<_> =
        database.views.values().filter(|view| view.holds(name)).cloned().collect();
    for view in holding {
        let mut view = View::clone(&view);
        let mut properties = view.properties.as_object().cloned().unwrap_or_default();
        let links = view.properties.attribute("links");
        let mut links = links.as_object().cloned().unwrap_or_default();
        let link = links.remove(name).expect("the view covers this collection");
        if let Some(new) = new {
            links.insert(new, link);
        }
        properties.insert("links", Value::object(links));
        view.properties = Value::object(properties);
        let key = Key::View(database.id, &view.name);
        batch.put(key.space(), key.bytes(), encode_value(&record::of_view(&view)));
        database.views.insert(view.name.clone(), Arc::new(view));
    }
}

fn check_properties(collection: &Collection) -> Result<()> {
    computed_values(&collection.computed_values)?;
    collection.validation.as_ref().map_or(Ok(()), |validation| check_rule(&validation.rule))
}

fn check_free(database: &Database, name: &str) -> Result<()> {
    if database.collections.contains_key(name) || database.views.contains_key(name) {
        return Err(Error::new(Code::DuplicateName, format!("duplicate name: {name}")));
    }
    Ok(())
}
