//! Checks message lists as chat providers do, which refuse a tool result without its call and a
//! call without its results.

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns the first fault of a message list; `None` if a provider accepts the list. According to
/// OpenAI's reference for chat completions, a tool message answers a call of the preceding
/// assistant message, and each call is answered before any other message.
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

/// Returns the first reason why a strict chat template refuses a message list. By Mistral's rule,
/// the messages of the user and of the assistant alternate if those with calls are left out.
pub(crate) fn strict_fault(messages: &[Value]) -> Option<String> {
    let mut wanted = "user";
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap();
        let content = message["content"].as_str().unwrap();
        let is_blank = content.trim().is_empty();
        if role == "system" && at > 0 {
            return Some(format!("message {at} is a further system message"));
        }
        if is_blank && (role == "user" || role == "system") {
            return Some(format!("message {at} is empty"));
        }
        if role != "tool" && message.get("name").is_some() {
            return Some(format!("message {at} has a name"));
        }
        let counts = role == "user" || (role == "assistant" && message.get("tool_calls").is_none());
        if !counts {
            continue;
        }
        if role != wanted {
            return Some(format!("message {at} is of the {role}, not of the {wanted}"));
        }
        wanted = if role == "user" { "assistant" } else { "user" };
    }
    fault(messages)
}
