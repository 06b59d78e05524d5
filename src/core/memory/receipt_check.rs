//! Checks a saved answer of `/context` against the agent's log: digests, chain head and messages.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Value, json};

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
    /// Items of the manifest, by seq. An item is removed when the log's row with this seq is read.
    expected: BTreeMap<u64, RowPart>,
    /// The messages of the window that show rows of the log.
    messages: Vec<Rendered>,
    in_prompt: Vec<u64>,
    seen_head: bool,
    mismatches: Vec<Mismatch>,
}

/// An item of the manifest that shows a row of the log.
struct RowPart {
    item: Value,
    /// Index of its message in [`ReceiptCheck::messages`].
    at: usize,
    /// The part of the message's text that shows the row; only in the strict form.
    part: Range<usize>,
}

/// A message of the window that shows rows of the log.
struct Rendered {
    message: Value,
    /// The message as the rows of the log that were read so far give it.
    made: Option<Value>,
    /// Whether a row that the message shows was forgotten, so that it cannot be made again.
    is_forgotten: bool,
    /// Seq of the newest row that the message shows.
    last_seq: u64,
}

impl Rendered {
    /// Whether the part of a message in the strict form shows a row of the log. Records the calls
    /// of the row.
    fn shows(&mut self, row: ShownMessage, joins: bool, part: &Range<usize>) -> bool {
        let line = if joins && !row.joins { row.line } else { "" };
        let text = format!("{line}{}", row.message["content"].as_str().unwrap_or_default());
        let own = row.message;
        let calls = own.get("tool_calls");
        let holds = text_in(&self.message, part) == Some(&text)
            && own["role"] == self.message["role"]
            && calls.is_none_or(|calls| *calls == self.message["tool_calls"])
            && (own["role"] != Role::Tool.text() || own == self.message);
        if calls.is_some() {
            self.made = Some(own);
        }
        holds
    }

    /// Whether a message in the strict form has calls that no row of the log made.
    fn has_other_calls(&self) -> bool {
        let calls = self.message.get("tool_calls");
        calls.is_some() && self.made.is_none() && !self.is_forgotten
    }
}

/// Returns a part of a message's text.
fn text_in<'m>(message: &'m Value, part: &Range<usize>) -> Option<&'m str> {
    message["content"].as_str()?.get(part.clone())
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
        let is_strict = self.form == Form::Strict;
        let mut rendered = rendered.iter();
        let mut message = &Value::Null;
        // Whether a row of the log gave rise to an entry of `messages` for the current message.
        let mut shows_rows = false;
        let mut end = 0_usize;
        for (at, item) in items.iter().enumerate() {
            let is_joined = joins(&item);
            if !is_joined {
                let Some(next) = rendered.next() else { break };
                (message, shows_rows, end) = (next, false, 0);
            }
            let bytes = item.get("bytes").and_then(whole).unwrap_or(0);
            let part = end..end.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX));
            end = part.end;
            if is_strict && items.get(at + 1).is_none_or(|next| !joins(&next)) {
                self.is_covered(message, end);
            }
            let Some(seq) = item.get("seq").and_then(whole) else {
                let is_part = is_strict && message["role"] != Role::Tool.text();
                let part = json!({"role": message["role"], "content": text_in(message, &part)});
                let shown = if is_part { &part } else { message };
                let made = receipt::sha256(&receipt::canonical_json(shown));
                let what = format!("the digest of {} does not match its text", text_of(item, "id"));
                self.compare(None, &what, made, text_of(item, "digest"));
                continue;
            };
            if !shows_rows {
                let message = message.clone();
                let made = None;
                self.messages.push(Rendered { message, made, is_forgotten: false, last_seq: seq });
                shows_rows = true;
            }
            let at = self.messages.len() - 1;
            self.messages[at].last_seq = self.messages[at].last_seq.max(seq);
            let item = item.clone();
            if self.expected.insert(seq, RowPart { item, at, part }).is_some() {
                let what = "the manifest lists the message twice";
                self.compare(Some(seq), what, "once".into(), "twice".into());
            }
        }
        self.in_prompt = self.expected.keys().copied().collect();
    }

    /// Checks the next row of the agent's log.
    pub fn message(&mut self, message: &Value) {
        let Some(seq) = message.get("seq").and_then(whole) else { return };
        if let Some(listed) = self.expected.remove(&seq) {
            self.row(seq, message, &listed);
        }
        if seq == self.chain_length {
            self.seen_head = true;
            self.head(&text_of(message, "chain"));
        }
    }

    /// Checks that the items of a message in the strict form cover its text, and that it has no
    /// other fields.
    fn is_covered(&mut self, message: &Value, end: usize) {
        let what = "the manifest lists another length of text than the message has";
        let length = message["content"].as_str().map_or(0, str::len);
        self.compare(None, what, length.to_string(), end.to_string());
        let known = |name: &String| ["role", "content", "tool_calls"].contains(&name.as_str());
        let fields = message.as_object().into_iter().flatten().map(|(name, _)| name);
        let more = fields.filter(|name| !known(name)).map(String::as_str).collect::<Vec<_>>();
        if message["role"] != Role::Tool.text() {
            let what = "the message has fields that the form does not show";
            self.compare(None, what, String::new(), more.join(" "));
        }
    }

    fn row(&mut self, seq: u64, row: &Value, listed: &RowPart) {
        let RowPart { item, at, part } = listed;
        let (id, digest) = (text_of(item, "id"), text_of(item, "digest"));
        self.compare(
            Some(seq),
            "the item's digest does not match the message",
            text_of(row, "digest"),
            digest,
        );
        self.compare(Some(seq), "the item's id does not match the message", text_of(row, "id"), id);
        let joins = item.get("joins") == Some(&Value::Bool(true));
        let Some(rendered) = self.messages.get_mut(*at) else { return };
        let is_forgotten = row.get("content").is_none_or(Value::is_null);
        rendered.is_forgotten |= is_forgotten;
        let shown = as_shown(row, self.form, joins);
        if self.form == Form::Strict {
            let holds = is_forgotten || shown.is_some_and(|s| rendered.shows(s, joins, part));
            if !holds || (seq == rendered.last_seq && rendered.has_other_calls()) {
                self.shows_another(seq);
            }
            return;
        }
        match (shown, &mut rendered.made) {
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
            self.shows_another(seq);
        }
    }

    fn shows_another(&mut self, seq: u64) {
        let what = "the prompt showed another text or role than the log has";
        self.compare(Some(seq), what, "the log's".into(), "another".into());
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
    // In the strict form, the first copy of a search may continue a message, too.
    let has_frame = row.get("frame_tokens").and_then(whole).unwrap_or(0) > 0;
    let is_first = if form == Form::Strict { has_frame } else { !joins };
    let at = ShownAt { form, stamp, is_first };
    Some(shown(at, role, &text_of(row, "content"), &meta))
}
