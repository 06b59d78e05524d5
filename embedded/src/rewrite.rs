//! Copies the live data of a data directory into new files, so that no file contains removed data.

use std::path::Path;

use crate::disk::Directory;
use crate::encode::{Key, Space};
use crate::engine::{House, check_format, clear_leftovers};
use crate::error::{Code, Error, Result};
use crate::limits::{MEMTABLE_BYTES, REWRITE_BATCH_BYTES};
use crate::storage::{Batch, FjallStore, Snapshot, Store};

/// The result of rewriting a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Disk space of the directory's files before the rewrite, in bytes.
    pub before_bytes: u64,
    /// Disk space of the directory's files after the rewrite, in bytes, without the segments of
    /// views, which the next start builds again.
    pub after_bytes: u64,
    /// Number of live key-value pairs.
    pub pairs: u64,
}

/// Copies all live data into a new store, which then replaces the old store. The rewrite removes
/// old journals, trees and segments of views. After an interrupted rewrite, the data directory can
/// be opened and contains either the old store or the new store. The rewrite needs as much free
/// disk space as the live data takes. After each batch, `progress` receives the number of copied
/// pairs.
///
/// # Errors
///
/// A rewrite fails if the data directory has no store, is damaged or is open in another process, or
/// if the disk fails. A failed rewrite changes no live data. It may remove data of dropped
/// collections, and it may remove segments of views; the next start builds these segments again.
pub fn rewrite(directory: &Path, progress: &mut dyn FnMut(u64)) -> Result<Rewritten> {
    if !directory.is_dir() {
        let text = format!("{} is no directory", directory.display());
        return Err(Error::new(Code::SystemError, text));
    }
    let directory = Directory::open(directory)?;
    if !directory.has_store() {
        let text = "the directory has no store: give the directory that `serve --data-dir` uses";
        return Err(Error::new(Code::SystemError, text));
    }
    let before_bytes = directory.bytes()?;
    // The closure would prepare a new store if the directory had none. It is never called here,
    // because the store exists.
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

/// Copies all pairs of all key spaces in batches, and syncs the last batch.
fn copy(old: &dyn Snapshot, new: &FjallStore, progress: &mut dyn FnMut(u64)) -> Result<u64> {
    let (mut batch, mut pairs) = (Batch::default(), 0);
    for space in Space::ALL {
        for pair in old.scan(space, &[], &ABOVE_ALL, false) {
            let (key, value) = pair?;
            // The mark (the number of the newest commit group) is not copied, because the new store
            // writes its own mark with each commit.
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

/// An upper bound of all keys. No key is above this bound, because no key begins with more than
/// eight bytes 0xFF.
const ABOVE_ALL: [u8; 32] = [0xff; 32];
