//! Writes a request to Anthropic's messages API (`POST /v1/messages`).
//!
//! The API takes the instructions apart from the messages, and then the user and the assistant in
//! turn. A later system message becomes a marked text of the user's turn, as in the strict form of
//! the window. Two marks (`cache_control`) say how far the provider may reuse its work: behind the
//! instructions, which change with an eviction, and behind the newest message, before what changes
//! with every prompt.

use serde_json::{Map, Value, json};

use super::{ModelRequest, content_of, copied, tokens_max};
use crate::memory::strict::EVENT;

/// Options of chat completions that this API has, also under another name.
pub(super) const OPTIONS: &[&str] = &[
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "stop",
    "parallel_tool_calls",
    "tool_choice",
    "reasoning_effort",
    "response_format",
];

/// Text of the user's turn before an assistant's message that begins the conversation.
const GOES_ON: &str = "The conversation goes on.";

pub(super) fn body(request: &ModelRequest<'_>) -> Map<String, Value> {
    let mut body = options(request.options);
    body.insert("model".into(), request.model.into());
    let is_system = |message: &&Value| message["role"] == "system";
    let leading = request.messages.iter().take_while(is_system).count();
    let (system, rest) = request.messages.split_at(leading);
    let texts = system.iter().map(content_of).filter(|text| !text.trim().is_empty());
    let mut system: Vec<Value> = texts.map(text_block).collect();
    if let Some(last) = system.last_mut() {
        mark(last);
    }
    if !system.is_empty() {
        body.insert("system".into(), Value::Array(system));
    }
    let mut turns = Turns::default();
    rest.iter().for_each(|message| turns.add(message));
    body.insert("messages".into(), turns.into_messages());
    if let Some(tools) = request.tools {
        body.insert("tools".into(), tools.iter().map(tool).collect());
    }
    body
}

fn options(options: &Map<String, Value>) -> Map<String, Value> {
    let mut body = Map::new();
    copied(options, &["temperature", "top_p", "stream"], &mut body);
    if let Some(most) = tokens_max(options) {
        body.insert("max_tokens".into(), most.clone());
    }
    if let Some(stop) = options.get("stop") {
        let stop = if stop.is_string() { json!([stop]) } else { stop.clone() };
        body.insert("stop_sequences".into(), stop);
    }
    let mut choice = options.get("tool_choice").map(choice_of);
    if options.get("parallel_tool_calls") == Some(&Value::Bool(false)) {
        let choice = choice.get_or_insert_with(|| json!({"type": "auto"}));
        choice["disable_parallel_tool_use"] = true.into();
    }
    body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
    let mut output = Map::new();
    if let Some(effort) = options.get("reasoning_effort") {
        output.insert("effort".into(), effort.clone());
    }
    if let Some(schema) =
        options.get("response_format").and_then(|f| f.pointer("/json_schema/schema"))
    {
        output.insert("format".into(), json!({"type": "json_schema", "schema": schema}));
    }
    if !output.is_empty() {
        body.insert("output_config".into(), Value::Object(output));
    }
    body
}

fn choice_of(choice: &Value) -> Value {
    match (choice.as_str(), choice.pointer("/function/name")) {
        (_, Some(name)) => json!({"type": "tool", "name": name}),
        (Some("required"), None) => json!({"type": "any"}),
        (Some("none"), None) => json!({"type": "none"}),
        _ => json!({"type": "auto"}),
    }
}

fn tool(tool: &Value) -> Value {
    let Some(function) = tool["function"].as_object() else { return tool.clone() };
    let mut told = Map::new();
    copied(function, &["name", "description", "strict"], &mut told);
    let schema = function.get("parameters").cloned();
    told.insert("input_schema".into(), schema.unwrap_or_else(|| json!({"type": "object"})));
    Value::Object(told)
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Marks a block as the end of a part that the provider may keep.
fn mark(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

/// The API accepts only letters, digits, `_` and `-` in the id of a call.
fn id_of(id: &Value) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    id.as_str().unwrap_or_default().chars().map(plain).collect()
}

/// The turns of the user and the assistant.
#[derive(Default)]
struct Turns {
    /// Role and blocks of each turn.
    turns: Vec<(&'static str, Vec<Value>)>,
    /// Turn and block of the end of the newest message that is no system message.
    newest: Option<(usize, usize)>,
}

impl Turns {
    fn add(&mut self, message: &Value) {
        let text = content_of(message);
        let said = Some(text).filter(|text| !text.trim().is_empty());
        match message["role"].as_str().unwrap_or_default() {
            "assistant" => {
                let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
                let mut blocks: Vec<Value> = said.map(text_block).into_iter().collect();
                blocks.extend(calls.iter().map(call_block));
                self.push("assistant", blocks, true);
            }
            "tool" => {
                let id = id_of(&message["tool_call_id"]);
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": text});
                self.push("user", vec![result], true);
            }
            "user" => self.push("user", said.map(text_block).into_iter().collect(), true),
            _ => {
                let marked = said.map(|text| text_block(&format!("{EVENT}{text}")));
                self.push("user", marked.into_iter().collect(), false);
            }
        }
    }

    fn push(&mut self, role: &'static str, blocks: Vec<Value>, is_message: bool) {
        if blocks.is_empty() {
            return;
        }
        if self.turns.is_empty() && role == "assistant" {
            let begin = text_block(&format!("{EVENT}{GOES_ON}"));
            self.turns.push(("user", vec![begin]));
        }
        match self.turns.last_mut() {
            Some((last, list)) if *last == role => list.extend(blocks),
            _ => self.turns.push((role, blocks)),
        }
        if is_message {
            let turn = self.turns.len() - 1;
            self.newest = Some((turn, self.turns[turn].1.len() - 1));
        }
    }

    fn into_messages(mut self) -> Value {
        if let Some((turn, block)) = self.newest {
            mark(&mut self.turns[turn].1[block]);
        }
        let message = |(role, mut blocks): (&str, Vec<Value>)| {
            // The results of calls must come first in their turn.
            blocks.sort_by_key(|block| block["type"] != "tool_result");
            json!({"role": role, "content": blocks})
        };
        self.turns.into_iter().map(message).collect()
    }
}

/// Returns a call as a block. Arguments that are no JSON object are passed as a text.
fn call_block(call: &Value) -> Value {
    let function = &call["function"];
    let text = function["arguments"].as_str().unwrap_or_default();
    let input: Option<Value> = serde_json::from_str(text).ok().filter(Value::is_object);
    let input = match input {
        Some(input) => input,
        None if text.trim().is_empty() => json!({}),
        None => json!({"arguments": text}),
    };
    json!({"type": "tool_use", "id": id_of(&call["id"]), "name": function["name"], "input": input})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(messages: &[Value], tools: Option<&[Value]>, options: &Value) -> Value {
        let options = options.as_object().unwrap();
        Value::Object(body(&ModelRequest { model: "m", messages, tools, options }))
    }

    #[test]
    fn a_request_has_the_form_of_the_messages_api() {
        let call = |id: &str, arguments: &str| {
            json!({"id": id, "type": "function",
                "function": {"name": "add", "arguments": arguments}})
        };
        let messages = [
            json!({"role": "system", "content": "Serve."}),
            json!({"role": "system", "content": "Summary."}),
            json!({"role": "user", "content": "Add."}),
            json!({"role": "assistant", "content": "I add.",
                "tool_calls": [call("c.1", "{\"a\":1}"), call("c2", "oops")]}),
            json!({"role": "tool", "tool_call_id": "c.1", "content": "2"}),
            json!({"role": "system", "content": "Pressure."}),
            json!({"role": "tool", "tool_call_id": "c2", "content": "Error."}),
            json!({"role": "system", "content": "Now: noon"}),
        ];
        let tools = [json!({"type": "function", "function":
            {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}})];
        let options = json!({"max_tokens": 9, "stream": true, "stop": "end",
            "stream_options": {"include_usage": true}, "tool_choice": "required",
            "parallel_tool_calls": false, "reasoning_effort": "low"});
        let kept = json!({"type": "ephemeral"});
        let expected = json!({
            "model": "m", "max_tokens": 9, "stream": true, "stop_sequences": ["end"],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
            "output_config": {"effort": "low"},
            "system": [{"type": "text", "text": "Serve."},
                {"type": "text", "text": "Summary.", "cache_control": kept}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Add."}]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "I add."},
                    {"type": "tool_use", "id": "c_1", "name": "add", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "add", "input": {"arguments": "oops"}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c_1", "content": "2"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "Error.",
                        "cache_control": kept},
                    {"type": "text", "text": "[system event]\nPressure."},
                    {"type": "text", "text": "[system event]\nNow: noon"}]},
            ],
            "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}],
        });
        assert_eq!(sent(&messages, Some(&tools), &options), expected);
    }

    #[test]
    fn turns_begin_with_the_user_and_no_text_is_blank() {
        let messages = [
            json!({"role": "assistant", "content": "Hello."}),
            json!({"role": "user", "content": " "}),
            json!({"role": "assistant", "content": ""}),
            json!({"role": "user", "content": "Hi."}),
        ];
        let body = sent(&messages, None, &json!({"max_tokens": 9}));
        let texts = |turn: usize| body["messages"][turn]["content"][0]["text"].clone();
        assert_eq!(body["messages"].as_array().map(Vec::len), Some(3));
        assert_eq!(texts(0), "[system event]\nThe conversation goes on.");
        assert_eq!((texts(1), texts(2)), (json!("Hello."), json!("Hi.")));
        assert_eq!(body.get("system"), None);
    }
}
