//! Embeds texts at an OpenAI-compatible `/v1/embeddings`: sends batches within a time limit,
//! repeats failed requests a few times, and checks every answer.

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::wire::{Way, Wire};
use crate::models::limits::EMBED_BATCH_TEXTS_MAX;
use vctx_base::embedder::{Embedder, Kind, checked};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::Fingerprint;
use vctx_core::memory::model_api::ModelApi;
use vctx_core::text::composed;
use vctx_core::trust::TaintMode;

/// Maximum length of the answer to one batch, in bytes: 64 vectors of 4096 components at about 20
/// bytes each, with a reserve for more digits.
const EMBED_ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum number of text bytes in one batch; a single longer text makes a batch of its own.
const EMBED_BATCH_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of attempts to embed one batch, all within its time limit.
const EMBED_ATTEMPTS_MAX: u32 = 3;
/// Base of the pause before a batch is sent again, in milliseconds. The first pause is twice this
/// value, and each further pause doubles.
const EMBED_PAUSE_MS: u64 = 25;

/// An embedder at an endpoint.
pub struct EndpointEmbedder {
    fingerprint: Fingerprint,
    wire: Wire,
    path: String,
    /// Time limit for one batch, including all attempts.
    limit: Duration,
    /// Policy for tainted text; `off` for a server on this machine.
    taint: TaintMode,
}

/// The fields of an embedder's answer that are read.
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
    /// Makes an embedder at a server, which is asked at the path and query `path`. Its vectors have
    /// the given fingerprint, and its requests contain the fingerprint's model name. Each batch may
    /// take at most `limit`. An error begins with the setting that is wrong.
    pub fn new(
        fingerprint: Fingerprint,
        way: &Way,
        path: String,
        limit: Duration,
    ) -> std::result::Result<Self, String> {
        let wire = Wire::new(way, ModelApi::Chat)?;
        Ok(Self { fingerprint, wire, path, limit, taint: TaintMode::Off })
    }

    /// Sets the policy for tainted text: a server on another machine gets an explanation in place
    /// of a stored text in quarantine.
    #[must_use]
    pub fn with_taint(self, taint: TaintMode) -> Self {
        Self { taint, ..self }
    }

    /// Embeds one batch. Sends it again after a failure, if another attempt may succeed in time.
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

    /// Puts an answer's vectors in the order of the embedded texts.
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

/// Splits texts into batches, returned as index ranges. A batch has a maximum number of texts and
/// bytes, but at least one text.
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

    /// Embeds queries and passages alike, since the interface has no parameter for the kind.
    async fn embed(&self, texts: &[String], kind: Kind) -> Result<Vec<Vec<f32>>> {
        let sent = |text: &String| self.taint.withheld(text).unwrap_or_else(|| text.clone());
        let screened: Vec<String>;
        let texts = if kind == Kind::Passage && self.taint == TaintMode::Quarantine {
            screened = texts.iter().map(sent).collect();
            &screened
        } else {
            texts
        };
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in batches(texts) {
            vectors.extend(self.batch(&texts[batch]).await?);
        }
        Ok(vectors)
    }

    /// Computes each chunk's vector from the separate vectors of the document's chunks: mostly the
    /// chunk's own vector, with smaller shares of its neighbours' vectors and of the whole
    /// document's vector. With token states, each chunk's vector could be computed directly, but
    /// the endpoint's API does not return them.
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
