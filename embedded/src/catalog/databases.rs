//! Creates and drops databases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{names, record};
use crate::encode::{Key, encode_value};
use crate::engine::Engine;
use crate::error::{Code, Error, Result};
use crate::index::{primary_index, users_index};
use crate::limits::{DATABASES_MAX, DEFINITION_LOCK_WAIT_MS, DROP_LOCK_TURN_MS};
use crate::schema::{Collection, CollectionKind, Database};
use crate::storage::Batch;
use crate::txn::CollectionGuard;
use crate::value::Value;

/// The system collections that only the database `_system` has, and the system collections of every
/// database.
const SERVER_COLLECTIONS: [&str; 4] = ["_users", "_statistics", "_statistics15", "_statisticsRaw"];
const SYSTEM_COLLECTIONS: [&str; 8] = [
    "_graphs",
    "_analyzers",
    "_aqlfunctions",
    "_queues",
    "_jobs",
    "_apps",
    "_appbundles",
    "_frontend",
];
/// Ids of `_system` and its collections on a new server (recorded from 3.12.10); the ids of all
/// other databases and collections are larger.
const SYSTEM_DATABASE_ID: u64 = 1;
const SYSTEM_COLLECTION_IDS_FROM: u64 = 3;

impl Engine {
    /// Returns the current definition of a database, or error 1228.
    pub fn database(&self, name: &str) -> Result<Arc<Database>> {
        self.catalog.database(name)
    }

    /// Returns all databases, sorted by name.
    pub fn databases(&self) -> Vec<Arc<Database>> {
        self.catalog.all().values().cloned().collect()
    }

    /// Creates a database with its system collections. Errors: 1207 if the database exists, 1229
    /// for an illegal name.
    pub fn create_database(&self, name: &str, options: Value) -> Result<Arc<Database>> {
        names::check_database(name)?;
        let _changing = self.catalog.change();
        let databases = self.catalog.all();
        if databases.contains_key(name) {
            return Err(Error::of(Code::DuplicateName));
        }
        if databases.len() >= DATABASES_MAX {
            return Err(Error::new(
                Code::ResourceLimit,
                format!("there are {DATABASES_MAX} databases already"),
            ));
        }
        let options = if options.is_null() { record::no_options() } else { options };
        let system = name == "_system";
        let id = if system { SYSTEM_DATABASE_ID } else { self.next_id() };
        let release = self.options().release;
        let mut database =
            Database { id, name: name.to_owned(), options, release, ..Database::default() };
        let mut batch = Batch::default();
        let key = Key::Database(database.id);
        batch.put(key.space(), key.bytes(), encode_value(&record::of_database(&database)));
        let server: &[&str] = if system { &SERVER_COLLECTIONS } else { &[] };
        for (name, fixed) in
            server.iter().chain(&SYSTEM_COLLECTIONS).zip(SYSTEM_COLLECTION_IDS_FROM..)
        {
            let mut collection =
                system_collection(if system { fixed } else { self.next_id() }, name);
            if collection.name == "_users" {
                collection.indexes.push(Arc::new(users_index(self.next_id())));
            }
            let key = Key::Collection(database.id, collection.id);
            batch.put(key.space(), key.bytes(), encode_value(&record::of_collection(&collection)));
            database.collections.insert(collection.name.clone(), Arc::new(collection));
        }
        self.catalog.replace(&self.resources, name, Some(database), batch)?;
        self.database(name)
    }

    /// Drops a database with all its contents. Errors: 1228 for an unknown database, 11 for
    /// `_system`.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        if name == "_system" {
            return Err(Error::new(Code::Forbidden, "the _system database cannot be dropped"));
        }
        let before = self.database(name)?;
        let _alone = self.nobody_in(name, &before)?;
        let _changing = self.catalog.change();
        let database = self.database(name)?;
        let mut batch = Batch::default();
        let mut forget = |key: Key<'_>| batch.delete(key.space(), key.bytes());
        forget(Key::Database(database.id));
        database.views.keys().for_each(|name| forget(Key::View(database.id, name)));
        database.analyzers.keys().for_each(|name| forget(Key::Analyzer(database.id, name)));
        database.graphs.keys().for_each(|name| forget(Key::Graph(database.id, name)));
        for collection in database.collections.values() {
            self.forget_collection(&mut batch, database.id, collection);
        }
        for view in database.views.values() {
            self.forget_view(&mut batch, view.id);
        }
        self.catalog.replace(&self.resources, name, None, batch)?;
        self.resources.views.define(&*self.resources.store, database.id, Vec::new)?;
        self.clear_leftovers_soon();
        Ok(())
    }
}

impl Engine {
    /// Blocks all writers of a database. Aborts the database's stream transactions, because no
    /// request can commit them after the database is dropped. An abort can let a waiting
    /// transaction begin, so the loop repeats until the database has no transactions.
    fn nobody_in(&self, name: &str, database: &Database) -> Result<CollectionGuard> {
        let until = Instant::now() + Duration::from_millis(DEFINITION_LOCK_WAIT_MS);
        let wanted: Vec<(u64, bool)> =
            database.collections.values().map(|collection| (collection.id, true)).collect();
        loop {
            self.streams().abort_all_in(name);
            let turn = Duration::from_millis(DROP_LOCK_TURN_MS);
            match self.resources.collection_locks.take(wanted.clone(), Some(turn)) {
                Err(error) if error.code == Code::LockTimeout && Instant::now() < until => {}
                taken => return taken,
            }
        }
    }
}

fn system_collection(id: u64, name: &str) -> Collection {
    Collection {
        id,
        is_system: true,
        indexes: vec![Arc::new(primary_index())],
        ..Collection::new(name, CollectionKind::Document)
    }
}
