//! Part a of the engine benchmark: searches for the twenty best of many short texts by BM25, with
//! AQL queries and with plain tantivy.

use std::collections::HashSet;
use std::time::Instant;

use serde_json::{Value, json};

use super::figures::{Figures, Goal, Row, mean, quantile, ratio};
use super::made::Texts;
use super::target::{Connection, Target, cursor_body, timed};
use crate::Fault;

/// Number of rows in the answer to a text search.
pub(crate) const BEST: usize = 20;
/// Goal: maximum ratio of the engine's processor time to tantivy's processor time.
const RATIO_MAX: f64 = 1.3;
/// Number of rounds over all questions.
const ROUNDS: usize = 3;
/// Size in bytes of one request that inserts texts.
const BATCH_BYTES: usize = 1 << 20;

const KEYS: &str = "FOR m IN texts_view SEARCH ANALYZER(m.text IN TOKENS(@q, 'plain_words'), 'plain_words') \
                    SORT BM25(m) DESC LIMIT 20 RETURN m._key";
const TEXTS: &str = "FOR m IN texts_view SEARCH ANALYZER(m.text IN TOKENS(@q, 'plain_words'), 'plain_words') \
                     SORT BM25(m) DESC LIMIT 20 RETURN [m._key, m.text]";

/// Durations and sizes measured while all texts were inserted and indexed.
pub(crate) struct Load {
    pub(crate) insert_seconds: f64,
    pub(crate) index_seconds: f64,
    pub(crate) text_bytes: u64,
    /// Bytes on disk, and main memory in MiB: resident, peak resident, and resident without mapped
    /// files.
    pub(crate) disk_bytes: u64,
    pub(crate) memory_mib: (f64, f64, f64),
}

impl Load {
    fn of(target: &Target, seconds: (f64, f64), text_bytes: u64) -> Result<Self, Fault> {
        target.quiet()?;
        Ok(Self {
            insert_seconds: seconds.0,
            index_seconds: seconds.1,
            text_bytes,
            disk_bytes: target.disk_bytes()?,
            memory_mib: target.memory_mib()?,
        })
    }
}

/// Stores the messages, with a persistent index over the message numbers and a view over the texts.
pub(crate) fn load(target: &Target, texts: &Texts, count: u64, view: bool) -> Result<Load, Fault> {
    let mut connection = target.connect()?;
    connection.make("/_api/collection", &json!({"name": "texts"}))?;
    let index = json!({"type": "persistent", "name": "by_number", "fields": ["n"]});
    connection.make("/_api/index?collection=texts", &index)?;
    let begun = Instant::now();
    let (mut batch, mut text_bytes) = (Vec::with_capacity(2 * BATCH_BYTES), 0);
    for number in 0..count {
        let text = texts.get(number);
        text_bytes += text.len() as u64;
        batch.push(if batch.is_empty() { b'[' } else { b',' });
        let document =
            json!({"_key": number.to_string(), "n": number, "role": "user", "text": text});
        serde_json::to_writer(&mut batch, &document)?;
        if batch.len() >= BATCH_BYTES || number + 1 == count {
            batch.push(b']');
            connection.insert("texts", &batch)?;
            batch.clear();
        }
    }
    let insert_seconds = begun.elapsed().as_secs_f64();
    if !view {
        return Load::of(target, (insert_seconds, 0.0), text_bytes);
    }
    let begun = Instant::now();
    let analyzer = json!({
        "name": "plain_words", "type": "text", "features": ["frequency", "norm", "position"],
        "properties": {"locale": "en", "case": "lower", "stopwords": [], "accent": true, "stemming": false},
    });
    connection.make("/_api/analyzer", &analyzer)?;
    let links = json!({"texts": {"fields": {"text": {"analyzers": ["plain_words"]}}}});
    connection.make(
        "/_api/view",
        &json!({"name": "texts_view", "type": "arangosearch", "links": links}),
    )?;
    wait_for(&mut connection, &format!("id{}x", count - 1))?;
    let index_seconds = begun.elapsed().as_secs_f64();
    Load::of(target, (insert_seconds, index_seconds), text_bytes)
}

/// Waits until the view finds a given word.
fn wait_for(connection: &mut Connection, word: &str) -> Result<(), Fault> {
    let answer = connection.query(
        "FOR m IN texts_view SEARCH ANALYZER(m.text == @q, 'plain_words') OPTIONS { waitForSync: true } RETURN m._key",
        &json!({"q": word}),
    )?;
    match answer["result"].as_array().map(Vec::len) {
        Some(1) => Ok(()),
        _ => Err(format!("the last text is not found in the view: {answer}").into()),
    }
}

/// Times and result keys of the engine or of tantivy, by question.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) wall: Vec<f64>,
    pub(crate) cpu: Vec<f64>,
    pub(crate) inside: Vec<f64>,
    pub(crate) keys: Vec<Vec<u64>>,
}

impl Answers {
    /// Returns the median of each question's times over several rounds, so that one disturbed round
    /// has no effect.
    pub(crate) fn medians(rounds: &[Self]) -> Self {
        let count = rounds.first().map_or(0, |round| round.wall.len());
        let of = |take: fn(&Self) -> &Vec<f64>| -> Vec<f64> {
            let one = |at: usize| {
                let values: Vec<f64> =
                    rounds.iter().filter_map(|round| take(round).get(at).copied()).collect();
                quantile(&values, 0.5)
            };
            (0..count).filter_map(one).collect()
        };
        Self {
            wall: of(|a| &a.wall),
            cpu: of(|a| &a.cpu),
            inside: of(|a| &a.inside),
            keys: rounds.first().map(|round| round.keys.clone()).unwrap_or_default(),
        }
    }
}

fn ask(target: &Target, query: &str, questions: &[String]) -> Result<Answers, Fault> {
    let mut connection = target.connect()?;
    let mut answers = Answers::default();
    for question in questions {
        let body = cursor_body(query, &json!({"q": question}));
        let one = timed(target, &mut connection, &body)?;
        answers.wall.push(one.wall);
        answers.cpu.push(one.cpu);
        answers.inside.push(one.inside);
        answers.keys.push(one.keys);
    }
    Ok(answers)
}

/// Returns the share of tantivy's result keys that the engine found, over all questions.
fn overlap(ours: &[Vec<u64>], theirs: &[Vec<u64>]) -> f64 {
    let (mut both, mut all) = (0, 0);
    for (ours, theirs) in ours.iter().zip(theirs) {
        let ours: HashSet<u64> = ours.iter().copied().collect();
        both += theirs.iter().filter(|key| ours.contains(key)).count();
        all += theirs.len();
    }
    if all == 0 { 1.0 } else { both as f64 / all as f64 }
}

/// Tantivy, if this program was built with the feature `comparators`.
#[cfg(feature = "comparators")]
type TextComparator = super::tantivy::Plain;
#[cfg(not(feature = "comparators"))]
type TextComparator = std::convert::Infallible;

#[cfg(feature = "comparators")]
fn other(
    other: Option<&TextComparator>,
    questions: &[String],
    stored: bool,
) -> Result<Option<Answers>, Fault> {
    other.map(|plain| plain.ask(questions, stored)).transpose()
}

#[cfg(not(feature = "comparators"))]
fn other(_: Option<&TextComparator>, _: &[String], _: bool) -> Result<Option<Answers>, Fault> {
    Ok(None)
}

/// Measures the engine and tantivy with each kind of text question.
pub(crate) fn measure(
    target: &Target,
    texts: &Texts,
    count: u64,
    each: u64,
    plain: Option<&TextComparator>,
) -> Result<Vec<Row>, Fault> {
    let mut rows = Vec::new();
    for (kind, questions) in texts.questions(count, each) {
        for (query, what, stored) in [(KEYS, "keys", false), (TEXTS, "keys and texts", true)] {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            ask(target, query, &questions[..questions.len().min(20)])?;
            for _ in 0..ROUNDS {
                ours.push(ask(target, query, &questions)?);
                theirs.extend(other(plain, &questions, stored)?);
            }
            let ours = Answers::medians(&ours);
            let engine = Figures::of(&ours.wall, &ours.cpu);
            let inside = quantile(&ours.inside, 0.5).unwrap_or(0.0);
            let found = mean(&ours.keys.iter().map(|keys| keys.len() as f64).collect::<Vec<_>>());
            let mut note = format!(
                "{} questions, {:.1} hits each; engine's own time p50 {inside:.0} µs, p99 {:.0}",
                questions.len(),
                found.unwrap_or(0.0),
                quantile(&ours.inside, 0.99).unwrap_or(0.0)
            );
            let mut other = None;
            let mut is = None;
            if !theirs.is_empty() {
                let theirs = Answers::medians(&theirs);
                let figures = Figures::of(&theirs.wall, &theirs.cpu);
                is = ratio(engine.cpu_p50, figures.cpu_p50);
                note += &format!(
                    "; {:.3} of tantivy's keys are among them; p99 wall ratio {:.2}",
                    overlap(&ours.keys, &theirs.keys),
                    ratio(engine.wall_p99, figures.wall_p99).unwrap_or(0.0)
                );
                other = Some((
                    format!("tantivy, {}", if stored { "with stored texts" } else { "ids" }),
                    figures,
                ));
            }
            rows.push(Row {
                part: 'a',
                what: format!("BM25 top {BEST}, {kind}, {what}"),
                engine,
                other,
                basis: "CPU p50",
                is,
                goal: Some(Goal::AtMost(RATIO_MAX)),
                note,
            });
        }
    }
    Ok(rows)
}

/// Returns the first value in the first row of a query's result.
pub(crate) fn first(
    connection: &mut Connection,
    query: &str,
    binds: &Value,
) -> Result<Value, Fault> {
    Ok(connection.query(query, binds)?["result"][0].clone())
}
