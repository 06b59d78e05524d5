//! Counts a window's tokens by the rule of OpenAI's published cookbook; this second implementation
//! checks the server's sums.

use serde_json::{Value, json};
use vctx::memory::TokenCounter as _;
use vctx::text::Tiktoken;

/// Returns the number of tokens of a text in the default encoding.
pub(crate) fn text(text: &str) -> u64 {
    Tiktoken::default().count(text)
}

/// Returns the number of tokens of a list of chat messages. Each message costs three tokens plus
/// the tokens of its role and text. Each further field (name, call id, function, arguments) costs
/// one token plus its text. The reply costs three tokens.
pub(crate) fn window(messages: &[Value]) -> u64 {
    3 + messages.iter().map(message).sum::<u64>()
}

/// Returns the number of tokens of one chat message.
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

/// Returns a text of the given number of words, each of which is one token.
pub(crate) fn words(count: u64) -> String {
    " a".repeat(usize::try_from(count).expect("few words")).trim_start().to_owned()
}

/// Returns the tokens that a user's message costs in addition to its words.
pub(crate) fn frame() -> u64 {
    message(&json!({"role": "user", "content": words(1)})) - 1
}

/// Returns the tokens that an agent's first message adds to its words: its time, and the line with
/// the day before the queue. Each time has the same number of tokens.
pub(crate) fn first_frame() -> u64 {
    let first = format!("[2026-05-05 Tue 09:14]\n{}", words(1));
    message(&json!({"role": "user", "content": first})) - 1 + opening()
}

/// Returns the tokens of the line with the day before the queue.
pub(crate) fn opening() -> u64 {
    let text = "The conversation goes on from 2026-05-05 Tue:";
    message(&json!({"role": "system", "content": text}))
}
