//! One transaction from its beginning to its commit. Its reads return the data of its snapshot,
//! changed by its own writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::clock::Clock;
use super::collection_locks::{CollectionGuard, CollectionLocks};
use super::locks::{Grant, LockKey, Locks};
use super::options::Declared;
use super::overlay::Overlay;
use super::vectors::Vectors;
use crate::encode::{Key, Space, local_id_of_value};
use crate::error::{Code, Error, Result};
use crate::expr::Room;
use crate::schema::{Collection, Database};
use crate::storage::{Bytes, Snapshot, Store};
use crate::text::{Hits, Query, Scoring, Views};

/// Resources that all transactions share.
pub(crate) struct Resources {
    /// The store of the engine.
    pub(crate) store: Arc<dyn Store>,
    /// Locks of single keys.
    pub(crate) locks: Locks,
    /// Locks of collections.
    pub(crate) collection_locks: Arc<CollectionLocks>,
    /// Generator of revisions and ids.
    pub(crate) clock: Clock,
    /// Searchable views.
    pub(crate) views: Views,
    /// Largest numeric document key of each collection, by collection id, for key generators that
    /// need it.
    pub(crate) last_keys: Mutex<HashMap<u64, u64>>,
    /// Cached data of vector indexes.
    pub(crate) vectors: Vectors,
    /// Maximum wait for another writer of a key, in milliseconds; the options of a write may set a
    /// shorter wait.
    pub(crate) key_wait_ms: u64,
    /// Memory of all queries and answers together.
    pub(crate) room: Arc<Room>,
}

/// Options for beginning a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    /// Maximum wait for a locked collection; `None` means no limit.
    pub(crate) lock_wait: Option<Duration>,
    /// Maximum number of bytes that the transaction may write; error 32 refuses a write above the
    /// limit.
    pub(crate) writes_bytes_max: u64,
    /// Whether the commit is synced, even if no written collection requires it.
    pub(crate) wait_for_sync: bool,
    /// Whether the transaction serves only one request. In the document API, the first write of
    /// such a transaction may use newer data than the snapshot, because the request has not read
    /// any data yet.
    pub(crate) one_request: bool,
    /// Whether the caller already holds the collection locks, so that none are taken.
    pub(crate) locked_outside: bool,
}

/// How a transaction may access a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Read,
    Write,
}

/// A transaction. Its methods take `&self`, but only one thread at a time may use a transaction.
/// Dropping a transaction aborts it.
pub struct Transaction {
    pub(super) resources: Arc<Resources>,
    /// The transaction's id, which is the owner of its key locks.
    id: u64,
    database: Arc<Database>,
    modes: BTreeMap<u64, Mode>,
    allow_implicit: bool,
    beginning: Beginning,
    state: Mutex<State>,
}

/// The mutable state of a transaction.
pub(crate) struct State {
    pub(crate) snapshot: Arc<dyn Snapshot>,
    /// The counter of list changes ([`Cells::moment`](super::cells::Cells::moment)), recorded
    /// before the snapshot was taken.
    pub(super) seen: u64,
    pub(crate) overlay: Overlay,
    locks: Vec<LockKey>,
    guard: CollectionGuard,
    /// Largest numeric document keys to store with the commit, by collection id.
    pub(crate) last_keys: BTreeMap<u64, u64>,
    /// Whether the commit must be synced, because the options at the transaction's beginning or a
    /// written collection require it.
    pub(crate) sync: bool,
    finished: bool,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("id", &self.id)
            .field("database", &self.database.name)
            .finish_non_exhaustive()
    }
}

impl Transaction {
    /// Begins a transaction: takes the collection locks, then the snapshot. The function `database`
    /// is called again after the locks are taken, so that the definitions match the data.
    pub(crate) fn begin(
        resources: Arc<Resources>,
        database: &dyn Fn() -> Result<Arc<Database>>,
        declared: &Declared,
        beginning: Beginning,
    ) -> Result<Self> {
        let mut wanted = Vec::new();
        let before = database()?;
        for (names, alone) in [(&declared.write, false), (&declared.exclusive, true)] {
            for name in names {
                wanted.push((number_of(&before, name)?, alone));
            }
        }
        let guard = if beginning.locked_outside {
            CollectionGuard::default()
        } else {
            resources.collection_locks.take(wanted, beginning.lock_wait)?
        };
        let database = database()?;
        let mut modes = BTreeMap::new();
        let all = [
            (&declared.read, Mode::Read),
            (&declared.write, Mode::Write),
            (&declared.exclusive, Mode::Write),
        ];
        for (names, mode) in all {
            for name in names.iter().filter(|name| !database.views.contains_key(*name)) {
                let known = modes.entry(number_of(&database, name)?).or_insert(mode);
                *known = mode.max(*known);
            }
        }
        let seen = resources.vectors.cells.moment();
        let state = State {
            seen,
            snapshot: resources.store.snapshot(),
            overlay: Overlay::default(),
            locks: Vec::new(),
            guard,
            last_keys: BTreeMap::new(),
            sync: beginning.wait_for_sync,
            finished: false,
        };
        let id = resources.clock.id();
        let allow_implicit = declared.allow_implicit;
        Ok(Self {
            resources,
            id,
            database,
            modes,
            allow_implicit,
            beginning,
            state: Mutex::new(state),
        })
    }

    /// Returns the database's definitions at the beginning of the transaction.
    pub fn database(&self) -> Arc<Database> {
        self.database.clone()
    }

    /// Commits all writes atomically. The writes survive a power loss if a sync is required by this
    /// call, by the call that began the transaction, or by a written collection. A commit never
    /// fails because of a conflict. A commit of an ended transaction returns error 1654.
    pub fn commit(&self, wait_for_sync: bool) -> Result<()> {
        let mut state = self.writing_state()?;
        state.finished = true;
        let result = self.write_out(&mut state, wait_for_sync);
        self.release(&mut state);
        result
    }

    /// Aborts the transaction: discards all writes and releases the locks. Has no effect on an
    /// ended transaction.
    pub fn abort(&self) {
        let mut state = self.state.lock().expect("a panicked transaction is not used again");
        state.finished = true;
        state.overlay = Overlay::default();
        self.release(&mut state);
    }

    /// Returns a savepoint, to which the caller can roll back if a statement fails.
    pub fn savepoint(&self) -> usize {
        self.state.lock().expect("a panicked transaction is not used again").overlay.savepoint()
    }

    /// Undoes the writes after a savepoint, but keeps the locks.
    pub fn rollback_to(&self, savepoint: usize) {
        self.state
            .lock()
            .expect("a panicked transaction is not used again")
            .overlay
            .rollback_to(savepoint);
    }

    fn write_out(&self, state: &mut State, wait_for_sync: bool) -> Result<()> {
        let mut batch = state.overlay.take_batch(|collection| Key::Count(collection).bytes());
        for (collection, last) in std::mem::take(&mut state.last_keys) {
            batch.raise(Space::Meta, Key::LastKey(collection).bytes(), last);
        }
        if batch.is_empty() {
            return Ok(());
        }
        let ceilings = self.resources.clock.put_ceilings(&mut batch);
        let _changing = self.resources.vectors.cells.changing(&batch);
        self.resources.store.commit(batch, wait_for_sync || state.sync)?;
        self.resources.clock.written(ceilings);
        Ok(())
    }

    fn release(&self, state: &mut State) {
        self.resources.locks.free(state.locks.drain(..));
        state.guard = CollectionGuard::default();
    }

    /// Returns the state of the transaction for reading, or error 1654 if the transaction has
    /// ended.
    pub(crate) fn state(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.writing_state()?;
        state.overlay.settle();
        Ok(state)
    }

    /// Returns the state for a caller that does not read the transaction's own writes, or error
    /// 1654 if the transaction has ended.
    pub(crate) fn writing_state(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock().expect("a panicked transaction is not used again");
        if state.finished { Err(Error::of(Code::TransactionAborted)) } else { Ok(state) }
    }

    /// Returns the definition, as the transaction sees it, of a collection that a call wants to
    /// read. Returns error 1203 for a dropped collection, or 1652 for a collection that the
    /// transaction may not read.
    pub(super) fn readable<'a>(&'a self, collection: &Collection) -> Result<&'a Arc<Collection>> {
        let own = self.own(collection)?;
        if self.allow_implicit || self.modes.contains_key(&own.id) {
            Ok(own)
        } else {
            Err(unregistered(own, "read"))
        }
    }

    /// Returns the transaction's definition of a collection to write. Returns error 1203 for a
    /// dropped collection, or 1652 for a collection not declared for writing.
    pub(crate) fn writable<'a>(&'a self, collection: &Collection) -> Result<&'a Arc<Collection>> {
        let own = self.own(collection)?;
        match self.modes.get(&own.id) {
            Some(Mode::Write) => Ok(own),
            Some(Mode::Read) | None => Err(unregistered(own, "write")),
        }
    }

    fn own(&self, collection: &Collection) -> Result<&Arc<Collection>> {
        let own =
            self.database.collections.get(&collection.name).filter(|own| own.id == collection.id);
        own.or_else(|| self.database.collections.values().find(|own| own.id == collection.id))
            .ok_or_else(|| not_found(&collection.name))
    }

    /// Returns a new revision, which is larger than all earlier ones.
    pub(crate) fn new_revision(&self) -> u64 {
        self.resources.clock.revision()
    }

    /// Searches a view in its segments at their last commit, which is independent of the
    /// transaction's snapshot and writes.
    pub(crate) fn search_view(
        &self,
        stores: &[u64],
        query: &Query,
        scorings: &[Scoring],
        collections: Option<BTreeSet<u64>>,
    ) -> Result<Hits> {
        self.resources.views.search(stores, query, scorings, collections)
    }

    /// Brings the segments of a view up to date with all commits of the store.
    pub(crate) fn drain_view(&self, stores: &[u64]) -> Result<()> {
        let store = &*self.resources.store;
        stores
            .iter()
            .try_for_each(|number| self.resources.views.drain_number(store, *number, &|| false))
    }

    /// Returns the resources that all transactions share.
    pub(crate) fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Locks a key of the store for the transaction. Returns false if another transaction keeps the
    /// lock for longer than the wait.
    pub(crate) fn lock(&self, state: &mut State, space: Space, key: &[u8], wait_ms: u64) -> bool {
        self.grant(state, space, key.into(), wait_ms) != Grant::Refused
    }

    /// Locks a key of the store for the transaction. Returns whether the lock is new, was already
    /// held, or was refused.
    pub(crate) fn grant(&self, state: &mut State, space: Space, key: Bytes, wait_ms: u64) -> Grant {
        let locks = &self.resources.locks;
        let key = locks.key(space, key);
        let wait = Duration::from_millis(wait_ms.min(self.resources.key_wait_ms));
        let grant = locks.take(self.id, &key, wait);
        if grant == Grant::New {
            state.locks.push(key);
        }
        grant
    }

    /// Whether the data that the caller needs is unchanged since the snapshot. The function
    /// `changed` compares the snapshot with the newest data. With `may_move`, a one-request
    /// transaction without writes takes the newest data as its snapshot, and the result is true.
    pub(crate) fn is_unchanged(
        &self,
        state: &mut State,
        may_move: bool,
        changed: impl Fn(&dyn Snapshot, &dyn Snapshot) -> Result<bool>,
    ) -> Result<bool> {
        if state.snapshot.is_latest() {
            return Ok(true);
        }
        let seen = self.resources.vectors.cells.moment();
        let newest = self.resources.store.snapshot();
        if !changed(&*state.snapshot, &*newest)? {
            return Ok(true);
        }
        if may_move && self.beginning.one_request && state.overlay.is_empty() {
            (state.snapshot, state.seen) = (newest, seen);
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether the snapshot contains the newest data. With `may_move`, a one-request transaction
    /// without writes takes the newest data as its snapshot, and the result is true.
    pub(crate) fn is_at_newest(&self, state: &mut State, may_move: bool) -> bool {
        if state.snapshot.is_latest() {
            return true;
        }
        if may_move && self.beginning.one_request && state.overlay.is_empty() {
            state.seen = self.resources.vectors.cells.moment();
            state.snapshot = self.resources.store.snapshot();
            return true;
        }
        false
    }

    /// Whether the transaction has written more bytes than its limit allows.
    pub(crate) fn is_too_large(&self, state: &State) -> bool {
        state.overlay.bytes() > self.beginning.writes_bytes_max
    }

    /// Returns error 32 if the transaction has written more bytes than its limit allows.
    pub(crate) fn check_size(&self, state: &State) -> Result<()> {
        if !self.is_too_large(state) {
            return Ok(());
        }
        let max = self.beginning.writes_bytes_max;
        Err(Error::new(
            Code::ResourceLimit,
            format!("aborting transaction: its writes are larger than {max} bytes"),
        ))
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Ok(state) = self.state.get_mut() {
            self.resources.locks.free(state.locks.drain(..));
        }
    }
}

impl State {
    /// Returns the value of a key; the transaction's own writes override the snapshot.
    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        match self.overlay.get(space, key) {
            Some(own) => Ok(own.clone()),
            None => self.snapshot.get(space, key),
        }
    }

    /// Returns the local id of a document, looked up by its key in the primary index.
    pub(crate) fn local_id(&self, primary: &[u8]) -> Result<Option<u64>> {
        self.get(Space::Indexes, primary)?.map(|value| local_id_of_value(&value)).transpose()
    }
}

fn number_of(database: &Database, name: &str) -> Result<u64> {
    database.collections.get(name).map(|collection| collection.id).ok_or_else(|| not_found(name))
}

fn not_found(name: &str) -> Error {
    Error::new(Code::DataSourceNotFound, format!("collection or view not found: {name}"))
}

fn unregistered(collection: &Collection, what: &str) -> Error {
    let name = &collection.name;
    Error::new(
        Code::TransactionUnregisteredCollection,
        format!("unregistered collection used in transaction: {name} [{what}]"),
    )
}
