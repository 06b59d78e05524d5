//! Signs the heads of ledgers, and keeps the signed checkpoints in a file outside the database.
//!
//! Each line of the file is a JSON object: the heads of all agents that were written since the line
//! before, and a note with the signature (`vctx_core::ledger::note`). A writer to the database
//! cannot change this file, so a ledger that was cut, rewritten or put back to an earlier state
//! contradicts it.

mod file;
mod rotate;
mod searched;
mod witness;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use file::{cosignature_line, read, rotations, thinned};
use rotate::{current_key, keys_of};
use vctx_base::clock::{Clock as _, SystemClock, iso8601};
use vctx_base::signing::SigningKey;
use vctx_core::ledger::note::{Checkpoint, Head, HeadProof, SignedHead, file_text};
use vctx_core::ledger::rotation::KeyChange;
use witness::Witness;

/// Size of the checkpoint file, in bytes, above which the server thins it when it starts: it keeps
/// only the lines with the newest head of an agent, and those that change the key.
const CHECKPOINT_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of heads in one checkpoint, which is one line of the file.
pub(crate) const HEADS_AT_ONCE: usize = 4_096;
/// Number of cosignatures that are kept in memory besides two for each agent, before those that no
/// proof needs are removed.
const COSIGNATURES_KEPT: usize = 64;

/// The newest signed statement about an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The newest entry; `None` if the agent was forgotten or moved away.
    pub head: Option<Head>,
    /// The newest entry before the agent was forgotten or moved away, and the number of its
    /// checkpoint. An agent that comes back must have this entry.
    former: Option<(Head, u64)>,
    /// Time of the checkpoint, ISO 8601.
    pub at: String,
    /// Number of the checkpoint.
    pub number: u64,
    /// Position of the checkpoint's line in the file, in bytes.
    position: u64,
    /// Length of this line in bytes, with its end.
    bytes: u64,
    /// The checkpoint as a prompt names it.
    mark: Arc<str>,
}

impl Signed {
    /// Returns the newest signed entry, even if the agent is gone.
    pub fn last(&self) -> Option<&Head> {
        self.head.as_ref().or(self.former.as_ref().map(|(head, _)| head))
    }
}

/// The checkpoints of one server.
pub struct Checkpoints {
    /// Directory of the key and the checkpoint file.
    directory: PathBuf,
    /// Whether there was no checkpoint when the file was opened.
    was_empty: bool,
    key: SigningKey,
    state: Mutex<State>,
    witness: Option<Witness>,
    /// The newest checkpoint with a head of each agent, as prompts name it. No holder of this lock
    /// waits for the disk.
    marks: Mutex<HashMap<String, Arc<str>>>,
    /// Held while heads are signed. A caller that has waited for the lock finds its heads signed.
    pub signing: tokio::sync::Mutex<()>,
}

struct State {
    file: File,
    /// Length of the file in bytes.
    bytes: u64,
    number: u64,
    root: String,
    signed: BTreeMap<String, Signed>,
    /// Notes of the checkpoints that change the key, in order.
    rotations: Vec<String>,
    /// Number of the last of these checkpoints; 0 if there is none.
    rotated: u64,
    /// Number of the newest checkpoint that a witness cosigned; 0 if there is none.
    cosigned: u64,
    /// The cosignatures of checkpoints with the newest head of an agent, by number.
    cosignatures: BTreeMap<u64, String>,
    /// All checkpoints up to this number are before this position in the file, in bytes.
    sent: (u64, u64),
    /// Agents whose ledger contradicted the last signed head. Nothing more is signed for them.
    broken: BTreeSet<String>,
}

impl std::fmt::Debug for Checkpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Checkpoints")
    }
}

impl Checkpoints {
    /// Opens the key and the checkpoint file in a directory, and makes what is missing. An error
    /// says what is wrong and what to do.
    pub fn open(directory: &Path) -> Result<Self, String> {
        let failed = |error: &io::Error| format!("{}: {error}", directory.display());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|error| format!("{}; choose a directory with --data-dir", failed(&error)))?;
        let path = directory.join("checkpoints");
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).mode(0o600).open(&path);
        let mut file = file.map_err(|error| failed(&error))?;
        file.try_lock().map_err(|_| {
            format!("{} is in use: another server signs with this key", path.display())
        })?;
        let notes = rotations(&file, &path)?;
        let key = current_key(directory, notes.last())?;
        let keys = keys_of(key.public(), &notes)
            .map_err(|why| format!("{} {why}: {}", path.display(), file::MOVE_AWAY))?;
        let mut state = State::begun(file.try_clone().map_err(|error| failed(&error))?);
        let lines = read(&mut file, &path, &keys, &mut state)?;
        if file.metadata().map_err(|error| failed(&error))?.len() > CHECKPOINT_BYTES_MAX {
            file = thinned(&path, lines, &state).map_err(|error| failed(&error))?;
            state = State::begun(file.try_clone().map_err(|error| failed(&error))?);
            read(&mut file, &path, &keys, &mut state)?;
        }
        let marks = Mutex::default();
        let (directory, was_empty) = (directory.to_owned(), state.number == 0);
        let (state, signing) = (Mutex::new(state), tokio::sync::Mutex::default());
        let all = Self { directory, was_empty, key, state, witness: None, marks, signing };
        all.mark_all();
        all.sign_again().map_err(|error| format!("{}: {error}", all.directory.display()))?;
        Ok(all)
    }

    /// Signs the heads again that a former key signed, so that the present key is enough to verify
    /// them.
    fn sign_again(&self) -> io::Result<()> {
        let state = self.state.lock().expect("no holder panics");
        let former = state
            .signed
            .iter()
            .filter(|(_, signed)| signed.head.is_some() && signed.number <= state.rotated);
        let former: Vec<SignedHead> = former
            .map(|(agent, signed)| SignedHead { agent: agent.clone(), head: signed.head.clone() })
            .collect();
        drop(state);
        let at = iso8601(SystemClock.unix_ms());
        former.chunks(HEADS_AT_ONCE).try_for_each(|heads| self.sign(heads.to_vec(), &at))
    }

    /// Returns the text of the public key, with which others verify the checkpoints.
    pub fn public_key(&self) -> String {
        self.key.public().text()
    }

    /// Returns the signed note about an export whose lines have the given digest.
    pub fn file_note(&self, digest: &str) -> String {
        self.key.note(&file_text(&self.key.public().name, digest))
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

    /// Returns the keys of all agents whose newest statement is that they are gone, in order.
    pub fn gone(&self) -> Vec<String> {
        let state = self.state.lock().expect("no holder panics");
        let gone = state.signed.iter().filter(|(_, signed)| signed.head.is_none());
        gone.map(|(agent, _)| agent.clone()).collect()
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
        self.append(heads, at, None)
    }

    /// Signs a checkpoint, and appends it to the file. A checkpoint that changes the key is also
    /// signed by the new key.
    fn append(
        &self,
        heads: Vec<SignedHead>,
        at: &str,
        next: Option<&SigningKey>,
    ) -> io::Result<()> {
        let mut state = self.state.lock().expect("no holder panics");
        let former = self.key.public();
        let checkpoint = Checkpoint {
            origin: former.name.clone(),
            number: state.number + 1,
            before: state.root.clone(),
            at: at.to_owned(),
            heads,
            change: next
                .map(|next| KeyChange { former: former.clone(), new: next.public().clone() }),
        };
        let listed: Vec<Value> = checkpoint.heads.iter().map(SignedHead::listed).collect();
        let root = checkpoint.root();
        let text = checkpoint.text(&root);
        let also = next.map(|next| next.signature_line(&text)).unwrap_or_default();
        let note = self.key.note(&text) + &also;
        let line = json!({"before": checkpoint.before, "heads": listed, "note": note});
        let line = format!("{line}\n");
        state.append(&line)?;
        state.file.sync_data()?;
        let agents: Vec<String> = checkpoint.heads.iter().map(|head| head.agent.clone()).collect();
        state.take(checkpoint, root, &note, line.len() as u64);
        let mut marks = self.marks.lock().expect("no holder panics");
        for agent in agents {
            match state.signed.get(&agent).filter(|signed| signed.head.is_some()) {
                Some(signed) => drop(marks.insert(agent, Arc::clone(&signed.mark))),
                None => drop(marks.remove(&agent)),
            }
        }
        Ok(())
    }

    /// Keeps the cosignature of a checkpoint, as a line of the file. If a crash loses the line, the
    /// witness is asked again.
    fn keep_cosignature(&self, number: u64, signature: &str) -> io::Result<()> {
        let mut state = self.state.lock().expect("no holder panics");
        if number <= state.cosigned {
            return Ok(());
        }
        let line = cosignature_line(number, signature);
        state.append(&line)?;
        state.cosign(number, signature.to_owned(), line.len() as u64);
        Ok(())
    }

    /// Returns the newest checkpoint with a head of an agent, as prompts name it: origin, number
    /// and root. Never waits for the disk.
    pub fn mark(&self, agent: &str) -> Option<Arc<str>> {
        self.marks.lock().expect("no holder panics").get(agent).cloned()
    }

    fn mark_all(&self) {
        let state = self.state.lock().expect("no holder panics");
        let mut marks = self.marks.lock().expect("no holder panics");
        for (agent, signed) in state.signed.iter().filter(|(_, signed)| signed.head.is_some()) {
            marks.insert(agent.clone(), Arc::clone(&signed.mark));
        }
    }

    /// Returns whether the file agrees with a checkpoint as a prompt names it. Returns `None` if
    /// the checkpoint is one of another server, or is not in the file any more.
    pub fn agrees(&self, mark: &str) -> io::Result<Option<bool>> {
        let mut words = mark.split(' ');
        let (origin, number, root) = (words.next(), words.next(), words.next());
        if origin != Some(&self.key.public().name) {
            return Ok(None);
        }
        let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) else {
            return Ok(Some(false));
        };
        let state = self.state.lock().expect("no holder panics");
        let (file, bytes, newest) = (state.file.try_clone()?, state.bytes, state.number);
        drop(state);
        if number == 0 || number > newest {
            return Ok(Some(false));
        }
        let start = file::line_before(&file, bytes, number)?;
        let found = file::found(&file, start, bytes, number - 1)?;
        let found = found.filter(|found| found.number == number);
        Ok(found
            .map(|found| found.row["note"].as_str().and_then(|note| note.lines().nth(2)) == root))
    }

    /// Returns the proof of the newest head that was signed for an agent; `None` if there is none.
    pub fn proof(&self, agent: &str) -> io::Result<Option<HeadProof>> {
        let state = self.state.lock().expect("no holder panics");
        let Some(Signed { head: Some(head), number, position, bytes, .. }) =
            state.signed.get(agent)
        else {
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
            note: text("note") + state.cosignatures.get(number).map_or("", String::as_str),
            before: text("before"),
            leaves: heads.map(|head| head.leaf()).collect(),
            agent: agent.to_owned(),
            head: head.clone(),
            rotations: state.rotations.clone(),
            file: None,
        };
        // A checkpoint of an earlier program version has another root.
        Ok(proof.check(&proof.note).is_ok().then_some(proof))
    }
}

impl State {
    /// Appends a line, after it has cut off what a failed write left behind, for example on a full
    /// disk.
    fn append(&mut self, line: &str) -> io::Result<()> {
        self.file.set_len(self.bytes)?;
        self.file.write_all(line.as_bytes())
    }

    /// Returns the state before the lines of the file are read.
    fn begun(file: File) -> Self {
        Self {
            file,
            bytes: 0,
            number: 0,
            root: String::new(),
            signed: BTreeMap::new(),
            rotations: Vec::new(),
            rotated: 0,
            cosigned: 0,
            cosignatures: BTreeMap::new(),
            sent: (0, 0),
            broken: BTreeSet::new(),
        }
    }

    /// Takes a cosignature over whose line has the given length.
    fn cosign(&mut self, number: u64, signature: String, bytes: u64) {
        self.bytes += bytes;
        self.cosigned = self.cosigned.max(number);
        self.cosignatures.insert(number, signature);
        if self.cosignatures.len() > 2 * self.signed.len() + COSIGNATURES_KEPT {
            let used: BTreeSet<u64> = self.signed.values().map(|signed| signed.number).collect();
            let newest = self.cosigned;
            self.cosignatures.retain(|number, _| *number == newest || used.contains(number));
        }
    }

    /// Takes a checkpoint over whose line has the given length.
    fn take(&mut self, checkpoint: Checkpoint, root: String, note: &str, bytes: u64) {
        let (number, position) = (checkpoint.number, self.bytes);
        if checkpoint.change.is_some() {
            self.rotations.push(note.to_owned());
            self.rotated = number;
        }
        let mark: Arc<str> = format!("{} {number} {root}", checkpoint.origin).into();
        self.number = number;
        self.root = root;
        self.bytes += bytes;
        for one in checkpoint.heads {
            let (at, mark) = (checkpoint.at.clone(), Arc::clone(&mark));
            let former = self.signed.remove(&one.agent).filter(|_| one.head.is_none());
            let former = former.and_then(|signed| match signed.head {
                Some(head) => Some((head, signed.number)),
                None => signed.former,
            });
            let signed = Signed { head: one.head, former, at, number, position, bytes, mark };
            self.signed.insert(one.agent, signed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use vctx_base::signing::verified;
    use vctx_core::ledger::key::KeyKind;

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
        assert_eq!(again.heads_after("", 9), [("ada".into(), head("ada", 2).head.unwrap())]);
        assert_eq!((again.heads_after("ada", 9).len(), again.heads_after("", 0).len()), (0, 0));
        assert_eq!(
            (again.gone_after("", 9), again.gone_after("bob", 9).len()),
            (vec!["bob".into()], 0)
        );
        again.sign(vec![head("ada", 3)], "2026-01-01T00:00:03.000Z").unwrap();
        drop(again);
        assert_eq!(Checkpoints::open(dir.path()).unwrap().signed("ada").unwrap().number, 4);
    }

    #[test]
    fn a_line_that_was_not_written_whole_does_not_spoil_the_next_line() {
        let dir = tempfile::tempdir().unwrap();
        let one = Checkpoints::open(dir.path()).unwrap();
        one.sign(vec![head("ada", 1)], "2026-01-01T00:00:00.000Z").unwrap();
        let whole = text(dir.path());
        fs::write(dir.path().join("checkpoints"), format!("{whole}{{\"half")).unwrap();
        one.sign(vec![head("ada", 2)], "2026-01-01T00:00:01.000Z").unwrap();
        drop(one);
        assert_eq!(text(dir.path()).lines().count(), 2);
        assert_eq!(Checkpoints::open(dir.path()).unwrap().signed("ada").unwrap().number, 2);
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
        drop(thinned(&path, lines, &one.state.lock().unwrap()).unwrap());
        assert_eq!(text(dir.path()).lines().count(), 2);
        drop(one);
        let again = Checkpoints::open(dir.path()).unwrap();
        assert_eq!(again.signed("bob").unwrap().head, head("bob", 4).head);
        assert_eq!(again.signed("ada").unwrap().number, 9);
    }

    #[test]
    fn a_changed_key_keeps_the_file_and_signs_what_the_former_key_signed() {
        let dir = tempfile::tempdir().unwrap();
        let one = Checkpoints::open(dir.path()).unwrap();
        one.sign(vec![head("ada", 1), head("bob", 2)], "2026-01-01T00:00:00.000Z").unwrap();
        let former = one.key.public().clone();
        drop(one);
        let (told, new) = Checkpoints::rotate(dir.path()).unwrap();
        assert_eq!(told, former.text());
        let again = Checkpoints::open(dir.path()).unwrap();
        assert_eq!((again.public_key(), &again.key.public().name), (new.clone(), &former.name));
        let key = again.key.public().clone();
        for agent in ["ada", "bob"] {
            let proof = again.proof(agent).unwrap().unwrap();
            for trusted in [&former, &key] {
                let signers = proof.signers(agent, std::slice::from_ref(trusted), verified);
                assert_eq!(signers.unwrap().len(), 1);
            }
        }
        again.sign(vec![head("ada", 3)], "2026-01-01T00:00:01.000Z").unwrap();
        drop(again);
        // A second change, and a file that was thinned since.
        let (told, newest) = Checkpoints::rotate(dir.path()).unwrap();
        assert_eq!(told, new);
        let last = Checkpoints::open(dir.path()).unwrap();
        let path = dir.path().join("checkpoints");
        let lines = text(dir.path());
        let lines = (1..).zip(lines.lines().map(|line| format!("{line}\n"))).collect();
        drop(thinned(&path, lines, &last.state.lock().unwrap()).unwrap());
        drop(last);
        let last = Checkpoints::open(dir.path()).unwrap();
        assert_eq!((last.public_key(), text(dir.path()).lines().count()), (newest, 3));
        let proof = last.proof("ada").unwrap().unwrap();
        assert!(proof.signers("ada", &[former], verified).is_ok());
    }

    #[test]
    fn a_change_of_the_key_that_was_interrupted_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let one = Checkpoints::open(dir.path()).unwrap();
        one.sign(vec![head("ada", 1)], "2026-01-01T00:00:00.000Z").unwrap();
        let former = one.public_key();
        drop(one);
        let [key, next] = ["key", "key.next"].map(|name| dir.path().join(name));
        let kept = fs::read(&key).unwrap();
        // Killed before the line was on disk: the former key signs on.
        let made = SigningKey::make(&next, KeyKind::Log, "vctx-other").unwrap();
        assert_eq!(Checkpoints::open(dir.path()).unwrap().public_key(), former);
        assert!(Checkpoints::rotate(dir.path()).unwrap_err().contains("vctx-other"));
        drop(made);
        fs::remove_file(&next).unwrap();
        let (_, new) = Checkpoints::rotate(dir.path()).unwrap();
        // Killed after the line was on disk: the new key signs.
        fs::rename(&key, &next).unwrap();
        fs::write(&key, &kept).unwrap();
        fs::set_permissions(&key, fs::metadata(&next).unwrap().permissions()).unwrap();
        assert_eq!(Checkpoints::open(dir.path()).unwrap().public_key(), new);
        assert!(!next.exists());
        // The former key alone does not continue the file.
        fs::write(&key, &kept).unwrap();
        assert!(Checkpoints::open(dir.path()).err().unwrap().contains("another key"));
    }

    #[test]
    fn a_change_that_another_key_signed_is_refused() {
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [own, other] = dirs.each_ref().map(|dir| {
            let one = Checkpoints::open(dir.path()).unwrap();
            one.sign(vec![head("ada", 1)], "2026-01-01T00:00:00.000Z").unwrap();
            one
        });
        let trusted = own.key.public().clone();
        drop((own, other));
        // Somebody with a key of their own puts a change into the file and takes its place.
        Checkpoints::rotate(dirs[1].path()).unwrap();
        let lines = text(dirs[1].path());
        let change = lines.lines().nth(1).unwrap();
        let forged = text(dirs[0].path()) + change + "\n";
        fs::write(dirs[0].path().join("checkpoints"), forged).unwrap();
        fs::copy(dirs[1].path().join("key"), dirs[0].path().join("key")).unwrap();
        assert!(Checkpoints::open(dirs[0].path()).err().unwrap().contains("line 1"));
        let forger = Checkpoints::open(dirs[1].path()).unwrap();
        let proof = forger.proof("ada").unwrap().unwrap();
        assert!(proof.signers("ada", &[trusted], verified).is_err());
    }

    #[test]
    fn a_prompt_names_a_checkpoint_that_the_file_has() {
        let dir = tempfile::tempdir().unwrap();
        let one = Checkpoints::open(dir.path()).unwrap();
        assert_eq!(one.mark("ada"), None);
        let mut marks = Vec::new();
        for n in 1..=600 {
            one.sign(vec![head("ada", n)], "2026-01-01T00:00:00.000Z").unwrap();
            marks.push(one.mark("ada").unwrap());
        }
        for mark in marks.iter().step_by(37).chain(marks.last()) {
            assert_eq!(one.agrees(mark).unwrap(), Some(true), "{mark}");
        }
        let origin = &one.key.public().name;
        for wrong in [format!("{origin} 3 x"), format!("{origin} 601 x"), format!("{origin} x")] {
            assert_eq!(one.agrees(&wrong).unwrap(), Some(false));
        }
        assert_eq!(one.agrees("vctx-other 3 x").unwrap(), None);
        one.sign(vec![head("ada", 0)], "2026-01-01T00:00:00.000Z").unwrap();
        assert_eq!(one.mark("ada"), None);
        drop(one);
        let again = Checkpoints::open(dir.path()).unwrap();
        assert_eq!(again.agrees(&marks[0]).unwrap(), Some(true));
    }
}
