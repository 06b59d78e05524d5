//! `vctx why`: shows the history of a fact, or why a prompt had its contents.

use clap::Args;
use serde_json::Value;

use crate::args;
use crate::exit::Failure;
use crate::output;
use crate::target::Target;
use crate::whose::{Whose, from_environment};

const EXAMPLES: &str = "\
Examples:
  vctx why ada \"the berth costs 14 crowns\"   messages, evictions and prompts with the fact, and the call that finds it
  vctx why ada @fact.txt                     the words from a file, which `ps` does not show
  vctx why ada --turn 17                     what the prompt contained and left out, and why";

/// Show why the model knew or did not know a fact
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Why {
    #[command(flatten)]
    whose: Whose,

    /// Words of a fact, @FILE, or - for stdin
    #[arg(value_name = "TEXT", conflicts_with = "turn")]
    text: Option<String>,

    /// Number of a prompt
    #[arg(long, value_name = "N")]
    turn: Option<u64>,

    /// First prompt to search
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "turn")]
    from_turn: u64,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx why`.
pub async fn run(asked: Why) -> Result<(), Failure> {
    let client = asked.target.client();
    // With VCTX_AGENT, a single argument is the fact.
    let (agent, text) = match (asked.turn, asked.text, from_environment(), asked.whose.stated()) {
        (None, None, Some(agent), Some(text)) => (agent, Some(text.to_owned())),
        (_, text, ..) => (asked.whose.agent()?, text),
    };
    let query: Vec<(&str, String)> = match (asked.turn, text) {
        (Some(turn), _) => vec![("turn", turn.to_string())],
        (None, Some(text)) => {
            let text = args::text(&text)?.trim_end_matches('\n').to_owned();
            vec![("text", text), ("from_turn", asked.from_turn.to_string())]
        }
        (None, None) => {
            return Err(Failure::usage("give the words of a fact, or --turn")
                .next("vctx why AGENT \"a fact\""));
        }
    };
    let answer = client.why(&agent, &query).await?;
    let text = if asked.turn.is_some() { prompt } else { fact };
    output::told(asked.target.json, &answer, text)
}

/// Formats the history of a fact as tables.
fn fact(answer: &Value) -> String {
    let mut parts = vec![format!("content words: {}", output::texts(&answer["words"]))];
    let said: Vec<Vec<String>> = output::list(answer, "/said").iter().map(message_lines).collect();
    parts.push(section("said by", &["seq", "when", "who", "how", "now", "text"], &[0], &said));
    if answer["nearest"].is_array() {
        let nearest: Vec<Vec<String>> = output::list(answer, "/nearest").iter().map(near).collect();
        parts.push(section(
            "no message holds all of these words; nearest",
            &["seq", "when", "who", "text"],
            &[0],
            &nearest,
        ));
    }
    let spans: Vec<Vec<String>> = output::list(answer, "/texts").iter().map(span).collect();
    parts.push(section(
        "lived in",
        &["where", "from", "until", "since", "over", "all", "words"],
        &[1, 2],
        &spans,
    ));
    let held: Vec<Vec<String>> =
        output::list(answer, "/prompts/held").iter().map(range_lines).collect();
    parts.push(section("held by prompts", &["turns", "as"], &[], &held));
    if let Some(next) = answer["prompts"]["next_turn"].as_u64() {
        parts.push(format!("more prompts: --from-turn {next}"));
    }
    if answer["texts_whole"] == false {
        parts.push("the core has more stored versions than were read".to_owned());
    }
    parts.push(back(&answer["back"]));
    parts.join("\n\n")
}

fn section(title: &str, heads: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    match rows {
        [] => format!("{title}: nothing"),
        rows => format!("{title}:\n{}", output::table(heads, right, rows)),
    }
}

fn message_lines(row: &Value) -> Vec<String> {
    let field = |name: &str| output::field(row, name);
    let now = match (row["in_window"] == true, row["left"].is_null(), row["expired_at"].as_str()) {
        (_, _, Some(at)) => format!("expired {at}"),
        (true, _, _) => "in the window".to_owned(),
        (false, true, _) => "outside".to_owned(),
        (false, false, _) if row["left"]["directly"] == true => "recall storage".to_owned(),
        (false, false, _) => format!(
            "left {} in batch {}, summary {}",
            field("/left/at"),
            output::cell(&field("/left/batch"), BATCH_CHARS_MAX),
            field("/left/summary_rev")
        ),
    };
    let who =
        if row["kind"] == "copy" { format!("{} (copy)", field("/role")) } else { field("/role") };
    let text = output::cell(&field("/text"), output::CELL_CHARS_MAX);
    vec![field("/seq"), field("/created_at"), who, field("/says").replace('_', " "), now, text]
}

fn near(row: &Value) -> Vec<String> {
    let field = |name: &str| output::field(row, name);
    let text = output::cell(&field("/text"), output::CELL_CHARS_MAX);
    vec![field("/seq"), field("/created_at"), field("/role"), text]
}

/// Maximum number of characters of an eviction's id in a table.
const BATCH_CHARS_MAX: usize = 13;

fn span(row: &Value) -> Vec<String> {
    let field = |name: &str| output::field(row, name);
    let place = |version: &str, revision: &str| match field(revision) {
        empty if empty.is_empty() => format!("v{}", field(version)),
        revision => format!("v{} (summary {revision})", field(version)),
    };
    let until = if row["until_version"].is_null() {
        "now".to_owned()
    } else {
        place("/until_version", "/until_revision")
    };
    let whole = if row["says"].is_null() { "some words" } else { "all of it" };
    vec![
        output::cell(&field("/of"), NAME_CHARS_MAX),
        place("/from_version", "/from_revision"),
        until,
        field("/since"),
        field("/until"),
        whole.to_owned(),
        output::cell(&output::texts(&row["words"]), output::CELL_CHARS_MAX),
    ]
}

/// Maximum number of characters of a name in a table.
const NAME_CHARS_MAX: usize = 40;

fn range_lines(row: &Value) -> Vec<String> {
    let (first, last) = (output::number(row, "/turns/0"), output::number(row, "/turns/1"));
    let turns = if first == last { first.to_string() } else { format!("{first}–{last}") };
    vec![turns, output::cell(&output::texts(&row["as"]), output::CELL_CHARS_MAX)]
}

fn back(row: &Value) -> String {
    if row["in_window"] == true {
        return match row["block_id"].as_str() {
            Some(block) => {
                format!("the fact is in the window: block {}", output::cell(block, NAME_CHARS_MAX))
            }
            None => format!("the fact is in the window: message {}", row["seq"]),
        };
    }
    let why = output::field(row, "/why");
    match row["command"].as_str() {
        None => format!("no call brings the fact back: {why}"),
        Some(command) if why.is_empty() => {
            format!(
                "brings the fact back (result {} of its list):\n  {}",
                row["rank"],
                output::printable(command)
            )
        }
        Some(command) => format!("{why}:\n  {}", output::printable(command)),
    }
}

/// Formats the reasons for a prompt's contents as tables.
fn prompt(answer: &Value) -> String {
    let mut rows = Vec::new();
    for section in output::list(answer, "/sections") {
        let name = output::field(section, "/section");
        rows.push(vec![name, String::new(), output::field(section, "/tokens"), String::new()]);
        for item in output::list(section, "/items") {
            let who = match item["seq"].as_u64() {
                Some(seq) => format!("  message {seq} {}", output::field(item, "/role")),
                None => format!("  {}", output::cell(&output::field(item, "/id"), NAME_CHARS_MAX)),
            };
            rows.push(vec![
                who,
                output::field(item, "/tokens"),
                String::new(),
                output::field(item, "/why"),
            ]);
        }
    }
    let mut parts = vec![format!(
        "turn {} · model {} · {} tokens by our count, {} by the provider's · flush at {}, window {}",
        answer["turn"],
        output::field(answer, "/model"),
        answer["token_estimate"],
        or_none(&output::field(answer, "/usage/prompt")),
        output::field(answer, "/policy/flush"),
        output::field(answer, "/policy/max"),
    )];
    parts.push(output::table(&["in the prompt", "tokens", "together", "why"], &[1, 2], &rows));
    let shown: Vec<Vec<String>> =
        output::list(answer, "/context/items").iter().map(context_line).collect();
    if !shown.is_empty() {
        let heads = ["part", "grade", "tokens", "text"];
        parts.push(section("the context that was built for the question", &heads, &[1, 2], &shown));
    }
    let evicted = &answer["outside"]["evicted"];
    if !evicted.is_null() {
        parts.push(format!(
            "not in the window: everything up to message {}, evicted last at {} (from {} tokens down to {}), summary {}: {}",
            evicted["through_seq"],
            output::field(evicted, "/at"),
            or_none(&output::field(evicted, "/occupancy_before")),
            or_none(&output::field(evicted, "/target")),
            output::field(evicted, "/summary_rev"),
            output::field(evicted, "/why"),
        ));
    }
    let entries: Vec<Vec<String>> = output::list(answer, "/outside/entries")
        .iter()
        .map(|entry| output::fields(entry, ["/seq", "/kind", "/tokens", "/why"]))
        .collect();
    if !entries.is_empty() {
        parts.push(section(
            "also not in the window",
            &["seq", "kind", "tokens", "why"],
            &[0, 2],
            &entries,
        ));
    }
    if let Some(since) = answer.get("since").filter(|since| !since.is_null()) {
        let range = |name: &str| {
            let (first, end) = (
                output::number(since, &format!("/{name}/0")),
                output::number(since, &format!("/{name}/1")),
            );
            if first >= end {
                "nothing".to_owned()
            } else {
                format!("messages {first}–{}", end - 1)
            }
        };
        parts.push(format!(
            "since turn {}: {} came, {} left",
            since["turn"],
            range("came_in"),
            range("left")
        ));
    }
    if answer["exact"] == false {
        parts.push("the prompt can no longer be rebuilt exactly: see vctx replay".to_owned());
    }
    parts.join("\n\n")
}

/// Returns the line of a text in a prompt's context.
fn context_line(item: &Value) -> Vec<String> {
    let text = match item["text"].as_str() {
        Some(text) => output::cell(text, output::CELL_CHARS_MAX),
        None => "(no longer stored)".to_owned(),
    };
    let part = output::number(item, "/part") + 1;
    let mut row = vec![part.to_string()];
    row.extend(output::fields(item, ["/grade", "/tokens"]));
    row.push(text);
    row
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_life_is_told_in_tables_that_end_with_a_command() {
        let answer = json!({"words": ["berth", "14"], "texts_whole": true,
            "said": [{"seq": 3, "created_at": "t", "role": "user", "kind": "turn", "says": "by_words", "in_window": false,
                "left": {"batch": "b", "at": "u", "summary_rev": 2, "directly": false}, "text": "14 for a berth"}],
            "texts": [{"of": "summary", "from_version": 4, "until_version": 9, "from_revision": 2, "until_revision": 5, "since": "u",
                "until": "v", "says": "exactly", "words": ["berth", "14"]}],
            "prompts": {"held": [{"turns": [1, 4], "as": ["message 3"]}, {"turns": [5, 5], "as": ["summary"]}], "next_turn": null},
            "back": {"in_window": false, "command": "vctx tool …", "rank": 1}});
        let text = fact(&answer);
        for part in [
            "left u in batch b, summary 2",
            "v4 (summary 2)",
            "1–4",
            "result 1 of its list",
            "vctx tool …",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(
            back(&json!({"in_window": true, "seq": 4})),
            "the fact is in the window: message 4"
        );
        assert_eq!(
            back(&json!({"why": "no message says it"})),
            "no call brings the fact back: no message says it"
        );
    }

    #[test]
    fn words_that_no_message_holds_are_told_with_the_nearest_messages() {
        let answer = json!({"words": ["berth", "15"], "said": [], "nearest": [
            {"seq": 3, "created_at": "t", "role": "user", "text": "14 for a berth"}],
            "back": {"in_window": false, "why": "no message says it"}});
        let text = fact(&answer);
        assert!(text.contains("no message holds all of these words; nearest:\n"), "{text}");
        assert!(text.contains("3  t     user  14 for a berth"), "{text}");
    }

    #[test]
    fn a_prompt_is_told_section_by_section() {
        let answer = json!({"turn": 5, "model": "m", "token_estimate": 40, "usage": {"prompt": 44}, "policy": {"flush": 90, "max": 100},
            "sections": [{"section": "fifo", "tokens": 30, "items": [{"id": "x", "seq": 9, "role": "user", "tokens": 30, "why": "because"}]}],
            "outside": {"evicted": {"through_seq": 8, "at": "t", "summary_rev": 1, "why": "full"}, "entries": []},
            "since": {"turn": 4, "came_in": [9, 10], "left": [3, 3]}, "exact": true,
            "context": {"items": [{"part": 0, "grade": 0.8, "tokens": 12, "text": "[#3 t] user: Roe."},
                {"part": 1, "grade": 0.5, "tokens": 7, "text": null}]}});
        let text = prompt(&answer);
        for part in [
            "40 tokens by our count, 44",
            "message 9 user",
            "up to message 8",
            "messages 9–9 came, nothing left",
            "1       0.8      12  [#3 t] user: Roe.",
            "2       0.5       7  (no longer stored)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
