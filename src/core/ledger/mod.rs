//! The ledger of an agent: a hash chain over all writes to the agent's rows. Each entry lists the
//! written rows with their digests, so that a fold over all entries gives the expected digest of
//! each row.
//!
//! An entry is an audit row of `memory_events` with four more attributes: `n` (number of the entry
//! from 1, without gaps), `rows` (the written rows, see [`Item`]), `hash` (see [`link`]) and a key
//! with the number. Decision 0032 explains the form.

mod fold;
mod item;
pub mod note;

pub use fold::{Difference, Fold, Folded, Wrong};
pub use item::{Item, RowState, Shape};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::memory::event::Event;
use crate::memory::receipt::{canonical_json, hex};

/// Returns the hash before the first entry: `SHA-256("vctx ledger 1" ‖ 0x00 ‖ name)`, in hex. The
/// name is the one that the digests of the agent's messages contain.
pub fn genesis(sealed_as: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"vctx ledger 1\0");
    hash.update(sealed_as.as_bytes());
    hex(&hash.finalize())
}

/// Returns the hash of an entry: `SHA-256(previous ‖ " " ‖ n ‖ " " ‖ text)`, in hex, where `text`
/// is the entry's [`text`]. The query that writes an entry computes the same hash.
pub fn link(previous: &str, n: u64, text: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{previous} {n} ").as_bytes());
    hash.update(text.as_bytes());
    hex(&hash.finalize())
}

/// Returns the text that the hash of an entry covers: the canonical JSON of the audit row's type,
/// time and details, and of the written rows.
pub fn text(event: &Event, rows: &[String]) -> String {
    let row = json!({"type": event.kind, "ts": event.ts, "details": event.details, "rows": rows});
    canonical_json(&row)
}

/// Returns the same text as [`text`] for an entry that was read from the database or from an
/// export.
pub fn text_of(row: &Map<String, Value>) -> String {
    let mut kept = Map::new();
    for name in ["type", "ts", "details", "rows"] {
        kept.insert(name.into(), row.get(name).cloned().unwrap_or(Value::Null));
    }
    canonical_json(&Value::Object(kept))
}
