//! The ledger of an agent: a hash chain over all writes to the agent's rows. Each entry lists the
//! written rows with their digests, so that a fold over all entries gives the expected digest of
//! each row.
//!
//! An entry is an audit row of `memory_events` with four more attributes: `n` (number of the entry
//! from 1, without gaps), `rows` (the written rows, see [`Item`]), `hash` (see [`link`]) and a key
//! with the number. Decision 0032 explains the form.

mod described;
mod file;
mod fold;
mod item;
pub mod key;
pub mod note;
pub mod rotation;
mod secret;
pub mod witness;

pub use described::CoreEntry;
pub use file::{FileCheck, FileReport};
pub use fold::{Difference, Fold, Folded, Wrong};
pub use item::{ITEMS_VERSION, Item, LocalKind, RowState, Shape};
pub use secret::Secret;

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::memory::receipt::{canonical_object, hex};
use crate::sha::Sha256;

/// Returns the hash before the first entry: `SHA-256("vctx ledger 1" ‖ 0x00 ‖ name)`, in hex. The
/// name is the one that the digests of the agent's messages contain.
pub fn genesis(sealed_as: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"vctx ledger 1\0");
    hash.update(sealed_as.as_bytes());
    hex(&hash.finalize())
}

/// Returns the hash of an entry: `SHA-256(previous ‖ " " ‖ n ‖ " " ‖ text)`, in hex, where `text`
/// is the entry's [`text_of`].
pub fn link(previous: &str, n: u64, text: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{previous} {n} ").as_bytes());
    hash.update(text.as_bytes());
    hex(&hash.finalize())
}

/// Returns the text that the hash of an entry covers: the SHA-256, in hex, of the canonical JSON of
/// the audit row's type, time and details, and of the written rows. In an entry of version 1, it is
/// the canonical JSON itself.
pub fn text_of(row: &Map<String, Value>) -> String {
    let [kind, ts, details, rows] =
        ["type", "ts", "details", "rows"].map(|name| (name, row.get(name).unwrap_or(&NULL)));
    let text = canonical_object(
        &[kind, ts, details, rows].map(|(name, value)| (name, Cow::Borrowed(value))),
    );
    match rows.1[0] == ITEMS_VERSION {
        true => hex(&Sha256::digest(text)),
        false => String::from_utf8(text).expect("JSON is UTF-8"),
    }
}

const NULL: Value = Value::Null;
