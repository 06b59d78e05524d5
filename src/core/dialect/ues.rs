//! The tools with which a context engineer reads a Unified Experience Storage (UES): one search
//! over everything that the memory holds, and a summary of a text.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::calendar;
use super::offer::{OfferedTool, worded};
use super::translate::{Translated, renamed, worded_error};
use crate::error::{Error, Result};
use crate::memory::pack::{head, quoted};
use crate::policy::Wording;
use crate::tools::{
    Access, Call, CondenseText, RetrieveMemories, Tool, compact_schema_of, decode_as, schema_of,
};

/// A tool of the UES dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    RetrieveFromUes,
    SummarizeText,
}

/// Arguments of `retrieve_from_ues`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RetrieveFromUes {
    /// The question, or words to look for.
    #[schemars(extend("x-model" = ""))]
    query: String,
    /// Results at most.
    #[serde(default = "usual_top")]
    #[schemars(range(min = 1, max = 20), extend("x-model" = ""))]
    top_k: u64,
    /// Only memories of this time (UTC): a day YYYY-MM-DD, a moment YYYY-MM-DDTHH:MM, or two of
    /// them with a slash between them, both included. One of the two may be left out.
    #[serde(default)]
    #[schemars(extend("x-model" = "YYYY-MM-DD, or from/to"))]
    time_filter: Option<String>,
}

fn usual_top() -> u64 {
    10
}

/// Arguments of `summarize_text`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SummarizeText {
    /// The text.
    #[schemars(extend("x-model" = ""))]
    text: String,
    /// Tokens of the summary at most.
    #[serde(default)]
    #[schemars(range(min = 16, max = 16384), extend("x-model" = ""))]
    max_tokens: Option<u64>,
    /// How to summarise: `extractive`, by sentences of the text; `abstractive`, in other words, if
    /// a model is configured. By default as the configuration allows.
    #[serde(default)]
    style: Option<Style>,
}

/// Ways to summarise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Style {
    /// By sentences of the text.
    Extractive,
    /// In other words.
    Abstractive,
}

impl Name {
    const ALL: [Self; 2] = [Self::RetrieveFromUes, Self::SummarizeText];

    fn text(self) -> &'static str {
        match self {
            Self::RetrieveFromUes => "retrieve_from_ues",
            Self::SummarizeText => "summarize_text",
        }
    }

    fn offered(self) -> OfferedTool {
        let (title, description) = match self {
            Self::RetrieveFromUes => {
                ("Retrieve memories", "Find messages and documents of the memory by a question.")
            }
            Self::SummarizeText => {
                ("Summarise a text", "Shorten a text to its most telling sentences, word by word.")
            }
        };
        let (input, compact, result) = match self {
            Self::RetrieveFromUes => (
                schema_of::<RetrieveFromUes>(),
                compact_schema_of::<RetrieveFromUes>(),
                &[("results", "array", "messages and passages of documents, best first")],
            ),
            Self::SummarizeText => (
                schema_of::<SummarizeText>(),
                compact_schema_of::<SummarizeText>(),
                &[("tokens", "integer", "tokens of the summary")],
            ),
        };
        OfferedTool {
            name: self.text(),
            title,
            description,
            input,
            compact,
            output: worded(result),
            reads_only: true,
            destructive: false,
            idempotent: true,
            access: Some(Access::Read),
            in_chat: true,
        }
    }
}

/// Returns this server's tools that the tools of the dialect do not replace.
pub(super) fn others() -> impl Iterator<Item = &'static Tool> {
    Tool::ALL.iter().filter(|tool| !matches!(tool, Tool::SearchRecall | Tool::SearchArchival))
}

/// Returns the tools of the dialect that are not this server's own tools.
pub(super) fn tools() -> Vec<OfferedTool> {
    Name::ALL.iter().map(|name| name.offered()).collect()
}

/// Translates a call to a tool of the dialect into a call to this server's tools; returns `None` if
/// the dialect has no tool of that name.
pub(super) fn understood(name: &str, arguments: Map<String, Value>) -> Option<Result<Translated>> {
    let name = Name::ALL.into_iter().find(|one| one.text() == name)?;
    let wording = UesWording { name };
    Some(
        call(name, arguments)
            .map_err(|error| worded_error(error, &wording))
            .map(|call| Translated { call, wording: Some(Arc::new(wording)), any_revision: false }),
    )
}

fn call(name: Name, arguments: Map<String, Value>) -> Result<Call> {
    match name {
        Name::RetrieveFromUes => {
            let given: RetrieveFromUes = decode_as(arguments)?;
            let span = given.time_filter.as_deref().map(span).transpose()?.unwrap_or_default();
            let retrieved = RetrieveMemories::of(&given.query, given.top_k, span);
            retrieved.map(Call::from).map_err(|error| renamed(error, &[("limit", "top_k")]))
        }
        Name::SummarizeText => {
            let given: SummarizeText = decode_as(arguments)?;
            let is_verbatim = given.style == Some(Style::Extractive);
            let needs_model = given.style == Some(Style::Abstractive);
            let (text, tokens_max) = (given.text, given.max_tokens);
            let condensed = CondenseText { text, tokens_max, is_verbatim, needs_model };
            let condensed = condensed.checked().map(Call::from);
            condensed.map_err(|error| renamed(error, &[("tokens_max", "max_tokens")]))
        }
    }
}

/// Reads a time, or the first and the last time with a slash between them. Returns the start and
/// the exclusive end.
fn span(text: &str) -> Result<(Option<String>, Option<String>)> {
    const FIELD: &str = "time_filter";
    let (first, last) = text.split_once('/').unwrap_or((text, text));
    let is_given = |text: &&str| !text.trim().is_empty();
    let start = Some(first).filter(is_given).map(|at| calendar::start(FIELD, at.trim()));
    let end = Some(last).filter(is_given).map(|at| calendar::end(FIELD, at.trim()));
    let span = (start.transpose()?, end.transpose()?);
    match &span {
        (None, None) => {
            Err(Error::argument(FIELD, "is empty: leave it out, or use YYYY-MM-DD/YYYY-MM-DD"))
        }
        (Some(start), Some(end)) if start >= end => {
            Err(Error::argument(FIELD, "ends before it begins: give the earlier time first"))
        }
        _ => Ok(span),
    }
}

/// The reply texts for a call to a tool of the dialect.
#[derive(Clone, Copy, Debug)]
struct UesWording {
    name: Name,
}

impl Wording for UesWording {
    fn name(&self) -> &'static str {
        self.name.text()
    }

    fn beats(&self) -> bool {
        false
    }

    fn answer_text(&self, result: &Map<String, Value>) -> String {
        match self.name {
            Name::SummarizeText => {
                result.get("text").and_then(Value::as_str).unwrap_or_default().to_owned()
            }
            Name::RetrieveFromUes => {
                let results = result.get("results").and_then(Value::as_array);
                let lines: Vec<String> = results.into_iter().flatten().map(line).collect();
                if lines.is_empty() { "Nothing found.".to_owned() } else { lines.join("\n") }
            }
        }
    }

    fn refused(&self, error: &Error) -> String {
        format!("Error: {}", error.message)
    }
}

/// Returns the line of a result: its name, its time, its speaker and its text.
fn line(result: &Value) -> String {
    let of = |name: &str| result[name].as_str();
    let name = match result["seq"].as_u64() {
        Some(seq) => format!("#{seq}"),
        None => of("doc_id").unwrap_or_default().to_owned(),
    };
    let text = quoted(of("text").unwrap_or_default());
    format!("{}{text}", head(&name, of("time"), of("speaker")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_filter_is_a_time_or_two_with_both_included() {
        let day = |day: &str| Some(format!("{day}T00:00:00.000Z"));
        for (text, start, end) in [
            ("2026-11-03", day("2026-11-03"), day("2026-11-04")),
            ("2026-11-03/2026-11-05", day("2026-11-03"), day("2026-11-06")),
            ("2026-11-03/", day("2026-11-03"), None),
            ("/ 2026-11-03", None, day("2026-11-04")),
        ] {
            assert_eq!(span(text).unwrap(), (start, end), "{text}");
        }
        for text in ["", "/", "May", "2026-11-03/yesterday", "2026-11-03/2026-11-02"] {
            assert_eq!(span(text).unwrap_err().fields["field"], "time_filter", "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_told_by_the_names_of_the_dialect() {
        for (name, arguments, field) in [
            ("retrieve_from_ues", r#"{"top_k": 3}"#, "query"),
            ("retrieve_from_ues", r#"{"query": "?"}"#, "query"),
            ("retrieve_from_ues", r#"{"query": "boat", "top_k": 0}"#, "top_k"),
            ("retrieve_from_ues", r#"{"query": "boat", "time_filter": "May"}"#, "time_filter"),
            ("retrieve_from_ues", r#"{"query": "boat", "k": 3}"#, "k"),
            ("summarize_text", r#"{"text": " "}"#, "text"),
            ("summarize_text", r#"{"text": "a", "max_tokens": 1}"#, "max_tokens"),
            ("summarize_text", r#"{"text": "a", "style": "short"}"#, "style"),
        ] {
            let arguments = serde_json::from_str(arguments).unwrap();
            let refused = understood(name, arguments).unwrap().unwrap_err();
            assert_eq!(refused.fields["field"], field, "{name}: {refused:?}");
            let text = refused.fields["text"].as_str().unwrap();
            assert!(text.starts_with("Error: "), "{text}");
        }
        for missing in ["web_search", "graph_query_ues"] {
            assert!(understood(missing, Map::new()).is_none());
        }
    }
}
