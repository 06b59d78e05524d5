//! Nothing lost, nothing doubled, every token counted: evictions of whole conversations, and pages of the archive.

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

/// Window of the agents: conversations flow through it.
const WINDOW: u64 = 8192;
/// After so many messages a tool call with its result stands between them: a flush must not part the two.
const CALL_EACH: usize = 7;
/// Messages of one conversation that are searched for by their own text, spread evenly.
const SEARCHED_MAX: usize = 400;
/// Bytes of a text that are searched for: the tool's own bound on a query.
const QUERY_BYTES_MAX: usize = 1_024;
/// Turns of one chunk in the archive: some are smaller than a page, some larger.
const TURNS_PER_CHUNK: [usize; 3] = [1, 4, 40];
/// Longest chunk, in bytes (the tool's own bound).
const CHUNK_BYTES_MAX: usize = 32 * 1024;
/// Questions whose lists are walked, for each conversation.
const LISTS_MAX: usize = 12;

/// What was checked, and how often it did not hold.
#[derive(Debug, Clone, Default)]
struct Checked {
    counts: Vec<(&'static str, usize, usize)>,
    /// The first faults, in words.
    faults: Vec<String>,
}

/// Faults told; more say nothing new.
const FAULTS_TOLD: usize = 5;

impl Checked {
    /// One more look at something.
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

/// Plays all talks and looks at everything.
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
    Ok(told(all))
}

fn told(all: Checked) -> Report {
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

/// A message that was sent.
struct Sent {
    seq: u64,
    text: String,
}

/// Plays a conversation with tool calls in between, and looks at the window, the log and the search for each evicted text.
async fn queue(
    caller: &Caller,
    talk: &Talk,
    progress: &Progress,
    checked: &mut Checked,
) -> Result<(), Failure> {
    let mut score = Score::new(&caller.state().await?);
    let mut sent: Vec<Sent> = Vec::new();
    let mut calls: Vec<u64> = Vec::new();
    let mut evicted_to = 0;
    let mut send = Vec::new();
    for (at, said) in talk.messages.iter().enumerate() {
        let mut message = Map::new();
        message.insert("content".into(), said.text.as_str().into());
        if let Some(name) = &said.name {
            message.insert("name".into(), name.as_str().into());
        }
        send.push((said.role.clone(), Value::Object(message)));
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
        sent.push(Sent { seq, text });
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
    logged(caller, &sent, checked).await?;
    let evicted: Vec<&Sent> = sent.iter().filter(|one| one.seq <= evicted_to).collect();
    found_again(caller, &evicted, progress, checked).await
}

/// The occupancy is the sum of the rendered messages, counted here.
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

/// Every message is there under its number, byte for byte and in order.
async fn logged(caller: &Caller, sent: &[Sent], checked: &mut Checked) -> Result<(), Failure> {
    let kept = caller.messages().await?;
    let by_seq: HashMap<u64, &Value> =
        kept.iter().filter_map(|message| Some((message.get("seq")?.as_u64()?, message))).collect();
    for one in sent {
        let there = by_seq.get(&one.seq).map(|message| text_of(message, "content"));
        checked.look("kept byte for byte", there.as_ref() == Some(&one.text), || {
            format!("message {}", one.seq)
        });
    }
    let is_dense = kept.windows(2).all(|pair| pair[1]["seq"].as_u64() > pair[0]["seq"].as_u64());
    checked.look("order of the log", is_dense, || caller.agent.clone());
    Ok(())
}

/// Every evicted text is the first result of a search for itself; an equal text counts as well.
async fn found_again(
    caller: &Caller,
    evicted: &[&Sent],
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

/// A text as a query for itself: without quotation marks, cut to what a query may be.
fn query(text: &str) -> String {
    let plain = text.replace(['"', '“', '”', '„', '«', '»'], " ");
    plain[..plain.floor_char_boundary(QUERY_BYTES_MAX)].to_owned()
}

/// Lists of the archive: pages within their bound, no passage lost, doubled or changed, the same while others write.
async fn lists(caller: &Caller, talk: &Talk, checked: &mut Checked) -> Result<(), Failure> {
    let counter = Tiktoken::new(Encoding::O200kBase);
    for turns in TURNS_PER_CHUNK {
        let chunks: Vec<String> = talk
            .messages
            .chunks(turns)
            .map(|some| {
                let texts: Vec<&str> = some.iter().map(|said| said.text.as_str()).collect();
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

/// The further pages of a list, with a document taken in before each of them if a number for it is given.
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
