//! The result of a captured call in the queue: whole where the window has room for it, else its beginning, and the whole in recall storage.

use serde_json::{Map, Value, json};

use super::Draft;
use crate::limits::{
    CAPTURED_FRAME_TOKENS, CAPTURED_TOKENS_MIN, PREVIEW_TOKENS_MIN, PREVIEW_TRIES_MAX,
    TEXT_BYTES_MAX,
};
use crate::memory::capture::Capture;
use crate::memory::message::{Kind, Role, rendered};
use crate::memory::tokens::message_cost;
use crate::policy::budget::tokens;
use crate::policy::spool::preview;
use crate::policy::wording::TEXT;

/// Stands for a key that is not known yet where the cost of a mark is counted.
const FENCE_LIKE: &str = "00000000";
/// Tokens that the two words of a fence may cost beyond that: no digit costs more than one.
const FENCE_TOKENS_MAX: u64 = 16;
/// Hex digits of a call's id that is made of its key.
const CALL_ID_DIGITS: usize = 24;

impl Draft<'_> {
    /// Appends the result of a call that is captured, before the budget has its say; nothing for every other call. The answer tells
    /// under `captured` where it stands.
    ///
    /// A result that is larger than what the window has left is spooled: a flush makes room for what it can hold, no more.
    pub(super) fn capture(&mut self, result: &Map<String, Value>) {
        let Some(capture) = self.around.capture else { return };
        let own = self.envelope.remove("receipt");
        let mut told = Map::new();
        let id = match capture {
            Capture::Result { tool_call_id } => tool_call_id.clone(),
            Capture::Pair { name, arguments } => {
                let hash = self.around.key_hash;
                let id = format!("call_{}", &hash[..hash.len().min(CALL_ID_DIGITS)]);
                self.push_call(&id, name, arguments);
                told.insert("call".into(), self.envelope.remove("receipt").into());
                id
            }
        };
        let spooled = self.push_result(&id, &shown_result(result));
        told.insert("tool_call_id".into(), id.into());
        told.insert("result".into(), self.envelope.remove("receipt").into());
        if !spooled.is_empty() {
            told.insert("spooled".into(), spooled.into());
        }
        self.envelope.insert("captured".into(), Value::Object(told));
        if let Some(own) = own {
            self.envelope.insert("receipt".into(), own);
        }
    }

    /// What a page of results may cost as a text, of a call that is captured: what may come into the window without a flush.
    pub fn captured_room(&self) -> Option<u64> {
        self.around.capture.map(|_| self.room().saturating_sub(CAPTURED_FRAME_TOKENS))
    }

    fn push_call(&mut self, id: &str, name: &str, arguments: &str) {
        let calls = json!([{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]);
        let meta = Map::from_iter([("tool_calls".to_owned(), calls)]);
        self.push(Kind::Turn, Role::Assistant, String::new(), meta);
    }

    /// Gives the ids of the entries that hold the whole of it where it is too large.
    fn push_result(&mut self, id: &str, text: &str) -> Vec<String> {
        let meta = Map::from_iter([("tool_call_id".to_owned(), Value::from(id))]);
        let shown_as = self.paired_meta(meta.clone());
        let free = tokens(&self.after).free.max(CAPTURED_TOKENS_MIN);
        let cost = |draft: &Self, text: &str| {
            let mut marked = shown_as.clone();
            draft.mark(Kind::Turn, Role::Tool, text, FENCE_LIKE, &mut marked);
            let fence = if marked.len() > shown_as.len() { FENCE_TOKENS_MAX } else { 0 };
            message_cost(draft.around.counter, &rendered(Role::Tool, text, &marked)) + fence
        };
        if text.len() <= TEXT_BYTES_MAX && cost(self, text) <= free {
            self.push(Kind::Turn, Role::Tool, text.to_owned(), meta);
            return Vec::new();
        }
        let ids = self.spool(text);
        let room = self.room().max(PREVIEW_TOKENS_MIN);
        let shown = |beginning: &str| {
            json!({"truncated": true, "spooled": ids, "beginning": beginning}).to_string()
        };
        let (mut content, mut tokens_max) = (shown(""), room);
        for _ in 0..PREVIEW_TRIES_MAX {
            let longer = shown(&preview(self.around.counter, text, tokens_max));
            if cost(self, &longer) <= room {
                content = longer;
                break;
            }
            // A text within a text costs more than alone, by its quotes.
            tokens_max = tokens_max * 3 / 4;
        }
        self.push(Kind::Turn, Role::Tool, content, meta);
        ids
    }
}

/// A result as its model reads it: as text where the call came under another name than ours, else JSON without receipts, which prove and say nothing, and without a revision that is not known yet.
pub(super) fn shown_result(result: &Map<String, Value>) -> String {
    if let Some(text) = result.get(TEXT).and_then(Value::as_str) {
        return text.to_owned();
    }
    let mut shown = result.clone();
    shown.retain(|name, value| name != "_rev" || !value.is_null());
    let mut shown = Value::Object(shown);
    drop_receipts(&mut shown);
    shown.to_string()
}

fn drop_receipts(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.shift_remove("receipt");
            map.values_mut().for_each(drop_receipts);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_receipts),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
