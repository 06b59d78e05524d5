//! The searches on record: what each found, and whether the model used it.

use std::collections::HashMap;

use serde_json::Value;

use super::messages::LogMessage;
use vctx_cli::output::{field, number};

/// Number of the newest searches without a result that a page lists.
pub(super) const MISSED_MAX: usize = 100;
/// Maximum length of a query on a page, in characters.
const QUERY_CHARS_MAX: usize = 400;

/// A store that is searched. Its name is that of the picture's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Searched {
    Recall,
    Archive,
}

impl Searched {
    pub(super) const ALL: [Self; 2] = [Self::Recall, Self::Archive];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Recall => "recall storage",
            Self::Archive => "archive",
        }
    }

    /// Returns the name of the audit field with the number of results.
    fn counted_as(self) -> &'static str {
        match self {
            Self::Recall => "found",
            Self::Archive => "passages",
        }
    }
}

/// A search on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Search {
    pub(super) of: Searched,
    pub(super) at: String,
    pub(super) found: u64,
    /// Whether an answer cites a passage before the next question; `None` if citations are not on
    /// record.
    pub(super) cited: Option<bool>,
    /// The query, on request and if the call is on record.
    pub(super) query: String,
}

/// The counts of the searches of one store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) missed: u64,
    /// Searches with a result that no answer cites, where citations are on record.
    pub(super) unused: u64,
    pub(super) other: u64,
}

impl Counts {
    pub(super) fn of(searches: &[Search], of: Searched) -> Counts {
        let mut counts = Counts::default();
        for search in searches.iter().filter(|search| search.of == of) {
            match (search.found, search.cited) {
                (0, _) => counts.missed += 1,
                (_, Some(false)) => counts.unused += 1,
                _ => counts.other += 1,
            }
        }
        counts
    }

    pub(super) fn all(self) -> u64 {
        self.missed + self.unused + self.other
    }
}

/// Finds the searches among the events, oldest first. The messages say which query a search had,
/// since the result of a captured call is the last message that the call wrote.
pub(super) fn searches(events: &[Value], messages: &[LogMessage]) -> Vec<Search> {
    let by_seq: HashMap<u64, usize> =
        messages.iter().enumerate().map(|(at, message)| (message.seq, at)).collect();
    let are_cited = messages.iter().any(|message| message.cites);
    let mut found = Vec::new();
    for event in events.iter().filter(|event| event["type"] == "audit") {
        for of in Searched::ALL {
            let Some(count) = event["details"][of.counted_as()].as_u64() else { continue };
            let last = number(event, "/details/next_seq").saturating_sub(1);
            let result = by_seq.get(&last).copied().filter(|at| messages[*at].role == "tool");
            let cited = (of == Searched::Archive && are_cited)
                .then(|| result.map(|at| is_cited_after(&messages[at..])))
                .flatten();
            let query = result.and_then(|at| query_of(messages, at)).unwrap_or_default();
            found.push(Search { of, at: field(event, "/ts"), found: count, cited, query });
        }
    }
    found
}

/// Whether an answer cites a passage before the next question.
fn is_cited_after(messages: &[LogMessage]) -> bool {
    messages.iter().take_while(|message| message.role != "user").any(|message| message.cites)
}

/// Returns the query of the call that a result answers.
fn query_of(messages: &[LogMessage], at: usize) -> Option<String> {
    let id = messages[at].answers.as_deref()?;
    let calls = messages[..at].iter().rev().flat_map(|message| &message.calls);
    let (_, arguments) = calls.into_iter().find(|(call, _)| call == id)?;
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    let query = ["query", "query_text"].into_iter().find_map(|name| arguments[name].as_str())?;
    Some(query.chars().take(QUERY_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn searches_have_their_queries_and_say_whether_they_were_used() {
        let call = |seq: u64, query: &str| LogMessage {
            seq,
            role: "assistant".into(),
            calls: vec![("c".into(), query.into())],
            ..LogMessage::default()
        };
        let result = |seq: u64| LogMessage {
            seq,
            role: "tool".into(),
            answers: Some("c".into()),
            ..LogMessage::default()
        };
        let says = |seq: u64, role: &str, cites: bool| LogMessage {
            seq,
            role: role.into(),
            cites,
            ..LogMessage::default()
        };
        let messages = [
            call(1, r#"{"query_text": "tide"}"#),
            result(2),
            says(3, "assistant", true),
            says(4, "user", false),
            call(5, r#"{"query_text": "ferry"}"#),
            result(6),
            says(7, "assistant", false),
            says(8, "user", false),
            call(9, r#"{"query": "whale"}"#),
            result(10),
        ];
        let event = |next: u64, name: &str, count: u64| json!({"type": "audit", "ts": format!("t{next}"), "details": {"next_seq": next, name: count}});
        let events = [
            event(3, "passages", 2),
            event(7, "passages", 1),
            event(11, "found", 0),
            event(11, "evicted", 3),
            event(40, "found", 5),
        ];
        let found = searches(&events, &messages);
        let told: Vec<_> = found.iter().map(|s| (s.found, s.cited, s.query.as_str())).collect();
        assert_eq!(
            told,
            [(2, Some(true), "tide"), (1, Some(false), "ferry"), (0, None, "whale"), (5, None, "")]
        );
        let counts = Searched::ALL.map(|of| Counts::of(&found, of));
        assert_eq!(counts[0], Counts { missed: 1, unused: 0, other: 1 });
        assert_eq!(counts[1], Counts { missed: 0, unused: 1, other: 1 });
        // Without a citation on record, no search counts as unused.
        let plain: Vec<LogMessage> =
            messages.iter().map(|m| LogMessage { cites: false, ..m.clone() }).collect();
        assert_eq!(Counts::of(&searches(&events, &plain), Searched::Archive).unused, 0);
    }
}
