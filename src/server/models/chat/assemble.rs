//! Assembles a model's answer from one body or from stream pieces, and checks each part.

use serde_json::Value;

use super::fault::{ChatClass, ChatFault};
use super::model::{Completion, Finish};
use vctx_core::limits::TOOL_CALLS_MAX;
use vctx_core::memory::run::{ToolCall, Usage};

/// What was received of a model's answer so far.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    content: String,
    calls: Vec<ToolCall>,
    finish: Option<Finish>,
    usage: Option<Usage>,
    /// Whether any part of the answer was received.
    seen: bool,
}

impl Assembly {
    /// Adds a streamed piece, and returns its text.
    pub(super) fn piece(&mut self, data: &str) -> Result<String, ChatFault> {
        let value: Value = serde_json::from_str(data).map_err(|e| rubbish().caused_by(e))?;
        if let Some(error) = value.get("error").filter(|e| !e.is_null()) {
            return Err(fault_class(error));
        }
        self.count(&value);
        let Some(choice) = value.pointer("/choices/0") else { return Ok(String::new()) };
        self.seen = true;
        let delta = &choice["delta"];
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call_piece(call)?;
        }
        self.finished(choice);
        let text = delta["content"].as_str().or_else(|| delta["refusal"].as_str());
        let text = text.unwrap_or_default().to_owned();
        self.content.push_str(&text);
        Ok(text)
    }

    /// Reads a complete answer from one body.
    pub(super) fn whole(&mut self, body: &[u8]) -> Result<(), ChatFault> {
        let value: Value = serde_json::from_slice(body).map_err(|e| rubbish().caused_by(e))?;
        if let Some(error) = value.get("error").filter(|e| !e.is_null()) {
            return Err(fault_class(error));
        }
        self.count(&value);
        let Some(choice) = value.pointer("/choices/0").filter(|c| c["message"].is_object()) else {
            return Err(rubbish());
        };
        self.seen = true;
        let message = &choice["message"];
        let text = message["content"].as_str().or_else(|| message["refusal"].as_str());
        self.content = text.unwrap_or_default().to_owned();
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            if self.calls.len() >= TOOL_CALLS_MAX {
                break;
            }
            let (id, name) = (text_of(&call["id"]), text_of(&call["function"]["name"]));
            let arguments = arguments_of(&call["function"]["arguments"]);
            self.calls.push(ToolCall { id, name, arguments });
        }
        self.finish = Some(Finish::Stop);
        self.finished(choice);
        Ok(())
    }

    /// Returns the answer's text received so far.
    pub(super) fn content(&self) -> &str {
        &self.content
    }

    /// Returns whether the model reported the end of the answer.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Returns whether any part of the answer was received.
    pub(super) fn is_begun(&self) -> bool {
        self.seen
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

    fn call_piece(&mut self, piece: &Value) -> Result<(), ChatFault> {
        let last = self.calls.len().saturating_sub(1);
        let index = piece["index"].as_u64().and_then(|at| usize::try_from(at).ok());
        let index = index.unwrap_or(last);
        if index >= TOOL_CALLS_MAX {
            return Ok(());
        }
        if index > self.calls.len() {
            return Err(rubbish());
        }
        if index == self.calls.len() {
            let (id, name, arguments) = (String::new(), String::new(), String::new());
            self.calls.push(ToolCall { id, name, arguments });
        }
        let call = &mut self.calls[index];
        // Most model servers send a call's id and name once; some repeat them with each piece.
        if call.id.is_empty() {
            call.id = text_of(&piece["id"]);
        }
        if call.name.is_empty() {
            call.name = text_of(&piece["function"]["name"]);
        }
        call.arguments.push_str(&arguments_of(&piece["function"]["arguments"]));
        Ok(())
    }

    fn finished(&mut self, choice: &Value) {
        if let Some(name) = choice["finish_reason"].as_str() {
            self.finish = Some(Finish::by_name(name));
        }
    }

    fn count(&mut self, value: &Value) {
        let usage = &value["usage"];
        if let (Some(prompt), Some(completion)) =
            (usage["prompt_tokens"].as_u64(), usage["completion_tokens"].as_u64())
        {
            self.usage = Some(Usage { prompt, completion });
        }
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the arguments of a call as JSON text; some model servers send an object instead of a
/// text.
fn arguments_of(value: &Value) -> String {
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
    if code.contains("rate_limit") {
        return ChatFault::new(
            ChatClass::RateLimited,
            "the model's server takes no more requests now",
        );
    }
    ChatFault::new(ChatClass::Unavailable, "the model's server failed while it answered")
}

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
