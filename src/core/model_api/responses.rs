//! Writes a request to OpenAI's responses API (`POST /v1/responses`).
//!
//! Nothing is stored at the provider (`store` is false): each request contains the whole window.

use serde_json::{Map, Value, json};

use super::{ModelRequest, content_of, copied, tokens_max};

/// Options of chat completions that this API has, also under another name.
pub(super) const OPTIONS: &[&str] = &[
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "parallel_tool_calls",
    "tool_choice",
    "reasoning_effort",
    "verbosity",
    "response_format",
];

pub(super) fn body(request: &ModelRequest<'_>) -> Map<String, Value> {
    let options = request.options;
    let mut body = Map::new();
    copied(options, &["temperature", "top_p", "stream", "parallel_tool_calls"], &mut body);
    if let Some(most) = tokens_max(options) {
        body.insert("max_output_tokens".into(), most.clone());
    }
    if let Some(effort) = options.get("reasoning_effort") {
        body.insert("reasoning".into(), json!({"effort": effort}));
    }
    let mut text = Map::new();
    copied(options, &["verbosity"], &mut text);
    if let Some(format) = options.get("response_format") {
        text.insert("format".into(), format_of(format));
    }
    if !text.is_empty() {
        body.insert("text".into(), Value::Object(text));
    }
    if let Some(choice) = options.get("tool_choice") {
        let named = choice.pointer("/function/name");
        let choice =
            named.map_or_else(|| choice.clone(), |name| json!({"type": "function", "name": name}));
        body.insert("tool_choice".into(), choice);
    }
    body.insert("model".into(), request.model.into());
    body.insert("store".into(), false.into());
    body.insert("input".into(), request.messages.iter().flat_map(items).collect());
    if let Some(tools) = request.tools {
        body.insert("tools".into(), tools.iter().map(tool).collect());
    }
    body
}

/// Returns the items of a message: its text, then its calls.
fn items(message: &Value) -> Vec<Value> {
    let role = message["role"].as_str().unwrap_or_default();
    let text = content_of(message);
    if role == "tool" {
        let output = json!({"type": "function_call_output",
            "call_id": message["tool_call_id"], "output": text});
        return vec![output];
    }
    let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
    let said = json!({"type": "message", "role": role, "content": text});
    let said = Some(said).filter(|_| !text.is_empty() || calls.is_empty());
    let call = |call: &Value| {
        let function = &call["function"];
        json!({"type": "function_call", "call_id": call["id"], "name": function["name"],
            "arguments": function["arguments"]})
    };
    said.into_iter().chain(calls.iter().map(call)).collect()
}

/// Returns a tool in the form of this API, in which the function's fields are those of the tool.
/// The API enforces the schema of a tool unless `strict` is false.
fn tool(tool: &Value) -> Value {
    let Some(function) = tool["function"].as_object() else { return tool.clone() };
    let mut flat = function.clone();
    flat.insert("type".into(), "function".into());
    flat.entry("strict").or_insert(false.into());
    Value::Object(flat)
}

/// Returns a `response_format` in the form of this API, in which the schema's fields are those of
/// the format.
fn format_of(format: &Value) -> Value {
    let Some(schema) = format["json_schema"].as_object() else { return format.clone() };
    let mut flat = schema.clone();
    flat.insert("type".into(), "json_schema".into());
    Value::Object(flat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_form_of_the_responses_api() {
        let messages = [
            json!({"role": "system", "content": "Serve."}),
            json!({"role": "user", "content": "Add."}),
            json!({"role": "assistant", "content": "", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1}"}}]}),
            json!({"role": "tool", "tool_call_id": "c1", "content": "2"}),
        ];
        let tools = [json!({"type": "function", "function":
            {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}})];
        let options = json!({"max_completion_tokens": 9, "stream": true,
            "stream_options": {"include_usage": true}, "reasoning_effort": "low",
            "tool_choice": {"type": "function", "function": {"name": "add"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}});
        let options = options.as_object().unwrap();
        let request =
            ModelRequest { model: "m", messages: &messages, tools: Some(&tools), options };
        let expected = json!({
            "model": "m", "store": false, "stream": true, "max_output_tokens": 9,
            "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
            "tool_choice": {"type": "function", "name": "add"},
            "input": [
                {"type": "message", "role": "system", "content": "Serve."},
                {"type": "message", "role": "user", "content": "Add."},
                {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{\"a\":1}"},
                {"type": "function_call_output", "call_id": "c1", "output": "2"},
            ],
            "tools": [{"type": "function", "name": "add", "description": "Adds.",
                "parameters": {"type": "object"}, "strict": false}],
        });
        assert_eq!(Value::Object(body(&request)), expected);
    }
}
