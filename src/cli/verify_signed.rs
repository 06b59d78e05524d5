//! Compares signed heads of ledgers with the public keys that a caller of `vctx verify` trusts.

use serde_json::{Value, json};

use crate::exit::Failure;
use vctx_base::signing;
use vctx_core::ledger::key::{KeyKind, PublicKey};
use vctx_core::ledger::note::HeadProof;
use vctx_core::memory::receipt_check::{Mismatch, Proof};

/// The keys that the caller trusts, and the signed head that the caller has kept.
#[derive(Debug, Default)]
pub struct Trust {
    keys: Vec<PublicKey>,
    /// The agent of a receipt and the signed head in it.
    kept: Option<(String, HeadProof)>,
}

impl Trust {
    /// Reads the texts of public keys.
    pub fn of_keys(texts: &[String]) -> Result<Self, Failure> {
        let keys: Result<Vec<_>, Failure> = texts
            .iter()
            .map(|text| {
                let wrong = |why| Failure::data(format!("the public key {text} {why}"));
                PublicKey::parse(text, KeyKind::Log).map_err(wrong)
            })
            .collect();
        Ok(Self { keys: keys?, kept: None })
    }

    /// Returns whether no key is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the keys.
    pub(crate) fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// Keeps the signed head in a receipt of an agent; null if there is none.
    pub(crate) fn keep(&mut self, agent: &str, proof: &Value) -> Result<(), String> {
        if proof.is_null() {
            return Ok(());
        }
        let wrong = |error| format!("the signed head cannot be read: {error}");
        let proof: HeadProof = serde_json::from_value(proof.clone()).map_err(wrong)?;
        self.kept = Some((agent.to_owned(), proof));
        Ok(())
    }

    /// Returns number and hash of the entry of the kept head, if it is one of this agent.
    pub(crate) fn kept_head(&self, agent: &str) -> Option<(u64, &str)> {
        let (_, proof) = self.kept.as_ref().filter(|(of, _)| of == agent)?;
        Some((proof.head.n, &proof.head.hash))
    }

    /// Compares the signed head of an agent with the keys, if there are any: names in the report the
    /// keys that signed it, or adds a difference.
    pub(crate) fn check_head(&self, ledger: &mut Value, agent: &str, proof: Value) {
        if self.keys.is_empty() {
            return;
        }
        let proof: Option<HeadProof> = serde_json::from_value(proof).ok();
        match self.signers(agent, proof.as_ref()) {
            Ok(signers) => {
                let entries = proof.map(|proof| proof.head.n);
                ledger["signed"]["entries"] = json!(entries);
                ledger["signed"]["keys"] = signers;
            }
            Err(what) => {
                ledger["signed"]["keys"] = json!([]);
                let differs = json!({"wrong": "chain", "collection": "memory_events",
                    "row": "checkpoint", "what": what});
                if let Some(all) = ledger["differences"].as_array_mut() {
                    all.insert(0, differs);
                }
            }
        }
    }

    /// Compares the signed head in a receipt with the keys, if there are any.
    pub(crate) fn check_receipt(&self, proof: &mut Proof) {
        if self.keys.is_empty() {
            return;
        }
        let kept = self.kept.as_ref().map(|(_, head)| head);
        if let Err(why) = self.signers(&proof.agent, kept) {
            proof.mismatches.push(Mismatch {
                seq: None,
                what: format!("the signed head of the receipt {why}"),
                expected: "a signature of one of the given keys".into(),
                found: "none".into(),
            });
        }
    }

    /// Returns the signed head in the receipt for the report, with the keys that signed it.
    pub(crate) fn receipt_told(&self) -> Value {
        let Some((agent, proof)) = &self.kept else { return Value::Null };
        let keys = match self.keys.is_empty() {
            true => Value::Null,
            false => self.signers(agent, Some(proof)).unwrap_or_else(|_| json!([])),
        };
        json!({"entries": proof.head.n, "head": proof.head.hash, "keys": keys})
    }

    fn signers(&self, agent: &str, proof: Option<&HeadProof>) -> Result<Value, String> {
        let proof = proof.ok_or("is missing")?;
        Ok(json!(proof.signers(agent, &self.keys, signing::verified)?))
    }
}

/// Returns the names of the keys that signed a head, as a part of a sentence; empty if the
/// signature was not checked.
pub(crate) fn signers_text(signed: &Value) -> String {
    let Some(keys) = signed["keys"].as_array() else { return String::new() };
    let names: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
    match names.is_empty() {
        true => " by none of the given keys".to_owned(),
        false => format!(" by {}", names.join(", ")),
    }
}
