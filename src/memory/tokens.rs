//! Counting tokens: what is asked of a tokenizer, and what a rendered chat message costs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A rank table of OpenAI's tokenizers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
pub enum Encoding {
    /// `o200k_base`, the default.
    #[default]
    #[serde(rename = "o200k_base")]
    O200kBase,
    /// `cl100k_base`.
    #[serde(rename = "cl100k_base")]
    Cl100kBase,
}

/// Counts ordinary text.
pub trait TokenCounter: Send + Sync {
    /// Its table.
    fn encoding(&self) -> Encoding;
    /// Tokens of a text; special tokens in it count as the plain text they are.
    fn count(&self, text: &str) -> u64;
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
