//! The keys under which the answers to calls are stored, for calls that are repeated.

use super::receipt::sha256;

/// Begin of the stored form of an idempotency key.
const KEPT_KEY: &str = "sha256:";

/// Returns the form in which a call's record contains the idempotency key: a digest, since a
/// caller's key may contain text that must be forgotten later.
pub fn kept_key(key: &str) -> String {
    format!("{KEPT_KEY}{}", sha256(key))
}

/// Returns whether a key has the stored form. A record without it is of an earlier program version,
/// which stored the caller's key itself.
pub fn is_kept_key(key: &str) -> bool {
    key.starts_with(KEPT_KEY)
}

/// Returns the document key of a call's record: the hash of the agent and of the stored form of the
/// idempotency key. If the call is written in parts, each part has its own record.
pub fn answer_key(scope: &str, kept: &str, part: Option<u64>) -> String {
    let whole = sha256(&format!("{scope}\0{kept}"));
    match part {
        None => whole,
        Some(part) => part_key(&whole, part),
    }
}

/// Returns the document key of the record of a part, from the document key of the whole call's
/// record.
pub fn part_key(whole: &str, part: u64) -> String {
    sha256(&format!("{whole}\0part\0{part}"))
}
