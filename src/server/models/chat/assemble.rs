//! Assembles a model's answer from one body or from stream pieces, and checks each part.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fault::{ChatClass, ChatFault};
use super::model::{Completion, Finish};
use super::{chat, messages, responses};
use vctx_core::limits::TOOL_CALLS_MAX;
use vctx_core::memory::model_api::ModelApi;
use vctx_core::memory::run::{ToolCall, Usage};

/// Data of the last event in a stream of chat completions.
const DONE: &str = "[DONE]";

/// What was received of a model's answer so far.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    api: ModelApi,
    pub(super) content: String,
    pub(super) calls: Vec<ToolCall>,
    pub(super) finish: Option<Finish>,
    pub(super) usage: Option<Usage>,
    /// Whether any part of the answer was received.
    pub(super) is_begun: bool,
    /// Whether the model's server said that nothing follows.
    pub(super) is_over: bool,
    /// Position of each call by the number that the model's server gives to its part of the answer.
    places: BTreeMap<u64, usize>,
}

impl Assembly {
    /// Begins an answer in the form of the given API.
    pub(super) fn new(api: ModelApi) -> Self {
        Self { api, ..Self::default() }
    }

    /// Adds a streamed piece, and returns its text.
    pub(super) fn piece(&mut self, data: &str) -> Result<String, ChatFault> {
        if data == DONE {
            self.is_over = true;
            return Ok(String::new());
        }
        let value: Value = serde_json::from_str(data).map_err(|e| rubbish().caused_by(e))?;
        if let Some(error) = value.get("error").filter(|e| !e.is_null()) {
            return Err(fault_class(error));
        }
        let text = match self.api {
            ModelApi::Chat => chat::piece(self, &value)?,
            ModelApi::Responses => responses::piece(self, &value)?,
            ModelApi::Messages => messages::piece(self, &value)?,
        };
        self.content.push_str(&text);
        Ok(text)
    }

    /// Reads a complete answer from one body.
    pub(super) fn whole(&mut self, body: &[u8]) -> Result<(), ChatFault> {
        let value: Value = serde_json::from_slice(body).map_err(|e| rubbish().caused_by(e))?;
        if let Some(error) = value.get("error").filter(|e| !e.is_null()) {
            return Err(fault_class(error));
        }
        match self.api {
            ModelApi::Chat => chat::whole(self, &value),
            ModelApi::Responses => responses::whole(self, &value),
            ModelApi::Messages => messages::whole(self, &value),
        }?;
        self.is_begun = true;
        self.finish.get_or_insert(Finish::Stop);
        Ok(())
    }

    /// Returns the answer's text received so far.
    pub(super) fn content(&self) -> &str {
        &self.content
    }

    /// Returns the assembled answer; `finish` is its finish reason if the model gave none.
    pub(super) fn close(self, finish: Finish) -> Completion {
        let said = self.finish.unwrap_or(finish);
        // Some model servers give the finish reason `stop` even if the answer has tool calls.
        let finish = match said {
            Finish::Stop if !self.calls.is_empty() => Finish::ToolCalls,
            other => other,
        };
        let content = Some(self.content).filter(|text| !text.is_empty());
        Completion { content, tool_calls: self.calls, finish, usage: self.usage }
    }

    /// Adds a complete call; further calls than the limit are left out.
    pub(super) fn call(&mut self, id: &Value, name: &Value, arguments: &Value) {
        if self.calls.len() < TOOL_CALLS_MAX {
            let (id, name) = (text_of(id), text_of(name));
            self.calls.push(ToolCall { id, name, arguments: arguments_of(arguments) });
        }
    }

    /// Begins a call in the numbered part of the answer; its arguments follow in pieces.
    pub(super) fn begin_call(&mut self, part: &Value, id: &Value, name: &Value) {
        if self.calls.len() < TOOL_CALLS_MAX {
            let part = part.as_u64().unwrap_or(u64::MAX);
            self.places.insert(part, self.calls.len());
            self.call(id, name, &Value::Null);
        }
    }

    /// Adds a piece of a call's arguments. Pieces of a call that was left out are left out too.
    pub(super) fn add_arguments(&mut self, part: &Value, piece: &Value) {
        let place = part.as_u64().and_then(|part| self.places.get(&part));
        if let Some(call) = place.and_then(|at| self.calls.get_mut(*at)) {
            call.arguments.push_str(piece.as_str().unwrap_or_default());
        }
    }

    /// Replaces a call's arguments by their complete text.
    pub(super) fn set_arguments(&mut self, part: &Value, whole: &Value) {
        let place = part.as_u64().and_then(|part| self.places.get(&part));
        if let (Some(call), Some(text)) =
            (place.and_then(|at| self.calls.get_mut(*at)), whole.as_str())
        {
            call.arguments = text.to_owned();
        }
    }
}

pub(super) fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the arguments of a call as JSON text; some model servers send an object instead of a
/// text.
pub(super) fn arguments_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

pub(super) fn rubbish() -> ChatFault {
    ChatFault::new(ChatClass::Rubbish, "the model's server sent an invalid answer")
}

/// Returns the fault for an error object in an answer, classified by the error's code.
pub(super) fn fault_class(error: &Value) -> ChatFault {
    if is_overflow(error) {
        return overflow();
    }
    let code = error["code"].as_str().or_else(|| error["type"].as_str()).unwrap_or_default();
    // A later attempt does not help: OpenAI gives this code if an account has no money left.
    if code == NO_QUOTA {
        return ChatFault::new(ChatClass::Refused, "the quota at the model's provider is used up");
    }
    if code.contains("rate_limit") {
        return ChatFault::new(
            ChatClass::RateLimited,
            "the model's server takes no more requests now",
        );
    }
    ChatFault::new(ChatClass::Unavailable, "the model's server failed while it answered")
}

/// Code of the error by which OpenAI says that an account's quota is used up.
pub(super) const NO_QUOTA: &str = "insufficient_quota";

pub(super) fn overflow() -> ChatFault {
    ChatFault::new(ChatClass::Overflow, "the request is longer than the model's context")
}

/// Words by which an error says that the request is too long (OpenAI: `context_length_exceeded`;
/// vLLM, llama.cpp and others: phrases).
const OVERFLOW: [&str; 6] = [
    "context_length_exceeded",
    "maximum context length",
    "context length",
    "context window",
    "exceed_context_size",
    "prompt is too long",
];

pub(super) fn is_overflow(error: &Value) -> bool {
    let words = [&error["code"], &error["type"], &error["message"], error];
    let said = words.iter().filter_map(|value| value.as_str());
    said.map(str::to_lowercase).any(|text| OVERFLOW.iter().any(|word| text.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembled(pieces: &[&str]) -> Completion {
        let mut assembly = Assembly::default();
        for piece in pieces {
            assembly.piece(piece).unwrap();
        }
        assembly.close(Finish::Length)
    }

    #[test]
    fn a_stream_becomes_one_answer() {
        let text = assembled(&[
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"delta":{"content":"Hel"}}]}"#,
            r#"{"choices":[{"delta":{"content":"lo"}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#,
        ]);
        assert_eq!(text.content.as_deref(), Some("Hello"));
        assert_eq!(text.finish, Finish::Stop);
        assert_eq!(text.usage, Some(Usage { prompt: 7, completion: 2 }));
        let calls = assembled(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        ]);
        assert_eq!(calls.finish, Finish::ToolCalls);
        assert_eq!(calls.tool_calls[0].arguments, r#"{"x":1}"#);
        assert_eq!(calls.tool_calls[1].id, "b");
        assert_eq!(calls.content, None);
    }

    #[test]
    fn what_is_no_answer_has_a_class() {
        for (piece, class) in [
            ("hello", ChatClass::Rubbish),
            (r#"{"error":{"message":"boom"}}"#, ChatClass::Unavailable),
            (r#"{"error":{"code":"context_length_exceeded"}}"#, ChatClass::Overflow),
            (
                r#"{"error":{"message":"This model's maximum context length is 10"}}"#,
                ChatClass::Overflow,
            ),
            (r#"{"error":{"type":"rate_limit_error"}}"#, ChatClass::RateLimited),
            (
                r#"{"choices":[{"delta":{"tool_calls":[{"index":5,"id":"a"}]}}]}"#,
                ChatClass::Rubbish,
            ),
        ] {
            assert_eq!(Assembly::default().piece(piece).unwrap_err().class, class, "{piece}");
        }
        for body in ["", "[]", "{}", r#"{"choices":[]}"#, r#"{"choices":[{"message":3}]}"#] {
            let fault = Assembly::default().whole(body.as_bytes()).unwrap_err();
            assert_eq!(fault.class, ChatClass::Rubbish, "{body}");
        }
    }
}
