//! Summaries: a model is asked, again while its answer is empty or too far from what it folds, and the best is kept; else the local summariser answers.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::models::Gateway;
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{MODEL_MS_MAX, SUMMARY_ATTEMPTS_MAX};
use vctx_core::memory::TokenCounter;
use vctx_core::policy::Line;
use vctx_core::text::{drift, local};

/// Least similarity of a summary to its sources before a model is asked again (seed 002, summarisation drift).
const SIMILARITY_MIN: f64 = 0.85;
/// Below this the summary is about something else: 90 % of the summaries of other conversations lie under it, with an embedder of hashed words.
const SIMILARITY_ALARM: f64 = 0.45;

/// What is to be folded into what.
pub(super) struct Wanted {
    /// The old summary.
    pub(super) previous: String,
    /// What leaves the queue.
    pub(super) lines: Vec<Line>,
    /// Least and most tokens of the new text.
    pub(super) tokens: RangeInclusive<u64>,
}

impl Wanted {
    /// Whether there is anything to fold. A model would invent what is not there.
    fn has_words(&self) -> bool {
        has_words(&self.previous) || self.lines.iter().any(|line| has_words(&line.text))
    }
}

/// A summary and what was measured of it.
struct Measured {
    content: String,
    similarity: Option<f64>,
    information: f64,
    random: f64,
}

/// The summary with the numbers about it for the event.
pub(super) async fn summarised(
    wanted: Wanted,
    counter: Arc<dyn TokenCounter>,
    model: Option<&Gateway>,
) -> Result<(String, Map<String, Value>)> {
    let wanted = Arc::new(wanted);
    let begun = clock::now();
    let mut attempts = 1;
    if let Some(model) = model.filter(|_| wanted.has_words()) {
        match asked(model, &wanted, &counter).await {
            Ok((best, attempts)) => {
                let similarity = best.similarity.filter(|s| *s < SIMILARITY_ALARM);
                let alarm = similarity.map(|_| "similarity");
                return Ok(told("model", best, &wanted, attempts, alarm, begun));
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
    Ok(told("local", local, &wanted, attempts, alarm, begun))
}

/// A model without one answer to keep, and how often it was asked.
struct Failed {
    error: Error,
    attempts: usize,
}

/// Asks until an answer is near enough, at most `SUMMARY_ATTEMPTS_MAX` times and no longer than one
/// answer may take; the best one counts. Refusals, filters and an early end of the tokens give an
/// empty text, which is no summary.
async fn asked(
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
        // Where there is no similarity no answer can be nearer.
        let near = |best: &Measured| best.similarity.is_none_or(|near| near >= SIMILARITY_MIN);
        if best.as_ref().is_some_and(near) || attempt == SUMMARY_ATTEMPTS_MAX {
            return best.map(|best| (best, attempt)).ok_or(failed(empty()));
        }
        metrics::counter!(metric::SUMMARY_RETRIES).increment(1);
    }
    Err(Failed { error: late(), attempts: SUMMARY_ATTEMPTS_MAX })
}

/// Whether a text says anything: a letter or a digit, in whatever script.
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
    lines.iter().map(|l| local::Line { speaker: &l.speaker, text: &l.text }).collect()
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

/// The text, and its numbers as the events carry them; never text.
fn told(
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
        "similarity": made.similarity, "similarity_min": SIMILARITY_MIN,
        "information_drift": made.information, "random_drift": made.random,
        "drift_alarm": alarm.is_some(), "alarm": alarm,
    });
    (made.content, details.as_object().cloned().unwrap_or_default())
}
