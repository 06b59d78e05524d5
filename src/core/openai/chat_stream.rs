//! The chat form in pieces: a first one with the role, then texts, calls, the reason, and what was used if that was asked for.

use serde_json::{Value, json};

use super::answer::{Answer, Head};
use super::chat::{chat_usage, shown_call};
use crate::error::Error;

/// Pieces of one answer.
#[derive(Debug)]
pub struct ChatStream {
    head: Head,
    usage: bool,
}

impl ChatStream {
    /// The pieces of an answer; `usage` asks for one that tells what was used.
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

    /// The first piece.
    pub fn begin(&self) -> Value {
        let mut first =
            self.delta(json!({"role": "assistant", "content": "", "refusal": null}), None);
        first["vctx"] = self.head.told.clone();
        first
    }

    /// A piece of text.
    pub fn text(&self, text: &str) -> Value {
        self.delta(json!({"content": text}), None)
    }

    /// The last pieces, when all text was told.
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

    /// What is told instead of an end when it fails: clients of this form raise it.
    pub fn fault(error: &Error) -> Value {
        super::chat::fault(error)
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Ending;
    use super::super::chat::chat_answer;
    use super::*;
    use crate::memory::message::Role;
    use crate::memory::thread::{Seen, SeenCall};

    /// What a client puts together from the pieces.
    fn put_together(pieces: &[Value]) -> Value {
        let (mut text, mut calls, mut reason) = (String::new(), Vec::new(), Value::Null);
        for piece in pieces {
            let choice = &piece["choices"][0];
            text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
            for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
                let mut call = call.clone();
                call.as_object_mut().expect("a call").remove("index");
                calls.push(call);
            }
            if !choice["finish_reason"].is_null() {
                reason = choice["finish_reason"].clone();
            }
        }
        json!({"text": text, "calls": calls, "reason": reason})
    }

    #[test]
    fn the_pieces_are_the_whole() {
        let head = Head {
            thread: "d".into(),
            created_s: 7,
            model: "m".into(),
            told: json!({"agent": "a"}),
            echo: Default::default(),
        };
        let call =
            |id: &str| SeenCall { id: id.into(), name: "look".into(), arguments: "{}".into() };
        let seen = Seen {
            calls: vec![call("1"), call("2")],
            ..Seen::text(Role::Assistant, "Let me look.")
        };
        let answer =
            Answer { head: head.clone(), seen, ending: Ending::ToolCalls, usage: Some((3, 4)) };
        let whole = chat_answer(&answer);
        let stream = ChatStream::new(head, true);
        let mut pieces = vec![stream.begin(), stream.text("Let me "), stream.text("look.")];
        pieces.extend(stream.end(&answer));
        let choice = &whole["choices"][0];
        assert_eq!(
            put_together(&pieces),
            json!({"text": choice["message"]["content"], "calls": choice["message"]["tool_calls"], "reason": choice["finish_reason"]})
        );
        assert_eq!(pieces.last().expect("pieces")["usage"], whole["usage"]);
        assert!(
            pieces
                .iter()
                .all(|piece| piece["id"] == whole["id"] && piece["created"] == whole["created"])
        );
        assert_eq!(pieces[0]["vctx"], whole["vctx"]);
    }
}
