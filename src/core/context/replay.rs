//! A past prompt put together again from what is stored, and held against the digests that were taken when it was sent.

use serde::Serialize;
use serde_json::{Map, Value};

use super::window::{Window, assemble};
use crate::memory::core::{Core, Summary};
use crate::memory::message::Message;
use crate::memory::prompt::{Prompt, Texts, ToolSet, request_text};
use crate::memory::receipt;
use crate::memory::tokens::{TokenCounter, message_cost};

/// What a prompt was made of, as it is stored now.
#[derive(Clone, Copy)]
pub struct Stored<'a> {
    /// The core as it is.
    pub core: &'a Core,
    /// The row.
    pub prompt: &'a Prompt,
    /// The copy of the texts.
    pub texts: Option<&'a Texts>,
    /// The tools.
    pub tools: Option<&'a ToolSet>,
    /// The messages.
    pub queue: &'a [Message],
    /// Counts in the encoding of the prompt.
    pub counter: &'a dyn TokenCounter,
}

/// A part of a prompt whose text is no longer there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gone {
    /// `summary`, `fifo`, `tools` or `texts`.
    pub section: &'static str,
    /// Place of the message.
    pub seq: Option<u64>,
    /// Its id.
    pub id: String,
    /// When it went; none: nobody knows why it is not there.
    pub expired_at: Option<String>,
    /// That it went since it was to be forgotten; none: the policy of retention took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forgotten_at: Option<String>,
}

/// Something that is not as it was when the prompt was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Differs {
    /// What, in a sentence.
    pub what: String,
    /// Place of the message, if it is one.
    pub seq: Option<u64>,
    /// The digest that was taken then.
    pub expected: String,
    /// The digest of what is there.
    pub found: String,
}

/// A prompt put together again.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The window.
    pub window: Window,
    /// The bytes of the request; those that were sent if nothing is gone and nothing differs.
    pub request: String,
    /// What is gone.
    pub gone: Vec<Gone>,
    /// What differs.
    pub differs: Vec<Differs>,
}

impl Replayed {
    /// Whether these are the very bytes that were sent.
    pub fn is_exact(&self) -> bool {
        self.gone.is_empty() && self.differs.is_empty()
    }
}

/// Puts a prompt together again.
pub fn replay(stored: Stored<'_>) -> Replayed {
    let prompt = stored.prompt;
    let mut gone = Vec::new();
    let mut differs = messages_that_differ(prompt, stored.core.sealed_as(), stored.queue);
    // What was forgotten before the prompt was made did not stand in it.
    let stood = |m: &&Message| m.forgotten_version.is_none_or(|v| v > prompt.window.version);
    let queue: Vec<Message> =
        stored.queue.iter().filter(stood).map(|m| counted(&stored, m)).collect();
    let core = core_of(&stored, &queue, &mut gone);
    gone.extend(expired(&queue));
    let window = assemble(&core, &queue);
    let tools = tools_of(&stored, &mut gone, &mut differs);
    let options: Map<String, Value> =
        serde_json::from_str(&prompt.sent.options).unwrap_or_default();
    let request = request_text(&prompt.sent.model, &window.messages, tools, &options);
    if gone.is_empty() {
        let messages_digest = window.manifest["messages_digest"].as_str().unwrap_or_default();
        for (what, expected, found) in [
            (
                "the messages are not those that were sent",
                &prompt.window.messages_digest,
                messages_digest,
            ),
            (
                "the manifest is not that of the prompt",
                &prompt.window.context_digest,
                &window.context_digest,
            ),
            (
                "the request is not the one that was sent",
                &prompt.sent.request_digest,
                &receipt::sha256(&request),
            ),
        ] {
            if expected != found {
                differs.push(differing(what, None, expected, found));
            }
        }
    }
    Replayed { window, request, gone, differs }
}

fn differing(what: &str, seq: Option<u64>, expected: &str, found: &str) -> Differs {
    Differs { what: what.into(), seq, expected: expected.into(), found: found.into() }
}

/// The core as it was, as far as a window shows it.
fn core_of(stored: &Stored<'_>, queue: &[Message], gone: &mut Vec<Gone>) -> Core {
    let window = &stored.prompt.window;
    let mut core = stored.core.clone();
    core.version = window.version;
    core.rev.clone_from(&window.core_rev);
    core.queue.head_seq = window.head_seq;
    core.queue.next_seq = window.next_seq;
    core.chain = window.chain.clone();
    core.open_calls.clone_from(&window.open_calls);
    core.notices.clone_from(&window.notices);
    core.tools = window.offered.clone();
    core.encoding = window.encoding;
    core.token_budget = window.policy;
    core.context_window = window.policy.max;
    core.queue.tokens = queue.iter().map(|m| m.token_estimate).sum();
    core.queue.count = queue.len() as u64;
    let Some(texts) = stored.texts else {
        gone.push(Gone {
            section: "texts",
            seq: None,
            id: "core_versions".into(),
            expired_at: None,
            forgotten_at: None,
        });
        return core;
    };
    core.system = texts.system.clone();
    core.working_blocks.clone_from(&texts.working_blocks);
    if texts.forgotten_at.is_some() {
        gone.push(Gone {
            section: "texts",
            seq: None,
            id: texts.key.clone(),
            expired_at: texts.expired_at.clone(),
            forgotten_at: texts.forgotten_at.clone(),
        });
    }
    let mut summary = texts.queue_head_summary.clone();
    if summary["content"].is_null() {
        summary["content"] = "".into();
        gone.push(Gone {
            section: "summary",
            seq: None,
            id: format!("summary:{}", summary["revision"]),
            expired_at: texts.expired_at.clone(),
            forgotten_at: summary["forgotten_at"].as_str().map(str::to_owned),
        });
    }
    core.queue_head_summary = serde_json::from_value::<Summary>(summary).unwrap_or_default();
    core
}

/// A message with the cost that it had in the encoding of the prompt.
fn counted(stored: &Stored<'_>, message: &Message) -> Message {
    let mut message = message.clone();
    message.token_estimate = message_cost(stored.counter, &message.rendered());
    message
}

fn expired(queue: &[Message]) -> impl Iterator<Item = Gone> {
    queue.iter().filter(|m| m.expired_at.is_some()).map(|m| Gone {
        section: "fifo",
        seq: Some(m.seq),
        id: m.key.clone(),
        expired_at: m.expired_at.clone(),
        forgotten_at: m.forgotten_at.clone(),
    })
}

/// Messages whose text is not what their digest says, or whose digest is not what the chain says.
fn messages_that_differ(prompt: &Prompt, name: &str, queue: &[Message]) -> Vec<Differs> {
    let mut found = Vec::new();
    let mut before: Option<&Message> = None;
    for message in queue {
        if message.expired_at.is_none() {
            let canonical = receipt::canonical_message(name, &Value::Object(message.public()));
            let digest = receipt::digest(&message.salt, &canonical);
            if digest != message.digest {
                let what = "the message is not the one that was appended";
                found.push(differing(what, Some(message.seq), &message.digest, &digest));
            }
        }
        if let Some(before) = before.filter(|before| before.seq + 1 == message.seq) {
            let chain = receipt::link(&before.chain, &message.digest);
            if chain != message.chain {
                let what = "the digest of the message is not the one in the chain";
                found.push(differing(what, Some(message.seq), &message.chain, &chain));
            }
        }
        before = Some(message);
    }
    let last = queue.last().filter(|m| m.seq == prompt.window.chain.length);
    if let Some(last) = last.filter(|last| last.chain != prompt.window.chain.head) {
        let what = "the chain does not lead to the head that it had";
        found.push(differing(what, Some(last.seq), &prompt.window.chain.head, &last.chain));
    }
    found
}

/// The tools that were offered, as they stand in the request.
fn tools_of(
    stored: &Stored<'_>,
    gone: &mut Vec<Gone>,
    differs: &mut Vec<Differs>,
) -> Option<Value> {
    let digest = stored.prompt.sent.tools.as_ref()?;
    let Some(set) = stored.tools else {
        gone.push(Gone {
            section: "tools",
            seq: None,
            id: digest.clone(),
            expired_at: None,
            forgotten_at: None,
        });
        return None;
    };
    if !set.holds() || set.digest != *digest {
        differs.push(differing(
            "the tools are not those that were offered",
            None,
            digest,
            &set.digest,
        ));
    }
    serde_json::from_str(&set.text).ok()
}
