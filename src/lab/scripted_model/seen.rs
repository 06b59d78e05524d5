//! What a scripted model sees: a request, read as a model would read it.

use serde_json::{Map, Value};

use vctx_core::memory::Encoding;
use vctx_core::memory::TokenCounter as _;
use vctx_core::memory::tokens::{REPLY_TOKENS, message_cost};
use vctx_core::text::Tiktoken;

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    body: Map<String, Value>,
    /// Requests before this one.
    pub(super) before: u64,
}

/// A result that stands at the end of what was said, with the call that it answers.
#[derive(Debug, Clone)]
pub(super) struct Answered<'a> {
    /// Tool that was called.
    pub(super) name: &'a str,
    /// With what.
    pub(super) arguments: Value,
    /// What it said.
    pub(super) content: &'a str,
}

impl Seen {
    pub(super) fn new(body: Map<String, Value>, before: u64) -> Seen {
        Seen { body, before }
    }

    pub(super) fn messages(&self) -> &[Value] {
        self.body.get("messages").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The last message that somebody said: what stands behind it are notices.
    pub(super) fn last(&self) -> Option<&Value> {
        self.messages().iter().rev().find(|message| message["role"] != "system")
    }

    /// Its text; nothing where there is none.
    pub(super) fn last_text(&self) -> &str {
        self.last().map_or("", text_of)
    }

    /// Whether a tool of that name is offered.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tools().any(|tool| tool == name)
    }

    /// Names of the tools that are offered.
    pub(super) fn tools(&self) -> impl Iterator<Item = &str> {
        let tools = self.body.get("tools").and_then(Value::as_array);
        tools.into_iter().flatten().filter_map(|tool| tool["function"]["name"].as_str())
    }

    /// The results at the end, in order, each with its call.
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

    /// Text of a block of working memory, as it stands in the window.
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

    /// Most tokens of the answer that is asked for; 0 where nothing is said.
    pub(super) fn max_tokens(&self) -> u64 {
        let asked = ["max_tokens", "max_completion_tokens"];
        asked.iter().find_map(|name| self.body.get(*name)?.as_u64()).unwrap_or(0)
    }

    /// Tokens of the request, counted as a provider would.
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
