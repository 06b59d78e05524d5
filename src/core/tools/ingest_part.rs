//! Ingests a document whose chunks and vectors the caller sends in several calls: stores the parts
//! where no search finds them, and ingests the whole document when no part is missing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::given_chunk::Chunk;
use super::ingest_archival::IngestArchival;
use crate::error::{Code, Error, Result};
use crate::memory::archive::{StagedPart, VectorSetting};
use crate::memory::receipt::{canonical_json, sha256};
use crate::policy::{ArchiveAnswer, Ctx, PartGiven, Question, Step, Stop};
use crate::tools::limits::DOCUMENT_CHUNKS_MAX;
use crate::trust::{Scope, check_name};

/// Maximum number of parts of a document.
const PARTS_MAX: u64 = 1_024;
/// Maximum number of missing parts that an answer lists.
const PARTS_NAMED_MAX: usize = 32;

/// The part of a document that a call sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Part {
    /// The caller's name for this upload, the same in all its parts. Another version of the
    /// document is another upload.
    pub upload: String,
    /// Number of the part, from 1. A part that is sent again replaces the earlier part of this
    /// number.
    #[schemars(range(min = 1, max = 1024))]
    pub number: u64,
    /// Number of parts. Chunks, vectors and spans continue from part to part; all other arguments
    /// are the same in each part.
    #[schemars(range(min = 1, max = 1024))]
    pub of: u64,
}

impl IngestArchival {
    /// Checks the arguments of a call that sends a part.
    pub(super) fn check_part(&self) -> Result<()> {
        let Some(part) = &self.part else { return Ok(()) };
        check_name("part.upload", &part.upload)?;
        if part.of == 0 || part.of > PARTS_MAX {
            return Err(Error::argument("part.of", format!("use 1 to {PARTS_MAX}")));
        }
        if part.number == 0 || part.number > part.of {
            return Err(Error::argument("part.number", format!("use 1 to {}", part.of)));
        }
        if self.embeddings.is_none() {
            return Err(Error::argument(
                "part",
                "goes with chunks and their embeddings; a text of any length goes in as `document`, which the server splits and embeds in parts",
            ));
        }
        if self.document.is_some() {
            return Err(Error::argument(
                "document",
                "leave it out with `part`: late_chunking.document_sha256 is compared with the whole",
            ));
        }
        Ok(())
    }

    /// Stores a part; if no part is missing afterwards, ingests the whole document.
    pub(super) fn take_part(
        &self,
        part: &Part,
        ctx: &Ctx<'_>,
        archive: &ArchiveAnswer,
        setting: &VectorSetting,
    ) -> Result<Step, Stop> {
        let upload = self.part_upload(part, ctx.around.scope)?;
        let gathered = ctx.answers.gathered(|| {
            let place = usize::try_from(part.number - 1).unwrap_or(usize::MAX);
            let of = usize::try_from(part.of).unwrap_or(usize::MAX);
            let (upload, content) = (upload.clone(), self.staged_part());
            Question::KeepPart(Box::new(PartGiven { upload, place, of, content }))
        })?;
        if !gathered.missing.is_empty() {
            return Ok(Step::Read(self.waiting(part, &gathered.missing, archive)));
        }
        let whole = self.whole(upload, &gathered.parts)?;
        whole.check_evidence(ctx.around.embedder)?;
        whole.complete(ctx, archive, setting)
    }

    /// Returns the name under which an upload's parts are stored: a hash of all arguments that the
    /// parts share. Parts of different uploads therefore never mix.
    fn part_upload(&self, part: &Part, scope: &Scope) -> Result<String> {
        let bare = Self {
            chunks: Vec::new(),
            embeddings: None,
            part: Some(Part { number: 0, ..part.clone() }),
            late_chunking: self.late_chunking.clone().map(|mut evidence| {
                evidence.spans.clear();
                evidence
            }),
            ..self.clone()
        };
        let terms = serde_json::to_value(bare)
            .map_err(|error| Error::new(Code::Internal, "cannot encode a part").caused_by(error))?;
        Ok(sha256(&[scope.key(), &canonical_json(&terms)].join("\0")))
    }

    fn staged_part(&self) -> StagedPart {
        StagedPart {
            chunks: json!(self.chunks),
            embeddings: self.embeddings.clone().unwrap_or_default(),
            spans: self.late_chunking.as_ref().map(|e| e.spans.clone()).unwrap_or_default(),
        }
    }

    /// Returns the answer to a call after which parts are still missing; the archive has not
    /// changed yet.
    fn waiting(
        &self,
        part: &Part,
        missing: &[usize],
        archive: &ArchiveAnswer,
    ) -> Map<String, Value> {
        let named: Vec<usize> = missing.iter().take(PARTS_NAMED_MAX).map(|at| at + 1).collect();
        let mut result = Map::new();
        result.insert("doc_id".into(), self.doc_id.as_str().into());
        result.insert("inserted".into(), 0.into());
        result.insert("vector_index_used".into(), archive.index_ready.into());
        result.insert("part".into(), part.number.into());
        result.insert("parts".into(), part.of.into());
        result.insert("parts_missing".into(), missing.len().into());
        result.insert("missing".into(), json!(named));
        result
    }

    /// Joins the stored parts into the call that ingests the whole document.
    fn whole(&self, upload: String, parts: &[StagedPart]) -> Result<Self> {
        let mut whole = Self {
            chunks: Vec::new(),
            embeddings: None,
            part: None,
            staged: Some(upload),
            ..self.clone()
        };
        let (mut embeddings, mut spans) = (Vec::new(), Vec::new());
        for part in parts {
            let chunks: Vec<Chunk> =
                serde_json::from_value(part.chunks.clone()).map_err(|error| {
                    Error::new(Code::Internal, "a stored part cannot be decoded").caused_by(error)
                })?;
            whole.chunks.extend(chunks);
            embeddings.extend_from_slice(&part.embeddings);
            spans.extend_from_slice(&part.spans);
        }
        if whole.chunks.len() > DOCUMENT_CHUNKS_MAX {
            return Err(Error::argument(
                "part",
                format!(
                    "the parts make {} chunks, at most {DOCUMENT_CHUNKS_MAX}: give the document in several doc_ids",
                    whole.chunks.len()
                ),
            ));
        }
        whole.embeddings = Some(embeddings);
        if let Some(evidence) = &mut whole.late_chunking {
            evidence.spans = spans;
        }
        whole.check_ids()?;
        Ok(whole)
    }
}
