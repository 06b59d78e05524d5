//! Tests several messages that one write appends.

use serde_json::{Value, json};
use vctx_core::error::{Code, Error};
use vctx_core::tools::{AppendMessages, Call, decode_as};
use vctx_core::window::tokens;

use super::World;

fn append(world: &mut World, messages: &Value) -> Result<Value, Error> {
    let body = json!({"messages": messages}).as_object().cloned().unwrap();
    let call = decode_as::<AppendMessages>(body)?.checked()?;
    world.run(&Call::from(call)).map(|answer| answer["result"].clone())
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[test]
fn messages_of_one_write_are_a_conversation_with_its_pairs() {
    let mut world = World::new(4_000, "");
    let calls =
        json!([{"id": "A", "type": "function", "function": {"name": "tide", "arguments": "{}"}}]);
    let said = json!([
        user("When is high tide?"),
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "At noon.", "tool_call_id": "A"},
        {"role": "assistant", "content": "At noon.", "name": "ada", "said_at": "2026-05-01"},
    ]);
    let result = append(&mut world, &said).unwrap();
    assert_eq!(result["rest"], 0);
    let seqs: Vec<&Value> =
        result["appended"].as_array().unwrap().iter().map(|one| &one["seq"]).collect();
    assert_eq!(seqs, [&json!(1), &json!(2), &json!(3), &json!(4)]);
    assert_eq!(world.core.version, 2, "one write");
    assert!(!world.messages[2].meta.contains_key("late"), "the result is paired with its call");
    assert_eq!(world.messages[3].meta["said_at"], "2026-05-01");
}

#[test]
fn a_write_takes_as_many_messages_as_an_eviction_leaves_room_for() {
    let mut world = World::new(2_000, "");
    let texts: Vec<String> =
        (0..60).map(|at| format!("{at} {}", "the sea is calm ".repeat(20))).collect();
    let mut taken = Vec::new();
    let mut writes = 0;
    while taken.len() < texts.len() {
        let left: Vec<Value> = texts[taken.len()..].iter().map(|text| user(text)).collect();
        let result = append(&mut world, &json!(left)).unwrap();
        let appended = result["appended"].as_array().unwrap().clone();
        assert_eq!(result["rest"], left.len() - appended.len());
        assert!(tokens(&world.core).occupancy <= 2_000);
        taken.extend(appended);
        writes += 1;
    }
    assert!(writes > 1 && writes < texts.len(), "{writes}");
    let kept: Vec<&String> = world.messages.iter().map(|message| &message.content).collect();
    assert_eq!(kept, texts.iter().collect::<Vec<_>>());
}

#[test]
fn a_wrong_message_is_named_and_nothing_is_appended() {
    let mut world = World::new(2_000, "");
    let before = world.core.clone();
    for (messages, field) in [
        (json!([]), "messages"),
        (json!([user("a"), {"role": "user", "content": ""}]), "messages[1].content"),
        (
            json!([user("a"), {"role": "tool", "content": "x", "tool_call_id": "B"}]),
            "messages[1].tool_call_id",
        ),
    ] {
        let refused = append(&mut world, &messages).unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument);
        assert_eq!(refused.fields["field"], field, "{refused:?}");
    }
    let huge = user(&"word ".repeat(4_000));
    assert_eq!(append(&mut world, &json!([huge])).unwrap_err().code, Code::TokenBudgetExceeded);
    assert_eq!(world.core, before);
}
