//! The answer to a client of the OpenAI API: the part of an agent's messages that the client sees,
//! and the reason why the answer ended.

use serde_json::{Value, json};

use crate::memory::conversation::{ClientCall, ClientMessage};
use crate::memory::message::{Kind, Message, Role};

/// The fields at the beginning of an answer, common to the chat form and the responses form.
#[derive(Clone, Debug)]
pub struct Head {
    /// Digest of the client's conversation thread up to and including the message that is answered.
    /// The answer's ids are derived from this digest, so equal requests have answers with equal
    /// ids.
    pub thread: String,
    /// Time of the answered message, in seconds since 1970.
    pub created_s: u64,
    /// The model name in the request.
    pub model: String,
    /// Value of the answer's field `vctx`: the agent's name and, if the agent is a branch, its
    /// parent.
    pub told: Value,
    /// Fields of the request that the answer repeats.
    pub echo: serde_json::Map<String, Value>,
}

impl Head {
    pub(super) fn chat_id(&self) -> String {
        format!("chatcmpl-{}", self.thread)
    }

    pub(super) fn response_id(&self) -> String {
        format!("resp_{}", self.thread)
    }

    /// Returns the id of an item in the answer, for example a message or a function call.
    pub(super) fn part_id(&self, kind: &str, number: usize) -> String {
        format!("{kind}_{}_{number}", self.thread)
    }
}

/// The reason why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The model finished.
    Stop,
    /// The answer calls tools of the client.
    ToolCalls,
    /// A budget of tokens, turns or time ended the answer.
    Length,
    /// The provider of the model withheld content.
    ContentFilter,
}

impl Ending {
    /// Returns the value of `finish_reason` in the chat form.
    pub fn chat(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
        }
    }

    /// Returns the values of `status` and `incomplete_details` in the responses form.
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
    /// The fields at the beginning of the answer.
    pub head: Head,
    /// The text and the calls of the answer that the client sees.
    pub seen: ClientMessage,
    /// Why the answer ended.
    pub ending: Ending,
    /// Numbers of tokens in the run's prompts and in the model's answers, if the provider counted
    /// them.
    pub usage: Option<(u64, u64)>,
}

/// What a client sees of the messages after the client's last message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    /// The combined answer: all texts of the model, and the last turn's calls to the client's
    /// tools.
    pub seen: ClientMessage,
    /// Position of the last message that the answer includes.
    pub seq: u64,
    /// Whether all calls to memory tools in the last turn have a result.
    pub whole: bool,
}

/// Separator between the texts of two turns in one answer.
pub const BETWEEN_TURNS: &str = "\n\n";

/// What a client sees of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The tool call itself, because the client brought this tool and runs it.
    Call,
    /// A text, because the tool call sends a text to the user.
    Text(String),
    /// Nothing, because the call is to a memory tool.
    Nothing,
}

/// Combines the messages after the client's last message into the answer for the client. Returns
/// `None` if these messages contain no answer. An answer consists of the texts of all turns, and
/// the last turn's calls to the client's tools. The argument `sight` returns what the client sees
/// of a call.
pub fn visible(messages: &[Message], sight: &dyn Fn(&ClientCall) -> Sight) -> Option<Visible> {
    let said = |m: &&Message| m.role == Role::Assistant && m.kind == Kind::Turn;
    let turns: Vec<&Message> = messages.iter().filter(said).collect();
    let last = turns.last()?;
    let texts = turns.iter().map(|m| spoken(m, sight)).filter(|text| !text.is_empty());
    let text = texts.collect::<Vec<_>>().join(BETWEEN_TURNS);
    let is_client = |call: &ClientCall| sight(call) == Sight::Call;
    let (calls, inner): (Vec<ClientCall>, Vec<ClientCall>) =
        calls_of(last).into_iter().partition(is_client);
    let answered = |call: &ClientCall| {
        messages.iter().any(|m| m.seq > last.seq && m.tool_call_id() == Some(call.id.as_str()))
    };
    // If each call to a memory tool in the last turn has a result, the answer is complete: a budget
    // of tokens, turns or time ended the run after these results.
    let whole = inner.iter().all(answered);
    let seen = ClientMessage { calls, ..ClientMessage::text(Role::Assistant, text) };
    Some(Visible { seen, seq: last.seq, whole })
}

/// Returns the text of a model's message, followed by the texts that the message's calls show to
/// the user.
fn spoken(message: &Message, sight: &dyn Fn(&ClientCall) -> Sight) -> String {
    let mut parts = vec![message.content.clone()];
    parts.extend(calls_of(message).iter().filter_map(|call| match sight(call) {
        Sight::Text(text) => Some(text),
        Sight::Call | Sight::Nothing => None,
    }));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn calls_of(message: &Message) -> Vec<ClientCall> {
    let calls = message.meta.get("tool_calls").and_then(Value::as_array);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let call = |call: &Value| ClientCall {
        id: text(&call["id"]),
        name: text(&call["function"]["name"]),
        arguments: text(&call["function"]["arguments"]),
    };
    calls.into_iter().flatten().map(call).collect()
}
