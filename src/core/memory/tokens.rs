//! The trait for token counters, so that this crate depends on no tokenizer.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A token counter, which always returns equal counts for equal texts.
pub trait TokenCounter: Send + Sync {
    /// Returns the encoding whose tokens are counted.
    fn encoding(&self) -> Encoding;
    /// Counts the tokens of `text` as plain text; special tokens count as ordinary characters.
    fn count(&self, text: &str) -> u64;
}

/// A byte pair encoding, identified by its published name.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
pub enum Encoding {
    /// The encoding of GPT-4o and later models; the default.
    #[default]
    #[serde(rename = "o200k_base")]
    O200kBase,
    /// The encoding of GPT-4 and GPT-3.5.
    #[serde(rename = "cl100k_base")]
    Cl100kBase,
}

impl Encoding {
    /// Every encoding, for tables, help texts and tests.
    pub const ALL: &'static [Self] = &[Self::O200kBase, Self::Cl100kBase];

    /// Returns the published name of the encoding.
    pub fn name(self) -> &'static str {
        match self {
            Self::O200kBase => "o200k_base",
            Self::Cl100kBase => "cl100k_base",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The error for an unknown encoding, with the given name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use o200k_base or cl100k_base as encoding, not `{0}`")]
pub struct UnknownEncoding(pub String);

impl FromStr for Encoding {
    type Err = UnknownEncoding;

    fn from_str(name: &str) -> Result<Self, UnknownEncoding> {
        let found = Self::ALL.iter().find(|encoding| encoding.name() == name);
        found.copied().ok_or_else(|| UnknownEncoding(name.to_owned()))
    }
}

/// Tokens that a chat message costs in addition to role, content and calls (OpenAI cookbook, "How
/// to count tokens").
pub const MESSAGE_FRAME_TOKENS: u64 = 3;
/// Tokens at the end of the window that begin the model's reply (OpenAI cookbook).
pub const REPLY_TOKENS: u64 = 3;
/// Tokens that the field `name` of a chat message costs in addition to the name's text (OpenAI
/// cookbook).
pub const NAME_FRAME_TOKENS: u64 = 1;

/// Returns the tokens of a rendered chat message: frame, role, content, name and tool calls.
pub fn message_cost(counter: &dyn TokenCounter, message: &Value) -> u64 {
    let text = |v: &Value| v.as_str().map_or(0, |s| counter.count(s));
    let mut cost = MESSAGE_FRAME_TOKENS + text(&message["role"]) + text(&message["content"]);
    if let Some(name) = message.get("name") {
        cost += NAME_FRAME_TOKENS + text(name);
    }
    if let Some(id) = message.get("tool_call_id") {
        cost += NAME_FRAME_TOKENS + text(id);
    }
    for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        cost += NAME_FRAME_TOKENS + text(&call["id"]);
        cost += NAME_FRAME_TOKENS + text(&call["function"]["name"]);
        cost += NAME_FRAME_TOKENS + text(&call["function"]["arguments"]);
    }
    cost
}
