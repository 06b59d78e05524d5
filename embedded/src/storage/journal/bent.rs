//! Tests that a repaired journal is a prefix of the written journal, and that synced data is never
//! lost silently.

use std::fs::{self, File};
use std::path::Path;

use super::{Tail, journals, repair_file, scan};
use crate::encode::Space;
use crate::limits::MEMTABLE_BYTES;
use crate::mutator::bend;
use crate::storage::{Batch, FjallStore, Store};

/// Returns the bytes of a journal with small commits, and the position at which each batch ends.
fn journal(syncs: &[bool]) -> (Vec<u8>, Vec<u64>) {
    let home = tempfile::tempdir().expect("a directory");
    let store = FjallStore::open(home.path(), MEMTABLE_BYTES, true, None).expect("a store");
    let path = journals(home.path()).expect("journals").pop().expect("one");
    let end = |path: &Path| {
        let file = File::open(path).expect("the journal");
        let length = file.metadata().expect("its length").len();
        scan(&file, length).expect("it is read").end
    };
    let mut ends = vec![0, end(&path)];
    for (number, sync) in syncs.iter().enumerate() {
        let mut batch = Batch::default();
        batch.put(Space::Documents, vec![number as u8; 8], vec![7; 20 * (number + 1)]);
        store.commit(batch, *sync).expect("a commit");
        ends.push(end(&path));
    }
    drop(store);
    ends.push(end(&path));
    ends.dedup();
    let mut bytes = fs::read(&path).expect("the journal");
    bytes.truncate(usize::try_from(end(&path)).expect("a short file"));
    (bytes, ends)
}

#[test]
fn a_bent_journal_is_cut_to_a_beginning_of_whole_batches_or_refused() {
    let (whole, ends) = journal(&[true, false, true, true, false, false]);
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("0.jnl");
    let (mut clean, mut torn, mut damaged) = (0, 0, 0);
    bend(std::slice::from_ref(&whole), |bytes| {
        fs::write(&path, bytes).expect("the file is written");
        let tail = repair_file(&path, None, 0).expect("the file can be read");
        let left = fs::read(&path).expect("the file is there");
        match tail {
            Tail::Damaged(_) => {
                damaged += 1;
                assert_eq!(left, bytes, "a refused journal stays unchanged");
                return;
            }
            Tail::Torn(cut) => {
                torn += 1;
                assert_eq!(left.len() as u64 + cut, bytes.len() as u64);
            }
            Tail::Clean => clean += 1,
        }
        assert!(bytes.starts_with(&left));
        let file = File::open(&path).expect("the file is there");
        let found = scan(&file, left.len() as u64).expect("it is read");
        // Every batch of a repaired journal must equal a batch that was written; a batch may occur
        // again at a later position. Bytes 5 to 12 of a batch, its sequence number, are not
        // compared, because no checksum covers them.
        let bare = |batch: &[u8]| [&batch[..5], &batch[13..]].concat();
        let written = |batch: &[u8]| {
            let range = |ends: &[u64]| ends[0] as usize..ends[1] as usize;
            ends.windows(2).any(|ends| bare(&whole[range(ends)]) == bare(batch))
        };
        let mut from = 0;
        while from < found.end {
            let (end, _) = super::batch(&file, from, left.len() as u64)
                .expect("it is read")
                .expect("it is whole");
            let same = written(&left[from as usize..end as usize]);
            assert!(same, "a batch at {from} that was never written");
            from = end;
        }
        assert_eq!(repair_file(&path, None, 0).expect("the file can be read"), Tail::Clean);
    });
    assert!(clean > 0 && torn > 0 && damaged > 0, "{clean} clean, {torn} torn, {damaged} damaged");
}

#[test]
fn a_torn_tail_that_was_synced_is_refused() {
    let (whole, ends) = journal(&[true; 4]);
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("0.jnl");
    bend(std::slice::from_ref(&whole), |bytes| {
        fs::write(&path, bytes).expect("the file is written");
        // Four groups were synced, so a journal with fewer groups must not be repaired.
        if let Tail::Torn(_) = repair_file(&path, None, 4).expect("the file can be read") {
            let file = File::open(&path).expect("the file is there");
            let length = file.metadata().expect("its length").len();
            let found = scan(&file, length).expect("it is read");
            assert!(found.batches == 0 || found.last >= 4, "{found:?} of {ends:?}");
        }
    });
}
