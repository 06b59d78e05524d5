//! Whether vectors of the caller were made in the light of their whole document, as far as can be seen: by the evidence that comes with them, and
//! by embedding some chunks alone.

use super::given_chunk::Chunk;
use super::ingest_archival::IngestArchival;
use crate::chunk::{self, Naive, Offered};
use crate::error::{Code, Error, Result};
use crate::memory::Fingerprint;

impl IngestArchival {
    /// Vectors of the caller need evidence; those of the server are made late.
    pub(super) fn check_evidence(&self, own: &Fingerprint) -> Result<()> {
        if self.embeddings.is_none() && self.late_chunking.is_none() {
            return Ok(());
        }
        let texts: Vec<&str> = self.chunks.iter().map(Chunk::text).collect();
        let offered = Offered {
            texts: &texts,
            embeddings: self.embeddings.as_deref().unwrap_or_default(),
            model_id: self.model_id.as_deref().unwrap_or(&own.model_id),
            document: self.document.as_deref(),
        };
        let held = match self.part {
            // Whether spans cover the document is seen when all of it is there.
            Some(_) => chunk::check_part(self.late_chunking.as_ref(), offered),
            None => chunk::check(self.late_chunking.as_ref(), offered),
        };
        held.map_err(|naive| self.refused(&naive))
    }

    /// What its caller is told.
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
