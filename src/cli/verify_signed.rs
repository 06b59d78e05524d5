//! Compares signed heads of ledgers with the public keys that a caller of `vctx verify` trusts.

use serde_json::{Value, json};

use crate::exit::Failure;
use vctx_base::clock::iso8601;
use vctx_base::signing;
use vctx_core::ledger::key::{KeyKind, PublicKey};
use vctx_core::ledger::note::HeadProof;
use vctx_core::memory::receipt_check::{Mismatch, Proof};

/// The keys that the caller trusts, and the signed head that the caller has kept.
#[derive(Debug, Default)]
pub struct Trust {
    keys: Vec<PublicKey>,
    witness_keys: Vec<PublicKey>,
    /// The agent of a receipt and the signed head in it.
    kept: Option<(String, HeadProof)>,
}

impl Trust {
    /// Reads the texts of public keys of servers and of witnesses.
    pub fn of_keys(servers: &[String], witnesses: &[String]) -> Result<Self, Failure> {
        let read = |texts: &[String], kind| -> Result<Vec<PublicKey>, Failure> {
            let keys = texts.iter().map(|text| {
                let wrong = |why| Failure::data(format!("the public key {text} {why}"));
                PublicKey::parse(text, kind).map_err(wrong)
            });
            keys.collect()
        };
        let keys = read(servers, KeyKind::Log)?;
        Ok(Self { keys, witness_keys: read(witnesses, KeyKind::Witness)?, kept: None })
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

    /// Compares the signed head of an agent with the keys, if there are any: names in the report
    /// the keys that signed it, or adds a difference.
    pub(crate) fn check_head(&self, ledger: &mut Value, agent: &str, proof: Value) {
        if self.keys.is_empty() {
            return;
        }
        let proof: Option<HeadProof> = serde_json::from_value(proof).ok();
        match self.signed(agent, proof.as_ref()) {
            Ok((signers, cosigned)) => {
                let entries = proof.map(|proof| proof.head.n);
                ledger["signed"]["entries"] = json!(entries);
                ledger["signed"]["keys"] = signers;
                ledger["signed"]["cosigned"] = cosigned;
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
        if let Err(why) = self.signed(&proof.agent, kept) {
            proof.mismatches.push(Mismatch {
                seq: None,
                what: format!("the signed head of the receipt {why}"),
                expected: "a signature of the given keys".into(),
                found: "none".into(),
            });
        }
    }

    /// Returns the signed head in the receipt for the report, with the keys that signed it.
    pub(crate) fn receipt_told(&self) -> Value {
        let Some((agent, proof)) = &self.kept else { return Value::Null };
        let (keys, cosigned) = match self.keys.is_empty() {
            true => (Value::Null, Value::Null),
            false => self.signed(agent, Some(proof)).unwrap_or_else(|_| (json!([]), Value::Null)),
        };
        json!({"entries": proof.head.n, "head": proof.head.hash, "keys": keys, "cosigned": cosigned})
    }

    /// Returns the keys that signed a head, and the witnesses that cosigned it: name, and time. An
    /// error says which signature is missing.
    fn signed(&self, agent: &str, proof: Option<&HeadProof>) -> Result<(Value, Value), String> {
        let proof = proof.ok_or("is missing")?;
        let signers = json!(proof.signers(agent, &self.keys, signing::verified)?);
        Ok((signers, self.cosigned(&proof.note)?))
    }

    /// Returns the witnesses that cosigned a note: name, and time. Returns null if no key of a
    /// witness is given; an error says why no witness cosigned it.
    pub(crate) fn cosigned(&self, note: &str) -> Result<Value, String> {
        let (mut found, mut why) = (Vec::new(), String::new());
        for key in &self.witness_keys {
            match signing::cosigned(note, key) {
                Ok(at_s) => found.push(json!({"by": key.name, "at": iso8601(at_s * 1_000)})),
                Err(wrong) => why = format!("{wrong} (witness {})", key.name),
            }
        }
        match (self.witness_keys.is_empty(), found.is_empty()) {
            (true, _) => Ok(Value::Null),
            (false, true) => Err(why),
            (false, false) => Ok(found.into()),
        }
    }
}

/// Returns the names of the keys that signed a head, as a part of a sentence; empty if the
/// signature was not checked.
pub(crate) fn signers_text(signed: &Value) -> String {
    let Some(keys) = signed["keys"].as_array() else { return String::new() };
    let names: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
    let mut text = match names.is_empty() {
        true => " by none of the given keys".to_owned(),
        false => format!(" by {}", names.join(", ")),
    };
    for one in signed["cosigned"].as_array().into_iter().flatten() {
        let word = |name: &str| one[name].as_str().unwrap_or_default();
        text += &format!(", cosigned by {} at {}", word("by"), word("at"));
    }
    text
}
