//! What a server asks of a witness, and what a witness accepts. A witness keeps the newest
//! checkpoint of each server, and cosigns only a checkpoint that continues it.
//!
//! Requests have the form of `c2sp.org/tlog-witness`, apart from the lines between the first line
//! and the note: these are the server's public key, the root of the checkpoint before, and the
//! leaves of the checkpoint. The checkpoints of a server are a chain and no tree, so these lines
//! prove that a checkpoint follows from the one before it.

use serde::{Deserialize, Serialize};

use super::key::{KeyKind, PublicKey};
use super::note::root_of;
use super::rotation::KeyChange;

/// Start of the first line of a request.
const OLD: &str = "old ";
/// Start of the line with the server's public key.
const KEY: &str = "key ";
/// Start of the line with the root of the checkpoint before.
const BEFORE: &str = "before ";

/// A request to cosign a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessRequest {
    /// Number of the newest checkpoint that the witness has seen, as the server knows it; 0 if it
    /// has seen none.
    pub old: u64,
    /// The server's public key. It counts only if the witness has seen no checkpoint of the server.
    pub key: PublicKey,
    /// Root of the checkpoint before; empty for the first one.
    pub before: String,
    /// Leaves of the checkpoint.
    pub leaves: Vec<String>,
    /// The signed note of the checkpoint.
    pub note: String,
}

/// The newest checkpoint of a server that a witness has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenCheckpoint {
    /// Name of the server's log.
    pub origin: String,
    /// Number of the checkpoint.
    pub number: u64,
    /// Root of the checkpoint.
    pub root: String,
    /// Text of the public key that signs the next checkpoint.
    pub key: String,
}

/// Why a witness does not cosign a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The witness has seen another checkpoint as the newest one: its number, or 0.
    Conflict(u64),
    /// The server's key did not sign the note.
    Unsigned(String),
    /// The checkpoint contradicts what the witness has seen.
    Contradiction(String),
}

impl WitnessRequest {
    /// Returns the text of the request.
    pub fn text(&self) -> String {
        let leaves: String = self.leaves.iter().map(|leaf| format!("{leaf}\n")).collect();
        let (old, key, before) = (self.old, self.key.text(), &self.before);
        format!("{OLD}{old}\n{KEY}{key}\n{BEFORE}{before}\n{leaves}\n{}", self.note)
    }

    /// Reads the text of a request. An error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (head, note) = text.split_once("\n\n").ok_or("has no empty line before the note")?;
        let mut lines = head.lines();
        let mut after = |start: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(start));
            line.map(str::to_owned).ok_or_else(|| format!("has no line `{start}…`"))
        };
        let old = after(OLD)?.parse().map_err(|_| "has a number that is not whole")?;
        let key = PublicKey::parse(&after(KEY)?, KeyKind::Log)?;
        let before = after(BEFORE)?;
        let leaves = lines.map(str::to_owned).collect();
        Ok(Self { old, key, before, leaves, note: note.to_owned() })
    }

    /// Returns the origin of the checkpoint, without a check of its signature.
    pub fn origin(&self) -> &str {
        self.note.lines().next().unwrap_or_default()
    }

    /// Returns the text to cosign, and what the witness has then seen. `seen` is what it has seen
    /// of this origin, and `verified` returns the text of a note if the key signed it, or says what
    /// is wrong.
    pub fn accepted(
        &self,
        seen: Option<&SeenCheckpoint>,
        verified: impl Fn(&str, &PublicKey) -> Result<String, String>,
    ) -> Result<(String, SeenCheckpoint), Refusal> {
        let known = seen.map_or(0, |seen| seen.number);
        // This comes first: a server that was put back may also have its former key.
        if self.old != known {
            return Err(Refusal::Conflict(known));
        }
        let key = match seen {
            Some(seen) => PublicKey::parse(&seen.key, KeyKind::Log),
            None => Ok(self.key.clone()),
        };
        let key = key.map_err(Refusal::Unsigned)?;
        let text = verified(&self.note, &key).map_err(Refusal::Unsigned)?;
        let mut lines = text.lines();
        let (origin, number, root) = (lines.next(), lines.next(), lines.next());
        let number = number.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
        let (origin, root) = (origin.unwrap_or_default(), root.unwrap_or_default());
        let contradiction = |what: &str| Err(Refusal::Contradiction(what.to_owned()));
        if number == 0 || root != root_of(&self.before, &self.leaves) {
            return contradiction("the lines before the note do not give its root");
        }
        // An origin is the name of its key.
        if origin != key.name || seen.is_some_and(|seen| seen.origin != origin) {
            return contradiction("the note is of another log than its key");
        }
        match seen {
            Some(seen) if number == known => {
                if root != seen.root {
                    return contradiction("another checkpoint has this number");
                }
                return Ok((text, seen.clone()));
            }
            Some(_) if number != known + 1 => return Err(Refusal::Conflict(known)),
            Some(seen) if self.before != seen.root => {
                return contradiction("the checkpoint does not follow from the newest one");
            }
            _ => {}
        }
        let next = match KeyChange::of_text(&text) {
            None => key,
            // The witness begins with the change, which the new key signed, too.
            Some(change) if seen.is_none() && change.new == key => key,
            Some(_) => match KeyChange::of_note(&self.note, verified) {
                Some(change) if change.former == key && change.new.name == key.name => change.new,
                _ => return contradiction("the new key did not sign that it follows"),
            },
        };
        let (origin, root, key) = (origin.to_owned(), root.to_owned(), next.text());
        Ok((text, SeenCheckpoint { origin, number, root, key }))
    }
}

/// Returns the text that the cosignature of a witness covers (`c2sp.org/tlog-cosignature`, version
/// 1). `at_s` is the time in seconds since 1970.
pub fn cosigned_text(at_s: u64, text: &str) -> String {
    format!("cosignature/v1\ntime {at_s}\n{text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::note::{Checkpoint, Head, SignedHead};

    fn key(byte: u8) -> PublicKey {
        PublicKey { kind: KeyKind::Log, name: "vctx-1".into(), bytes: vec![byte; 32] }
    }

    /// Here a key has signed a note if the signature is made of the key's first byte.
    fn verified(note: &str, key: &PublicKey) -> Result<String, String> {
        let (text, signature) = key.split(note)?;
        match signature == [key.bytes[0]; 64] {
            true => Ok(text),
            false => Err("has a signature that does not hold".into()),
        }
    }

    fn request(number: u64, before: &str, hash: &str, signers: &[u8]) -> WitnessRequest {
        let change = match signers {
            [former, new, ..] => Some(KeyChange { former: key(*former), new: key(*new) }),
            _ => None,
        };
        let head = Some(Head { n: number, hash: hash.into() });
        let checkpoint = Checkpoint {
            origin: "vctx-1".into(),
            number,
            before: before.into(),
            at: "2026-01-01T00:00:00.000Z".into(),
            heads: vec![SignedHead { agent: "ada".into(), head }],
            change,
        };
        let lines = signers.iter().map(|byte| key(*byte).signature_line(&[*byte; 64]));
        let text = checkpoint.text(&checkpoint.root());
        WitnessRequest {
            old: number - 1,
            key: key(signers[0]),
            before: before.into(),
            leaves: checkpoint.leaves(),
            note: format!("{text}\n{}", lines.collect::<String>()),
        }
    }

    #[test]
    fn a_request_is_read_as_it_is_written() {
        let asked = request(1, "", "aa", &[1]);
        assert_eq!(WitnessRequest::parse(&asked.text()), Ok(asked.clone()));
        let none = WitnessRequest { leaves: Vec::new(), ..asked.clone() };
        assert_eq!(WitnessRequest::parse(&none.text()), Ok(none));
        assert!(WitnessRequest::parse("old 1\n").is_err());
        assert!(WitnessRequest::parse(&asked.text().replace("old 0", "old x")).is_err());
    }

    #[test]
    fn only_what_continues_the_newest_checkpoint_is_accepted() {
        let first = request(1, "", "aa", &[1]);
        let (text, seen) = first.accepted(None, verified).unwrap();
        assert!(first.note.starts_with(&text));
        let second = request(2, &seen.root, "bb", &[1]);
        let (_, newer) = second.accepted(Some(&seen), verified).unwrap();
        assert_eq!(newer.number, 2);
        // The same again, as after a lost answer.
        let again = WitnessRequest { old: 2, ..second.clone() };
        assert_eq!(again.accepted(Some(&newer), verified).unwrap().1, newer);
        // A server that was put back knows an older checkpoint, or none.
        let refused = |asked: &WitnessRequest| asked.accepted(Some(&newer), verified).unwrap_err();
        assert_eq!(refused(&first), Refusal::Conflict(2));
        assert_eq!(refused(&second), Refusal::Conflict(2));
        let rewritten = request(2, &seen.root, "cc", &[1]);
        let rewritten = WitnessRequest { old: 2, ..rewritten };
        assert!(matches!(refused(&rewritten), Refusal::Contradiction(_)));
        let gap = WitnessRequest { old: 2, ..request(4, &newer.root, "dd", &[1]) };
        assert_eq!(refused(&gap), Refusal::Conflict(2));
        let fork = request(3, &seen.root, "dd", &[1]);
        assert!(matches!(refused(&fork), Refusal::Contradiction(_)));
        let leaves =
            WitnessRequest { leaves: vec!["x".into()], ..request(3, &newer.root, "d", &[1]) };
        assert!(matches!(refused(&leaves), Refusal::Contradiction(_)));
        let stranger = request(3, &newer.root, "dd", &[2]);
        assert!(matches!(refused(&stranger), Refusal::Unsigned(_)));
    }

    #[test]
    fn a_change_of_the_key_is_followed_if_both_keys_signed_it() {
        let (_, seen) = request(1, "", "aa", &[1]).accepted(None, verified).unwrap();
        let change = request(2, &seen.root, "bb", &[1, 2]);
        let (_, newer) = change.accepted(Some(&seen), verified).unwrap();
        assert_eq!(newer.key, key(2).text());
        let third = request(3, &newer.root, "cc", &[2]);
        assert!(third.accepted(Some(&newer), verified).is_ok());
        let former = request(3, &newer.root, "cc", &[1]);
        assert!(matches!(former.accepted(Some(&newer), verified), Err(Refusal::Unsigned(_))));
        let mut half = change;
        half.note = half.note.lines().take(7).map(|line| format!("{line}\n")).collect();
        assert!(matches!(half.accepted(Some(&seen), verified), Err(Refusal::Contradiction(_))));
    }
}
