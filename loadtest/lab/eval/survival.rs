//! Measures the survival of facts in the summary: appends conversations to a small window, and
//! reads each summary.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::bootstrap::interval;
use super::caller::Caller;
use super::corpus::{Talk, TalkMessage};
use super::facts::{Fact, Read, facts, lines};
use super::host::Host;
use super::progress::Progress;
use super::recall::side_by_side;
use super::report::{Report, Section, percent};
use super::stems::Stems;
use vctx_cli::exit::Failure;
use vctx_client::Client;
use vctx_core::memory::{Encoding, TokenCounter as _};
use vctx_core::seeded::Seeded;
use vctx_core::text::Tiktoken;

/// Sizes of the windows to measure, in tokens.
const WINDOWS: [u64; 2] = [4096, 8192];
/// Names of the four measures that [`Survived`] explains.
const MEASURES: [&str; 4] = ["ans first", "ans final", "link first", "link final"];
/// Maximum size of a summary, as a share of the window. The requirements set this limit for the
/// server; the baseline has the same limit.
const SUMMARY_SHARE: f64 = 0.15;
/// Seed of the baseline's random choice.
const SEED: u64 = 7;

/// The four measures of one fact, for the server's summary and for the baseline's summary. There
/// are two kinds of measure: the share of the answer's stems that the summary contains (`ans`), and
/// whether one line of the summary contains a stem of the answer and a stem of the question
/// (`link`). Each kind is measured at two times: right after the flush that evicted the fact's last
/// evidence (`first`), and at the end of the conversation (`final`).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Survived {
    server: [f64; 4],
    random: [f64; 4],
}

/// Observations of the window while the benchmark appended a conversation.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    flushes: usize,
    evicted: usize,
    summary_tokens_max: u64,
    /// Highest share of the window in use after a flush.
    after_share_max: f64,
}

/// The baseline summary: random sentences of the previous baseline summary and of the evicted
/// messages, up to the size limit of a summary.
struct Random {
    row: Seeded,
    tokens_max: u64,
    counter: Tiktoken,
    sentences: Vec<String>,
}

/// Runs the survival benchmark on all conversations in all windows.
pub(super) async fn run(host: &Host, talks: Vec<Talk>) -> Result<Report, Failure> {
    let mut rows = Vec::new();
    let mut reached = Vec::new();
    let mut notes = vec![
        "facts: questions of categories 1 to 4 whose whole evidence was evicted and contains a stem of the answer".to_owned(),
        "ans: share of the answer's stems that the summary contains; link: a line of the summary contains a stem of the answer and a stem of the question".to_owned(),
        "random: a baseline summary of randomly selected sentences, with the server's maximum size; better by: 95 % interval of the difference (paired bootstrap)".to_owned(),
    ];
    let talks = Arc::new(talks);
    for window in WINDOWS {
        let (survived, flow) = in_window(host, &talks, window).await?;
        for (at, measure) in MEASURES.iter().enumerate() {
            let column = |of: fn(&Survived) -> &[f64; 4]| {
                survived.iter().map(|one| of(one)[at]).collect::<Vec<f64>>()
            };
            let (server, random) = (column(|one| &one.server), column(|one| &one.random));
            let better: Vec<f64> = server.iter().zip(&random).map(|(own, by)| own - by).collect();
            let told = |values: &[f64]| {
                let (low, high) = interval(values).unwrap_or_default();
                format!("{} to {}", percent(low), percent(high))
            };
            if survived.is_empty() {
                continue;
            }
            reached.push((format!("survival {window} {measure}"), mean(&server) * 100.0));
            reached.push((format!("survival {window} {measure} random"), mean(&random) * 100.0));
            rows.push(vec![
                format!("{window} {measure}"),
                survived.len().to_string(),
                percent(mean(&server)),
                told(&server),
                percent(mean(&random)),
                told(&better),
            ]);
        }
        notes.push(format!(
            "{window}: {} flushes, {} messages evicted; summary at most {} tokens; window at most {} % full after a flush",
            flow.flushes, flow.evicted, flow.summary_tokens_max, percent(flow.after_share_max)
        ));
    }
    let heads = ["window", "facts", "server", "from .. to", "random", "better by"];
    let title = "survival: facts in the summary after real evictions".to_owned();
    let bars = reached.clone();
    let section = Section { title, heads: heads.map(str::to_owned).into(), rows, notes, bars };
    Ok(Report { sections: vec![section], reached, ..Report::default() })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

async fn in_window(
    host: &Host,
    talks: &Arc<Vec<Talk>>,
    window: u64,
) -> Result<(Vec<Survived>, Window), Failure> {
    let steps = talks.iter().map(|talk| talk.messages.len()).sum();
    let progress = Arc::new(Progress::new(&format!("survival {window}"), steps));
    let named: Vec<(usize, Client, String)> = (0..talks.len())
        .map(|at| (at, host.client(), host.agent(&format!("survival-{window}-{}", talks[at].name))))
        .collect();
    let work = |(at, client, agent): (usize, Client, String)| {
        let (talks, progress) = (Arc::clone(talks), Arc::clone(&progress));
        async move {
            let caller = Caller::create(client, agent, window).await?;
            play(&caller, &talks[at], window, &progress).await
        }
    };
    let (mut survived, mut flow) = (Vec::new(), Window::default());
    for (some, own) in side_by_side(named, work).await? {
        survived.extend(some);
        flow = Window {
            flushes: flow.flushes + own.flushes,
            evicted: flow.evicted + own.evicted,
            summary_tokens_max: flow.summary_tokens_max.max(own.summary_tokens_max),
            after_share_max: flow.after_share_max.max(own.after_share_max),
        };
    }
    progress.close();
    Ok((survived, flow))
}

/// How much of a fact the server's summary and the baseline's summary contained right after the
/// flush that evicted the fact's last evidence.
type First = (Read, Read);

async fn play(
    caller: &Caller,
    talk: &Talk,
    window: u64,
    progress: &Progress,
) -> Result<(Vec<Survived>, Window), Failure> {
    let stems = Stems::new();
    let facts = facts(talk, &stems);
    let mut random = Random::new(window);
    let mut flow = Window::default();
    let mut first: HashMap<usize, First> = HashMap::new();
    let mut gone: BTreeSet<usize> = BTreeSet::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut summary = String::new();
    for (at, message) in talk.messages.iter().enumerate() {
        let (seq, answer) = caller.append(&message.role, &body_of(message)).await?;
        places.insert(seq, at);
        progress.add(1);
        let Some(flush) = answer.get("flush").filter(|flush| flush.is_object()) else { continue };
        let number = |name: &str| flush.get(name).and_then(Value::as_u64).unwrap_or(0);
        let left = number("first_seq")..=number("last_seq");
        let left: Vec<usize> = left.filter_map(|seq| places.get(&seq).copied()).collect();
        random.fold(left.iter().map(|at| &talk.messages[*at]));
        gone.extend(left);
        flow.flushes += 1;
        flow.evicted = gone.len();
        flow.summary_tokens_max = flow.summary_tokens_max.max(number("new_summary_tokens"));
        let share = number("after_occupancy") as f64 / window.max(1) as f64;
        flow.after_share_max = flow.after_share_max.max(share);
        let state = caller.state().await?;
        summary =
            state.pointer("/summary/content").and_then(Value::as_str).unwrap_or_default().into();
        let (own, by_chance) = (lines(&summary, &stems), lines(&random.summary(), &stems));
        for (number, fact) in facts.iter().enumerate() {
            if fact.question.evidence.is_subset(&gone) {
                first.entry(number).or_insert_with(|| (fact.read(&own), fact.read(&by_chance)));
            }
        }
    }
    let (own, by_chance) = (lines(&summary, &stems), lines(&random.summary(), &stems));
    let survived = first.iter().map(|(number, (server, random))| {
        let fact: &Fact<'_> = &facts[*number];
        let four = |first: &Read, last: Read| [first.ans, last.ans, first.link, last.link];
        Survived {
            server: four(server, fact.read(&own)),
            random: four(random, fact.read(&by_chance)),
        }
    });
    Ok((survived.collect(), flow))
}

fn body_of(message: &TalkMessage) -> Value {
    let mut body = Map::new();
    body.insert("content".into(), message.text.as_str().into());
    if let Some(name) = &message.name {
        body.insert("name".into(), name.as_str().into());
    }
    Value::Object(body)
}

impl Random {
    fn new(window: u64) -> Random {
        let counter = Tiktoken::new(Encoding::O200kBase);
        let tokens_max = (window as f64 * SUMMARY_SHARE) as u64;
        Random { row: Seeded::new(SEED), tokens_max, counter, sentences: Vec::new() }
    }

    /// Makes the next baseline summary from the sentences of the current baseline summary and of
    /// the evicted messages: selects sentences at random, up to the size limit.
    fn fold<'a>(&mut self, evicted: impl Iterator<Item = &'a TalkMessage>) {
        for message in evicted {
            let speaker = message.name.as_deref().unwrap_or(&message.role);
            let parts = message.text.split_inclusive(['.', '!', '?', '\n']).map(str::trim);
            let parts = parts.filter(|part| part.chars().any(char::is_alphanumeric));
            self.sentences.extend(parts.map(|part| format!("{speaker}: {part}")));
        }
        for at in (1..self.sentences.len()).rev() {
            self.sentences.swap(at, self.row.below(at + 1));
        }
        let mut left = self.tokens_max;
        self.sentences.retain(|sentence| {
            let cost = self.counter.count(sentence) + 1;
            let fits = cost <= left;
            left -= if fits { cost } else { 0 };
            fits
        });
    }

    fn summary(&self) -> String {
        self.sentences.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_keeps_whole_sentences_up_to_its_cap() {
        let message = |text: &str| TalkMessage {
            text: text.into(),
            role: "user".into(),
            ..TalkMessage::default()
        };
        let some = [message("One two three. Four five!"), message("… Six seven?")];
        let mut random = Random::new(1_000);
        random.fold(some.iter());
        let mut lines: Vec<String> = random.summary().lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["user: Four five!", "user: One two three.", "user: … Six seven?"]);
        let many: Vec<TalkMessage> =
            (0..200).map(|n| message(&format!("Sentence number {n} of many."))).collect();
        random.fold(many.iter());
        let tokens = Tiktoken::new(Encoding::O200kBase).count(&random.summary());
        assert!(tokens <= 150 && tokens > 130, "{tokens}");
    }
}
