//! Work over a whole collection in bounded steps: building an index, emptying a collection, clearing what was dropped.

use std::ops::ControlFlow;

use super::vectors::put_waiting;
use crate::encode::{Key, Space, local_id_of_key, successor};
use crate::error::{Code, Error, Result};
use crate::index::entries;
use crate::limits::{STEP_DOCUMENTS, STEP_KEYS};
use crate::schema::{Collection, Index};
use crate::storage::{Batch, Store};
use crate::txn::{Transaction, WriteOptions, whole};

/// Writes the entries of all documents into a new index, step by step; the caller keeps writers out and makes the
/// index known afterwards. 1210 if two documents share a unique key; the caller clears what was written until then.
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
            let crate::storage::Operation::Put(space, key, _) = operation else { continue };
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

/// Removes all documents through their indexes, each step whole, while the caller's transactions keep writers out.
pub(crate) fn empty_collection(
    begin: impl Fn() -> Result<Transaction>,
    collection: &Collection,
) -> Result<()> {
    loop {
        let transaction = begin()?;
        let mut scan = transaction.scan(collection)?;
        let documents = transaction.next(&mut scan, STEP_DOCUMENTS)?;
        for document in &documents {
            let key = document.text_of("_key").expect("each stored document has its key");
            transaction.remove(collection, key, None, &WriteOptions::default())?;
        }
        transaction.commit(documents.len() < STEP_DOCUMENTS)?;
        if documents.len() < STEP_DOCUMENTS {
            return Ok(());
        }
    }
}

/// Removes all keys with a prefix, step by step; false if `stopped` came first.
pub(crate) fn clear_range(
    store: &dyn Store,
    space: Space,
    prefix: &[u8],
    stopped: &dyn Fn() -> bool,
) -> Result<bool> {
    let upper = successor(prefix.to_vec()).unwrap_or_else(|| vec![0xFF; 32]);
    while !stopped() {
        let mut batch = Batch::default();
        let snapshot = store.snapshot();
        let mut visit = |key: &[u8]| {
            batch.delete(space, key.to_vec());
            if batch.operations.len() < STEP_KEYS {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        for pair in snapshot.scan(space, prefix, &upper, false) {
            if visit(&pair?.0).is_break() {
                break;
            }
        }
        if batch.is_empty() {
            return Ok(true);
        }
        store.commit(batch, false)?;
    }
    Ok(false)
}
