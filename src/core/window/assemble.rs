//! Renders the window as chat messages, with a manifest that lists each message with its digest and
//! the reason why the message is in the window.

use serde_json::{Map, Value, json};

use super::context::question_seq;
use super::section::Item;
use super::strict::arranged;
use super::{Section, Tokens, tokens};
use crate::memory::core::Core;
use crate::memory::form::Form;
use crate::memory::message::Message;
use crate::memory::receipt;

/// A rendered window.
#[derive(Clone, Debug)]
pub struct Window {
    /// Chat messages of the window, in order.
    pub messages: Vec<Value>,
    /// Token counts of the sections.
    pub tokens: Tokens,
    /// Manifest of the window: head of the hash chain, token budget, encoding, and one item for
    /// each message.
    pub manifest: Value,
    /// SHA-256 of the manifest's canonical JSON; the manifest contains the digest of the messages.
    pub context_digest: String,
}

/// Assembles the window from a core and the messages of the core's queue (oldest first).
pub fn assemble(core: &Core, queue: &[Message]) -> Window {
    let of = |section: Section| {
        (section.spec().items)(core, queue).into_iter().map(move |item| (section, item))
    };
    let mut items: Vec<(Section, Item)> = Section::ALL.into_iter().flat_map(of).collect();
    match core.form {
        Form::One | Form::Two => before_question(&mut items, question_seq(core)),
        Form::Strict => items = arranged(items),
    }
    let mut listed = Vec::with_capacity(items.len());
    let mut messages = Vec::new();
    for (section, item) in items {
        listed.push(entry(core.form, section, &item));
        show(item, &mut messages);
    }
    let messages_digest =
        receipt::sha256(&receipt::canonical_json(&Value::Array(messages.clone())));
    let manifest = Value::Object(manifest(core, messages_digest, listed));
    let context_digest = receipt::sha256(&receipt::canonical_json(&manifest));
    Window { messages, tokens: tokens(core), manifest, context_digest }
}

/// Moves the built context before the message with the question, so that the question stays the
/// newest message of the user, and the texts before it stay the same from prompt to prompt.
fn before_question(items: &mut [(Section, Item)], question_seq: Option<u64>) {
    let Some(at) = items.iter().position(|(section, _)| *section == Section::Context) else {
        return;
    };
    let asks = |(_, item): &(Section, Item)| item.seq.is_some() && item.seq == question_seq;
    if let Some(to) = items[..at].iter().position(asks) {
        items[to..=at].rotate_right(1);
    }
}

/// Adds an item's message, or appends its text to the message before.
fn show(item: Item, messages: &mut Vec<Value>) {
    let Some(last) = messages.last_mut().filter(|_| item.joins) else {
        return messages.push(item.message);
    };
    if let Value::String(text) = &mut last["content"] {
        text.push_str(item.message["content"].as_str().unwrap_or_default());
    }
    if let Some(calls) = item.message.get("tool_calls") {
        last["tool_calls"] = calls.clone();
    }
}

fn entry(form: Form, section: Section, item: &Item) -> Value {
    let mut entry = json!({"section": section.name(), "id": item.id, "seq": item.seq,
        "role": item.message["role"], "tokens": item.tokens, "digest": item.digest, "why": item.why});
    if item.joins {
        entry["joins"] = true.into();
    }
    if form == Form::Strict {
        entry["bytes"] = item.message["content"].as_str().map_or(0, str::len).into();
    }
    if !item.tainted.is_empty() {
        entry["tainted"] = json!(item.tainted);
    }
    entry
}

fn manifest(core: &Core, messages_digest: String, items: Vec<Value>) -> Map<String, Value> {
    let mut manifest = Map::new();
    manifest.insert("agent".into(), core.sealed_as().into());
    manifest.insert("version".into(), core.version.into());
    manifest.insert("_rev".into(), core.rev.as_str().into());
    manifest.insert("encoding".into(), json!(core.encoding));
    if core.form != Form::One {
        manifest.insert("form".into(), json!(core.form));
    }
    manifest.insert("policy".into(), json!(core.token_budget));
    manifest.insert("chain".into(), json!(core.chain));
    manifest.insert("head_seq".into(), core.queue.head_seq.into());
    manifest.insert("next_seq".into(), core.queue.next_seq.into());
    manifest.insert("messages_digest".into(), messages_digest.into());
    if core.offered().token_estimate > 0 {
        manifest.insert("tools".into(), json!(core.offered()));
    }
    manifest.insert("items".into(), Value::Array(items));
    manifest
}
