//! Builds indexes, truncates collections and removes dropped data in bounded steps.

use super::vectors::put_waiting;
use crate::encode::{Key, Space, local_id_of_key, successor};
use crate::error::{Code, Error, Result};
use crate::index::entries;
use crate::limits::{STEP_DOCUMENTS, STEP_KEYS};
use crate::schema::{Collection, Index};
use crate::storage::{Batch, Operation, Store};
use crate::txn::{Transaction, WriteOptions, whole};

/// Writes the entries of all documents into a new index, step by step. The caller blocks writers,
/// and makes the index visible to other threads after this function has succeeded. Returns error
/// 1210 if two documents share a unique key; the caller then removes the entries written so far.
pub(crate) fn build_index(store: &dyn Store, collection: &Collection, index: &Index) -> Result<()> {
    let snapshot = store.snapshot();
    let lower = Key::Documents(collection.id).bytes();
    let upper = successor(lower.clone()).expect("a collection's number is below the last one");
    let mut batch = Batch::default();
    let mut in_step = 0;
    for pair in snapshot.scan(Space::Documents, &lower, &upper, false) {
        let (key, value) = pair?;
        let document = whole(collection, &value)?;
        let local = local_id_of_key(&key)?;
        let object = document.as_object().expect("a stored document is an object");
        for entry in entries(collection, index, object, local)? {
            let value = if entry.unique { local.to_be_bytes().to_vec() } else { Vec::new() };
            batch.put(Space::Indexes, entry.key, value);
        }
        put_waiting(&mut batch, index, object, local)?;
        in_step += 1;
        if in_step == STEP_DOCUMENTS {
            write_step(store, index, std::mem::take(&mut batch))?;
            in_step = 0;
        }
    }
    write_step(store, index, batch)
}

fn write_step(store: &dyn Store, index: &Index, batch: Batch) -> Result<()> {
    if index.unique {
        let snapshot = store.snapshot();
        let mut keys = std::collections::HashSet::new();
        for operation in &batch.operations {
            let Operation::Put(space, key, _) = operation else { continue };
            if !keys.insert(key) || snapshot.get(*space, key)?.is_some() {
                let name = &index.name;
                let text =
                    format!("unique constraint violated - in index {name} of type persistent");
                return Err(Error::new(Code::UniqueConstraintViolated, text));
            }
        }
    }
    if batch.is_empty() { Ok(()) } else { store.commit(batch, false) }
}

/// Removes all documents of a collection with their index entries, in several commits. The
/// transactions that `begin` returns block other writers.
pub(crate) fn empty_collection(
    begin: impl Fn() -> Result<Transaction>,
    collection: &Collection,
) -> Result<()> {
    // Each step begins where the previous step ended, so no step reads the removed keys again.
    let mut place = None;
    loop {
        let transaction = begin()?;
        let mut scan = place.take().map_or_else(|| transaction.scan(collection), Ok)?;
        let documents = transaction.next(&mut scan, STEP_DOCUMENTS)?;
        for document in &documents {
            let key = document.text_of("_key").expect("each stored document has its key");
            transaction.remove(collection, key, None, &WriteOptions::default())?;
        }
        transaction.commit(documents.len() < STEP_DOCUMENTS)?;
        if documents.len() < STEP_DOCUMENTS {
            return Ok(());
        }
        place = Some(scan);
    }
}

/// Removes all keys with a prefix, step by step; returns `false` if `stopped` interrupted the
/// removal. Each step begins where the previous step ended, because until a compaction the store
/// still iterates over removed keys. This is safe because no transaction writes into the key range
/// of a dropped collection or index.
pub(crate) fn clear_range(
    store: &dyn Store,
    space: Space,
    prefix: &[u8],
    stopped: &dyn Fn() -> bool,
) -> Result<bool> {
    let upper = successor(prefix.to_vec()).unwrap_or_else(|| vec![0xFF; 32]);
    let mut lower = prefix.to_vec();
    while !stopped() {
        let mut batch = Batch::default();
        let snapshot = store.snapshot();
        for pair in snapshot.scan(space, &lower, &upper, false).take(STEP_KEYS) {
            batch.delete(space, pair?.0.to_vec());
        }
        // Each step needs a new snapshot, because a snapshot that stays open would keep the removed
        // data on disk.
        drop(snapshot);
        let Some(Operation::Delete(_, last)) = batch.operations.last() else { return Ok(true) };
        lower = [last.as_ref(), &[0]].concat();
        store.commit(batch, false)?;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{FjallStore, RecordingStore};

    #[test]
    fn what_was_dropped_is_cleared_in_steps_that_pass_over_nothing_twice_and_hold_no_snapshot() {
        let home = tempfile::tempdir().unwrap();
        let store = FjallStore::open(&home.path().join("store"), 1 << 20, false, None).unwrap();
        let store = RecordingStore::new(store);
        let [before, dropped, behind] = [6, 7, 8].map(|index| Key::Sorted(index).bytes());
        let key = |prefix: &[u8], number: usize| [prefix, &number.to_be_bytes()].concat();
        let mut batch = Batch::default();
        for number in 0..2 * STEP_KEYS + 10 {
            batch.put(Space::Indexes, key(&dropped, number), []);
        }
        for kept in [&before, &behind] {
            batch.put(Space::Indexes, key(kept, 1), []);
        }
        store.commit(batch, false).unwrap();
        store.held.lock().unwrap().clear();
        assert!(!clear_range(&store, Space::Indexes, &dropped, &|| true).unwrap());
        assert!(clear_range(&store, Space::Indexes, &dropped, &|| false).unwrap());
        let behind_step = |step: usize| [key(&dropped, step * STEP_KEYS - 1), vec![0]].concat();
        let last = [key(&dropped, 2 * STEP_KEYS + 9), vec![0]].concat();
        let scans = std::mem::take(&mut *store.scans.lock().unwrap());
        assert_eq!(scans, [dropped.clone(), behind_step(1), behind_step(2), last]);
        assert_eq!(*store.held.lock().unwrap(), [0, 0, 0]);
        let left: Vec<_> = store
            .snapshot()
            .scan(Space::Indexes, &before, &successor(behind.clone()).unwrap(), false)
            .map(|pair| pair.unwrap().0.to_vec())
            .collect();
        assert_eq!(left, [key(&before, 1), key(&behind, 1)]);
    }
}
