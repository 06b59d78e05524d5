//! Part a: the best twenty of many short texts by BM25, through AQL and beside plain tantivy.

use std::collections::HashSet;
use std::time::Instant;

use serde_json::{Value, json};

use super::figures::{Figures, Goal, Row, mean, quantile, ratio};
use super::made::Texts;
use super::target::{Connection, Target, cursor_body, timed};
use crate::Fault;

/// Rows of an answer.
pub(crate) const BEST: usize = 20;
/// Processor time against tantivy's.
const RATIO_MAX: f64 = 1.3;
/// Rounds over all questions, and how long view and index are waited for.
const ROUNDS: usize = 3;
/// Bytes of one load.
const BATCH_BYTES: usize = 1 << 20;

const KEYS: &str = "FOR m IN texts_view SEARCH ANALYZER(m.text IN TOKENS(@q, 'plain_words'), 'plain_words') \
                    SORT BM25(m) DESC LIMIT 20 RETURN m._key";
const TEXTS: &str = "FOR m IN texts_view SEARCH ANALYZER(m.text IN TOKENS(@q, 'plain_words'), 'plain_words') \
                     SORT BM25(m) DESC LIMIT 20 RETURN [m._key, m.text]";

/// What the load took.
pub(crate) struct Loaded {
    pub(crate) insert_seconds: f64,
    pub(crate) index_seconds: f64,
    pub(crate) text_bytes: u64,
    /// Bytes on disk, and resident memory in MiB: now, at its highest, and what of it is no file.
    pub(crate) disk_bytes: u64,
    pub(crate) resident_mib: (f64, f64, f64),
}

impl Loaded {
    fn of(target: &Target, seconds: (f64, f64), text_bytes: u64) -> Result<Self, Fault> {
        target.quiet()?;
        let (now, highest) = target.resident_mib()?;
        Ok(Self {
            insert_seconds: seconds.0,
            index_seconds: seconds.1,
            text_bytes,
            disk_bytes: target.disk_bytes()?,
            resident_mib: (now, highest, target.anonymous_mib()?),
        })
    }
}

/// Stores the messages, with a persistent index over their number and a view over their text.
pub(crate) fn load(
    target: &Target,
    texts: &Texts,
    count: u64,
    view: bool,
) -> Result<Loaded, Fault> {
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
        return Loaded::of(target, (insert_seconds, 0.0), text_bytes);
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
    Loaded::of(target, (insert_seconds, index_seconds), text_bytes)
}

/// Waits until a word is found in the view.
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

/// One side's times and keys by question.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) wall: Vec<f64>,
    pub(crate) cpu: Vec<f64>,
    pub(crate) inside: Vec<f64>,
    pub(crate) keys: Vec<Vec<u64>>,
}

impl Asked {
    /// Of several rounds over the same questions, the median of each question: what disturbed one round is gone.
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

fn ask(target: &Target, query: &str, questions: &[String]) -> Result<Asked, Fault> {
    let mut connection = target.connect()?;
    let mut asked = Asked::default();
    for question in questions {
        let body = cursor_body(query, &json!({"q": question}));
        let one = timed(target, &mut connection, &body)?;
        asked.wall.push(one.wall);
        asked.cpu.push(one.cpu);
        asked.inside.push(one.inside);
        asked.keys.push(one.keys);
    }
    Ok(asked)
}

/// The share of the keys that both sides found, over all questions.
fn overlap(ours: &[Vec<u64>], theirs: &[Vec<u64>]) -> f64 {
    let (mut both, mut all) = (0, 0);
    for (ours, theirs) in ours.iter().zip(theirs) {
        let ours: HashSet<u64> = ours.iter().copied().collect();
        both += theirs.iter().filter(|key| ours.contains(key)).count();
        all += theirs.len();
    }
    if all == 0 { 1.0 } else { both as f64 / all as f64 }
}

/// The other side, if this program was built with it.
#[cfg(feature = "comparators")]
type Other = super::tantivy::Plain;
#[cfg(not(feature = "comparators"))]
type Other = std::convert::Infallible;

#[cfg(feature = "comparators")]
fn other(
    other: Option<&Other>,
    questions: &[String],
    stored: bool,
) -> Result<Option<Asked>, Fault> {
    other.map(|plain| plain.ask(questions, stored)).transpose()
}

#[cfg(not(feature = "comparators"))]
fn other(_: Option<&Other>, _: &[String], _: bool) -> Result<Option<Asked>, Fault> {
    Ok(None)
}

/// Asks all kinds of questions in turns.
pub(crate) fn measure(
    target: &Target,
    texts: &Texts,
    count: u64,
    each: u64,
    plain: Option<&Other>,
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
            let ours = Asked::medians(&ours);
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
                let theirs = Asked::medians(&theirs);
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

/// The first value of the first row of a query.
pub(crate) fn first(
    connection: &mut Connection,
    query: &str,
    binds: &Value,
) -> Result<Value, Fault> {
    Ok(connection.query(query, binds)?["result"][0].clone())
}
