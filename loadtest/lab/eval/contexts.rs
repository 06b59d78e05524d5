//! Benchmark of contexts that are built for a question: how much of the evidence a context of a
//! given size contains. All contexts are built by the public route, with the server's settings.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};

use super::bootstrap::interval;
use super::caller::Caller;
use super::corpus;
use super::evidence;
use super::host::Host;
use super::progress::Progress;
use super::ranked;
use super::report::{Report, Section, percent};
use vctx_cli::exit::Failure;
use vctx_core::memory::{Encoding, TokenCounter as _};
use vctx_core::text::Tiktoken;

/// Window of an agent that only builds contexts.
pub(super) const WINDOW: u64 = 131_072;
/// Shares of a paragraph that the context may take.
const PARAGRAPH_SHARES: [(&str, f64); 2] = [("42 %", 0.42), ("31 %", 0.31)];
/// Sizes of contexts of a meeting, in tokens.
const MEETING_TOKENS: [(&str, u64); 3] = [("1024", 1_024), ("2048", 2_048), ("4096", 4_096)];
/// Sizes of contexts of a stored conversation, in tokens.
const MEMORY_TOKENS: [(&str, u64); 2] = [("256", 256), ("512", 512)];
/// Tokens that suffice for all documents of a question.
const ALL_TOKENS: u64 = 60_000;

/// Number of messages of small talk, commands and general questions.
const COMMANDS: usize = 250;

/// The figures of one suite: for each measure, a value of each question.
pub(super) struct Figures {
    suite: &'static str,
    what: &'static str,
    values: BTreeMap<String, Vec<f64>>,
}

impl Figures {
    pub(super) fn new(suite: &'static str, what: &'static str) -> Self {
        Self { suite, what, values: BTreeMap::new() }
    }

    pub(super) fn note(&mut self, measure: &str, value: f64) {
        self.values.entry(measure.to_owned()).or_default().push(value);
    }
}

/// Runs all suites whose data exist: those in the directory, and conversations in the directory of
/// all data.
pub(super) async fn run(
    host: &Host,
    (directory, data): (&Path, &Path),
    most: usize,
) -> Result<Report, Failure> {
    let mut all = Vec::new();
    let mut skipped = Vec::new();
    let file = |name: &str| Some(directory.join(name)).filter(|path| path.is_file());
    let mut missing = |name: &str| skipped.push(format!("context: no file {name}"));
    match file("condense/xquad-en.jsonl") {
        Some(path) => all.push(paragraphs(host, &path, most).await?),
        None => missing("condense/xquad-en.jsonl"),
    }
    match file("condense/qmsum.jsonl") {
        Some(path) => all.push(meetings(host, &path, most).await?),
        None => missing("condense/qmsum.jsonl"),
    }
    match file("memory/bfcl-memory.json") {
        Some(path) => all.push(conversations(host, &path, most).await?),
        None => missing("memory/bfcl-memory.json"),
    }
    match file("grade/ramdocs.jsonl") {
        Some(path) => all.push(noise(host, &path, most).await?),
        None => missing("grade/ramdocs.jsonl"),
    }
    for suite in ranked::SUITES {
        match file(suite.file) {
            Some(path) => all.push(ranked::run(host, &path, suite, most).await?),
            None => missing(suite.file),
        }
    }
    match (file("memory/bfcl-memory.json"), file("route/clinc150.json")) {
        (Some(memory), Some(commands)) => all.push(harm(host, &memory, &commands, most).await?),
        (_, None) => missing("route/clinc150.json"),
        (None, Some(_)) => {}
    }
    for name in ["locomo", "beam"] {
        match corpus::directory(data, name) {
            Some(path) => all.push(evidence::run(host, name, &path, most).await?),
            None => skipped.push(format!("context: no directory {name}")),
        }
    }
    let mut report = Report { skipped, ..Report::default() };
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for figures in &all {
        for (measure, values) in &figures.values {
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            let (low, high) = interval(values).unwrap_or_default();
            rows.push(vec![
                format!("{} {measure}", figures.suite),
                values.len().to_string(),
                percent(mean),
                format!("{} to {}", percent(low), percent(high)),
                figures.what.to_owned(),
            ]);
            bars.push((format!("{} {measure}", figures.suite), mean * 100.0));
        }
    }
    if !rows.is_empty() {
        let heads = ["suite", "questions", "share", "from .. to", "what"];
        report.sections.push(Section {
            title: "context: evidence in contexts of a given size".to_owned(),
            heads: heads.map(str::to_owned).into(),
            rows,
            notes: Vec::new(),
            bars: bars.clone(),
        });
        report.reached = bars;
    }
    Ok(report)
}

pub(super) async fn built(caller: &Caller, body: Value) -> Result<Value, Failure> {
    caller.build_context(&body).await
}

/// Paragraphs with questions (XQuAD): whether the context has the answer.
async fn paragraphs(host: &Host, path: &Path, most: usize) -> Result<Figures, Failure> {
    let mut figures = Figures::new("xquad", "the answer is in the context");
    let counter = Tiktoken::new(Encoding::default());
    let caller = Caller::create(host.client(), host.agent("context-xquad"), WINDOW).await?;
    let rows = corpus::lines(path)?;
    let progress = Progress::new("context xquad", rows.len());
    for row in rows {
        let text = row["context"].as_str().unwrap_or_default();
        let tokens = counter.count(text) as f64;
        for asked in row["questions"].as_array().into_iter().flatten().take(most) {
            for (name, share) in PARAGRAPH_SHARES {
                let body = json!({"question": asked["question"], "documents": [{"text": text}],
                    "tokens_max": (tokens * share) as u64});
                let told = built(&caller, body).await?;
                let shown = told["text"].as_str().unwrap_or_default();
                let holds = shown.contains(asked["answer"].as_str().unwrap_or("\0"));
                figures.note(name, f64::from(u8::from(holds)));
            }
        }
        progress.add(1);
    }
    progress.close();
    Ok(figures)
}

/// Meetings with questions (QMSum): the share of the tokens of the relevant turns that the context
/// has.
async fn meetings(host: &Host, path: &Path, most: usize) -> Result<Figures, Failure> {
    let mut figures = Figures::new("qmsum", "tokens of the relevant turns in the context");
    let counter = Tiktoken::new(Encoding::default());
    let caller = Caller::create(host.client(), host.agent("context-qmsum"), WINDOW).await?;
    let rows = corpus::lines(path)?;
    let progress = Progress::new("context qmsum", rows.len());
    for row in rows {
        let (mut text, mut turns): (String, Vec<Range<usize>>) = (String::new(), Vec::new());
        for turn in row["meeting_transcripts"].as_array().into_iter().flatten() {
            let begin = text.len();
            let word = |name: &str| turn[name].as_str().unwrap_or_default().replace('\n', " ");
            text.push_str(&format!("{}: {}\n", word("speaker"), word("content")));
            turns.push(begin..text.len());
        }
        let costs: Vec<u64> = turns.iter().map(|turn| counter.count(&text[turn.clone()])).collect();
        for asked in row["specific_query_list"].as_array().into_iter().flatten().take(most) {
            let gold = relevant(&asked["relevant_text_span"], turns.len());
            let all: u64 = gold.iter().map(|at| costs[*at]).sum();
            for (name, tokens_max) in MEETING_TOKENS {
                let body = json!({"question": asked["query"], "documents": [{"text": text}],
                    "tokens_max": tokens_max});
                let told = built(&caller, body).await?;
                let spans = spans_of(&told);
                let shown = |at: &&usize| {
                    let turn = &turns[**at];
                    spans.iter().any(|span| span.start <= turn.start && turn.end <= span.end)
                };
                let found: u64 = gold.iter().filter(shown).map(|at| costs[*at]).sum();
                figures.note(name, found as f64 / all.max(1) as f64);
            }
        }
        progress.add(1);
    }
    progress.close();
    Ok(figures)
}

/// Returns the indexes of the turns in a question's spans.
fn relevant(spans: &Value, turns: usize) -> Vec<usize> {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<usize>().ok());
    let mut found: Vec<usize> = Vec::new();
    for span in spans.as_array().into_iter().flatten() {
        if let (Some(from), Some(to)) = (number(&span[0]), number(&span[1])) {
            found.extend(from..(to + 1).min(turns));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns the spans of all documents in a context.
fn spans_of(told: &Value) -> Vec<Range<usize>> {
    let sections = told["sections"].as_array().into_iter().flatten();
    let items = sections.flat_map(|section| section["items"].as_array().into_iter().flatten());
    let spans = items.flat_map(|item| item["spans"].as_array().into_iter().flatten());
    let place = |value: &Value| usize::try_from(value.as_u64().unwrap_or(0)).unwrap_or(0);
    spans.map(|span| place(&span["start"])..place(&span["end"])).collect()
}

/// Conversations with questions (BFCL memory), all of which have left the window: whether the
/// context has the answer.
async fn conversations(host: &Host, path: &Path, most: usize) -> Result<Figures, Failure> {
    let mut figures = Figures::new("bfcl memory", "the answer is in the context");
    let data = corpus::json(path)?;
    let questions = data["questions"].as_array().cloned().unwrap_or_default();
    let talks = data["conversations"].as_object().cloned().unwrap_or_default();
    let progress = Progress::new("context bfcl memory", questions.len());
    for (name, messages) in talks {
        let agent = host.agent(&format!("context-bfcl-{name}"));
        let caller = Caller::create(host.client(), agent, WINDOW).await?;
        for message in messages.as_array().into_iter().flatten() {
            let role = message["role"].as_str().unwrap_or("user");
            caller.append(role, &message["content"]).await?;
        }
        caller.evict_all().await?;
        let own = questions.iter().filter(|question| question["scenario"] == name.as_str());
        for asked in own.take(most) {
            for (size, tokens_max) in MEMORY_TOKENS {
                let body = json!({"question": asked["question"], "tokens_max": tokens_max});
                let told = built(&caller, body).await?;
                let shown = bare(told["text"].as_str().unwrap_or_default());
                let mut answers = asked["answers"].as_array().into_iter().flatten();
                let holds =
                    answers.any(|one| one.as_str().is_some_and(|one| shown.contains(&bare(one))));
                figures.note(size, f64::from(u8::from(holds)));
            }
            progress.add(1);
        }
    }
    progress.close();
    Ok(figures)
}

/// Returns the letters and digits of a text in lower case, as BFCL compares answers.
fn bare(text: &str) -> String {
    text.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Questions with good and irrelevant documents (RAMDocs): how often a good document has a better
/// grade than an irrelevant one.
async fn noise(host: &Host, path: &Path, most: usize) -> Result<Figures, Failure> {
    let mut figures = Figures::new("ramdocs", "a good document has a better grade than noise");
    let caller = Caller::create(host.client(), host.agent("context-ramdocs"), WINDOW).await?;
    let rows = corpus::lines(path)?;
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    let progress = Progress::new("context ramdocs", rows.len().min(most));
    for row in rows.iter().take(most) {
        let given = row["documents"].as_array().cloned().unwrap_or_default();
        let named = given.iter().enumerate();
        let documents: Vec<Value> =
            named.map(|(at, one)| json!({"id": at.to_string(), "text": one["text"]})).collect();
        let body = json!({"question": row["question"], "documents": documents,
            "tokens_max": ALL_TOKENS, "explain": true});
        let told = built(&caller, body).await?;
        let sections = told["sections"].as_array().into_iter().flatten();
        let shown = sections.flat_map(|section| section["items"].as_array().into_iter().flatten());
        let left_out = told["left_out"].as_array().into_iter().flatten();
        for item in shown.chain(left_out) {
            let number = item["origin"]["id"].as_str().and_then(|id| id.parse::<usize>().ok());
            let (Some(number), Some(grade)) = (number, item["grade"].as_f64()) else { continue };
            let is_noise = given.get(number).is_some_and(|one| one["type"] == "noise");
            if is_noise { &mut bad } else { &mut good }.push(grade);
        }
        progress.add(1);
    }
    progress.close();
    // The area under the ROC curve is the mean over all pairs.
    for one in &good {
        let worse = bad.iter().filter(|other| *other < one).count() as f64;
        let equal = bad.iter().filter(|other| *other == one).count() as f64;
        figures.note("AUC", (worse + equal / 2.0) / bad.len().max(1) as f64);
    }
    Ok(figures)
}

/// Messages that need no context: commands and general questions (CLINC150), and questions that the
/// window answers (BFCL memory); and questions that the memory cannot answer, of another memory.
async fn harm(
    host: &Host,
    memory: &Path,
    commands: &Path,
    most: usize,
) -> Result<Figures, Failure> {
    let mut figures = Figures::new("harm", "a context that shows something, or says nothing");
    let data = corpus::json(memory)?;
    let questions = data["questions"].as_array().cloned().unwrap_or_default();
    let talks = data["conversations"].as_object().cloned().unwrap_or_default();
    let said = corpus::json(commands)?;
    let said: Vec<Value> = said["test"].as_array().cloned().unwrap_or_default();
    let every = (said.len() / COMMANDS).max(1);
    let mut said = said.iter().step_by(every).take(COMMANDS).map(|one| one[0].clone());
    let progress = Progress::new("context harm", talks.len());
    let each = COMMANDS.div_ceil(talks.len().max(1));
    for (name, messages) in &talks {
        let agent = host.agent(&format!("context-harm-{name}"));
        let caller = Caller::create(host.client(), agent, WINDOW).await?;
        for message in messages.as_array().into_iter().flatten() {
            caller.append(message["role"].as_str().unwrap_or("user"), &message["content"]).await?;
        }
        let shows = |told: &Value| f64::from(u8::from(told["found"] == true));
        let is_own = |question: &&Value| question["scenario"] == name.as_str();
        for asked in questions.iter().filter(is_own).take(most) {
            let told = built(&caller, json!({"question": asked["question"]})).await?;
            figures.note("answered by the window", shows(&told));
        }
        caller.evict_all().await?;
        for text in said.by_ref().take(each.min(most)) {
            caller.append("user", &text).await?;
            figures.note("commands", shows(&built(&caller, json!({})).await?));
        }
        for asked in questions.iter().filter(|one| !is_own(one)).step_by(3).take(most) {
            let told = built(&caller, json!({"question": asked["question"]})).await?;
            figures.note("unanswerable, says so", 1.0 - shows(&told));
        }
        progress.add(1);
    }
    progress.close();
    Ok(figures)
}
