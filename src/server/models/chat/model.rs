//! What a chat model is asked and what it answers, whoever it is.

use std::ops::ControlFlow;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fault::ChatFault;
use vctx_core::memory::run::{ToolCall, Usage};

/// Answers with what comes next in a conversation.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Its name, as requests carry it.
    fn model(&self) -> &str;

    /// The fields of every request beside what is asked and the model's name: how it is to answer.
    fn options(&self) -> Map<String, Value>;

    /// Asks, and tells what comes as it comes. `Break` from `deltas` ends the answer there: it counts as one that was cut for its length.
    async fn complete(
        &self,
        request: &ChatRequest,
        deltas: &mut (dyn FnMut(Delta) -> ControlFlow<()> + Send),
    ) -> Result<Completion, ChatFault>;
}

/// What is sent, whole and byte for byte: `messages`, `tools`, `max_tokens`, `model`, `stream`, …
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// The body as it is on record and as it is sent.
    pub body: String,
}

/// A piece of an answer on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Text that goes on where the last piece ended.
    Text(String),
    /// The server is asked again after a pause.
    Waiting {
        /// How long, in milliseconds.
        ms: u64,
        /// Why, in a word.
        why: &'static str,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its text; none where it only calls.
    pub content: Option<String>,
    /// Its calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// Why it ends.
    pub finish: Finish,
    /// What the provider counted, if it said so.
    pub usage: Option<Usage>,
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model was done.
    Stop,
    /// It reached its limit of tokens, or ours.
    Length,
    /// It calls tools.
    ToolCalls,
    /// The provider held something back.
    ContentFilter,
}

impl Finish {
    /// As chat formats name it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
        }
    }

    /// The reason of that name; one that nobody here knows counts as a plain end.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "length" | "max_tokens" => Self::Length,
            "tool_calls" | "function_call" => Self::ToolCalls,
            "content_filter" => Self::ContentFilter,
            _ => Self::Stop,
        }
    }
}
