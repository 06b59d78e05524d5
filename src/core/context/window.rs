//! Renders the window (system, blocks, summary, queue, notices) and lists what is in it, why, and under which digest.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::memory::core::{Core, OpenCall};
use crate::memory::message::{Message, tainted};
use crate::memory::{receipt, render};
use crate::policy::{Tokens, tokens};

/// A rendered window.
#[derive(Clone, Debug)]
pub struct Window {
    /// Chat messages in order.
    pub messages: Vec<Value>,
    /// The account.
    pub tokens: Tokens,
    /// What is in it: chain head, policy, encoding, and one item for each message.
    pub manifest: Value,
    /// SHA-256 of the manifest's canonical JSON; the manifest holds the digest of the messages.
    pub context_digest: String,
}

struct Item {
    section: &'static str,
    id: String,
    seq: Option<u64>,
    tokens: u64,
    message: Value,
    digest: String,
    why: &'static str,
    /// The rules that its text meets.
    tainted: Vec<String>,
}

/// Assembles the window of a core and the messages of its queue (oldest first).
pub fn assemble(core: &Core, queue: &[Message]) -> Window {
    let mut items = Vec::new();
    items.push(part(
        "system",
        "system",
        core.system.token_estimate,
        render::system(&core.system.content),
        "always",
    ));
    for b in &core.working_blocks {
        let rendered = render::block(b);
        let why = if b.pinned { "pinned" } else { "working block" };
        let mut item = part("working", &b.id, b.token_estimate, rendered, why);
        item.tainted = b.taint.iter().flat_map(|taint| taint.rules.clone()).collect();
        items.push(item);
    }
    let summary = &core.queue_head_summary;
    if !summary.content.is_empty() {
        let id = format!("summary:{}", summary.revision);
        items.push(part(
            "summary",
            &id,
            summary.token_estimate,
            render::summary(summary),
            "stands for evicted messages",
        ));
    }
    let standing = queue.iter().filter(|m| m.kind.queued() && m.seq >= core.queue.head_seq);
    for shown in with_results(standing.collect(), core.open_calls.as_deref().unwrap_or_default()) {
        items.push(match shown {
            Shown::Message(m) => said(m),
            Shown::NoResult(call) => {
                let (message, why) = (render::no_result(call), "its call has no result yet");
                part("fifo", &format!("result:{}", call.id), call.token_estimate, message, why)
            }
        });
    }
    for n in &core.notices {
        items.push(part(
            "notices",
            &n.kind,
            n.token_estimate,
            render::notice(&n.content),
            "standing notice",
        ));
    }
    close(core, items)
}

/// What stands in the section of the queue.
enum Shown<'a> {
    Message(&'a Message),
    /// In the place of the result of a call that has none yet.
    NoResult(&'a OpenCall),
}

/// The queue with each tool's result directly behind the message that called for it: chat formats take it nowhere else, and an event or
/// somebody's message may have come between the call and its result. What stands for a result that has not come follows those that have.
/// Everything else stays in its order.
fn with_results<'a>(queue: Vec<&'a Message>, open_calls: &'a [OpenCall]) -> Vec<Shown<'a>> {
    // Where each call stands that has no result yet; the newest where an id comes again.
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    let mut results: Vec<Vec<Shown<'a>>> = Vec::with_capacity(queue.len());
    let mut moved = vec![false; queue.len()];
    for (at, message) in queue.iter().copied().enumerate() {
        results.push(Vec::new());
        open.extend(message.tool_call_ids().map(|id| (id, at)));
        if let Some(call_at) = message.answers().and_then(|id| open.remove(id)) {
            results[call_at].push(Shown::Message(message));
            moved[at] = true;
        }
    }
    for call in open_calls {
        if let Ok(at) = queue.binary_search_by_key(&call.seq, |message| message.seq) {
            results[at].push(Shown::NoResult(call));
        }
    }
    let mut ordered = Vec::with_capacity(queue.len());
    for (at, message) in queue.into_iter().enumerate() {
        if !moved[at] {
            ordered.push(Shown::Message(message));
        }
        ordered.append(&mut results[at]);
    }
    ordered
}

fn said(m: &Message) -> Item {
    Item {
        section: "fifo",
        id: m.key.clone(),
        seq: Some(m.seq),
        tokens: m.token_estimate,
        message: m.rendered(),
        digest: m.digest.clone(),
        why: "seq is at or after head_seq",
        tainted: tainted(&m.meta).into_iter().map(str::to_owned).collect(),
    }
}

fn part(section: &'static str, id: &str, tokens: u64, message: Value, why: &'static str) -> Item {
    let digest = receipt::sha256(&receipt::canonical_json(&message));
    let tainted = Vec::new();
    Item { section, id: id.to_owned(), seq: None, tokens, message, digest, why, tainted }
}

fn close(core: &Core, items: Vec<Item>) -> Window {
    let listed: Vec<Value> = items
        .iter()
        .map(|i| {
            let mut listed = json!({"section": i.section, "id": i.id, "seq": i.seq, "role": i.message["role"], "tokens": i.tokens,
                "digest": i.digest, "why": i.why});
            if !i.tainted.is_empty() {
                listed["tainted"] = json!(i.tainted);
            }
            listed
        })
        .collect();
    let messages: Vec<Value> = items.into_iter().map(|i| i.message).collect();
    let messages_digest =
        receipt::sha256(&receipt::canonical_json(&Value::Array(messages.clone())));
    let mut manifest = Map::new();
    manifest.insert("agent".into(), core.sealed_as().into());
    manifest.insert("version".into(), core.version.into());
    manifest.insert("_rev".into(), core.rev.as_str().into());
    manifest.insert("encoding".into(), json!(core.encoding));
    manifest.insert("policy".into(), json!(core.token_budget));
    manifest.insert("chain".into(), json!(core.chain));
    manifest.insert("head_seq".into(), core.queue.head_seq.into());
    manifest.insert("next_seq".into(), core.queue.next_seq.into());
    manifest.insert("messages_digest".into(), messages_digest.into());
    if core.tools.token_estimate > 0 {
        manifest.insert("tools".into(), json!(core.tools));
    }
    manifest.insert("items".into(), Value::Array(listed));
    let manifest = Value::Object(manifest);
    let context_digest = receipt::sha256(&receipt::canonical_json(&manifest));
    Window { messages, tokens: tokens(core), manifest, context_digest }
}
