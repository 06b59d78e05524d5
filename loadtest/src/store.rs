//! Measures the best performance of the disk, with a log file and with the bare key-value store
//! fjall. Both can write one batch at a time and wait until the batch is on disk.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::Fault;
use crate::load::Operation;

/// Creates a file, and returns a function that appends the given bytes to the file. With `sync`,
/// each append waits until the bytes are on disk (fdatasync).
pub(crate) fn log(path: &Path, record: Vec<u8>, sync: bool) -> Result<Operation, Fault> {
    let mut file = File::create_new(path)?;
    Ok(Box::new(move || {
        let begun = Instant::now();
        file.write_all(&record)?;
        if sync {
            file.sync_data()?;
        }
        Ok(begun.elapsed())
    }))
}

/// A bare fjall store with one key space.
pub(crate) struct BareStore {
    database: Database,
    keyspace: Keyspace,
    next: Arc<AtomicU64>,
}

impl BareStore {
    /// Creates a bare fjall store in a new folder.
    pub(crate) fn open(folder: &Path) -> Result<Self, Fault> {
        let database = Database::builder(folder).manual_journal_persist(true).open()?;
        let keyspace = database.keyspace("bench", KeyspaceCreateOptions::default)?;
        Ok(Self { database, keyspace, next: Arc::default() })
    }

    /// Returns a function that inserts the given values under new keys, as one batch, and waits
    /// until the batch is on disk.
    pub(crate) fn inserts(&self, records: Vec<Vec<u8>>) -> Operation {
        let (database, keyspace) = (self.database.clone(), self.keyspace.clone());
        let next = Arc::clone(&self.next);
        Box::new(move || {
            let begun = Instant::now();
            let mut batch = database.batch().durability(Some(PersistMode::SyncData));
            for record in &records {
                let key = next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
                batch.insert(&keyspace, key, record.as_slice());
            }
            batch.commit()?;
            Ok(begun.elapsed())
        })
    }
}
