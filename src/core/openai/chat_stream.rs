//! Writes an answer in the chat form as a stream: the role, the texts, the calls, the reason why
//! the answer ended, and, if requested, token counts.

use serde_json::{Value, json};

use super::answer::{Answer, Head};
use super::chat::{chat_usage, shown_call};

/// Writes the events of one streamed answer.
#[derive(Debug)]
pub struct ChatStream {
    head: Head,
    usage: bool,
}

impl ChatStream {
    /// Starts the stream of an answer. If `usage` is true, the stream's last event contains the
    /// token counts.
    pub fn new(head: Head, usage: bool) -> Self {
        Self { head, usage }
    }

    fn piece(&self, choices: Value) -> Value {
        let mut piece = json!({
            "id": self.head.chat_id(), "object": "chat.completion.chunk", "created": self.head.created_s,
            "model": self.head.model, "choices": choices,
        });
        if self.usage {
            piece["usage"] = Value::Null;
        }
        piece
    }

    fn delta(&self, delta: Value, reason: Option<&str>) -> Value {
        self.piece(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}]))
    }

    /// Returns the stream's first event.
    pub fn begin(&self) -> Value {
        let mut first =
            self.delta(json!({"role": "assistant", "content": "", "refusal": null}), None);
        first["vctx"] = self.head.told.clone();
        first
    }

    /// Returns the stream's event that contains a piece of the answer's text.
    pub fn text(&self, text: &str) -> Value {
        self.delta(json!({"content": text}), None)
    }

    /// Returns the stream's last events, which follow all text.
    pub fn end(&self, answer: &Answer) -> Vec<Value> {
        let mut pieces = Vec::new();
        for (number, call) in answer.seen.calls.iter().enumerate() {
            let mut shown = shown_call(call);
            shown["index"] = number.into();
            pieces.push(self.delta(json!({"tool_calls": [shown]}), None));
        }
        pieces.push(self.delta(json!({}), Some(answer.ending.chat())));
        if self.usage {
            let mut last = self.piece(json!([]));
            last["usage"] = answer.usage.map_or(Value::Null, chat_usage);
            pieces.push(last);
        }
        pieces
    }
}
