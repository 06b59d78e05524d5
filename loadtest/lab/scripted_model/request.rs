//! A request to a scripted model, and functions that read its parts.

use serde_json::{Map, Value};

use vctx_core::memory::Encoding;
use vctx_core::memory::TokenCounter as _;
use vctx_core::memory::local_time::LocalTime;
use vctx_core::memory::tokens::{REPLY_TOKENS, message_cost};
use vctx_core::text::Tiktoken;

/// A request to the scripted model.
#[derive(Debug, Clone)]
pub(super) struct ModelRequest {
    body: Map<String, Value>,
    /// Number of requests that the scripted model received earlier.
    pub(super) before: u64,
}

/// A tool result at the end of the conversation, with the tool call that the result answers.
#[derive(Debug, Clone)]
pub(super) struct Answered<'a> {
    /// Name of the called tool.
    pub(super) name: &'a str,
    /// Arguments of the tool call.
    pub(super) arguments: Value,
    /// Text of the tool result.
    pub(super) content: &'a str,
}

impl ModelRequest {
    pub(super) fn new(body: Map<String, Value>, before: u64) -> ModelRequest {
        ModelRequest { body, before }
    }

    pub(super) fn messages(&self) -> &[Value] {
        self.body.get("messages").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns the last message of the conversation; only notices may follow this message in the
    /// request.
    pub(super) fn last(&self) -> Option<&Value> {
        self.messages().iter().rev().find(|message| message["role"] != "system")
    }

    /// Returns the text of the last message; empty if the request has no message.
    pub(super) fn last_text(&self) -> &str {
        self.last().map_or("", said_in)
    }

    /// Whether the request offers a tool of the given name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tools().any(|tool| tool == name)
    }

    /// Returns the names of the tools that the request offers.
    pub(super) fn tools(&self) -> impl Iterator<Item = &str> {
        let tools = self.body.get("tools").and_then(Value::as_array);
        tools.into_iter().flatten().filter_map(|tool| tool["function"]["name"].as_str())
    }

    /// Returns the tool results at the end of the conversation, in order, each with the answered
    /// call.
    pub(super) fn answered(&self) -> Vec<Answered<'_>> {
        let said: Vec<&Value> =
            self.messages().iter().filter(|message| message["role"] != "system").collect();
        let count = said.iter().rev().take_while(|message| message["role"] == "tool").count();
        let (before, results) = said.split_at(said.len() - count);
        let calls = before.last().and_then(|message| message["tool_calls"].as_array());
        let answered = results.iter().filter_map(|result| {
            let id = &result["tool_call_id"];
            let call = calls?.iter().find(|call| call["id"] == *id)?;
            let arguments = call["function"]["arguments"].as_str().unwrap_or("{}");
            Some(Answered {
                name: call["function"]["name"].as_str().unwrap_or_default(),
                arguments: serde_json::from_str(arguments).unwrap_or(Value::Null),
                content: text_of(result),
            })
        });
        answered.collect()
    }

    /// Returns the text of a block as it appears in the window.
    pub(super) fn block(&self, id: &str) -> Option<&str> {
        let head = format!("<block id=\"{id}\"");
        let texts = self.messages().iter().map(text_of);
        let block = texts.into_iter().find(|text| text.starts_with(&head))?;
        let (_, rest) = block.split_once('\n')?;
        Some(rest.strip_suffix("\n</block>").unwrap_or(rest))
    }

    pub(super) fn streams(&self) -> bool {
        self.body.get("stream") == Some(&Value::Bool(true))
    }

    pub(super) fn wants_usage(&self) -> bool {
        self.body.get("stream_options").is_some_and(|options| options["include_usage"] == true)
    }

    pub(super) fn model(&self) -> &str {
        self.body.get("model").and_then(Value::as_str).unwrap_or("scripted")
    }

    /// Returns the maximum number of tokens requested for the answer; 0 if the request sets no
    /// maximum.
    pub(super) fn max_tokens(&self) -> u64 {
        let asked = ["max_tokens", "max_completion_tokens"];
        asked.iter().find_map(|name| self.body.get(*name)?.as_u64()).unwrap_or(0)
    }

    /// Returns the number of tokens of the request, counted as a provider does.
    pub(super) fn tokens(&self) -> u64 {
        let counter = Tiktoken::new(Encoding::O200kBase);
        let said: u64 = self.messages().iter().map(|m| message_cost(&counter, m)).sum();
        let tools = self.body.get("tools").and_then(Value::as_array);
        let shown: u64 = tools.into_iter().flatten().map(|t| counter.count(&t.to_string())).sum();
        said + shown + REPLY_TOKENS
    }
}

pub(super) fn text_of(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

/// Returns the text of a message without the line with its time.
pub(super) fn said_in(message: &Value) -> &str {
    let text = text_of(message);
    match text.split_once("]\n") {
        Some((time, said)) if is_time(time) => said,
        _ => text,
    }
}

/// Whether a text is the beginning of a line with the time of a message: `[2026-05-05 Tue 09:14` or
/// `[09:14`.
fn is_time(text: &str) -> bool {
    const TIME_CHARS_MAX: usize = 20;
    let Some(time) = text.strip_prefix('[').filter(|time| time.len() <= TIME_CHARS_MAX) else {
        return false;
    };
    LocalTime::parse(time).is_some() || (time.len() == 5 && time.as_bytes()[2] == b':')
}
