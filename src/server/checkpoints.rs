//! Signs the heads of ledgers, and keeps the signed checkpoints in a file outside the database.
//!
//! Each line of the file is a JSON object: the heads of all agents that were written since the line
//! before, and a note with the signature (`vctx_core::ledger::note`). A writer to the database
//! cannot change this file, so a ledger that was cut, rewritten or put back to an earlier state
//! contradicts it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};

use vctx_base::signing::{SigningKey, verified};
use vctx_core::ledger::note::{Checkpoint, Head, HeadProof, SignedHead};

/// Size of the checkpoint file, in bytes, above which the server thins it when it starts: it keeps
/// only the lines with the newest head of an agent.
const CHECKPOINT_BYTES_MAX: u64 = 64 << 20;
/// Maximum length of a line of the checkpoint file, in bytes.
const CHECKPOINT_LINE_BYTES_MAX: u64 = 16 << 20;

/// The newest signed statement about an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The newest entry; `None` if the agent was forgotten or moved away.
    pub head: Option<Head>,
    /// Time of the checkpoint, ISO 8601.
    pub at: String,
    /// Number of the checkpoint.
    pub number: u64,
    /// Position of the checkpoint's line in the file, in bytes.
    position: u64,
    /// Length of this line in bytes, with its end.
    bytes: u64,
}

/// The checkpoints of one server.
pub struct Checkpoints {
    key: SigningKey,
    state: Mutex<State>,
}

struct State {
    file: File,
    /// Length of the file in bytes.
    bytes: u64,
    number: u64,
    root: String,
    signed: BTreeMap<String, Signed>,
    /// Agents whose ledger contradicted the last signed head. Nothing more is signed for them.
    broken: BTreeSet<String>,
}

impl Checkpoints {
    /// Opens the key and the checkpoint file in a directory, and makes what is missing. An error
    /// says what is wrong and what to do.
    pub fn open(directory: &Path) -> Result<Self, String> {
        let failed = |error: &io::Error| format!("{}: {error}", directory.display());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|error| format!("{}; choose a directory with --data-dir", failed(&error)))?;
        let key = SigningKey::load_or_make(&directory.join("key"))?;
        let path = directory.join("checkpoints");
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).mode(0o600).open(&path);
        let mut file = file.map_err(|error| failed(&error))?;
        file.try_lock().map_err(|_| {
            format!("{} is in use: another server signs with this key", path.display())
        })?;
        let mut state = State {
            file: file.try_clone().map_err(|error| failed(&error))?,
            bytes: 0,
            number: 0,
            root: String::new(),
            signed: BTreeMap::new(),
            broken: BTreeSet::new(),
        };
        let lines = read(&mut file, &path, &key, &mut state)?;
        if file.metadata().map_err(|error| failed(&error))?.len() > CHECKPOINT_BYTES_MAX {
            let before = std::mem::take(&mut state.signed);
            (state.number, state.root) = (0, String::new());
            file = thinned(&path, lines, &before).map_err(|error| failed(&error))?;
            state.file = file.try_clone().map_err(|error| failed(&error))?;
            read(&mut file, &path, &key, &mut state)?;
        }
        Ok(Self { key, state: Mutex::new(state) })
    }

    /// Returns the text of the public key, with which others verify the checkpoints.
    pub fn public_key(&self) -> String {
        self.key.public().text()
    }

    /// Returns the newest signed statement about an agent.
    pub fn signed(&self, agent: &str) -> Option<Signed> {
        self.state.lock().expect("no holder panics").signed.get(agent).cloned()
    }

    /// Returns the keys of all agents whose newest statement is a head, in order.
    pub fn agents(&self) -> Vec<String> {
        let state = self.state.lock().expect("no holder panics");
        let there = state.signed.iter().filter(|(_, signed)| signed.head.is_some());
        there.map(|(agent, _)| agent.clone()).collect()
    }

    /// Whether the agent's ledger contradicted the last signed head.
    pub fn is_broken(&self, agent: &str) -> bool {
        self.state.lock().expect("no holder panics").broken.contains(agent)
    }

    /// Notes that the agent's ledger contradicts the last signed head. Returns whether this is new.
    pub fn note_broken(&self, agent: &str) -> bool {
        self.state.lock().expect("no holder panics").broken.insert(agent.to_owned())
    }

    /// Signs heads at the given time, and appends the checkpoint to the file. Returns when it is on
    /// disk.
    pub fn sign(&self, heads: Vec<SignedHead>, at: &str) -> io::Result<()> {
        let mut state = self.state.lock().expect("no holder panics");
        let checkpoint = Checkpoint {
            origin: self.key.public().name.clone(),
            number: state.number + 1,
            before: state.root.clone(),
            at: at.to_owned(),
            heads,
        };
        let listed: Vec<Value> = checkpoint.heads.iter().map(SignedHead::listed).collect();
        let root = checkpoint.root();
        let note = self.key.note(&checkpoint.text(&root));
        let line = json!({"before": checkpoint.before, "heads": listed, "note": note});
        let line = format!("{line}\n");
        state.file.write_all(line.as_bytes())?;
        state.file.sync_data()?;
        state.take(checkpoint, root, line.len() as u64);
        Ok(())
    }

    /// Returns the proof of the newest head that was signed for an agent; `None` if there is none.
    pub fn proof(&self, agent: &str) -> io::Result<Option<HeadProof>> {
        let state = self.state.lock().expect("no holder panics");
        let Some(Signed { head: Some(head), position, bytes, .. }) = state.signed.get(agent) else {
            return Ok(None);
        };
        // The file is open for appending, so a read at a position moves nothing.
        let mut line = vec![0; *bytes as usize];
        state.file.read_exact_at(&mut line, *position)?;
        let row: Value = serde_json::from_slice(&line)?;
        let heads = row["heads"].as_array().map(Vec::as_slice).unwrap_or_default();
        let heads = heads.iter().filter_map(SignedHead::of_list);
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let proof = HeadProof {
            note: text("note"),
            before: text("before"),
            leaves: heads.map(|head| head.leaf()).collect(),
            agent: agent.to_owned(),
            head: head.clone(),
        };
        // A checkpoint of an earlier program version has another root.
        Ok(proof.check(&proof.note).is_ok().then_some(proof))
    }
}

impl State {
    /// Takes a checkpoint over whose line has the given length.
    fn take(&mut self, checkpoint: Checkpoint, root: String, bytes: u64) {
        let (number, position) = (checkpoint.number, self.bytes);
        self.number = number;
        self.root = root;
        self.bytes += bytes;
        for one in checkpoint.heads {
            let at = checkpoint.at.clone();
            self.signed.insert(one.agent, Signed { head: one.head, at, number, position, bytes });
        }
    }
}

/// Reads all lines of a checkpoint file, and checks signatures and order. Cuts off a last line
/// without an end, which a crash left behind. Returns the lines by number.
fn read(
    file: &mut File,
    path: &Path,
    key: &SigningKey,
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
        let (checkpoint, root) = parsed(line.trim_end(), key)
            .and_then(|(checkpoint, root)| Ok((follows(checkpoint, state)?, root)))
            .map_err(|why| {
                let at = lines.len() + 1;
                format!(
                    "line {at} of {} {why}: move the file away, and find out who changed it; \
                     without it the server begins a new file",
                    path.display()
                )
            })?;
        lines.insert(checkpoint.number, line);
        state.take(checkpoint, root, bytes as u64);
    }
}

fn follows(checkpoint: Checkpoint, state: &State) -> Result<Checkpoint, String> {
    if checkpoint.number <= state.number {
        return Err("has a number that does not rise".into());
    }
    // In a thinned file, lines are missing.
    if checkpoint.number == state.number + 1 && checkpoint.before != state.root {
        return Err("does not follow from the line before it".into());
    }
    Ok(checkpoint)
}

/// Reads a line of a checkpoint file, and checks its signature. Returns the checkpoint and its
/// root. An error says what is wrong.
fn parsed(line: &str, key: &SigningKey) -> Result<(Checkpoint, String), String> {
    let row: Value = serde_json::from_str(line).map_err(|_| "is not JSON")?;
    let text = verified(row["note"].as_str().unwrap_or_default(), key.public())?;
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
    };
    let roots = [checkpoint.root(), checkpoint.first_root()];
    let root = roots.into_iter().find(|root| checkpoint.text(root) == text);
    let root = root.ok_or("has heads that its signature does not cover")?;
    Ok((checkpoint, root))
}

/// Replaces the file by one that has only the lines with the newest head of an agent, and the last
/// line. Returns the new file.
fn thinned(
    path: &Path,
    lines: BTreeMap<u64, String>,
    signed: &BTreeMap<String, Signed>,
) -> io::Result<File> {
    let mut kept: BTreeSet<u64> = signed.values().map(|signed| signed.number).collect();
    kept.extend(lines.last_key_value().map(|(number, _)| *number));
    let mut temporary = PathBuf::from(path);
    temporary.set_extension("new");
    let mut options = OpenOptions::new();
    let options = options.read(true).append(true).create(true).mode(0o600);
    let _ = fs::remove_file(&temporary);
    let mut file = options.open(&temporary)?;
    for (_, line) in lines.iter().filter(|(number, _)| kept.contains(number)) {
        file.write_all(line.as_bytes())?;
    }
    file.sync_all()?;
    file.try_lock().map_err(|_| io::Error::other("the new file is in use"))?;
    fs::rename(&temporary, path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(agent: &str, n: u64) -> SignedHead {
        let head = (n > 0).then(|| Head { n, hash: format!("{n:064x}") });
        SignedHead { agent: agent.into(), head }
    }

    fn text(dir: &Path) -> String {
        fs::read_to_string(dir.join("checkpoints")).unwrap()
    }

    #[test]
    fn checkpoints_are_kept_over_a_restart_and_a_torn_line_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let one = Checkpoints::open(dir.path()).unwrap();
        assert!(Checkpoints::open(dir.path()).err().unwrap().contains("in use"));
        one.sign(vec![head("ada", 1), head("bob", 4)], "2026-01-01T00:00:00.000Z").unwrap();
        one.sign(vec![head("ada", 2)], "2026-01-01T00:00:01.000Z").unwrap();
        one.sign(vec![head("bob", 0)], "2026-01-01T00:00:02.000Z").unwrap();
        let key = one.public_key();
        drop(one);
        let whole = text(dir.path());
        fs::write(dir.path().join("checkpoints"), format!("{whole}{{\"half")).unwrap();
        let again = Checkpoints::open(dir.path()).unwrap();
        assert_eq!((again.public_key(), text(dir.path())), (key, whole));
        assert_eq!(again.signed("ada").unwrap().head, head("ada", 2).head);
        assert_eq!(again.signed("bob").unwrap().head, None);
        assert_eq!(again.agents(), ["ada"]);
        again.sign(vec![head("ada", 3)], "2026-01-01T00:00:03.000Z").unwrap();
        drop(again);
        assert_eq!(Checkpoints::open(dir.path()).unwrap().signed("ada").unwrap().number, 4);
    }

    #[test]
    fn a_changed_or_missing_line_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let one = Checkpoints::open(dir.path()).unwrap();
        for n in 1..=3 {
            one.sign(vec![head("ada", n)], "2026-01-01T00:00:00.000Z").unwrap();
        }
        drop(one);
        let whole = text(dir.path());
        let told = |text: &str| {
            fs::write(dir.path().join("checkpoints"), text).unwrap();
            Checkpoints::open(dir.path()).err().unwrap()
        };
        assert!(told(&whole.replacen("\"ada\"", "\"bob\"", 1)).contains("does not cover"));
        assert!(told(&whole.replacen("vctx-", "vctx_", 1)).contains("does not hold"));
        let lines: Vec<&str> = whole.lines().collect();
        assert!(told(&format!("{}\n{}\n", lines[1], lines[0])).contains("does not rise"));
        assert!(told("nothing\n").contains("not JSON"));
    }

    #[test]
    fn a_thinned_file_keeps_what_is_newest() {
        let dir = tempfile::tempdir().unwrap();
        let one = Checkpoints::open(dir.path()).unwrap();
        for n in 1..=9 {
            let agent = if n == 4 { "bob" } else { "ada" };
            one.sign(vec![head(agent, n)], "2026-01-01T00:00:00.000Z").unwrap();
        }
        let path = dir.path().join("checkpoints");
        let lines: BTreeMap<u64, String> =
            (1..).zip(text(dir.path()).lines().map(|line| format!("{line}\n"))).collect();
        drop(thinned(&path, lines, &one.state.lock().unwrap().signed).unwrap());
        assert_eq!(text(dir.path()).lines().count(), 2);
        drop(one);
        let again = Checkpoints::open(dir.path()).unwrap();
        assert_eq!(again.signed("bob").unwrap().head, head("bob", 4).head);
        assert_eq!(again.signed("ada").unwrap().number, 9);
    }
}
