//! Survival of facts in the summary: conversations flow through a small window, and after each flush the summary is read.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::bootstrap::interval;
use super::caller::Caller;
use super::corpus::{Said, Talk};
use super::facts::{Fact, Read, facts, lines};
use super::host::Host;
use super::progress::Progress;
use super::recall::side_by_side;
use super::report::{Report, Section, percent};
use super::seeded::Seeded;
use super::stems::Stems;
use vctx_cli::exit::Failure;
use vctx_client::Client;
use vctx_core::memory::{Encoding, TokenCounter as _};
use vctx_core::text::Tiktoken;

/// Windows in which facts have to survive.
const WINDOWS: [u64; 2] = [4096, 8192];
/// Names of the four measures.
const MEASURES: [&str; 4] = ["ans first", "ans final", "link first", "link final"];
/// Share of the window that a summary may take (seed 002), for the baseline as for the server.
const SUMMARY_SHARE: f64 = 0.15;
/// Seed of the baseline's chance.
const SEED: u64 = 7;

/// What of a fact stands in the summary right after the flush that took its last evidence, and at the end: the four measures, for the
/// server and for the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Survived {
    server: [f64; 4],
    random: [f64; 4],
}

/// What the window did while a conversation was played.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    flushes: usize,
    evicted: usize,
    summary_tokens_max: u64,
    /// Highest share of the window that was taken right after a flush.
    after_share_max: f64,
}

/// The baseline: sentences of the last summary and of what was evicted, picked by chance up to the cap.
struct Random {
    row: Seeded,
    tokens_max: u64,
    counter: Tiktoken,
    sentences: Vec<String>,
}

/// Runs all windows over all talks.
pub(super) async fn run(host: &Host, talks: Vec<Talk>) -> Result<Report, Failure> {
    let mut rows = Vec::new();
    let mut reached = Vec::new();
    let mut notes = vec![
        "facts: questions of categories 1 to 4 whose evidence was evicted whole and holds a stem of the answer".to_owned(),
        "ans: share of those stems in the summary; link: a line holds a stem of the answer and one of the question".to_owned(),
        "random: sentences picked by chance up to the same cap; better by: paired bootstrap, 95 % interval".to_owned(),
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

/// A fact when its last evidence had just left: read off the server's summary and off the baseline's.
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
    for (at, said) in talk.messages.iter().enumerate() {
        let (seq, answer) = caller.append(&said.role, &message(said)).await?;
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

fn message(said: &Said) -> Value {
    let mut message = Map::new();
    message.insert("content".into(), said.text.as_str().into());
    if let Some(name) = &said.name {
        message.insert("name".into(), name.as_str().into());
    }
    Value::Object(message)
}

impl Random {
    fn new(window: u64) -> Random {
        let counter = Tiktoken::new(Encoding::O200kBase);
        let tokens_max = (window as f64 * SUMMARY_SHARE) as u64;
        Random { row: Seeded::new(SEED), tokens_max, counter, sentences: Vec::new() }
    }

    /// Takes in what was evicted.
    fn fold<'a>(&mut self, evicted: impl Iterator<Item = &'a Said>) {
        for said in evicted {
            let speaker = said.name.as_deref().unwrap_or(&said.role);
            let parts = said.text.split_inclusive(['.', '!', '?', '\n']).map(str::trim);
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
        let said = |text: &str| Said { text: text.into(), role: "user".into(), ..Said::default() };
        let some = [said("One two three. Four five!"), said("… Six seven?")];
        let mut random = Random::new(1_000);
        random.fold(some.iter());
        let mut lines: Vec<String> = random.summary().lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["user: Four five!", "user: One two three.", "user: … Six seven?"]);
        let many: Vec<Said> =
            (0..200).map(|n| said(&format!("Sentence number {n} of many."))).collect();
        random.fold(many.iter());
        let tokens = Tiktoken::new(Encoding::O200kBase).count(&random.summary());
        assert!(tokens <= 150 && tokens > 130, "{tokens}");
    }
}
