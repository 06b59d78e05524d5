//! The list of sorted tables of each key space, held against its digest before fjall reads it: lsm-tree 3.1 writes that digest beside
//! the list and does not look at it (`version/recovery.rs`), and a changed byte of the list can hide a table's rows without a word.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Code, Error, Result};

/// The file that names the list that counts: its number (8 bytes, little-endian), the digest of its bytes (XXH3, 16 bytes,
/// little-endian) and the kind of digest (1 byte, 0).
const CURRENT: &str = "current";
const CURRENT_BYTES: usize = 25;
/// The directory of the tables.
const TABLES: &str = "tables";

/// Refuses a store in which a list of tables, or the file that names it, is not as it was written.
pub(super) fn check(store: &Path) -> Result<()> {
    let damaged = |path: &Path, why: &str| {
        let path = path.display();
        let text = format!(
            "{path} is damaged ({why}): it tells which sorted tables the store has. Restore the directory from a copy"
        );
        Error::new(Code::SystemError, text)
    };
    for space in spaces(&store.join("keyspaces")).map_err(|e| damaged(store, &e.to_string()))? {
        let path = space.join(CURRENT);
        let current = match fs::read(&path) {
            Ok(current) => current,
            // A key space that was being made has no tables yet, and fjall makes it anew.
            Err(error) if error.kind() == ErrorKind::NotFound && !has_tables(&space) => continue,
            Err(error) => return Err(damaged(&path, &error.to_string())),
        };
        let Some((number, digest)) = parts(&current) else {
            return Err(damaged(&path, "it is no number with a digest"));
        };
        let path = space.join(format!("v{number}"));
        let list = fs::read(&path).map_err(|error| damaged(&path, &error.to_string()))?;
        if xxh3_128(&list) != digest {
            return Err(damaged(&path, "another digest than it was written with"));
        }
    }
    Ok(())
}

fn has_tables(space: &Path) -> bool {
    fs::read_dir(space.join(TABLES)).is_ok_and(|mut tables| tables.next().is_some())
}

/// Number and digest of the list that counts.
fn parts(current: &[u8]) -> Option<(u64, u128)> {
    let (number, rest) = current.split_first_chunk()?;
    let (digest, kind) = rest.split_first_chunk()?;
    let holds = current.len() == CURRENT_BYTES && kind == [0];
    holds.then(|| (u64::from_le_bytes(*number), u128::from_le_bytes(*digest)))
}

/// The directories of the key spaces; none in a store that has none yet.
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

    /// So many writes that trees have tables.
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
