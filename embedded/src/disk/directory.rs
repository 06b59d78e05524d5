//! A directory with a lock and a store; a store is made under another name and gets its own only when it is whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use super::seal::Seal;
use crate::error::{Code, Error, Result};

const LOCK: &str = "lock";
const STORE: &str = "store";
const UNFINISHED: &str = "store.new";
const VIEWS: &str = "views";
const SEAL: &str = "seal";
const SEAL_NEW: &str = "seal.new";

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
        if unfinished.exists() {
            // Never answered for: the rename below is what makes a store one.
            fs::remove_dir_all(&unfinished)
                .map_err(|error| failed("remove", &unfinished, &error))?;
        }
        if !store.exists() {
            make(&unfinished)?;
            // The store syncs its files, but not each directory that it makes.
            sync_tree(&unfinished)?;
            fs::rename(&unfinished, &store)
                .map_err(|error| failed("rename", &unfinished, &error))?;
            let parent = self.path.parent().unwrap_or(&self.path);
            sync(&self.path)?;
            sync(parent)?;
        }
        Ok(store)
    }
}

fn check_names(path: &Path) -> Result<()> {
    let entries = fs::read_dir(path).map_err(|error| failed("read", path, &error))?;
    for entry in entries {
        let name = entry.map_err(|error| failed("read", path, &error))?.file_name();
        if ![LOCK, STORE, UNFINISHED, VIEWS, SEAL, SEAL_NEW].iter().any(|own| name == *own) {
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
