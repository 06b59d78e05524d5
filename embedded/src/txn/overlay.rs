//! The writes of a transaction before its commit, with savepoints.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::encode::Space;
use crate::storage::{Batch, Bytes};

/// A transaction's own write of a key: the new value, or `None` for a removal.
pub(crate) type Own = Option<Bytes>;

#[derive(Debug)]
enum Undo {
    Key { space: Space, key: Bytes, before: Option<Own> },
    Count { collection: u64, delta: i64 },
}

/// A transaction's own writes by key, and the earlier values that a rollback restores.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    maps: [BTreeMap<Bytes, Own>; 3],
    counts: BTreeMap<u64, i64>,
    undo: Vec<Undo>,
    bytes: u64,
    /// Unsorted writes that the transaction made after its last read. The transaction had not
    /// written the keys of these writes before. The writes are sorted only before the next read, so
    /// a transaction that commits without reading never sorts them.
    unseen: Vec<(Space, Bytes, Bytes)>,
}

impl Overlay {
    /// Returns the transaction's write of a key, if any.
    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Option<&Own> {
        debug_assert!(self.unseen.is_empty(), "unseen writes are sorted in before a read");
        let map = &self.maps[space as usize];
        if map.is_empty() { None } else { map.get(key) }
    }

    /// Returns the transaction's own writes with `lower <= key < upper`.
    pub(crate) fn range<'a>(
        &'a self,
        space: Space,
        lower: &[u8],
        upper: &[u8],
    ) -> std::collections::btree_map::Range<'a, Bytes, Own> {
        debug_assert!(self.unseen.is_empty(), "unseen writes are sorted in before a read");
        let upper = upper.max(lower);
        self.maps[space as usize].range::<[u8], _>((Bound::Included(lower), Bound::Excluded(upper)))
    }

    /// Records the write or removal of a key.
    pub(crate) fn set(&mut self, space: Space, key: impl Into<Bytes>, value: Own) {
        let key = key.into();
        self.bytes += (key.len() + value.as_ref().map_or(0, |value| value.len())) as u64;
        self.place(space, key, value);
    }

    fn place(&mut self, space: Space, key: Bytes, value: Own) {
        let before = self.maps[space as usize].insert(key.clone(), value);
        self.undo.push(Undo::Key { space, key, before });
    }

    /// Records a write of a key that the transaction has not written before. The caller must call
    /// `settle` before the next read.
    pub(crate) fn set_unseen(&mut self, space: Space, key: Bytes, value: Bytes) {
        self.bytes += (key.len() + value.len()) as u64;
        self.unseen.push((space, key, value));
    }

    /// Reserves space for a number of unsorted writes.
    pub(crate) fn reserve_unseen(&mut self, count: usize) {
        self.unseen.reserve(count);
    }

    /// Returns the number of unsorted writes.
    pub(crate) fn unseen(&self) -> usize {
        self.unseen.len()
    }

    /// Removes the newest unsorted writes until `count` remain.
    pub(crate) fn keep_unseen(&mut self, count: usize) {
        self.unseen.truncate(count);
    }

    /// Inserts the unsorted writes into the sorted writes.
    pub(crate) fn settle(&mut self) {
        for (space, key, value) in std::mem::take(&mut self.unseen) {
            self.place(space, key, Some(value));
        }
    }

    /// Records a change in the number of documents of a collection.
    pub(crate) fn count(&mut self, collection: u64, delta: i64) {
        *self.counts.entry(collection).or_default() += delta;
        self.undo.push(Undo::Count { collection, delta });
    }

    /// Returns by how much this transaction has changed the number of documents of a collection.
    pub(crate) fn counted(&self, collection: u64) -> i64 {
        self.counts.get(&collection).copied().unwrap_or(0)
    }

    /// Returns the number of bytes written so far, including undone writes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the transaction has no writes.
    pub(crate) fn is_empty(&self) -> bool {
        self.undo.is_empty() && self.unseen.is_empty()
    }

    /// Returns a savepoint: the number of writes so far.
    pub(crate) fn savepoint(&mut self) -> usize {
        self.settle();
        self.undo.len()
    }

    /// Undoes the writes after a savepoint.
    pub(crate) fn rollback_to(&mut self, savepoint: usize) {
        self.settle();
        while self.undo.len() > savepoint {
            match self.undo.pop().expect("longer than the savepoint") {
                Undo::Key { space, key, before } => {
                    let map = &mut self.maps[space as usize];
                    match before {
                        Some(own) => map.insert(key, own),
                        None => map.remove(&key),
                    };
                }
                Undo::Count { collection, delta } => {
                    *self.counts.entry(collection).or_default() -= delta;
                }
            }
        }
    }

    /// Takes all writes as one batch; the overlay is then empty.
    pub(crate) fn take_batch(&mut self, count_key: impl Fn(u64) -> Vec<u8>) -> Batch {
        let mut batch = Batch::default();
        let placed = self.maps.iter().map(BTreeMap::len).sum::<usize>();
        batch.operations.reserve(placed + self.unseen.len() + 8);
        for space in Space::ALL {
            for (key, own) in std::mem::take(&mut self.maps[space as usize]) {
                match own {
                    Some(value) => batch.put(space, key, value),
                    None => batch.delete(space, key),
                }
            }
        }
        for (space, key, value) in std::mem::take(&mut self.unseen) {
            batch.put(space, key, value);
        }
        for (collection, delta) in std::mem::take(&mut self.counts) {
            if delta != 0 {
                batch.add(Space::Meta, count_key(collection), delta);
            }
        }
        self.undo.clear();
        batch
    }
}
