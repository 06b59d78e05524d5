//! The answer to a client: what it sees of all that was said since its last message, and how it ends.

use serde_json::{Value, json};

use crate::memory::message::{Kind, Message, Role};
use crate::memory::thread::{Seen, SeenCall};

/// What every form of an answer says of itself.
#[derive(Clone, Debug)]
pub struct Head {
    /// Digest of the place that is answered; ids are made of it, so that the same request has the same ids.
    pub thread: String,
    /// When that message was appended, in seconds since 1970.
    pub created_s: u64,
    /// The model as the client named it.
    pub model: String,
    /// Agent and branch, under `vctx`.
    pub told: Value,
    /// What a request gave to be said again with its answer.
    pub echo: serde_json::Map<String, Value>,
}

impl Head {
    pub(super) fn chat_id(&self) -> String {
        format!("chatcmpl-{}", self.thread)
    }

    pub(super) fn response_id(&self) -> String {
        format!("resp_{}", self.thread)
    }

    /// Id of a part of the answer.
    pub(super) fn part_id(&self, kind: &str, number: usize) -> String {
        format!("{kind}_{}_{number}", self.thread)
    }
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The model was done.
    Stop,
    /// It calls tools of the client.
    ToolCalls,
    /// A budget ended it: of tokens, of turns, of time.
    Length,
    /// The provider held something back.
    ContentFilter,
}

impl Ending {
    /// As the chat form names it.
    pub fn chat(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
        }
    }

    /// Status and details as the responses form has them.
    pub(super) fn response(self) -> (&'static str, Value) {
        match self {
            Self::Stop | Self::ToolCalls => ("completed", Value::Null),
            Self::Length => ("incomplete", json!({"reason": "max_output_tokens"})),
            Self::ContentFilter => ("incomplete", json!({"reason": "content_filter"})),
        }
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What it says of itself.
    pub head: Head,
    /// What the client sees.
    pub seen: Seen,
    /// Why it ends.
    pub ending: Ending,
    /// Tokens of prompts and answers, where they were counted.
    pub usage: Option<(u64, u64)>,
}

/// What a client sees of messages that followed its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    /// As one answer: all that the model said, and its last calls of the client's tools.
    pub seen: Seen,
    /// Place of the last of them.
    pub seq: u64,
    /// Whether nothing of it waits for a tool of the memory.
    pub whole: bool,
}

/// Between what the model said in two turns of one run.
pub const BETWEEN_TURNS: &str = "\n\n";

/// What a client sees of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The call: it is one of the client's own tools.
    Call,
    /// A text: the call says something to the user.
    Text(String),
    /// Nothing: it concerns the memory.
    Nothing,
}

/// The answer that stands in messages after a client's own: texts of all turns of a run, since they were told as they came, and the calls of the last one
/// that are the client's. `sight` knows what is seen of a call. None where no answer stands there.
pub fn visible(messages: &[Message], sight: &dyn Fn(&SeenCall) -> Sight) -> Option<Visible> {
    let said = |m: &&Message| m.role == Role::Assistant && m.kind == Kind::Turn;
    let turns: Vec<&Message> = messages.iter().filter(said).collect();
    let last = turns.last()?;
    let texts = turns.iter().map(|m| spoken(m, sight)).filter(|text| !text.is_empty());
    let text = texts.collect::<Vec<_>>().join(BETWEEN_TURNS);
    let is_client = |call: &SeenCall| sight(call) == Sight::Call;
    let (calls, inner): (Vec<SeenCall>, Vec<SeenCall>) =
        calls_of(last).into_iter().partition(is_client);
    let answered = |call: &SeenCall| {
        messages.iter().any(|m| m.seq > last.seq && m.tool_call_id() == Some(call.id.as_str()))
    };
    // A run that ended on a tool of the memory ended by a budget: its results stand there, and nothing follows.
    let whole = inner.iter().all(answered);
    let seen = Seen { calls, ..Seen::text(Role::Assistant, text) };
    Some(Visible { seen, seq: last.seq, whole })
}

/// What a message of the model says: its text, then what its calls say to the user, as a run tells it.
fn spoken(message: &Message, sight: &dyn Fn(&SeenCall) -> Sight) -> String {
    let mut parts = vec![message.content.clone()];
    parts.extend(calls_of(message).iter().filter_map(|call| match sight(call) {
        Sight::Text(text) => Some(text),
        Sight::Call | Sight::Nothing => None,
    }));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn calls_of(message: &Message) -> Vec<SeenCall> {
    let calls = message.meta.get("tool_calls").and_then(Value::as_array);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let call = |call: &Value| SeenCall {
        id: text(&call["id"]),
        name: text(&call["function"]["name"]),
        arguments: text(&call["function"]["arguments"]),
    };
    calls.into_iter().flatten().map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(seq: u64, role: &str, content: &str, meta: Value) -> Message {
        serde_json::from_value(json!({"_key": seq.to_string(), "agent_id": "a", "seq": seq, "kind": "turn", "role": role,
            "content": content, "meta": meta, "token_estimate": 1, "created_at": "", "copy_of": null, "salt": "", "digest": "",
            "chain": ""}))
        .unwrap()
    }

    fn calls(names: &[&str]) -> Value {
        let call = |name: &&str| json!({"id": format!("id-{name}"), "type": "function", "function": {"name": name, "arguments": "{}"}});
        json!({"tool_calls": names.iter().map(call).collect::<Vec<_>>()})
    }

    fn seen(messages: &[Message]) -> Option<(String, Vec<String>, u64, bool)> {
        let sight = |call: &SeenCall| match call.name.as_str() {
            "ours" => Sight::Nothing,
            "say" => Sight::Text("Hello.".into()),
            _ => Sight::Call,
        };
        let found = visible(messages, &sight)?;
        let names = found.seen.calls.iter().map(|call| call.name.clone()).collect();
        Some((found.seen.text, names, found.seq, found.whole))
    }

    #[test]
    fn tools_of_the_memory_stay_inside_and_those_of_the_client_come_out() {
        let messages = [
            message(4, "assistant", "Let me look.", calls(&["ours"])),
            message(5, "tool", "found", json!({"tool_call_id": "id-ours"})),
            message(6, "system", "a notice", json!({})),
            message(7, "assistant", "It is 7.", calls(&["ours", "theirs"])),
            message(8, "tool", "done", json!({"tool_call_id": "id-ours"})),
        ];
        let text = "Let me look.\n\nIt is 7.".to_owned();
        assert_eq!(seen(&messages), Some((text.clone(), vec!["theirs".to_owned()], 7, true)));
        assert_eq!(seen(&messages[..4]), Some((text, vec!["theirs".to_owned()], 7, false)));
        assert_eq!(seen(&messages[1..3]), None);
        let says = [message(4, "assistant", "I greet.", calls(&["say"]))];
        assert_eq!(seen(&says), Some(("I greet.\nHello.".to_owned(), vec![], 4, false)));
    }
}
