//! Checks that no text is lost or doubled and every token is counted, in evictions and in archive
//! pages.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::archive::{self, PAGE_TOKENS_MAX, Page, RESULTS_MAX, Walk};
use super::caller::Caller;
use super::corpus::{Talk, text_of};
use super::host::Host;
use super::progress::Progress;
use super::recall::side_by_side;
use super::report::{Report, Section, percent};
use crate::demo::Score;
use vctx_cli::exit::Failure;
use vctx_client::Client;
use vctx_core::memory::Encoding;
use vctx_core::memory::tokens::{REPLY_TOKENS, message_cost};
use vctx_core::text::Tiktoken;

/// Window of the agents that store the conversations.
const WINDOW: u64 = 8192;
/// Number of messages between two tool calls with results; a flush must not separate a tool call
/// from the result of the call.
const CALL_EACH: usize = 7;
/// Number of messages of each conversation whose own text is used as a query. The messages are
/// spread evenly over the conversation.
const SEARCHED_MAX: usize = 400;
/// Maximum length of a query in bytes (the tool's own limit).
const QUERY_BYTES_MAX: usize = 1_024;
/// Number of turns in one chunk of the archive, chosen so that some chunks are larger than a page.
const TURNS_PER_CHUNK: [usize; 3] = [1, 4, 40];
/// Maximum length of a chunk in bytes (the tool's own limit).
const CHUNK_BYTES_MAX: usize = 32 * 1024;
/// Number of questions of each conversation for which the whole result list is read.
const LISTS_MAX: usize = 12;

/// For each kind of check: how often it was made, and how often it passed.
#[derive(Debug, Clone, Default)]
struct Checked {
    counts: Vec<(&'static str, usize, usize)>,
    /// Descriptions of the first failed checks.
    faults: Vec<String>,
}

/// Maximum number of failed checks that the report describes.
const FAULTS_TOLD: usize = 5;

impl Checked {
    /// Counts a check, and describes it if it failed.
    fn look(&mut self, what: &'static str, holds: bool, why: impl FnOnce() -> String) {
        match self.counts.iter_mut().find(|(known, _, _)| *known == what) {
            Some((_, looked, kept)) => {
                *looked += 1;
                *kept += usize::from(holds);
            }
            None => self.counts.push((what, 1, usize::from(holds))),
        }
        if !holds && self.faults.len() < FAULTS_TOLD {
            self.faults.push(format!("{what}: {}", why()));
        }
    }

    fn add(&mut self, other: Checked) {
        for (what, looked, kept) in other.counts {
            match self.counts.iter_mut().find(|(known, _, _)| *known == what) {
                Some(own) => (own.1, own.2) = (own.1 + looked, own.2 + kept),
                None => self.counts.push((what, looked, kept)),
            }
        }
        self.faults.extend(other.faults);
        self.faults.truncate(FAULTS_TOLD);
    }
}

/// Runs all checks of evictions and archive pages on all conversations.
pub(super) async fn run(host: &Host, talks: Vec<Talk>) -> Result<Report, Failure> {
    let steps = talks.iter().map(|talk| talk.messages.len() * 2).sum();
    let progress = Arc::new(Progress::new("pages", steps));
    let named = talks.into_iter().map(|talk| {
        let agent = host.agent(&format!("pages-{}", talk.name));
        (talk, host.client(), agent)
    });
    let work = |(talk, client, agent): (Talk, Client, String)| {
        let progress = Arc::clone(&progress);
        async move {
            let caller = Caller::create(client, agent, WINDOW).await?;
            let mut checked = Checked::default();
            queue(&caller, &talk, &progress, &mut checked).await?;
            lists(&caller, &talk, &mut checked).await?;
            Ok(checked)
        }
    };
    let mut all = Checked::default();
    for one in side_by_side(named.collect(), work).await? {
        all.add(one);
    }
    progress.close();
    Ok(report_of(all))
}

fn report_of(all: Checked) -> Report {
    let share = |looked: usize, kept: usize| kept as f64 / looked.max(1) as f64;
    let rows = all.counts.iter().map(|(what, looked, kept)| {
        vec![
            (*what).to_owned(),
            looked.to_string(),
            kept.to_string(),
            percent(share(*looked, *kept)),
        ]
    });
    let least =
        all.counts.iter().map(|(_, looked, kept)| share(*looked, *kept)).fold(1.0, f64::min);
    let mut reached = vec![("pages".to_owned(), least * 100.0)];
    reached.extend(
        all.counts
            .iter()
            .map(|(what, looked, kept)| (format!("pages {what}"), share(*looked, *kept) * 100.0)),
    );
    let section = Section {
        title: "pages: losslessness, accounting, pages of 512 tokens".into(),
        heads: ["checked", "times", "held", "share"].map(str::to_owned).into(),
        rows: rows.collect(),
        notes: all.faults,
        bars: reached.clone(),
    };
    Report { sections: vec![section], reached, ..Report::default() }
}

/// A message in an agent's log.
struct AppendedMessage {
    seq: u64,
    text: String,
}

/// Appends a conversation with tool calls, and checks the window, the log, and searches for evicted
/// texts.
async fn queue(
    caller: &Caller,
    talk: &Talk,
    progress: &Progress,
    checked: &mut Checked,
) -> Result<(), Failure> {
    let mut score = Score::new(&caller.state().await?);
    let mut appended: Vec<AppendedMessage> = Vec::new();
    let mut calls: Vec<u64> = Vec::new();
    let mut evicted_to = 0;
    let mut send = Vec::new();
    for (at, message) in talk.messages.iter().enumerate() {
        let mut body = Map::new();
        body.insert("content".into(), message.text.as_str().into());
        if let Some(name) = &message.name {
            body.insert("name".into(), name.as_str().into());
        }
        send.push((message.role.clone(), Value::Object(body)));
        if at % CALL_EACH == CALL_EACH - 1 {
            let id = format!("call_{at}");
            let function = json!({"name": "look", "arguments": "{}"});
            send.push(("assistant".into(), json!({"content": "", "tool_calls": [{"id": id, "type": "function", "function": function}]})));
            send.push((
                "tool".into(),
                json!({"content": format!("looked {at}"), "tool_call_id": id}),
            ));
        }
    }
    for (role, message) in send {
        let (seq, answer) = caller.append(&role, &message).await?;
        let text = text_of(&message, "content");
        if message.get("tool_calls").is_some() {
            calls.push(seq);
        }
        appended.push(AppendedMessage { seq, text });
        if let Some(flush) = score.take(&format!("message {seq}"), &answer) {
            let (first, last) = (flush.first_seq, flush.last_seq);
            checked.look("batches follow each other", first == evicted_to + 1, || {
                format!("{first} after {evicted_to}")
            });
            checked.look("calls stay with their results", !calls.contains(&last), || {
                format!("call {last} left alone")
            });
            checked.look(
                "target reached or said to be missed",
                !flush.reached || flush.after <= score.target,
                || format!("{} tokens", flush.after),
            );
            evicted_to = last;
        }
        progress.add(usize::from(role != "tool" && message.get("tool_calls").is_none()));
    }
    checked
        .look("window, summary and sections", score.broken.is_empty(), || score.broken.join("; "));
    recounted(caller, checked).await?;
    logged(caller, &appended, checked).await?;
    let evicted: Vec<&AppendedMessage> =
        appended.iter().filter(|one| one.seq <= evicted_to).collect();
    found_again(caller, &evicted, progress, checked).await
}

/// The reported occupancy must equal the token count of all rendered messages, which this benchmark
/// computes itself.
async fn recounted(caller: &Caller, checked: &mut Checked) -> Result<(), Failure> {
    let context = caller.context().await?;
    let counter = Tiktoken::new(Encoding::O200kBase);
    let messages = context.get("messages").and_then(Value::as_array).cloned().unwrap_or_default();
    let costs = messages.iter().map(|message| message_cost(&counter, message));
    let own = costs.sum::<u64>() + REPLY_TOKENS;
    let said = context.pointer("/tokens/occupancy").and_then(Value::as_u64);
    checked
        .look("occupancy recounted", Some(own) == said, || format!("{own} counted, {said:?} said"));
    Ok(())
}

/// Every message must be stored byte for byte, in order, under the message's sequence number.
async fn logged(
    caller: &Caller,
    appended: &[AppendedMessage],
    checked: &mut Checked,
) -> Result<(), Failure> {
    let kept = caller.messages().await?;
    let by_seq: HashMap<u64, &Value> =
        kept.iter().filter_map(|message| Some((message.get("seq")?.as_u64()?, message))).collect();
    for one in appended {
        let there = by_seq.get(&one.seq).map(|message| text_of(message, "content"));
        checked.look("kept byte for byte", there.as_ref() == Some(&one.text), || {
            format!("message {}", one.seq)
        });
    }
    let is_dense = kept.windows(2).all(|pair| pair[1]["seq"].as_u64() > pair[0]["seq"].as_u64());
    checked.look("order of the log", is_dense, || caller.agent.clone());
    Ok(())
}

/// Every evicted text must be the first result of a search for itself; an equal text of another
/// message counts too.
async fn found_again(
    caller: &Caller,
    evicted: &[&AppendedMessage],
    progress: &Progress,
    checked: &mut Checked,
) -> Result<(), Failure> {
    let step = evicted.len().div_ceil(SEARCHED_MAX).max(1);
    for one in evicted.iter().step_by(step) {
        progress.add(step);
        let query = query(&one.text);
        if !query.chars().any(char::is_alphanumeric) {
            continue;
        }
        let arguments = json!({"query": query, "limit": 1, "rehydrate": false});
        let answer = caller.tool("search_recall", &arguments).await?;
        let first = answer.pointer("/result/results/0").cloned().unwrap_or_default();
        let is_it = first["seq"] == one.seq || text_of(&first, "content") == one.text;
        checked
            .look("own text at rank 1", is_it, || format!("message {}: {:.60}", one.seq, one.text));
    }
    Ok(())
}

/// Makes a query from a text: removes quotation marks and truncates the text to the maximum length
/// of a query.
fn query(text: &str) -> String {
    let plain = text.replace(['"', '“', '”', '„', '«', '»'], " ");
    plain[..plain.floor_char_boundary(QUERY_BYTES_MAX)].to_owned()
}

/// Checks result lists of the archive: page sizes, and that no passage is lost, doubled or changed
/// while other clients write.
async fn lists(caller: &Caller, talk: &Talk, checked: &mut Checked) -> Result<(), Failure> {
    let counter = Tiktoken::new(Encoding::O200kBase);
    for turns in TURNS_PER_CHUNK {
        let chunks: Vec<String> = talk
            .messages
            .chunks(turns)
            .map(|some| {
                let texts: Vec<&str> = some.iter().map(|message| message.text.as_str()).collect();
                let text = texts.join("\n");
                text[..text.floor_char_boundary(CHUNK_BYTES_MAX)].to_owned()
            })
            .collect();
        for (at, part) in chunks.chunks(128).enumerate() {
            archive::ingest(caller, &format!("{turns}-{at}"), part).await?;
        }
    }
    for (at, question) in talk.questions.iter().take(LISTS_MAX).enumerate() {
        let mut arguments = json!({"query_text": question.text, "limit": RESULTS_MAX});
        let first = archive::turn(caller, &mut arguments, &counter).await?;
        let (plan, k_actual, n_probe) = (first.plan, first.k_actual, first.n_probe);
        let mut walk = Walk { pages: vec![first.page], plan, k_actual, n_probe };
        if first.goes_on {
            let quiet = rest(caller, arguments.clone(), &counter, None).await?;
            let disturbed = rest(caller, arguments, &counter, Some(at)).await?;
            let same = ids(&quiet) == ids(&disturbed);
            checked.look("same list while others write", same, || format!("question {at}"));
            walk.pages.extend(quiet);
        }
        look_at(&walk, checked);
    }
    Ok(())
}

/// Reads the second and later pages of a result list. If a question number is given, stores another
/// document before reading each page.
async fn rest(
    caller: &Caller,
    mut arguments: Value,
    counter: &Tiktoken,
    between: Option<usize>,
) -> Result<Vec<Page>, Failure> {
    let mut pages = Vec::new();
    loop {
        if let Some(at) = between {
            let text = format!("A note that was written between two pages of question {at}.");
            archive::ingest(caller, &format!("between-{at}-{}", pages.len()), &[text]).await?;
        }
        let turned = archive::turn(caller, &mut arguments, counter).await?;
        pages.push(turned.page);
        if !turned.goes_on {
            return Ok(pages);
        }
    }
}

fn ids(pages: &[Page]) -> Vec<(String, String)> {
    let results = pages.iter().flat_map(|page| &page.results);
    results.map(|result| (text_of(result, "id"), text_of(&result["part"], "start"))).collect()
}

fn look_at(walk: &Walk, checked: &mut Checked) {
    for page in &walk.pages {
        checked.look("page of at most 512 tokens", page.tokens <= PAGE_TOKENS_MAX, || {
            format!("{} tokens", page.tokens)
        });
        checked.look("page's tokens as said", page.tokens == page.told, || {
            format!("{} counted, {} said", page.tokens, page.told)
        });
    }
    let mut parts: HashMap<String, Vec<(u64, u64, u64)>> = HashMap::new();
    for result in walk.pages.iter().flat_map(|page| &page.results) {
        let length = text_of(result, "text").chars().count() as u64;
        let number = |name: &str| result["part"].get(name).and_then(Value::as_u64);
        let start = number("start").unwrap_or(0);
        let end = number("end").unwrap_or(length);
        checked.look("a part says its length", end - start.min(end) == length, || {
            text_of(result, "id")
        });
        let whole = number("of").unwrap_or(length);
        parts.entry(text_of(result, "id")).or_default().push((start, end, whole));
    }
    checked.look("passages as many as said", parts.len() as u64 == walk.k_actual, || {
        format!("{} of {}", parts.len(), walk.k_actual)
    });
    for (id, list) in parts {
        let follow = list.windows(2).all(|pair| pair[0].1 == pair[1].0);
        let first = list.first().is_some_and(|part| part.0 == 0);
        let last = list.last().is_some_and(|part| part.1 == part.2);
        checked.look("passage whole over its pages", follow && first && last, || {
            format!("{id}: {list:?}")
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_a_query_for_itself() {
        assert_eq!(query("say “hi” to \"Ida\""), "say  hi  to  Ida ");
        assert_eq!(query(&"ä".repeat(600)).len(), 1024);
    }

    #[test]
    fn gaps_doubles_and_long_pages_are_seen() {
        let part = |id: &str, start: u64, end: u64| json!({"id": id, "text": "x".repeat((end - start) as usize), "part": {"start": start, "end": end, "of": 10}});
        let page = |results: Vec<Value>, tokens| Page { results, tokens, told: 512 };
        let sound = Walk {
            pages: vec![page(vec![part("a", 0, 6)], 512), page(vec![part("a", 6, 10)], 512)],
            plan: String::new(),
            k_actual: 1,
            n_probe: None,
        };
        let mut checked = Checked::default();
        look_at(&sound, &mut checked);
        assert!(checked.counts.iter().all(|(_, looked, kept)| looked == kept), "{checked:?}");
        let broken = Walk {
            pages: vec![page(vec![part("a", 0, 6)], 513), page(vec![part("a", 7, 10)], 512)],
            plan: String::new(),
            k_actual: 2,
            n_probe: None,
        };
        look_at(&broken, &mut checked);
        let lost: Vec<&str> =
            checked.counts.iter().filter(|(_, looked, kept)| looked > kept).map(|c| c.0).collect();
        let wanted = [
            "page of at most 512 tokens",
            "page's tokens as said",
            "passages as many as said",
            "passage whole over its pages",
        ];
        assert_eq!(lost, wanted);
    }
}
