//! Checks the facts planted early in the shipped conversation: that all facts are stored, and that
//! a search finds every evicted fact.

use serde_json::{Value, json};

use crate::demo::play::{AGENT, SentMessage};
use vctx_cli::exit::Failure;
use vctx_cli::output::{field, number};
use vctx_client::{Client, Problem, Write};

/// Maximum number of evicted facts for which the demo searches.
pub(super) const ASKED: usize = 3;

/// Maximum number of pages of search results that are read for one fact.
const PAGES_MAX: usize = 4;

/// Planted facts: question, answer, and number of the turn (from 1) that states the answer.
const PLANTED: &str = include_str!("planted.json");

/// A planted fact, and whether it is stored and still in the window at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fact {
    pub question: String,
    pub answer: String,
    pub turn: u64,
    /// Whether the stored message of the fact's turn states the fact.
    pub is_stored: bool,
    /// Whether the rendered window states the fact, in the queue or the summary.
    pub is_in_window: bool,
}

/// The search result for a fact that had left the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recalled {
    pub question: String,
    pub answer: String,
    /// Sequence number of the message that states the fact.
    pub seq: u64,
    /// Rank of the fact among the search results, from 1; `None` if the search did not find the
    /// fact.
    pub rank: Option<usize>,
    /// Digest in the receipt of the search result.
    pub digest: String,
    /// Whether the search result has the text and the receipt of the sent message.
    pub is_proven: bool,
}

/// Searches for facts that left the window, with each fact's question as the query. The searches
/// write nothing.
pub(super) async fn recall(
    client: &Client,
    facts: &[Fact],
    sent: &[SentMessage],
) -> Result<Vec<Recalled>, Problem> {
    let mut found = Vec::new();
    for fact in facts.iter().filter(|fact| !fact.is_in_window).take(ASKED) {
        // A later check of the stored messages reports each fact that was never sent.
        if let Some(said) = sent.iter().find(|one| one.turn == fact.turn) {
            found.push(ask(client, fact, said).await?);
        }
    }
    Ok(found)
}

async fn ask(client: &Client, fact: &Fact, said: &SentMessage) -> Result<Recalled, Problem> {
    let mut recalled = Recalled {
        question: fact.question.clone(),
        answer: fact.answer.clone(),
        seq: said.seq,
        rank: None,
        digest: String::new(),
        is_proven: false,
    };
    let mut before = 0;
    let mut token = Value::Null;
    for _ in 0..PAGES_MAX {
        let query = json!({"query": fact.question, "rehydrate": false, "page_token": token});
        let answer = client.tool(AGENT, "search_recall", &query, &Write::any()).await?;
        let results = answer["result"]["results"].as_array().map_or(&[][..], Vec::as_slice);
        if let Some(at) = results.iter().position(|result| number(result, "/seq") == said.seq) {
            let result = &results[at];
            recalled.rank = Some(before + at + 1);
            recalled.digest = field(result, "/receipt/digest");
            recalled.is_proven = shows(result, &said.content)
                && recalled.digest == said.digest
                && field(result, "/receipt/chain") == said.chain
                && said.content.contains(&fact.answer);
            break;
        }
        before += results.len();
        token = answer["result"]["next_page_token"].clone();
        if token.is_null() {
            break;
        }
    }
    Ok(recalled)
}

/// Whether a search result shows a text in full. A result that is marked as truncated only needs to
/// show the beginning of the text.
fn shows(result: &Value, text: &str) -> bool {
    let shown = field(result, "/content");
    match result["truncated"] == Value::Bool(true) {
        true => text.starts_with(shown.trim_end_matches('…')),
        false => shown == text,
    }
}

/// Looks for each planted fact in the stored message of its turn and in the window.
pub(super) fn facts(
    sent: &[SentMessage],
    rows: &[Value],
    context: &Value,
) -> Result<Vec<Fact>, Failure> {
    let broken = |error| Failure::internal(format!("the planted facts cannot be read: {error}"));
    let planted: Vec<Value> = serde_json::from_str(PLANTED).map_err(broken)?;
    Ok(planted.iter().map(|fact| find(fact, sent, rows, context)).collect())
}

fn find(fact: &Value, sent: &[SentMessage], rows: &[Value], context: &Value) -> Fact {
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
        let one = |turn: u64, seq: u64| SentMessage {
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
