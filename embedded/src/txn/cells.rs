//! Lists of vector indexes in memory, and the proof that what is kept is what a snapshot shows.
//!
//! Commits that change lists say when they begin and when they have ended; both are moments of one counter. A snapshot notes
//! the moment before it was taken. If no change of a list is under way and the last one had ended by then, the snapshot shows
//! the list as that change left it, and so does whatever was kept under the moment of that end. In every other case the list is
//! read from the store.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::encode::{Space, vector_list_of_key};
use crate::storage::{Batch, Operation};
use crate::vector::Cell;

/// An index and one of its lists.
type List = (u64, u32);

/// The lists that are kept, bounded in bytes; those unused for longest go first.
#[derive(Debug)]
pub(crate) struct Cells {
    bytes_max: u64,
    /// Grows with each begin and end of a change.
    moment: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Changes of lists: at most one entry for each list there is.
    changes: HashMap<List, Change>,
    kept: HashMap<List, Kept>,
    /// The kept ones, each once; the next to go is in front.
    order: VecDeque<List>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Change {
    under_way: u32,
    ended: u64,
}

#[derive(Debug)]
struct Kept {
    /// None for a list that is too large to be kept.
    cell: Option<Arc<Cell>>,
    as_of: Version,
    used: bool,
}

/// Training and last change of a list that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    generation: u64,
    ended: u64,
}

/// What is known of a list.
#[derive(Debug)]
pub(crate) enum Found {
    /// This is what the snapshot shows.
    Cell(Arc<Cell>),
    /// Nothing is kept; what the snapshot shows may be kept under this version.
    Missing(Version),
    /// It has to be read from the store, and not kept.
    Unknown,
}

/// A change that is under way; dropping says that it has ended.
#[derive(Debug)]
pub(crate) struct Changing<'a> {
    cells: &'a Cells,
    lists: BTreeSet<List>,
}

impl Cells {
    /// Nothing is kept yet; `bytes_max` bounds it.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, moment: AtomicU64::new(0), inner: Mutex::default() }
    }

    /// The moment to note before a snapshot is taken.
    pub(crate) fn moment(&self) -> u64 {
        self.moment.load(Ordering::SeqCst)
    }

    /// Says which lists a batch changes, until the answer is dropped behind its commit.
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

    /// What is known of a list of a training, for a snapshot that was taken after the moment `seen`.
    pub(crate) fn find(&self, index: u64, list: u32, generation: u64, seen: u64) -> Found {
        let mut inner = self.inner.lock().expect("only moves inside");
        let change = inner.changes.get(&(index, list)).copied().unwrap_or_default();
        if change.under_way > 0 || change.ended > seen {
            return Found::Unknown;
        }
        let version = Version { generation, ended: change.ended };
        match inner.kept.get_mut(&(index, list)).filter(|kept| kept.as_of == version) {
            None => Found::Missing(version),
            Some(kept) => {
                kept.used = true;
                kept.cell.clone().map_or(Found::Unknown, Found::Cell)
            }
        }
    }

    /// Keeps a list as it was read under a version; None notes that it is too large.
    pub(crate) fn keep(&self, index: u64, list: u32, version: Version, cell: Option<Arc<Cell>>) {
        let mut inner = self.inner.lock().expect("only moves inside");
        let bytes = cell.as_ref().map_or(0, |cell| cell.bytes());
        inner.remove((index, list));
        inner.bytes += bytes;
        inner.kept.insert((index, list), Kept { cell, as_of: version, used: false });
        inner.order.push_back((index, list));
        while inner.bytes > self.bytes_max
            && let Some(first) = inner.order.pop_front()
        {
            match inner.kept.get_mut(&first) {
                Some(kept) if kept.used => {
                    kept.used = false;
                    inner.order.push_back(first);
                }
                _ => inner.take(first),
            }
        }
    }

    /// Bytes that a list may have to be kept.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Forgets the lists of indexes that are not among these.
    pub(crate) fn keep_only(&self, indexes: &BTreeSet<u64>) {
        let mut inner = self.inner.lock().expect("only moves inside");
        inner.changes.retain(|(index, _), change| indexes.contains(index) || change.under_way > 0);
        let gone: Vec<List> =
            inner.kept.keys().filter(|(index, _)| !indexes.contains(index)).copied().collect();
        gone.into_iter().for_each(|list| inner.remove(list));
    }
}

impl Inner {
    fn remove(&mut self, list: List) {
        if self.kept.contains_key(&list) {
            self.order.retain(|kept| *kept != list);
            self.take(list);
        }
    }

    fn take(&mut self, list: List) {
        if let Some(kept) = self.kept.remove(&list) {
            self.bytes -= kept.cell.map_or(0, |cell| cell.bytes());
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut inner = self.cells.inner.lock().expect("only moves inside");
        // The new moment is behind the commit: who notes it takes a snapshot that has the change.
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

    fn shown(found: Found) -> &'static str {
        match found {
            Found::Cell(_) => "cell",
            Found::Missing(_) => "missing",
            Found::Unknown => "unknown",
        }
    }

    #[test]
    fn a_kept_list_serves_only_snapshots_that_show_it() {
        let cells = Cells::new(1 << 20);
        let before = cells.moment();
        let Found::Missing(version) = cells.find(1, 2, 7, before) else {
            panic!("nothing is kept")
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
        let Found::Missing(version) = cells.find(1, 2, 7, cells.moment()) else {
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
        assert_eq!(shown(cells.find(1, 4, 0, 0)), "unknown", "too large to be kept");
        cells.keep(1, 5, version, cell(100));
        assert!(cells.inner.lock().expect("free").bytes <= 3 * one);
    }
}
