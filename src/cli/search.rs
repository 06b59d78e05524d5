//! `vctx search`: finds messages and passages of documents, and changes nothing.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::args;
use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::Whose;
use vctx_client::{Client, Write};
use vctx_core::tools::Tool;

const EXAMPLES: &str = "\
Examples:
  vctx search ada \"Which foods am I allergic to?\"     messages and documents of an agent
  vctx search ada '\"pier 4\"'                          a quoted phrase, word by word
  vctx search ada ferry --in documents --limit 3
  VCTX_AGENT=ada vctx search ferry --json

A search by meaning needs a model: vctx embedder install minilm";

/// Number of characters of a result in the table.
const TEXT_CHARS: usize = 100;

/// Find messages and passages of documents by words and by meaning
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_missing_positional = true)]
pub struct Search {
    #[command(flatten)]
    whose: Whose,

    /// Words or a question, @FILE, or - for stdin
    query: String,

    /// Where to search
    #[arg(long = "in", value_name = "PLACE", default_value = "all")]
    place: SearchedPlace,

    /// Maximum number of results of each place, 1 to 20
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=20))]
    limit: u64,

    #[command(flatten)]
    pub target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SearchedPlace {
    /// Messages and documents
    All,
    /// Messages of the conversation, in the window or not
    Messages,
    /// Documents of the archive
    Documents,
}

/// Runs `vctx search`.
pub async fn run(asked: Search) -> Result<(), Failure> {
    let (client, agent) = (asked.target.client(), asked.whose.agent()?);
    let query = args::text(&asked.query)?.trim().to_owned();
    let told = found(&client, &agent, &query, asked.place, asked.limit).await?;
    output::told(asked.target.json, &told, table)
}

/// Searches messages and documents, and returns their results in two lists.
async fn found(
    client: &Client,
    agent: &str,
    query: &str,
    place: SearchedPlace,
    limit: u64,
) -> Result<Value, Failure> {
    let (mut messages, mut passages) = (Value::Null, Value::Null);
    if place != SearchedPlace::Documents {
        let asked = json!({"query": query, "limit": limit, "rehydrate": false});
        let answer =
            client.tool(agent, Tool::SearchRecall.spec().name, &asked, &Write::new(None)).await?;
        messages = answer["result"]["results"].clone();
    }
    if place != SearchedPlace::Messages {
        let asked = json!({"query_text": query, "limit": limit});
        let answer =
            client.tool(agent, Tool::SearchArchival.spec().name, &asked, &Write::new(None)).await?;
        passages = answer["result"]["results"].clone();
    }
    Ok(json!({"messages": messages, "passages": passages}))
}

/// Searches messages and documents, and formats the results as tables.
pub async fn listed(client: &Client, agent: &str, query: &str) -> Result<String, Failure> {
    found(client, agent, query, SearchedPlace::All, 5).await.map(|told| table(&told))
}

fn table(told: &Value) -> String {
    let text = |row: &Value, name: &str| output::cell(&output::field(row, name), TEXT_CHARS);
    let messages: Vec<Vec<String>> = output::list(told, "/messages")
        .iter()
        .map(|row| {
            let time = row["said_at"].as_str().or(row["created_at"].as_str()).unwrap_or_default();
            let day = time.get(..10).unwrap_or(time).to_owned();
            vec![
                output::field(row, "/seq"),
                day,
                output::field(row, "/role"),
                text(row, "/content"),
            ]
        })
        .collect();
    let passages: Vec<Vec<String>> = output::list(told, "/passages")
        .iter()
        .map(|row| vec![text(row, "/doc_id"), text(row, "/chunk_id"), text(row, "/text")])
        .collect();
    let mut parts = Vec::new();
    if !messages.is_empty() {
        parts.push(output::table(&["seq", "day", "who", "message"], &[0], &messages));
    }
    if !passages.is_empty() {
        parts.push(output::table(&["document", "chunk", "passage"], &[], &passages));
    }
    match parts.is_empty() {
        true => "nothing found".into(),
        false => parts.join("\n\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_passages_are_two_tables() {
        let told = json!({"messages": [{"seq": 7, "role": "user", "content": "Pier 4.", "created_at": "2026-05-01T08:00:00.000Z"}],
            "passages": [{"doc_id": "tides.md", "chunk_id": "0001", "text": "High tide."}]});
        let text = table(&told);
        for part in ["  7  2026-05-01  user  Pier 4.", "tides.md  0001   High tide."] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(table(&json!({"messages": [], "passages": null})), "nothing found");
    }
}
