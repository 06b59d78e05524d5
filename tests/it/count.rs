//! The window counted by the rule of the published cookbook, written here a second time so that the server's own sums are checked.

use serde_json::Value;
use vctx::memory::TokenCounter as _;
use vctx::text::Tiktoken;

/// Tokens of a text in the default encoding.
pub(crate) fn text(text: &str) -> u64 {
    Tiktoken::default().count(text)
}

/// Tokens of a list of chat messages: three each, the role, the text, one and the text for each named part, three for the reply.
pub(crate) fn window(messages: &[Value]) -> u64 {
    3 + messages.iter().map(message).sum::<u64>()
}

/// Tokens of one chat message.
pub(crate) fn message(message: &Value) -> u64 {
    let part = |value: &Value| value.as_str().map_or(0, |t| 1 + text(t));
    let plain = |value: &Value| value.as_str().map_or(0, text);
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls: u64 = calls
        .map(|call| {
            part(&call["id"])
                + part(&call["function"]["name"])
                + part(&call["function"]["arguments"])
        })
        .sum();
    3 + plain(&message["role"])
        + plain(&message["content"])
        + part(&message["name"])
        + part(&message["tool_call_id"])
        + calls
}

/// A text of so many words, each one token.
pub(crate) fn words(count: u64) -> String {
    " a".repeat(usize::try_from(count).expect("few words")).trim_start().to_owned()
}
