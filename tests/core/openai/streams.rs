//! Tests that the pieces of a streamed answer add up to the whole answer.

use serde_json::{Value, json};
use vctx_core::openai::{ChatStream, Ending, ResponsesStream, chat_answer, responses_answer};

use super::{answer, call};

/// Joins the pieces of a stream to an answer, as a client does.
fn put_together(pieces: &[Value]) -> Value {
    let (mut text, mut calls, mut reason) = (String::new(), Vec::new(), Value::Null);
    for piece in pieces {
        let choice = &piece["choices"][0];
        text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let mut call = call.clone();
            call.as_object_mut().expect("a call").remove("index");
            calls.push(call);
        }
        if !choice["finish_reason"].is_null() {
            reason = choice["finish_reason"].clone();
        }
    }
    json!({"text": text, "calls": calls, "reason": reason})
}

#[test]
fn the_pieces_are_the_whole() {
    let answer = answer("Let me look.", vec![call("1"), call("2")], Ending::ToolCalls);
    let whole = chat_answer(&answer);
    let stream = ChatStream::new(answer.head.clone(), true);
    let mut pieces = vec![stream.begin(), stream.text("Let me "), stream.text("look.")];
    pieces.extend(stream.end(&answer));
    let choice = &whole["choices"][0];
    assert_eq!(
        put_together(&pieces),
        json!({"text": choice["message"]["content"], "calls": choice["message"]["tool_calls"], "reason": choice["finish_reason"]})
    );
    assert_eq!(pieces.last().expect("pieces")["usage"], whole["usage"]);
    assert!(
        pieces
            .iter()
            .all(|piece| piece["id"] == whole["id"] && piece["created"] == whole["created"])
    );
    assert_eq!(pieces[0]["vctx"], whole["vctx"]);
}

#[test]
fn the_events_are_numbered_and_end_with_the_whole() {
    for (text, calls, kinds) in [
        ("Let me look.", vec![call("c")], 14),
        ("Let me look.", vec![], 10),
        ("", vec![call("c")], 7),
        ("", vec![], 8),
    ] {
        let answer = answer(text, calls, Ending::Stop);
        let mut stream = ResponsesStream::new(answer.head.clone());
        let mut events = stream.begin();
        for piece in text.split_inclusive(' ').filter(|_| !text.is_empty()).take(1) {
            events.extend(stream.text(piece));
            events.extend(stream.text(&text[piece.len()..]));
        }
        events.extend(stream.end(&answer));
        let numbers: Vec<u64> =
            events.iter().filter_map(|e| e["sequence_number"].as_u64()).collect();
        assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
        let told: String = events
            .iter()
            .filter_map(|e| {
                (e["type"] == "response.output_text.delta").then(|| e["delta"].as_str())?
            })
            .collect();
        assert_eq!(told, text);
        assert_eq!(events.last().expect("events")["response"], responses_answer(&answer));
        assert_eq!(events.last().expect("events")["type"], "response.completed");
        assert_eq!(events.len(), kinds, "{text:?}");
    }
}
