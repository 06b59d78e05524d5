//! `vctx trace`: shows the items linked to an item of a memory, as a tree.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::Value;

use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::Whose;

const EXAMPLES: &str = "\
FROM is the id of a message, passage or summary, the sequence number of a message, or `agent`. Relations: around, cites, cited_by,
derived_from, derived, links, summary, logged, copies.

Examples:
  vctx trace 17 --agent ada                            the neighbours of message 17, and the items linked to it
  vctx trace 17 --agent ada --follow cites,links --depth 2
  vctx trace agent --agent ada --follow logged         the messages that left the window last
  vctx trace archival_docs/… --agent ada --follow cited_by --json";

/// Show the items linked to an item of the memory
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_missing_positional = true)]
pub struct Trace {
    #[command(flatten)]
    whose: Whose,

    /// Item to start from
    #[arg(value_name = "FROM")]
    from: String,

    /// Relations to follow, separated by commas [default: all]
    #[arg(long, value_name = "NAMES")]
    follow: Option<String>,

    /// Number of steps to follow from the start, 1 to 3
    #[arg(long, value_name = "N")]
    depth: Option<u64>,

    /// Number of neighbours to show on each side of a message or passage, 1 to 8
    #[arg(long, value_name = "N")]
    around: Option<u64>,

    /// Maximum number of items in addition to the first, 1 to 40
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx trace`.
pub async fn run(trace: Trace) -> Result<(), Failure> {
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let asked: Vec<(&str, String)> = [
        ("follow", trace.follow.clone()),
        ("depth", number(trace.depth)),
        ("around", number(trace.around)),
        ("limit", number(trace.limit)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect();
    let answer = trace.target.client().trace(&trace.whose.agent()?, &trace.from, &asked).await?;
    output::told(trace.target.json, &answer, tree)
}

/// Draws the items of a trace as a tree, with each item below the item from which the trace reached
/// it.
pub fn tree(answer: &Value) -> String {
    let entries = output::list(answer, "/entries");
    let mut below: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for entry in entries {
        if let Some(of) = entry["of"].as_u64() {
            below.entry(of).or_default().push(entry);
        }
    }
    let mut lines = Vec::new();
    if let Some(first) = entries.first() {
        lines.push(described(first));
        branches(&below, 0, "", &mut lines);
    }
    if answer["more"] == true {
        lines.push("… and more: raise --limit, or follow fewer relations".into());
    }
    lines.join("\n")
}

/// Draws the items below an item. The recursion has at most three levels, because a trace has at
/// most three steps.
fn branches(below: &BTreeMap<u64, Vec<&Value>>, of: u64, indent: &str, lines: &mut Vec<String>) {
    let entries = below.get(&of).map(Vec::as_slice).unwrap_or_default();
    for (at, entry) in entries.iter().enumerate() {
        let last = at + 1 == entries.len();
        let (branch, rest) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let by = output::field(entry, "/by").replace('_', " ");
        lines.push(format!("{indent}{branch}{by}: {}", described(entry)));
        let next = entry["n"].as_u64().filter(|n| *n > of);
        if let Some(next) = next {
            branches(below, next, &format!("{indent}{rest}"), lines);
        }
    }
}

/// Formats an item of a trace on one line.
fn described(entry: &Value) -> String {
    let field = |name: &str| output::field(entry, &format!("/{name}"));
    let text = output::cell(&field("text"), output::CELL_CHARS_MAX);
    let text = if text.is_empty() { String::new() } else { format!("  “{text}”") };
    let what = match entry["kind"].as_str() {
        Some("message") => {
            format!("message {} {} {}", field("seq"), field("role"), field("created_at"))
        }
        Some("chunk") => format!("{} of {} ({})", field("chunk_id"), field("doc_id"), field("id")),
        Some("summary") => format!("summary {} ({})", field("summary_rev"), field("id")),
        _ => {
            format!(
                "agent {}, queue from {} to {}",
                field("id"),
                field("head_seq"),
                field("next_seq")
            )
        }
    };
    let changed = match (&entry["changed"], &entry["expired_at"]) {
        (Value::Bool(true), _) => " — another text since",
        (_, Value::String(_)) => " — its text expired",
        _ => "",
    };
    format!("{}{changed}{text}", output::cell(&what, WHAT_CHARS_MAX))
}

/// Maximum number of characters of an item's description, which precedes the item's text.
const WHAT_CHARS_MAX: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_entry_hangs_under_the_one_that_led_to_it() {
        let answer = json!({"more": true, "entries": [
            {"n": 0, "kind": "message", "seq": 17, "role": "assistant", "created_at": "t", "text": "It turns."},
            {"n": 1, "of": 0, "by": "cites", "kind": "chunk", "chunk_id": "0001", "doc_id": "tides.md", "id": "archival_docs/c",
                "text": "High tide. ", "changed": true},
            {"n": 2, "of": 0, "by": "before", "kind": "message", "seq": 16, "role": "user", "created_at": "t", "text": "When?"},
            {"n": 3, "of": 1, "by": "cited_by", "kind": "message", "seq": 3, "role": "assistant", "created_at": "t", "text": "a\u{7}b"},
        ]});
        let wanted = "message 17 assistant t  “It turns.”
├─ cites: 0001 of tides.md (archival_docs/c) — another text since  “High tide. ”
│  └─ cited by: message 3 assistant t  “a b”
└─ before: message 16 user t  “When?”
… and more: raise --limit, or follow fewer relations";
        assert_eq!(tree(&answer), wanted);
        assert_eq!(tree(&json!({"entries": [], "more": false})), "");
    }
}
