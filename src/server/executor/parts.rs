//! Processes long documents in parts, and stores each part immediately.
//!
//! Thus, an interrupted call loses only the current part's vectors, and a caller can send a
//! document part by part.
//!
//! Searches never read parts. A separate collection stores the parts until one transaction writes
//! the whole document and removes them. A TTL index removes abandoned parts.

use std::time::Duration;

use super::embedding;
use super::executor::Executor;
use crate::executor::limits::{PART_MARGIN, PARTS_MS_MAX};
use crate::store::{keep_part, part, parts};
use vctx_base::clock;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{DOCUMENT_BYTES_MAX, PART_CHUNKS};
use vctx_core::memory::archive::StagedPart;
use vctx_core::memory::core::Core;
use vctx_core::policy::{Gathered, PartGiven, Upload};
use vctx_core::trust::Scope;

/// Seconds after which an abandoned part of a document is removed.
const PART_S: u64 = 24 * 3600;

impl Executor {
    /// Returns the vectors of all chunks of a document, in their order. After a time limit, fails
    /// with `TIMEOUT`; a repeated call continues with the remaining parts.
    pub(super) async fn embed_parts(
        &self,
        upload: &Upload,
        scope: &Scope,
        core: &Core,
    ) -> Result<Vec<Vec<f64>>> {
        let until = clock::now() + Duration::from_millis(PARTS_MS_MAX);
        let count = upload.spans.len().div_ceil(PART_CHUNKS);
        let there = parts(&self.kernel.ro, scope, &upload.name).await?;
        let mut vectors = Vec::with_capacity(upload.spans.len());
        for number in 0..count {
            if clock::now() >= until {
                return Err(unfinished(number, count));
            }
            let kept = match there.contains(&number) {
                true => part(&self.kernel.ro, scope, &upload.name, number).await?,
                false => None,
            };
            let chunks = number * PART_CHUNKS..((number + 1) * PART_CHUNKS).min(upload.spans.len());
            let made = match kept {
                Some(kept) if kept.embeddings.len() == chunks.len() => kept.embeddings,
                Some(_) | None => {
                    let embeddings = self.embed_part(upload, chunks, core).await?;
                    let made = StagedPart { embeddings, ..StagedPart::default() };
                    let until = self.parts_expire_at();
                    keep_part(&self.kernel.rw, scope, &upload.name, number, &made, until).await?;
                    made.embeddings
                }
            };
            vectors.extend(made);
        }
        Ok(vectors)
    }

    /// Stores one part of a document that the caller sends in parts. If no part is missing any
    /// more, returns all parts.
    pub(super) async fn gather(&self, given: &PartGiven, scope: &Scope) -> Result<Gathered> {
        let until = self.parts_expire_at();
        keep_part(&self.kernel.rw, scope, &given.upload, given.place, &given.content, until)
            .await?;
        let there = parts(&self.kernel.ro, scope, &given.upload).await?;
        let missing: Vec<usize> = (0..given.of).filter(|place| !there.contains(place)).collect();
        let mut gathered = Gathered { missing, parts: Vec::new() };
        if !gathered.missing.is_empty() {
            return Ok(gathered);
        }
        let mut bytes = 0;
        for place in 0..given.of {
            let kept = match place == given.place {
                true => Some(given.content.clone()),
                false => part(&self.kernel.ro, scope, &given.upload, place).await?,
            };
            // A part that has expired meanwhile counts as missing.
            let Some(kept) = kept else {
                return Ok(Gathered { missing: vec![place], parts: Vec::new() });
            };
            bytes += kept.bytes();
            if bytes > DOCUMENT_BYTES_MAX {
                return Err(Error::argument(
                    "part",
                    format!(
                        "the parts take more than {DOCUMENT_BYTES_MAX} bytes with their vectors: give the document in several doc_ids"
                    ),
                ));
            }
            gathered.parts.push(kept);
        }
        Ok(gathered)
    }

    /// Returns when a part stored now expires, in seconds since 1970.
    fn parts_expire_at(&self) -> u64 {
        self.kernel.clock.unix_ms() / 1000 + PART_S
    }

    /// Returns the vectors of consecutive chunks, computed with the surrounding text.
    async fn embed_part(
        &self,
        upload: &Upload,
        chunks: std::ops::Range<usize>,
        core: &Core,
    ) -> Result<Vec<Vec<f64>>> {
        let from = chunks.start.saturating_sub(PART_MARGIN);
        let to = (chunks.end + PART_MARGIN).min(upload.spans.len());
        let around = &upload.spans[from..to];
        let begin = around.first().map_or(0, |span| span.start);
        let end = around.iter().map(|span| span.end).max().unwrap_or(begin);
        let spans: Vec<_> = around.iter().map(|s| s.start - begin..s.end - begin).collect();
        let text = &upload.document[begin..end];
        let embedders = self.kernel.embedders_of(core);
        let made = embedding::spans(&embedders, text, &spans, &upload.with).await?;
        Ok(made.into_iter().skip(chunks.start - from).take(chunks.len()).collect())
    }
}

fn unfinished(done: usize, all: usize) -> Error {
    let text =
        format!("{done} of {all} parts have their vectors: send the same call again to go on");
    Error::new(Code::Timeout, text).with("parts_done", done).with("parts", all)
}
