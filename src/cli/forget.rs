//! `vctx forget`: shows which data will be removed, asks for confirmation at a terminal, and prints
//! the manifest of the removal.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use crate::args;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::target::Target;
use crate::whose::Whose;
use vctx_base::clock;
use vctx_client::Write;
use vctx_core::limits::FORGET_MESSAGES_MAX;

const EXAMPLES: &str = "\
Examples:
  vctx forget --agent ada --seq 17 --seq 20-25 --dry-run     show what would be removed
  vctx forget --agent ada --seq 17                           the message, and all data made from it
  vctx forget --agent ada --doc letter.md                    a document of the archive
  vctx forget --agent ada --match 'Jane Roe' --blocks        all data with this text, blocks too
  vctx forget --agent ada --all                              the whole agent
  vctx forget --agent ada --list                             the manifests of earlier forget operations

The position, digest and chain value of a message remain, so `vctx verify` can still check the log. The
message's text, meta and salt are removed, and so are its copies, entries, vectors, summaries, derived
documents and stored answers. Blocks, schedules and other messages that quote the message are listed;
`--match` removes these other messages too. The results of a tool call are removed with the call.

When the command ends, the database no longer contains the text. The database's files may contain bytes of
the text until the files are rewritten: see docs/how-to/forget.md (`vctx rewrite`, or the compaction of
arangod).";

/// Maximum time in seconds that the command waits for the end of the forget operation. After that,
/// the command ends and the server continues the operation.
const FORGET_S_MAX: u64 = 3_600;

/// Forget messages, a document, all data that contains a text, or a whole agent
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("what").required(true).args(["seq", "ids", "doc", "text", "all", "list"])))]
pub struct Forget {
    #[command(flatten)]
    whose: Whose,

    /// Messages by seq: 17, or 20-25 (may be given more than once)
    #[arg(long, value_name = "N|N-M")]
    seq: Vec<String>,

    /// Messages by id, separated by commas
    #[arg(long, value_name = "ID,..", value_delimiter = ',')]
    ids: Vec<String>,

    /// A document of the archive, by its doc_id
    #[arg(long, value_name = "DOC")]
    doc: Option<String>,

    /// All data that contains exactly this text; a text, @FILE, or - for stdin (other users can see
    /// arguments: use @FILE for secrets)
    #[arg(long = "match", value_name = "TEXT")]
    text: Option<String>,

    /// The whole agent
    #[arg(long)]
    all: bool,

    /// Show the manifests of earlier forget operations
    #[arg(long)]
    list: bool,

    /// Also remove blocks that quote the text, instead of only listing them
    #[arg(long)]
    blocks: bool,

    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,

    /// Do not ask for confirmation, for scripts
    #[arg(long)]
    yes: bool,

    /// Idempotency key: the same command with the same key continues an interrupted command
    /// [default: a new key]
    #[arg(long)]
    key: Option<String>,

    /// Revision that the forget operation builds on; '*' accepts any revision [default: the
    /// revision of the preview]
    #[arg(long, value_name = "REV")]
    rev: Option<String>,

    #[command(flatten)]
    pub target: Target,
}

/// Arguments of `vctx agent delete`.
#[derive(Debug, Args)]
pub struct DeleteArguments {
    /// Name of the agent
    name: String,

    /// Do not ask for confirmation, for scripts
    #[arg(long)]
    yes: bool,

    /// Idempotency key: the same command with the same key continues an interrupted command
    /// [default: a new key]
    #[arg(long)]
    key: Option<String>,

    /// Revision that the command builds on; '*' accepts any revision [default: the revision of the
    /// preview]
    #[arg(long, value_name = "REV")]
    rev: Option<String>,

    #[command(flatten)]
    pub target: Target,
}

/// Runs `vctx agent delete`: forgets the whole agent.
pub async fn delete(asked: DeleteArguments) -> Result<(), Failure> {
    let DeleteArguments { name, yes, key, rev, target } = asked;
    run(Forget {
        whose: Whose::named(&name),
        seq: Vec::new(),
        ids: Vec::new(),
        doc: None,
        text: None,
        all: true,
        list: false,
        blocks: false,
        dry_run: false,
        yes,
        key,
        rev,
        target,
    })
    .await
}

/// Runs `vctx forget`.
pub async fn run(forget: Forget) -> Result<(), Failure> {
    let (client, agent) = (forget.target.client(), forget.whose.agent()?);
    let agent = agent.as_str();
    if forget.list {
        let told = client.forgettings(agent).await?;
        return output::told(forget.target.json, &told, manifests);
    }
    let mut asked = request_body(&forget)?;
    let mut revision = forget.rev.clone();
    // With a key from the user there is no preview, because an earlier command with the same key
    // may already have removed everything.
    if forget.key.is_none() || forget.dry_run {
        asked["dry_run"] = true.into();
        let preview = client.forget(agent, &asked, &Write::new(None)).await?;
        revision = revision.or_else(|| preview["_rev"].as_str().map(str::to_owned));
        if forget.dry_run {
            return output::told(forget.target.json, &preview, preview_text);
        }
        confirm(&forget, agent, &preview)?;
    }
    asked["dry_run"] = false.into();
    let mut write = Write::new(Some(revision.unwrap_or_else(|| "*".into())));
    if let Some(key) = &forget.key {
        write.key.clone_from(key);
    }
    let begun = clock::now();
    loop {
        let told = client.forget(agent, &asked, &write).await;
        let told = told.map_err(|problem| Failure::repeatable(problem, "command", &write.key))?;
        if told["state"] != "under_way" {
            return output::told(forget.target.json, &told, told_of);
        }
        wait(begun, &told, &write.key)?;
    }
}

fn wait(begun: Instant, told: &Value, key: &str) -> Result<(), Failure> {
    if begun.elapsed() > Duration::from_secs(FORGET_S_MAX) {
        let failure =
            Failure::new(Exit::TryAgain, "UNDER_WAY", "the forget operation takes over an hour");
        return Err(
            failure.next(format!("the server continues; check with --list, or --key {key}"))
        );
    }
    output::progress(&format!("under way: {}", output::field(told, "/phase")))
}

fn request_body(forget: &Forget) -> Result<Value, Failure> {
    let mut asked = json!({"blocks": forget.blocks});
    if !forget.seq.is_empty() {
        asked["seqs"] = json!(places(&forget.seq)?);
    }
    if !forget.ids.is_empty() {
        asked["ids"] = json!(forget.ids);
    }
    if let Some(doc) = &forget.doc {
        asked["doc_id"] = doc.as_str().into();
    }
    if let Some(text) = &forget.text {
        asked["match"] = args::text(text)?.trim_end_matches('\n').into();
    }
    if forget.all {
        asked["all"] = true.into();
    }
    Ok(asked)
}

/// Parses message positions such as `17` and ranges such as `20-25`.
fn places(given: &[String]) -> Result<Vec<u64>, Failure> {
    let wrong = |text: &str| Failure::usage(format!("--seq {text}: use a number, or N-M"));
    let mut places = Vec::new();
    for text in given {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (Ok(first), Ok(last)) = (first.parse::<u64>(), last.parse::<u64>()) else {
            return Err(wrong(text));
        };
        if first == 0 || last < first {
            return Err(wrong(text));
        }
        if last - first >= FORGET_MESSAGES_MAX as u64 {
            return Err(Failure::usage(format!(
                "--seq {text}: at most {FORGET_MESSAGES_MAX} messages at a time"
            )));
        }
        places.extend(first..=last);
    }
    Ok(places)
}

/// Asks for confirmation at a terminal; without a terminal, `--yes` is required.
fn confirm(forget: &Forget, agent: &str, preview: &Value) -> Result<(), Failure> {
    if forget.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        let failure = Failure::usage("cannot ask for confirmation without a terminal");
        return Err(failure.next("check with --dry-run, then add --yes"));
    }
    let mut out = io::stderr().lock();
    let asked = writeln!(out, "{}", preview_text(preview))
        .and_then(|()| write!(out, "This cannot be undone. Type the agent's name to go on: "))
        .and_then(|()| out.flush());
    asked.map_err(|error| Failure::internal(format!("cannot ask: {error}")))?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::internal(format!("cannot read the answer: {error}")))?;
    match line.trim() == agent {
        true => Ok(()),
        false => Err(Failure::usage("not confirmed: nothing was removed")),
    }
}

/// Lists the number of objects that would be removed, with one kind of object on each line.
fn preview_text(preview: &Value) -> String {
    if preview["what"] == "agent" {
        let told = format!(
            "the whole agent is removed: {} messages, {} documents, {} prompts, every block",
            preview["messages"], preview["documents"], preview["prompts"]
        );
        return told + &changed(preview);
    }
    let mut rows =
        vec![vec!["messages".into(), count(preview, "messages"), list(&preview["seqs"])]];
    for (name, pointer) in
        [("documents", "documents"), ("schedules", "schedules"), ("blocks", "blocks")]
    {
        let all = &preview[pointer];
        rows.push(vec![name.into(), all.as_array().map_or(0, Vec::len).to_string(), list(all)]);
    }
    let mut text = output::table(&["goes", "", "which"], &[1], &rows);
    text.push_str(&changed(preview));
    text.push_str(&quotes(&preview["quoted"], &preview["blocks"]));
    text
}

/// Lists the number of rows that would be removed or changed in each collection, and the summary.
fn changed(preview: &Value) -> String {
    let places = preview["places"].as_object().into_iter().flatten();
    let rows: Vec<Vec<String>> =
        places.map(|(name, count)| vec![name.clone(), count.to_string()]).collect();
    let mut text = String::new();
    let copies = preview["kinds"]["copy"].as_u64().unwrap_or(0);
    if copies > 0 {
        text.push_str(&format!(
            "\n{copies} of the messages are copies that searches put into the window"
        ));
    }
    if preview["summary"] == true {
        text.push_str("\nthe summary goes as a whole; the next eviction begins a new one");
    }
    if !rows.is_empty() {
        text.push_str("\n\n");
        text.push_str(&output::table(&["collection", "rows"], &[1], &rows));
    }
    text
}

fn count(value: &Value, name: &str) -> String {
    value[name].as_u64().unwrap_or(0).to_string()
}

fn list(all: &Value) -> String {
    let shown = all.as_array().into_iter().flatten();
    let shown: Vec<String> =
        shown.map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
    output::cell(&shown.join(", "), output::CELL_CHARS_MAX)
}

/// Lists the objects that quote the forgotten text and are not removed.
fn quotes(quoted: &Value, going: &Value) -> String {
    let mut text = String::new();
    for (name, advice) in [
        ("blocks", "add --blocks to remove them"),
        ("messages", "forget them with --seq, or use --match"),
        ("documents", "forget them with --doc"),
        ("schedules", "remove them with vctx agent schedule remove"),
    ] {
        let stays = quoted[name].as_array().is_some_and(|all| !all.is_empty());
        if stays && !(name == "blocks" && going == &quoted[name]) {
            text.push_str(&format!("\nquoted by {name} {}: {advice}", list(&quoted[name])));
        }
    }
    if quoted["system"] == true {
        text.push_str("\nquoted by the system text: change it with vctx agent set --system");
    }
    if quoted["unsearched"].as_u64().is_some_and(|few| few > 0) {
        text.push_str(&format!(
            "\nquotes of {} short messages, or messages beyond the search limit, were not looked for",
            quoted["unsearched"]
        ));
    }
    text
}

/// Describes the removed objects and the manifest as text.
fn told_of(told: &Value) -> String {
    let counts = told["counts"].as_object().into_iter().flatten();
    let rows: Vec<Vec<String>> =
        counts.map(|(name, count)| vec![name.clone(), count.to_string()]).collect();
    let mut text = format!("forgotten at {}", output::field(told, "/ended_at"));
    if told["messages"].as_u64().is_some_and(|count| count > 0) {
        text.push_str(&format!(": messages {}", list(&told["seqs"])));
    }
    text.push('\n');
    text.push_str(&output::table(&["collection", "rows"], &[1], &rows));
    text.push_str(&quotes(&told["quoted"], &Value::Null));
    text.push_str(&format!(
        "\nmanifest {}\nbytes in the database's files: docs/how-to/forget.md",
        output::field(told, "/id")
    ));
    text
}

fn manifests(told: &Value) -> String {
    let rows: Vec<Vec<String>> = output::list(told, "/forgettings")
        .iter()
        .map(|one| {
            vec![
                output::field(one, "/begun_at"),
                output::field(one, "/what"),
                output::field(one, "/state"),
                count(one, "messages"),
                list(&one["seqs"]),
                list(&one["documents"]),
            ]
        })
        .collect();
    output::table(&["begun", "what", "state", "messages", "seqs", "documents"], &[3], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_numbers_and_spans() {
        let given =
            |text: &[&str]| places(&text.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
        assert_eq!(given(&["17", "20-22"]).unwrap(), [17, 20, 21, 22]);
        for wrong in ["", "0", "5-3", "x", "1-9999999"] {
            assert_eq!(given(&[wrong]).unwrap_err().exit, Exit::Usage, "{wrong}");
        }
    }

    #[test]
    fn what_stays_is_told_with_what_takes_it() {
        let preview = json!({"messages": 2, "seqs": [3, 4], "documents": ["letter"], "blocks": [],
            "quoted": {"blocks": ["human"], "messages": [9], "system": true, "unsearched": 1}});
        let text = preview_text(&preview);
        for part in
            ["3, 4", "letter", "human: add --blocks", "messages 9", "system text", "1 short"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let whole =
            preview_text(&json!({"what": "agent", "messages": 7, "documents": 0, "prompts": 2}));
        assert!(whole.contains("7 messages"), "{whole}");
    }
}
