//! Tests which messages of a run the client receives as its answer: the model's texts and calls to
//! the client's tools, but no calls to the memory's tools.

use serde_json::{Value, json};
use vctx_core::memory::conversation::ClientCall;
use vctx_core::memory::message::Message;
use vctx_core::openai::{Sight, visible};

fn message(seq: u64, role: &str, content: &str, meta: Value) -> Message {
    serde_json::from_value(json!({"_key": seq.to_string(), "agent_id": "a", "seq": seq, "kind": "turn", "role": role,
        "content": content, "meta": meta, "token_estimate": 1, "created_at": "", "copy_of": null, "salt": "", "digest": "",
        "chain": ""}))
    .unwrap()
}

fn calls(names: &[&str]) -> Value {
    let call = |name: &&str| json!({"id": format!("id-{name}"), "type": "function", "function": {"name": name, "arguments": "{}"}});
    json!({"tool_calls": names.iter().map(call).collect::<Vec<_>>()})
}

fn seen(messages: &[Message]) -> Option<(String, Vec<String>, u64, bool)> {
    let sight = |call: &ClientCall| match call.name.as_str() {
        "ours" => Sight::Nothing,
        "say" => Sight::Text("Hello.".into()),
        _ => Sight::Call,
    };
    let found = visible(messages, &sight)?;
    let names = found.seen.calls.iter().map(|call| call.name.clone()).collect();
    Some((found.seen.text, names, found.seq, found.whole))
}

#[test]
fn tools_of_the_memory_stay_inside_and_those_of_the_client_come_out() {
    let messages = [
        message(4, "assistant", "Let me look.", calls(&["ours"])),
        message(5, "tool", "found", json!({"tool_call_id": "id-ours"})),
        message(6, "system", "a notice", json!({})),
        message(7, "assistant", "It is 7.", calls(&["ours", "theirs"])),
        message(8, "tool", "done", json!({"tool_call_id": "id-ours"})),
    ];
    let text = "Let me look.\n\nIt is 7.".to_owned();
    assert_eq!(seen(&messages), Some((text.clone(), vec!["theirs".to_owned()], 7, true)));
    assert_eq!(seen(&messages[..4]), Some((text, vec!["theirs".to_owned()], 7, false)));
    assert_eq!(seen(&messages[1..3]), None);
    let says = [message(4, "assistant", "I greet.", calls(&["say"]))];
    assert_eq!(seen(&says), Some(("I greet.\nHello.".to_owned(), vec![], 4, false)));
}
