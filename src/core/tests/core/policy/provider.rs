//! What chat formats refuse in a row of messages: a tool's result behind no call, and a call without its results.

use std::collections::BTreeSet;

use serde_json::Value;

/// The first fault of such a row; none of one that a provider takes (OpenAI's reference of chat
/// completions: a tool's message answers a call of the assistant's message before it, and each call
/// is answered before anything else is said).
pub(crate) fn fault(messages: &[Value]) -> Option<String> {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !open.remove(id) {
                return Some(format!("message {at} is a result of {id:?} behind no call for it"));
            }
            continue;
        }
        if !open.is_empty() {
            return Some(format!("message {at} stands before the results of {open:?}"));
        }
        let calls = message["tool_calls"].as_array();
        open = calls.into_iter().flatten().filter_map(|call| call["id"].as_str()).collect();
    }
    (!open.is_empty()).then(|| format!("there are no results of {open:?}"))
}
