//! Checks the store's journals before the store opens them: truncates a torn tail (batches at the
//! end that a power loss left incomplete), and returns an error for damaged data.
//!
//! If a torn batch can still be parsed, fjall refuses to open the store. After a damaged batch,
//! fjall silently drops all later batches. A mark in each batch therefore distinguishes a torn tail
//! from damage. The mark contains the number of the newest group that was synced when the batch was
//! written. If the mark of a later batch says that an unreadable batch was synced, the unreadable
//! batch is damaged. Otherwise, the unreadable batch was never reported as durable, and is part of
//! a torn tail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rustix::fs::seek;
use rustix::io::Errno;
use xxhash_rust::xxh3::Xxh3;

use crate::encode::{Key, Mark};
use crate::error::{Code, Error, Result};

/// The magic number at the end of each batch, which contains the name and version of the journal
/// format.
const MAGIC: [u8; 4] = *b"FJL\x03";
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
/// Number of bytes that are read from a journal at a time.
const CHUNK: usize = 64 << 10;

/// The result of reading a journal from its beginning.
#[derive(Debug, Default)]
struct Scan {
    /// Number of complete batches from the beginning of the journal.
    batches: u64,
    /// Position after the last complete batch.
    end: u64,
    /// Number of the commit group of the last complete batch, as stored in the batch's mark.
    /// Batches without a mark are ignored.
    last: u64,
}

/// Checks the journals of a store. Truncates a torn tail of the newest journal, but returns an
/// error if the group with the number `synced` or an earlier one is missing. Older journals must be
/// completely readable, because each was synced before the next journal began.
pub(crate) fn repair(store: &Path, synced: u64) -> Result<()> {
    let failed = |path: &Path, error: io::Error| {
        Error::new(Code::SystemError, format!("check the journal {}: {error}", path.display()))
    };
    let mut journals = journals(store).map_err(|error| failed(store, error))?;
    let damaged = |path: &Path, at: u64| {
        let path = path.display();
        let text = format!(
            "{path} is damaged at byte {at}: synced commits after this position cannot be read. Restore the directory from a copy"
        );
        Err(Error::new(Code::SystemError, text))
    };
    let Some(path) = journals.pop() else { return Ok(()) };
    for older in &journals {
        if let Some(at) = unreadable(older).map_err(|error| failed(older, error))? {
            return damaged(older, at);
        }
    }
    match repair_file(&path, journals.last().map(PathBuf::as_path), synced)
        .map_err(|error| failed(&path, error))?
    {
        Tail::Clean => Ok(()),
        Tail::Torn(bytes) => {
            tracing::warn!(bytes, "an unfinished write at the end of the journal was cut off");
            Ok(())
        }
        Tail::Damaged(at) => damaged(&path, at),
    }
}

/// Returns the position of the first data that is not a batch in an older journal, if there is any.
fn unreadable(path: &Path) -> io::Result<Option<u64>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let scan = scan(&file, length)?;
    file.seek(SeekFrom::Start(scan.end))?;
    Ok(if is_empty(&mut file)? { None } else { Some(scan.end) })
}

/// What a journal file contains after its last complete batch.
#[derive(Debug, PartialEq, Eq)]
enum Tail {
    /// No data after the last batch, or allocated space that was never written.
    Clean,
    /// Bytes that were never synced. The start truncated these bytes; the value is the number of
    /// truncated bytes.
    Torn(u64),
    /// Synced data that cannot be read; the value is the position at which it begins.
    Damaged(u64),
}

/// Returns the paths of the store's journals, oldest first.
fn journals(store: &Path) -> io::Result<Vec<PathBuf>> {
    let mut journals = Vec::new();
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let Some(number) =
            number.filter(|_| path.extension().is_some_and(|extension| extension == "jnl"))
        {
            journals.push((number, path));
        }
    }
    journals.sort();
    Ok(journals.into_iter().map(|(_, path)| path).collect())
}

/// Repairs the newest journal; `before` is the path of the previous journal, if it still exists.
fn repair_file(path: &Path, before: Option<&Path>, synced: u64) -> io::Result<Tail> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let scan = scan(&file, length)?;
    file.seek(SeekFrom::Start(scan.end))?;
    if is_empty(&mut file)? {
        return Ok(Tail::Clean);
    }
    let mut known = if scan.batches > 0 { Some(scan.last) } else { last_of(before)? };
    if known.is_some_and(|last| last < synced) {
        return Ok(Tail::Damaged(scan.end));
    }
    let mut from = scan.end;
    while let Some(after) = find_magic(&mut file, from)? {
        if let Some((_, Some(mark))) = batch(&file, after, length)? {
            // If no earlier mark is known, the check assumes that exactly one unreadable batch
            // precedes this readable batch.
            let last = *known.get_or_insert(mark.number.saturating_sub(2));
            if mark.synced > last {
                return Ok(Tail::Damaged(scan.end));
            }
        }
        from = after;
    }
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(scan.end)?;
    file.sync_all()?;
    Ok(Tail::Torn(length - scan.end))
}

/// Returns the group number in the last mark of an older journal. The group numbers of the next
/// journal continue from this number.
fn last_of(journal: Option<&Path>) -> io::Result<Option<u64>> {
    let Some(path) = journal else { return Ok(None) };
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let scan = scan(&file, length)?;
    Ok((scan.batches > 0).then_some(scan.last))
}

fn scan(file: &File, length: u64) -> io::Result<Scan> {
    let mut scan = Scan::default();
    while let Some((end, mark)) = batch(file, scan.end, length)? {
        scan.batches += 1;
        scan.end = end;
        scan.last = mark.map_or(scan.last, |mark| mark.number);
    }
    Ok(scan)
}

/// Whether the rest of a journal file contains only zeros. Space that was never written is not
/// read: a new journal consists of 64 MiB of it.
fn is_empty(file: &mut File) -> io::Result<bool> {
    let (mut chunk, zeros) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let at = file.stream_position()?;
        match seek(&*file, rustix::fs::SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return Ok(true),
            // The file system does not know which space was never written.
            Ok(_) | Err(Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok(true);
        }
        // A comparison of slices is fast even in a build without optimisation, unlike a loop over
        // the bytes.
        if chunk[..read] != zeros[..read] {
            return Ok(false);
        }
    }
}

/// Returns the end position of the first magic number that begins at or after `from`.
fn find_magic(file: &mut File, from: u64) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(from))?;
    let (mut held, mut base) = (Vec::new(), from);
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok(None);
        }
        held.extend_from_slice(&chunk[..read]);
        if let Some(at) = held.windows(MAGIC.len()).position(|window| window == MAGIC) {
            return Ok(Some(base + (at + MAGIC.len()) as u64));
        }
        // The last bytes of the chunk are kept, because a magic number may span two chunks.
        let done = held.len().saturating_sub(MAGIC.len() - 1);
        held.drain(..done);
        base += done as u64;
    }
}

/// Returns the end and the mark (group numbers) of the batch at a position, or `None` if there is
/// no complete batch.
fn batch(file: &File, at: u64, length: u64) -> io::Result<Option<(u64, Option<Mark>)>> {
    let mut file = file;
    file.seek(SeekFrom::Start(at))?;
    let reader = BufReader::with_capacity(CHUNK, file);
    let mut reader =
        Entries { reader, left: length.saturating_sub(at), hash: Xxh3::new(), hashing: false };
    match reader.batch() {
        Ok(mark) => Ok(mark.map(|mark| (length - reader.left, mark))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

struct Entries<'a> {
    reader: BufReader<&'a File>,
    left: u64,
    hash: Xxh3,
    hashing: bool,
}

impl Entries<'_> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.left =
            self.left.checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.reader.read_exact(bytes)?;
        if self.hashing {
            self.hash.update(bytes);
        }
        Ok(())
    }

    /// Reads a batch and returns its mark (group numbers), if it has one. Returns `None` if the
    /// batch is incomplete or its checksum is wrong.
    fn batch(&mut self) -> io::Result<Option<Option<Mark>>> {
        if self.take::<1>()? != [START] {
            return Ok(None);
        }
        let items = u32::from_le_bytes(self.take()?);
        self.take::<8>()?;
        let mut mark = None;
        self.hashing = true;
        for _ in 0..items {
            match self.take::<1>()? {
                [ITEM] => mark = self.item()?.or(mark),
                [CLEAR] => drop(self.take::<8>()?),
                _ => return Ok(None),
            }
        }
        self.hashing = false;
        if self.take::<1>()? != [END] {
            return Ok(None);
        }
        let whole =
            u64::from_le_bytes(self.take()?) == self.hash.digest() && self.take::<4>()? == MAGIC;
        Ok(whole.then_some(mark))
    }

    fn item(&mut self) -> io::Result<Option<Mark>> {
        let _kind_compression_and_space = self.take::<10>()?;
        let key_length = u16::from_le_bytes(self.take()?);
        let _length = self.take::<4>()?;
        let value_length = u32::from_le_bytes(self.take()?);
        let mut key = vec![0; usize::from(key_length)];
        self.fill(&mut key)?;
        let mut rest = value_length as usize;
        let is_mark = key == Key::Mark.bytes();
        let mut chunk = [0; 4096];
        let mut first = None;
        while rest > 0 {
            let part = rest.min(chunk.len());
            self.fill(&mut chunk[..part])?;
            first = first.or_else(|| Mark::read(&chunk[..part]));
            rest -= part;
        }
        Ok(first.filter(|_| is_mark))
    }
}

#[cfg(test)]
mod bent;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::encode::Space;
    use crate::limits::MEMTABLE_BYTES;
    use crate::storage::{Batch, FjallStore, Store};

    /// Creates a store with synced and unsynced commits and closes it. Returns the store's
    /// directory, its journal and the position at which each commit's batch starts.
    fn journal(syncs: &[bool]) -> (tempfile::TempDir, PathBuf, Vec<u64>) {
        let home = tempfile::tempdir().unwrap();
        let store = FjallStore::open(home.path(), MEMTABLE_BYTES, true, None).unwrap();
        let mut starts = Vec::new();
        let path = journals(home.path()).unwrap().pop().unwrap();
        for (number, sync) in syncs.iter().enumerate() {
            let file = File::open(&path).unwrap();
            starts.push(scan(&file, file.metadata().unwrap().len()).unwrap().end);
            let mut batch = Batch::default();
            batch.put(Space::Documents, vec![number as u8; 16], vec![7u8; 10_000]);
            store.commit(batch, *sync).unwrap();
        }
        drop(store);
        (home, path, starts)
    }

    fn overwrite(path: &Path, at: u64, byte: u8) {
        OpenOptions::new().write(true).open(path).unwrap().write_all_at(&[byte; 512], at).unwrap();
    }

    #[test]
    fn every_batch_of_the_store_is_read() {
        let (_home, path, starts) = journal(&[true; 5]);
        let file = File::open(&path).unwrap();
        let found = scan(&file, file.metadata().unwrap().len()).unwrap();
        assert!(found.batches >= 5 && found.last == 5, "{found:?}");
        assert!(starts.windows(2).all(|pair| pair[1] > pair[0] + 10_000));
        assert_eq!(repair_file(&path, None, 0).unwrap(), Tail::Clean);
    }

    #[test]
    fn a_file_with_space_that_was_never_written_is_empty_if_no_other_byte_follows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.jnl");
        let file = File::create_new(&path).unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(&[0; CHUNK], 1 << 20).unwrap();
        assert!(is_empty(&mut File::open(&path).unwrap()).unwrap());
        file.write_all_at(&[1], (5 << 20) + 7).unwrap();
        let mut opened = File::open(&path).unwrap();
        assert!(!is_empty(&mut opened).unwrap());
        opened.seek(SeekFrom::Start(6 << 20)).unwrap();
        assert!(is_empty(&mut opened).unwrap());
    }

    #[test]
    fn a_torn_last_batch_is_cut_off_and_the_rest_stays() {
        for at in [0, 5, 100, 5000, 10_030] {
            let (home, path, starts) = journal(&[true, true, true]);
            overwrite(&path, starts[2] + at, 0);
            assert!(matches!(repair_file(&path, None, 0).unwrap(), Tail::Torn(_)), "torn at {at}");
            assert_eq!(fs::metadata(&path).unwrap().len(), starts[2]);
            let store = FjallStore::open(home.path(), MEMTABLE_BYTES, true, None).unwrap();
            let snapshot = store.snapshot();
            assert!(snapshot.get(Space::Documents, &[1; 16]).unwrap().is_some());
            assert!(snapshot.get(Space::Documents, &[2; 16]).unwrap().is_none());
        }
    }

    #[test]
    fn unsynced_batches_after_a_torn_one_are_cut_off_with_it() {
        let (_home, path, starts) = journal(&[true, false, false]);
        overwrite(&path, starts[1] + 5000, 0);
        assert!(matches!(repair_file(&path, None, 0).unwrap(), Tail::Torn(_)));
        assert_eq!(fs::metadata(&path).unwrap().len(), starts[1]);
    }

    #[test]
    fn damage_to_a_synced_batch_is_refused() {
        for at in [0, 5, 5000, 9_000] {
            let (home, path, starts) = journal(&[true, true, true]);
            overwrite(&path, starts[1] + at, 0xAA);
            assert_eq!(repair_file(&path, None, 0).unwrap(), Tail::Damaged(starts[1]));
            let error = repair(home.path(), 0).unwrap_err();
            assert!(error.message.contains("damaged"), "{error}");
        }
    }
}
