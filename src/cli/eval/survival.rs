//! Survival of facts in the summary: conversations flow through a small window, and after each flush the summary is read.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::bootstrap::interval;
use super::caller::Caller;
use super::corpus::{Question, Talk};
use super::host::Host;
use super::locomo::ADVERSARIAL;
use super::progress::Progress;
use super::recall::side_by_side;
use super::report::{Report, Section, percent};
use super::stems::Stems;
use crate::cli::exit::Failure;
use crate::client::Client;

/// Windows in which facts have to survive.
pub(super) const WINDOWS: [u64; 2] = [4096, 8192];
/// Names of the four measures.
const MEASURES: [&str; 4] = ["ans first", "ans final", "link first", "link final"];

/// A fact and what of it stands in the summary right after the flush that took its last evidence, and at the end.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Survived {
    ans: [f64; 2],
    link: [f64; 2],
}

/// A question as stems.
struct Fact<'a> {
    question: &'a Question,
    /// Stems of the answer that stand in the evidence; never empty.
    answer: HashSet<String>,
    asked: HashSet<String>,
}

/// What the window did while a conversation was played.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    flushes: usize,
    evicted: usize,
    summary_tokens_max: u64,
    /// Highest share of the window that queue and summary took right after a flush.
    after_share_max: f64,
}

/// Runs all windows over all talks.
pub(super) async fn run(host: &Host, talks: Vec<Talk>) -> Result<Report, Failure> {
    let mut rows = Vec::new();
    let mut reached = Vec::new();
    let mut notes = vec![
        "facts: questions of categories 1 to 4 whose evidence was evicted whole and holds a stem of the answer".to_owned(),
        "ans: share of those stems in the summary; link: a line holds a stem of the answer and one of the question".to_owned(),
    ];
    let talks = Arc::new(talks);
    for window in WINDOWS {
        let (survived, flow) = in_window(host, &talks, window).await?;
        let value = |of: fn(&Survived) -> f64| survived.iter().map(of).collect::<Vec<f64>>();
        let columns =
            [value(|s| s.ans[0]), value(|s| s.ans[1]), value(|s| s.link[0]), value(|s| s.link[1])];
        let mut row =
            vec![window.to_string(), survived.len().to_string(), flow.flushes.to_string()];
        let mut doubts = Vec::new();
        for (name, values) in MEASURES.iter().zip(&columns) {
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            row.push(percent(mean));
            reached.push((format!("survival {window} {name}"), mean * 100.0));
            let (low, high) = interval(values).unwrap_or_default();
            doubts.push(format!("{name} {} to {}", percent(low), percent(high)));
        }
        rows.push(row);
        notes.push(format!(
            "{window}: 95 % intervals: {}; {} messages evicted; summary at most {} tokens; window at most {} % full after a flush",
            doubts.join(", "), flow.evicted, flow.summary_tokens_max, percent(flow.after_share_max)
        ));
    }
    let mut heads = vec!["window".to_owned(), "facts".to_owned(), "flushes".to_owned()];
    heads.extend(MEASURES.map(str::to_owned));
    let bars = reached.clone();
    let title = "survival: facts in the summary after real evictions".to_owned();
    let section = Section { title, heads, rows, notes, bars };
    Ok(Report { sections: vec![section], reached, ..Report::default() })
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

async fn play(
    caller: &Caller,
    talk: &Talk,
    window: u64,
    progress: &Progress,
) -> Result<(Vec<Survived>, Window), Failure> {
    let stems = Stems::new();
    let facts = facts(talk, &stems);
    let mut flow = Window::default();
    let mut first: HashMap<usize, Read> = HashMap::new();
    let mut gone: BTreeSet<usize> = BTreeSet::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut summary = String::new();
    for (at, said) in talk.messages.iter().enumerate() {
        let mut message = Map::new();
        message.insert("content".into(), said.text.as_str().into());
        if let Some(name) = &said.name {
            message.insert("name".into(), name.as_str().into());
        }
        let (seq, answer) = caller.append(&said.role, &Value::Object(message)).await?;
        places.insert(seq, at);
        progress.add(1);
        let Some(flush) = answer.get("flush").filter(|flush| flush.is_object()) else { continue };
        let number = |name: &str| flush.get(name).and_then(Value::as_u64).unwrap_or(0);
        let left = number("first_seq")..=number("last_seq");
        gone.extend(left.filter_map(|seq| places.get(&seq).copied()));
        flow.flushes += 1;
        flow.evicted = gone.len();
        flow.summary_tokens_max = flow.summary_tokens_max.max(number("new_summary_tokens"));
        let share = number("after_occupancy") as f64 / window.max(1) as f64;
        flow.after_share_max = flow.after_share_max.max(share);
        let state = caller.state().await?;
        summary =
            state.pointer("/summary/content").and_then(Value::as_str).unwrap_or_default().into();
        let lines = lines(&summary, &stems);
        for (number, fact) in facts.iter().enumerate() {
            if fact.question.evidence.is_subset(&gone) {
                first.entry(number).or_insert_with(|| fact.read(&lines));
            }
        }
    }
    let lines = lines(&summary, &stems);
    let survived = first.iter().map(|(number, first)| {
        let last = facts[*number].read(&lines);
        Survived { ans: [first.ans, last.ans], link: [first.link, last.link] }
    });
    Ok((survived.collect(), flow))
}

/// Questions whose answer can be read off their evidence. The names of those who speak count for nothing: they stand in front of the
/// lines of any summary.
fn facts<'a>(talk: &'a Talk, stems: &Stems) -> Vec<Fact<'a>> {
    let names: HashSet<String> = talk
        .messages
        .iter()
        .filter_map(|said| said.name.as_deref())
        .flat_map(|name| stems.of(name))
        .collect();
    let asked = talk.questions.iter().filter(|question| question.group != ADVERSARIAL);
    let fact = |question: &'a Question| {
        let texts = question.evidence.iter().map(|at| stems.of(&talk.messages[*at].text));
        let evidence: HashSet<String> = texts.flatten().collect();
        let without = |text: &str| {
            let all = stems.of(text);
            all.difference(&names).cloned().collect::<HashSet<String>>()
        };
        let answer: HashSet<String> =
            without(&question.answer).intersection(&evidence).cloned().collect();
        (!answer.is_empty()).then(|| Fact { question, answer, asked: without(&question.text) })
    };
    asked.filter_map(fact).collect()
}

/// The lines of a summary as stems.
fn lines(summary: &str, stems: &Stems) -> Vec<HashSet<String>> {
    summary.lines().map(|line| stems.of(line)).collect()
}

/// How much of a fact stands in a summary.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Read {
    ans: f64,
    link: f64,
}

impl Fact<'_> {
    fn read(&self, lines: &[HashSet<String>]) -> Read {
        let held = self.answer.iter().filter(|stem| lines.iter().any(|line| line.contains(*stem)));
        let ans = held.count() as f64 / self.answer.len() as f64;
        let links = |line: &HashSet<String>| {
            !line.is_disjoint(&self.answer) && !line.is_disjoint(&self.asked)
        };
        Read { ans, link: if lines.iter().any(links) { 1.0 } else { 0.0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::eval::corpus::Said;

    fn talk() -> Talk {
        let said =
            |text: &str| Said { text: text.into(), name: Some("Ida".into()), ..Said::default() };
        let asked = |text: &str, answer: &str, group: &str| Question {
            text: text.into(),
            answer: answer.into(),
            group: group.into(),
            evidence: [0].into(),
            update: None,
        };
        Talk {
            messages: vec![said("I flew a red kite at the harbour")],
            questions: vec![
                asked("What colour was the kite of Ida?", "a red one of Ida, in 2024", "4"),
                asked("When?", "in 2024", "2"),
                asked("Who?", "red", "5"),
            ],
            ..Talk::default()
        }
    }

    #[test]
    fn only_what_the_evidence_says_is_a_fact() {
        let (talk, stems) = (talk(), Stems::new());
        let facts = facts(&talk, &stems);
        assert_eq!(facts.len(), 1);
        assert_eq!(facts[0].answer, HashSet::from(["red".to_owned()]));
    }

    #[test]
    fn an_answer_counts_anywhere_and_a_link_within_a_line() {
        let (talk, stems) = (talk(), Stems::new());
        let fact = &facts(&talk, &stems)[0];
        for (summary, ans, link) in [
            ("Ida: flew red kites", 1.0, 1.0),
            ("Ida: red wine\nIda: a kite", 1.0, 0.0),
            ("Ida: kite", 0.0, 0.0),
            ("", 0.0, 0.0),
        ] {
            assert_eq!(fact.read(&lines(summary, &stems)), Read { ans, link }, "{summary}");
        }
    }
}
