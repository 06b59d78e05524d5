//! Tests request bodies of `/v1/messages`: what the server reads from them, and which bodies it
//! refuses.

use serde_json::{Value, json};
use vctx_core::anthropic::parse_messages;
use vctx_core::error::Result;
use vctx_core::memory::message::Role;
use vctx_core::openai::{Conversation, parse_chat};

fn parsed(body: Value) -> Result<Conversation> {
    let taken = |name: &str| name == "search_recall";
    parse_messages(body.as_object().expect("an object").clone(), &taken)
}

/// Parses a request with some fields besides the required ones.
fn with(fields: Value) -> Result<Conversation> {
    let mut body = json!({"model": "m", "max_tokens": 9, "messages": [user("hi")]});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    parsed(body)
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

/// Returns the field that the error of a refused request names.
fn refused(outcome: Result<Conversation>) -> String {
    outcome.expect_err("refused").fields["field"].as_str().expect("a field").to_owned()
}

#[test]
fn all_forms_of_a_history_are_the_same_history() {
    let plain = with(json!({"system": "be brief", "messages": [user("hi"),
        {"role": "assistant", "content": "hello"}, user("a\nb")]}))
    .unwrap();
    let kept = json!({"type": "ephemeral"});
    let written = with(json!({
        "system": [{"type": "text", "text": "be brief", "cache_control": kept}],
        "messages": [user(json!([{"type": "text", "text": "hi", "citations": null}])),
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "text", "text": "hello"}]},
            {"role": "assistant", "content": []},
            user(json!([{"type": "text", "text": "a"}, {"type": "text", "text": ""},
                {"type": "text", "text": "b", "cache_control": kept}]))]}))
    .unwrap();
    assert_eq!(plain, written);
    assert_eq!(plain.system.as_deref(), Some("be brief"));
    assert_eq!(plain.said.len(), 3);
    assert!(!plain.stream && plain.labels.user.is_none());
}

#[test]
fn a_history_in_the_chat_form_is_the_same_history() {
    let call = json!({"type": "tool_use", "id": "c1", "name": "look", "input": {"b": 1, "a": 2},
        "caller": {"type": "direct"}});
    let result = |id: &str, content: Value| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    let ours = with(json!({"system": "be brief", "messages": [user("hi"),
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
        user(json!([{"type": "text", "text": "There."}, result("c1", json!("rain")),
            result("c2", json!([{"type": "text", "text": "wind"}]))]))]}))
    .unwrap();
    let call = json!({"id": "c1", "type": "function",
        "function": {"name": "look", "arguments": "{\"a\": 2, \"b\": 1}"}});
    let theirs = json!({"model": "m", "messages": [
        {"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {"role": "tool", "tool_call_id": "c2", "content": "wind"},
        {"role": "user", "content": "There."}]});
    let theirs = parse_chat(theirs.as_object().unwrap().clone(), &|_| false).unwrap();
    let canonical = |found: &Conversation| -> Vec<String> {
        found.said.iter().map(|said| said.canonical()).collect()
    };
    assert_eq!(canonical(&ours), canonical(&theirs));
    assert_eq!(ours.system, theirs.system);
}

#[test]
fn results_say_that_they_are_errors_and_later_system_texts_are_said() {
    let found = with(json!({"messages": [user("hi"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
        user(json!([{"type": "tool_result", "tool_use_id": "c1", "content": "gone", "is_error": true}])),
        {"role": "system", "content": "late"}]}))
    .unwrap();
    assert_eq!(found.said[2].text, "Error: gone");
    assert_eq!(found.said[2].call_id.as_deref(), Some("c1"));
    assert_eq!((found.said[3].role, found.said[3].text.as_str()), (Role::System, "late"));
    assert_eq!(found.system, None);
    let empty = json!({"type": "tool_result", "tool_use_id": "c1"});
    let found = with(json!({"messages": [user(json!([empty]))]})).unwrap();
    assert_eq!((found.said.len(), found.said[0].text.as_str()), (1, ""));
}

#[test]
fn options_and_tools_get_the_names_of_the_chat_form() {
    let tool = json!({"name": "look", "description": "Looks.", "type": "custom",
        "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}});
    let found = with(json!({"tools": [tool], "temperature": 0.5, "top_p": 0.9, "stream": true,
        "stop_sequences": ["end"], "metadata": {"user_id": "bea"}, "thinking": {"type": "adaptive"},
        "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": true},
        "output_config": {"effort": "low",
            "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "service_tier": "auto", "container": null, "top_k": null}))
    .unwrap();
    let function = |fields: Value| json!({"type": "function", "function": fields});
    let expected = json!({"max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "stop": ["end"],
        "tool_choice": function(json!({"name": "look"})), "parallel_tool_calls": false,
        "reasoning_effort": "low", "response_format": {"type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}}}});
    assert_eq!(Value::Object(found.options), expected);
    let look = json!({"name": "look", "description": "Looks.", "parameters": {"type": "object"}});
    assert_eq!(found.tools, [function(look)]);
    assert!(found.stream && found.labels.user.as_deref() == Some("bea"));
    for (choice, passed) in [("auto", json!("auto")), ("any", json!("required"))] {
        let tool = json!({"name": "look", "input_schema": {}});
        let found = with(json!({"tools": [tool], "tool_choice": {"type": choice}})).unwrap();
        assert_eq!(found.options["tool_choice"], passed);
    }
    let tool = json!({"name": "look", "input_schema": {}});
    let none = with(json!({"tools": [tool], "tool_choice": {"type": "none"}})).unwrap();
    assert!(none.tools.is_empty() && !none.options.contains_key("tool_choice"));
}

#[test]
fn what_cannot_be_honoured_is_refused_by_name() {
    let tool = |fields: Value| json!({"tools": [fields]});
    let object = json!({"type": "object"});
    for (fields, field) in [
        (json!({"model": ""}), "model"),
        (json!({"max_tokens": null}), "max_tokens"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": "9"}), "max_tokens"),
        (json!({"top_k": 5}), "top_k"),
        (json!({"container": "c"}), "container"),
        (json!({"mcp_servers": [{"name": "s"}]}), "mcp_servers"),
        (json!({"context_management": {"edits": []}}), "context_management"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"invented": 1}), "invented"),
        (json!({"system": 7}), "system"),
        (json!({"system": [{"type": "image"}]}), "system[0].type"),
        (json!({"metadata": {"user_id": 7}}), "metadata.user_id"),
        (json!({"stop_sequences": "end"}), "stop_sequences"),
        (json!({"stop_sequences": ["a", 1]}), "stop_sequences[1]"),
        (json!({"tool_choice": {"type": "some"}}), "tool_choice.type"),
        (json!({"tool_choice": {"type": "tool"}}), "tool_choice.name"),
        (json!({"output_config": {"format": {"type": "text"}}}), "output_config.format.type"),
        (json!({"tools": {}}), "tools"),
        (tool(json!({"type": "web_search_20250305", "name": "web_search"})), "tools[0].type"),
        (tool(json!({"name": "look"})), "tools[0].input_schema"),
        (tool(json!({"name": "", "input_schema": object})), "tools[0].name"),
        (tool(json!({"name": "search_recall", "input_schema": object})), "tools[0].name"),
        (tool(json!({"name": "look", "input_schema": object, "odd": 1})), "tools[0].odd"),
    ] {
        assert_eq!(refused(with(fields.clone())), field, "{fields}");
    }
}

#[test]
fn a_message_that_is_none_is_refused_at_its_place() {
    let block = |block: Value| user(json!([{"type": "text", "text": "x"}, block]));
    let said = |block: Value| json!({"role": "assistant", "content": [block]});
    for (message, field) in [
        (json!("hi"), "messages[1]"),
        (json!({"role": "tool", "content": "hi"}), "messages[1].role"),
        (user(7), "messages[1].content"),
        (user(""), "messages[1].content"),
        (user(json!([])), "messages[1].content"),
        (json!({"role": "user", "content": "x", "odd": 1}), "messages[1].odd"),
        (block(json!({"type": "image", "source": {}})), "messages[1].content[1].type"),
        (block(json!({"type": "document", "source": {}})), "messages[1].content[1].type"),
        (block(json!({"type": "tool_use", "id": "c"})), "messages[1].content[1].type"),
        (block(json!({"type": "text"})), "messages[1].content[1].text"),
        (block(json!({"type": "text", "text": "x", "odd": 1})), "messages[1].content[1].odd"),
        (block(json!({"type": "tool_result"})), "messages[1].content[1].tool_use_id"),
        (
            block(json!({"type": "tool_result", "tool_use_id": "c",
                "content": [{"type": "image", "source": {}}]})),
            "messages[1].content[1].content[0].type",
        ),
        (
            block(json!({"type": "tool_result", "tool_use_id": "c", "is_error": 1})),
            "messages[1].content[1].is_error",
        ),
        (said(json!({"type": "tool_use", "name": "f"})), "messages[1].content[0].id"),
        (
            said(json!({"type": "tool_use", "id": "c", "name": "f", "input": "x"})),
            "messages[1].content[0].input",
        ),
        (said(json!({"type": "tool_result"})), "messages[1].content[0].type"),
    ] {
        let outcome = with(json!({"messages": [user("hi"), message]}));
        assert_eq!(refused(outcome), field, "{message}");
    }
    for messages in [json!([]), json!([user("x"), {"role": "assistant", "content": "y"}])] {
        assert_eq!(refused(with(json!({"messages": messages}))), "messages");
    }
}
