//! Changes the key that signs the checkpoints.
//!
//! The new key is first written to the file `key.next`. Then the former key signs a checkpoint that
//! names the new key. When this checkpoint is on disk, `key.next` replaces `key`. If the program
//! ends between these steps, the next start finishes the change or leaves the former key in use.

use std::fs::{self, File};
use std::path::Path;

use super::Checkpoints;
use vctx_base::clock::{Clock as _, SystemClock, iso8601};
use vctx_base::signing::{SigningKey, verified};
use vctx_core::ledger::key::{KeyKind, PublicKey};
use vctx_core::ledger::rotation::KeyChange;

/// Maximum number of changes of the key. Each proof of a signed head contains all of them.
const ROTATIONS_MAX: usize = 256;

impl Checkpoints {
    /// Makes a new key in a directory of checkpoints; the former key signs that the new one
    /// follows. Returns the texts of both public keys. No server may use the directory. An error
    /// says what is wrong.
    pub fn rotate(directory: &Path) -> Result<(String, String), String> {
        let all = Self::open(directory)?;
        if all.state.lock().expect("no holder panics").rotations.len() >= ROTATIONS_MAX {
            let at = directory.display();
            return Err(format!("the key in {at} was changed {ROTATIONS_MAX} times already"));
        }
        let former = all.key.public();
        let path = directory.join("key.next");
        let next = match SigningKey::load_if_there(&path)? {
            Some(made) if made.public().name == former.name => made,
            Some(other) => {
                let name = &other.public().name;
                return Err(format!("{} is a key with the name {name}: remove it", path.display()));
            }
            None => SigningKey::make(&path, KeyKind::Log, &former.name)?,
        };
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        synced(directory)?;
        let at = iso8601(SystemClock.unix_ms());
        all.append(Vec::new(), &at, Some(&next)).map_err(failed)?;
        put_in_place(directory)?;
        let keys = (former.text(), next.public().text());
        drop(all);
        // Opening the checkpoints signs all heads with the new key.
        Self::open(directory)?;
        Ok(keys)
    }
}

fn put_in_place(directory: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::rename(directory.join("key.next"), directory.join("key")).map_err(failed)?;
    synced(directory)
}

pub(super) fn synced(directory: &Path) -> Result<(), String> {
    let opened = File::open(directory).and_then(|directory| directory.sync_all());
    opened.map_err(|error| format!("{}: {error}", directory.display()))
}

/// Returns the key that signs, and makes it if there is none. Finishes a change of the key whose
/// checkpoint is on disk. `last` is the note of the last change, if any.
pub(super) fn current_key(directory: &Path, last: Option<&String>) -> Result<SigningKey, String> {
    let key = SigningKey::load_or_make(&directory.join("key"), KeyKind::Log)?;
    let Some(change) = last.and_then(|note| KeyChange::of_note(note, verified)) else {
        return Ok(key);
    };
    if change.former != *key.public() {
        return Ok(key);
    }
    match SigningKey::load_if_there(&directory.join("key.next"))? {
        Some(next) if change.new == *next.public() => {
            put_in_place(directory)?;
            Ok(next)
        }
        _ => Ok(key),
    }
}

/// Returns all keys that signed checkpoints, from the first one to the present one. `notes` are the
/// changes of the key, in order. An error says what is wrong.
pub(super) fn keys_of(own: &PublicKey, notes: &[String]) -> Result<Vec<PublicKey>, String> {
    let mut keys = vec![own.clone()];
    for note in notes.iter().rev() {
        let change = KeyChange::of_note(note, verified)
            .ok_or("has a change of the key that its keys did not sign")?;
        if keys.last() != Some(&change.new) {
            return Err(
                "ends with checkpoints of another key than the one in the file `key`".into()
            );
        }
        keys.push(change.former);
    }
    keys.reverse();
    Ok(keys)
}
