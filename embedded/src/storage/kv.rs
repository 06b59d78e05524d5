//! The store as the engine sees it: snapshots to read, batches to write, a commit that is atomic and may be synced.

use std::sync::Arc;

use crate::encode::Space;
use crate::error::Result;

/// Shared bytes; a clone costs a reference count.
pub(crate) type Bytes = ::fjall::Slice;

/// Pairs of a range in order.
pub(crate) type Pairs<'a> = Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + 'a>;

/// One change of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Sets a key.
    Put(Space, Bytes, Bytes),
    /// Removes a key.
    Delete(Space, Bytes),
    /// Adds to an eight-byte number (missing = 0); batches of one group add up.
    Add(Space, Vec<u8>, i64),
    /// Raises an eight-byte number (missing = 0).
    Raise(Space, Vec<u8>, u64),
}

/// Changes that come to be together or not at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// In order; a later one wins.
    pub(crate) operations: Vec<Operation>,
    /// Bytes of keys and values.
    pub(crate) bytes: usize,
}

impl Batch {
    /// Whether nothing would change.
    pub(crate) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Sets a key.
    pub(crate) fn put(&mut self, space: Space, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        let (key, value) = (key.into(), value.into());
        self.bytes += key.len() + value.len();
        self.operations.push(Operation::Put(space, key, value));
    }

    /// Removes a key.
    pub(crate) fn delete(&mut self, space: Space, key: impl Into<Bytes>) {
        let key = key.into();
        self.bytes += key.len();
        self.operations.push(Operation::Delete(space, key));
    }

    /// Adds to a counter.
    pub(crate) fn add(&mut self, space: Space, key: Vec<u8>, delta: i64) {
        self.operations.push(Operation::Add(space, key, delta));
    }

    /// Raises a number.
    pub(crate) fn raise(&mut self, space: Space, key: Vec<u8>, value: u64) {
        self.operations.push(Operation::Raise(space, key, value));
    }
}

/// All data at one moment.
pub(crate) trait Snapshot: Send + Sync {
    /// The value of a key.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>>;

    /// Pairs with `lower <= key < upper`, rising or falling.
    fn scan(&self, space: Space, lower: &[u8], upper: &[u8], backwards: bool) -> Pairs<'_>;

    /// True only if no commit came after it.
    fn is_latest(&self) -> bool;
}

/// A store.
pub(crate) trait Store: Send + Sync {
    /// All data as it is now.
    fn snapshot(&self) -> Arc<dyn Snapshot>;

    /// Writes a batch; when this returns, every later snapshot has it. With `sync` it also survives a power loss from
    /// then on; without, it does within `SYNC_INTERVAL_MS`. After an error nothing is written until a restart.
    fn commit(&self, batch: Batch, sync: bool) -> Result<()>;

    /// Whether commits are tried at all: not after an error.
    fn takes_commits(&self) -> bool {
        true
    }
}
