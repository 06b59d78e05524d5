//! Makes summaries with a model, which is asked again if its answer is empty or too dissimilar to
//! the summarised texts.
//!
//! If no answer is usable, the local summariser makes the summary.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::models::Gateway;
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::MODEL_MS_MAX;
use vctx_core::memory::TokenCounter;
use vctx_core::policy::Line;
use vctx_core::text::{drift, local};

/// Maximum number of requests to a model for one summary, including the first.
const SUMMARY_ATTEMPTS_MAX: usize = 3;

/// Minimum similarity between a summary and the summarised texts. If the similarity is lower, the
/// model is asked again (the value is from the project's specification 002, section on
/// summarisation drift).
const SIMILARITY_MIN: f64 = 0.85;
/// Similarity below which a summary seems to belong to another conversation. With the lexical
/// embedder, 90 % of the summaries of other conversations have a similarity below this value.
const SIMILARITY_ALARM: f64 = 0.45;

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

/// Makes a summary. Returns the summary and the measurements that its event contains.
pub(super) async fn summarised(
    wanted: Wanted,
    counter: Arc<dyn TokenCounter>,
    model: Option<&Gateway>,
) -> Result<(String, Map<String, Value>)> {
    let wanted = Arc::new(wanted);
    let begun = clock::now();
    let mut attempts = 1;
    if let Some(model) = model.filter(|_| wanted.has_words()) {
        match best_answer(model, &wanted, &counter).await {
            Ok((best, attempts)) => {
                let similarity = best.similarity.filter(|s| *s < SIMILARITY_ALARM);
                let alarm = similarity.map(|_| "similarity");
                return Ok(text_with_details("model", best, &wanted, attempts, alarm, begun));
            }
            Err(failed) => {
                attempts = failed.attempts;
                tracing::warn!(
                    error = failed.error.chain(),
                    "summary model failed; the local summariser answers"
                );
            }
        }
    }
    let work = Arc::clone(&wanted);
    let local = off_the_io_thread(move || summarised_here(&work, &*counter)).await?;
    let alarm = (local.information > local.random).then_some("information");
    Ok(text_with_details("local", local, &wanted, attempts, alarm, begun))
}

/// The error when no request to the model gave a usable answer, with the number of requests.
struct Failed {
    error: Error,
    attempts: usize,
}

/// Asks the model until an answer is similar enough, at most `SUMMARY_ATTEMPTS_MAX` times and
/// within the time limit of one answer. Returns the model's best answer. A refused, filtered or
/// truncated answer counts as empty, and is not a summary.
async fn best_answer(
    model: &Gateway,
    wanted: &Arc<Wanted>,
    counter: &Arc<dyn TokenCounter>,
) -> std::result::Result<(Measured, usize), Failed> {
    let until = clock::now() + Duration::from_millis(MODEL_MS_MAX);
    let mut best: Option<Measured> = None;
    for attempt in 1..=SUMMARY_ATTEMPTS_MAX {
        let tokens_max = *wanted.tokens.end();
        let ask = model.summarise(&wanted.previous, &wanted.lines, tokens_max, attempt);
        let answer = tokio::time::timeout_at(until.into(), ask).await;
        let answer = answer.unwrap_or_else(|_| Err(late()));
        let failed = |error| Failed { error, attempts: attempt };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return best.map(|best| (best, attempt - 1)).ok_or(failed(error)),
        };
        if has_words(&answer) {
            let (work, counter) = (Arc::clone(wanted), Arc::clone(counter));
            let found = off_the_io_thread(move || measured(answer, &work, &*counter)).await;
            let found = found.map_err(failed)?;
            if best.as_ref().is_none_or(|best| found.similarity > best.similarity) {
                best = Some(found);
            }
        }
        // If the similarity cannot be measured, the model is not asked again.
        let near = |best: &Measured| best.similarity.is_none_or(|near| near >= SIMILARITY_MIN);
        if best.as_ref().is_some_and(near) || attempt == SUMMARY_ATTEMPTS_MAX {
            return best.map(|best| (best, attempt)).ok_or(failed(empty()));
        }
        metrics::counter!(metric::SUMMARY_RETRIES).increment(1);
    }
    Err(Failed { error: late(), attempts: SUMMARY_ATTEMPTS_MAX })
}

/// Returns whether a text contains a letter or digit of any script.
fn has_words(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

fn empty() -> Error {
    Error::new(Code::Internal, "the model answered without a word")
}

fn late() -> Error {
    Error::new(Code::Timeout, "the model did not answer in time")
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

fn summarised_here(wanted: &Wanted, counter: &dyn TokenCounter) -> Measured {
    let batch = borrowed(&wanted.lines);
    let made = local::summarise(&wanted.previous, &batch, wanted.tokens.clone(), counter);
    Measured {
        similarity: drift::similarity(&made.content, &wanted.previous, &batch),
        information: made.information_drift,
        random: made.random_drift,
        content: made.content,
    }
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
