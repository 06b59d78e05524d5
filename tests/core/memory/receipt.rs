//! Tests digests, hash-chain links and canonical texts of messages.

use serde_json::json;
use vctx_core::memory::receipt::{canonical_json, canonical_message, digest, sha256};

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
