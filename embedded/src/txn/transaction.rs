//! One transaction from begin to commit; every read sees the snapshot plus the transaction's own writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::clock::Clock;
use super::collection_locks::{CollectionLocks, Held};
use super::locks::{Grant, LockKey, Locks};
use super::options::Declared;
use super::overlay::Overlay;
use super::vectors::Vectors;
use crate::encode::{Key, Space, local_id_of_value};
use crate::error::{Code, Error, Result};
use crate::schema::{Collection, Database};
use crate::storage::{Bytes, Snapshot, Store};
use crate::text::{Hits, Query, Scoring, Views};

/// What all transactions share.
pub(crate) struct Resources {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// Locks of keys.
    pub(crate) locks: Locks,
    /// Locks of collections.
    pub(crate) collection_locks: Arc<CollectionLocks>,
    /// Revisions and numbers.
    pub(crate) clock: Clock,
    /// Views that can be searched.
    pub(crate) views: Views,
    /// Highest numeric key by collection, where a generator has asked for it.
    pub(crate) last_keys: Mutex<HashMap<u64, u64>>,
    /// What is known of vector indexes.
    pub(crate) vectors: Vectors,
    /// Longest wait for another writer of a key, whatever a write asks for.
    pub(crate) key_wait_ms: u64,
}

/// How a transaction begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    /// Longest wait for a collection that somebody else holds; None is for ever.
    pub(crate) lock_wait: Option<Duration>,
    /// Bytes of writes before 32.
    pub(crate) writes_bytes_max: u64,
    /// Whether its commit is synced whatever the commit says.
    pub(crate) wait_for_sync: bool,
    /// Whether it serves one request: then a write of the document API may look past its snapshot as long as nothing
    /// was written, since such a request has seen nothing yet.
    pub(crate) one_request: bool,
    /// Whether the caller holds the collection locks itself.
    pub(crate) locked_outside: bool,
}

/// What a transaction may do with a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Read,
    Write,
}

/// One transaction. All calls take `&self`; a caller keeps it to one thread at a time. Dropping aborts it.
pub struct Transaction {
    pub(super) resources: Arc<Resources>,
    /// Who owns its locks.
    id: u64,
    database: Arc<Database>,
    modes: BTreeMap<u64, Mode>,
    allow_implicit: bool,
    beginning: Beginning,
    state: Mutex<State>,
}

/// What changes while a transaction runs.
pub(crate) struct State {
    pub(crate) snapshot: Arc<dyn Snapshot>,
    /// The moment of vector lists that was noted before the snapshot was taken.
    pub(super) seen: u64,
    pub(crate) overlay: Overlay,
    locks: Vec<LockKey>,
    held: Held,
    /// Numeric keys to remember at the commit.
    pub(crate) last_keys: BTreeMap<u64, u64>,
    /// Whether a written collection asks for a sync.
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
    /// Takes the collection locks, then the snapshot. `database` is asked once the locks are held, so that the
    /// definitions are those the data is in.
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
        let held = if beginning.locked_outside {
            Held::default()
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
            held,
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

    /// The database's definitions at the begin.
    pub fn database(&self) -> Arc<Database> {
        self.database.clone()
    }

    /// Makes all writes visible at once; with `wait_for_sync` (here, at begin or of a written collection) they survive
    /// a power loss from then on. Never conflicts. A second call answers 1654.
    pub fn commit(&self, wait_for_sync: bool) -> Result<()> {
        let mut state = self.writing_state()?;
        state.finished = true;
        let result = self.write_out(&mut state, wait_for_sync);
        self.release(&mut state);
        result
    }

    /// Forgets all writes and frees the locks; nothing happens if it is over already.
    pub fn abort(&self) {
        let mut state = self.state.lock().expect("a panicked transaction is not used again");
        state.finished = true;
        state.overlay = Overlay::default();
        self.release(&mut state);
    }

    /// Marks the current end of the writes, so that a failed statement can be undone alone.
    pub fn savepoint(&self) -> usize {
        self.state.lock().expect("a panicked transaction is not used again").overlay.savepoint()
    }

    /// Undoes the writes made after a savepoint (locks stay).
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
        state.held = Held::default();
    }

    /// The state of a transaction that is not over.
    pub(crate) fn state(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.writing_state()?;
        state.overlay.settle();
        Ok(state)
    }

    /// The same for who does not look for own writes.
    pub(crate) fn writing_state(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock().expect("a panicked transaction is not used again");
        if state.finished { Err(Error::of(Code::TransactionAborted)) } else { Ok(state) }
    }

    /// The collection as this transaction knows it, for reading: 1203 if it is gone, 1652 if it may not be read.
    pub(super) fn readable<'a>(&'a self, collection: &Collection) -> Result<&'a Arc<Collection>> {
        let own = self.own(collection)?;
        if self.allow_implicit || self.modes.contains_key(&own.id) {
            Ok(own)
        } else {
            Err(unregistered(own, "read"))
        }
    }

    /// The collection as this transaction knows it, for writing: 1203 if it is gone, 1652 if it was not declared.
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

    /// A revision above all before it.
    pub(crate) fn new_revision(&self) -> u64 {
        self.resources.clock.revision()
    }

    /// Looks into a view as it was committed last, whatever this transaction sees or wrote.
    pub(crate) fn search_view(
        &self,
        stores: &[u64],
        query: &Query,
        scorings: &[Scoring],
        collections: Option<BTreeSet<u64>>,
    ) -> Result<Hits> {
        self.resources.views.search(stores, query, scorings, collections)
    }

    /// Has the stores of a view take in all that is committed now.
    pub(crate) fn drain_view(&self, stores: &[u64]) -> Result<()> {
        let store = &*self.resources.store;
        stores
            .iter()
            .try_for_each(|number| self.resources.views.drain_number(store, *number, &|| false))
    }

    /// What the transactions share.
    pub(crate) fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Locks a key of the store for this transaction; false if somebody else is writing it and does not end in time.
    pub(crate) fn lock(&self, state: &mut State, space: Space, key: &[u8], wait_ms: u64) -> bool {
        self.grant(state, space, key.into(), wait_ms) != Grant::Refused
    }

    /// The same, and whether the lock was this transaction's already.
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

    /// Whether no commit changed some keys after the snapshot. `changed` compares the snapshot with the newest data. With
    /// `may_move` a request of its own that has written nothing yet moves to the newest data instead.
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

    /// Whether the snapshot is the newest data, if need be by moving to it: a request of its own that has written nothing
    /// yet may.
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

    /// Whether the transaction has written more than it may.
    pub(crate) fn is_too_large(&self, state: &State) -> bool {
        state.overlay.bytes() > self.beginning.writes_bytes_max
    }

    /// 32 when the transaction has written more than it may.
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
    /// The value of a key: own writes first.
    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        match self.overlay.get(space, key) {
            Some(own) => Ok(own.clone()),
            None => self.snapshot.get(space, key),
        }
    }

    /// The local number of a document by its primary key's bytes.
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
