//! A data directory with a lock and a store. The store is built under a temporary name and renamed
//! when it is complete.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::seal::Seal;
use crate::error::{Code, Error, Result};

const LOCK: &str = "lock";
const STORE: &str = "store";
const UNFINISHED: &str = "store.new";
/// Temporary name of the old store while a new store is renamed to `STORE`.
const REPLACED: &str = "store.old";
const VIEWS: &str = "views";
const SEAL: &str = "seal";
const SEAL_NEW: &str = "seal.new";

/// Bytes of one unit of `st_blocks` (stat(2)).
const BLOCK_BYTES: u64 = 512;

/// An open, locked data directory; dropping this value releases the lock.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    _lock: File,
}

/// Maximum number of attempts to take the lock of a data directory, and the pause between them. A
/// process that was killed, or that is just starting another one, may hold the lock for a moment
/// after the engine was closed.
const LOCK_TRIES_MAX: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Takes the lock of a data directory, with a few attempts while another process has it.
fn locked(lock: &File) -> std::result::Result<(), TryLockError> {
    for _ in 1..LOCK_TRIES_MAX {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            done => return done,
        }
    }
    lock.try_lock()
}

impl Directory {
    /// Opens or creates a data directory and locks it. Refuses a directory that contains foreign
    /// files or is open in another engine.
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
        match locked(&lock) {
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

    /// The parent directory of all views' segment directories; it may be missing.
    pub(crate) fn views(&self) -> PathBuf {
        self.path.join(VIEWS)
    }

    /// The seal of the last clean close.
    pub(crate) fn seal(&self) -> Seal {
        Seal::at(self.path.join(SEAL))
    }

    /// The path of the store. If the data directory has no store, `make` creates and closes a store
    /// at a temporary path, and the store is then renamed durably.
    pub(crate) fn store(&self, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let (store, unfinished) = (self.path.join(STORE), self.path.join(UNFINISHED));
        let replaced = self.path.join(REPLACED);
        if replaced.exists() && !store.exists() {
            // If a crash occurred between the two renames of a replacement, the old store is still
            // complete.
            rename(&replaced, &store)?;
            sync(&self.path)?;
        }
        // Removes unfinished and replaced stores, because only a store under its final name is
        // used.
        for gone in [&unfinished, &replaced].into_iter().filter(|path| path.exists()) {
            fs::remove_dir_all(gone).map_err(|error| failed("remove", gone, &error))?;
        }
        if !store.exists() {
            make(&unfinished)?;
            // The store library syncs the files but not the directories that it creates.
            sync_tree(&unfinished)?;
            rename(&unfinished, &store)?;
            let parent = self.path.parent().unwrap_or(&self.path);
            sync(&self.path)?;
            sync(parent)?;
        }
        Ok(store)
    }

    /// The path for a new store that will replace the current store. If a crash leaves an
    /// unfinished store, the next start removes it.
    pub(crate) fn unfinished(&self) -> PathBuf {
        self.path.join(UNFINISHED)
    }

    /// Whether the directory has a store.
    pub(crate) fn has_store(&self) -> bool {
        self.path.join(STORE).exists() || self.path.join(REPLACED).exists()
    }

    /// Durably replaces the current store by the complete, closed store at the path
    /// [`Self::unfinished`]. If a crash comes before the second rename, the next start finds the
    /// old store; after the second rename it finds the new store.
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

    /// Removes the segments of all views; the engine then builds the segments again from the
    /// documents.
    pub(crate) fn remove_views(&self) -> Result<()> {
        let views = self.views();
        match fs::remove_dir_all(&views) {
            Ok(()) => sync(&self.path),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("remove", &views, &error)),
        }
    }

    /// Disk space of all files in bytes. A journal can occupy more disk space than its content has
    /// bytes.
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
