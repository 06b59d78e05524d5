//! Writes an answer in the responses form as a stream of numbered events.

use serde_json::{Value, json};

use super::answer::{Answer, Ending, Head};
use super::responses::{frame, output, responses_answer, text_part};
use crate::error::Error;
use crate::memory::conversation::ClientMessage;
use crate::memory::message::Role;

/// Writes the events of one streamed answer.
#[derive(Debug)]
pub struct ResponsesStream {
    head: Head,
    sent: u64,
    /// Whether the stream's text item has begun.
    open: bool,
}

impl ResponsesStream {
    /// Starts the stream of an answer.
    pub fn new(head: Head) -> Self {
        Self { head, sent: 0, open: false }
    }

    fn event(&mut self, kind: &str, fields: Value) -> Value {
        let mut event = json!({"type": kind, "sequence_number": self.sent});
        for (name, value) in fields.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        self.sent += 1;
        event
    }

    /// Returns the stream's first events.
    pub fn begin(&mut self) -> Vec<Value> {
        let seen = ClientMessage::text(Role::Assistant, "");
        let empty = Answer { head: self.head.clone(), seen, ending: Ending::Stop, usage: None };
        let response = frame(&empty, "in_progress");
        ["response.created", "response.in_progress"]
            .map(|kind| self.event(kind, json!({"response": response})))
            .into()
    }

    fn begin_text(&mut self) -> Vec<Value> {
        if std::mem::replace(&mut self.open, true) {
            return Vec::new();
        }
        let id = self.head.part_id("msg", 0);
        let item = json!({"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []});
        let part =
            json!({"item_id": id, "output_index": 0, "content_index": 0, "part": text_part("")});
        vec![
            self.event("response.output_item.added", json!({"output_index": 0, "item": item})),
            self.event("response.content_part.added", part),
        ]
    }

    /// Returns the stream's events that carry one piece of the answer's text.
    pub fn text(&mut self, text: &str) -> Vec<Value> {
        let mut events = self.begin_text();
        let id = self.head.part_id("msg", 0);
        let delta = json!({"item_id": id, "output_index": 0, "content_index": 0, "delta": text, "logprobs": []});
        events.push(self.event("response.output_text.delta", delta));
        events
    }

    /// Returns the stream's last events, which follow all text.
    pub fn end(&mut self, answer: &Answer) -> Vec<Value> {
        let mut events = Vec::new();
        for (number, item) in output(answer).into_iter().enumerate() {
            let id = item["id"].clone();
            if item["type"] == "message" {
                events.extend(self.begin_text());
                let text = answer.seen.text.as_str();
                let at = json!({"item_id": id, "output_index": number, "content_index": 0});
                let with = |name: &str, value: Value| {
                    let mut fields = at.clone();
                    fields[name] = value;
                    fields
                };
                let mut done = with("text", text.into());
                done["logprobs"] = json!([]);
                events.push(self.event("response.output_text.done", done));
                events
                    .push(self.event("response.content_part.done", with("part", text_part(text))));
            } else {
                let mut begun = item.clone();
                begun["status"] = "in_progress".into();
                begun["arguments"] = "".into();
                events.push(self.event(
                    "response.output_item.added",
                    json!({"output_index": number, "item": begun}),
                ));
                let delta =
                    json!({"item_id": id, "output_index": number, "delta": item["arguments"]});
                events.push(self.event("response.function_call_arguments.delta", delta));
                let done = json!({"item_id": id, "output_index": number, "name": item["name"], "arguments": item["arguments"]});
                events.push(self.event("response.function_call_arguments.done", done));
            }
            events.push(
                self.event(
                    "response.output_item.done",
                    json!({"output_index": number, "item": item}),
                ),
            );
        }
        let (status, _) = answer.ending.response();
        let response = responses_answer(answer);
        events.push(self.event(&format!("response.{status}"), json!({"response": response})));
        events
    }

    /// Returns the stream's event for an error.
    pub fn fault(&mut self, error: &Error) -> Value {
        let field = error.fields.get("field").cloned().unwrap_or_default();
        self.event(
            "error",
            json!({"code": error.code.text(), "message": error.message, "param": field}),
        )
    }
}
