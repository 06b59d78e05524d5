//! Vectors for those who ask: by the embedder whose kind of vectors is wanted; a question goes on without one when its embedder fails.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::models::{Embedders, Kind};
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::Fingerprint;
use vctx_core::policy::Answers;

/// What `degraded` says when an embedder failed.
const EMBEDDER: &str = "embedder";

/// Whether the embedder failed when it was asked last: a row of failures is said once.
static FAILING: AtomicBool = AtomicBool::new(false);

/// Counts a failure that does not end its call, and says it if it is the first of a row.
pub(super) fn failed(of: &'static str, error: &Error) {
    metrics::counter!(metric::EMBEDDER_FAILURES, "of" => of).increment(1);
    let error = error.chain();
    if FAILING.swap(true, Ordering::Relaxed) {
        tracing::debug!(of, error, "the embedder failed again");
    } else {
        tracing::warn!(of, error, "the embedder failed; what was asked goes on without it");
    }
}

/// Ends a row of failures.
pub(super) fn works() {
    if FAILING.swap(false, Ordering::Relaxed) {
        tracing::info!("the embedder works again");
    }
}

/// The vector of a question; without one the search goes on by text, and says so.
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

/// Vectors of a document's spans, each in the light of the whole. Without them nothing can be taken in.
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

/// The same for the setting that the archive changes to. While its embedder fails there are none: what is taken in without them gets them in
/// the background.
pub(super) async fn next(
    embedders: &Embedders,
    document: &str,
    spans: &[Range<usize>],
    with: &Fingerprint,
) -> Result<Vec<Vec<f64>>> {
    match self::spans(embedders, document, spans, with).await {
        Err(error) if error.code == Code::EmbedderUnavailable => {
            tracing::debug!(
                error = error.chain(),
                "a document is taken in without its next vectors"
            );
            Ok(Vec::new())
        }
        other => other,
    }
}

/// Vectors of texts, each alone. They are a check of what somebody else made: while the embedder fails nothing
/// is checked, and that is logged.
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

/// As the database keeps them: the shortest decimal that stands for the same float of four bytes, so that nothing is lost and a document is
/// no longer than it must be.
pub(super) fn widened(vectors: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let wide = |component: &f32| component.to_string().parse().expect("a printed number is one");
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
