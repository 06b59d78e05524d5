//! Receipts: the canonical text of a message, its digest, and the hash chain that proves a log was only appended to.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// Chain value before the first message of an agent: `SHA-256("vctx chain 1" ‖ 0x00 ‖ agent_id)`, in hex.
pub fn genesis(agent_id: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"vctx chain 1\0");
    hash.update(agent_id.as_bytes());
    hex(&hash.finalize())
}

/// Digest of a message: `SHA-256(salt ‖ 0x00 ‖ canonical)`, in hex. The salt keeps a digest from confirming a guess of the
/// text after text and salt were forgotten.
pub fn digest(salt: &str, canonical: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(salt.as_bytes());
    hash.update(b"\0");
    hash.update(canonical.as_bytes());
    hex(&hash.finalize())
}

/// Next chain value: `SHA-256(previous ‖ digest)` over the two hex texts, in hex.
pub fn link(previous: &str, digest: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(previous.as_bytes());
    hash.update(digest.as_bytes());
    hex(&hash.finalize())
}

/// SHA-256 of a text, in hex.
pub fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// What of a message is under its digest: `agent_id, id, seq, kind, copy_of, role, content, meta, created_at`. A message is
/// given as `/messages` answers it (missing attributes count as null); token estimates stay out, since an agent's encoding may change.
pub fn canonical_message(agent_id: &str, message: &Value) -> String {
    let mut fields = Map::new();
    fields.insert("agent_id".into(), json!(agent_id));
    for name in ["id", "seq", "kind", "copy_of", "role", "content", "meta", "created_at"] {
        fields.insert(name.into(), message.get(name).cloned().unwrap_or(Value::Null));
    }
    canonical_json(&Value::Object(fields))
}

/// JSON with sorted names, no spaces, and whole numbers without a fraction, so that a trip through a database does not change it.
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut names: Vec<&String> = map.keys().collect();
            names.sort();
            out.push('{');
            for (i, name) in names.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write_canonical(&map[name], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Number(number) => out.push_str(&canonical_number(number)),
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

/// 2^53: above it a double no longer holds every whole number (IEEE 754).
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

fn canonical_number(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < WHOLE_MAX => {
            format!("{float:.0}")
        }
        _ => number.to_string(),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)] as char);
        out.push(DIGITS[usize::from(byte & 15)] as char);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_names_and_the_form_of_whole_numbers_do_not_matter() {
        let a = json!({"b": [1, {"y": 2.0, "x": null}], "a": "ä"});
        let b = json!({"a": "ä", "b": [1.0, {"x": null, "y": 2}]});
        assert_eq!(canonical_json(&a), canonical_json(&b));
        assert_eq!(canonical_json(&a), r#"{"a":"ä","b":[1,{"x":null,"y":2}]}"#);
    }

    #[test]
    fn each_part_of_a_message_changes_its_digest() {
        let message = json!({"id": "m1", "seq": 3, "kind": "turn", "role": "user", "content": "hi", "meta": {}, "created_at": "t"});
        let first = digest("s", &canonical_message("a", &message));
        for (name, other) in [
            ("id", json!("m2")),
            ("seq", json!(4)),
            ("kind", json!("event")),
            ("role", json!("tool")),
            ("content", json!("hi ")),
            ("meta", json!({"name": "x"})),
            ("created_at", json!("u")),
            ("copy_of", json!("m0")),
        ] {
            let mut changed = message.clone();
            changed[name] = other;
            assert_ne!(first, digest("s", &canonical_message("a", &changed)), "{name}");
        }
        assert_ne!(first, digest("s", &canonical_message("b", &message)));
        assert_ne!(first, digest("t", &canonical_message("a", &message)));
    }

    #[test]
    fn the_empty_text_has_the_known_sha256() {
        assert_eq!(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
