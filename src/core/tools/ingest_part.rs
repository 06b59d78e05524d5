//! A document that its caller sends in parts, since chunks with their vectors are too many or too long for one call: each part is kept where no
//! search sees it, and the call that brings the last one takes the whole in, at once and checked as a whole.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::given_chunk::Chunk;
use super::ingest_archival::IngestArchival;
use super::spec::Step;
use crate::error::{Code, Error, Result};
use crate::limits::{DOCUMENT_CHUNKS_MAX, PARTS_MAX, PARTS_NAMED_MAX};
use crate::memory::archive::{StagedPart, VectorSetting};
use crate::memory::core::Core;
use crate::memory::receipt::{canonical_json, sha256};
use crate::policy::{Answers, ArchiveAnswer, PartGiven, Question, Scope, Surroundings, check_name};

/// Which part of a document a call brings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Part {
    /// The caller's name for this upload, the same in all its parts; another version of the document is another upload.
    pub upload: String,
    /// Its place, from 1. A part that is sent again takes its own place.
    #[schemars(range(min = 1, max = 1024))]
    pub number: u64,
    /// Parts of the whole. Chunks, vectors and spans follow each other over all of them; what else is said is the same in each.
    #[schemars(range(min = 1, max = 1024))]
    pub of: u64,
}

impl IngestArchival {
    /// What goes with a part.
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

    /// Keeps a part; with the last one goes on with the whole.
    pub(super) fn take_part(
        &self,
        part: &Part,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
        archive: &ArchiveAnswer,
        setting: &VectorSetting,
    ) -> Result<Step> {
        let upload = self.part_upload(part, around.scope)?;
        let Some(gathered) = &answers.gathered else {
            let place = usize::try_from(part.number - 1).unwrap_or(usize::MAX);
            let of = usize::try_from(part.of).unwrap_or(usize::MAX);
            let given = PartGiven { upload, place, of, content: self.staged_part() };
            return Ok(Step::Ask(Question::KeepPart(Box::new(given))));
        };
        if !gathered.missing.is_empty() {
            return Ok(Step::Read(self.waiting(part, &gathered.missing, archive)));
        }
        let whole = self.whole(upload, &gathered.parts)?;
        whole.check_evidence(around.embedder)?;
        whole.complete(around, core, answers, archive, setting)
    }

    /// Under which name parts are kept: of whatever must be the same in all of them, so that none of another kind comes between.
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
            .map_err(|error| Error::new(Code::Internal, "a part has no JSON").caused_by(error))?;
        Ok(sha256(&[scope.key(), &canonical_json(&terms)].join("\0")))
    }

    fn staged_part(&self) -> StagedPart {
        StagedPart {
            chunks: json!(self.chunks),
            embeddings: self.embeddings.clone().unwrap_or_default(),
            spans: self.late_chunking.as_ref().map(|e| e.spans.clone()).unwrap_or_default(),
        }
    }

    /// What is answered while parts are missing: nothing is taken in yet.
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

    /// The document out of its parts.
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
                    Error::new(Code::Internal, "a part that was kept is not understood")
                        .caused_by(error)
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
