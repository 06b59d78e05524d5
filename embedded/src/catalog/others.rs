//! Views, analyzers, graphs and settings: definitions without data of their own.

use std::sync::Arc;

use super::{names, record};
use crate::encode::{Key, decode_value, encode_value};
use crate::engine::Engine;
use crate::error::{Code, Error, Result};
use crate::schema::{Analyzer, Database, Graph, View};
use crate::storage::Batch;
use crate::text::check;
use crate::value::Value;

impl Engine {
    /// Makes or replaces a view (number 0: a new one is given); 1207 if a collection has its name, 1203 if one that it links
    /// is not there.
    pub fn put_view(&self, db: &str, mut view: View) -> Result<Arc<View>> {
        names::check_data_source(&view.name, false)?;
        if view.id == 0 {
            view.id = self.next_id();
        }
        let view = Arc::new(view);
        let database = self.database(db)?;
        check(&database, &view)?;
        // A writer that began before the view is known would not tell it what it writes.
        let before = database.views.values().find(|known| known.id == view.id);
        let joined = database.collections.values().filter(|collection| {
            view.holds(&collection.name)
                && !before.is_some_and(|known| known.holds(&collection.name))
        });
        let alone = self.writers_out(joined.map(|collection| collection.id))?;
        self.define(db, |database, batch| {
            if database.collections.contains_key(&view.name) {
                return Err(Error::new(
                    Code::DuplicateName,
                    format!("duplicate name: {}", view.name),
                ));
            }
            // One that is gone by now would be held again, without its documents, once another has its name.
            if let Some(missing) =
                view.linked().into_iter().find(|name| !database.collections.contains_key(name))
            {
                let text = format!("collection or view not found: {missing}");
                return Err(Error::new(Code::DataSourceNotFound, text));
            }
            let key = Key::View(database.id, &view.name);
            batch.put(key.space(), key.bytes(), encode_value(&record::of_view(&view)));
            database.views.insert(view.name.clone(), view.clone());
            Ok(())
        })?;
        drop(alone);
        self.define_views(db)?;
        if view.kind == "arangosearch" {
            self.resources.views.drain(&*self.resources.store, &view)?;
        }
        Ok(view)
    }

    /// Drops a view; 1203.
    pub fn drop_view(&self, db: &str, name: &str) -> Result<()> {
        self.define(db, |database, batch| {
            let text = format!("collection or view not found: {name}");
            let dropped = database
                .views
                .remove(name)
                .ok_or_else(|| Error::new(Code::DataSourceNotFound, text))?;
            let key = Key::View(database.id, name);
            batch.delete(key.space(), key.bytes());
            if !database.views.values().any(|view| view.id == dropped.id) {
                self.forget_view(batch, dropped.id);
            }
            Ok(())
        })?;
        self.define_views(db)?;
        self.clear_leftovers_soon();
        Ok(())
    }

    /// Leaves what the store keeps for a view to be cleared.
    pub(super) fn forget_view(&self, batch: &mut Batch, view: u64) {
        let position = Key::ViewPosition(view);
        batch.delete(position.space(), position.bytes());
        self.leave_over(batch, &Key::Pending(view));
    }

    /// Makes or replaces an analyzer.
    pub fn put_analyzer(&self, db: &str, analyzer: Analyzer) -> Result<()> {
        self.define(db, |database, batch| {
            let key = Key::Analyzer(database.id, &analyzer.name);
            batch.put(key.space(), key.bytes(), encode_value(&record::of_analyzer(&analyzer)));
            database.analyzers.insert(analyzer.name.clone(), Arc::new(analyzer.clone()));
            Ok(())
        })?;
        self.define_views(db)
    }

    /// Drops an analyzer; 1202, as ArangoDB answers it.
    pub fn drop_analyzer(&self, db: &str, name: &str) -> Result<()> {
        self.define(db, |database, batch| {
            database.analyzers.remove(name).ok_or_else(|| Error::of(Code::DocumentNotFound))?;
            let key = Key::Analyzer(database.id, name);
            batch.delete(key.space(), key.bytes());
            Ok(())
        })?;
        self.define_views(db)
    }

    /// Makes or replaces a named graph.
    pub fn put_graph(&self, db: &str, graph: Graph) -> Result<()> {
        self.define(db, |database, batch| {
            let key = Key::Graph(database.id, &graph.name);
            batch.put(key.space(), key.bytes(), encode_value(&record::of_graph(&graph)));
            database.graphs.insert(graph.name.clone(), Arc::new(graph.clone()));
            Ok(())
        })
    }

    /// Drops a named graph (not its collections); 1924.
    pub fn drop_graph(&self, db: &str, name: &str) -> Result<()> {
        self.define(db, |database, batch| {
            database.graphs.remove(name).ok_or_else(|| Error::of(Code::GraphNotFound))?;
            let key = Key::Graph(database.id, name);
            batch.delete(key.space(), key.bytes());
            Ok(())
        })
    }

    /// A small durable record of the server.
    pub fn setting(&self, name: &str) -> Result<Option<Value>> {
        let key = Key::Setting(name);
        let bytes = self.resources.store.snapshot().get(key.space(), &key.bytes())?;
        bytes.map(|bytes| decode_value(&bytes)).transpose()
    }

    /// Sets (or removes) a small durable record of the server.
    pub fn put_setting(&self, name: &str, value: Option<Value>) -> Result<()> {
        let key = Key::Setting(name);
        let mut batch = Batch::default();
        match value {
            Some(value) => batch.put(key.space(), key.bytes(), encode_value(&value)),
            None => batch.delete(key.space(), key.bytes()),
        }
        self.resources.store.commit(batch, true)
    }

    fn define(
        &self,
        db: &str,
        change: impl FnOnce(&mut Database, &mut Batch) -> Result<()>,
    ) -> Result<()> {
        let _changing = self.catalog.change();
        let mut database = Database::clone(&*self.database(db)?);
        let mut batch = Batch::default();
        change(&mut database, &mut batch)?;
        self.catalog.replace(&self.resources, db, Some(database), batch)
    }
}
