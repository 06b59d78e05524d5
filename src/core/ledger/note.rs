//! Signed notes and checkpoints in the formats of C2SP (`c2sp.org/signed-note`,
//! `c2sp.org/tlog-checkpoint`), so that tools for transparency logs can read them.
//!
//! This file makes and reads the texts; signatures are made and checked elsewhere.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::key::PublicKey;
use super::rotation::{KeyChange, newest_key};
use crate::memory::receipt::canonical_json;
use crate::sha::Sha256;

/// The newest entry of an agent's ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Number of the entry; 0 before the first entry.
    pub n: u64,
    /// Hash of the entry, in hex.
    pub hash: String,
}

/// What a checkpoint says of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedHead {
    /// Key of the agent's core.
    pub agent: String,
    /// The newest entry of the agent's ledger; `None` if the agent was forgotten or moved away.
    pub head: Option<Head>,
}

/// A checkpoint: the heads of all agents that were written since the checkpoint before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Name of the server's log.
    pub origin: String,
    /// Number of the checkpoint, from 1 without gaps.
    pub number: u64,
    /// Root of the checkpoint before it, in base64; empty for the first one.
    pub before: String,
    /// Time of the checkpoint, ISO 8601.
    pub at: String,
    /// The heads, in order of the agents' keys.
    pub heads: Vec<SignedHead>,
    /// The change of the key, if this checkpoint states one.
    pub change: Option<KeyChange>,
}

impl Checkpoint {
    /// Returns the root hash, see [`root_of`].
    pub fn root(&self) -> String {
        root_of(&self.before, &self.leaves())
    }

    /// Returns the leaf of each head.
    pub fn leaves(&self) -> Vec<String> {
        self.heads.iter().map(SignedHead::leaf).collect()
    }

    /// Returns the root hash that checkpoints had at first, in base64:
    /// `SHA-256("vctx checkpoint 1" ‖ 0x00 ‖ canonical JSON of the root before and the heads)`.
    pub fn first_root(&self) -> String {
        let heads: Vec<_> = self.heads.iter().map(SignedHead::listed).collect();
        let mut hash = Sha256::new();
        hash.update(b"vctx checkpoint 1\0");
        hash.update(canonical_json(&json!({"before": self.before, "heads": heads})).as_bytes());
        STANDARD.encode(hash.finalize())
    }

    /// Returns the text that is signed, with the given root hash: origin, number, root hash, time,
    /// and the change of the key if there is one, each on a line.
    pub fn text(&self, root: &str) -> String {
        let change = self.change.as_ref().map(KeyChange::line).unwrap_or_default();
        format!("{}\n{}\n{root}\n{}\n{change}", self.origin, self.number, self.at)
    }
}

/// Returns the root hash of a checkpoint in base64: `SHA-256("vctx checkpoint 2" ‖ 0x00 ‖ canonical
/// JSON of the root before and the leaves)`. The leaves do not tell names of agents, so a proof
/// about one agent can contain them.
pub fn root_of(before: &str, leaves: &[String]) -> String {
    let mut hash = Sha256::new();
    hash.update(b"vctx checkpoint 2\0");
    hash.update(canonical_json(&json!({"before": before, "leaves": leaves})).as_bytes());
    STANDARD.encode(hash.finalize())
}

/// A proof that a checkpoint names the head of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadProof {
    /// The signed note of the checkpoint.
    pub note: String,
    /// Root of the checkpoint before it.
    pub before: String,
    /// Leaves of all heads in the checkpoint.
    pub leaves: Vec<String>,
    /// Key of the agent's core.
    pub agent: String,
    /// The head.
    pub head: Head,
    /// The notes that state changes of the server's key, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rotations: Vec<String>,
    /// In an export, the note about the file; see [`file_text`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// Returns the text that the server signs for an export: the name of the log, `vctx export`, and
/// the SHA-256, in hex, of all lines before the trailer, each on a line. The second line of a
/// checkpoint is a number, so no such text is one of a checkpoint.
pub fn file_text(origin: &str, digest: &str) -> String {
    format!("{origin}\nvctx export\n{digest}\n")
}

impl HeadProof {
    /// Returns the names of the keys that signed the head of an agent, or that vouch for the key
    /// that did. `verified` returns the text of a note if the key signed it, or says what is wrong.
    /// An error says why there is no such key.
    pub fn signers(
        &self,
        agent: &str,
        keys: &[PublicKey],
        verified: impl Fn(&str, &PublicKey) -> Result<String, String>,
    ) -> Result<BTreeSet<String>, String> {
        if self.agent.rsplit(':').next() != Some(agent) {
            return Err("is of another agent".into());
        }
        let mut signers = BTreeSet::new();
        let mut why = "is compared with no key".to_owned();
        for key in keys {
            let newest = newest_key(key, &self.rotations, &verified);
            match verified(&self.note, &newest).and_then(|text| self.check(&text)) {
                Ok(()) => drop(signers.insert(key.name.clone())),
                Err(wrong) => why = format!("{wrong} (key {})", key.name),
            }
        }
        if signers.is_empty() { Err(why) } else { Ok(signers) }
    }

    /// Returns whether one of the keys, or one that they vouch for, signed the export with the
    /// given digest. An error says what is wrong.
    pub fn check_file(
        &self,
        digest: &str,
        keys: &[PublicKey],
        verified: impl Fn(&str, &PublicKey) -> Result<String, String>,
    ) -> Result<(), String> {
        let note = self.file.as_ref().ok_or("has no signature of the file")?;
        let is_signed = |key: &PublicKey| {
            let newest = newest_key(key, &self.rotations, &verified);
            verified(note, &newest) == Ok(file_text(&newest.name, digest))
        };
        match keys.iter().any(is_signed) {
            true => Ok(()),
            false => Err("has no signature of this file by one of the keys".into()),
        }
    }

    /// Returns whether a signed text, whose signature the caller has checked, names the head. An
    /// error says what is wrong.
    pub fn check(&self, text: &str) -> Result<(), String> {
        let root = root_of(&self.before, &self.leaves);
        if text.lines().nth(2) != Some(root.as_str()) {
            return Err("has leaves that the signature does not cover".into());
        }
        let head = SignedHead { agent: self.agent.clone(), head: Some(self.head.clone()) };
        match self.leaves.contains(&head.leaf()) {
            true => Ok(()),
            false => Err("has a head that the signature does not cover".into()),
        }
    }
}

impl SignedHead {
    /// Returns the head as a list: agent, number and hash; or agent and 0 if the agent is gone.
    pub fn listed(&self) -> serde_json::Value {
        match &self.head {
            Some(head) => json!([self.agent, head.n, head.hash]),
            None => json!([self.agent, 0]),
        }
    }

    /// Returns the leaf of the head, in base64: `SHA-256("vctx leaf 1" ‖ 0x00 ‖ canonical JSON of
    /// the list)`. The hash in a head is unknown to others, so a leaf does not confirm a guess of
    /// an agent's name.
    pub fn leaf(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(b"vctx leaf 1\0");
        hash.update(canonical_json(&self.listed()).as_bytes());
        STANDARD.encode(hash.finalize())
    }

    /// Reads a head from its list.
    pub fn of_list(list: &serde_json::Value) -> Option<Self> {
        let agent = list[0].as_str()?.to_owned();
        let head = match list[1].as_u64()? {
            0 => None,
            n => Some(Head { n, hash: list[2].as_str()?.to_owned() }),
        };
        Some(Self { agent, head })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::key::KeyKind;

    #[test]
    fn a_note_is_split_into_text_and_signature() {
        let checkpoint = Checkpoint {
            origin: "vctx-1".into(),
            number: 3,
            before: String::new(),
            at: "2026-01-01T00:00:00.000Z".into(),
            heads: vec![SignedHead {
                agent: "ada".into(),
                head: Some(Head { n: 2, hash: "ab".into() }),
            }],
            change: None,
        };
        let key = PublicKey { kind: KeyKind::Log, name: "vctx-1".into(), bytes: vec![7; 32] };
        let line = key.signature_line(&[9; 64]);
        let text = checkpoint.text(&checkpoint.root());
        let note = format!("{text}\n{line}");
        assert_eq!(key.split(&note), Ok((text.clone(), vec![9; 64])));
        let proof = HeadProof {
            note: note.clone(),
            before: checkpoint.before.clone(),
            leaves: checkpoint.leaves(),
            agent: "ada".into(),
            head: Head { n: 2, hash: "ab".into() },
            rotations: Vec::new(),
            file: None,
        };
        assert_eq!(proof.check(&text), Ok(()));
        let other = HeadProof { agent: "bob".into(), ..proof.clone() };
        assert!(other.check(&text).unwrap_err().contains("head"));
        let other = HeadProof { leaves: vec![other.head.hash.clone()], ..other };
        assert!(other.check(&text).unwrap_err().contains("leaves"));
        assert!(PublicKey { bytes: vec![8; 32], ..key }.split(&note).is_err());
        let gone = SignedHead { agent: "ada".into(), head: None };
        assert_eq!(SignedHead::of_list(&gone.listed()), Some(gone));
        assert_eq!(
            SignedHead::of_list(&checkpoint.heads[0].listed()),
            Some(checkpoint.heads[0].clone())
        );
    }
}
