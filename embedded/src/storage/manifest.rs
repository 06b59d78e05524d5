//! Checks each key space's list of sorted tables against the digest of the list, so that a changed
//! byte of the list cannot silently hide a table. lsm-tree 3.1 writes the digest but does not
//! verify it (`version/recovery.rs`).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Code, Error, Result};

/// Name of a key space's digest file. It contains the number of the current list of tables (8
/// bytes, little-endian), the XXH3 digest of this list (16 bytes, little-endian) and the kind of
/// digest (1 byte, always 0).
const CURRENT: &str = "current";
const CURRENT_BYTES: usize = 25;
/// Name of a key space's directory of sorted tables.
const TABLES: &str = "tables";

/// Returns an error if a key space's list of tables or its digest file is damaged.
pub(super) fn check(store: &Path) -> Result<()> {
    let damaged = |path: &Path, why: &str| {
        let path = path.display();
        let text = format!(
            "{path} is damaged ({why}): it lists the sorted tables of the store. Restore the directory from a copy"
        );
        Error::new(Code::SystemError, text)
    };
    for space in spaces(&store.join("keyspaces")).map_err(|e| damaged(store, &e.to_string()))? {
        let path = space.join(CURRENT);
        let current = match fs::read(&path) {
            Ok(current) => current,
            // A key space whose creation was interrupted has no tables; fjall creates it again.
            Err(error) if error.kind() == ErrorKind::NotFound && !has_tables(&space) => continue,
            Err(error) => return Err(damaged(&path, &error.to_string())),
        };
        let Some((number, digest)) = parts(&current) else {
            return Err(damaged(&path, "it is not a number with a digest"));
        };
        let path = space.join(format!("v{number}"));
        let list = fs::read(&path).map_err(|error| damaged(&path, &error.to_string()))?;
        if xxh3_128(&list) != digest {
            return Err(damaged(&path, "its digest does not match its content"));
        }
    }
    Ok(())
}

fn has_tables(space: &Path) -> bool {
    fs::read_dir(space.join(TABLES)).is_ok_and(|mut tables| tables.next().is_some())
}

/// Returns the number and digest of the current list of sorted tables.
fn parts(current: &[u8]) -> Option<(u64, u128)> {
    let (number, rest) = current.split_first_chunk()?;
    let (digest, kind) = rest.split_first_chunk()?;
    let holds = current.len() == CURRENT_BYTES && kind == [0];
    holds.then(|| (u64::from_le_bytes(*number), u128::from_le_bytes(*digest)))
}

/// Returns the directories of the store's key spaces, or none for a new store.
fn spaces(all: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(all) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    Ok(paths.collect::<io::Result<Vec<_>>>()?.into_iter().filter(|path| path.is_dir()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Space;
    use crate::storage::{Batch, FjallStore, Store};

    /// Writes enough data that the store writes sorted tables.
    fn written(store: &Path) {
        let open = FjallStore::open(store, 64 << 10, true, None).unwrap();
        for number in 0..400_u32 {
            let mut batch = Batch::default();
            batch.put(Space::Documents, number.to_be_bytes(), [7; 1000]);
            open.commit(batch, false).unwrap();
        }
    }

    #[test]
    fn every_byte_of_a_list_and_of_what_names_it_counts() {
        let home = tempfile::tempdir().unwrap();
        let store = home.path().join("store");
        check(&store).unwrap();
        written(&store);
        check(&store).unwrap();
        let mut looked = 0;
        for space in spaces(&store.join("keyspaces")).unwrap() {
            let current = space.join(CURRENT);
            let (number, _) = parts(&fs::read(&current).unwrap()).unwrap();
            for path in [current, space.join(format!("v{number}"))] {
                let whole = fs::read(&path).unwrap();
                for at in 0..whole.len() {
                    let mut bent = whole.clone();
                    bent[at] ^= 0x55;
                    for bytes in [&bent[..], &whole[..at]] {
                        fs::write(&path, bytes).unwrap();
                        let error = check(&store).unwrap_err();
                        assert!(error.message.contains(space.to_str().unwrap()), "{error}");
                        looked += 1;
                    }
                }
                fs::remove_file(&path).unwrap();
                let may_be_missing = path.ends_with(CURRENT) && !has_tables(&space);
                assert_eq!(check(&store).is_ok(), may_be_missing, "{}", path.display());
                fs::write(&path, whole).unwrap();
                check(&store).unwrap();
            }
        }
        assert!(looked > 1_000, "{looked}");
        assert!(spaces(&store.join("keyspaces")).unwrap().iter().any(|space| has_tables(space)));
        let open = FjallStore::open(&store, 64 << 10, true, None).unwrap();
        let snapshot = open.snapshot();
        assert!(snapshot.get(Space::Documents, &7_u32.to_be_bytes()).unwrap().is_some());
    }
}
