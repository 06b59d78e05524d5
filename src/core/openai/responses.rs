//! The responses form: a request of `/v1/responses`, and its whole answer.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::chat::without_tools;
use super::conversation::Conversation;
use super::fields::{Fields, checked_tools, text_of};
use crate::error::{Error, Result};
use crate::memory::message::Role;
use crate::memory::thread::{Seen, SeenCall};

/// Fields that the model is given, and their names in chat's form.
const PASSED_ON: [(&str, &str); 4] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("max_output_tokens", "max_tokens"),
    ("parallel_tool_calls", "parallel_tool_calls"),
];

/// Fields that concern OpenAI's own servers: what is answered is the same without them.
const IGNORED: [&str; 7] = [
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "truncation",
];

/// Fields that come back with the answer as they were given.
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

/// What an id of an answer begins with.
const RESPONSE: &str = "resp_";

/// Length of a digest in hex.
const DIGEST_DIGITS: usize = 64;

/// Reads a request; `taken` knows the names of the memory's own tools.
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
        user: fields.text("user")?,
        previous: previous(&mut fields)?,
        echo,
        ..Conversation::default()
    };
    options(&mut fields, &mut conversation)?;
    let tools = fields.list("tools")?;
    let tools: Vec<Value> = tools.into_iter().enumerate().map(tool_of).collect::<Result<_>>()?;
    checked_tools(&tools, taken)?;
    conversation.tools = tools;
    without_tools(&mut conversation);
    conversation.said = match fields.take("input") {
        Some(Value::String(text)) if !text.is_empty() => vec![Seen::text(Role::User, text)],
        Some(Value::Array(items)) => said_in(items)?,
        _ => return Err(fields.fault("input", "is missing: give a text or a list of items")),
    };
    fields.end()?;
    conversation.settled("input")
}

/// What would make another answer than the one that is given here.
fn refuse(fields: &mut Fields) -> Result<()> {
    fields.refuse("background", &[json!(false)], "an answer is given while its client waits")?;
    let stateful = "is kept by OpenAI alone: send the history as input, or previous_response_id";
    fields.refuse("conversation", &[], stateful)?;
    fields.refuse("prompt", &[], "is kept by OpenAI alone: send instructions and input")?;
    fields.refuse("include", &[], "nothing more can be told than the answer holds")?;
    fields.refuse("max_tool_calls", &[], "limit the agent's heartbeats instead")?;
    fields.refuse(
        "top_logprobs",
        &[json!(0)],
        "probabilities of tokens are not told: leave it out",
    )?;
    fields.refuse("moderation", &[], "nothing is moderated here")?;
    fields.refuse("context_management", &[], "the memory sees to the window by itself")
}

fn previous(fields: &mut Fields) -> Result<Option<String>> {
    let Some(id) = fields.text("previous_response_id")? else { return Ok(None) };
    let digest = id.strip_prefix(RESPONSE).filter(|digest| {
        digest.len() == DIGEST_DIGITS && digest.bytes().all(|b| b.is_ascii_hexdigit())
    });
    let why = "is not the id of an answer of this server";
    digest
        .map(|digest| Some(digest.to_owned()))
        .ok_or_else(|| fields.fault("previous_response_id", why))
}

fn options(fields: &mut Fields, conversation: &mut Conversation) -> Result<()> {
    for (name, chat) in PASSED_ON {
        if let Some(value) = fields.take(name) {
            conversation.options.insert(chat.into(), value);
        }
    }
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
        if let Some(verbosity) = text.take("verbosity") {
            conversation.options.insert("verbosity".into(), verbosity);
        }
        if let Some(format) = text.take("format") {
            conversation.options.insert("response_format".into(), format_of(format)?);
        }
        text.end()?;
    }
    if let Some(reasoning) = fields.take("reasoning") {
        let mut reasoning = Fields::of(reasoning, "reasoning")?;
        if let Some(effort) = reasoning.take("effort") {
            conversation.options.insert("reasoning_effort".into(), effort);
        }
        reasoning.ignore(&["summary", "generate_summary"]);
        reasoning.end()?;
    }
    if let Some(options) = fields.take("stream_options") {
        let mut options = Fields::of(options, "stream_options")?;
        options.ignore(&["include_obfuscation", "include_usage"]);
        options.end()?;
    }
    fields.ignore(&["metadata"]);
    fields.ignore(&IGNORED);
    Ok(())
}

/// How a text is to be formed, in chat's form.
fn format_of(format: Value) -> Result<Value> {
    let mut fields = Fields::of(format, "text.format")?;
    let kind = fields.required("type")?;
    if kind != "json_schema" {
        fields.end()?;
        return Ok(json!({"type": kind}));
    }
    let mut schema = Map::new();
    for name in ["name", "description", "schema", "strict"] {
        if let Some(value) = fields.take(name) {
            schema.insert(name.into(), value);
        }
    }
    fields.end()?;
    Ok(json!({"type": kind, "json_schema": schema}))
}

/// A tool in chat's form.
fn tool_of((number, tool): (usize, Value)) -> Result<Value> {
    let mut fields = Fields::of(tool, &format!("tools[{number}]"))?;
    if fields.required("type")? != "function" {
        return Err(fields.fault("type", "only tools of type function are passed on"));
    }
    let mut function = Map::new();
    for name in ["name", "description", "parameters", "strict"] {
        if let Some(value) = fields.take(name) {
            function.insert(name.into(), value);
        }
    }
    fields.end()?;
    Ok(json!({"type": "function", "function": function}))
}

/// Messages of a list of items: calls belong to the answer that they follow, what a model only thought is left out.
fn said_in(items: Vec<Value>) -> Result<Vec<Seen>> {
    let mut said: Vec<Seen> = Vec::with_capacity(items.len());
    for (number, item) in items.into_iter().enumerate() {
        let mut fields = Fields::of(item, &format!("input[{number}]"))?;
        let kind = fields.text("type")?.unwrap_or_else(|| "message".into());
        fields.ignore(&["id", "status", "phase"]);
        match kind.as_str() {
            "message" => said.push(message_of(&mut fields)?),
            "function_call" => {
                fields.ignore(&["async", "caller"]);
                let (id, name) = (fields.required("call_id")?, fields.required("name")?);
                let call =
                    SeenCall { id, name, arguments: fields.text("arguments")?.unwrap_or_default() };
                match said.last_mut().filter(|last| last.role == Role::Assistant) {
                    Some(last) => last.calls.push(call),
                    None => {
                        said.push(Seen { calls: vec![call], ..Seen::text(Role::Assistant, "") })
                    }
                }
            }
            "function_call_output" => {
                fields.ignore(&["caller", "name"]);
                let call_id = Some(fields.required("call_id")?);
                let output = fields.take("output").unwrap_or(Value::Null);
                let text = text_of(output, &[("input_text", "text")], &fields.named("output"))?;
                said.push(Seen { call_id, ..Seen::text(Role::Tool, text) });
            }
            "reasoning" => continue,
            _ => {
                let why = "items of this kind are not taken: use message, function_call or function_call_output";
                return Err(fields.fault("type", why));
            }
        }
        fields.end()?;
    }
    Ok(said)
}

fn message_of(fields: &mut Fields) -> Result<Seen> {
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
    let text = text_of(content, kinds, &fields.named("content"))?;
    if text.is_empty() && role == Role::User {
        return Err(Error::argument(&fields.named("content"), "empty: give a text"));
    }
    Ok(Seen::text(role, text))
}

/// The items of an answer: its text, then its calls.
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

/// A text as a part of a message.
pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// The whole answer.
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

/// An answer without what it says.
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

#[cfg(test)]
mod tests {
    use super::super::answer::{Ending, Head};
    use super::super::chat::parse_chat;
    use super::*;

    fn parsed(body: Value) -> Result<Conversation> {
        parse_responses(body.as_object().expect("an object").clone(), &|name| {
            name == "search_recall"
        })
    }

    fn refused(outcome: Result<Conversation>) -> String {
        outcome.expect_err("refused").fields["field"].as_str().expect("a field").to_owned()
    }

    #[test]
    fn a_history_is_the_same_in_both_forms() {
        let chat = json!({"model": "m", "messages": [
            {"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{\"a\":1}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "x"}, {"role": "tool", "tool_call_id": "c2", "content": ""},
            {"role": "assistant", "content": "It is x."}, {"role": "user", "content": "thanks"}]});
        let items = json!({"model": "m", "instructions": "be brief", "input": [
            {"role": "user", "content": "hi"}, {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"},
            {"type": "message", "role": "assistant", "id": "i", "status": "completed", "content": [
                {"type": "output_text", "text": "Let me look.", "annotations": [], "logprobs": []}]},
            {"type": "function_call", "id": "f", "status": "completed", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{\"a\":1}"},
            {"type": "function_call_output", "call_id": "c1", "output": "x"},
            {"type": "function_call_output", "call_id": "c2", "output": []},
            {"type": "message", "role": "assistant", "content": "It is x."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "thanks"}]}]});
        let chat = parse_chat(chat.as_object().expect("an object").clone(), &|_| false).unwrap();
        let items = parsed(items).unwrap();
        assert_eq!((chat.system, chat.said), (items.system, items.said));
    }

    #[test]
    fn options_and_tools_take_the_form_of_chat() {
        let found = parsed(json!({"model": "m", "input": "hi", "max_output_tokens": 9, "temperature": 1,
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": true, "description": null}],
            "tool_choice": {"type": "function", "name": "look"}, "reasoning": {"effort": "low", "summary": "auto"},
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": true}, "verbosity": "low"},
            "store": false, "truncation": "auto", "include": [], "previous_response_id": format!("resp_{}", "a".repeat(64))}))
        .unwrap();
        assert_eq!(
            Value::Object(found.options),
            json!({"temperature": 1, "max_tokens": 9, "tool_choice": {"type": "function", "function": {"name": "look"}}, "verbosity": "low",
                "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": true}},
                "reasoning_effort": "low"})
        );
        assert_eq!(
            found.tools,
            [
                json!({"type": "function", "function": {"name": "look", "parameters": {"type": "object"}, "strict": true}})
            ]
        );
        assert_eq!(found.previous, Some("a".repeat(64)));
        assert_eq!(found.said, [Seen::text(Role::User, "hi")]);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        for (name, value) in [
            ("background", json!(true)),
            ("conversation", json!("conv_1")),
            ("prompt", json!({"id": "p"})),
            ("include", json!(["message.output_text.logprobs"])),
            ("max_tool_calls", json!(3)),
            ("top_logprobs", json!(2)),
            ("previous_response_id", json!("resp_1")),
            ("invented", json!(1)),
        ] {
            let mut body = json!({"model": "m", "input": "hi"});
            body[name] = value;
            assert_eq!(refused(parsed(body)), name);
        }
        for (item, field) in [
            (json!({"type": "item_reference", "id": "x"}), "input[0].type"),
            (
                json!({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}),
                "input[0].content[0].type",
            ),
            (
                json!({"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}),
                "input[0].content[0].type",
            ),
            (json!({"role": "user", "content": ""}), "input[0].content"),
            (json!({"type": "function_call", "name": "f"}), "input[0].call_id"),
            (json!({"role": "tool", "content": "x"}), "input[0].role"),
        ] {
            assert_eq!(refused(parsed(json!({"model": "m", "input": [item]}))), field, "{item}");
        }
        let tool = json!({"type": "web_search"});
        assert_eq!(
            refused(parsed(json!({"model": "m", "input": "hi", "tools": [tool]}))),
            "tools[0].type"
        );
        assert_eq!(refused(parsed(json!({"model": "m"}))), "input");
        assert_eq!(refused(parsed(json!({"model": "m", "input": []}))), "input");
    }

    #[test]
    fn what_was_answered_can_be_sent_back_as_it_is() {
        let head = Head {
            thread: "d".into(),
            created_s: 7,
            model: "m".into(),
            told: Value::Null,
            echo: Map::new(),
        };
        let call = SeenCall { id: "c1".into(), name: "look".into(), arguments: "{}".into() };
        let seen = Seen { calls: vec![call], ..Seen::text(Role::Assistant, "Let me look.") };
        let answer =
            Answer { head, seen: seen.clone(), ending: Ending::ToolCalls, usage: Some((1, 2)) };
        let mut input = responses_answer(&answer)["output"].as_array().expect("items").clone();
        input.push(json!({"type": "function_call_output", "call_id": "c1", "output": "x"}));
        let found = parsed(json!({"model": "m", "input": input})).unwrap();
        assert_eq!(found.said[0], seen);
    }
}
