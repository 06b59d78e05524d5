//! Writes the unstreamed answer of `/v1/messages`, and errors in Anthropic's form.

use serde_json::{Value, json};

use crate::error::Error;
use crate::memory::conversation::ClientCall;
use crate::openai::{Answer, Ending, Head};

/// Returns the body of an unstreamed answer in the messages form.
pub fn messages_answer(answer: &Answer) -> Value {
    let seen = &answer.seen;
    let text = Some(&seen.text).filter(|text| !text.is_empty());
    let text = text.map(|text| json!({"type": "text", "text": text}));
    let calls = seen.calls.iter().map(|call| call_block(call, input_of(call)));
    let mut body = frame(&answer.head);
    body["content"] = text.into_iter().chain(calls).collect();
    body["stop_reason"] = reason(answer.ending).into();
    body["usage"] = usage(answer);
    body
}

/// Returns the body of an answer without content, as a stream begins with it.
pub(super) fn frame(head: &Head) -> Value {
    json!({
        "id": format!("msg_{}", head.thread), "type": "message", "role": "assistant",
        "model": head.model, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 0, "output_tokens": 0}, "vctx": head.told,
    })
}

/// Returns the value of `stop_reason`.
pub(super) fn reason(ending: Ending) -> &'static str {
    match ending {
        Ending::Stop => "end_turn",
        Ending::ToolCalls => "tool_use",
        Ending::Length => "max_tokens",
        Ending::ContentFilter => "refusal",
    }
}

/// Formats the token counts of all prompts and answers of a run. A repeated answer took no tokens.
pub(super) fn usage(answer: &Answer) -> Value {
    let (prompt, completion) = answer.usage.unwrap_or_default();
    json!({"input_tokens": prompt, "output_tokens": completion})
}

/// Formats a tool call as a block with the given input.
pub(super) fn call_block(call: &ClientCall, input: Value) -> Value {
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

/// Returns the arguments of a call as an object. The run stores no other arguments.
fn input_of(call: &ClientCall) -> Value {
    let input: Option<Value> = serde_json::from_str(&call.arguments).ok();
    input.filter(Value::is_object).unwrap_or_else(|| json!({}))
}

/// Formats an error as clients of Anthropic's API expect it.
pub fn fault(error: &Error) -> Value {
    let kind = match error.code.status() {
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        503 => "overloaded_error",
        504 => "timeout_error",
        _ => "api_error",
    };
    let field = error.fields.get("field").cloned().unwrap_or_default();
    json!({"type": "error", "error": {"type": kind, "message": error.message, "param": field,
        "code": error.code.text()}})
}
