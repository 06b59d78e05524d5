//! Checks an export file without a server: its own digests, and its rows against the ledger in it.

use std::collections::BTreeSet;

use super::fold::{Difference, Fold, Folded, Wrong};
use super::key::PublicKey;
use super::note::{Head, HeadProof};
use crate::memory::export::{Checker, Header, RowKind, parted};

/// Checks the lines of an export file one after the other.
#[derive(Debug)]
pub struct FileCheck {
    checker: Checker,
    fold: Fold,
    header: Option<Header>,
    /// The first line that breaks the format or the digests of the file.
    broken: Option<String>,
    lines: u64,
}

/// The result of a check of an export file.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// Name of the exported agent.
    pub agent: String,
    /// The comparison of the rows with the ledger. The signed head is not part of it.
    pub folded: Folded,
    /// The signed head in the file, whose signature is not checked yet.
    pub checkpoint: Option<HeadProof>,
    /// Digest of the lines before the trailer; empty if the file is broken.
    digest: String,
}

impl FileCheck {
    /// Returns a check that has read no line. `schema` is the newest schema that this program can
    /// read.
    pub fn new(schema: u64) -> Self {
        Self {
            checker: Checker::new(schema),
            fold: Fold::default(),
            header: None,
            broken: None,
            lines: 0,
        }
    }

    /// Takes the next line, without its line end. After a fault, the following rows are still
    /// compared with the ledger.
    pub fn line(&mut self, line: &str) {
        self.lines += 1;
        if self.header.is_none() {
            self.header = serde_json::from_str(line).ok();
        } else if let Ok((kind, row)) = parted(line) {
            self.fold.row(kind, &row);
        }
        if self.broken.is_none() {
            self.broken = self.checker.line(line).err();
        }
    }

    /// Compares the rows with the ledger. `now_s` is the time in seconds since 1970, which decides
    /// whether a row may be missing because of its age. An error says why the file cannot be
    /// checked.
    pub fn finish(self, now_s: u64) -> Result<FileReport, String> {
        let header = self.header.ok_or("the file is no export of an agent")?;
        let (plan, broken) = match (self.broken, self.checker.finish()) {
            (None, Ok(plan)) => (Some(plan), None),
            (Some(why), _) | (None, Err(why)) => (None, Some(why)),
        };
        let (checkpoint, digest) =
            plan.map_or((None, String::new()), |plan| (plan.checkpoint, plan.file));
        let checkpoint: Option<HeadProof> =
            checkpoint.and_then(|proof| serde_json::from_value(proof).ok());
        let signed: Vec<Head> = checkpoint.iter().map(|proof| proof.head.clone()).collect();
        let mut folded = self.fold.finish(&header.sealed_as, now_s, "", &signed);
        if let Some(what) = broken {
            let difference = Difference {
                wrong: Wrong::Shape,
                collection: RowKind::Core.collection(),
                row: "file".into(),
                what,
            };
            folded.differences.insert(0, difference);
        }
        Ok(FileReport { agent: header.agent, folded, checkpoint, digest })
    }
}

impl FileReport {
    /// Compares the signatures of the head and of the file with public keys. `verified` returns the
    /// text of a note if the key signed it, or says what is wrong. Returns the names of the keys
    /// that signed the head; adds a difference if there is none, or if none signed the file.
    pub fn check_signature(
        &mut self,
        keys: &[PublicKey],
        verified: impl Fn(&str, &PublicKey) -> Result<String, String>,
    ) -> BTreeSet<String> {
        let signers = match &self.checkpoint {
            Some(proof) => proof.signers(&self.agent, keys, &verified).and_then(|signers| {
                proof.check_file(&self.digest, keys, &verified)?;
                Ok(signers)
            }),
            None => Err("has no signed head".to_owned()),
        };
        signers.unwrap_or_else(|what| {
            self.differ(what);
            BTreeSet::new()
        })
    }

    /// Adds a difference if the file has entries after the signed head: a writer of the file could
    /// have added them. The server signs all entries of an export, unless another server writes to
    /// the agent meanwhile.
    pub fn check_end(&mut self) {
        let signed = self.checkpoint.as_ref().map(|proof| proof.head.n);
        if let Some(signed) = signed.filter(|signed| *signed < self.folded.entries) {
            let last = self.folded.entries;
            self.differ(format!("does not cover the entries {} to {last}", signed + 1));
        }
    }

    /// Adds a difference of the signed head. `what` completes a sentence about it.
    pub fn differ(&mut self, what: String) {
        let (wrong, collection) = (Wrong::Chain, RowKind::Events.collection());
        let row = "checkpoint".to_owned();
        self.folded.differences.push(Difference { wrong, collection, row, what });
    }
}
