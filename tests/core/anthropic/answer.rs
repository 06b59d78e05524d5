//! Tests answers in the messages form: the whole answer, its events, and errors.

use serde_json::{Value, json};
use vctx_core::anthropic::{MessagesStream, fault, messages_answer, parse_messages};
use vctx_core::error::{Code, Error};
use vctx_core::openai::Ending;

use super::{answer, call};

/// Joins the events of a stream to an answer, as a client does.
fn put_together(events: &[Value]) -> Value {
    let mut message = Value::Null;
    let (mut inputs, mut open) = (Vec::<String>::new(), None);
    for event in events {
        let index = event["index"].as_u64().map(|index| usize::try_from(index).unwrap());
        match event["type"].as_str().expect("a type") {
            "message_start" => message = event["message"].clone(),
            "ping" => {}
            "content_block_start" => {
                assert_eq!((open, index), (None, Some(inputs.len())), "{event}");
                open = index;
                inputs.push(String::new());
                message["content"].as_array_mut().unwrap().push(event["content_block"].clone());
            }
            "content_block_delta" => {
                assert!(index.is_some() && open == index, "{event}");
                let delta = &event["delta"];
                let block = &mut message["content"][index.unwrap()];
                if delta["type"] == "text_delta" {
                    let text = block["text"].as_str().unwrap().to_owned();
                    block["text"] = (text + delta["text"].as_str().unwrap()).into();
                } else {
                    inputs[index.unwrap()].push_str(delta["partial_json"].as_str().unwrap());
                }
            }
            "content_block_stop" => {
                assert!(index.is_some() && open == index, "{event}");
                let input = &inputs[index.unwrap()];
                if !input.is_empty() {
                    message["content"][index.unwrap()]["input"] =
                        serde_json::from_str(input).unwrap();
                }
                open = None;
            }
            "message_delta" => {
                for (name, value) in event["delta"].as_object().unwrap() {
                    message[name] = value.clone();
                }
                message["usage"] = event["usage"].clone();
            }
            "message_stop" => return message,
            other => panic!("{other} is no event"),
        }
    }
    panic!("the stream has no end");
}

#[test]
fn the_events_are_the_whole_answer() {
    for (text, calls, ending, reason) in [
        ("Let me look.", vec![call("1"), call("2")], Ending::ToolCalls, "tool_use"),
        ("Let me look.", vec![], Ending::Stop, "end_turn"),
        ("", vec![call("1")], Ending::ToolCalls, "tool_use"),
        ("", vec![], Ending::Length, "max_tokens"),
        ("No.", vec![], Ending::ContentFilter, "refusal"),
    ] {
        let answer = answer(text, calls, ending);
        let mut stream = MessagesStream::new(answer.head.clone());
        let mut events = stream.begin();
        let (first, rest) = text.split_at(text.len() / 2);
        for piece in [first, rest].into_iter().filter(|piece| !piece.is_empty()) {
            events.extend(stream.text(piece));
        }
        events.extend(stream.end(&answer));
        let whole = messages_answer(&answer);
        assert_eq!(put_together(&events), whole);
        assert_eq!(whole["stop_reason"], reason);
    }
}

#[test]
fn an_answer_has_text_calls_and_counts() {
    let whole = messages_answer(&answer("Let me look.", vec![call("c1")], Ending::ToolCalls));
    let content = json!([{"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": [1, 2]}}]);
    let expected = json!({"id": "msg_d", "type": "message", "role": "assistant", "model": "m",
        "content": content, "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 3, "output_tokens": 4}, "vctx": {"agent": "a"}});
    assert_eq!(whole, expected);
}

#[test]
fn an_answer_that_a_client_sends_back_is_the_same_message() {
    let answer = answer("Let me look.", vec![call("c1")], Ending::ToolCalls);
    let content = messages_answer(&answer)["content"].clone();
    let body = json!({"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": content},
        {"role": "user", "content": "and?"}]});
    let found = parse_messages(body.as_object().unwrap().clone(), &|_| false).unwrap();
    assert_eq!(found.said[1].canonical(), answer.seen.canonical());
}

#[test]
fn an_error_has_the_type_of_its_status() {
    for (code, kind) in [
        (Code::InvalidArgument, "invalid_request_error"),
        (Code::TokenBudgetExceeded, "invalid_request_error"),
        (Code::RunBusy, "invalid_request_error"),
        (Code::SpendingCapped, "permission_error"),
        (Code::AgentNotFound, "not_found_error"),
        (Code::BodyTooLarge, "request_too_large"),
        (Code::HeartbeatCooldown, "rate_limit_error"),
        (Code::ModelUnavailable, "overloaded_error"),
        (Code::Timeout, "timeout_error"),
        (Code::Internal, "api_error"),
    ] {
        let expected = json!({"type": "error", "error": {"type": kind, "message": "no",
            "param": null, "code": code.text()}});
        assert_eq!(fault(&Error::new(code, "no")), expected);
    }
    let named = fault(&Error::argument("model", "is missing"));
    assert_eq!(named["error"]["param"], "model");
}
