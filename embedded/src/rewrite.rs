//! Writes what lives in an engine's directory into new files, so that nothing of what was removed is left in any of them.

use std::path::Path;

use crate::disk::Directory;
use crate::encode::{Key, Space};
use crate::engine::{House, check_format, clear_leftovers};
use crate::error::{Code, Error, Result};
use crate::limits::{MEMTABLE_BYTES, REWRITE_BATCH_BYTES};
use crate::storage::{Batch, FjallStore, Snapshot, Store};

/// What a rewrite came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Bytes that all files took on the disk before.
    pub before_bytes: u64,
    /// Bytes that they take after; the segments of views are built again when the directory is opened next, and are not among them.
    pub after_bytes: u64,
    /// Pairs of key and value that live.
    pub pairs: u64,
}

/// Copies everything that lives into a new store, which then takes the place of the old one; journals, trees and the segments of views of
/// before are removed. Wherever it is cut off, the directory opens next as it was before or as it is after. It needs as much room again as the
/// live data takes. `progress` is told the pairs copied so far, batch by batch.
///
/// # Errors
/// The directory holds no store, is open elsewhere or damaged, or the disk fails: nothing has changed then but that dropped ranges are
/// cleared and views may be built again.
pub fn rewrite(directory: &Path, progress: &mut dyn FnMut(u64)) -> Result<Rewritten> {
    if !directory.is_dir() {
        let text = format!("{} is no directory", directory.display());
        return Err(Error::new(Code::SystemError, text));
    }
    let directory = Directory::open(directory)?;
    if !directory.has_store() {
        let text = "the directory holds no store: name the one that `serve --data-dir` was given";
        return Err(Error::new(Code::SystemError, text));
    }
    let before_bytes = directory.bytes()?;
    // There is one, so that none is made.
    let path = directory.store(|_| Ok(()))?;
    let pairs = {
        let old = FjallStore::open(&path, MEMTABLE_BYTES, true, Some(directory.seal()))?;
        check_format(&old, &path)?;
        clear_leftovers(&old, &House::default())?;
        let new = FjallStore::open(&directory.unfinished(), MEMTABLE_BYTES, true, None)?;
        new.number_on(old.newest());
        copy(&*old.snapshot(), &new, progress)?
    };
    directory.remove_views()?;
    directory.swap()?;
    Ok(Rewritten { before_bytes, after_bytes: directory.bytes()?, pairs })
}

/// All pairs of all spaces, in batches; the last one is synced.
fn copy(old: &dyn Snapshot, new: &FjallStore, progress: &mut dyn FnMut(u64)) -> Result<u64> {
    let (mut batch, mut pairs) = (Batch::default(), 0);
    for space in Space::ALL {
        for pair in old.scan(space, &[], &ABOVE_ALL, false) {
            let (key, value) = pair?;
            // Each store numbers its own groups.
            if space == Space::Meta && *key == *Key::Mark.bytes() {
                continue;
            }
            batch.put(space, key, value);
            pairs += 1;
            if batch.bytes >= REWRITE_BATCH_BYTES {
                new.commit(std::mem::take(&mut batch), false)?;
                progress(pairs);
            }
        }
    }
    new.commit(batch, true)?;
    progress(pairs);
    Ok(pairs)
}

/// Above every key: none begins with more than eight such bytes.
const ABOVE_ALL: [u8; 32] = [0xff; 32];
