//! The catalog in memory: one immutable definition for each database. A change is written to disk
//! before the definition in memory is replaced.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use super::record;
use crate::compat::Release;
use crate::encode::{Key, Space, decode_value, successor};
use crate::error::{Code, Error, Result};
use crate::schema::{Collection, Database};
use crate::storage::{Batch, Snapshot};
use crate::txn::Resources;
use crate::value::Value;

type Databases = BTreeMap<String, Arc<Database>>;

/// All databases, and a lock that lets only one thread at a time change their definitions.
pub(crate) struct Catalog {
    databases: RwLock<Arc<Databases>>,
    changing: Mutex<()>,
}

impl Catalog {
    /// Reads all definitions.
    pub(crate) fn load(snapshot: &dyn Snapshot, release: Release) -> Result<Self> {
        let mut databases = Databases::new();
        for value in values(snapshot, &Key::Databases)? {
            let mut database = record::to_database(&value)?;
            database.release = release;
            let id = database.id;
            for value in values(snapshot, &Key::Collections(id))? {
                let collection = record::to_collection(&value)?;
                database.collections.insert(collection.name.clone(), Arc::new(collection));
            }
            for value in values(snapshot, &Key::View(id, ""))? {
                let view = record::to_view(&value)?;
                database.views.insert(view.name.clone(), Arc::new(view));
            }
            for value in values(snapshot, &Key::Analyzer(id, ""))? {
                let analyzer = record::to_analyzer(&value)?;
                database.analyzers.insert(analyzer.name.clone(), Arc::new(analyzer));
            }
            for value in values(snapshot, &Key::Graph(id, ""))? {
                let graph = record::to_graph(&value)?;
                database.graphs.insert(graph.name.clone(), Arc::new(graph));
            }
            databases.insert(database.name.clone(), Arc::new(database));
        }
        Ok(Self { databases: RwLock::new(Arc::new(databases)), changing: Mutex::new(()) })
    }

    /// The current definitions of all databases.
    pub(crate) fn all(&self) -> Arc<Databases> {
        self.databases.read().expect("only moves inside").clone()
    }

    /// The current definition of a database, or error 1228.
    pub(crate) fn database(&self, name: &str) -> Result<Arc<Database>> {
        let databases = self.databases.read().expect("only moves inside");
        databases.get(name).cloned().ok_or_else(|| {
            Error::new(Code::DatabaseNotFound, format!("database not found: {name}"))
        })
    }

    /// Returns the lock that a thread holds while it changes definitions of the catalog.
    pub(super) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().expect("a failed change leaves the catalog as it was")
    }

    /// Writes a change of a database's definition durably, then makes the new definition visible to
    /// other threads (`None` for a dropped database).
    pub(super) fn replace(
        &self,
        resources: &Resources,
        name: &str,
        database: Option<Database>,
        mut batch: Batch,
    ) -> Result<()> {
        let ceilings = resources.clock.put_ceilings(&mut batch);
        resources.store.commit(batch, true)?;
        resources.clock.written(ceilings);
        let mut databases = self.databases.write().expect("only moves inside");
        match database {
            Some(database) => {
                Arc::make_mut(&mut databases).insert(name.to_owned(), Arc::new(database))
            }
            None => Arc::make_mut(&mut databases).remove(name),
        };
        Ok(())
    }
}

/// Returns a collection by its name, or error 1203.
pub(super) fn collection(database: &Database, name: &str) -> Result<Arc<Collection>> {
    let found = database.collections.get(name).cloned();
    found.ok_or_else(|| {
        Error::new(Code::DataSourceNotFound, format!("collection or view not found: {name}"))
    })
}

fn values(snapshot: &dyn Snapshot, prefix: &Key<'_>) -> Result<Vec<Value>> {
    let lower = prefix.bytes();
    let upper = successor(lower.clone()).expect("a key begins with a small kind byte");
    snapshot.scan(Space::Meta, &lower, &upper, false).map(|pair| decode_value(&pair?.1)).collect()
}
