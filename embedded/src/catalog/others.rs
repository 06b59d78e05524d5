//! Creates, changes and drops views, analyzers, graphs and settings.

use std::sync::Arc;

use super::{names, record};
use crate::encode::{Key, decode_value, encode_value};
use crate::engine::Engine;
use crate::error::{Code, Error, Result};
use crate::schema::{Analyzer, Database, Graph, View};
use crate::storage::Batch;
use crate::text::check;
use crate::value::{Object, Value};

impl Engine {
    /// Creates or replaces a view; a view with id 0 gets a new id. Errors: 1207 if a collection has
    /// the view's name, 1203 if a linked collection does not exist.
    pub fn put_view(&self, db: &str, view: View) -> Result<Arc<View>> {
        let put = self.put_view_over(db, None, view)?;
        put.ok_or_else(|| {
            Error::new(
                Code::Internal,
                "a view was not written, although the call did not depend on an earlier definition",
            )
        })
    }

    /// Replaces a view if the view's definition still equals `before`; otherwise returns `None` and
    /// changes nothing.
    pub fn put_view_over(
        &self,
        db: &str,
        before: Option<&Arc<View>>,
        mut view: View,
    ) -> Result<Option<Arc<View>>> {
        names::check_data_source(&view.name, false)?;
        if view.id == 0 {
            view.id = self.next_id();
        }
        let view = Arc::new(view);
        let database = self.database(db)?;
        check(&database, &view)?;
        // A write transaction that began before the view existed does not record its changes for
        // the view, so the function waits for such transactions.
        let known = database.views.values().find(|known| known.id == view.id);
        let joined = database.collections.values().filter(|collection| {
            view.holds(&collection.name)
                && !known.is_some_and(|known| known.holds(&collection.name))
        });
        let alone = self.writers_out(joined.map(|collection| collection.id))?;
        let mut stale = false;
        self.define(db, |database, batch| {
            if let Some(before) = before {
                let now = database.views.get(&before.name);
                stale = !now.is_some_and(|now| Arc::ptr_eq(now, before));
                if stale {
                    return Ok(());
                }
            }
            if database.collections.contains_key(&view.name) {
                return Err(Error::new(
                    Code::DuplicateName,
                    format!("duplicate name: {}", view.name),
                ));
            }
            // Without this check, the view could link a missing collection. A later collection with
            // that name would then be linked, but the view would not contain its documents.
            if let Some(missing) =
                view.linked().into_iter().find(|name| !database.collections.contains_key(name))
            {
                let text = format!("collection or view not found: {missing}");
                return Err(Error::new(Code::DataSourceNotFound, text));
            }
            put(database, batch, view.clone());
            Ok(())
        })?;
        drop(alone);
        if stale {
            return Ok(None);
        }
        self.define_views(db)?;
        if view.kind == "arangosearch" {
            self.drain_store(view.id)?;
        }
        Ok(Some(view))
    }

    /// Renames a view. Errors: 1203 for an unknown view, 1207 if another view or collection has the
    /// name, 1208 for an illegal name.
    pub fn rename_view(&self, db: &str, name: &str, new: &str) -> Result<Arc<View>> {
        names::check_data_source(new, false)?;
        let mut renamed = None;
        self.define(db, |database, batch| {
            let text = format!("collection or view not found: {name}");
            let old = database.views.get(name).cloned();
            let old = old.ok_or_else(|| Error::new(Code::DataSourceNotFound, text))?;
            if name == new {
                renamed = Some(old);
                return Ok(());
            }
            if database.views.contains_key(new) || database.collections.contains_key(new) {
                return Err(Error::new(Code::DuplicateName, format!("duplicate name: {new}")));
            }
            let key = Key::View(database.id, name);
            batch.delete(key.space(), key.bytes());
            database.views.remove(name);
            let view = Arc::new(View { name: new.to_owned(), ..View::clone(&old) });
            put(database, batch, view.clone());
            renamed = Some(view);
            Ok(())
        })?;
        self.define_views(db)?;
        renamed.ok_or_else(|| Error::of(Code::Internal))
    }

    /// Drops a view; error 1203 for an unknown view.
    pub fn drop_view(&self, db: &str, name: &str) -> Result<()> {
        // A write transaction that still knows the view could write pending rows (changes to be
        // indexed) that nothing would remove, so the function waits for such transactions.
        let database = self.database(db)?;
        let view = database.views.get(name);
        let held = database
            .collections
            .values()
            .filter(|collection| view.is_some_and(|view| view.holds(&collection.name)));
        let alone = self.writers_out(held.map(|collection| collection.id))?;
        self.define(db, |database, batch| {
            let text = format!("collection or view not found: {name}");
            let dropped = database
                .views
                .remove(name)
                .ok_or_else(|| Error::new(Code::DataSourceNotFound, text))?;
            let key = Key::View(database.id, name);
            batch.delete(key.space(), key.bytes());
            self.forget_view(batch, dropped.id);
            Ok(())
        })?;
        drop(alone);
        self.define_views(db)?;
        self.clear_leftovers_soon();
        Ok(())
    }

    /// Makes a view or an inverted index process all commits that are complete now.
    pub(super) fn drain_store(&self, number: u64) -> Result<()> {
        self.resources.views.drain_number(&*self.resources.store, number, &|| false)
    }

    /// Marks the pending rows of a view (documents that the view has not processed yet) for
    /// removal.
    pub(super) fn forget_view(&self, batch: &mut Batch, view: u64) {
        let position = Key::ViewPosition(view);
        batch.delete(position.space(), position.bytes());
        self.leave_over(batch, &Key::Pending(view));
    }

    /// Creates or replaces an analyzer.
    pub fn put_analyzer(&self, db: &str, analyzer: Analyzer) -> Result<()> {
        self.define(db, |database, batch| {
            let key = Key::Analyzer(database.id, &analyzer.name);
            batch.put(key.space(), key.bytes(), encode_value(&record::of_analyzer(&analyzer)));
            database.analyzers.insert(analyzer.name.clone(), Arc::new(analyzer.clone()));
            Ok(())
        })?;
        self.define_views(db)
    }

    /// Drops an analyzer; error 1202 for an unknown analyzer, as in ArangoDB.
    pub fn drop_analyzer(&self, db: &str, name: &str) -> Result<()> {
        self.define(db, |database, batch| {
            database.analyzers.remove(name).ok_or_else(|| Error::of(Code::DocumentNotFound))?;
            let key = Key::Analyzer(database.id, name);
            batch.delete(key.space(), key.bytes());
            Ok(())
        })?;
        self.define_views(db)
    }

    /// Creates or replaces a named graph.
    pub fn put_graph(&self, db: &str, graph: Graph) -> Result<()> {
        self.define(db, |database, batch| {
            let key = Key::Graph(database.id, &graph.name);
            batch.put(key.space(), key.bytes(), encode_value(&record::of_graph(&graph)));
            database.graphs.insert(graph.name.clone(), Arc::new(graph.clone()));
            Ok(())
        })
    }

    /// Drops a named graph but not its collections; error 1924 for an unknown graph.
    pub fn drop_graph(&self, db: &str, name: &str) -> Result<()> {
        self.define(db, |database, batch| {
            database.graphs.remove(name).ok_or_else(|| Error::of(Code::GraphNotFound))?;
            let key = Key::Graph(database.id, name);
            batch.delete(key.space(), key.bytes());
            Ok(())
        })
    }

    /// Reads a durable setting of the server, such as the table of users.
    pub fn setting(&self, name: &str) -> Result<Option<Value>> {
        let key = Key::Setting(name);
        let bytes = self.resources.store.snapshot().get(key.space(), &key.bytes())?;
        bytes.map(|bytes| decode_value(&bytes)).transpose()
    }

    /// Writes or removes (`None`) a durable setting of the server, such as the table of users.
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

/// Replaces a view in a database's definition, and adds the change to a batch.
fn put(database: &mut Database, batch: &mut Batch, view: Arc<View>) {
    let key = Key::View(database.id, &view.name);
    batch.put(key.space(), key.bytes(), encode_value(&record::of_view(&view)));
    database.views.insert(view.name.clone(), view);
}

/// Updates `search-alias` views when a collection is renamed, and removes from `search-alias` views
/// the indexes for which `goes` is true.
pub(super) fn realias(
    database: &mut Database,
    batch: &mut Batch,
    goes: &dyn Fn(&str, &str) -> bool,
    renamed: Option<(&str, &str)>,
) {
    let aliases = database.views.values().filter(|view| view.kind == "search-alias");
    for view in aliases.cloned().collect::<Vec<_>>() {
        let before = view.indexes();
        let kept = before.iter().filter(|(collection, index)| !goes(collection, index));
        let kept = kept.map(|(collection, index)| match renamed {
            Some((old, new)) if old == collection => (new.to_owned(), index.clone()),
            _ => (collection.clone(), index.clone()),
        });
        let kept: Vec<(String, String)> = kept.collect();
        if kept == before {
            continue;
        }
        let entry = |(collection, index): (String, String)| {
            let mut entry = Object::new();
            entry.push_new("collection", collection.into());
            entry.push_new("index", index.into());
            Value::object(entry)
        };
        let mut properties = Object::new();
        properties.push_new("indexes", kept.into_iter().map(entry).collect::<Vec<_>>().into());
        let properties = Value::object(properties);
        put(database, batch, Arc::new(View { properties, ..View::clone(&view) }));
    }
}
