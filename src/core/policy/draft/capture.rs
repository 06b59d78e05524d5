//! Captures a call: appends the call's result to the queue. If the result does not fit the window,
//! recall storage gets the whole result, and the queue gets only the beginning of the result.

use serde_json::{Map, Value, json};

use super::Draft;
use crate::limits::{PREVIEW_TOKENS_MIN, TEXT_BYTES_MAX};
use crate::memory::capture::Capture;
use crate::memory::form::Form;
use crate::memory::message::{Kind, Role};
use crate::policy::limits::PREVIEW_TRIES_MAX;
use crate::policy::spool::preview;
use crate::policy::wording::TEXT;
use crate::window::tokens;

/// Number of tokens up to which a captured result is never spooled, because the spool notice would
/// cost as much as the result.
const CAPTURED_TOKENS_MIN: u64 = 128;
/// Tokens reserved for the text around a captured page of results.
const CAPTURED_FRAME_TOKENS: u64 = 128;

/// Placeholder for the last digits of a message's key. The key is not known yet when the tokens of
/// the lines around a tainted text are counted.
const FENCE_LIKE: &str = "00000000";
/// Maximum number of tokens by which the two lines around a tainted text can exceed the same lines
/// with the digits of [`FENCE_LIKE`]. Each line contains 8 digits, and a digit costs at most one
/// token.
const FENCE_TOKENS_MAX: u64 = 16;
/// Number of hex digits in a call id that is derived from the idempotency key.
const CALL_ID_DIGITS: usize = 24;

impl Draft<'_> {
    /// Appends the result of a captured call before the token budget is applied; does nothing for a
    /// call without capture. The answer's field `captured` contains the receipts of the appended
    /// messages.
    ///
    /// A result that is larger than the free tokens of the window is stored in recall storage
    /// (spooled).
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
        let as_text = self.around.told.filter(|_| self.after.form != Form::One);
        let spooled = self.push_result(&id, &shown_result(result, as_text));
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

    /// Returns the maximum number of tokens that a captured page of results may have without
    /// causing a flush; `None` for a call without capture.
    pub fn captured_room(&self) -> Option<u64> {
        self.around.capture.map(|_| self.room().saturating_sub(CAPTURED_FRAME_TOKENS))
    }

    fn push_call(&mut self, id: &str, name: &str, arguments: &str) {
        let calls = json!([{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]);
        let meta = Map::from_iter([("tool_calls".to_owned(), calls)]);
        self.push(Kind::Turn, Role::Assistant, String::new(), meta);
    }

    /// Appends the call's result to the queue. If the result is too large, the function spools it
    /// and returns the ids of the spooled entries.
    fn push_result(&mut self, id: &str, text: &str) -> Vec<String> {
        let meta = Map::from_iter([("tool_call_id".to_owned(), Value::from(id))]);
        let shown_as = self.paired_meta(meta.clone());
        let free = tokens(&self.after).free.max(CAPTURED_TOKENS_MIN);
        let cost = |draft: &Self, text: &str| {
            let mut marked = shown_as.clone();
            draft.mark(Kind::Turn, Role::Tool, text, FENCE_LIKE, &mut marked);
            let fence = if marked.len() > shown_as.len() { FENCE_TOKENS_MAX } else { 0 };
            draft.turn_cost(Role::Tool, text, &marked) + fence
        };
        if text.len() <= TEXT_BYTES_MAX && cost(self, text) <= free {
            self.push(Kind::Turn, Role::Tool, text.to_owned(), meta);
            return Vec::new();
        }
        let ids = self.spool(text);
        let room = self.room().max(PREVIEW_TOKENS_MIN);
        let is_text = self.after.form != Form::One;
        let shown = |beginning: &str| match is_text {
            true => format!(
                "{beginning}\n[shortened; the whole is in recall storage: {}]",
                ids.join(", ")
            ),
            false => json!({"truncated": true, "spooled": ids, "beginning": beginning}).to_string(),
        };
        let (mut content, mut tokens_max) = (shown(""), room);
        for _ in 0..PREVIEW_TRIES_MAX {
            let longer = shown(&preview(self.around.counter, text, tokens_max));
            if cost(self, &longer) <= room {
                content = longer;
                break;
            }
            // Inside JSON, the text costs more tokens than by itself, because quotes are escaped.
            tokens_max = tokens_max * 3 / 4;
        }
        self.push(Kind::Turn, Role::Tool, content, meta);
        ids
    }
}

/// Formats a call's result for the model. If the result contains a reply text (of another dialect),
/// returns this text; otherwise returns the tool's own text. In form 1 of the window, returns the
/// result as JSON. The JSON omits receipts, and the new revision if it is not known yet.
pub(super) fn shown_result(
    result: &Map<String, Value>,
    told: Option<fn(&Map<String, Value>) -> String>,
) -> String {
    if let Some(text) = result.get(TEXT).and_then(Value::as_str) {
        return text.to_owned();
    }
    if let Some(told) = told {
        return told(result);
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
