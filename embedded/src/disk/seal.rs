//! The seal file, written by a clean close, records the newest synced group of commits, so that the
//! next start detects lost commits.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Code, Error, Result};

/// Name of the seal's format.
const HEAD: &str = "arango-embedded seal 1";

/// The file with the number of a synced group of commits. An old seal file stays valid, because
/// numbers of groups of commits only grow.
#[derive(Clone, Debug)]
pub(crate) struct Seal {
    path: PathBuf,
}

impl Seal {
    /// Returns the seal for a path; the file may be missing.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The number of the synced group; 0 without a seal file. Refuses a file that is not a seal.
    pub(crate) fn read(&self) -> Result<u64> {
        let text = match fs::read(&self.path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(self.failed("read", &error)),
        };
        let group = text.lines().nth(1).and_then(|line| line.strip_prefix("synced ")?.parse().ok());
        group.filter(|group| text == content(*group)).ok_or_else(|| {
            let text = format!(
                "{} is damaged. This file says which commit was the last synced one, so that lost commits are detected. Restore the data directory, or remove the file to open the store without this check",
                self.path.display()
            );
            Error::new(Code::SystemError, text)
        })
    }

    /// Records in the seal that all commits up to a group are synced. The old seal file is replaced
    /// only when the new one is complete.
    pub(crate) fn write(&self, group: u64) -> Result<()> {
        let new = self.path.with_extension("new");
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(content(group).as_bytes())?;
            file.sync_all()
        });
        let parent = self.path.parent().unwrap_or(Path::new("."));
        written
            .and_then(|()| fs::rename(&new, &self.path))
            .and_then(|()| File::open(parent)?.sync_all())
            .map_err(|error| self.failed("write", &error))
    }

    /// Refuses a store whose newest group of commits is older than the group in the seal.
    pub(crate) fn check(&self, newest: u64) -> Result<()> {
        let synced = self.read()?;
        if newest >= synced {
            return Ok(());
        }
        let text = format!(
            "the store has lost synced commits: {} says that group {synced} was synced, the newest one that can be read is \
             {newest}. Restore the directory from a copy",
            self.path.display()
        );
        Err(Error::new(Code::SystemError, text))
    }

    fn failed(&self, what: &str, error: &std::io::Error) -> Error {
        Error::new(Code::SystemError, format!("{what} {}: {error}", self.path.display()))
    }
}

fn content(group: u64) -> String {
    let lines = format!("{HEAD}\nsynced {group}\n");
    let sum = xxh3_64(lines.as_bytes());
    format!("{lines}checksum {sum:016x}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_says_what_was_written_and_no_changed_byte_passes() {
        let home = tempfile::tempdir().unwrap();
        let seal = Seal::at(home.path().join("seal"));
        assert_eq!(seal.read().unwrap(), 0);
        seal.write(7).unwrap();
        seal.write(4711).unwrap();
        assert_eq!(seal.read().unwrap(), 4711);
        assert!(seal.check(4711).is_ok() && seal.check(4710).is_err());
        let whole = fs::read(&seal.path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&seal.path, &bytes).unwrap();
            assert!(seal.read().is_err(), "byte {at}");
            fs::write(&seal.path, &whole[..at]).unwrap();
            assert!(seal.read().is_err(), "cut at {at}");
        }
    }
}
