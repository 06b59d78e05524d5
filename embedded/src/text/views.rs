//! All views of an engine that can be searched, and the one way to bring them up to the documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use super::definition::Definition;
use super::query::Query;
use super::reader::Hits;
use super::score::Scoring;
use super::segments::failed;
use super::view::{View, Whole};
use crate::error::{Error, Result};
use crate::schema::View as Defined;
use crate::storage::Store;

/// The views of all databases.
pub(crate) struct Views {
    directory: PathBuf,
    whole: Whole,
    open: RwLock<BTreeMap<u64, Opened>>,
    changing: Mutex<()>,
}

#[derive(Clone)]
struct Opened {
    database: u64,
    view: Arc<View>,
}

impl Views {
    /// No views yet; their segments lie under `directory`. `whole` makes a document of a stored record.
    pub(crate) fn new(directory: PathBuf, whole: Whole) -> Self {
        Self { directory, whole, open: RwLock::default(), changing: Mutex::default() }
    }

    /// Makes the definitions of a database the ones that hold: opens new views, drops those that are gone. `now` answers the
    /// number of the database and its definitions; it is asked while nobody else changes anything here, so that of two that
    /// come together the later one holds.
    pub(crate) fn define(
        &self,
        store: &dyn Store,
        now: impl FnOnce() -> Result<(u64, Vec<Definition>)>,
    ) -> Result<()> {
        let _changing =
            self.changing.lock().expect("a failed change leaves the views as they were");
        let (database, definitions) = now()?;
        let wanted: BTreeSet<u64> = definitions.iter().map(|definition| definition.view).collect();
        for definition in definitions {
            let number = definition.view;
            if let Some(known) = self.find(number) {
                known.define(definition);
                continue;
            }
            let directory = self.directory.join(number.to_string());
            let view = View::open(&directory, definition, &*store.snapshot(), self.whole)?;
            let opened = Opened { database, view: Arc::new(view) };
            self.open.write().expect("only moves inside").insert(number, opened);
        }
        let mut gone = Vec::new();
        self.open.write().expect("only moves inside").retain(|number, opened| {
            let stays = opened.database != database || wanted.contains(number);
            if !stays {
                gone.push(*number);
            }
            stays
        });
        for number in gone {
            remove(&self.directory.join(number.to_string()))?;
        }
        Ok(())
    }

    /// Removes the segments of views that nobody knows any more.
    pub(crate) fn clear_unknown(&self) -> Result<()> {
        if !self.directory.exists() {
            return Ok(());
        }
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if number.is_none_or(|number| self.find(number).is_none()) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Brings one view up to all that is committed now.
    pub(crate) fn drain(&self, store: &dyn Store, view: &Defined) -> Result<()> {
        self.need(view)?.drain(store, &|| false)
    }

    /// The views that can be searched.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.open.read().expect("only moves inside").keys().copied().collect()
    }

    /// Brings the view of a number up to all that is committed now, if it is there; ends early when `stopped`.
    pub(crate) fn drain_number(
        &self,
        store: &dyn Store,
        number: u64,
        stopped: &dyn Fn() -> bool,
    ) -> Result<()> {
        self.find(number).map_or(Ok(()), |view| view.drain(store, stopped))
    }

    /// Looks into a view as it was committed last; 501 for a view of a kind that cannot be searched.
    pub(crate) fn search(
        &self,
        view: &Defined,
        query: &Query,
        scorings: &[Scoring],
        collections: Option<BTreeSet<u64>>,
    ) -> Result<Hits> {
        self.need(view)?.search(query, scorings, collections)
    }

    /// Closes all views.
    pub(crate) fn close(&self) {
        self.open.write().expect("only moves inside").clear();
    }

    fn find(&self, number: u64) -> Option<Arc<View>> {
        let open = self.open.read().expect("only moves inside");
        open.get(&number).map(|opened| opened.view.clone())
    }

    fn need(&self, view: &Defined) -> Result<Arc<View>> {
        self.find(view.id).ok_or_else(|| {
            Error::unsupported(format!("searching the {} view '{}'", view.kind, view.name))
        })
    }
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}
