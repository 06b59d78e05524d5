//! Vectors for those who ask: by the embedder whose kind of vectors is wanted; a question goes on without one when its embedder fails.

use std::ops::Range;

use crate::clock;
use crate::error::{Code, Result};
use crate::memory::Fingerprint;
use crate::meters;
use crate::models::{Embedders, Kind};
use crate::policy::Answers;

/// What `degraded` says when an embedder failed.
const EMBEDDER: &str = "embedder";

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
    metrics::histogram!(meters::EMBEDDING_SECONDS).record(begun.elapsed().as_secs_f64());
    match made {
        Ok(vectors) => answers.embeddings = Some(widened(&vectors)),
        Err(error) if error.code == Code::EmbedderUnavailable => {
            metrics::counter!(meters::EMBEDDER_FAILURES, "of" => "query").increment(1);
            tracing::warn!(
                error = error.chain(),
                "the embedder failed; the search goes on by text"
            );
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
    metrics::histogram!(meters::EMBEDDING_SECONDS).record(begun.elapsed().as_secs_f64());
    if made.is_err() {
        metrics::counter!(meters::EMBEDDER_FAILURES, "of" => "document").increment(1);
    }
    Ok(widened(&made?))
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
