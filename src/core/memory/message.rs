//! Messages of an agent's log, and the keys in `meta` that mark copies, late results, summaries and
//! tainted texts.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::form::Form;
use super::labels::{LABELS, Labels};
use super::receipt;
use super::shown::{ShownAt, ShownMessage, recalled_frame, shown};
use super::strict::{filler_message, filler_tokens};
use super::tokens::TokenCounter;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A message from a user, an assistant or a tool.
    Turn,
    /// An event from a schedule or from outside.
    Event,
    /// A copy that a search put into the queue; an eviction of a copy logs nothing, because recall
    /// storage contains the original.
    Copy,
    /// An entry that `write_recall` wrote to recall storage; it is never in the queue.
    Recall,
    /// A part of a tool result that is too long for the window; the part is never in the queue.
    Spool,
}

impl Kind {
    /// Whether a message of this kind can be in the queue.
    pub fn queued(self) -> bool {
        matches!(self, Self::Turn | Self::Event | Self::Copy)
    }

    /// Whether an eviction logs a message of this kind in recall storage.
    pub fn logged(self) -> bool {
        matches!(self, Self::Turn | Self::Event)
    }
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The runtime.
    System,
    /// A tool's answer.
    Tool,
}

impl Role {
    /// Returns the role's name in a chat message.
    pub fn text(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::System => "system",
            Self::Tool => "tool",
        }
    }
}

/// A message of an agent's log, stored as the document `messages/{key}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Document key of the message (UUID v7).
    #[serde(rename = "_key")]
    pub key: String,
    /// Key of the agent.
    pub agent_id: String,
    /// Position of the message in the agent's log, numbered from 1 without gaps.
    pub seq: u64,
    /// Kind of the message.
    pub kind: Kind,
    /// Role of the message's speaker.
    pub role: Role,
    /// The text of the message, byte for byte; empty after a removal by retention or on request.
    #[serde(deserialize_with = "or_default")]
    pub content: String,
    /// Further attributes of the message: `name`, `tool_calls`, `tool_call_id`, `said_at` and
    /// `class`, if set; `recalled` in a copy; `summary` in a summary; `taint` in a tainted text;
    /// `lasting` in a text with a lasting request.
    #[serde(deserialize_with = "or_default")]
    pub meta: Map<String, Value>,
    /// Number of tokens of the message as a window shows it, in the agent's encoding.
    pub token_estimate: u64,
    /// Server time when the message was appended, ISO 8601 with milliseconds, rising with `seq`.
    pub created_at: String,
    /// Time that the window shows before the text, or `None` if the time is clear from the message
    /// before: `2026-05-05 Tue 09:14`, `2026-05-05 Tue` or `09:14`, in the agent's zone. Form 1 of
    /// the window shows no times. The digest does not cover this field, which the window derives
    /// from `said_at` and `created_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<String>,
    /// Number of tokens that stay in the window if the text of the message is removed. In the first
    /// copy of a search, these are the lines around the copies. In the strict form of the window,
    /// the first message of the user or the assistant after tool calls has the filler: a short
    /// answer that keeps the roles in turn. 0 in every other message.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frame_tokens: u64,
    /// Key of the original message, if the message is a copy.
    pub copy_of: Option<String>,
    /// Random salt of the message's digest. The salt is removed with the text, so that the digest
    /// cannot confirm a guess of the text.
    #[serde(deserialize_with = "or_default")]
    pub salt: String,
    /// Digest of the message; see [`receipt::digest`].
    pub digest: String,
    /// Value of the hash chain at this message; see [`receipt::link`].
    pub chain: String,
    /// Time when the text, `meta` and salt of the message were removed; `None` while the text
    /// exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<String>,
    /// Digest of a client's conversation thread up to and including this message. The message's own
    /// digest does not cover this field. See [`super::conversation`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Digest of the client's conversation thread up to and including the previous message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// Seq of the message, if it is tainted and not a copy; the database's index of tainted
    /// messages uses this attribute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tainted_seq: Option<u64>,
    /// Time when the message was forgotten on request. Its `expired_at` has the same value, and no
    /// window shows the message any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten_at: Option<String>,
    /// Version of the core at which the message was forgotten on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten_version: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Deserializes null as the default value of the type.
pub(super) fn or_default<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

impl Message {
    /// Returns the message as `/messages` shows it, without the fields that depend on the queue and
    /// the edges.
    pub fn public(&self) -> Map<String, Value> {
        let value = json!({
            "seq": self.seq, "id": self.key, "kind": self.kind, "copy_of": self.copy_of, "role": self.role,
            "content": self.content, "meta": self.meta, "token_estimate": self.token_estimate,
            "created_at": self.created_at, "salt": self.salt, "digest": self.digest, "chain": self.chain,
        });
        let mut map = match value {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        if let Some(labels) = Labels::of_meta(&self.meta) {
            map.insert(LABELS.into(), json!(labels));
        }
        if let Some(stamp) = &self.stamp {
            map.insert("stamp".into(), stamp.as_str().into());
        }
        if self.frame_tokens > 0 {
            map.insert("frame_tokens".into(), self.frame_tokens.into());
        }
        if let Some(expired_at) = &self.expired_at {
            for gone in ["content", "meta", "salt"] {
                map.insert(gone.into(), Value::Null);
            }
            map.insert("expired_at".into(), expired_at.as_str().into());
        }
        if let Some(forgotten_at) = &self.forgotten_at {
            map.insert("forgotten_at".into(), forgotten_at.as_str().into());
        }
        map
    }

    /// Sets the digest and the chain value of a message whose other fields are set; `name` is the
    /// agent's name that the digest includes.
    pub fn seal(&mut self, name: &str, previous_chain: &str) {
        let canonical = receipt::canonical_message(name, &Value::Object(self.public()));
        self.digest = receipt::digest(&self.salt, &canonical);
        self.chain = receipt::link(previous_chain, &self.digest);
    }

    /// Whether the message's text is forgotten, and only its frame is left in the window.
    pub fn is_frame(&self) -> bool {
        self.forgotten_at.is_some() && self.frame_tokens > 0
    }

    /// Returns the filler, if the window shows it before the message or in its place. An answer
    /// keeps the roles in turn itself, as long as its text stays.
    pub fn filler(&self, form: Form) -> Option<Value> {
        let has_filler = form == Form::Strict && self.kind != Kind::Copy && self.frame_tokens > 0;
        let is_shown = has_filler && (self.is_frame() || self.role != Role::Assistant);
        is_shown.then(filler_message)
    }

    /// Returns the message as a window of the given form shows it, without the filler; `None` if
    /// only the filler is left.
    pub fn in_window(&self, form: Form) -> Option<ShownMessage> {
        (self.kind == Kind::Copy || !self.is_frame()).then(|| self.shown(form))
    }

    /// Returns the tokens that the message and its filler add to a window of the given form.
    pub fn cost(&self, form: Form, counter: &dyn TokenCounter) -> u64 {
        let filler = self.filler(form).map_or(0, |_| filler_tokens(counter));
        filler + self.in_window(form).map_or(0, |shown| shown.cost(counter))
    }

    /// Returns the message as a window of the given form shows it.
    pub fn shown(&self, form: Form) -> ShownMessage {
        if self.is_frame() {
            return recalled_frame(form);
        }
        let at = ShownAt { form, stamp: self.stamp.as_deref(), is_first: self.frame_tokens > 0 };
        shown(at, self.role, &self.content, &self.meta)
    }

    /// Returns the client's time of the message, if the client gave one.
    pub fn said_at(&self) -> Option<&str> {
        self.meta.get(SAID_AT).and_then(Value::as_str)
    }

    /// Returns the ids of the tool calls in the message.
    pub fn tool_call_ids(&self) -> impl Iterator<Item = &str> {
        call_ids(&self.meta)
    }

    /// Returns the id of the tool call that the message answers.
    pub fn tool_call_id(&self) -> Option<&str> {
        self.meta.get("tool_call_id").and_then(Value::as_str)
    }

    /// Returns the id of the tool call that this tool result answers in the window; `None` for a
    /// late result, which the window shows as a user message.
    pub fn answers(&self) -> Option<&str> {
        let paired = self.role == Role::Tool && !self.meta.contains_key(LATE);
        self.tool_call_id().filter(|_| paired)
    }
}

/// Returns the ids of the tool calls in a message's `meta`.
pub fn call_ids(meta: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let calls = meta.get("tool_calls").and_then(Value::as_array);
    calls.into_iter().flatten().filter_map(|c| c.get("id").and_then(Value::as_str))
}

/// Name of the attribute in `meta` that marks a message as a copy. The value is `{seq, created_at}`
/// of the original, `excerpt: {start, end}` if the copy contains only a byte range of the
/// original's text, and `fence` if the original is a tool result.
pub const RECALLED: &str = "recalled";

/// Key in the `meta` of a late tool result. No call in the queue waits for such a result: the
/// result's call was evicted or already has a result, or the result names no call. No chat format
/// accepts a late result as a tool message.
pub const LATE: &str = "late";

/// Key in `meta` of the client's time of a message, a free text.
pub const SAID_AT: &str = "said_at";

/// Key in the `meta` of an entry that is a summary.
pub const SUMMARY: &str = "summary";

/// Key in the `meta` of a tainted message. The value is `{rules, fence}`. `rules` names the taint
/// rules that the text matched when the message was appended. `fence` is a short id in the two
/// lines that enclose the text in the window.
pub const TAINT: &str = "taint";

/// Key in the `meta` of a message in which the user asks for something in all later answers. The
/// value is `true`; the database's index of such messages uses this attribute.
pub const LASTING: &str = "lasting";

/// Number of digits in the id (`fence`) of the lines that enclose a tainted text. The digits are
/// the end of the message's key, which the writer of the text cannot know.
const FENCE_DIGITS: usize = 8;

/// Returns the taint mark of a message: the matched rules, and as `fence` the last digits of the
/// message's `key`.
pub fn taint_mark<S: AsRef<str>>(rules: &[S], key: &str) -> Value {
    let rules: Vec<&str> = rules.iter().map(AsRef::as_ref).collect();
    json!({"rules": rules, "fence": fence_of(key)})
}

/// Returns the id in the lines that enclose the text of the message with this key.
pub fn fence_of(key: &str) -> &str {
    key.get(key.len().saturating_sub(FENCE_DIGITS)..).unwrap_or(key)
}

/// Returns the id in the lines that enclose the text of a message from outside, made from the
/// message's key. Nine digits are three tokens in every encoding, so the cost of the lines does not
/// depend on the key.
pub fn outside_fence_of(key: &str) -> String {
    let number = u32::from_str_radix(fence_of(key), 16).unwrap_or_default();
    format!("{:09}", number % OUTSIDE_FENCES)
}

/// Number of different ids of [`outside_fence_of`].
const OUTSIDE_FENCES: u32 = 1_000_000_000;

/// Key in the `meta` of a message from outside that speaks in the window with another role than
/// that of a tool: an event, or a late tool result. The value is the id in the two lines that
/// enclose the text. Messages of earlier program versions have no such key.
pub const OUTSIDE: &str = "outside";

/// Whether a message with this role and `meta` is a tool result that follows its call in the
/// window.
pub fn answers_call(role: Role, meta: &Map<String, Value>) -> bool {
    role == Role::Tool && !meta.contains_key(LATE)
}

/// Returns the names of the taint rules in the taint mark of `meta`; empty if the message is not
/// tainted.
pub fn tainted(meta: &Map<String, Value>) -> Vec<&str> {
    let rules = meta.get(TAINT).and_then(|mark| mark["rules"].as_array());
    rules.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether a message with this `meta` is a summary.
pub fn is_summary(meta: &Map<String, Value>) -> bool {
    meta.get(SUMMARY).is_some_and(|mark| *mark == true)
}

/// Returns the `meta` of a copy: the original's name and taint mark, and the attribute `recalled`,
/// which marks a copy. Tool calls and call ids are left out, so that the copy can be evicted alone.
/// In the copy of a text from `outside`, `recalled` has a `fence`, since the copy has the role of
/// the user or of another speaker. `said` is the time of the original in the agent's zone; form 1
/// of the window does not show it.
pub fn copied_meta(
    original: &Message,
    excerpt: Option<&Range<usize>>,
    outside: bool,
    said: Option<String>,
) -> Map<String, Value> {
    let mut meta = original.meta.clone();
    meta.retain(|name, _| name == "name" || name == TAINT);
    let mut mark = json!({"seq": original.seq, "created_at": original.created_at});
    if let Some(part) = excerpt {
        mark["excerpt"] = json!({"start": part.start, "end": part.end});
    }
    if outside {
        mark["fence"] = outside_fence_of(&original.key).into();
    }
    if let Some(said) = said {
        mark["said"] = said.into();
    }
    meta.insert(RECALLED.into(), mark);
    meta
}
