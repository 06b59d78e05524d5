//! The interface of the store: snapshots for reading, and batches that are committed atomically and
//! optionally synced.

use std::sync::Arc;

use crate::encode::Space;
use crate::error::Result;

/// Shared bytes; a clone only increments a reference count.
pub(crate) type Bytes = ::fjall::Slice;

/// The key-value pairs in a range of keys, in order.
pub(crate) type Pairs<'a> = Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + 'a>;

/// One operation of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Sets a key.
    Put(Space, Bytes, Bytes),
    /// Removes a key.
    Delete(Space, Bytes),
    /// Adds a value to a stored eight-byte number; a missing number counts as 0. A commit group
    /// adds up all its additions to one key and writes the result once.
    Add(Space, Vec<u8>, i64),
    /// Raises a stored eight-byte number to the given value, unless the number is already higher; a
    /// missing number counts as 0.
    Raise(Space, Vec<u8>, u64),
}

/// A batch of changes that are applied together or not at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// The operations in order; of several operations on one key, the last one takes precedence.
    pub(crate) operations: Vec<Operation>,
    /// Number of bytes of the batch's keys and values.
    pub(crate) bytes: usize,
}

impl Batch {
    /// Whether the batch has no changes.
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

    /// Adds `delta` to a stored counter.
    pub(crate) fn add(&mut self, space: Space, key: Vec<u8>, delta: i64) {
        self.operations.push(Operation::Add(space, key, delta));
    }

    /// Raises a stored number to the given value, unless the number is already higher.
    pub(crate) fn raise(&mut self, space: Space, key: Vec<u8>, value: u64) {
        self.operations.push(Operation::Raise(space, key, value));
    }
}

/// A consistent, unchanging view of all data in the store.
pub(crate) trait Snapshot: Send + Sync {
    /// Returns the value of a key.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>>;

    /// Returns the pairs with `lower <= key < upper`, in ascending or descending order of keys.
    fn scan(&self, space: Space, lower: &[u8], upper: &[u8], backwards: bool) -> Pairs<'_>;

    /// Returns true only if no commit followed the snapshot; may return false although the snapshot
    /// is the latest.
    fn is_latest(&self) -> bool;
}

/// A store of sorted key-value pairs.
pub(crate) trait Store: Send + Sync {
    /// Returns a snapshot of the current data.
    fn snapshot(&self) -> Arc<dyn Snapshot>;

    /// Writes a batch. After the method returns, every new snapshot contains the batch. With
    /// `sync`, the batch also survives a power loss as soon as the method has returned; without
    /// `sync`, a power loss within the next `SYNC_INTERVAL_MS` may lose the batch. After a failed
    /// commit, no commit is possible until a restart.
    fn commit(&self, batch: Batch, sync: bool) -> Result<()>;

    /// Whether commits are possible; false after a failed commit.
    fn takes_commits(&self) -> bool {
        true
    }
}
