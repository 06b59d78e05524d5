//! The store on disk: a fjall database with one journal, three trees and at most one sync for each
//! commit group.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fjall::config::{CompressionPolicy, PartitioningPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

use super::group::{Group, Poison};
use super::journal::repair;
use super::kv::{Batch, Bytes, Operation, Pairs, Snapshot, Store};
use super::manifest;
use crate::disk::Seal;
use crate::encode::{Key, Mark, Space, local_id_of_value};
use crate::error::{Code, Error, Result};
use crate::limits::{
    CACHE_BYTES, JOURNAL_BYTES_MAX, OPEN_FILES_MAX, SNAPSHOT_TRIES_MAX, STORE_THREADS,
    SYNC_INTERVAL_MS,
};

/// A fjall database with the engine's key spaces.
pub(crate) struct FjallStore {
    shared: Arc<Shared>,
    syncer: Option<JoinHandle<()>>,
    seal: Option<Seal>,
}

struct Shared {
    database: Database,
    spaces: [Keyspace; 3],
    group: Group,
    poison: Poison,
    /// Number of visible commit groups.
    commits: AtomicU64,
    /// A lock that a commit holds while it is applied; see [`Shared::snapshot`].
    applying: Mutex<()>,
    /// Number of commit groups that have begun, number of groups that have ended, and fjall's
    /// visible sequence number after the end of the last group.
    begun: AtomicU64,
    ended: AtomicU64,
    settled: AtomicU64,
    /// Whether there are unsynced writes.
    unsynced: AtomicBool,
    /// Group numbers of the newest written group and of the newest synced group.
    written: AtomicU64,
    synced: AtomicU64,
    /// Whether commits are synced at all; only tests disable syncs.
    sync: bool,
    stop: Mutex<bool>,
    stopped: Condvar,
}

impl FjallStore {
    /// Opens or creates the store in a directory that contains nothing else. If `sync` is false,
    /// the store never syncs. The seal is a file with the number of the newest commit group at the
    /// last clean close. If the store lacks this group, the method returns an error. A clean close
    /// writes a new seal.
    pub(crate) fn open(
        directory: &Path,
        memtable_bytes: u64,
        sync: bool,
        seal: Option<Seal>,
    ) -> Result<Self> {
        if directory.exists() {
            manifest::check(directory)?;
            repair(directory, seal.as_ref().map_or(Ok(0), Seal::read)?)?;
        }
        let database = Database::builder(directory)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .max_cached_files(Some(OPEN_FILES_MAX))
            .worker_threads(STORE_THREADS)
            .manual_journal_persist(true)
            // The check of journals reads the values as they are.
            .journal_compression(CompressionType::None)
            .open()
            .map_err(|error| refused(directory, &error))?;
        let open = |space: Space| {
            // A store keeps the options with which it was made.
            let options = || {
                KeyspaceCreateOptions::default()
                    .max_memtable_size(memtable_bytes)
                    .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
                    // A table of short compressed rows has millions of keys. Its whole filter
                    // would not fit into the cache, so that each lookup would read it again.
                    .filter_block_partitioning_policy(PartitioningPolicy::all(true))
                    .index_block_partitioning_policy(PartitioningPolicy::all(true))
            };
            database.keyspace(space.name(), options).map_err(|error| refused(directory, &error))
        };
        let spaces = [open(Space::Meta)?, open(Space::Documents)?, open(Space::Indexes)?];
        let mark =
            spaces[Space::Meta as usize].get(Key::Mark.bytes()).map_err(|error| failed(&error))?;
        let mark = mark.and_then(|bytes| Mark::read(&bytes)).unwrap_or_default();
        if let Some(seal) = &seal {
            seal.check(mark.number)?;
        }
        let poison = Poison::default();
        let visible = database.visible_seqno();
        let shared = Arc::new(Shared {
            database,
            spaces,
            group: Group::new(poison.clone()),
            poison,
            commits: AtomicU64::new(0),
            applying: Mutex::new(()),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            settled: AtomicU64::new(visible),
            unsynced: AtomicBool::new(false),
            // Opening the store synced the journal, so both numbers are equal.
            written: AtomicU64::new(mark.number),
            synced: AtomicU64::new(mark.number),
            sync,
            stop: Mutex::new(false),
            stopped: Condvar::new(),
        });
        let syncer = sync.then(|| spawn_syncer(shared.clone())).transpose()?;
        Ok(Self { shared, syncer, seal })
    }

    /// Returns the number of the newest commit group.
    pub(crate) fn newest(&self) -> u64 {
        self.shared.written.load(Ordering::Acquire)
    }

    /// Lets a new, empty store continue the group numbers of another store, so that the seal and
    /// the journal positions stored by views stay valid. Must be called before the first commit.
    pub(crate) fn number_on(&self, newest: u64) {
        self.shared.written.store(newest, Ordering::Release);
        self.shared.synced.store(newest, Ordering::Release);
    }
}

impl Drop for FjallStore {
    fn drop(&mut self) {
        *self.shared.stop.lock().expect("only moves inside") = true;
        self.shared.stopped.notify_all();
        if self.syncer.take().is_some_and(|syncer| syncer.join().is_err()) {
            tracing::error!("the background sync ended in a panic");
        }
        self.shared.sync_in_background();
        if let Some(seal) = self.seal.as_ref().filter(|_| self.shared.sync)
            && self.shared.poison.check().is_ok()
            && let Err(error) = seal.write(self.shared.written.load(Ordering::Acquire))
        {
            // If writing a new seal fails, the old seal stays valid.
            tracing::warn!(%error, "the store was closed without a new seal");
        }
    }
}

impl Store for FjallStore {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        // The number of commits is read before the snapshot is taken, so that a commit in between
        // makes the snapshot seem older, never newer.
        let commits = self.shared.commits.load(Ordering::Acquire);
        let snapshot = self.shared.snapshot();
        Arc::new(FjallSnapshot { shared: self.shared.clone(), snapshot, commits })
    }

    fn commit(&self, batch: Batch, sync: bool) -> Result<()> {
        self.shared.group.commit(batch, sync, |batches, sync| self.shared.write(batches, sync))
    }

    fn takes_commits(&self) -> bool {
        self.shared.poison.check().is_ok()
    }
}

impl Shared {
    /// Takes a snapshot that contains each commit completely or not at all. fjall gives a flush or
    /// compaction a sequence number like a commit, and then makes all lower numbers visible, even
    /// those of a commit in progress (lsm-tree 3.1, `upgrade_version`). For this reason, a snapshot
    /// is used only if no commit was in progress, or if no flush or compaction has made a higher
    /// sequence number visible since the last commit ended. An unusable snapshot is taken again,
    /// and the last attempt takes the snapshot between two commits.
    fn snapshot(&self) -> fjall::Snapshot {
        for _ in 0..SNAPSHOT_TRIES_MAX {
            let (ended, settled) =
                (self.ended.load(Ordering::SeqCst), self.settled.load(Ordering::SeqCst));
            let begun = self.begun.load(Ordering::SeqCst);
            let before = self.database.visible_seqno();
            let snapshot = self.database.snapshot();
            let after = self.database.visible_seqno();
            let alone = begun == ended && self.begun.load(Ordering::SeqCst) == begun;
            if alone || (before == settled && after == settled) {
                return snapshot;
            }
            std::hint::spin_loop();
        }
        let _between = self.applying.lock().unwrap_or_else(PoisonError::into_inner);
        self.database.snapshot()
    }

    /// Writes all batches of a commit group as one fjall batch with at most one sync.
    fn write(&self, batches: Vec<Batch>, sync: bool) -> Result<()> {
        let mode = if sync && self.sync { PersistMode::SyncData } else { PersistMode::Buffer };
        let count = batches.iter().map(|batch| batch.operations.len()).sum();
        let mut out = fjall::OwnedWriteBatch::with_capacity(self.database.clone(), count)
            .durability(Some(mode));
        let mut numbers = HashMap::new();
        for operation in batches.into_iter().flat_map(|batch| batch.operations) {
            match operation {
                Operation::Put(space, key, value) => {
                    out.insert(&self.spaces[space as usize], key, value)
                }
                Operation::Delete(space, key) => out.remove(&self.spaces[space as usize], key),
                Operation::Add(space, key, delta) => {
                    let number = self.number(&mut numbers, space, key)?;
                    *number = number.wrapping_add_signed(delta);
                }
                Operation::Raise(space, key, least) => {
                    let number = self.number(&mut numbers, space, key)?;
                    *number = (*number).max(least);
                }
            }
        }
        for ((space, key), number) in numbers {
            out.insert(&self.spaces[space as usize], key, number.to_be_bytes().as_slice());
        }
        // Only one thread at a time writes a commit group, so no other thread changes `written`
        // here.
        let number = self.written.load(Ordering::Acquire) + 1;
        let mark = Mark { number, synced: self.synced.load(Ordering::Acquire) };
        out.insert(&self.spaces[Space::Meta as usize], Key::Mark.bytes(), mark.write().as_slice());
        {
            let _applying = self.applying.lock().unwrap_or_else(PoisonError::into_inner);
            self.begun.fetch_add(1, Ordering::SeqCst);
            let committed = out.commit();
            self.settled.store(self.database.visible_seqno(), Ordering::SeqCst);
            self.ended.fetch_add(1, Ordering::SeqCst);
            committed.map_err(|error| failed(&error))?;
        }
        self.written.store(number, Ordering::Release);
        if mode == PersistMode::SyncData {
            self.synced.fetch_max(number, Ordering::AcqRel);
        }
        // Only the thread that writes a commit group sets this flag, so two threads never set it at
        // the same time. A sync includes all earlier writes.
        self.unsynced.store(mode == PersistMode::Buffer, Ordering::Release);
        self.commits.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Returns the current value of a counter. This value includes changes by earlier batches of
    /// the same group. Only the thread that writes the group calls this function, so no other
    /// thread changes the counter meanwhile.
    fn number<'a>(
        &self,
        numbers: &'a mut HashMap<(Space, Vec<u8>), u64>,
        space: Space,
        key: Vec<u8>,
    ) -> Result<&'a mut u64> {
        use std::collections::hash_map::Entry;
        Ok(match numbers.entry((space, key)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let stored = self.spaces[space as usize]
                    .get(&entry.key().1)
                    .map_err(|error| failed(&error))?;
                entry.insert(stored.map_or(Ok(0), |value| local_id_of_value(&value))?)
            }
        })
    }

    fn sync_in_background(&self) {
        if self.sync
            && self.unsynced.swap(false, Ordering::AcqRel)
            && let Err(error) = self.database.persist(PersistMode::SyncData)
        {
            self.poison.set(error);
        }
    }
}

fn spawn_syncer(shared: Arc<Shared>) -> Result<JoinHandle<()>> {
    let run = move || {
        let mut stop = shared.stop.lock().expect("only moves inside");
        while !*stop {
            let interval = Duration::from_millis(SYNC_INTERVAL_MS);
            stop = shared.stopped.wait_timeout(stop, interval).expect("only moves inside").0;
            shared.sync_in_background();
        }
    };
    std::thread::Builder::new().name("sync".into()).spawn(run).map_err(|error| {
        Error::new(Code::SystemError, format!("start the background sync: {error}"))
    })
}

struct FjallSnapshot {
    shared: Arc<Shared>,
    snapshot: fjall::Snapshot,
    commits: u64,
}

impl Snapshot for FjallSnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.snapshot.get(&self.shared.spaces[space as usize], key).map_err(|error| failed(&error))
    }

    fn scan(&self, space: Space, lower: &[u8], upper: &[u8], backwards: bool) -> Pairs<'_> {
        if lower >= upper {
            return Box::new(std::iter::empty());
        }
        let range = self.snapshot.range(&self.shared.spaces[space as usize], lower..upper);
        let pair = |guard: fjall::Guard| guard.into_inner().map_err(|error| failed(&error));
        if backwards { Box::new(range.rev().map(pair)) } else { Box::new(range.map(pair)) }
    }

    fn is_latest(&self) -> bool {
        self.shared.commits.load(Ordering::Acquire) == self.commits
    }
}

fn failed(error: &fjall::Error) -> Error {
    Error::new(Code::SystemError, format!("the store failed: {error}"))
}

fn refused(directory: &Path, error: &fjall::Error) -> Error {
    let reason = match error {
        fjall::Error::Locked => "another process has the store open".to_owned(),
        other => other.to_string(),
    };
    Error::new(Code::SystemError, format!("open the store in {}: {reason}", directory.display()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Number of keys that every commit writes to both trees, number of commits, and a small
    /// memtable size, which makes flushes frequent.
    const KEYS: u64 = 64;
    const COMMITS: u64 = 4_000;
    const MEMTABLE_BYTES: u64 = 64 << 10;

    fn number(stored: Option<Bytes>) -> u64 {
        stored.map_or(0, |value| u64::from_be_bytes(value[..8].try_into().expect("eight bytes")))
    }

    #[test]
    fn a_snapshot_never_shows_half_of_a_commit_while_trees_are_flushed() {
        let home = tempfile::tempdir().expect("a directory");
        let store = FjallStore::open(&home.path().join("store"), MEMTABLE_BYTES, false, None);
        let store = store.expect("a store");
        let done = AtomicBool::new(false);
        let looks = std::thread::scope(|scope| {
            let (store, done) = (&store, &done);
            let look = move || {
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) {
                    let snapshot = store.snapshot();
                    let value = |space, key: u64| {
                        number(snapshot.get(space, &key.to_be_bytes()).expect("an answer"))
                    };
                    // Each commit writes one number as the value of all keys in both trees.
                    let first = value(Space::Documents, 0);
                    for key in 0..KEYS {
                        for space in [Space::Documents, Space::Indexes] {
                            assert_eq!(value(space, key), first, "key {key} in {space:?}");
                        }
                    }
                    looks += 1;
                }
                looks
            };
            let readers = [scope.spawn(look), scope.spawn(look)];
            for commit in 1..=COMMITS {
                let mut batch = Batch::default();
                for key in 0..KEYS {
                    for space in [Space::Documents, Space::Indexes] {
                        let value = [commit.to_be_bytes(); 8].concat();
                        batch.put(space, key.to_be_bytes().to_vec(), value);
                    }
                }
                store.commit(batch, false).expect("a commit");
            }
            done.store(true, Ordering::Relaxed);
            readers.map(|reader| reader.join().expect("a reader")).iter().sum::<u64>()
        });
        assert!(looks > 0);
    }
}
