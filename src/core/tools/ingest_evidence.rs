//! Checks the evidence that the caller made its vectors with the context of the whole document
//! (late chunking).

use super::given_chunk::Chunk;
use super::ingest_archival::IngestArchival;
use crate::chunk::{self, IngestCandidate, Naive};
use crate::error::{Code, Error, Result};
use crate::memory::Fingerprint;

impl IngestArchival {
    /// Checks the evidence for the caller's vectors. A call without vectors needs no evidence,
    /// because the server makes the vectors itself.
    pub(super) fn check_evidence(&self, own: &Fingerprint) -> Result<()> {
        if self.embeddings.is_none() && self.late_chunking.is_none() {
            return Ok(());
        }
        let texts: Vec<&str> = self.chunks.iter().map(Chunk::text).collect();
        let candidate = IngestCandidate {
            texts: &texts,
            embeddings: self.embeddings.as_deref().unwrap_or_default(),
            model_id: self.model_id.as_deref().unwrap_or(&own.model_id),
            document: self.document.as_deref(),
        };
        let held = match self.part {
            // Whether the spans cover the document can be checked only after all parts have
            // arrived.
            Some(_) => chunk::check_part(self.late_chunking.as_ref(), candidate),
            None => chunk::check(self.late_chunking.as_ref(), candidate),
        };
        held.map_err(|naive| self.refused(&naive))
    }

    /// Returns the error for refused vectors, which explains what evidence to send.
    pub(super) fn refused(&self, naive: &Naive) -> Error {
        Error::new(
            Code::LateChunkingRequired,
            format!(
                "{}: encode the whole document, pool its token states for each chunk, and send late_chunking {{mode: \"late\", \
                 pooling, model, document_tokens or document_chars, spans: [{{start, end}}, …]}}; or leave embeddings out",
                naive.message
            ),
        )
        .with("reason", naive.reason)
        .with("offered_chunks", self.chunks.len())
        .with("refused_chunks", self.chunks.len())
        .with("compliant_chunks", 0)
    }
}
