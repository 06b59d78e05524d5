//! Defines the interface to a chat model: the request, the pieces of an answer, and the complete
//! answer.

use std::ops::ControlFlow;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fault::ChatFault;
use vctx_core::memory::model_api::ModelApi;
use vctx_core::memory::run::{ToolCall, Usage};

/// A chat model that answers requests with text and tool calls.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Returns the model name that requests contain.
    fn model(&self) -> &str;

    /// Returns the API in whose form the model's server reads requests.
    fn api(&self) -> ModelApi;

    /// Returns the fields that every request contains in addition to its content and the model
    /// name.
    fn options(&self) -> Map<String, Value>;

    /// Sends a request to the model, and passes each received piece of the answer to `deltas`. If
    /// `deltas` returns `Break`, the answer ends as if it had reached the token limit.
    async fn complete(
        &self,
        request: &ChatRequest,
        deltas: &mut (dyn FnMut(Delta) -> ControlFlow<()> + Send),
    ) -> Result<Completion, ChatFault>;
}

/// A request to a chat model, as the exact bytes to send: `messages`, `tools`, `max_tokens`,
/// `model`, `stream`, …
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// Body of the request; the same text is recorded and sent.
    pub body: String,
}

/// A piece of a model's answer, or a note that the model is asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// The next piece of the answer's text.
    Text(String),
    /// The model server will be asked again after a pause.
    Waiting {
        /// Pause before the next attempt, in milliseconds.
        ms: u64,
        /// Reason for the pause, in one word.
        why: &'static str,
    },
}

/// A model's complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Text of the answer; `None` if it has only calls.
    pub content: Option<String>,
    /// Calls of the answer, in their order.
    pub tool_calls: Vec<ToolCall>,
    /// Why the answer ended.
    pub finish: Finish,
    /// The provider's token counts, if any.
    pub usage: Option<Usage>,
}

/// Why a model's answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The answer is complete.
    Stop,
    /// The answer reached the token limit of the model or the server.
    Length,
    /// The model calls tools and waits for their results.
    ToolCalls,
    /// The provider withheld a part of the answer.
    ContentFilter,
}

impl Finish {
    /// Returns the reason's name in the OpenAI chat format.
    pub fn text(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
        }
    }

    /// Returns the reason with the given name; an unknown name counts as `stop`.
    pub(super) fn by_name(name: &str) -> Self {
        match name {
            "length" | "max_tokens" => Self::Length,
            "tool_calls" | "function_call" => Self::ToolCalls,
            "content_filter" => Self::ContentFilter,
            _ => Self::Stop,
        }
    }
}
