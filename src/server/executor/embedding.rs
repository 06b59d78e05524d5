//! Embeds texts with the embedder of a given fingerprint.
//!
//! If the embedder fails, a query continues without a vector.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::executor::Executor;
use crate::models::{Embedders, Kind};
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::Fingerprint;
use vctx_core::policy::Answers;
use vctx_core::search::Likeness;

/// Value of the answer's field `degraded` after a failure of the embedder.
const EMBEDDER: &str = "embedder";

/// Whether the embedder's last request failed; of consecutive failures only the first is logged.
static FAILING: AtomicBool = AtomicBool::new(false);

/// Counts an embedder failure that does not end the call, and logs it if it is the first in a
/// series.
pub(super) fn failed(of: &'static str, error: &Error) {
    metrics::counter!(metric::EMBEDDER_FAILURES, "of" => of).increment(1);
    let error = error.chain();
    if FAILING.swap(true, Ordering::Relaxed) {
        tracing::debug!(of, error, "the embedder failed again");
    } else {
        tracing::warn!(of, error, "the embedder failed; the call continues without vectors");
    }
}

/// Records that the embedder works; after a series of failures, this is logged.
pub(super) fn works() {
    if FAILING.swap(false, Ordering::Relaxed) {
        tracing::info!("the embedder works again");
    }
}

/// Returns the vector of a query. If the embedder makes no vector, the search continues by words
/// and reports `degraded`.
pub(super) async fn query(
    embedders: &Embedders,
    text: String,
    with: &Fingerprint,
    answers: &mut Answers,
) -> Result<()> {
    let embedder = embedders.of(with)?;
    let begun = clock::now();
    let made = embedder.embed(&[text], Kind::Query).await;
    metrics::histogram!(metric::EMBEDDING_SECONDS).record(begun.elapsed().as_secs_f64());
    match made {
        Ok(vectors) => {
            works();
            answers.embeddings = Some(widened(&vectors));
        }
        Err(error) if error.code == Code::EmbedderUnavailable => {
            failed("query", &error);
            answers.embeddings = Some(Vec::new());
            answers.degraded = Some(EMBEDDER);
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Returns the vectors of a document's spans, each computed with the whole document as context.
/// Fails if the embedder fails, since a document cannot be ingested without vectors.
pub(super) async fn spans(
    embedders: &Embedders,
    document: &str,
    spans: &[Range<usize>],
    with: &Fingerprint,
) -> Result<Vec<Vec<f64>>> {
    let embedder = embedders.of(with)?;
    let begun = clock::now();
    let made = embedder.embed_spans(document, spans).await;
    metrics::histogram!(metric::EMBEDDING_SECONDS).record(begun.elapsed().as_secs_f64());
    if made.is_err() {
        metrics::counter!(metric::EMBEDDER_FAILURES, "of" => "document").increment(1);
    }
    Ok(widened(&made?))
}

/// Returns the vectors of a document's spans for the archive's next vector setting. If the embedder
/// of that setting fails, returns no vectors; the background job makes the vectors later.
pub(super) async fn next(
    embedders: &Embedders,
    document: &str,
    spans: &[Range<usize>],
    with: &Fingerprint,
) -> Result<Vec<Vec<f64>>> {
    match self::spans(embedders, document, spans, with).await {
        Err(error) if error.code == Code::EmbedderUnavailable => {
            tracing::debug!(error = error.chain(), "a document is stored without the next vectors");
            Ok(Vec::new())
        }
        other => other,
    }
}

/// Returns the vectors of texts, each computed from its text alone, to verify the vectors that a
/// caller sent. If the embedder fails, logs the failure; the sent vectors then remain unverified.
pub(super) async fn alone(
    embedders: &Embedders,
    texts: &[String],
    with: &Fingerprint,
) -> Result<Vec<Vec<f64>>> {
    match embedders.of(with)?.embed(texts, Kind::Passage).await {
        Ok(vectors) => Ok(widened(&vectors)),
        Err(error) if error.code == Code::EmbedderUnavailable => {
            failed("document", &error);
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// Maximum time that a comparison by meaning takes, in milliseconds.
const COMPARE_MS_MAX: u64 = 2_000;

/// Returns for each question how near each text is to it in meaning, and the name of the component
/// that failed, if any. If the embedder fails or takes too long, the list is empty.
pub(super) async fn compare(
    embedders: &Embedders,
    questions: &[String],
    texts: &[String],
) -> Result<(Vec<Vec<Likeness>>, Option<&'static str>)> {
    let begun = clock::now();
    let limit = Duration::from_millis(COMPARE_MS_MAX);
    let work = embedders.configured().compare(questions, texts);
    let made = tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let text = format!("the embedder took longer than {COMPARE_MS_MAX} ms");
        Err(Error::new(Code::EmbedderUnavailable, text))
    });
    metrics::histogram!(metric::EMBEDDING_SECONDS).record(begun.elapsed().as_secs_f64());
    match made {
        Ok(likeness) => {
            works();
            Ok((likeness, None))
        }
        Err(error) if error.code == Code::EmbedderUnavailable => {
            failed("context", &error);
            Ok((Vec::new(), Some(EMBEDDER)))
        }
        Err(error) => Err(error),
    }
}

/// Number of texts of a request that are embedded before other calls get their turn.
const EMBED_SLICE_TEXTS: usize = 64;

impl Executor {
    /// Returns the fingerprint of the configured embedder.
    pub fn embedder(&self) -> &Fingerprint {
        self.kernel.embedders.fingerprint()
    }

    /// Returns texts of which those are empty that a server on another machine must not get, if the
    /// embedder is on another machine.
    pub(super) fn for_embedder(&self, mut texts: Vec<String>) -> Vec<String> {
        if self.embeds_elsewhere() {
            let withheld = |text: &&mut String| self.taint.withheld(text).is_some();
            texts.iter_mut().filter(withheld).for_each(String::clear);
        }
        texts
    }

    /// Returns one vector for each text of a caller, made by the configured embedder. The texts
    /// belong to no agent. A text that a server on another machine must not get is refused.
    pub async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        let withheld = |text: &String| self.taint.withheld(text).is_some();
        if let Some(at) = texts.iter().position(withheld).filter(|_| self.embeds_elsewhere()) {
            let text = format!(
                "input[{at}] looks like an instruction, and the embedder is on another machine: leave the text out"
            );
            return Err(Error::new(Code::Forbidden, text));
        }
        let (embedder, begun) = (self.kernel.embedders.configured(), clock::now());
        let mut vectors = Vec::with_capacity(texts.len());
        for slice in texts.chunks(EMBED_SLICE_TEXTS) {
            let made = embedder.embed(slice, Kind::Passage).await;
            if made.is_err() {
                metrics::counter!(metric::EMBEDDER_FAILURES, "of" => "caller").increment(1);
            }
            vectors.extend(made?);
            // The lexical embedder never waits.
            tokio::task::yield_now().await;
        }
        metrics::histogram!(metric::EMBEDDING_SECONDS).record(begun.elapsed().as_secs_f64());
        Ok(vectors)
    }
}

/// Returns vectors in the form that the database stores. Each `f32` becomes the `f64` with the same
/// shortest decimal; this loses no precision and keeps documents short.
pub(super) fn widened(vectors: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let wide =
        |component: &f32| component.to_string().parse().expect("a printed number can be parsed");
    vectors.iter().map(|vector| vector.iter().map(wide).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_kept_whole_and_short() {
        let made = widened(&[vec![0.1, -0.333_333_34, 1.0, 1e-7]]);
        assert_eq!(serde_json::to_string(&made).unwrap(), "[[0.1,-0.33333334,1.0,1e-7]]");
        assert_eq!(made[0][1] as f32, -0.333_333_34);
    }
}
