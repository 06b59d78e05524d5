//! What a scripted model answers, and with which manners.

use serde_json::{Value, json};

use super::seen::Seen;
use vctx_core::memory::Encoding;
use vctx_core::memory::TokenCounter as _;
use vctx_core::text::Tiktoken;

/// An answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    /// Its text.
    pub(super) text: String,
    /// Its calls.
    pub(super) calls: Vec<Call>,
    /// Why it ends; by what is in it unless given.
    pub(super) finish: Option<String>,
    pub(super) manners: Manners,
}

/// A call of an answer.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// Its id; made from its place unless given.
    pub(super) id: Option<String>,
    pub(super) name: String,
    /// Arguments as they are sent: right or not.
    pub(super) arguments: String,
}

/// How it answers.
#[derive(Debug, Clone, Default)]
pub(super) struct Manners {
    /// Status and body in the place of an answer.
    pub(super) instead: Option<(u16, String)>,
    /// `Retry-After`, in seconds.
    pub(super) retry_after_s: Option<u64>,
    /// Pause before each piece of a stream, in milliseconds; before the whole where nothing streams.
    pub(super) pause_ms: u64,
    /// Pieces after which the connection is cut.
    pub(super) cut_after: Option<usize>,
    /// Times that the text is sent, one after the other.
    pub(super) times: usize,
}

impl Said {
    pub(super) fn text(text: impl Into<String>) -> Said {
        Said { text: text.into(), ..Said::default() }
    }

    pub(super) fn call(name: &str, arguments: &Value) -> Said {
        Said { calls: vec![Call::new(name, arguments)], ..Said::default() }
    }

    /// Something else than an answer.
    pub(super) fn instead(status: u16, body: impl Into<String>) -> Said {
        let manners = Manners { instead: Some((status, body.into())), ..Manners::default() };
        Said { manners, ..Said::default() }
    }

    fn finish(&self) -> &str {
        let natural = if self.calls.is_empty() { "stop" } else { "tool_calls" };
        self.finish.as_deref().unwrap_or(natural)
    }

    fn calls(&self, seen: &Seen) -> Vec<Value> {
        let place = |(at, call): (usize, &Call)| {
            let id = call.id.clone().unwrap_or_else(|| format!("call_{}_{at}", seen.before));
            json!({"id": id, "type": "function",
                "function": {"name": call.name, "arguments": call.arguments}})
        };
        self.calls.iter().enumerate().map(place).collect()
    }

    fn usage(&self, seen: &Seen, permille: u64) -> Value {
        let counter = Tiktoken::new(Encoding::O200kBase);
        let arguments = self.calls.iter().map(|call| counter.count(&call.arguments));
        let said = counter.count(&self.text) + arguments.sum::<u64>();
        let prompt = seen.tokens() * permille / 1000;
        json!({"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said})
    }

    /// The answer as one body.
    pub(super) fn whole(&self, seen: &Seen, permille: u64) -> Value {
        let mut message = json!({"role": "assistant", "content": self.repeated()});
        let calls = self.calls(seen);
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
            if self.text.is_empty() {
                message["content"] = Value::Null;
            }
        }
        json!({"id": id(seen), "object": "chat.completion", "created": 0, "model": seen.model(),
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish()}],
            "usage": self.usage(seen, permille)})
    }

    fn repeated(&self) -> String {
        self.text.repeat(self.manners.times.max(1))
    }

    /// The answer in pieces, as a stream carries them.
    pub(super) fn pieces(&self, seen: &Seen, permille: u64) -> Vec<String> {
        let piece = |delta: Value, finish: Value| {
            json!({"id": id(seen), "object": "chat.completion.chunk", "created": 0, "model": seen.model(),
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
            .to_string()
        };
        let mut all = vec![piece(json!({"role": "assistant", "content": ""}), Value::Null)];
        for _ in 0..self.manners.times.max(1) {
            for words in words(&self.text) {
                all.push(piece(json!({"content": words}), Value::Null));
            }
        }
        for (at, call) in self.calls(seen).into_iter().enumerate() {
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
        if seen.wants_usage() {
            all.push(
                json!({"id": id(seen), "object": "chat.completion.chunk", "created": 0, "model": seen.model(),
                    "choices": [], "usage": self.usage(seen, permille)})
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

fn id(seen: &Seen) -> String {
    format!("chatcmpl-{}", seen.before)
}

/// Characters of one piece.
const PIECE_CHARS: usize = 12;

/// A text in short pieces, cut between characters.
fn words(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let long = letters.len() / PIECES_MAX;
    letters.chunks(PIECE_CHARS.max(long)).map(|piece| piece.iter().collect()).collect()
}

/// Pieces of one text at most, about.
const PIECES_MAX: usize = 2_000;
