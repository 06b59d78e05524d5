//! Tests that a receipt proves which messages a prompt showed, and that each false claim in a
//! receipt is named.

use serde_json::{Value, json};
use vctx_core::memory::receipt;
use vctx_core::memory::receipt_check::{Proof, ReceiptCheck};
use vctx_core::memory::verify::text_of;

use super::verify::log;

/// Returns an answer of the context tool for a window with these messages of a log.
fn sample_answer(agent: &str, messages: &[Value], chain_length: u64, chain_head: &str) -> Value {
    let rendered: Vec<Value> = messages
        .iter()
        .map(|message| json!({"role": message["role"], "content": message["content"]}))
        .collect();
    let items: Vec<Value> = messages
        .iter()
        .map(|message| json!({"section": "fifo", "id": message["id"], "seq": message["seq"], "role": message["role"], "tokens": 5, "digest": message["digest"]}))
        .collect();
    let manifest = json!({
        "agent": agent, "version": 9, "chain": {"head": chain_head, "length": chain_length},
        "messages_digest": receipt::sha256(&receipt::canonical_json(&json!(rendered))), "items": items,
    });
    json!({"messages": rendered, "context_digest": receipt::sha256(&receipt::canonical_json(&manifest)), "manifest": manifest})
}

fn proof(tamper: impl FnOnce(&mut Value, &mut Vec<Value>)) -> Proof {
    let (_, mut messages) = log();
    let head = messages[7]["chain"].as_str().unwrap().to_string();
    let mut answer = sample_answer("ada", &messages[4..8], 8, &head);
    tamper(&mut answer, &mut messages);
    let mut check = ReceiptCheck::new(&answer).unwrap();
    for message in &messages {
        check.message(message);
    }
    check.finish()
}

fn said(tamper: impl FnOnce(&mut Value, &mut Vec<Value>)) -> Vec<String> {
    proof(tamper).mismatches.into_iter().map(|mismatch| mismatch.what).collect()
}

#[test]
fn a_receipt_proves_what_was_in_the_prompt_and_what_was_not() {
    let proof = proof(|_, _| {});
    assert_eq!(proof.mismatches, []);
    assert_eq!(
        (4..=9).map(|seq| proof.contains(seq)).collect::<Vec<_>>(),
        [false, true, true, true, true, false]
    );
}

#[test]
fn each_lie_is_named() {
    assert_eq!(
        said(|a, _| a["manifest"]["version"] = json!(10)),
        ["the context digest does not match the manifest"]
    );
    assert_eq!(
        said(|a, _| a["messages"][0]["content"] = json!("x")),
        [
            "the messages do not match the manifest",
            "the prompt showed another text or role than the log has"
        ]
    );
    assert_eq!(
        said(|_, m| m[5]["content"] = json!("other")),
        ["the prompt showed another text or role than the log has"]
    );
    assert_eq!(
        said(|_, m| m[5]["digest"] = json!("00")),
        ["the item's digest does not match the message"]
    );
    assert_eq!(said(|_, m| drop(m.remove(5))), ["the message is not in the log"]);
    assert_eq!(
        said(|_, m| m[7]["chain"] = json!("00")),
        ["the chain head is not the log's at length 8"]
    );
    assert_eq!(said(|_, m| m.truncate(7)).len(), 2);
}

/// A search copied message 6 into the window. The log contains the copy's text and mark, and the
/// prompt shows both the message and its copy.
#[test]
fn a_marked_copy_is_shown_under_its_mark() {
    let mark = "[recalled: seq 2, user, 2026-01-01]\n";
    let said = |prompt: &str| {
        said(|a, m| {
            m[5]["meta"] = json!({"recalled": {"seq": 2, "created_at": "2026-01-01"}});
            m[5]["role"] = json!("user");
            let content = format!("{prompt}{}", text_of(&m[5], "content"));
            a["messages"][1] = json!({"role": "user", "content": content});
            let digest = receipt::sha256(&receipt::canonical_json(&a["messages"]));
            a["manifest"]["messages_digest"] = json!(digest);
            let digest = receipt::sha256(&receipt::canonical_json(&a["manifest"]));
            a["context_digest"] = json!(digest);
        })
    };
    assert_eq!(said(mark), Vec::<String>::new());
    assert_eq!(said(""), ["the prompt showed another text or role than the log has"]);
}

/// The name in the digests stays the same if an import gives the agent another name, so a state
/// with another name for the digests contradicts the receipt.
#[test]
fn a_state_with_another_name_for_the_digests_contradicts_the_receipt() {
    let said = |state: Value| {
        let (_, messages) = log();
        let head = messages[7]["chain"].as_str().unwrap().to_string();
        let mut check = ReceiptCheck::new(&sample_answer("ada", &messages, 8, &head)).unwrap();
        check.state(&state);
        messages.iter().for_each(|message| check.message(message));
        check.finish().mismatches
    };
    assert_eq!(said(json!({"agent": "ada"})), []);
    assert_eq!(said(json!({"agent": "bea", "agent_id": "ada"})), []);
    for state in [json!({"agent": "ada", "agent_id": "eve"}), json!({"agent": "eve"})] {
        let found = said(state);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].expected.as_str(), found[0].found.as_str()), ("eve", "ada"));
    }
}

#[test]
fn what_is_no_receipt_is_refused() {
    assert!(
        ReceiptCheck::new(&json!({"messages": []})).err().unwrap().contains("vctx context --json")
    );
}
