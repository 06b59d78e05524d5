//! Faulty models: each model misbehaves in one way.

use serde_json::json;

use super::answer::{Call, Manners, ModelAnswer};
use super::request::ModelRequest;

/// Answers in turn with invalid bodies, invalid tool calls and an empty answer.
pub(super) fn rubbish(request: &ModelRequest) -> ModelAnswer {
    match request.before % 6 {
        0 => ModelAnswer::instead(200, "<html>gateway</html>"),
        1 => ModelAnswer::instead(200, "{\"choices\": []}"),
        2 => ModelAnswer {
            calls: vec![raw("search_recall", "{\"query\": \"x\"")],
            ..ModelAnswer::default()
        },
        3 => ModelAnswer::call("fly_to_the_moon", &json!({"speed": "high"})),
        4 => ModelAnswer { calls: vec![raw("", "[1, 2")], ..ModelAnswer::default() },
        _ => ModelAnswer::default(),
    }
}

/// Repeats one tool call, with a heartbeat request each time.
pub(super) fn circle(request: &ModelRequest) -> ModelAnswer {
    if request.has("search_recall") {
        return ModelAnswer::call(
            "search_recall",
            &json!({"query": "the same", "heartbeat": true}),
        );
    }
    if request.has("conversation_search") {
        let arguments = json!({"query": "the same", "request_heartbeat": true});
        return ModelAnswer::call("conversation_search", &arguments);
    }
    ModelAnswer::call("record_heartbeat", &json!({"state": "continue"}))
}

/// Makes different tool calls without end, each with a heartbeat request.
pub(super) fn endless(request: &ModelRequest) -> ModelAnswer {
    let query = format!("question {}", request.before);
    if request.has("conversation_search") {
        let arguments = json!({"query": query, "request_heartbeat": true});
        return ModelAnswer::call("conversation_search", &arguments);
    }
    ModelAnswer::call("search_recall", &json!({"query": query, "heartbeat": true}))
}

/// Sends much longer texts, more arguments and more tool calls than requested.
pub(super) fn giant(request: &ModelRequest) -> ModelAnswer {
    let text = "All work and no play makes a long answer. ";
    match request.before % 3 {
        0 => {
            let manners = Manners { times: 2_000, ..Manners::default() };
            ModelAnswer { text: text.into(), manners, ..ModelAnswer::default() }
        }
        1 => ModelAnswer::call(
            "store_core",
            &json!({"block_id": "big", "content": text.repeat(10_000), "heartbeat": true}),
        ),
        _ => ModelAnswer {
            calls: vec![Call::new("record_heartbeat", &json!({"state": "yield"})); 100],
            ..ModelAnswer::default()
        },
    }
}

/// Answers the first two requests with tool calls that have no id, equal ids, or an id that is too
/// long. Answers later requests with text.
pub(super) fn wrong_ids(request: &ModelRequest) -> ModelAnswer {
    let call = |query: &str, id: &str| Call {
        id: Some(id.to_owned()),
        ..Call::new("search_recall", &json!({"query": query, "heartbeat": true}))
    };
    if request.before >= 2 {
        return ModelAnswer::text("That was all.");
    }
    let calls = vec![
        call("one", ""),
        call("two", "same"),
        call("three", "same"),
        call("four", &"x".repeat(300)),
        call("five", ""),
    ];
    ModelAnswer { calls, ..ModelAnswer::default() }
}

/// Streams a very long text in short pieces, with a pause before each piece.
pub(super) fn slow() -> ModelAnswer {
    let manners = Manners { pause_ms: 100, times: 10_000, ..Manners::default() };
    ModelAnswer { text: "well, ".into(), manners, ..ModelAnswer::default() }
}

/// Starts to stream an answer and closes the connection before the end of the answer.
pub(super) fn cut() -> ModelAnswer {
    let manners = Manners { cut_after: Some(3), ..Manners::default() };
    ModelAnswer {
        text: "This answer ends in the middle of its".into(),
        manners,
        ..ModelAnswer::default()
    }
}

/// Closes the connection before sending any data.
pub(super) fn hang_up() -> ModelAnswer {
    let manners = Manners { cut_after: Some(0), ..Manners::default() };
    ModelAnswer { text: "This answer is cut off.".into(), manners, ..ModelAnswer::default() }
}

/// Answers every request with the error that the model's context is too small.
pub(super) fn overflow() -> ModelAnswer {
    ModelAnswer::instead(400, overflow_text(0))
}

/// Returns the body of OpenAI's error for a request that exceeds the context length.
pub(super) fn overflow_text(window: u64) -> String {
    let message = format!(
        "This model's maximum context length is {window} tokens. Please reduce the length of the messages."
    );
    json!({"error": {"message": message, "type": "invalid_request_error", "param": "messages",
        "code": "context_length_exceeded"}})
    .to_string()
}

/// Answers two of every three requests with the status "too many requests".
pub(super) fn rate_limit(request: &ModelRequest) -> ModelAnswer {
    if request.before % 3 == 2 {
        return ModelAnswer::text("At last.");
    }
    too_many(0)
}

/// Answers every request with the status "too many requests" and a long `Retry-After`.
pub(super) fn refuses() -> ModelAnswer {
    too_many(3_600)
}

fn too_many(retry_after_s: u64) -> ModelAnswer {
    let text = json!({"error": {"message": "Rate limit reached.", "type": "requests", "code": "rate_limit_exceeded"}});
    let mut answer = ModelAnswer::instead(429, text.to_string());
    answer.manners.retry_after_s = Some(retry_after_s);
    answer
}

/// Answers every request with a server error.
pub(super) fn down() -> ModelAnswer {
    ModelAnswer::instead(500, json!({"error": {"message": "The server had an error."}}).to_string())
}

fn raw(name: &str, arguments: &str) -> Call {
    Call { id: None, name: name.to_owned(), arguments: arguments.to_owned() }
}
