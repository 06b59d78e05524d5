//! The writes of a transaction that nobody else sees yet, with a way back to each earlier moment.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::encode::Space;
use crate::storage::{Batch, Bytes};

/// A written key: its value, or None for a removed one.
pub(crate) type Own = Option<Bytes>;

#[derive(Debug)]
enum Undo {
    Key { space: Space, key: Bytes, before: Option<Own> },
    Count { collection: u64, delta: i64 },
}

/// Own writes by key, and what they replaced.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    maps: [BTreeMap<Bytes, Own>; 3],
    counts: BTreeMap<u64, i64>,
    undo: Vec<Undo>,
    bytes: u64,
    /// Keys that nothing was written at before and that nobody has asked for since: they wait here, in no order, until
    /// somebody looks. Whoever writes and commits without a look never pays for their place.
    unseen: Vec<(Space, Bytes, Bytes)>,
}

impl Overlay {
    /// What this transaction wrote at a key.
    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Option<&Own> {
        debug_assert!(self.unseen.is_empty(), "whoever looks has them put in their places");
        let map = &self.maps[space as usize];
        if map.is_empty() { None } else { map.get(key) }
    }

    /// Own writes with `lower <= key < upper`.
    pub(crate) fn range<'a>(
        &'a self,
        space: Space,
        lower: &[u8],
        upper: &[u8],
    ) -> std::collections::btree_map::Range<'a, Bytes, Own> {
        debug_assert!(self.unseen.is_empty(), "whoever looks has them put in their places");
        let upper = upper.max(lower);
        self.maps[space as usize].range::<[u8], _>((Bound::Included(lower), Bound::Excluded(upper)))
    }

    /// Writes or removes a key.
    pub(crate) fn set(&mut self, space: Space, key: impl Into<Bytes>, value: Own) {
        let key = key.into();
        self.bytes += (key.len() + value.as_ref().map_or(0, |value| value.len())) as u64;
        self.place(space, key, value);
    }

    fn place(&mut self, space: Space, key: Bytes, value: Own) {
        let before = self.maps[space as usize].insert(key.clone(), value);
        self.undo.push(Undo::Key { space, key, before });
    }

    /// Writes a key that this transaction has not written yet and does not look for now; `settle` comes before the next
    /// look.
    pub(crate) fn set_unseen(&mut self, space: Space, key: Bytes, value: Bytes) {
        self.bytes += (key.len() + value.len()) as u64;
        self.unseen.push((space, key, value));
    }

    /// Makes room for so many more.
    pub(crate) fn reserve_unseen(&mut self, count: usize) {
        self.unseen.reserve(count);
    }

    /// How many writes are unseen.
    pub(crate) fn unseen(&self) -> usize {
        self.unseen.len()
    }

    /// Takes back the last unseen writes, so that so many stay.
    pub(crate) fn keep_unseen(&mut self, count: usize) {
        self.unseen.truncate(count);
    }

    /// Puts what is unseen in its place.
    pub(crate) fn settle(&mut self) {
        for (space, key, value) in std::mem::take(&mut self.unseen) {
            self.place(space, key, Some(value));
        }
    }

    /// Counts documents of a collection up or down.
    pub(crate) fn count(&mut self, collection: u64, delta: i64) {
        *self.counts.entry(collection).or_default() += delta;
        self.undo.push(Undo::Count { collection, delta });
    }

    /// Documents that this transaction added to a collection.
    pub(crate) fn counted(&self, collection: u64) -> i64 {
        self.counts.get(&collection).copied().unwrap_or(0)
    }

    /// Bytes written so far; undone writes count too, since they pass through memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.undo.is_empty() && self.unseen.is_empty()
    }

    /// The current end of the writes.
    pub(crate) fn savepoint(&mut self) -> usize {
        self.settle();
        self.undo.len()
    }

    /// Undoes what came after a savepoint.
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

    /// All writes as one batch; the overlay is empty afterwards.
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
