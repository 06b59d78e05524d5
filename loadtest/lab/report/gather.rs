//! Reads what the page shows from the server, page by page and in bounds.

use serde_json::Value;

use super::messages::LogMessage;
use super::texts::Texts;
use super::turns::Turn;
use vctx_cli::output::{list, number};
use vctx_client::{Client, MESSAGES_PER_PAGE_MAX, Problem};

/// Maximum number of events read.
const EVENTS_MAX: usize = 200_000;
/// Number of events in one request.
const EVENTS_PER_PAGE: u64 = 1_000;
/// Number of the newest messages that are read.
const MESSAGES_MAX: u64 = 20_000;
/// Maximum number of documents that are read.
const DOCUMENTS_MAX: usize = 2_000;
/// Number of documents in one request.
const DOCUMENTS_PER_PAGE: u64 = 100;
/// Maximum number of tainted items that are read.
const TAINTED_MAX: usize = 2_000;
/// Number of the newest prompts that are read. Each is rebuilt by the server.
pub(super) const TURNS_MAX: u64 = 30;
/// Number of the first passages of a document that are read.
const PASSAGES_MAX: u64 = 10;

/// Code of the refusal of a prompt that is not on record.
const NO_PROMPT: &str = "PROMPT_NOT_FOUND";

/// Everything that bounds left out, as sentences.
pub(super) type LeftOut = Vec<String>;

/// Reads the events from a given time on.
pub(super) async fn events(
    client: &Client,
    agent: &str,
    since: &str,
    left_out: &mut LeftOut,
) -> Result<Vec<Value>, Problem> {
    let (mut all, mut from) = (Vec::new(), since.to_owned());
    loop {
        let (page, next) = client.events(agent, &from, EVENTS_PER_PAGE).await?;
        all.extend(page);
        match next {
            Some(_) if all.len() >= EVENTS_MAX => {
                left_out.push(format!(
                    "Only the first {EVENTS_MAX} events are shown: use --since to show later events."
                ));
                return Ok(all);
            }
            Some(next) => from = next,
            None => return Ok(all),
        }
    }
}

/// Reads the newest messages of the log.
pub(super) async fn messages(
    client: &Client,
    agent: &str,
    state: &Value,
    texts: bool,
    left_out: &mut LeftOut,
) -> Result<Vec<LogMessage>, Problem> {
    let first = number(state, "/queue/next_seq").saturating_sub(MESSAGES_MAX).max(1);
    if first > 1 {
        left_out.push(format!(
            "Only the newest {MESSAGES_MAX} messages are counted: {} older ones are not.",
            first - 1
        ));
    }
    let (mut all, mut from) = (Vec::new(), first);
    loop {
        let (page, next) = client.messages(agent, from, MESSAGES_PER_PAGE_MAX).await?;
        all.extend(page.iter().map(|message| LogMessage::of(message, texts)));
        match next {
            Some(next) => from = next,
            None => return Ok(all),
        }
    }
}

/// Reads the documents of the archive with their sizes.
pub(super) async fn documents(
    client: &Client,
    agent: &str,
    state: &Value,
    left_out: &mut LeftOut,
) -> Result<Vec<Value>, Problem> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let answer = client.documents(agent, &after, DOCUMENTS_PER_PAGE).await?;
        all.extend(list(&answer, "/documents").iter().cloned());
        match answer["next"].as_str() {
            Some(_) if all.len() >= DOCUMENTS_MAX => {
                let of = number(state, "/archived/documents");
                left_out.push(format!("Only {} of {of} documents are counted.", all.len()));
                return Ok(all);
            }
            // A page ends after its last name, so a page that names the same one again is no page.
            Some(next) if next != after => after = next.to_owned(),
            Some(_) | None => return Ok(all),
        }
    }
}

/// Reads the tainted items of the memory: positions, without texts.
pub(super) async fn tainted(
    client: &Client,
    agent: &str,
    left_out: &mut LeftOut,
) -> Result<(String, Vec<Value>), Problem> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let answer = client.quarantine(agent, &after).await?;
        all.extend(list(&answer, "/items").iter().cloned());
        let mode = answer["mode"].as_str().unwrap_or_default().to_owned();
        match answer["next"].as_str() {
            Some(_) if all.len() >= TAINTED_MAX => {
                left_out.push(format!("Only {TAINTED_MAX} tainted items are counted."));
                return Ok((mode, all));
            }
            Some(next) if next != after => after = next.to_owned(),
            Some(_) | None => return Ok((mode, all)),
        }
    }
}

/// Reads the first passages of a document. A passage in quarantine has no text here.
pub(super) async fn passages(
    client: &Client,
    agent: &str,
    doc_id: &str,
) -> Result<Vec<Value>, Problem> {
    match client.document(agent, doc_id, PASSAGES_MAX).await?["passages"].take() {
        Value::Array(passages) => Ok(passages),
        _ => Ok(Vec::new()),
    }
}

/// Reads the newest prompts, oldest first. Each is compared with the prompt before it.
pub(super) async fn turns(
    client: &Client,
    agent: &str,
    state: &Value,
    texts: &Texts,
    left_out: &mut LeftOut,
) -> Result<Vec<Turn>, Problem> {
    let last = number(state, "/turns");
    let first = last.saturating_sub(TURNS_MAX) + 1;
    if first > 1 {
        left_out.push(format!("Only the newest {TURNS_MAX} of {last} prompts are drawn."));
    }
    let (mut turns, mut before) = (Vec::new(), None);
    // The prompt before the first drawn one is only compared with it.
    for number in first.saturating_sub(1).max(1)..=last {
        let answer = match client.prompt(agent, number).await {
            // A branch counts the prompts of its parent, but has not their records.
            Err(problem) if problem.code == NO_PROMPT => continue,
            answer => answer?,
        };
        if number >= first {
            turns.push(Turn::of(&answer, before.as_ref(), texts.wanted()));
        }
        before = Some(answer);
    }
    Ok(turns)
}
