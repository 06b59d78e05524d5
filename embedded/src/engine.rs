//! The engine: one data directory with a catalog, transactions and a housekeeping thread.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::catalog::Catalog;
use crate::compat::{Release, Role};
use crate::data::Trainer;
use crate::disk::Directory;
use crate::encode::{Key, Space, local_id_of_key, local_id_of_value, successor};
use crate::error::{Code, Error, Result};
use crate::expr::Room;
use crate::limits::{
    COLLECTION_LOCK_WAIT_MS, KEY_LOCK_WAIT_MS, MEMTABLE_BYTES, QUERIES_BYTES_MAX,
    REQUEST_WRITES_BYTES_MAX, SWEEP_INTERVAL_MS, TTL_INTERVAL_MS, VECTOR_CACHE_BYTES,
    VECTOR_INTERVAL_MS, VIEW_COMMIT_MS,
};
use crate::storage::{Batch, Bytes, FjallStore, Store};
use crate::text::{Views, definitions};
use crate::tick::Ticker;
use crate::txn::{
    Beginning, Clock, CollectionLocks, Declared, Locks, Registry, RegistrySettings, Resources,
    Transaction, Vectors, revision_text, whole,
};
use crate::value::Value;

/// Name and version of the store's format, written as a store's first record.
const FORMAT: &str = "arango-embedded";
const FORMAT_VERSION: u32 = 3;

/// Options of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Milliseconds after which an unused stream transaction is aborted (ArangoDB: 60 s).
    pub stream_idle_ms: u64,
    /// Milliseconds that a request waits for a stream transaction that another request uses
    /// (ArangoDB: 8 s).
    pub stream_lock_wait_ms: u64,
    /// Milliseconds that a write waits for another writer of the same key (ArangoDB: 1 s).
    pub key_lock_wait_ms: u64,
    /// Maximum number of bytes that one stream transaction may write (ArangoDB: 512 MiB).
    pub stream_size_bytes_max: u64,
    /// Whether the commit of an expired stream transaction reports success although the transaction
    /// is aborted. arangod can do so if the commit arrives just before its garbage collector runs.
    /// Use this option to test clients.
    pub late_commit_lies: bool,
    /// Whether the housekeeper aborts idle stream transactions. Only tests disable it, to look at
    /// an expired transaction before it is aborted.
    pub stream_sweeps: bool,
    /// Whether vector indexes can be created (ArangoDB: `--vector-index`).
    pub vector_index: bool,
    /// The emulated release.
    pub release: Release,
    /// The emulated role.
    pub role: Role,
    /// Whether requests may trigger a fault with the header `x-arango-embedded-fault`, for tests of
    /// clients.
    pub faults: bool,
    /// Maximum size in bytes of the vector cache, which all vector indexes share.
    pub vector_cache_bytes: u64,
    /// Maximum number of bytes that all queries, open cursors and answers use together (arangod:
    /// `--query.global-memory-limit`).
    pub queries_bytes_max: u64,
    /// Milliseconds between two rounds of the TTL sweeper (ArangoDB: 30 s).
    pub ttl_interval_ms: u64,
    /// Milliseconds between two commits of views (ArangoDB: `commitIntervalMsec`, 1000).
    pub view_commit_ms: u64,
    /// Bytes of one memtable of the store. Tests use a small memtable, so that flushes and
    /// compactions happen early.
    pub memtable_bytes: u64,
    /// Whether synced commits call `fdatasync`. Only tests disable it, to prove that they detect a
    /// missing `fdatasync`.
    pub sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            stream_idle_ms: 60_000,
            stream_lock_wait_ms: 8_000,
            key_lock_wait_ms: KEY_LOCK_WAIT_MS,
            stream_size_bytes_max: 512 << 20,
            late_commit_lies: false,
            stream_sweeps: true,
            vector_index: false,
            release: Release::LATEST,
            role: Role::Single,
            faults: false,
            vector_cache_bytes: vector_cache_bytes(),
            queries_bytes_max: QUERIES_BYTES_MAX,
            ttl_interval_ms: TTL_INTERVAL_MS,
            view_commit_ms: VIEW_COMMIT_MS,
            memtable_bytes: MEMTABLE_BYTES,
            sync: true,
        }
    }
}

/// Default size of the vector cache in bytes: an eighth of the machine's memory, but at least
/// [`VECTOR_CACHE_BYTES`]. On a large machine an eighth suffices for a million vectors of 384
/// components.
pub fn vector_cache_bytes() -> u64 {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|total| total.trim().split(' ').next()?.parse::<u64>().ok());
    kibibytes.map_or(0, |kibibytes| (kibibytes << 10) / 8).max(VECTOR_CACHE_BYTES)
}

/// An open engine, shared as `Arc<Engine>`. Dropping the engine stops the engine's threads and
/// syncs unsynced commits.
pub struct Engine {
    pub(crate) resources: Arc<Resources>,
    pub(crate) catalog: Arc<Catalog>,
    streams: Arc<Registry>,
    options: Options,
    house: Arc<House>,
    housekeeper: Option<JoinHandle<()>>,
    trainer: Option<JoinHandle<()>>,
    ticker: Option<Ticker>,
    _directory: Directory,
}

/// Messages to the housekeeping thread.
#[derive(Default)]
pub(crate) struct House {
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Default)]
struct Orders {
    stop: bool,
    clear_leftovers: bool,
    /// Ids of the removal marks of indexes that are being built. A removal mark is a stored request
    /// to remove a key range; after a crash, the next start removes the unfinished index. The
    /// housekeeping thread must not remove the key ranges of these indexes while they are being
    /// built.
    building: BTreeSet<u64>,
}

impl Engine {
    /// Opens or creates an engine's data directory. Refuses a directory that contains foreign
    /// files, is damaged, or is already open.
    pub fn open(directory: &Path, options: Options) -> Result<Arc<Self>> {
        let directory = Directory::open(directory)?;
        let path = directory.store(|path| make_store(path, &options))?;
        let (memtable_bytes, seal) = (options.memtable_bytes, Some(directory.seal()));
        let store: Arc<dyn Store> =
            Arc::new(FjallStore::open(&path, memtable_bytes, options.sync, seal)?);
        check_format(&*store, &path)?;
        let snapshot = store.snapshot();
        let resources = Arc::new(Resources {
            clock: Clock::load(&*snapshot)?,
            store,
            locks: Locks::default(),
            key_wait_ms: options.key_lock_wait_ms,
            views: Views::new(directory.views(), whole),
            collection_locks: Arc::new(CollectionLocks::default()),
            last_keys: Mutex::default(),
            vectors: Vectors::new(options.vector_cache_bytes),
            room: Room::new(options.queries_bytes_max),
        });
        let catalog = Arc::new(Catalog::load(&*snapshot, options.release)?);
        drop(snapshot);
        let streams = Arc::new(Registry::new(RegistrySettings {
            idle_ms: options.stream_idle_ms,
            lock_wait_ms: options.stream_lock_wait_ms,
            size_bytes_max: options.stream_size_bytes_max,
            late_commit_lies: options.late_commit_lies,
        }));
        let mut engine = Self {
            resources,
            catalog,
            streams,
            options,
            house: Arc::default(),
            housekeeper: None,
            trainer: None,
            ticker: None,
            _directory: directory,
        };
        if engine.database("_system").is_err() {
            engine.create_database("_system", Value::Null)?;
        }
        for (name, _) in engine.catalog.all().iter() {
            engine.define_views(name)?;
        }
        engine.resources.views.clear_unknown()?;
        engine.ticker = Some(Ticker::start(&engine.resources, engine.options.view_commit_ms)?);
        engine.clear_leftovers_soon();
        engine.housekeeper = Some(engine.keep_house()?);
        engine.trainer = Some(engine.train_vectors()?);
        Ok(Arc::new(engine))
    }

    /// The memory of all queries and answers together.
    pub(crate) fn room(&self) -> &Arc<Room> {
        &self.resources.room
    }

    /// The options with which the engine was opened.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether the engine accepts writes. After a failed write the engine refuses all writes until
    /// it is opened again.
    pub fn takes_writes(&self) -> bool {
        self.resources.store.takes_commits()
    }

    /// Returns a number for a new id or traditional key; it is larger than all numbers that this
    /// function returned before.
    pub fn next_id(&self) -> u64 {
        self.resources.clock.id()
    }

    /// The last numeric key of the collection, generated or chosen by a user; 0 without numeric
    /// keys.
    pub fn last_key(&self, collection: u64) -> Result<u64> {
        let last_keys = self.resources.last_keys.lock().expect("only moves inside");
        if let Some(last) = last_keys.get(&collection) {
            return Ok(*last);
        }
        let stored =
            self.resources.store.snapshot().get(Space::Meta, &Key::LastKey(collection).bytes())?;
        stored.map_or(Ok(0), |value| local_id_of_value(&value))
    }

    /// Returns a revision larger than all earlier revisions, as text.
    pub fn new_rev(&self) -> String {
        revision_text(self.resources.clock.revision())
    }

    /// Begins a transaction for one request.
    pub fn begin(&self, db: &str, declared: &Declared, wait_for_sync: bool) -> Result<Transaction> {
        let beginning = Beginning {
            lock_wait: Some(Duration::from_millis(COLLECTION_LOCK_WAIT_MS)),
            writes_bytes_max: REQUEST_WRITES_BYTES_MAX,
            wait_for_sync,
            one_request: true,
            locked_outside: false,
        };
        self.begin_with(db, declared, beginning)
    }

    /// Begins a transaction for one request or a stream transaction, as `beginning` says.
    pub(crate) fn begin_with(
        &self,
        db: &str,
        declared: &Declared,
        beginning: Beginning,
    ) -> Result<Transaction> {
        Transaction::begin(
            self.resources.clone(),
            &|| self.catalog.database(db),
            declared,
            beginning,
        )
    }

    /// The registry of stream transactions.
    pub fn streams(&self) -> &Registry {
        &self.streams
    }

    /// Makes all views process all commits now. Otherwise a thread does so at regular intervals.
    pub fn commit_views(&self) -> Result<()> {
        let resources = &self.resources;
        resources
            .views
            .numbers()
            .into_iter()
            .try_for_each(|view| resources.views.drain_number(&*resources.store, view, &|| false))
    }

    /// Applies the current view definitions of a database to the database's open views.
    pub(crate) fn define_views(&self, db: &str) -> Result<()> {
        let number = self.catalog.database(db)?.id;
        self.resources.views.define(&*self.resources.store, number, || {
            let database = self.catalog.database(db).ok().filter(|now| now.id == number);
            database.map_or_else(Vec::new, |database| definitions(&database))
        })
    }

    /// Asks the housekeeping thread to remove dropped data.
    pub(crate) fn clear_leftovers_soon(&self) {
        self.house.orders.lock().expect("only moves inside").clear_leftovers = true;
        self.house.changed.notify_all();
    }

    /// Protects the key range of an index from removal while the index is built. With `building`
    /// false, ends the protection.
    pub(crate) fn set_building(&self, leftover: u64, building: bool) {
        let mut orders = self.house.orders.lock().expect("only moves inside");
        if building {
            orders.building.insert(leftover);
        } else {
            orders.building.remove(&leftover);
        }
    }

    fn keep_house(&self) -> Result<JoinHandle<()>> {
        let (house, streams) = (self.house.clone(), self.streams.clone());
        let resources = self.resources.clone();
        let sweeper = crate::data::Sweeper::new(
            self.resources.clone(),
            self.catalog.clone(),
            self.options.ttl_interval_ms,
        );
        let sweeps = self.options.stream_sweeps;
        let run = move || {
            let mut sweeper = sweeper;
            while let Some(clear) = house.next() {
                if sweeps {
                    streams.sweep();
                }
                let cleared =
                    if clear { clear_leftovers(&*resources.store, &house) } else { Ok(()) };
                if let Err(error) = cleared.and_then(|()| sweeper.sweep_if_due(&|| house.stopped()))
                {
                    tracing::warn!(%error, "housekeeping failed");
                }
            }
        };
        std::thread::Builder::new().name("housekeeper".into()).spawn(run).map_err(|error| {
            Error::new(Code::SystemError, format!("start the housekeeper: {error}"))
        })
    }

    /// Trains vector indexes in a separate thread, because a training may take minutes and would
    /// delay the housekeeping thread.
    fn train_vectors(&self) -> Result<JoinHandle<()>> {
        let house = self.house.clone();
        let mut trainer = Trainer::new(self.resources.clone(), self.catalog.clone());
        let run = move || {
            while house.rest(Duration::from_millis(VECTOR_INTERVAL_MS)) {
                trainer.round(&|| house.stopped());
            }
        };
        std::thread::Builder::new().name("vector trainer".into()).spawn(run).map_err(|error| {
            Error::new(Code::SystemError, format!("start the vector trainer: {error}"))
        })
    }

    /// Whether the engine is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.house.stopped()
    }
}

impl House {
    /// Waits for the next round of the housekeeping thread. Returns whether dropped key ranges must
    /// be removed, or `None` if the thread must stop.
    fn next(&self) -> Option<bool> {
        let mut orders = self.orders.lock().expect("only moves inside");
        if !orders.stop && !orders.clear_leftovers {
            let interval = Duration::from_millis(SWEEP_INTERVAL_MS);
            orders = self.changed.wait_timeout(orders, interval).expect("only moves inside").0;
        }
        if orders.stop { None } else { Some(std::mem::take(&mut orders.clear_leftovers)) }
    }

    /// Waits for some time; returns `false` if the calling thread must stop.
    fn rest(&self, time: Duration) -> bool {
        let orders = self.orders.lock().expect("only moves inside");
        let rested = self.changed.wait_timeout_while(orders, time, |orders| !orders.stop);
        !rested.expect("only moves inside").0.stop
    }

    fn stopped(&self) -> bool {
        self.orders.lock().expect("only moves inside").stop
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.ticker = None;
        self.resources.views.close();
        self.house.orders.lock().expect("only moves inside").stop = true;
        self.house.changed.notify_all();
        for (thread, who) in
            [(&mut self.housekeeper, "housekeeper"), (&mut self.trainer, "vector trainer")]
        {
            if thread.take().is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("the {who} ended in a panic");
            }
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}

fn make_store(path: &Path, options: &Options) -> Result<()> {
    let store = FjallStore::open(path, options.memtable_bytes, options.sync, None)?;
    write_format(&store)
}

fn write_format(store: &dyn Store) -> Result<()> {
    let mut batch = Batch::default();
    let format = format!("{FORMAT} {FORMAT_VERSION}");
    batch.put(Space::Meta, Key::Format.bytes(), Bytes::from(format.as_bytes()));
    store.commit(batch, true)
}

/// Upgrades a store of an older format. Refuses a store of a newer format, and a store that is not
/// the engine's.
pub(crate) fn check_format(store: &dyn Store, path: &Path) -> Result<()> {
    let found = store.snapshot().get(Space::Meta, &Key::Format.bytes())?;
    let found = found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let version = found.as_ref().and_then(|text| text.strip_prefix(FORMAT)?.trim().parse().ok());
    let text = match (version, found) {
        (Some(FORMAT_VERSION), _) => return Ok(()),
        // Format 2 differs from format 1 only by the seal (a file with the number of the newest
        // synced commit group), and format 3 from format 2 only by further encodings of values.
        (Some(old @ (1 | 2)), _) => {
            tracing::info!(from = old, to = FORMAT_VERSION, "a store is upgraded");
            return write_format(store);
        }
        (Some(newer), _) => format!(
            "its format is {newer}, this engine reads formats up to {FORMAT_VERSION}: open it with the release that wrote it, or a newer release"
        ),
        (None, Some(other)) => format!("not a store of arango-embedded: its format is {other:?}"),
        (None, None) => "not a store of arango-embedded: it has no format record".to_owned(),
    };
    Err(Error::new(Code::SystemError, format!("{}: {text}", path.display())))
}

/// Removes the key ranges of dropped collections, indexes and views; returns early if the engine
/// stops.
pub(crate) fn clear_leftovers(store: &dyn Store, house: &House) -> Result<()> {
    let lower = Key::Leftovers.bytes();
    let upper = successor(lower.clone()).expect("a key begins with a small kind byte");
    // The scan's snapshot is dropped before key ranges are removed, because an open snapshot keeps
    // removed data on disk.
    let leftovers =
        store.snapshot().scan(Space::Meta, &lower, &upper, false).collect::<Result<Vec<_>>>()?;
    for (key, value) in leftovers {
        // The id of a new index stays in `building` until the index is complete and its removal
        // mark is deleted.
        let building = house
            .orders
            .lock()
            .expect("only moves inside")
            .building
            .contains(&local_id_of_key(&key)?);
        if building || store.snapshot().get(Space::Meta, &key)?.is_none() {
            continue;
        }
        let damaged = || Error::new(Code::Internal, "the mark of a removed key range is damaged");
        let (&space, prefix) = value.split_first().ok_or_else(damaged)?;
        let space = *Space::ALL.get(usize::from(space)).ok_or_else(damaged)?;
        if !crate::data::clear_range(store, space, prefix, &|| house.stopped())? {
            return Ok(());
        }
        let mut batch = Batch::default();
        batch.delete(Space::Meta, key.to_vec());
        store.commit(batch, false)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Space;
    use crate::storage::RecordingStore;

    #[test]
    fn leftovers_are_cleared_without_a_snapshot_held_and_one_that_is_being_built_stays() {
        let home = tempfile::tempdir().unwrap();
        let store = FjallStore::open(&home.path().join("store"), 1 << 20, false, None).unwrap();
        let store = RecordingStore::new(store);
        let mut batch = Batch::default();
        for index in 1..=3 {
            let prefix = Key::Sorted(index).bytes();
            batch.put(Space::Indexes, [&prefix[..], b"entry"].concat(), []);
            let range = [&[Space::Indexes as u8], &prefix[..]].concat();
            batch.put(Space::Meta, Key::Leftover(index).bytes(), range);
        }
        store.commit(batch, false).unwrap();
        store.held.lock().unwrap().clear();
        let house = House::default();
        house.orders.lock().unwrap().building.insert(2);
        clear_leftovers(&store, &house).unwrap();
        assert_eq!(*store.held.lock().unwrap(), [0; 4], "no snapshot is open at a commit");
        let there = |index| {
            let entry = [&Key::Sorted(index).bytes()[..], b"entry"].concat();
            let snapshot = store.snapshot();
            let note = snapshot.get(Space::Meta, &Key::Leftover(index).bytes()).unwrap();
            (snapshot.get(Space::Indexes, &entry).unwrap().is_some(), note.is_some())
        };
        assert_eq!([1, 2, 3].map(there), [(false, false), (true, true), (false, false)]);
    }
}
