//! Counting tokens, as a question that thinking rooms may ask without knowing who answers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Counts tokens of a text; the answer for one text never changes.
pub trait TokenCounter: Send + Sync {
    /// The encoding counted in.
    fn encoding(&self) -> Encoding;
    /// Tokens of `text` as plain text: spellings of special tokens are counted like any other characters.
    fn count(&self, text: &str) -> u64;
}

/// A byte pair encoding by its published name.
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
    /// The encoding of GPT-4o and later; the default.
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

    /// The published name.
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

/// A name that is no encoding known here.
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

/// Tokens each chat message costs beside its parts (OpenAI cookbook, "How to count tokens": 3 for models since gpt-3.5-turbo-0613).
pub const MESSAGE_FRAME_TOKENS: u64 = 3;
/// Tokens that prime the reply, once per window (same source).
pub const REPLY_TOKENS: u64 = 3;
/// Tokens a `name` costs beside its text (same source).
pub const NAME_FRAME_TOKENS: u64 = 1;

/// Full cost of a rendered chat message: frame, role, content, name, and name and arguments of its tool calls.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_parse_print_and_json() {
        for &encoding in Encoding::ALL {
            assert_eq!(encoding.to_string().parse(), Ok(encoding));
            let json = serde_json::to_string(&encoding).expect("an encoding is a string");
            assert_eq!(json, format!("\"{encoding}\""));
            assert_eq!(serde_json::from_str::<Encoding>(&json).expect("own spelling"), encoding);
        }
    }

    #[test]
    fn an_unknown_name_is_refused_and_repeated() {
        for name in ["", "O200K_BASE", "gpt2", "o200k_base "] {
            let error = name.parse::<Encoding>().expect_err("no encoding");
            assert!(error.to_string().contains(name), "{error}");
            assert!(serde_json::from_str::<Encoding>(&format!("\"{name}\"")).is_err());
        }
    }
}
