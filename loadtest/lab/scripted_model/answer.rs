//! Answers of a scripted model, and the forms in which the answers are sent.

use serde_json::{Value, json};

use super::request::ModelRequest;
use vctx_core::memory::Encoding;
use vctx_core::memory::TokenCounter as _;
use vctx_core::text::Tiktoken;

/// An answer of the scripted model.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelAnswer {
    /// Text of the answer.
    pub(super) text: String,
    /// Tool calls of the answer.
    pub(super) calls: Vec<Call>,
    /// Finish reason; derived from the answer's content unless set.
    pub(super) finish: Option<String>,
    pub(super) manners: Manners,
}

/// A tool call in an answer of the scripted model.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// Id of the tool call; derived from the call's position unless set.
    pub(super) id: Option<String>,
    pub(super) name: String,
    /// Arguments of the tool call as sent, valid or not.
    pub(super) arguments: String,
}

/// The way in which an answer is sent: errors, pauses, a broken connection, repetition.
#[derive(Debug, Clone, Default)]
pub(super) struct Manners {
    /// HTTP status and body sent in place of an answer.
    pub(super) instead: Option<(u16, String)>,
    /// Value of the `Retry-After` header, in seconds.
    pub(super) retry_after_s: Option<u64>,
    /// Pause in milliseconds before an answer that is not streamed, or before each piece of a
    /// streamed answer.
    pub(super) pause_ms: u64,
    /// Number of stream pieces after which the connection is closed.
    pub(super) cut_after: Option<usize>,
    /// Number of times that the answer's text is sent.
    pub(super) times: usize,
}

impl ModelAnswer {
    pub(super) fn text(text: impl Into<String>) -> ModelAnswer {
        ModelAnswer { text: text.into(), ..ModelAnswer::default() }
    }

    pub(super) fn call(name: &str, arguments: &Value) -> ModelAnswer {
        ModelAnswer { calls: vec![Call::new(name, arguments)], ..ModelAnswer::default() }
    }

    /// Makes an answer that consists of an HTTP status and a body only.
    pub(super) fn instead(status: u16, body: impl Into<String>) -> ModelAnswer {
        let manners = Manners { instead: Some((status, body.into())), ..Manners::default() };
        ModelAnswer { manners, ..ModelAnswer::default() }
    }

    fn finish(&self) -> &str {
        let natural = if self.calls.is_empty() { "stop" } else { "tool_calls" };
        self.finish.as_deref().unwrap_or(natural)
    }

    fn calls(&self, request: &ModelRequest) -> Vec<Value> {
        let place = |(at, call): (usize, &Call)| {
            let id = call.id.clone().unwrap_or_else(|| format!("call_{}_{at}", request.before));
            json!({"id": id, "type": "function",
                "function": {"name": call.name, "arguments": call.arguments}})
        };
        self.calls.iter().enumerate().map(place).collect()
    }

    fn usage(&self, request: &ModelRequest, permille: u64) -> Value {
        let counter = Tiktoken::new(Encoding::O200kBase);
        let arguments = self.calls.iter().map(|call| counter.count(&call.arguments));
        let said = counter.count(&self.text) + arguments.sum::<u64>();
        let prompt = request.tokens() * permille / 1000;
        json!({"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said})
    }

    /// Returns the answer as one response body, for a request without streaming.
    pub(super) fn whole(&self, request: &ModelRequest, permille: u64) -> Value {
        let mut message = json!({"role": "assistant", "content": self.repeated()});
        let calls = self.calls(request);
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
            if self.text.is_empty() {
                message["content"] = Value::Null;
            }
        }
        json!({"id": id(request), "object": "chat.completion", "created": 0, "model": request.model(),
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish()}],
            "usage": self.usage(request, permille)})
    }

    fn repeated(&self) -> String {
        self.text.repeat(self.manners.times.max(1))
    }

    /// Returns the answer in pieces, as sent in a stream.
    pub(super) fn pieces(&self, request: &ModelRequest, permille: u64) -> Vec<String> {
        let piece = |delta: Value, finish: Value| {
            json!({"id": id(request), "object": "chat.completion.chunk", "created": 0, "model": request.model(),
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
            .to_string()
        };
        let mut all = vec![piece(json!({"role": "assistant", "content": ""}), Value::Null)];
        for _ in 0..self.manners.times.max(1) {
            for words in words(&self.text) {
                all.push(piece(json!({"content": words}), Value::Null));
            }
        }
        for (at, call) in self.calls(request).into_iter().enumerate() {
            let name = &call["function"]["name"];
            let head = json!({"tool_calls": [{"index": at, "id": call["id"], "type": "function",
                "function": {"name": name, "arguments": ""}}]});
            all.push(piece(head, Value::Null));
            for words in words(call["function"]["arguments"].as_str().unwrap_or_default()) {
                let rest = json!({"tool_calls": [{"index": at, "function": {"arguments": words}}]});
                all.push(piece(rest, Value::Null));
            }
        }
        all.push(piece(json!({}), self.finish().into()));
        if request.wants_usage() {
            all.push(
                json!({"id": id(request), "object": "chat.completion.chunk", "created": 0, "model": request.model(),
                    "choices": [], "usage": self.usage(request, permille)})
                .to_string(),
            );
        }
        all.push("[DONE]".into());
        all
    }
}

impl Call {
    pub(super) fn new(name: &str, arguments: &Value) -> Call {
        Call { id: None, name: name.to_owned(), arguments: arguments.to_string() }
    }
}

fn id(request: &ModelRequest) -> String {
    format!("chatcmpl-{}", request.before)
}

/// Number of characters in one piece of a streamed text.
const PIECE_CHARS: usize = 12;

/// Splits a text into short pieces at character boundaries.
fn words(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let long = letters.len() / PIECES_MAX;
    letters.chunks(PIECE_CHARS.max(long)).map(|piece| piece.iter().collect()).collect()
}

/// Approximate maximum number of pieces of one text.
const PIECES_MAX: usize = 2_000;
