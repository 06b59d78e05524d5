//! Tests request bodies of `/v1/chat/completions`: what the server reads from them, and which
//! bodies it refuses.

use serde_json::{Value, json};
use vctx_core::error::Result;
use vctx_core::memory::message::Role;
use vctx_core::openai::{Conversation, Ending, chat_answer, parse_chat};

use super::answer;

fn parsed(body: Value) -> Result<Conversation> {
    let taken = |name: &str| name == "search_recall";
    parse_chat(body.as_object().expect("an object").clone(), &taken)
}

fn with(messages: Value) -> Result<Conversation> {
    parsed(json!({"model": "m", "messages": messages}))
}

/// Returns the field that the error of a refused request names.
fn refused(outcome: Result<Conversation>) -> String {
    outcome.expect_err("refused").fields["field"].as_str().expect("a field").to_owned()
}

#[test]
fn all_forms_of_a_history_are_the_same_history() {
    let plain = with(json!([
        {"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "a\nb"}])).unwrap();
    let written = with(json!([
        {"role": "developer", "content": [{"type": "text", "text": "be brief"}]},
        {"role": "user", "content": "hi", "name": null},
        {"role": "assistant", "content": [{"type": "text", "text": "hello"}], "refusal": null, "annotations": [], "audio": null,
            "function_call": null, "tool_calls": []},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]}]))
    .unwrap();
    assert_eq!(plain, written);
    assert_eq!(plain.system.as_deref(), Some("be brief"));
    assert_eq!(plain.said.len(), 3);
}

#[test]
fn the_first_system_text_stands_apart_and_later_ones_are_said() {
    let found =
        with(json!([{"role": "user", "content": "hi"}, {"role": "system", "content": "late"}]))
            .unwrap();
    assert_eq!((found.system, found.said[1].role), (None, Role::System));
    let found = with(
        json!([{"role": "system", "content": "a"}, {"role": "system", "content": "b"}, {"role": "user", "content": "hi"}]),
    );
    let found = found.unwrap();
    assert_eq!((found.system.as_deref(), found.said[0].text.as_str()), (Some("a"), "b"));
}

#[test]
fn calls_and_their_answers_are_kept() {
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let found = with(
        json!([{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": ""}]),
    )
    .unwrap();
    let shown = chat_answer(&answer("", found.said[1].calls.clone(), Ending::ToolCalls));
    assert_eq!(shown["choices"][0]["message"]["tool_calls"][0], call);
    assert_eq!(found.said[2].call_id.as_deref(), Some("c1"));
}

#[test]
fn what_cannot_be_honoured_is_refused_by_name() {
    let user = json!([{"role": "user", "content": "hi"}]);
    for (name, value) in [
        ("n", json!(2)),
        ("logprobs", json!(true)),
        ("top_logprobs", json!(3)),
        ("modalities", json!(["text", "audio"])),
        ("audio", json!({"voice": "x"})),
        ("functions", json!([{"name": "f"}])),
        ("function_call", json!({"name": "f"})),
        ("web_search_options", json!({"a": 1})),
        ("moderation", json!({"model": "m"})),
        ("invented", json!(1)),
        ("stream", json!("yes")),
        ("user", json!(7)),
        ("tools", json!({})),
    ] {
        let mut body = json!({"model": "m", "messages": user});
        body[name] = value;
        assert_eq!(refused(parsed(body)), name);
    }
    for (tool, field) in [
        (json!({"type": "custom"}), "tools[0].type"),
        (json!({"type": "function", "function": {}}), "tools[0].function.name"),
        (
            json!({"type": "function", "function": {"name": "search_recall"}}),
            "tools[0].function.name",
        ),
    ] {
        assert_eq!(
            refused(parsed(json!({"model": "m", "messages": user, "tools": [tool]}))),
            field
        );
    }
}

#[test]
fn what_asks_for_nothing_is_taken() {
    let found = parsed(json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "n": 1, "logprobs": false, "top_logprobs": 0,
        "modalities": ["text"], "functions": [], "audio": null, "store": true, "metadata": {"a": "b"}, "tool_choice": "auto",
        "temperature": 0.5, "stream": true, "stream_options": {"include_usage": true}}))
    .unwrap();
    assert_eq!(
        Value::Object(found.options),
        json!({"temperature": 0.5}),
        "a choice among no tools is none"
    );
    assert!(found.stream && found.usage);
}

#[test]
fn a_message_that_is_none_is_refused_at_its_place() {
    for (message, field) in [
        (json!("hi"), "messages[1]"),
        (json!({"role": "pope", "content": "hi"}), "messages[1].role"),
        (json!({"role": "function", "name": "f", "content": "hi"}), "messages[1].role"),
        (json!({"role": "user", "content": 7}), "messages[1].content"),
        (json!({"role": "user", "content": ""}), "messages[1].content"),
        (
            json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}),
            "messages[1].content[0].type",
        ),
        (
            json!({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}),
            "messages[1].content[0].type",
        ),
        (json!({"role": "user", "content": [{"type": "text"}]}), "messages[1].content[0].text"),
        (
            json!({"role": "user", "content": "hi", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}),
            "messages[1].tool_calls",
        ),
        (json!({"role": "tool", "content": "hi"}), "messages[1].tool_call_id"),
        (
            json!({"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}),
            "messages[1].tool_calls[0].type",
        ),
        (json!({"role": "assistant", "content": "x", "audio": {"id": "a"}}), "messages[1].audio"),
        (json!({"role": "user", "content": "x", "odd": 1}), "messages[1].odd"),
    ] {
        assert_eq!(
            refused(with(json!([{"role": "user", "content": "hi"}, message]))),
            field,
            "{message}"
        );
    }
    assert_eq!(refused(with(json!([]))), "messages");
    assert_eq!(refused(with(json!([{"role": "system", "content": "x"}]))), "messages");
    assert_eq!(
        refused(with(
            json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])
        )),
        "messages"
    );
}
