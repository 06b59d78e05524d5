//! Checks a saved answer of `/context` against the agent's log: digests, chain head and messages.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::memory::form::Form;
use crate::memory::message::Role;
use crate::memory::receipt;
use crate::memory::shown::{ShownAt, ShownMessage, shown};
use crate::memory::verify::{text_of, whole};

/// Maximum number of items in the manifest of a window. Even a window of a million tokens cannot
/// contain this number of messages.
const ITEMS_MAX: usize = 1_000_000;

/// A contradiction between a receipt and the agent's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Seq of the contradicting message; `None` for a fault of the receipt itself.
    pub seq: Option<u64>,
    /// A description of the contradiction, in one sentence.
    pub what: String,
    /// The right value.
    pub expected: String,
    /// The value found.
    pub found: String,
}

/// The result of checking a receipt against the agent's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Name of the agent.
    pub agent: String,
    /// The context digest that the receipt states.
    pub context_digest: String,
    /// Length of the agent's log when the window was rendered.
    pub chain_length: u64,
    /// Seqs of the messages in the prompt.
    pub in_prompt: Vec<u64>,
    /// Contradictions between the receipt and the agent's log.
    pub mismatches: Vec<Mismatch>,
}

impl Proof {
    /// Returns whether nothing contradicts the receipt.
    pub fn holds(&self) -> bool {
        self.mismatches.is_empty()
    }

    /// Returns whether message `seq` was in the prompt.
    pub fn contains(&self, seq: u64) -> bool {
        self.in_prompt.binary_search(&seq).is_ok()
    }
}

/// Reads a saved answer of `/context`, then every row of the agent's log, and returns a [`Proof`].
pub struct ReceiptCheck {
    agent: String,
    /// The name of the agent that the digests of the log contain, as the receipt states it.
    sealed_as: String,
    context_digest: String,
    chain_head: String,
    chain_length: u64,
    /// Form of the window.
    form: Form,
    /// Items of the manifest, by seq, each with the index of its message in `messages`. An item is
    /// removed when the log's row with this seq is read.
    expected: BTreeMap<u64, (Value, usize)>,
    /// The messages of the window that show rows of the log.
    messages: Vec<Rendered>,
    in_prompt: Vec<u64>,
    seen_head: bool,
    mismatches: Vec<Mismatch>,
}

/// A message of the window that shows one row of the log, or the copies of a search.
struct Rendered {
    message: Value,
    /// The message as the rows of the log that were read so far give it.
    made: Option<Value>,
    /// Whether a row that the message shows was forgotten, so that it cannot be made again.
    is_forgotten: bool,
    /// Seq of the last row that the message shows.
    last_seq: u64,
}

impl ReceiptCheck {
    /// Starts a check with the comparisons that need no log. An error names the field that the
    /// receipt lacks.
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
            sealed_as: agent_id.clone(),
            context_digest: text_of(answer, "context_digest"),
            chain_head,
            chain_length,
            form: manifest
                .get("form")
                .and_then(|form| serde_json::from_value(form.clone()).ok())
                .unwrap_or_default(),
            expected: BTreeMap::new(),
            messages: Vec::new(),
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

    /// Returns the agent whose log must be read.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Checks the agent's state. The name that the digests contain never changes, not even if an
    /// import gave the agent another name.
    pub fn state(&mut self, state: &Value) {
        let name = if state.get("agent_id").is_some() { "agent_id" } else { "agent" };
        let what = "the receipt and the agent's state state different names for the digests";
        self.compare(None, what, text_of(state, name), self.sealed_as.clone());
    }

    fn own_digests(&mut self, answer: &Value, manifest: &Value) {
        let made = receipt::sha256(&receipt::canonical_json(manifest));
        let stated = self.context_digest.clone();
        self.compare(None, "the context digest does not match the manifest", made, stated);
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
            "the messages do not match the manifest",
            made,
            text_of(manifest, "messages_digest"),
        );
    }

    /// Compares every item of the manifest with its rendered message. An item without a seq is not
    /// a message of the log, and contains a digest of its own text.
    fn items(&mut self, items: &[Value], answer: &Value) {
        let rendered =
            answer.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let what = "the manifest and the receipt have different numbers of messages";
        let joins = |item: &&Value| item.get("joins") == Some(&Value::Bool(true));
        let begun = items.iter().filter(|item| !joins(item)).count();
        self.compare(None, what, rendered.len().to_string(), begun.to_string());
        let mut rendered = rendered.iter();
        let mut message = &Value::Null;
        for item in items {
            let is_joined = joins(&item);
            if !is_joined {
                let Some(next) = rendered.next() else { break };
                message = next;
            }
            let Some(seq) = item.get("seq").and_then(whole) else {
                let made = receipt::sha256(&receipt::canonical_json(message));
                let what = format!("the digest of {} does not match its text", text_of(item, "id"));
                self.compare(None, &what, made, text_of(item, "digest"));
                continue;
            };
            if !is_joined {
                let message = message.clone();
                let made = None;
                self.messages.push(Rendered { message, made, is_forgotten: false, last_seq: seq });
            }
            let Some(at) = self.messages.len().checked_sub(1) else { continue };
            self.messages[at].last_seq = seq;
            if self.expected.insert(seq, (item.clone(), at)).is_some() {
                let what = "the manifest lists the message twice";
                self.compare(Some(seq), what, "once".into(), "twice".into());
            }
        }
        self.in_prompt = self.expected.keys().copied().collect();
    }

    /// Checks the next row of the agent's log.
    pub fn message(&mut self, message: &Value) {
        let Some(seq) = message.get("seq").and_then(whole) else { return };
        if let Some((item, at)) = self.expected.remove(&seq) {
            self.row(seq, message, &item, at);
        }
        if seq == self.chain_length {
            self.seen_head = true;
            self.head(&text_of(message, "chain"));
        }
    }

    fn row(&mut self, seq: u64, row: &Value, item: &Value, at: usize) {
        let (id, digest) = (text_of(item, "id"), text_of(item, "digest"));
        self.compare(
            Some(seq),
            "the item's digest does not match the message",
            text_of(row, "digest"),
            digest,
        );
        self.compare(Some(seq), "the item's id does not match the message", text_of(row, "id"), id);
        let joins = item.get("joins") == Some(&Value::Bool(true));
        let Some(rendered) = self.messages.get_mut(at) else { return };
        rendered.is_forgotten |= row.get("content").is_none_or(Value::is_null);
        match (as_shown(row, self.form, joins), &mut rendered.made) {
            (Some(shown), Some(made)) if shown.joins => {
                let text = shown.message["content"].as_str().unwrap_or_default();
                let before = made["content"].as_str().unwrap_or_default();
                made["content"] = format!("{before}{text}").into();
            }
            (Some(shown), made) => *made = Some(shown.message),
            (None, _) => {}
        }
        let is_whole = seq == rendered.last_seq && !rendered.is_forgotten;
        if is_whole && rendered.made.as_ref() != Some(&rendered.message) {
            let what = "the prompt showed another text or role than the log has";
            self.compare(Some(seq), what, "the log's".into(), "another".into());
        }
    }

    fn head(&mut self, chain: &str) {
        let stated = self.chain_head.clone();
        let what = format!("the chain head is not the log's at length {}", self.chain_length);
        self.compare(None, &what, chain.to_string(), stated);
    }

    /// Returns the result of the check after the last row of the log.
    pub fn finish(mut self) -> Proof {
        if !self.seen_head {
            let what = "the log is shorter now than it was when the window was rendered";
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

/// Returns the message as a window of the given form shows a row of the log; `None` if the role is
/// unknown.
fn as_shown(row: &Value, form: Form, joins: bool) -> Option<ShownMessage> {
    let role: Role = serde_json::from_value(row.get("role")?.clone()).ok()?;
    let meta = row.get("meta").and_then(Value::as_object).cloned().unwrap_or_default();
    let stamp = row.get("stamp").and_then(Value::as_str);
    let at = ShownAt { form, stamp, is_first: !joins };
    Some(shown(at, role, &text_of(row, "content"), &meta))
}
