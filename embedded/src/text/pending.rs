//! Reads the pending rows of a view. A changed document has a pending row until the view's segments
//! contain the change.

use std::collections::BTreeMap;

use crate::encode::{Key, Mark, Space, local_id_of_value, successor};
use crate::error::{Code, Error, Result};
use crate::limits::VIEW_BATCH_ROWS;
use crate::storage::Snapshot;

/// A batch of pending rows, and the documents that they name.
pub(super) struct Pending {
    /// Keys of the pending rows.
    pub(super) keys: Vec<Vec<u8>>,
    /// Id of each document's collection, by the document's local id.
    pub(super) documents: BTreeMap<u64, u64>,
    /// Number of the newest commit group in the snapshot from which the rows were read.
    pub(super) position: u64,
    /// Whether the view may have more pending rows after this batch.
    pub(super) more: bool,
}

impl Pending {
    /// Reads the next batch of pending rows, from the key `from` on.
    pub(super) fn read(view: u64, from: &[u8], snapshot: &dyn Snapshot) -> Result<Self> {
        let upper = successor(Key::Pending(view).bytes());
        let upper = upper.expect("a view's id is not the largest possible id");
        let mut pending = Self {
            keys: Vec::new(),
            documents: BTreeMap::new(),
            position: position(snapshot)?,
            more: false,
        };
        for pair in snapshot.scan(Space::Indexes, from, &upper, false).take(VIEW_BATCH_ROWS) {
            let (key, value) = pair?;
            let damaged = || Error::new(Code::Internal, "a stored pending row is damaged");
            let (collection, local) = value.split_first_chunk::<8>().ok_or_else(damaged)?;
            pending.documents.insert(local_id_of_value(local)?, u64::from_be_bytes(*collection));
            pending.keys.push(key.to_vec());
        }
        pending.more = pending.keys.len() == VIEW_BATCH_ROWS;
        Ok(pending)
    }
}

/// Returns the number of the newest commit group in a snapshot.
pub(super) fn position(snapshot: &dyn Snapshot) -> Result<u64> {
    let mark = snapshot.get(Space::Meta, &Key::Mark.bytes())?;
    Ok(mark.and_then(|bytes| Mark::read(&bytes)).unwrap_or_default().number)
}

#[cfg(test)]
mod tests {
    use super::super::definition::Definition;
    use super::super::view::{View, Whole};
    use super::*;
    use crate::storage::{Batch, FjallStore, RecordingStore, Store};
    use crate::value::Value;

    const VIEW: u64 = 7;

    fn rows(store: &dyn Store, numbers: std::ops::Range<u64>) {
        let mut batch = Batch::default();
        for number in numbers {
            let value = [1_u64.to_be_bytes(), number.to_be_bytes()].concat();
            batch.put(Space::Indexes, Key::PendingRow(VIEW, number).bytes(), value);
        }
        store.commit(batch, false).unwrap();
    }

    #[test]
    fn a_drain_passes_over_no_row_twice_and_looks_for_none_where_nothing_was_committed() {
        let home = tempfile::tempdir().unwrap();
        let store = FjallStore::open(&home.path().join("store"), 1 << 20, false, None).unwrap();
        let store = RecordingStore::new(store);
        let scans = store.scans.clone();
        let definition = Definition { view: VIEW, name: "v".into(), links: Vec::new() };
        let whole: Whole = |_, _| Ok(Value::Null);
        let directory = home.path().join("view");
        let view = View::open(&directory, definition, &*store.snapshot(), whole).unwrap();
        let most = VIEW_BATCH_ROWS as u64;
        rows(&store, 0..2 * most + 10);
        view.drain(&store, &|| false).unwrap();
        let begins = |number| [Key::PendingRow(VIEW, number).bytes(), vec![0]].concat();
        let sweep = [Key::Pending(VIEW).bytes(), begins(most - 1), begins(2 * most - 1)];
        assert_eq!(std::mem::take(&mut *scans.lock().unwrap()), sweep);
        view.drain(&store, &|| false).unwrap();
        assert_eq!(scans.lock().unwrap().len(), 1, "a drain without pending rows makes one scan");
        view.drain(&store, &|| false).unwrap();
        assert_eq!(scans.lock().unwrap().len(), 1, "nothing was committed");
        // A transaction that commits late may add a pending row with a smaller number than existing
        // rows.
        rows(&store, 5..6);
        view.drain(&store, &|| false).unwrap();
        assert_eq!(
            Pending::read(VIEW, &Key::Pending(VIEW).bytes(), &*store.snapshot())
                .unwrap()
                .keys
                .len(),
            0
        );
    }
}
