//! Makes summaries with a model, which is asked again if its answer is not usable or too dissimilar
//! to the summarised texts.
//!
//! If no answer is usable, the summary of the local summariser stands.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::models::{Gateway, Summarised, echoes};
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::TokenCounter;
use vctx_core::policy::{DEGRADED, Line, SummaryWriter};
use vctx_core::text::{drift, local};

/// Maximum number of requests to a model for one summary, including the first.
const SUMMARY_ATTEMPTS_MAX: usize = 3;

/// Maximum number of attempts of the local summariser. In measurements on LoCoMo, a third one was
/// hardly ever closer than the second.
const LOCAL_ATTEMPTS_MAX: u32 = 2;

/// Minimum similarity between a summary and the summarised texts. If the similarity is lower, the
/// summary is made again (the value is from the project's specification 002, section on
/// summarisation drift).
const SIMILARITY_MIN: f64 = 0.85;
/// Similarity below which a summary seems to belong to another conversation, so that it is not
/// used. With the lexical embedder, 90 % of the summaries of other conversations have a similarity
/// below this value.
const SIMILARITY_ALARM: f64 = 0.45;

/// Length of the longest answer that is used, in percent of the maximum size. The last lines of a
/// longer answer are left out, because models count tokens differently.
const TOO_LONG_PERCENT: u64 = 125;

/// The input of a summary: the summary so far, the evicted messages and the size limits.
pub(super) struct Wanted {
    /// The summary so far.
    pub(super) previous: String,
    /// The evicted messages.
    pub(super) lines: Vec<Line>,
    /// Minimum and maximum number of tokens of the new summary.
    pub(super) tokens: RangeInclusive<u64>,
}

impl Wanted {
    /// Returns whether there are any words to summarise; from an empty input, a model would invent
    /// facts.
    fn has_words(&self) -> bool {
        has_words(&self.previous) || self.lines.iter().any(|line| has_words(&line.text))
    }
}

/// A summary with its measured quality.
struct Measured {
    content: String,
    similarity: Option<f64>,
    information: f64,
    random: f64,
}

/// Makes a summary. Returns the summary and the measurements that its event contains. If a model
/// had to write the summary and no answer was usable, the summary is empty.
pub(super) async fn summarised(
    wanted: Wanted,
    counter: Arc<dyn TokenCounter>,
    model: Option<&Gateway>,
    by: SummaryWriter,
) -> Result<(String, Map<String, Value>)> {
    let wanted = Arc::new(wanted);
    let begun = clock::now();
    let mut attempts = 0;
    let mut refused = None;
    let model = model.filter(|_| by != SummaryWriter::Local && wanted.has_words());
    if let Some(model) = model {
        match best_answer(model, &wanted, &counter, by).await {
            Ok((best, attempts)) => {
                return Ok(text_with_details("model", best, &wanted, attempts, None, begun));
            }
            Err(failed) => {
                attempts = failed.attempts;
                refused = Some(failed.refused);
                let (reason, error) = (failed.refused.text(), failed.error.map(|e| e.chain()));
                tracing::debug!(reason, error, attempts, "no answer of the summary model is used");
            }
        }
    }
    if by == SummaryWriter::Model {
        let reason = refused.unwrap_or(Refused::Empty).text();
        return Ok((String::new(), Map::from_iter([(DEGRADED.to_owned(), reason.into())])));
    }
    let work = Arc::clone(&wanted);
    let (local, tries) = off_the_io_thread(move || summarised_here(&work, &*counter)).await?;
    let attempts = refused.map_or(tries, |_| attempts);
    let alarm = match refused {
        Some(Refused::Unlike) => Some("similarity"),
        _ => (local.information > local.random).then_some("information"),
    };
    let (text, mut details) = text_with_details("local", local, &wanted, attempts, alarm, begun);
    if let Some(refused) = refused {
        details.insert(DEGRADED.into(), refused.text().into());
    }
    Ok((text, details))
}

/// Why an answer of the model is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// The model is not there, or refuses the request.
    Unavailable,
    /// The model did not answer in time.
    Late,
    /// The answer has no word.
    Empty,
    /// The answer is longer than allowed, or the model's own limit cut it.
    TooLong,
    /// The answer has far fewer tokens than the summary that it would replace.
    Shrunk,
    /// The answer repeats the instruction.
    Echo,
    /// The answer has another subject or language than the summarised texts.
    Unlike,
}

impl Refused {
    fn text(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Late => "late",
            Self::Empty => "empty",
            Self::TooLong => "too_long",
            Self::Shrunk => "shrunk",
            Self::Echo => "echo",
            Self::Unlike => "unlike",
        }
    }
}

/// The outcome when no request to the model gave a usable answer, with the number of requests.
struct Failed {
    refused: Refused,
    error: Option<Error>,
    attempts: usize,
}

/// Asks the model until an answer is similar enough, at most `SUMMARY_ATTEMPTS_MAX` times and
/// within the time limit of one answer. Returns the most similar of the usable answers.
async fn best_answer(
    model: &Gateway,
    wanted: &Arc<Wanted>,
    counter: &Arc<dyn TokenCounter>,
    by: SummaryWriter,
) -> std::result::Result<(Measured, usize), Failed> {
    let until = clock::now() + model.limit();
    let mut best: Option<Measured> = None;
    let mut last = Refused::Empty;
    for attempt in 1..=SUMMARY_ATTEMPTS_MAX {
        let tokens_max = *wanted.tokens.end();
        let ask = model.summarise(&wanted.previous, &wanted.lines, tokens_max, attempt);
        let answer = match tokio::time::timeout_at(until.into(), ask).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                let late = error.code == Code::Timeout;
                let refused = if late { Refused::Late } else { Refused::Unavailable };
                let failed = Failed { refused, error: Some(error), attempts: attempt };
                return best.map(|best| (best, attempt - 1)).ok_or(failed);
            }
            Err(_) => {
                let failed = Failed { refused: Refused::Late, error: None, attempts: attempt };
                return best.map(|best| (best, attempt - 1)).ok_or(failed);
            }
        };
        let (work, counter) = (Arc::clone(wanted), Arc::clone(counter));
        let checked = off_the_io_thread(move || checked(answer, &work, &*counter, by)).await;
        match checked {
            Ok(Ok(found)) => {
                if best.as_ref().is_none_or(|best| found.similarity > best.similarity) {
                    best = Some(found);
                }
            }
            Ok(Err(refused)) => last = refused,
            Err(error) => {
                let refused = Refused::Unavailable;
                return Err(Failed { refused, error: Some(error), attempts: attempt });
            }
        }
        // If the similarity cannot be measured, the model is not asked again.
        let near = |best: &Measured| best.similarity.is_none_or(|near| near >= SIMILARITY_MIN);
        if best.as_ref().is_some_and(near) || attempt == SUMMARY_ATTEMPTS_MAX {
            let failed = Failed { refused: last, error: None, attempts: attempt };
            return best.map(|best| (best, attempt)).ok_or(failed);
        }
        metrics::counter!(metric::SUMMARY_RETRIES).increment(1);
    }
    Err(Failed { refused: last, error: None, attempts: SUMMARY_ATTEMPTS_MAX })
}

/// Measures an answer of the model, or says why it is not used.
fn checked(
    answer: Summarised,
    wanted: &Wanted,
    counter: &dyn TokenCounter,
    by: SummaryWriter,
) -> std::result::Result<Measured, Refused> {
    let text = answer.text;
    if !has_words(&text) {
        return Err(Refused::Empty);
    }
    let tokens = counter.count(text.trim());
    if answer.is_cut || tokens > *wanted.tokens.end() * TOO_LONG_PERCENT / 100 {
        return Err(Refused::TooLong);
    }
    if echoes(&text) {
        return Err(Refused::Echo);
    }
    if by == SummaryWriter::Model && tokens < *wanted.tokens.start() {
        return Err(Refused::Shrunk);
    }
    let found = measured(text, wanted, counter);
    match found.similarity {
        Some(near) if near < SIMILARITY_ALARM => Err(Refused::Unlike),
        _ => Ok(found),
    }
}

/// Returns whether a text contains a letter or digit of any script.
fn has_words(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

async fn off_the_io_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::new(Code::Internal, "the summariser stopped").caused_by(e))
}

fn borrowed(lines: &[Line]) -> Vec<local::Line<'_>> {
    let lines = lines.iter();
    lines
        .map(|l| local::Line { seq: l.seq, day: l.day, speaker: &l.speaker, text: &l.text })
        .collect()
}

/// Makes a summary without a model. Returns the number of attempts with it.
fn summarised_here(wanted: &Wanted, counter: &dyn TokenCounter) -> (Measured, usize) {
    let batch = borrowed(&wanted.lines);
    let (previous, tokens) = (&wanted.previous, wanted.tokens.clone());
    let rule = (SIMILARITY_MIN, LOCAL_ATTEMPTS_MAX);
    let found = local::summarise_near(previous, &batch, tokens, counter, rule);
    let made = found.summary;
    let measured = Measured {
        similarity: found.similarity,
        information: made.information_drift,
        random: made.random_drift,
        content: made.content,
    };
    (measured, found.attempts as usize)
}

fn measured(content: String, wanted: &Wanted, counter: &dyn TokenCounter) -> Measured {
    let batch = borrowed(&wanted.lines);
    let (information, random) = drift::information(&content, &batch, counter);
    let similarity = drift::similarity(&content, &wanted.previous, &batch);
    Measured { content, similarity, information, random }
}

/// Number of steps into which measures from 0 to 1 are rounded, so that every JSON parser reads the
/// number that was written.
const MEASURE_UNITS: f64 = 1e6;

fn rounded(measure: f64) -> f64 {
    (measure * MEASURE_UNITS).round() / MEASURE_UNITS
}

/// Returns the summary's text, and the measurements for the event; these contain no text.
fn text_with_details(
    by: &'static str,
    made: Measured,
    wanted: &Wanted,
    attempts: usize,
    alarm: Option<&'static str>,
    begun: Instant,
) -> (String, Map<String, Value>) {
    metrics::histogram!(metric::SUMMARY_SECONDS, "by" => by).record(begun.elapsed().as_secs_f64());
    let details = json!({
        "by": by, "text_tokens_max": wanted.tokens.end(), "attempts": attempts,
        "similarity": made.similarity.map(rounded), "similarity_min": SIMILARITY_MIN,
        "information_drift": rounded(made.information), "random_drift": rounded(made.random),
        "drift_alarm": alarm.is_some(), "alarm": alarm,
    });
    (made.content, details.as_object().cloned().unwrap_or_default())
}
