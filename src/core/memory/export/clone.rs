//! Turns the rows of an agent's export into the rows of a clone: another agent with the same memory
//! in the same database.
//!
//! A database can hold a message id only once, and a digest covers the id and the agent. So each
//! message of a clone has a new id, digest and chain value; the digest of a message whose text is
//! gone stays, because it cannot be made again. What the server did for the agent stays behind:
//! prompts, stored answers, events, positions in clients' conversations, and releases from
//! quarantine. Schedules are taken along without a next tick.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::part::RowKind;
use super::row::{Owner, number, settled, text};
use crate::memory::core::CloneSource;
use crate::memory::message::Message;
use crate::memory::receipt;
use crate::sha::Sha256;

type Row = Map<String, Value>;

/// Attributes of a source's core that its clone does not have.
const LEFT: [&str; 8] =
    ["asked", "branch", "context", "released", "reserved", "run", "salt", "spending"];
/// Number of the last bytes of a message id that differ in a clone. The first bytes have the time,
/// so the ids of a clone have the order of the source's.
const MASK_BYTES: usize = 6;

/// Makes the rows of one clone, in the order of the export.
#[derive(Debug)]
pub struct CloneRows {
    key: String,
    source: CloneSource,
    mask: [u8; MASK_BYTES],
    chain: String,
    head: String,
}

impl CloneRows {
    /// Begins a clone with the given key; `chain_head` is the head that the chain of its messages
    /// will have, or empty in a first pass that only finds it.
    pub fn new(key: &str, source: CloneSource, chain_head: &str) -> Self {
        let digest = Sha256::digest(format!("vctx clone 1\0{key}").as_bytes());
        let mut mask = [0; MASK_BYTES];
        mask.copy_from_slice(&digest[..MASK_BYTES]);
        // An id must change.
        mask[MASK_BYTES - 1] |= 1;
        let chain = receipt::genesis(key);
        Self { key: key.to_owned(), source, mask, chain, head: chain_head.to_owned() }
    }

    /// Returns the head of the chain over the messages so far.
    pub fn chain_head(&self) -> &str {
        &self.chain
    }

    /// Returns the clone's row for a row of the source; `None` for a row that stays behind.
    pub fn row(&mut self, part: RowKind, mut row: Row) -> Result<Option<Row>, String> {
        match part {
            RowKind::Core => self.core(&mut row)?,
            RowKind::Messages => self.message(&mut row)?,
            RowKind::Recall | RowKind::RecallVectors => self.put_id(&mut row, "id")?,
            RowKind::Cites => self.put_id(&mut row, "message")?,
            RowKind::Derived if row.contains_key("message") => self.put_id(&mut row, "message")?,
            RowKind::Manifests | RowKind::Passages => self.provenance(&mut row),
            RowKind::Schedules => {
                for name in ["due_ms", "look_ms", "running"] {
                    row.insert(name.into(), Value::Null);
                }
            }
            RowKind::Versions | RowKind::Derived => {}
            RowKind::Prompts
            | RowKind::ToolSets
            | RowKind::Packs
            | RowKind::Answers
            | RowKind::Events => return Ok(None),
        }
        Ok(Some(row))
    }

    fn core(&self, row: &mut Row) -> Result<(), String> {
        let own = row.get("spending").and_then(|spending| spending.get("tokens_per_day")).cloned();
        LEFT.iter().for_each(|name| drop(row.shift_remove(*name)));
        if let Some(tokens) = own.filter(|tokens| *tokens != 0) {
            row.insert("spending".into(), json!({"tokens_per_day": tokens}));
        }
        row.insert("turns".into(), 0.into());
        row.insert("tool_sets".into(), json!([]));
        row.insert("recent_revisions".into(), "".into());
        if let Some(Value::Object(heartbeat)) = row.get_mut("heartbeat") {
            heartbeat.insert("chain".into(), Value::Null);
        }
        if let Some(Value::Object(chain)) = row.get_mut("chain") {
            chain.insert("head".into(), self.head.as_str().into());
        }
        row.insert("cloned".into(), json!(self.source));
        Ok(())
    }

    fn message(&mut self, row: &mut Row) -> Result<(), String> {
        self.put_id(row, "id")?;
        if row.get("copy_of").is_some_and(Value::is_string) {
            self.put_id(row, "copy_of")?;
        }
        row.shift_remove("thread");
        row.shift_remove("follows");
        let owner = Owner {
            scope: self.key.clone(),
            tenant: String::new(),
            sealed_as: self.key.clone(),
            vector: None,
            number: 1,
        };
        let message = settled(RowKind::Messages, row.clone(), &owner)?;
        let mut message: Message = serde_json::from_value(message.into())
            .map_err(|error| format!("is no message: {error}"))?;
        match message.expired_at {
            Some(_) => message.chain = receipt::link(&self.chain, &message.digest),
            None => message.seal(&self.key, &self.chain),
        }
        row.insert("digest".into(), message.digest.into());
        row.insert("chain".into(), message.chain.as_str().into());
        self.chain = message.chain;
        Ok(())
    }

    /// Replaces the id of a message.
    fn put_id(&self, row: &mut Row, name: &str) -> Result<(), String> {
        let id = self.id(text(row, name)?).ok_or_else(|| format!("has a bad `{name}`"))?;
        row.insert(name.into(), id.into());
        Ok(())
    }

    /// Returns the id of the clone's message for an id of the source's; `None` for any other text.
    fn id(&self, id: &str) -> Option<String> {
        let mut bytes = *Uuid::try_parse(id).ok()?.as_bytes();
        let last = bytes.iter_mut().rev().take(MASK_BYTES);
        last.zip(self.mask.iter().rev()).for_each(|(byte, mask)| *byte ^= mask);
        Some(Uuid::from_bytes(bytes).hyphenated().to_string())
    }

    /// Replaces the ids of messages from which a document was made.
    fn provenance(&self, row: &mut Row) {
        let Some(ids) = row.get_mut("provenance").and_then(|one| one.get_mut("message_ids")) else {
            return;
        };
        for id in ids.as_array_mut().into_iter().flatten() {
            if let Some(own) = id.as_str().and_then(|id| self.id(id)) {
                *id = own.into();
            }
        }
    }
}

/// Returns the number and hash of an entry of the ledger, if the row of an export is one.
pub fn entry_of(part: RowKind, row: &Row) -> Option<(u64, String)> {
    match part {
        RowKind::Events => Some((number(row, "n").ok()?, text(row, "hash").ok()?.to_owned())),
        _ => None,
    }
}
