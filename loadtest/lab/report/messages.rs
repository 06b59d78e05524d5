//! What the page needs to know of the messages of the log.

use serde_json::Value;

use vctx_cli::output::{field, list, number};

/// A message of the log. Texts are kept only on request, and never those that are removed or in
/// quarantine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LogMessage {
    pub(super) seq: u64,
    /// Date of the message, as the search counts it: the client's date, else that of the append.
    pub(super) day: String,
    pub(super) at: String,
    pub(super) role: String,
    pub(super) kind: String,
    pub(super) tokens: u64,
    pub(super) in_queue: bool,
    /// Whether the text was removed, on request or by age.
    pub(super) is_removed: bool,
    /// Whether the text is in quarantine.
    pub(super) is_held: bool,
    /// Whether the message cites passages of the archive.
    pub(super) cites: bool,
    /// Id of the tool call that the message answers.
    pub(super) answers: Option<String>,
    /// Tool calls of the message: their ids, and their arguments on request.
    pub(super) calls: Vec<(String, String)>,
    /// The text, on request.
    pub(super) text: String,
}

impl LogMessage {
    /// Reads a message from a row of `/messages`.
    pub(super) fn of(row: &Value, texts: bool) -> LogMessage {
        let at = field(row, "/created_at");
        let said = field(row, "/meta/said_at");
        let is_held = row["quarantined"] == true;
        let is_removed = !row["expired_at"].is_null() || !row["forgotten_at"].is_null();
        let shows = texts && !is_held && !is_removed;
        let called = |call: &Value| {
            let arguments = if shows { field(call, "/function/arguments") } else { String::new() };
            (field(call, "/id"), arguments)
        };
        LogMessage {
            seq: number(row, "/seq"),
            day: day(&said).or_else(|| day(&at)).unwrap_or_default().to_owned(),
            role: field(row, "/role"),
            kind: field(row, "/kind"),
            tokens: number(row, "/token_estimate"),
            in_queue: row["in_queue"] == true,
            is_removed,
            is_held,
            cites: !list(row, "/meta/cites").is_empty(),
            answers: row["meta"]["tool_call_id"].as_str().map(str::to_owned),
            calls: list(row, "/meta/tool_calls").iter().map(called).collect(),
            text: if shows { field(row, "/content") } else { String::new() },
            at,
        }
    }

    /// Whether the message is kept in recall storage with its text. An evicted copy is not, since
    /// its original is.
    pub(super) fn is_recalled(&self) -> bool {
        !self.in_queue && !self.is_removed && self.kind != "copy"
    }
}

/// Returns the date at the beginning of a time, if there is one.
fn day(text: &str) -> Option<&str> {
    let day = text.get(..10)?;
    let is_date = day.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    is_date.then_some(day)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_read_on_request_and_never_from_quarantine() {
        let row = json!({"seq": 7, "role": "assistant", "kind": "turn", "content": "Seven.", "token_estimate": 9,
            "created_at": "2026-02-03T04:05:06.000Z", "in_queue": true,
            "meta": {"said_at": "2024-05-06 in Utrecht", "cites": [{"id": "x"}],
                "tool_calls": [{"id": "c1", "function": {"name": "search_recall", "arguments": "{}"}}]}});
        let seen = LogMessage::of(&row, true);
        assert_eq!((seen.text.as_str(), seen.day.as_str()), ("Seven.", "2024-05-06"));
        assert_eq!(seen.calls, [("c1".to_owned(), "{}".to_owned())]);
        assert!(seen.cites && !seen.is_recalled());
        let plain = LogMessage::of(&row, false);
        assert_eq!((plain.text.as_str(), plain.calls[0].1.as_str()), ("", ""));
        for hidden in [json!({"quarantined": true}), json!({"forgotten_at": "2026"})] {
            let mut row = row.clone();
            row["in_queue"] = false.into();
            row.as_object_mut().unwrap().extend(hidden.as_object().unwrap().clone());
            let seen = LogMessage::of(&row, true);
            assert_eq!((seen.text.as_str(), seen.calls[0].1.as_str()), ("", ""));
        }
        assert_eq!(day("long ago"), None);
    }
}
