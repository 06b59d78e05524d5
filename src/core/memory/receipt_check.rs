//! A saved rendered context held against the log: its digests recompute, its chain head is the log's, its items are the log's messages.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::memory::message::{Role, rendered};
use crate::memory::receipt;
use crate::memory::verify::{text_of, whole};

/// Items of a manifest; a window of a million tokens does not hold more.
const ITEMS_MAX: usize = 1_000_000;

/// One thing the receipt says that is not so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The message at fault; `None` when the receipt itself is.
    pub seq: Option<u64>,
    /// What is wrong, in one sentence.
    pub what: String,
    /// What would be right.
    pub expected: String,
    /// What is there instead.
    pub found: String,
}

/// What a receipt proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Whose context it was.
    pub agent: String,
    /// The digest of the receipt.
    pub context_digest: String,
    /// Length of the log when the context was rendered.
    pub chain_length: u64,
    /// Sequence numbers of the messages that were in the prompt.
    pub in_prompt: Vec<u64>,
    /// What the receipt says that is not so.
    pub mismatches: Vec<Mismatch>,
}

impl Proof {
    /// True when nothing contradicts the receipt.
    pub fn holds(&self) -> bool {
        self.mismatches.is_empty()
    }

    /// Whether message `seq` was in the prompt.
    pub fn contains(&self, seq: u64) -> bool {
        self.in_prompt.binary_search(&seq).is_ok()
    }
}

/// Takes a saved answer of `/context`, then every row of the log, and ends with a [`Proof`].
pub struct ReceiptCheck {
    agent: String,
    context_digest: String,
    chain_head: String,
    chain_length: u64,
    /// Item of the manifest and message as rendered, by sequence number; an entry leaves when its row was seen.
    expected: BTreeMap<u64, (Value, Value)>,
    in_prompt: Vec<u64>,
    seen_head: bool,
    mismatches: Vec<Mismatch>,
}

impl ReceiptCheck {
    /// Checks the receipt in itself. An error says what of a receipt is missing.
    pub fn new(answer: &Value) -> Result<ReceiptCheck, String> {
        let manifest = answer
            .get("manifest")
            .ok_or("the receipt has no manifest: save the whole answer of `vctx context --json`")?;
        let items =
            manifest.get("items").and_then(Value::as_array).ok_or("the manifest has no items")?;
        if items.len() > ITEMS_MAX {
            return Err(format!("the manifest has more than {ITEMS_MAX} items"));
        }
        let agent_id = manifest
            .get("agent")
            .and_then(Value::as_str)
            .ok_or("the manifest has no agent")?
            .to_string();
        let chain_length = manifest
            .pointer("/chain/length")
            .and_then(whole)
            .ok_or("the manifest has no chain length")?;
        let chain_head = manifest
            .pointer("/chain/head")
            .and_then(Value::as_str)
            .ok_or("the manifest has no chain head")?
            .to_string();
        let mut check = ReceiptCheck {
            seen_head: chain_length == 0,
            agent: answer.get("agent").and_then(Value::as_str).unwrap_or(&agent_id).to_string(),
            context_digest: text_of(answer, "context_digest"),
            chain_head,
            chain_length,
            expected: BTreeMap::new(),
            in_prompt: Vec::new(),
            mismatches: Vec::new(),
        };
        check.own_digests(answer, manifest);
        check.items(items, answer);
        if chain_length == 0 {
            check.head(&receipt::genesis(&agent_id));
        }
        Ok(check)
    }

    /// The agent whose log must be read.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    fn own_digests(&mut self, answer: &Value, manifest: &Value) {
        let made = receipt::sha256(&receipt::canonical_json(manifest));
        let stated = self.context_digest.clone();
        self.compare(None, "the context digest is not that of the manifest", made, stated);
        let Some(messages) = answer.get("messages") else {
            return self.compare(
                None,
                "the receipt has no messages",
                "the rendered messages".into(),
                "none".into(),
            );
        };
        let made = receipt::sha256(&receipt::canonical_json(messages));
        self.compare(
            None,
            "the messages are not those of the manifest",
            made,
            text_of(manifest, "messages_digest"),
        );
    }

    /// Items and rendered messages go in pairs. What is no message of the log is under the digest of its own text.
    fn items(&mut self, items: &[Value], answer: &Value) {
        let rendered =
            answer.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let what = "the manifest has other items than there are messages";
        self.compare(None, what, rendered.len().to_string(), items.len().to_string());
        for (item, message) in items.iter().zip(rendered) {
            let Some(seq) = item.get("seq").and_then(whole) else {
                let made = receipt::sha256(&receipt::canonical_json(message));
                let what = format!("the digest of {} is not that of its text", text_of(item, "id"));
                self.compare(None, &what, made, text_of(item, "digest"));
                continue;
            };
            if self.expected.insert(seq, (item.clone(), message.clone())).is_some() {
                let what = "the manifest has the message twice";
                self.compare(Some(seq), what, "once".into(), "twice".into());
            }
        }
        self.in_prompt = self.expected.keys().copied().collect();
    }

    /// Takes the next row of the log.
    pub fn message(&mut self, message: &Value) {
        let Some(seq) = message.get("seq").and_then(whole) else { return };
        if let Some((item, rendered)) = self.expected.remove(&seq) {
            self.row(seq, message, &item, &rendered);
        }
        if seq == self.chain_length {
            self.seen_head = true;
            self.head(&text_of(message, "chain"));
        }
    }

    fn row(&mut self, seq: u64, row: &Value, item: &Value, rendered: &Value) {
        let (id, digest) = (text_of(item, "id"), text_of(item, "digest"));
        self.compare(
            Some(seq),
            "the item's digest is not that of the message",
            text_of(row, "digest"),
            digest,
        );
        self.compare(Some(seq), "the item's id is not that of the message", text_of(row, "id"), id);
        let is_forgotten = row.get("content").is_none_or(Value::is_null);
        if !is_forgotten && as_shown(row).as_ref() != Some(rendered) {
            let what = "the prompt showed another text or role than the log has";
            self.compare(Some(seq), what, "the log's".into(), "another".into());
        }
    }

    fn head(&mut self, chain: &str) {
        let stated = self.chain_head.clone();
        let what = format!("the chain head is not the log's at length {}", self.chain_length);
        self.compare(None, &what, chain.to_string(), stated);
    }

    /// Ends when every row was taken.
    pub fn finish(mut self) -> Proof {
        if !self.seen_head {
            let what = "the log is shorter than when the context was rendered";
            self.compare(
                None,
                what,
                format!("at least {} messages", self.chain_length),
                "fewer".into(),
            );
        }
        for seq in std::mem::take(&mut self.expected).into_keys() {
            self.compare(
                Some(seq),
                "the message is not in the log",
                format!("message {seq}"),
                "none".into(),
            );
        }
        Proof {
            agent: self.agent,
            context_digest: self.context_digest,
            chain_length: self.chain_length,
            in_prompt: self.in_prompt,
            mismatches: self.mismatches,
        }
    }

    fn compare(&mut self, seq: Option<u64>, what: &str, expected: String, found: String) {
        if expected != found {
            self.mismatches.push(Mismatch { seq, what: what.to_string(), expected, found });
        }
    }
}

/// The chat message that a row of the log stands for; none if its role is no role.
fn as_shown(row: &Value) -> Option<Value> {
    let role: Role = serde_json::from_value(row.get("role")?.clone()).ok()?;
    let meta = row.get("meta").and_then(Value::as_object).cloned().unwrap_or_default();
    Some(rendered(role, &text_of(row, "content"), &meta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::verify::tests::log;
    use serde_json::json;

    /// A context answer over `messages` of a log.
    fn sample_answer(
        agent: &str,
        messages: &[Value],
        chain_length: u64,
        chain_head: &str,
    ) -> Value {
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
            ["the context digest is not that of the manifest"]
        );
        assert_eq!(
            said(|a, _| a["messages"][0]["content"] = json!("x")),
            [
                "the messages are not those of the manifest",
                "the prompt showed another text or role than the log has"
            ]
        );
        assert_eq!(
            said(|_, m| m[5]["content"] = json!("other")),
            ["the prompt showed another text or role than the log has"]
        );
        assert_eq!(
            said(|_, m| m[5]["digest"] = json!("00")),
            ["the item's digest is not that of the message"]
        );
        assert_eq!(said(|_, m| drop(m.remove(5))), ["the message is not in the log"]);
        assert_eq!(
            said(|_, m| m[7]["chain"] = json!("00")),
            ["the chain head is not the log's at length 8"]
        );
        assert_eq!(said(|_, m| m.truncate(7)).len(), 2);
    }

    /// A search put message 6 back into the window: the log has its text and mark, the prompt showed both.
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

    #[test]
    fn what_is_no_receipt_is_refused() {
        assert!(
            ReceiptCheck::new(&json!({"messages": []}))
                .err()
                .unwrap()
                .contains("vctx context --json")
        );
    }
}
