//! Parses a request of `/v1/responses` (the responses form) and writes the unstreamed answer.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::chat::without_tools;
use super::compaction::Compaction;
use super::conversation::{Conversation, Previous};
use super::fields::{Fields, checked_tools, text_of};
use crate::error::{Error, Result};
use crate::memory::conversation::{ClientCall, ClientMessage};
use crate::memory::message::Role;

/// Request fields that are passed to the model, each with its name in the chat form.
const PASSED_ON: [(&str, &str); 4] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("max_output_tokens", "max_tokens"),
    ("parallel_tool_calls", "parallel_tool_calls"),
];

/// Request fields that concern only OpenAI's servers and have no effect on this server.
const IGNORED: [&str; 7] = [
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "truncation",
];

/// Fields of the request that the answer repeats.
const ECHOED: [&str; 8] = [
    "instructions",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
];

/// Prefix of an answer's id.
const RESPONSE: &str = "resp_";

/// Number of hex digits of the digest in an answer's id.
const DIGEST_DIGITS: usize = 64;

/// Returns the names of the request's fields that are passed to the model or ignored.
pub fn responses_options() -> Vec<&'static str> {
    PASSED_ON.into_iter().map(|(name, _)| name).chain(IGNORED).collect()
}

/// Parses a request of the responses form. The function `taken` returns whether a memory tool
/// already has a given name.
pub fn parse_responses(
    body: Map<String, Value>,
    taken: &dyn Fn(&str) -> bool,
) -> Result<Conversation> {
    let echo =
        body.iter().filter(|(name, value)| ECHOED.contains(&name.as_str()) && !value.is_null());
    let echo = echo.map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut fields = Fields::of(Value::Object(body), "")?;
    refuse(&mut fields)?;
    let mut conversation = Conversation {
        model: fields.required("model")?,
        system: fields.text("instructions")?,
        stream: fields.flag("stream")?,
        usage: true,
        labels: fields.labels()?,
        previous: previous(&mut fields)?,
        echo,
        ..Conversation::default()
    };
    options(&mut fields, &mut conversation)?;
    let tools = fields.list("tools")?;
    let tools: Vec<Value> = tools.into_iter().enumerate().map(tool_of).collect::<Result<_>>()?;
    checked_tools(&tools, "function.name", taken)?;
    conversation.tools = tools;
    without_tools(&mut conversation);
    match fields.take("input") {
        Some(Value::String(text)) if !text.is_empty() => {
            conversation.said = vec![ClientMessage::text(Role::User, text)];
        }
        Some(Value::Array(items)) => said_in(items, &mut conversation)?,
        _ => return Err(fields.fault("input", "is missing: give a text or a list of items")),
    }
    fields.end()?;
    conversation.settled("input")
}

/// Refuses fields of a request that would change the answer in an unsupported way.
fn refuse(fields: &mut Fields) -> Result<()> {
    fields.refuse("background", &[json!(false)], "answers are not given in the background")?;
    let stateful = "exists at OpenAI only: send the history as input, or previous_response_id";
    fields.refuse("conversation", &[], stateful)?;
    fields.refuse("prompt", &[], "exists at OpenAI only: send instructions and input")?;
    fields.refuse("include", &[], "the answer holds all available data")?;
    fields.refuse("max_tool_calls", &[], "limit the agent's heartbeats instead")?;
    fields.refuse(
        "top_logprobs",
        &[json!(0)],
        "probabilities of tokens are not available: leave it out",
    )?;
    fields.refuse("moderation", &[], "nothing is moderated here")?;
    fields.refuse("context_management", &[], "the server keeps the window within its size")
}

/// Reads the id of the answer that a request continues.
pub(super) fn previous(fields: &mut Fields) -> Result<Option<Previous>> {
    let Some(id) = fields.text("previous_response_id")? else { return Ok(None) };
    let digest = id.strip_prefix(RESPONSE).filter(|digest| {
        digest.len() == DIGEST_DIGITS && digest.bytes().all(|b| b.is_ascii_hexdigit())
    });
    let why = "is not the id of an answer of this server";
    digest
        .map(|digest| Some(Previous::AnswerTo(digest.to_owned())))
        .ok_or_else(|| fields.fault("previous_response_id", why))
}

fn options(fields: &mut Fields, conversation: &mut Conversation) -> Result<()> {
    fields.pass(&PASSED_ON, &mut conversation.options);
    match fields.take("tool_choice") {
        Some(Value::String(choice)) => {
            conversation.options.insert("tool_choice".into(), choice.into());
        }
        Some(choice) => {
            let mut choice = Fields::of(choice, "tool_choice")?;
            if choice.required("type")? != "function" {
                return Err(choice.fault("type", "only a function can be chosen"));
            }
            let named = json!({"type": "function", "function": {"name": choice.required("name")?}});
            choice.end()?;
            conversation.options.insert("tool_choice".into(), named);
        }
        None => {}
    }
    if let Some(text) = fields.take("text") {
        let mut text = Fields::of(text, "text")?;
        text.pass(&[("verbosity", "verbosity")], &mut conversation.options);
        if let Some(format) = text.take("format") {
            conversation.options.insert("response_format".into(), format_of(format)?);
        }
        text.end()?;
    }
    if let Some(reasoning) = fields.take("reasoning") {
        let mut reasoning = Fields::of(reasoning, "reasoning")?;
        reasoning.pass(&[("effort", "reasoning_effort")], &mut conversation.options);
        reasoning.ignore(&["summary", "generate_summary"]);
        reasoning.end()?;
    }
    if let Some(options) = fields.take("stream_options") {
        let mut options = Fields::of(options, "stream_options")?;
        options.ignore(&["include_obfuscation", "include_usage"]);
        options.end()?;
    }
    fields.ignore(&IGNORED);
    Ok(())
}

/// Converts the request's field `text.format` to the field `response_format` of the chat form.
fn format_of(format: Value) -> Result<Value> {
    let mut fields = Fields::of(format, "text.format")?;
    let kind = fields.required("type")?;
    if kind != "json_schema" {
        fields.end()?;
        return Ok(json!({"type": kind}));
    }
    let schema = fields.taken(&["name", "description", "schema", "strict"]);
    fields.end()?;
    Ok(json!({"type": kind, "json_schema": schema}))
}

/// Converts a tool definition to the chat form.
fn tool_of((number, tool): (usize, Value)) -> Result<Value> {
    let mut fields = Fields::of(tool, &format!("tools[{number}]"))?;
    if fields.required("type")? != "function" {
        return Err(fields.fault("type", "only tools of type function are passed on"));
    }
    let function = fields.taken(&["name", "description", "parameters", "strict"]);
    fields.end()?;
    Ok(json!({"type": "function", "function": function}))
}

/// Converts a list of items to the messages of a conversation. A function call is added to the
/// preceding message if that message is the assistant's. Reasoning items are dropped. A compaction
/// names the position that the conversation continues.
pub(super) fn said_in(items: Vec<Value>, conversation: &mut Conversation) -> Result<()> {
    // The item of each message.
    let mut places: Vec<usize> = Vec::with_capacity(items.len());
    for (number, item) in items.into_iter().enumerate() {
        let mut fields = Fields::of(item, &format!("input[{number}]"))?;
        let kind = fields.text("type")?.unwrap_or_else(|| "message".into());
        fields.ignore(&["id", "status", "phase"]);
        let said = &mut conversation.said;
        match kind.as_str() {
            "message" => said.push(message_of(&mut fields)?),
            "function_call" => {
                fields.ignore(&["async", "caller"]);
                let (id, name) = (fields.required("call_id")?, fields.required("name")?);
                let call = ClientCall {
                    id,
                    name,
                    arguments: fields.text("arguments")?.unwrap_or_default(),
                };
                match said.last_mut().filter(|last| last.role == Role::Assistant) {
                    Some(last) => last.calls.push(call),
                    None => said.push(ClientMessage {
                        calls: vec![call],
                        ..ClientMessage::text(Role::Assistant, "")
                    }),
                }
            }
            "function_call_output" => {
                fields.ignore(&["caller", "name"]);
                let call_id = Some(fields.required("call_id")?);
                let output = fields.take("output").unwrap_or(Value::Null);
                let text = text_of(output, &[("input_text", "text")], &fields.full_name("output"))?;
                said.push(ClientMessage { call_id, ..ClientMessage::text(Role::Tool, text) });
            }
            "compaction" => {
                continue_compacted(&mut fields, conversation, &places)?;
                places.truncate(conversation.said.len());
            }
            "reasoning" => continue,
            _ => {
                let why = "items of this kind are not accepted: use message, function_call, function_call_output or compaction";
                return Err(fields.fault("type", why));
            }
        }
        fields.end()?;
        places.resize(conversation.said.len(), number);
    }
    Ok(())
}

/// Reads a compaction, which stands for the messages before it. Of these, only a system text at the
/// beginning remains. `places` has the item of each message.
fn continue_compacted(
    fields: &mut Fields,
    conversation: &mut Conversation,
    places: &[usize],
) -> Result<()> {
    match conversation.previous {
        None => {}
        Some(Previous::AnswerTo(_)) => {
            let why =
                "cannot come with previous_response_id, which names another position: give one";
            return Err(fields.fault("type", why));
        }
        Some(Previous::Compacted(_)) => {
            return Err(fields.fault("type", "is the second compaction: send only the last one"));
        }
    }
    fields.ignore(&["created_by"]);
    let content = fields.required("encrypted_content")?;
    let foreign = "is no compaction of this server: send the history instead";
    let compaction =
        Compaction::parse(&content).ok_or_else(|| fields.fault("encrypted_content", foreign))?;
    let said = &mut conversation.said;
    let system = usize::from(said.first().is_some_and(|first| first.role == Role::System));
    if let Some(at) = compaction.first_foreign(&said[system..]) {
        let why = "comes before a compaction that did not repeat it: send it after the compaction, or leave it out";
        return Err(Error::argument(&format!("input[{}]", places[system + at]), why));
    }
    said.truncate(system);
    conversation.previous = Some(Previous::Compacted(compaction.thread));
    Ok(())
}

fn message_of(fields: &mut Fields) -> Result<ClientMessage> {
    let role = match fields.required("role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" | "developer" => Role::System,
        _ => return Err(fields.fault("role", "use system, developer, user or assistant")),
    };
    let kinds: &[(&str, &str)] = match role {
        Role::Assistant => {
            &[("output_text", "text"), ("refusal", "refusal"), ("input_text", "text")]
        }
        Role::User | Role::System | Role::Tool => &[("input_text", "text")],
    };
    let content = fields.take("content").unwrap_or(Value::Null);
    let text = text_of(content, kinds, &fields.full_name("content"))?;
    if text.is_empty() && role == Role::User {
        return Err(Error::argument(&fields.full_name("content"), "empty: give a text"));
    }
    Ok(ClientMessage::text(role, text))
}

/// Returns the output items of an answer: the text, then the tool calls.
pub(super) fn output(answer: &Answer) -> Vec<Value> {
    let (seen, head) = (&answer.seen, &answer.head);
    let mut items = Vec::new();
    if !seen.text.is_empty() || seen.calls.is_empty() {
        let part = text_part(&seen.text);
        let (status, _) = answer.ending.response();
        items.push(json!({"id": head.part_id("msg", 0), "type": "message", "status": status, "role": "assistant", "content": [part]}));
    }
    for call in &seen.calls {
        items.push(json!({"id": head.part_id("fc", items.len()), "type": "function_call", "status": "completed", "call_id": call.id,
            "name": call.name, "arguments": call.arguments}));
    }
    items
}

/// Returns `text` as a content part of an output message.
pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// Returns the body of an unstreamed answer in the responses form.
pub fn responses_answer(answer: &Answer) -> Value {
    let (status, details) = answer.ending.response();
    let mut body = frame(answer, status);
    body["incomplete_details"] = details;
    body["output"] = output(answer).into();
    if let Some((prompt, completion)) = answer.usage {
        body["usage"] = json!({"input_tokens": prompt, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": completion, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": prompt + completion});
    }
    body
}

/// Returns the body of an answer in the responses form, without output items.
pub(super) fn frame(answer: &Answer, status: &str) -> Value {
    let head = &answer.head;
    let mut body = json!({
        "id": head.response_id(), "object": "response", "created_at": head.created_s, "status": status, "error": null,
        "incomplete_details": null, "model": head.model, "output": [], "instructions": null, "metadata": {},
        "parallel_tool_calls": true, "previous_response_id": null, "temperature": null, "tool_choice": "auto", "tools": [],
        "top_p": null, "usage": null,
    });
    for (name, value) in &head.echo {
        body[name] = value.clone();
    }
    body["vctx"] = head.told.clone();
    body
}
