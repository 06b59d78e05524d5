//! Parses a request of `/v1/chat/completions` (the chat form) and writes the unstreamed answer.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::conversation::Conversation;
use super::fields::{Fields, checked_tools, text_of};
use crate::error::{Error, Result};
use crate::memory::conversation::{ClientCall, ClientMessage};
use crate::memory::message::Role;

/// Fields of a request that are passed to the model.
const PASSED_ON: [&str; 14] = [
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "response_format",
    "reasoning_effort",
    "verbosity",
    "parallel_tool_calls",
    "tool_choice",
];

/// Request fields that concern only OpenAI's servers and have no effect on this server.
const IGNORED: [&str; 7] = [
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "prediction",
];

/// Returns the names of the request's fields that are passed to the model or ignored.
pub fn chat_options() -> Vec<&'static str> {
    PASSED_ON.into_iter().chain(IGNORED).collect()
}

/// Parses a request of the chat form. The function `taken` returns whether a memory tool already
/// has a given name.
pub fn parse_chat(body: Map<String, Value>, taken: &dyn Fn(&str) -> bool) -> Result<Conversation> {
    let mut fields = Fields::of(Value::Object(body), "")?;
    refuse(&mut fields)?;
    let mut conversation = Conversation {
        model: fields.required("model")?,
        stream: fields.flag("stream")?,
        labels: fields.labels()?,
        ..Conversation::default()
    };
    if let Some(options) = fields.take("stream_options") {
        let mut options = Fields::of(options, "stream_options")?;
        conversation.usage = options.flag("include_usage")?;
        options.ignore(&["include_obfuscation"]);
        options.end()?;
    }
    conversation.options = fields.taken(&PASSED_ON);
    fields.ignore(&IGNORED);
    let tools = fields.list("tools")?;
    checked_tools(&tools, "function.name", taken)?;
    conversation.tools = tools;
    without_tools(&mut conversation);
    for (number, message) in fields.list("messages")?.into_iter().enumerate() {
        conversation.said.push(message_of(message, &format!("messages[{number}]"))?);
    }
    fields.end()?;
    conversation.settled("messages")
}

/// Removes the client's tools if the request forbids tool calls, and removes tool options from a
/// request without tools.
pub(crate) fn without_tools(conversation: &mut Conversation) {
    if conversation.options.get("tool_choice").is_some_and(|choice| choice == "none") {
        conversation.tools.clear();
    }
    if conversation.tools.is_empty() {
        conversation.options.remove("tool_choice");
        conversation.options.remove("parallel_tool_calls");
    }
}

/// Refuses fields of a request that would change the answer in an unsupported way.
fn refuse(fields: &mut Fields) -> Result<()> {
    fields.refuse("n", &[json!(1)], "each request has one answer: leave out `n`")?;
    let plain = [json!(false), json!(0)];
    for name in ["logprobs", "top_logprobs"] {
        fields.refuse(name, &plain, "probabilities of tokens are not available: leave it out")?;
    }
    fields.refuse("modalities", &[json!(["text"])], "only text is answered")?;
    fields.refuse("audio", &[], "only text is answered")?;
    fields.refuse("functions", &[], "use tools")?;
    fields.refuse("function_call", &[json!("none"), json!("auto")], "use tool_choice")?;
    fields.refuse("web_search_options", &[], "web search is not available")?;
    fields.refuse("moderation", &[], "nothing is moderated here")
}

/// Parses a message of the chat form.
fn message_of(message: Value, at: &str) -> Result<ClientMessage> {
    let mut fields = Fields::of(message, at)?;
    let role = match fields.required("role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" | "developer" => Role::System,
        "tool" => Role::Tool,
        "function" => return Err(fields.fault("role", "use tool and tool_call_id")),
        _ => return Err(fields.fault("role", "use system, developer, user, assistant or tool")),
    };
    let kinds: &[(&str, &str)] = match role {
        Role::Assistant => &[("text", "text"), ("refusal", "refusal")],
        Role::User | Role::System | Role::Tool => &[("text", "text")],
    };
    let content = fields.take("content").unwrap_or(Value::Null);
    let mut text = text_of(content, kinds, &fields.full_name("content"))?;
    if let Some(refusal) = fields.text("refusal")?.filter(|_| text.is_empty()) {
        text = refusal;
    }
    let calls = fields.list("tool_calls")?;
    let calls: Vec<ClientCall> = calls
        .into_iter()
        .enumerate()
        .map(|(number, call)| call_of(call, &format!("{at}.tool_calls[{number}]")))
        .collect::<Result<_>>()?;
    if !calls.is_empty() && role != Role::Assistant {
        return Err(fields.fault("tool_calls", "only the role assistant makes tool calls"));
    }
    let call_id = fields.text("tool_call_id")?;
    if (role == Role::Tool) != call_id.is_some() {
        return Err(fields
            .fault("tool_call_id", "a tool message names the call it answers; others name none"));
    }
    fields.refuse("audio", &[], "only text is accepted")?;
    fields.refuse("function_call", &[], "use tool_calls")?;
    fields.ignore(&["annotations", "reasoning", "reasoning_content"]);
    let name = fields.text("name")?.filter(|name| !name.is_empty());
    fields.end()?;
    let seen = ClientMessage { role, text, name, calls, call_id };
    if seen.is_empty() && role == Role::User {
        return Err(Error::argument(&format!("{at}.content"), "empty: give a text"));
    }
    Ok(seen)
}

fn call_of(call: Value, at: &str) -> Result<ClientCall> {
    let mut fields = Fields::of(call, at)?;
    let id = fields.required("id")?;
    if fields.text("type")?.is_some_and(|kind| kind != "function") {
        return Err(fields.fault("type", "only calls of functions are accepted"));
    }
    let mut function =
        Fields::of(fields.take("function").unwrap_or(Value::Null), &fields.full_name("function"))?;
    let (name, arguments) = (function.required("name")?, function.text("arguments")?);
    function.end()?;
    fields.ignore(&["index"]);
    fields.end()?;
    Ok(ClientCall { id, name, arguments: arguments.unwrap_or_default() })
}

/// Formats a tool call in the chat form.
pub(super) fn shown_call(call: &ClientCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

/// Returns the body of an unstreamed answer in the chat form.
pub fn chat_answer(answer: &Answer) -> Value {
    let seen = &answer.seen;
    let content = if seen.text.is_empty() && !seen.calls.is_empty() {
        Value::Null
    } else {
        seen.text.as_str().into()
    };
    let mut message =
        json!({"role": "assistant", "content": content, "refusal": null, "annotations": []});
    if !seen.calls.is_empty() {
        message["tool_calls"] = seen.calls.iter().map(shown_call).collect();
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": answer.ending.chat()});
    let mut body = json!({
        "id": answer.head.chat_id(), "object": "chat.completion", "created": answer.head.created_s,
        "model": answer.head.model, "choices": [choice],
    });
    if let Some(usage) = answer.usage {
        body["usage"] = chat_usage(usage);
    }
    body["vctx"] = answer.head.told.clone();
    body
}

/// Formats the token counts of all prompts and answers of a run in the chat form.
pub(super) fn chat_usage((prompt, completion): (u64, u64)) -> Value {
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

/// Formats an error as OpenAI clients expect it.
pub fn fault(error: &Error) -> Value {
    let kind = match error.code.status() {
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    let field = error.fields.get("field").cloned().unwrap_or_default();
    json!({"error": {"message": error.message, "type": kind, "param": field, "code": error.code.text()}})
}
