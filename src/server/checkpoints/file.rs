//! Reads, checks and thins the checkpoint file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::State;
use vctx_base::signing::verified;
use vctx_core::ledger::key::PublicKey;
use vctx_core::ledger::note::{Checkpoint, SignedHead};
use vctx_core::ledger::rotation::KeyChange;

/// Maximum length of a line of the checkpoint file, in bytes.
const CHECKPOINT_LINE_BYTES_MAX: u64 = 16 << 20;

/// Length of the part of the file that is read line by line for one checkpoint, in bytes.
const SEARCHED_BYTES: u64 = 16 << 10;
/// Maximum number of checkpoints without a cosignature that a thinned file keeps for a witness.
const UNSEEN_LINES_MAX: usize = 100_000;

/// What to do with a checkpoint file that is not as the server wrote it.
pub(super) const MOVE_AWAY: &str = "move the file away, and find out who changed it; without it \
    the server begins a new file";

/// Returns whether a line is one of a checkpoint that changes the key.
fn changes_key(line: &str) -> bool {
    // The text of a note has a line end before this line, which JSON escapes.
    line.contains("\\nkey ") && rotation(line).is_some()
}

/// Returns the line of a cosignature, with its end.
pub(super) fn cosignature_line(number: u64, signature: &str) -> String {
    format!("{}\n", json!({"cosigned": number, "signature": signature}))
}

fn cosignature(line: &str) -> Option<(u64, String)> {
    if !line.starts_with("{\"cosigned\":") {
        return None;
    }
    let mut row: Value = serde_json::from_str(line).ok()?;
    let Value::String(signature) = row["signature"].take() else { return None };
    Some((row["cosigned"].as_u64()?, signature))
}

/// A checkpoint's line in the file.
pub(super) struct FoundLine {
    /// Number of the checkpoint.
    pub(super) number: u64,
    /// Position of the line, in bytes.
    pub(super) position: u64,
    /// The line.
    pub(super) row: Value,
}

/// Returns the first checkpoint after the one with the given number, between two positions of the
/// file in bytes. Reads the file without moving its position.
pub(super) fn found(
    file: &File,
    start: u64,
    end: u64,
    after: u64,
) -> io::Result<Option<FoundLine>> {
    let mut position = start;
    let mut lines = BufReader::new(Part { file, position, end });
    loop {
        let mut line = String::new();
        let bytes = lines.by_ref().take(CHECKPOINT_LINE_BYTES_MAX).read_line(&mut line)?;
        if bytes == 0 {
            return Ok(None);
        }
        let row: Value = serde_json::from_str(&line)?;
        let number = row["note"].as_str().and_then(|note| note.lines().nth(1)?.parse().ok());
        if let Some(number) = number.filter(|number| *number > after) {
            return Ok(Some(FoundLine { number, position, row }));
        }
        position += bytes as u64;
    }
}

/// Returns the position of a line that is before the checkpoint with the given number, in bytes,
/// and at most a few lines before it. `end` is the end of the last line.
pub(super) fn line_before(file: &File, end: u64, number: u64) -> io::Result<u64> {
    let (mut before, mut after) = (0, end);
    while after - before > SEARCHED_BYTES {
        let position = before + (after - before) / 2;
        let mut rest = BufReader::new(Part { file, position, end });
        let begun = position + rest.skip_until(b'\n')? as u64;
        match found(file, begun, end, 0)? {
            Some(found) if found.number < number && begun < after => before = begun,
            _ => after = position,
        }
    }
    Ok(before)
}

/// A part of a file.
struct Part<'a> {
    file: &'a File,
    position: u64,
    end: u64,
}

impl io::Read for Part<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_sub(self.position);
        let most = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut into[..most], self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

fn rotation(line: &str) -> Option<String> {
    let mut row: Value = serde_json::from_str(line).ok()?;
    let Value::String(note) = row["note"].take() else { return None };
    KeyChange::of_text(&note).map(|_| note)
}

/// Returns the notes that change the key, in order. Their signatures are not checked.
pub(super) fn rotations(file: &File, path: &Path) -> Result<Vec<String>, String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let mut reader = BufReader::new(file);
    let mut notes = Vec::new();
    reader.seek(SeekFrom::Start(0)).map_err(failed)?;
    loop {
        let mut line = String::new();
        let read = reader.by_ref().take(CHECKPOINT_LINE_BYTES_MAX).read_line(&mut line);
        if read.map_err(failed)? == 0 {
            return Ok(notes);
        }
        if changes_key(&line) {
            notes.extend(rotation(&line));
        }
    }
}

/// Reads all lines of a checkpoint file, and checks signatures and order. The first of the keys
/// signed the first lines, and each change of the key makes the next one sign. Cuts off a last line
/// without an end, which a crash left behind. Returns the lines by number.
pub(super) fn read(
    file: &mut File,
    path: &Path,
    keys: &[PublicKey],
    state: &mut State,
) -> Result<BTreeMap<u64, String>, String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let mut lines = BTreeMap::new();
    state.bytes = 0;
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut reader = BufReader::new(&*file);
    loop {
        let mut line = String::new();
        let read = reader.by_ref().take(CHECKPOINT_LINE_BYTES_MAX).read_line(&mut line);
        let bytes = read.map_err(failed)?;
        if bytes == 0 {
            return Ok(lines);
        }
        if !line.ends_with('\n') {
            file.set_len(state.bytes).map_err(failed)?;
            return Ok(lines);
        }
        if let Some((number, signature)) = cosignature(&line) {
            state.cosign(number, signature, bytes as u64);
            continue;
        }
        let at = lines.len() + 1;
        let wrong = |why| format!("line {at} of {} {why}: {MOVE_AWAY}", path.display());
        let key = keys.get(state.rotations.len()).or(keys.last());
        let Parsed { checkpoint, root, note } = key
            .ok_or_else(|| "has no key".to_owned())
            .and_then(|key| parsed(line.trim_end(), key))
            .and_then(|parsed| follows(parsed, state))
            .map_err(wrong)?;
        lines.insert(checkpoint.number, line);
        state.take(checkpoint, root, &note, bytes as u64);
    }
}

fn follows(parsed: Parsed, state: &State) -> Result<Parsed, String> {
    let checkpoint = &parsed.checkpoint;
    if checkpoint.number <= state.number {
        return Err("has a number that does not rise".into());
    }
    // In a thinned file, lines are missing.
    if checkpoint.number == state.number + 1 && checkpoint.before != state.root {
        return Err("does not follow from the line before it".into());
    }
    Ok(parsed)
}

/// A line of a checkpoint file.
struct Parsed {
    checkpoint: Checkpoint,
    root: String,
    note: String,
}

/// Reads a line of a checkpoint file, and checks its signature. An error says what is wrong.
fn parsed(line: &str, key: &PublicKey) -> Result<Parsed, String> {
    let row: Value = serde_json::from_str(line).map_err(|_| "is not JSON")?;
    let note = row["note"].as_str().unwrap_or_default();
    let text = verified(note, key)?;
    let heads = row["heads"].as_array().map(Vec::as_slice).unwrap_or_default();
    let heads: Option<Vec<SignedHead>> = heads.iter().map(SignedHead::of_list).collect();
    let mut words = text.lines();
    let (origin, number) = (words.next(), words.next().and_then(|word| word.parse().ok()));
    let checkpoint = Checkpoint {
        origin: origin.unwrap_or_default().to_owned(),
        number: number.ok_or("has no number")?,
        before: row["before"].as_str().unwrap_or_default().to_owned(),
        at: words.nth(1).unwrap_or_default().to_owned(),
        heads: heads.ok_or("has a head that cannot be read")?,
        change: KeyChange::of_text(&text),
    };
    let roots = [checkpoint.root(), checkpoint.first_root()];
    let root = roots.into_iter().find(|root| checkpoint.text(root) == text);
    let root = root.ok_or("has heads that its signature does not cover")?;
    Ok(Parsed { checkpoint, root, note: note.to_owned() })
}

/// Replaces the file by one that has only the lines with the newest head of an agent, the lines
/// that change the key, the lines that the witness has not seen, and the last line. Returns the new
/// file.
pub(super) fn thinned(
    path: &Path,
    lines: BTreeMap<u64, String>,
    state: &State,
) -> io::Result<File> {
    let mut kept: BTreeSet<u64> = state.signed.values().map(|signed| signed.number).collect();
    // The last entries of agents that are gone.
    let former = state.signed.values().filter_map(|signed| signed.former.as_ref());
    kept.extend(former.map(|(_, number)| *number));
    kept.extend(lines.last_key_value().map(|(number, _)| *number));
    kept.extend(lines.iter().filter(|(_, line)| changes_key(line)).map(|(number, _)| *number));
    // A witness needs each checkpoint after the newest one that it has cosigned.
    let unseen = lines.range(state.cosigned..).map(|(number, _)| *number);
    if state.cosigned > 0 && unseen.clone().count() <= UNSEEN_LINES_MAX {
        kept.extend(unseen);
    }
    let mut temporary = PathBuf::from(path);
    temporary.set_extension("new");
    let mut options = OpenOptions::new();
    let options = options.read(true).append(true).create(true).mode(0o600);
    let _ = fs::remove_file(&temporary);
    let mut file = options.open(&temporary)?;
    for (number, line) in lines.iter().filter(|(number, _)| kept.contains(number)) {
        file.write_all(line.as_bytes())?;
        if let Some(signature) = state.cosignatures.get(number) {
            file.write_all(cosignature_line(*number, signature).as_bytes())?;
        }
    }
    file.sync_all()?;
    file.try_lock().map_err(|_| io::Error::other("the new file is in use"))?;
    fs::rename(&temporary, path)?;
    Ok(file)
}
