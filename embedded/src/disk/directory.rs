//! A directory with a lock and a store; a store is made under another name and gets its own only when it is whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::seal::Seal;
use crate::error::{Code, Error, Result};

const LOCK: &str = "lock";
const STORE: &str = "store";
const UNFINISHED: &str = "store.new";
/// The store of before while another takes its place.
const REPLACED: &str = "store.old";
const VIEWS: &str = "views";
const SEAL: &str = "seal";
const SEAL_NEW: &str = "seal.new";

/// Unit in which Linux counts what a file takes (stat(2), `st_blocks`).
const BLOCK_BYTES: u64 = 512;

/// An open directory; the lock goes with it.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Opens or makes a directory and locks it; refuses one with foreign files or with another engine in it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).map_err(|error| failed("create", path, &error))?;
        let path = path.canonicalize().map_err(|error| failed("find", path, &error))?;
        check_names(&path)?;
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK));
        let lock = lock.map_err(|error| failed("open the lock of", &path, &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::new(
                Code::SystemError,
                format!(
                    "another engine has {} open: end the process that runs it, or use another directory",
                    path.display()
                ),
            )),
            Err(TryLockError::Error(error)) => Err(failed("lock", &path, &error)),
        }
    }

    /// Where the segments of views are, each in a directory of its own; it need not be there.
    pub(crate) fn views(&self) -> PathBuf {
        self.path.join(VIEWS)
    }

    /// What the last clean close left.
    pub(crate) fn seal(&self) -> Seal {
        Seal::at(self.path.join(SEAL))
    }

    /// Where the store is. If there is none, `make` makes one in the path that it is given, closes it, and the store
    /// gets its name durably.
    pub(crate) fn store(&self, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let (store, unfinished) = (self.path.join(STORE), self.path.join(UNFINISHED));
        let replaced = self.path.join(REPLACED);
        if replaced.exists() && !store.exists() {
            // Cut off between the two renames of a swap: the store of before is whole.
            rename(&replaced, &store)?;
            sync(&self.path)?;
        }
        // Never answered for: a rename is what makes a store one, and what has another in its place is one no more.
        for gone in [&unfinished, &replaced].into_iter().filter(|path| path.exists()) {
            fs::remove_dir_all(gone).map_err(|error| failed("remove", gone, &error))?;
        }
        if !store.exists() {
            make(&unfinished)?;
            // The store syncs its files, but not each directory that it makes.
            sync_tree(&unfinished)?;
            rename(&unfinished, &store)?;
            let parent = self.path.parent().unwrap_or(&self.path);
            sync(&self.path)?;
            sync(parent)?;
        }
        Ok(store)
    }

    /// Where a store is made that is to take the place of the one that is there; what is cut off goes when the directory is opened next.
    pub(crate) fn unfinished(&self) -> PathBuf {
        self.path.join(UNFINISHED)
    }

    /// Whether a store was ever made here.
    pub(crate) fn has_store(&self) -> bool {
        self.path.join(STORE).exists() || self.path.join(REPLACED).exists()
    }

    /// Has the whole, closed store in [`Self::unfinished`] take the place of the one that is there, durably. At each moment one of the two is
    /// what the next opening finds: until the second rename the old one, then the new one.
    pub(crate) fn swap(&self) -> Result<()> {
        let (store, unfinished) = (self.path.join(STORE), self.unfinished());
        let replaced = self.path.join(REPLACED);
        sync_tree(&unfinished)?;
        sync(&self.path)?;
        rename(&store, &replaced)?;
        sync(&self.path)?;
        rename(&unfinished, &store)?;
        sync(&self.path)?;
        fs::remove_dir_all(&replaced).map_err(|error| failed("remove", &replaced, &error))?;
        sync(&self.path)
    }

    /// Takes the segments of all views away: they are built again from the documents.
    pub(crate) fn remove_views(&self) -> Result<()> {
        let views = self.views();
        match fs::remove_dir_all(&views) {
            Ok(()) => sync(&self.path),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("remove", &views, &error)),
        }
    }

    /// Bytes that all files in it take on the disk: the store's journals are made larger than what is in them.
    pub(crate) fn bytes(&self) -> Result<u64> {
        bytes_of(&self.path)
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|error| failed("rename", from, &error))
}

fn bytes_of(path: &Path) -> Result<u64> {
    let look = |error| failed("look at", path, &error);
    let found = fs::symlink_metadata(path).map_err(look)?;
    if !found.is_dir() {
        return Ok(found.blocks() * BLOCK_BYTES);
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path).map_err(look)? {
        bytes += bytes_of(&entry.map_err(look)?.path())?;
    }
    Ok(bytes)
}

fn check_names(path: &Path) -> Result<()> {
    let entries = fs::read_dir(path).map_err(|error| failed("read", path, &error))?;
    for entry in entries {
        let name = entry.map_err(|error| failed("read", path, &error))?.file_name();
        if ![LOCK, STORE, UNFINISHED, REPLACED, VIEWS, SEAL, SEAL_NEW]
            .iter()
            .any(|own| name == *own)
        {
            let text = format!(
                "{} is not an engine's directory: it holds {}",
                path.display(),
                name.display()
            );
            return Err(Error::new(Code::SystemError, text));
        }
    }
    Ok(())
}

fn sync_tree(path: &Path) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path).map_err(|error| failed("read", path, &error))? {
            sync_tree(&entry.map_err(|error| failed("read", path, &error))?.path())?;
        }
    }
    sync(path)
}

fn sync(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| failed("sync", path, &error))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(Code::SystemError, format!("{what} {}: {error}", path.display()))
}
