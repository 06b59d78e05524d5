//! The searchable views of all databases: opens, updates, searches and closes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use super::definition::Definition;
use super::query::Query;
use super::reader::{Hits, ViewReader};
use super::score::Scoring;
use super::segments::{self, failed};
use super::view::{View, Whole};
use crate::error::Result;
use crate::limits::VIEW_CLOSE_MS;
use crate::storage::Store;

/// The searchable views of all databases.
pub(crate) struct Views {
    directory: PathBuf,
    whole: Whole,
    open: RwLock<BTreeMap<u64, OpenView>>,
    changing: Mutex<()>,
}

#[derive(Clone)]
struct OpenView {
    database: u64,
    view: Arc<View>,
}

impl Views {
    /// Creates an empty set of views whose segments are in `directory`. The function `whole`
    /// decodes a stored document.
    pub(crate) fn new(directory: PathBuf, whole: Whole) -> Self {
        Self { directory, whole, open: RwLock::default(), changing: Mutex::default() }
    }

    /// Applies the view definitions of a database: opens new views, and removes dropped ones. The
    /// function `definitions` is called under the lock, so that an older definition never replaces
    /// a newer one.
    pub(crate) fn define(
        &self,
        store: &dyn Store,
        database: u64,
        definitions: impl FnOnce() -> Vec<Definition>,
    ) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let definitions = definitions();
        let wanted: BTreeSet<u64> = definitions.iter().map(|definition| definition.view).collect();
        for definition in definitions {
            let number = definition.view;
            if let Some(known) = self.find(number) {
                known.define(definition);
                continue;
            }
            let directory = self.directory.join(number.to_string());
            let view = View::open(&directory, definition, &*store.snapshot(), self.whole)?;
            let opened = OpenView { database, view: Arc::new(view) };
            self.open.write().unwrap_or_else(PoisonError::into_inner).insert(number, opened);
        }
        let mut gone = Vec::new();
        self.open.write().unwrap_or_else(PoisonError::into_inner).retain(|number, opened| {
            let stays = opened.database != database || wanted.contains(number);
            if !stays {
                gone.push((*number, opened.view.clone()));
            }
            stays
        });
        for (number, view) in gone {
            let removed =
                view.end().and_then(|()| remove(&self.directory.join(number.to_string())));
            if let Err(error) = removed {
                tracing::warn!(view = number, %error, "the segments of a dropped view stay on disk until the next start");
            }
        }
        Ok(())
    }

    /// Removes the segments of all views that are not open.
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

    /// Returns the ids of the searchable views.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Brings a view up to date with all commits of the store, if the view exists. Ends early if
    /// `stopped` returns true.
    pub(crate) fn drain_number(
        &self,
        store: &dyn Store,
        number: u64,
        stopped: &dyn Fn() -> bool,
    ) -> Result<()> {
        self.find(number).map_or(Ok(()), |view| view.drain(store, stopped))
    }

    /// Merges segments of a view without recent changes, and prepares data for its searches; does
    /// nothing if the view does not exist. Ends early if `stopped` returns true.
    pub(crate) fn tidy_number(&self, number: u64, stopped: &dyn Fn() -> bool) -> Result<()> {
        self.find(number).map_or(Ok(()), |view| view.tidy(stopped))
    }

    /// Searches one or more views or inverted indexes together, as they were at their last commit.
    /// A missing view counts as empty.
    pub(crate) fn search(
        &self,
        numbers: &[u64],
        query: &Query,
        scorings: &[Scoring],
        collections: Option<BTreeSet<u64>>,
    ) -> Result<Hits> {
        let open = numbers.iter().filter_map(|number| self.find(*number));
        let pieces = open.map(|view| view.piece()).collect();
        ViewReader::new(pieces, segments::fields()).search(query, scorings, collections)
    }

    /// Closes all views. Waits for running merges of segments for a limited time, because no merge
    /// may write after the engine is closed.
    pub(crate) fn close(&self) {
        let open = std::mem::take(&mut *self.open.write().unwrap_or_else(PoisonError::into_inner));
        let (ended, waiting) = mpsc::channel::<()>();
        for writer in open.values().filter_map(|opened| opened.view.last_writer()) {
            let ended = ended.clone();
            let wait = move || {
                if let Err(error) = writer.wait_merging_threads() {
                    tracing::warn!(%error, "segments of a view could not be merged");
                }
                drop(ended);
            };
            if let Err(error) = thread::Builder::new().name("views".into()).spawn(wait) {
                tracing::warn!(%error, "the thread that waits for merges did not start");
            }
        }
        drop(ended);
        // The channel carries no messages; it closes when the last waiting thread ends.
        let limit = Duration::from_millis(VIEW_CLOSE_MS);
        if waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(after_ms = VIEW_CLOSE_MS, "merges of segments did not finish");
        }
    }

    fn find(&self, number: u64) -> Option<Arc<View>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&number).map(|opened| opened.view.clone())
    }
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}
