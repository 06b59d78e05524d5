//! Tests request bodies of `/v1/responses`: what the server reads from them, and which bodies it
//! refuses.

use serde_json::{Value, json};
use vctx_core::error::Result;
use vctx_core::memory::conversation::ClientMessage;
use vctx_core::memory::message::Role;
use vctx_core::openai::{
    Conversation, Ending, Previous, parse_chat, parse_responses, responses_answer,
};

use super::{answer, call};

fn parsed(body: Value) -> Result<Conversation> {
    parse_responses(body.as_object().expect("an object").clone(), &|name| name == "search_recall")
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
    assert_eq!(found.previous, Some(Previous::AnswerTo("a".repeat(64))));
    assert_eq!(found.said, [ClientMessage::text(Role::User, "hi")]);
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
    let answer = answer("Let me look.", vec![call("c1")], Ending::ToolCalls);
    let mut input = responses_answer(&answer)["output"].as_array().expect("items").clone();
    input.push(json!({"type": "function_call_output", "call_id": "c1", "output": "x"}));
    let found = parsed(json!({"model": "m", "input": input})).unwrap();
    assert_eq!(found.said[0], answer.seen);
}
