//! Writes an answer in the messages form as a stream of events.

use serde_json::{Value, json};

use super::answer::{call_block, fault, frame, reason, usage};
use crate::error::Error;
use crate::openai::{Answer, Head};

/// Writes the events of one streamed answer.
#[derive(Debug)]
pub struct MessagesStream {
    head: Head,
    /// Whether the block with the answer's text has begun.
    open: bool,
}

impl MessagesStream {
    /// Starts the stream of an answer.
    pub fn new(head: Head) -> Self {
        Self { head, open: false }
    }

    /// Returns the stream's first events.
    pub fn begin(&self) -> Vec<Value> {
        let message = frame(&self.head);
        vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})]
    }

    /// Returns the stream's events that carry one piece of the answer's text.
    pub fn text(&mut self, text: &str) -> Vec<Value> {
        let mut events = Vec::new();
        if !std::mem::replace(&mut self.open, true) {
            events.push(block_start(0, &json!({"type": "text", "text": ""})));
        }
        events.push(delta(0, &json!({"type": "text_delta", "text": text})));
        events
    }

    /// Returns the stream's last events, which follow all text.
    pub fn end(&mut self, answer: &Answer) -> Vec<Value> {
        let mut events = Vec::new();
        let first = usize::from(self.open);
        if self.open {
            events.push(block_stop(0));
        }
        for (index, call) in (first..).zip(&answer.seen.calls) {
            let input = json!({"type": "input_json_delta", "partial_json": call.arguments});
            events.push(block_start(index, &call_block(call, json!({}))));
            events.push(delta(index, &input));
            events.push(block_stop(index));
        }
        let ending = json!({"stop_reason": reason(answer.ending), "stop_sequence": null});
        events.push(json!({"type": "message_delta", "delta": ending, "usage": usage(answer)}));
        events.push(json!({"type": "message_stop"}));
        events
    }

    /// Returns the stream's event for an error.
    pub fn fault(&self, error: &Error) -> Value {
        fault(error)
    }
}

fn block_start(index: usize, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: usize, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn block_stop(index: usize) -> Value {
    json!({"type": "content_block_stop", "index": index})
}
