//! Receipts of messages: the canonical text of a message, the digest of this text, and the hash
//! chain over all digests.

use std::borrow::Cow;
use std::io::Write as _;

use serde_json::{Map, Value, json};

use crate::sha::Sha256;

/// Returns the chain value before the first message: `SHA-256("vctx chain 1" ‖ 0x00 ‖ agent_id)`,
/// in hex.
pub fn genesis(agent_id: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"vctx chain 1\0");
    hash.update(agent_id.as_bytes());
    hex(&hash.finalize())
}

/// Returns the digest of a message: `SHA-256(salt ‖ 0x00 ‖ canonical)`, in hex. Once text and salt
/// are removed, the digest cannot confirm a guess of the text.
pub fn digest(salt: &str, canonical: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(salt.as_bytes());
    hash.update(b"\0");
    hash.update(canonical.as_bytes());
    hex(&hash.finalize())
}

/// Returns the next chain value: `SHA-256(previous ‖ digest)` over the two hex texts, in hex.
pub fn link(previous: &str, digest: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(previous.as_bytes());
    hash.update(digest.as_bytes());
    hex(&hash.finalize())
}

/// Returns the SHA-256 of a text, in hex.
pub fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Returns the text that a message's digest covers: the fields
/// `agent_id, id, seq, kind, copy_of, role, content, meta, created_at` as `/messages` returns them
/// (missing values are null). The digest does not cover token estimates, because they change with
/// the agent's token encoding.
pub fn canonical_message(agent_id: &str, message: &Value) -> String {
    let mut fields = Map::new();
    fields.insert("agent_id".into(), json!(agent_id));
    for name in ["id", "seq", "kind", "copy_of", "role", "content", "meta", "created_at"] {
        fields.insert(name.into(), message.get(name).cloned().unwrap_or(Value::Null));
    }
    canonical_json(&Value::Object(fields))
}

/// Formats JSON with sorted attribute names and without spaces. Whole numbers are written without a
/// fraction. If the value is stored in the database and read again, its text therefore stays the
/// same.
pub fn canonical_json(value: &Value) -> String {
    let mut out = Vec::with_capacity(CANONICAL_BYTES);
    write_canonical(value, &mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Formats an object, given as pairs of names and values, like [`canonical_json`]. Returns the
/// bytes of the text.
pub(crate) fn canonical_object(pairs: &[(&str, Cow<'_, Value>)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(CANONICAL_BYTES);
    write_object(pairs.iter().map(|(name, value)| (*name, &**value)).collect(), &mut out);
    out
}

/// Room for a canonical text, in bytes: most rows without long texts fit, so that the text grows
/// without copies.
const CANONICAL_BYTES: usize = 2_048;

fn write_object(mut pairs: Vec<(&str, &Value)>, out: &mut Vec<u8>) {
    pairs.sort_unstable_by_key(|(name, _)| *name);
    out.push(b'{');
    for (i, (name, value)) in pairs.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_text(name, out);
        out.push(b':');
        write_canonical(value, out);
    }
    out.push(b'}');
}

/// Number of bytes that are looked at together for characters that need an escape.
const LOOK_BYTES: usize = 64;

/// Writes a text as JSON. Long texts need few escapes, so pieces without any are copied as a whole,
/// which takes a tenth of the time of a writer that looks at one byte after the other.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut pieces = text.as_bytes().chunks_exact(LOOK_BYTES);
    for piece in &mut pieces {
        // Without a branch and of a fixed length, so that many bytes are compared at once.
        let escaped =
            |byte: u8| u8::from(byte < b' ') | u8::from(byte == b'"') | u8::from(byte == b'\\');
        if piece.iter().fold(0, |any, byte| any | escaped(*byte)) == 0 {
            out.extend_from_slice(piece);
        } else {
            piece.iter().for_each(|byte| write_escaped(*byte, out));
        }
    }
    pieces.remainder().iter().for_each(|byte| write_escaped(*byte, out));
    out.push(b'"');
}

/// Writes a byte of a text with the escape that serde_json gives it.
fn write_escaped(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        0..b' ' => {
            let digits = [HEX_DIGITS[usize::from(byte >> 4)], HEX_DIGITS[usize::from(byte & 15)]];
            out.extend_from_slice(b"\\u00");
            return out.extend_from_slice(&digits);
        }
        _ => return out.push(byte),
    };
    out.extend_from_slice(&[b'\\', short]);
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            write_object(map.iter().map(|(name, value)| (name.as_str(), value)).collect(), out);
        }
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_canonical(item, out);
            }
            out.push(b']');
        }
        Value::Number(number) => write_number(number, out),
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(is) => out.extend_from_slice(if *is { b"true" } else { b"false" }),
    }
}

/// 2^53, above which a double cannot represent every whole number (IEEE 754).
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

fn write_number(number: &serde_json::Number, out: &mut Vec<u8>) {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < WHOLE_MAX => {
            write!(out, "{float:.0}").expect("a vector takes all bytes");
        }
        _ => serde_json::to_writer(out, number).expect("a number is JSON"),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(HEX_DIGITS[usize::from(byte >> 4)] as char);
        out.push(HEX_DIGITS[usize::from(byte & 15)] as char);
    }
    out
}
