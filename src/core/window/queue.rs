//! Makes the section of the window that shows the queue: the queue's messages, with each tool
//! result directly after its call and placeholders for missing results.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::clock::{opening, opening_tokens};
use super::section::{Item, Position, Spec};
use crate::memory::core::OpenCall;
use crate::memory::form::Form;
use crate::memory::message::{Kind, Message, Role, answers_call, tainted};
use crate::memory::strict::{ANSWER, makes_calls};
use crate::memory::tokens::{TokenCounter, message_cost};

/// Content of the placeholder message for a tool call's missing result.
const NO_RESULT: &str = "[no result yet]";

pub(super) const SECTION: Spec = Spec {
    name: "fifo",
    gauge: "token.fifo",
    help: "Tokens of queued messages in the window last written",
    kept: None,
    tokens: |core| core.queue.tokens + core.open_call_tokens() + opening_tokens(core),
    // Counts only the tokens of the placeholders. The queue's messages are stored outside the core;
    // their tokens are counted by the code that changes an agent's encoding.
    recount: |counter, core| {
        for call in core.open_calls.iter_mut().flatten() {
            call.token_estimate = message_cost(counter, &no_result(&call.id));
        }
    },
    items: |core, queue| {
        let shown = queue.iter().filter(|m| m.kind.queued() && m.seq >= core.queue.head_seq);
        let mut items: Vec<Item> = opening(core).into_iter().collect();
        let open_calls = core.open_calls.as_deref().unwrap_or_default();
        items.append(&mut with_results(core.form, shown.collect(), open_calls));
        items
    },
    restore: |past, core| {
        core.queue.head_seq = past.window.head_seq;
        core.queue.next_seq = past.window.next_seq;
        core.queue.tokens = past.queue.iter().map(|m| m.token_estimate).sum();
        core.queue.count = past.queue.len() as u64;
        core.queue.opened_on.clone_from(&past.window.opened_on);
        core.open_calls.clone_from(&past.window.open_calls);
        None
    },
};

/// Returns the queue's messages with each tool result moved directly after its call, because chat
/// formats accept a result only there. The placeholder for a missing result follows the results of
/// the other calls in the same message. All other messages keep their order.
fn with_results(form: Form, queue: Vec<&Message>, open_calls: &[OpenCall]) -> Vec<Item> {
    // Maps the id of each call without a result so far to the index of the message that contains
    // the call. If several calls have the same id, the map keeps only the newest of them.
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    let mut results: Vec<Vec<Item>> = Vec::with_capacity(queue.len());
    let mut moved = vec![false; queue.len()];
    for (at, message) in queue.iter().copied().enumerate() {
        results.push(Vec::new());
        open.extend(message.tool_call_ids().map(|id| (id, at)));
        if let Some(call_at) = message.answers().and_then(|id| open.remove(id)) {
            results[call_at].append(&mut shown_items(form, message));
            moved[at] = true;
        }
    }
    for call in open_calls {
        if let Ok(at) = queue.binary_search_by_key(&call.seq, |message| message.seq) {
            results[at].push(missing(call));
        }
    }
    let mut ordered = Vec::with_capacity(queue.len());
    for (at, message) in queue.into_iter().enumerate() {
        if !moved[at] {
            ordered.append(&mut shown_items(form, message));
        }
        ordered.append(&mut results[at]);
    }
    ordered
}

/// Returns what the window shows of a message: the filler before it, if any, and the message.
fn shown_items(form: Form, message: &Message) -> Vec<Item> {
    let mut items = Vec::with_capacity(2);
    let mut tokens = message.token_estimate;
    if let Some(filler) = message.filler(form) {
        let (id, cost) = (format!("filler:{}", message.seq), message.frame_tokens);
        let why = "keeps the roles in turn";
        items.push(Item::new(&id, cost, filler, why, (Position::Answer, ANSWER)));
        tokens = tokens.saturating_sub(cost);
    }
    items.extend(message.in_window(form).map(|shown| Item {
        id: message.key.clone(),
        seq: Some(message.seq),
        tokens,
        message: shown.message,
        digest: message.digest.clone(),
        why: "seq is at or after head_seq",
        tainted: tainted(&message.meta).into_iter().map(str::to_owned).collect(),
        joins: shown.joins,
        place: place_of(message),
        line: shown.line,
    }));
    items
}

fn place_of(message: &Message) -> Position {
    match message.role {
        _ if message.kind == Kind::Copy => Position::Fence,
        role if answers_call(role, &message.meta) => Position::Result,
        role if makes_calls(role, &message.meta) => Position::Calls,
        Role::Assistant => Position::Answer,
        Role::User => Position::Said,
        Role::System if message.kind == Kind::Event => Position::Said,
        Role::System | Role::Tool => Position::Aside,
    }
}

fn missing(call: &OpenCall) -> Item {
    let id = format!("result:{}", call.id);
    let (message, why) = (no_result(&call.id), "its call has no result yet");
    Item::new(&id, call.token_estimate, message, why, (Position::Result, ""))
}

fn no_result(call: &str) -> Value {
    json!({"role": Role::Tool.text(), "content": NO_RESULT, "tool_call_id": call})
}

/// Returns what the core stores about a tool call without a result: the call's id, the position and
/// day of its message, and the cost of the placeholder message in tokens.
pub fn open_call(counter: &dyn TokenCounter, id: &str, seq: u64, day: Option<String>) -> OpenCall {
    let token_estimate = message_cost(counter, &no_result(id));
    OpenCall { id: id.to_owned(), seq, token_estimate, replaced: false, day }
}
