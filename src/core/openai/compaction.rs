//! Compactions: items that stand for the beginning of a conversation, which the server already has.
//!
//! The content of a compaction is a position in a conversation thread, and short digests of the
//! user's messages that the answer repeated before the compaction. It contains no text.

use serde_json::{Map, Value, json};

use super::conversation::Conversation;
use super::fields::Fields;
use super::responses::{previous, said_in};
use crate::error::{Error, Result};
use crate::memory::Labels;
use crate::memory::conversation::ClientMessage;
use crate::memory::message::Role;
use crate::memory::receipt::sha256;

/// Beginning of a compaction's content; a later form has another beginning.
const FORM: &str = "vctx1.";
/// Number of hex digits of a digest in a conversation thread.
const THREAD_DIGITS: usize = 64;
/// Number of hex digits of the digest of a user's message in a compaction (64 bits). With two
/// messages of the same digest, a client could only harm its own conversation.
const KEPT_DIGITS: usize = 16;

/// Request fields that concern only OpenAI's servers and have no effect on this server.
const IGNORED: [&str; 4] =
    ["service_tier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"];

/// A compaction of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// Digest of the thread up to and including the last message that the compaction stands for.
    pub thread: String,
    /// Digests of the user's messages that were repeated before the compaction, oldest first.
    kept: Vec<String>,
}

impl Compaction {
    /// Returns the compaction of a thread, before which the given messages are repeated.
    pub fn new(thread: String, kept: &[ClientMessage]) -> Self {
        Self { thread, kept: kept.iter().map(digest).collect() }
    }

    /// Reads the content of a compaction that this server made.
    pub(super) fn parse(content: &str) -> Option<Self> {
        let (thread, kept) = content.strip_prefix(FORM)?.split_once('.')?;
        let hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let whole = thread.len() == THREAD_DIGITS && kept.len().is_multiple_of(KEPT_DIGITS);
        if !whole || !hex(thread) || !hex(kept) {
            return None;
        }
        let kept = kept.as_bytes().chunks(KEPT_DIGITS);
        let kept = kept.map(|digits| String::from_utf8_lossy(digits).into_owned()).collect();
        Some(Self { thread: thread.to_owned(), kept })
    }

    fn content(&self) -> String {
        format!("{FORM}{}.{}", self.thread, self.kept.concat())
    }

    /// Returns the index of the first message that the compaction did not repeat; the messages that
    /// it repeated may be left out, but their order is the same.
    pub(super) fn first_foreign(&self, said: &[ClientMessage]) -> Option<usize> {
        let mut kept = self.kept.iter();
        said.iter().position(|one| {
            let digest = digest(one);
            one.role != Role::User || !kept.any(|kept| *kept == digest)
        })
    }
}

fn digest(said: &ClientMessage) -> String {
    sha256(&said.canonical())[..KEPT_DIGITS].to_owned()
}

/// Parses a request of `/v1/responses/compact`.
pub fn parse_compact(body: Map<String, Value>) -> Result<Conversation> {
    let mut fields = Fields::of(Value::Object(body), "")?;
    let stateful = "exists at OpenAI only: send the history as input, or previous_response_id";
    fields.refuse("conversation", &[], stateful)?;
    let mut conversation = Conversation {
        model: fields.required("model")?,
        labels: Labels { user: fields.text("user")?, ..Labels::default() },
        previous: previous(&mut fields)?,
        ..Conversation::default()
    };
    // The agent has its system text already.
    fields.text("instructions")?;
    fields.ignore(&IGNORED);
    match fields.take("input") {
        Some(Value::String(text)) if !text.is_empty() => {
            conversation.said = vec![ClientMessage::text(Role::User, text)];
        }
        Some(Value::Array(items)) => said_in(items, &mut conversation)?,
        None if conversation.previous.is_some() => {}
        _ => {
            let why = "is missing: give the history as a list of items, or previous_response_id";
            return Err(fields.fault("input", why));
        }
    }
    fields.end()?;
    let conversation = conversation.tidied("input")?;
    if conversation.previous.is_none() && conversation.said.is_empty() {
        return Err(Error::argument("input", "has no message: give the history"));
    }
    Ok(conversation)
}

/// Returns the answer to a request of `/v1/responses/compact`: the user's messages, then the
/// compaction. No model is asked, so the usage is zero.
pub fn compact_answer(
    compaction: &Compaction,
    kept: &[ClientMessage],
    created_s: u64,
    told: Value,
) -> Value {
    let thread = compaction.thread.as_str();
    let message = |(number, said): (usize, &ClientMessage)| {
        json!({"id": format!("msg_{thread}_{number}"), "type": "message", "status": "completed", "role": "user",
            "content": [{"type": "input_text", "text": said.text}]})
    };
    let mut output: Vec<Value> = kept.iter().enumerate().map(message).collect();
    output.push(json!({"id": format!("cmp_{thread}"), "type": "compaction",
        "encrypted_content": compaction.content()}));
    // The id names no answer that a request could continue.
    let id = sha256(&format!("compaction\0{thread}"));
    json!({"id": format!("resp_{id}"), "object": "response.compaction", "created_at": created_s,
        "output": output, "vctx": told,
        "usage": {"input_tokens": 0, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 0, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0}})
}
