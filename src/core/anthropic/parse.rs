//! Parses a request of `/v1/messages` (the messages form).

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::limits::LABEL_BYTES_MAX;
use crate::memory::Labels;
use crate::memory::conversation::{ClientCall, ClientMessage};
use crate::memory::message::Role;
use crate::openai::{Conversation, Fields, checked_tools, without_tools};

/// Request fields that are passed to the model under the same name in the chat form.
const PASSED_ON: [&str; 2] = ["temperature", "top_p"];

/// Request fields that concern only Anthropic's servers and have no effect on this server.
const IGNORED: [&str; 6] =
    ["cache_control", "diagnostics", "inference_geo", "service_tier", "speed", "thinking"];

/// Begins the text of a tool's result that the client marks as an error, since the chat form has no
/// field for this mark.
const ERROR_RESULT: &str = "Error: ";

/// Returns the names of the request's fields that are passed to the model or ignored.
pub fn messages_options() -> Vec<&'static str> {
    PASSED_ON.into_iter().chain(IGNORED).collect()
}

/// Parses a request of the messages form. The function `taken` returns whether a memory tool
/// already has a given name.
pub fn parse_messages(
    body: Map<String, Value>,
    taken: &dyn Fn(&str) -> bool,
) -> Result<Conversation> {
    let mut fields = Fields::of(Value::Object(body), "")?;
    refuse(&mut fields)?;
    let mut conversation = Conversation {
        model: fields.required("model")?,
        system: fields.take("system").map(|system| text_of(system, "system")).transpose()?,
        stream: fields.flag("stream")?,
        usage: true,
        ..Conversation::default()
    };
    if let Some(metadata) = fields.take("metadata") {
        let mut metadata = Fields::of(metadata, "metadata")?;
        let user = metadata.text("user_id")?.filter(|user| !user.is_empty());
        conversation.labels = Labels { user, ..Labels::default() };
        if conversation.labels.check("").is_err() {
            let told = format!("use 1 to {LABEL_BYTES_MAX} bytes without control characters");
            return Err(metadata.fault("user_id", told));
        }
        metadata.end()?;
    }
    options(&mut fields, &mut conversation.options)?;
    let tools = fields.list("tools")?;
    let tools: Vec<Value> = tools.into_iter().enumerate().map(tool_of).collect::<Result<_>>()?;
    checked_tools(&tools, "name", taken)?;
    conversation.tools = tools;
    without_tools(&mut conversation);
    for (number, message) in fields.list("messages")?.into_iter().enumerate() {
        conversation.said.extend(said_in(message, &format!("messages[{number}]"))?);
    }
    fields.end()?;
    conversation.settled("messages")
}

/// Parses a request of `/v1/messages/count_tokens`: a request of the messages form that may leave
/// out `max_tokens`.
pub fn parse_count(
    mut body: Map<String, Value>,
    taken: &dyn Fn(&str) -> bool,
) -> Result<Conversation> {
    body.entry("max_tokens").or_insert_with(|| 1.into());
    parse_messages(body, taken)
}

/// Refuses fields of a request that would change the answer in an unsupported way.
fn refuse(fields: &mut Fields) -> Result<()> {
    fields.refuse("top_k", &[], "is not passed on: use top_p")?;
    fields.refuse("container", &[], "exists at Anthropic only: leave it out")?;
    fields.refuse("mcp_servers", &[], "connect them to the client, and give their tools")?;
    fields.refuse("context_management", &[], "the server keeps the window within its size")
}

/// Moves the options of a request to `to`, with their names in the chat form.
fn options(fields: &mut Fields, to: &mut Map<String, Value>) -> Result<()> {
    let tokens_max = fields.take("max_tokens").and_then(|tokens| tokens.as_u64());
    let Some(tokens_max) = tokens_max.filter(|tokens| *tokens > 0) else {
        return Err(fields.fault("max_tokens", "is missing: give a number of 1 or more"));
    };
    to.insert("max_tokens".into(), tokens_max.into());
    to.extend(fields.taken(&PASSED_ON));
    let stop = fields.list("stop_sequences")?;
    if let Some(number) = stop.iter().position(|sequence| !sequence.is_string()) {
        return Err(fields.fault(&format!("stop_sequences[{number}]"), "must be a text"));
    }
    if !stop.is_empty() {
        to.insert("stop".into(), stop.into());
    }
    if let Some(choice) = fields.take("tool_choice") {
        choose(choice, to)?;
    }
    if let Some(output) = fields.take("output_config") {
        let mut output = Fields::of(output, "output_config")?;
        output.pass(&[("effort", "reasoning_effort")], to);
        if let Some(format) = output.take("format") {
            to.insert("response_format".into(), format_of(format)?);
        }
        output.end()?;
    }
    fields.ignore(&IGNORED);
    Ok(())
}

/// Converts the request's field `tool_choice` to options of the chat form.
fn choose(choice: Value, to: &mut Map<String, Value>) -> Result<()> {
    let mut choice = Fields::of(choice, "tool_choice")?;
    let chosen = match choice.required("type")?.as_str() {
        "auto" => "auto".into(),
        "any" => "required".into(),
        "none" => "none".into(),
        "tool" => json!({"type": "function", "function": {"name": choice.required("name")?}}),
        _ => return Err(choice.fault("type", "use auto, any, tool or none")),
    };
    to.insert("tool_choice".into(), chosen);
    if choice.flag("disable_parallel_tool_use")? {
        to.insert("parallel_tool_calls".into(), false.into());
    }
    choice.end()
}

/// Converts the request's field `output_config.format` to the field `response_format` of the chat
/// form.
fn format_of(format: Value) -> Result<Value> {
    let mut fields = Fields::of(format, "output_config.format")?;
    if fields.required("type")? != "json_schema" {
        return Err(fields.fault("type", "use json_schema"));
    }
    let schema = fields.take("schema").filter(Value::is_object);
    let schema = schema.ok_or_else(|| fields.fault("schema", "is missing: give an object"))?;
    fields.end()?;
    // The chat form requires a name, which models do not see.
    Ok(json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}))
}

/// Converts a tool definition to the chat form.
fn tool_of((number, tool): (usize, Value)) -> Result<Value> {
    let mut fields = Fields::of(tool, &format!("tools[{number}]"))?;
    if fields.text("type")?.is_some_and(|kind| kind != "custom") {
        return Err(fields.fault("type", "only tools of type custom are passed on"));
    }
    let schema = fields.take("input_schema").filter(Value::is_object);
    let schema = schema.ok_or_else(|| fields.fault("input_schema", "is missing: give an object"));
    let mut function = fields.taken(&["name", "description", "strict"]);
    function.insert("parameters".into(), schema?);
    fields.ignore(&[
        "allowed_callers",
        "cache_control",
        "defer_loading",
        "eager_input_streaming",
        "input_examples",
    ]);
    fields.end()?;
    Ok(json!({"type": "function", "function": function}))
}

/// Converts a message of the messages form. A user message becomes one message for each result of a
/// tool, and then one for the text, because the chat form has a message for each of them.
fn said_in(message: Value, at: &str) -> Result<Vec<ClientMessage>> {
    let mut fields = Fields::of(message, at)?;
    let role = match fields.required("role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => return Err(fields.fault("role", "use user, assistant or system")),
    };
    let content = fields.take("content").unwrap_or(Value::Null);
    let at = fields.full_name("content");
    fields.end()?;
    match role {
        Role::Assistant => Ok(vec![answer_in(content, &at)?]),
        Role::System => Ok(vec![ClientMessage::text(role, text_of(content, &at)?)]),
        Role::User | Role::Tool => question_in(content, &at),
    }
}

/// Converts the content of a user's message: results of tools and texts.
fn question_in(content: Value, at: &str) -> Result<Vec<ClientMessage>> {
    let (mut said, mut texts) = (Vec::new(), Vec::new());
    for mut block in blocks(content, at)? {
        match block.required("type")?.as_str() {
            "text" => texts.push(text_in(block)?),
            "tool_result" => said.push(result_in(block)?),
            _ => return Err(unknown(&block, "text or tool_result")),
        }
    }
    let text = joined(texts);
    if !text.is_empty() {
        said.push(ClientMessage::text(Role::User, text));
    }
    if said.is_empty() {
        return Err(Error::argument(at, "empty: give a text"));
    }
    Ok(said)
}

/// Converts the content of an assistant's message: texts and tool calls. Thinking is left out,
/// since the server does not show thinking to a client or a model.
fn answer_in(content: Value, at: &str) -> Result<ClientMessage> {
    let (mut texts, mut calls) = (Vec::new(), Vec::new());
    for mut block in blocks(content, at)? {
        match block.required("type")?.as_str() {
            "text" => texts.push(text_in(block)?),
            "tool_use" => calls.push(call_in(block)?),
            "thinking" | "redacted_thinking" => {}
            _ => return Err(unknown(&block, "text, tool_use or thinking")),
        }
    }
    Ok(ClientMessage { calls, ..ClientMessage::text(Role::Assistant, joined(texts)) })
}

/// Returns the text of a content that has only texts.
fn text_of(content: Value, at: &str) -> Result<String> {
    let mut texts = Vec::new();
    for mut block in blocks(content, at)? {
        if block.required("type")? != "text" {
            return Err(unknown(&block, "text"));
        }
        texts.push(text_in(block)?);
    }
    Ok(joined(texts))
}

/// Returns the blocks of a content, which is a text or a list of blocks.
fn blocks(content: Value, at: &str) -> Result<Vec<Fields>> {
    let blocks = match content {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks,
        Value::Null => Vec::new(),
        _ => return Err(Error::argument(at, "must be a text or a list of blocks")),
    };
    let block = |(number, block)| Fields::of(block, &format!("{at}[{number}]"));
    blocks.into_iter().enumerate().map(block).collect()
}

/// Returns the error for a block of a kind that is not accepted.
fn unknown(block: &Fields, known: &str) -> Error {
    block.fault("type", format!("blocks of this kind are not accepted: use {known}"))
}

fn joined(mut texts: Vec<String>) -> String {
    texts.retain(|text| !text.is_empty());
    texts.join("\n")
}

fn text_in(mut block: Fields) -> Result<String> {
    let text = block.text("text")?;
    let text = text.ok_or_else(|| block.fault("text", "is missing: give a text"))?;
    block.ignore(&["cache_control", "citations"]);
    block.end()?;
    Ok(text)
}

fn call_in(mut block: Fields) -> Result<ClientCall> {
    let (id, name) = (block.required("id")?, block.required("name")?);
    let input = block.take("input").unwrap_or_else(|| json!({}));
    if !input.is_object() {
        return Err(block.fault("input", "must be an object"));
    }
    block.ignore(&["cache_control", "caller", "toolset_name"]);
    block.end()?;
    Ok(ClientCall { id, name, arguments: input.to_string() })
}

fn result_in(mut block: Fields) -> Result<ClientMessage> {
    let call_id = Some(block.required("tool_use_id")?);
    let content = block.take("content").unwrap_or(Value::Null);
    let mut text = text_of(content, &block.full_name("content"))?;
    if block.flag("is_error")? {
        text.insert_str(0, ERROR_RESULT);
    }
    block.ignore(&["cache_control", "toolset_name"]);
    block.end()?;
    Ok(ClientMessage { call_id, ..ClientMessage::text(Role::Tool, text) })
}
