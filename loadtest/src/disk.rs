//! The floors of the disk: a log and a bare fjall, one record and one sync at a time.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::Fault;
use crate::load::Operation;

/// Appends a record to a file and waits for the disk (fdatasync), or does not.
pub(crate) fn log(
    folder: &Path,
    name: &str,
    record: Vec<u8>,
    sync: bool,
) -> Result<Operation, Fault> {
    let mut file = File::create_new(folder.join(name))?;
    Ok(Box::new(move || {
        let begun = Instant::now();
        file.write_all(&record)?;
        if sync {
            file.sync_data()?;
        }
        Ok(begun.elapsed())
    }))
}

/// A store with one key space.
pub(crate) struct Fjall {
    database: Database,
    keyspace: Keyspace,
    next: Arc<AtomicU64>,
}

impl Fjall {
    /// Opens a new store.
    pub(crate) fn open(folder: &Path) -> Result<Self, Fault> {
        let database =
            Database::builder(folder.join("fjall")).manual_journal_persist(true).open()?;
        let keyspace = database.keyspace("bench", KeyspaceCreateOptions::default)?;
        Ok(Self { database, keyspace, next: Arc::default() })
    }

    /// Inserts a record under a new key and waits for the disk.
    pub(crate) fn insert(&self, record: Vec<u8>) -> Operation {
        let (database, keyspace) = (self.database.clone(), self.keyspace.clone());
        let next = Arc::clone(&self.next);
        Box::new(move || {
            let key = next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            let begun = Instant::now();
            keyspace.insert(key, &record)?;
            database.persist(PersistMode::SyncData)?;
            Ok(begun.elapsed())
        })
    }
}
