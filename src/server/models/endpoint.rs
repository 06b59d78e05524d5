//! The embedder behind an OpenAI-compatible `/v1/embeddings`: batches, a limit of time, few repetitions, and nothing believed unchecked.

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::wire::{Way, Wire};
use vctx_base::embedder::{Embedder, Kind, checked};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    EMBED_ANSWER_BYTES_MAX, EMBED_ATTEMPTS_MAX, EMBED_BATCH_BYTES_MAX, EMBED_BATCH_TEXTS_MAX,
    EMBED_PAUSE_MS,
};
use vctx_core::memory::Fingerprint;
use vctx_core::text::composed;

/// The embedder.
pub struct EndpointEmbedder {
    fingerprint: Fingerprint,
    wire: Wire,
    path: String,
    /// Longest wait for one batch, all its attempts counted.
    limit: Duration,
}

/// What is read of an answer; the rest is the server's own affair.
#[derive(Deserialize)]
struct Answer {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    index: usize,
    embedding: Vec<f32>,
}

impl EndpointEmbedder {
    /// Asks the server at `way` under `path` (`/v1/embeddings`) for vectors of that kind; the model's name is the fingerprint's. A batch
    /// takes `limit` at most.
    pub fn new(
        fingerprint: Fingerprint,
        way: Way,
        path: String,
        key: Option<String>,
        limit: Duration,
    ) -> Self {
        Self { fingerprint, wire: Wire::new(way, key), path, limit }
    }

    /// One batch, repeated while it may yet succeed and there is time.
    async fn batch(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        let body =
            json!({"model": self.fingerprint.model_id, "input": texts, "encoding_format": "float"});
        let asked = tokio::time::timeout(self.limit, async {
            let mut attempt = 1;
            loop {
                match self.wire.post(&self.path, &body, EMBED_ANSWER_BYTES_MAX).await {
                    Err(fault) if fault.passing() && attempt < EMBED_ATTEMPTS_MAX => {
                        let pause = EMBED_PAUSE_MS << attempt;
                        tokio::time::sleep(Duration::from_millis(pause)).await;
                        attempt += 1;
                    }
                    other => return other,
                }
            }
        });
        let bytes = match asked.await {
            Ok(answer) => answer.map_err(|fault| fault.into_error(Code::EmbedderUnavailable))?,
            Err(late) => {
                let ms = self.limit.as_millis();
                return Err(Error::new(
                    Code::EmbedderUnavailable,
                    format!("the embedder did not answer within {ms} ms"),
                )
                .caused_by(late));
            }
        };
        let answer: Answer = serde_json::from_slice(&bytes).map_err(|e| {
            Error::new(Code::EmbedderUnavailable, "the embedder's answer holds no vectors")
                .caused_by(e)
        })?;
        self.in_order(answer, texts.len())
    }

    /// The vectors in the order of their texts, whatever order they came in.
    fn in_order(&self, answer: Answer, texts: usize) -> Result<Vec<Vec<f32>>> {
        let mut found: Vec<Option<Vec<f32>>> = vec![None; texts];
        for entry in answer.data {
            match found.get_mut(entry.index) {
                Some(place @ None) => *place = Some(entry.embedding),
                Some(Some(_)) | None => return Err(misplaced()),
            }
        }
        let vectors: Option<Vec<Vec<f32>>> = found.into_iter().collect();
        checked(&self.fingerprint, vectors.ok_or_else(misplaced)?, texts)
    }
}

fn misplaced() -> Error {
    Error::new(Code::EmbedderUnavailable, "the embedder answered for other texts")
}

/// Ends of the batches of some texts: bounded in number and in bytes, though never without a text.
fn batches(texts: &[String]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (at, text) in texts.iter().enumerate() {
        match batches.last_mut() {
            Some(last)
                if last.len() < EMBED_BATCH_TEXTS_MAX
                    && bytes + text.len() <= EMBED_BATCH_BYTES_MAX =>
            {
                last.end = at + 1;
                bytes += text.len();
            }
            _ => {
                batches.push(at..at + 1);
                bytes = text.len();
            }
        }
    }
    batches
}

#[async_trait]
impl Embedder for EndpointEmbedder {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Both kinds alike: the interface knows no difference.
    async fn embed(&self, texts: &[String], _: Kind) -> Result<Vec<Vec<f32>>> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in batches(texts) {
            vectors.extend(self.batch(&texts[batch]).await?);
        }
        Ok(vectors)
    }

    /// The interface gives no token states, so a chunk's vector is put together from its own, its neighbours' and the document's.
    async fn embed_spans(&self, document: &str, spans: &[Range<usize>]) -> Result<Vec<Vec<f32>>> {
        let texts: Vec<String> =
            spans.iter().map(|span| document[span.clone()].to_owned()).collect();
        checked(&self.fingerprint, composed(&self.embed(&texts, Kind::Passage).await?), texts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_and_hold_every_text_once() {
        let texts = |lengths: &[usize]| lengths.iter().map(|n| "x".repeat(*n)).collect::<Vec<_>>();
        assert!(batches(&[]).is_empty());
        let few = batches(&texts(&[1; EMBED_BATCH_TEXTS_MAX + 1]));
        assert_eq!(
            few,
            [0..EMBED_BATCH_TEXTS_MAX, EMBED_BATCH_TEXTS_MAX..EMBED_BATCH_TEXTS_MAX + 1]
        );
        let large =
            batches(&texts(&[10, EMBED_BATCH_BYTES_MAX, EMBED_BATCH_BYTES_MAX + 1, 10, 10]));
        assert_eq!(large, [0..1, 1..2, 2..3, 3..5]);
    }
}
