//! The responses form in pieces: numbered events that build one item after the other.

use serde_json::{Value, json};

use super::answer::{Answer, Ending, Head};
use super::responses::{frame, output, responses_answer, text_part};
use crate::error::Error;
use crate::memory::message::Role;
use crate::memory::thread::Seen;

/// Events of one answer.
#[derive(Debug)]
pub struct ResponsesStream {
    head: Head,
    sent: u64,
    /// Whether the item of the text was begun.
    open: bool,
}

impl ResponsesStream {
    /// The events of an answer.
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

    /// The first events.
    pub fn begin(&mut self) -> Vec<Value> {
        let seen = Seen::text(Role::Assistant, "");
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

    /// A piece of text.
    pub fn text(&mut self, text: &str) -> Vec<Value> {
        let mut events = self.begin_text();
        let id = self.head.part_id("msg", 0);
        let delta = json!({"item_id": id, "output_index": 0, "content_index": 0, "delta": text, "logprobs": []});
        events.push(self.event("response.output_text.delta", delta));
        events
    }

    /// The last events, when all text was told.
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

    /// What is told instead of an end when it fails.
    pub fn fault(&mut self, error: &Error) -> Value {
        let field = error.fields.get("field").cloned().unwrap_or_default();
        self.event(
            "error",
            json!({"code": error.code.text(), "message": error.message, "param": field}),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::thread::SeenCall;

    #[test]
    fn the_events_are_numbered_and_end_with_the_whole() {
        let head = Head {
            thread: "d".into(),
            created_s: 7,
            model: "m".into(),
            told: Value::Null,
            echo: Default::default(),
        };
        let call = SeenCall { id: "c".into(), name: "look".into(), arguments: "{}".into() };
        for (text, calls, kinds) in [
            ("Let me look.", vec![call.clone()], 14),
            ("Let me look.", vec![], 10),
            ("", vec![call], 7),
            ("", vec![], 8),
        ] {
            let seen = Seen { calls, ..Seen::text(Role::Assistant, text) };
            let answer =
                Answer { head: head.clone(), seen, ending: Ending::Stop, usage: Some((1, 2)) };
            let mut stream = ResponsesStream::new(head.clone());
            let mut events = stream.begin();
            for piece in text.split_inclusive(' ').filter(|_| !text.is_empty()).take(1) {
                events.extend(stream.text(piece));
                events.extend(stream.text(&text[piece.len()..]));
            }
            events.extend(stream.end(&answer));
            let numbers: Vec<u64> =
                events.iter().filter_map(|e| e["sequence_number"].as_u64()).collect();
            assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
            let told: String = events
                .iter()
                .filter_map(|e| {
                    (e["type"] == "response.output_text.delta").then(|| e["delta"].as_str())?
                })
                .collect();
            assert_eq!(told, text);
            assert_eq!(events.last().expect("events")["response"], responses_answer(&answer));
            assert_eq!(events.last().expect("events")["type"], "response.completed");
            assert_eq!(events.len(), kinds, "{text:?}");
        }
    }
}
