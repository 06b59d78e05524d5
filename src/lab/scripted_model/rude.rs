//! Rude models: each is wrong in one way, for ever or often enough.

use serde_json::json;

use super::said::{Call, Manners, Said};
use super::seen::Seen;

/// What comes back where an answer should.
pub(super) fn rubbish(seen: &Seen) -> Said {
    match seen.before % 6 {
        0 => Said::instead(200, "<html>gateway</html>"),
        1 => Said::instead(200, "{\"choices\": []}"),
        2 => Said { calls: vec![raw("search_recall", "{\"query\": \"x\"")], ..Said::default() },
        3 => Said::call("fly_to_the_moon", &json!({"speed": "high"})),
        4 => Said { calls: vec![raw("", "[1, 2")], ..Said::default() },
        _ => Said::default(),
    }
}

/// The same call again and again, with a beat each time.
pub(super) fn circle(seen: &Seen) -> Said {
    if seen.has("search_recall") {
        return Said::call("search_recall", &json!({"query": "the same", "heartbeat": true}));
    }
    if seen.has("conversation_search") {
        let arguments = json!({"query": "the same", "request_heartbeat": true});
        return Said::call("conversation_search", &arguments);
    }
    Said::call("record_heartbeat", &json!({"state": "continue"}))
}

/// Another call each time, for ever, with a beat.
pub(super) fn endless(seen: &Seen) -> Said {
    let query = format!("question {}", seen.before);
    if seen.has("conversation_search") {
        let arguments = json!({"query": query, "request_heartbeat": true});
        return Said::call("conversation_search", &arguments);
    }
    Said::call("search_recall", &json!({"query": query, "heartbeat": true}))
}

/// Far more than was asked for: texts, arguments, calls.
pub(super) fn giant(seen: &Seen) -> Said {
    let text = "All work and no play makes a long answer. ";
    match seen.before % 3 {
        0 => {
            let manners = Manners { times: 2_000, ..Manners::default() };
            Said { text: text.into(), manners, ..Said::default() }
        }
        1 => Said::call(
            "store_core",
            &json!({"block_id": "big", "content": text.repeat(10_000), "heartbeat": true}),
        ),
        _ => Said {
            calls: vec![Call::new("record_heartbeat", &json!({"state": "yield"})); 100],
            ..Said::default()
        },
    }
}

/// Calls without an id, with the same id, with one that is far too long; then it yields.
pub(super) fn wrong_ids(seen: &Seen) -> Said {
    let call = |query: &str, id: &str| Call {
        id: Some(id.to_owned()),
        ..Call::new("search_recall", &json!({"query": query, "heartbeat": true}))
    };
    if seen.before >= 2 {
        return Said::text("That was all.");
    }
    let calls = vec![
        call("one", ""),
        call("two", "same"),
        call("three", "same"),
        call("four", &"x".repeat(300)),
        call("five", ""),
    ];
    Said { calls, ..Said::default() }
}

/// A word now and then, without an end.
pub(super) fn slow() -> Said {
    let manners = Manners { pause_ms: 100, times: 10_000, ..Manners::default() };
    Said { text: "well, ".into(), manners, ..Said::default() }
}

/// Half an answer.
pub(super) fn cut() -> Said {
    let manners = Manners { cut_after: Some(3), ..Manners::default() };
    Said { text: "This answer ends in the middle of its".into(), manners, ..Said::default() }
}

/// A connection that ends before anything is said.
pub(super) fn hang_up() -> Said {
    let manners = Manners { cut_after: Some(0), ..Manners::default() };
    Said { text: "Nobody hears this.".into(), manners, ..Said::default() }
}

/// A context that is always too small.
pub(super) fn overflow() -> Said {
    Said::instead(400, overflow_text(0))
}

/// As OpenAI says it.
pub(super) fn overflow_text(window: u64) -> String {
    let message = format!(
        "This model's maximum context length is {window} tokens. Please reduce the length of the messages."
    );
    json!({"error": {"message": message, "type": "invalid_request_error", "param": "messages",
        "code": "context_length_exceeded"}})
    .to_string()
}

/// Too many requests, twice out of three times.
pub(super) fn rate_limit(seen: &Seen) -> Said {
    if seen.before % 3 == 2 {
        return Said::text("At last.");
    }
    too_many(0)
}

/// Too many requests for a long time.
pub(super) fn refuses() -> Said {
    too_many(3_600)
}

fn too_many(retry_after_s: u64) -> Said {
    let text = json!({"error": {"message": "Rate limit reached.", "type": "requests", "code": "rate_limit_exceeded"}});
    let mut said = Said::instead(429, text.to_string());
    said.manners.retry_after_s = Some(retry_after_s);
    said
}

/// A server that only fails.
pub(super) fn down() -> Said {
    Said::instead(500, json!({"error": {"message": "The server had an error."}}).to_string())
}

fn raw(name: &str, arguments: &str) -> Call {
    Call { id: None, name: name.to_owned(), arguments: arguments.to_owned() }
}
