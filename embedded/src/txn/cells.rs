//! A cache of the lists of vector indexes, which returns a cached list only if it equals the list
//! in the caller's snapshot.
//!
//! A commit that changes lists announces the beginning and the end of the change, and each
//! announcement increments a shared counter. A transaction records the counter before it takes its
//! snapshot. If no change of a list is in progress, and the last change ended at or before the
//! recorded counter value, the snapshot contains this change. A cached copy of the list is stored
//! with the counter value at which the list's last change had ended. The copy is used only while
//! this is still the counter value of the list's last change. Otherwise, the list is read from the
//! store.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::encode::{Space, vector_list_of_key};
use crate::storage::{Batch, Operation};
use crate::vector::Cell;

/// The id of a vector index, and the number of a list in it.
type List = (u64, u32);

/// The cached lists, limited in bytes. Lists that were not used recently are removed first.
#[derive(Debug)]
pub(crate) struct Cells {
    bytes_max: u64,
    /// Counter that each beginning and each end of a change increments.
    moment: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// For each list that was changed: the number of changes in progress, and the counter value at
    /// the end of the last change.
    changes: HashMap<List, Change>,
    lists: HashMap<List, CachedList>,
    /// The cached lists in the order in which they are considered for removal, without duplicates.
    order: VecDeque<List>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Change {
    under_way: u32,
    ended: u64,
}

#[derive(Debug)]
struct CachedList {
    /// The list, or `None` if it is too large for the cache.
    cell: Option<Arc<Cell>>,
    as_of: Version,
    used: bool,
}

/// The version of a list: the number of the index's training, and the counter value at which the
/// list's last change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    generation: u64,
    ended: u64,
}

/// The result of a lookup in the cache.
#[derive(Debug)]
pub(crate) enum CellLookup {
    /// The cached list, which equals the list in the snapshot.
    Cell(Arc<Cell>),
    /// The list is not cached. After reading the list from the snapshot, the caller may cache the
    /// list under this version.
    Missing(Version),
    /// The caller must read the list from the snapshot, and must not cache it.
    Unknown,
}

/// A change of lists that is in progress. Dropping the value announces the end of the change.
#[derive(Debug)]
pub(crate) struct Changing<'a> {
    cells: &'a Cells,
    lists: BTreeSet<List>,
}

impl Cells {
    /// Creates an empty cache for lists of at most `bytes_max` bytes together.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, moment: AtomicU64::new(0), inner: Mutex::default() }
    }

    /// Returns the counter of changes, which a transaction records before it takes its snapshot.
    pub(crate) fn moment(&self) -> u64 {
        self.moment.load(Ordering::SeqCst)
    }

    /// Announces that the batch is about to change some lists. The caller must drop the result
    /// after the commit.
    pub(crate) fn changing(&self, batch: &Batch) -> Option<Changing<'_>> {
        let list = |operation: &Operation| match operation {
            Operation::Put(Space::Indexes, key, _) | Operation::Delete(Space::Indexes, key) => {
                vector_list_of_key(key)
            }
            _ => None,
        };
        let lists: BTreeSet<List> = batch.operations.iter().filter_map(list).collect();
        if lists.is_empty() {
            return None;
        }
        let mut inner = self.inner.lock().expect("only moves inside");
        for list in &lists {
            inner.changes.entry(*list).or_default().under_way += 1;
        }
        self.moment.fetch_add(1, Ordering::SeqCst);
        Some(Changing { cells: self, lists })
    }

    /// Looks up a list in the cache; the cached list must belong to the training `generation`.
    /// `seen` is the counter value recorded before the caller's snapshot was taken.
    pub(crate) fn find(&self, index: u64, list: u32, generation: u64, seen: u64) -> CellLookup {
        let mut inner = self.inner.lock().expect("only moves inside");
        let change = inner.changes.get(&(index, list)).copied().unwrap_or_default();
        if change.under_way > 0 || change.ended > seen {
            return CellLookup::Unknown;
        }
        let version = Version { generation, ended: change.ended };
        match inner.lists.get_mut(&(index, list)).filter(|cached| cached.as_of == version) {
            None => CellLookup::Missing(version),
            Some(cached) => {
                cached.used = true;
                cached.cell.clone().map_or(CellLookup::Unknown, CellLookup::Cell)
            }
        }
    }

    /// Caches a list under its version; `None` records that the list is too large.
    pub(crate) fn keep(&self, index: u64, list: u32, version: Version, cell: Option<Arc<Cell>>) {
        let mut inner = self.inner.lock().expect("only moves inside");
        let bytes = cell.as_ref().map_or(0, |cell| cell.bytes());
        inner.remove((index, list));
        inner.bytes += bytes;
        inner.lists.insert((index, list), CachedList { cell, as_of: version, used: false });
        inner.order.push_back((index, list));
        while inner.bytes > self.bytes_max
            && let Some(first) = inner.order.pop_front()
        {
            match inner.lists.get_mut(&first) {
                Some(cached) if cached.used => {
                    cached.used = false;
                    inner.order.push_back(first);
                }
                _ => inner.take(first),
            }
        }
    }

    /// Returns the maximum size of all cached lists together, in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Removes the cached lists of all indexes except the given ones.
    pub(crate) fn keep_only(&self, indexes: &BTreeSet<u64>) {
        let mut inner = self.inner.lock().expect("only moves inside");
        inner.changes.retain(|(index, _), change| indexes.contains(index) || change.under_way > 0);
        let gone: Vec<List> =
            inner.lists.keys().filter(|(index, _)| !indexes.contains(index)).copied().collect();
        gone.into_iter().for_each(|list| inner.remove(list));
    }
}

impl Inner {
    fn remove(&mut self, list: List) {
        if self.lists.contains_key(&list) {
            self.order.retain(|cached| *cached != list);
            self.take(list);
        }
    }

    fn take(&mut self, list: List) {
        if let Some(cached) = self.lists.remove(&list) {
            self.bytes -= cached.cell.map_or(0, |cell| cell.bytes());
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut inner = self.cells.inner.lock().expect("only moves inside");
        // The counter is incremented after the commit, so a snapshot taken under the new value
        // contains the change.
        let now = self.cells.moment.fetch_add(1, Ordering::SeqCst) + 1;
        for list in &self.lists {
            let change = inner.changes.entry(*list).or_default();
            change.under_way -= 1;
            change.ended = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Key;
    use crate::vector::bytes_of;

    fn cell(vectors: u64) -> Option<Arc<Cell>> {
        let mut cell = Cell::default();
        for local in 0..vectors {
            assert!(cell.push(local, &bytes_of(&[0.0; 4]), 4));
        }
        cell.shrink();
        Some(Arc::new(cell))
    }

    fn batch(index: u64, list: u32) -> Batch {
        let mut batch = Batch::default();
        batch.delete(Space::Indexes, Key::VectorPlace(index, 9).bytes());
        batch.put(Space::Indexes, Key::VectorEntry(index, list, 9).bytes(), [0; 16]);
        batch
    }

    fn shown(found: CellLookup) -> &'static str {
        match found {
            CellLookup::Cell(_) => "cell",
            CellLookup::Missing(_) => "missing",
            CellLookup::Unknown => "unknown",
        }
    }

    #[test]
    fn a_cached_list_serves_only_snapshots_that_show_it() {
        let cells = Cells::new(1 << 20);
        let before = cells.moment();
        let CellLookup::Missing(version) = cells.find(1, 2, 7, before) else {
            panic!("nothing is cached")
        };
        cells.keep(1, 2, version, cell(3));
        assert_eq!(shown(cells.find(1, 2, 7, before)), "cell");
        assert_eq!(shown(cells.find(1, 2, 8, before)), "missing", "another training");
        assert_eq!(shown(cells.find(1, 3, 7, before)), "missing");
        let changing = cells.changing(&batch(1, 2)).expect("it changes a list");
        let during = cells.moment();
        for seen in [before, during] {
            assert_eq!(shown(cells.find(1, 2, 7, seen)), "unknown");
        }
        drop(changing);
        for (seen, expected) in
            [(before, "unknown"), (during, "unknown"), (cells.moment(), "missing")]
        {
            assert_eq!(shown(cells.find(1, 2, 7, seen)), expected);
        }
        let CellLookup::Missing(version) = cells.find(1, 2, 7, cells.moment()) else {
            panic!("settled")
        };
        cells.keep(1, 2, version, cell(4));
        assert_eq!(shown(cells.find(1, 2, 7, cells.moment())), "cell");
        assert_eq!(shown(cells.find(1, 2, 7, before)), "unknown");
        assert!(cells.changing(&Batch::default()).is_none());
        cells.keep_only(&BTreeSet::new());
        assert_eq!(shown(cells.find(1, 2, 7, cells.moment())), "missing");
    }

    #[test]
    fn what_is_used_stays_and_the_bound_holds() {
        let one = cell(10).map_or(0, |cell| cell.bytes());
        let cells = Cells::new(3 * one);
        let version = Version { generation: 0, ended: 0 };
        for list in 0..3 {
            cells.keep(1, list, version, cell(10));
        }
        assert_eq!(shown(cells.find(1, 0, 0, 0)), "cell");
        cells.keep(1, 3, version, cell(10));
        let there = [0, 1, 2, 3].map(|list| shown(cells.find(1, list, 0, 0)));
        assert_eq!(there, ["cell", "missing", "cell", "cell"]);
        cells.keep(1, 4, version, None);
        assert_eq!(shown(cells.find(1, 4, 0, 0)), "unknown", "too large to be cached");
        cells.keep(1, 5, version, cell(100));
        assert!(cells.inner.lock().expect("free").bytes <= 3 * one);
    }
}
