//! The facts planted early in the shipped conversation: which of them still stand in the window, and that all of them are stored.

use serde_json::Value;

use crate::cli::demo::play::Sent;
use crate::cli::exit::Failure;
use crate::cli::output::{field, number};

/// Questions, answers and the turns (from 1) that said them.
const PLANTED: &str = include_str!("planted.json");

/// One fact and where it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) question: String,
    pub(crate) answer: String,
    pub(crate) turn: u64,
    /// The stored message of that turn still says it.
    pub(crate) is_stored: bool,
    /// Something in the rendered window says it: the queue or the summary.
    pub(crate) is_in_window: bool,
}

/// Looks for each fact in what was sent and in the window.
pub(crate) fn facts(sent: &[Sent], rows: &[Value], context: &Value) -> Result<Vec<Fact>, Failure> {
    let broken = |error| Failure::internal(format!("the planted facts cannot be read: {error}"));
    let planted: Vec<Value> = serde_json::from_str(PLANTED).map_err(broken)?;
    Ok(planted.iter().map(|fact| find(fact, sent, rows, context)).collect())
}

fn find(fact: &Value, sent: &[Sent], rows: &[Value], context: &Value) -> Fact {
    let (turn, answer) = (number(fact, "/turn"), field(fact, "/answer"));
    let says = |message: &Value| field(message, "/content").contains(&answer);
    let seq = sent.iter().find(|one| one.turn == turn).map(|one| one.seq);
    let mut stored = rows.iter().filter(|row| row.get("seq").and_then(Value::as_u64) == seq);
    let window = context.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    Fact {
        is_stored: seq.is_some() && stored.any(says),
        is_in_window: window.iter().any(says),
        question: field(fact, "/question"),
        answer,
        turn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    #[test]
    fn a_fact_is_looked_for_in_its_own_row_and_anywhere_in_the_window() {
        let one = |turn: u64, seq: u64| Sent {
            turn,
            role: "user".into(),
            content: String::new(),
            parts: Map::new(),
            seq,
            digest: String::new(),
            chain: String::new(),
        };
        let fact = json!({"question": "q", "answer": "7395", "turn": 2});
        let sent = [one(1, 5), one(2, 6)];
        let rows =
            [json!({"seq": 5, "content": "none"}), json!({"seq": 6, "content": "it is 7395."})];
        let context = json!({"messages": [{"content": "the code 7395"}]});
        let found = find(&fact, &sent, &rows, &context);
        assert!(found.is_stored && found.is_in_window);
        let found = find(&fact, &sent, &rows[..1], &json!({"messages": []}));
        assert!(!found.is_stored && !found.is_in_window);
    }

    #[test]
    fn the_shipped_facts_can_be_read() {
        assert!(!facts(&[], &[], &Value::Null).unwrap().is_empty());
    }
}
