//! `ingest_archival`: adds a whole document to the archive, as chunks or as one text, or removes a
//! document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::document_chunks::{Cuts, Cutting};
use super::given_chunk::Chunk;
use super::ingest_checks::{OWNER, message_ids, moment};
use super::ingest_part::Part;
use super::spec::{Access, Arguments, Card, Command, Spec, optional_object};
use super::told;
use crate::chunk::{self, LateChunking, Splitter};
use crate::clock::iso8601;
use crate::error::{Code, Error, Result};
use crate::limits::INGEST_COMMIT_MS;
use crate::memory::archive::{
    ChunkLinks, Fate, Ingest, Manifest, Metric, Passage, VectorSetting, derived, manifest_key,
    passage_key,
};
use crate::memory::receipt::{canonical_json, sha256};
use crate::memory::{Fingerprint, Labels};
use crate::policy::{Answers, ArchiveAnswer, Ctx, Depends, Question, Step, Stop, Surroundings};
use crate::text::lexical;
use crate::tools::limits::DERIVED_MAX;
use crate::trust::{TaintMode, rules_with_names, texts_of};

/// Arguments of `ingest_archival`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IngestArchival {
    /// The caller's name for the document, e.g. its path. Another ingest with this name replaces
    /// the document.
    #[schemars(extend("x-model" = ""))]
    pub doc_id: String,
    /// The document's chunks, in order: texts, or objects with a text. By default the server splits
    /// `document`.
    #[serde(default)]
    #[schemars(length(max = 512))]
    pub chunks: Vec<Chunk>,
    /// One vector for each chunk. By default the server's embedder makes them by late chunking.
    #[serde(default)]
    pub embeddings: Option<Vec<Vec<f64>>>,
    /// Components of each vector; the same for all documents of a database.
    #[serde(default)]
    #[schemars(range(min = 1, max = 4096))]
    pub dimension: Option<u32>,
    /// How vectors are compared; the same for all documents of a database.
    #[serde(default)]
    pub metric: Option<Metric>,
    /// Version of the embedding; required with `embeddings`.
    #[serde(default)]
    pub embedding_version: Option<String>,
    /// The model that made the vectors; required with `embeddings`.
    #[serde(default)]
    pub model_id: Option<String>,
    /// How the vectors were made; required with `embeddings`. Chunks that were embedded one by one
    /// are refused.
    #[serde(default)]
    pub late_chunking: Option<LateChunking>,
    /// The document's whole text. Without `chunks` the server splits this text, and every character
    /// belongs to a chunk. With `chunks` the server checks the chunks against this text and does
    /// not store the text.
    #[serde(default)]
    #[schemars(extend("x-model" = "the whole text"))]
    pub document: Option<String>,
    /// How the server splits `document`.
    #[serde(default)]
    pub splitter: Option<Splitter>,
    /// When the document was current, for chunks without a moment of their own: `YYYY-MM-DD` or
    /// `YYYY-MM-DDTHH:MM:SS.mmmZ`.
    #[serde(default)]
    pub freshness_ts: Option<String>,
    /// Removes the document instead: its chunks, their vectors and the edges from and to them.
    #[serde(default)]
    #[schemars(extend("x-model" = "true: remove it"))]
    pub delete: bool,
    /// Where the document comes from; `message_ids` names messages that it was made from.
    #[serde(default)]
    #[schemars(schema_with = "super::given_chunk::provenance")]
    pub provenance: Option<Map<String, Value>>,
    /// User, session, tags and metadata of the document, by which searches select.
    #[serde(
        default,
        deserialize_with = "optional_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub labels: Option<Labels>,
    /// Which part of the document these chunks are, if the chunks with their vectors do not fit
    /// into one call.
    #[serde(default)]
    pub part: Option<Part>,
    /// Name under which the combined parts of the document are stored.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) staged: Option<String>,
    /// The chunks that the server cuts the document into.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) cuts: Cuts,
}

impl Arguments for IngestArchival {
    const CARD: Card = Card {
        title: "Archive a document",
        description: "Archive a document so that search_archival finds it; the same doc_id replaces it.",
        destructive: true,
        idempotent: true,
        example: r#"{"doc_id": "tides.md", "chunks": ["The ferry leaves at ebb."]}"#,
        result: &[
            ("doc_id", "string", "the document"),
            ("inserted", "integer", "passages that were written"),
            ("vector_index_used", "boolean", "whether a search finds them through the index"),
        ],
        told: |result| match result.get("inserted").and_then(Value::as_u64) {
            _ if result.contains_key("unchanged") => {
                "Unchanged: it is already archived.".to_owned()
            }
            Some(inserted) => format!("Archived {}.", told::counted(inserted, "passage")),
            None => "Removed.".to_owned(),
        },
        ..Card::NEW
    };

    fn checked(self) -> Result<Self> {
        self.check()?;
        Ok(self)
    }
}

impl Command for IngestArchival {
    const SPEC: Spec = Spec { path: None, ..Spec::tool("ingest_archival", Access::Write) };

    fn depends(&self) -> Depends {
        Depends::Manifest
    }

    /// Hashes the arguments of the call. A part has no digest, because one call knows only a part
    /// of the document.
    fn document_digest(&self) -> Option<String> {
        if self.delete || self.part.is_some() || self.staged.is_some() {
            return None;
        }
        let splitter = self.splits().then(|| self.splitter.clone().unwrap_or_default());
        let arguments = serde_json::to_value(Self { splitter, ..self.clone() }).ok()?;
        Some(sha256(&canonical_json(&arguments)))
    }

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        if !self.splits() && !self.delete {
            self.check_evidence(ctx.around.embedder)?;
        }
        let messages: Vec<String> = self.message_ids()?.into_iter().collect();
        let archive = ctx.answers.archive(|| Question::Archive {
            manifest_key: manifest_key(&ctx.core.agent_id, &self.doc_id),
            messages: messages.clone(),
        })?;
        if let Some(unknown) = messages.iter().find(|id| !archive.messages.contains(id)) {
            return Err(Error::argument(
                "provenance.message_ids",
                format!("no message `{unknown}` of this agent"),
            )
            .into());
        }
        if self.delete {
            return self.remove(ctx, archive);
        }
        if let Some(same) = archive.manifest.as_ref().filter(|stored| self.is_stored_as(stored)) {
            return self.unchanged(ctx, archive, same);
        }
        let own = own_embedder(archive.setting.as_ref(), ctx.around);
        let setting = self.setting(archive.setting.as_ref(), own, ctx.around)?;
        match &self.part {
            Some(part) => self.take_part(part, ctx, archive, &setting),
            None => self.complete(ctx, archive, &setting),
        }
    }
}

impl IngestArchival {
    /// Continues the ingest of a complete document whose vectors match the stored vector setting.
    pub(super) fn complete(
        &self,
        ctx: &Ctx<'_>,
        archive: &ArchiveAnswer,
        setting: &VectorSetting,
    ) -> Result<Step, Stop> {
        let own = own_embedder(archive.setting.as_ref(), ctx.around);
        let kind = setting.fingerprint();
        let made = ctx
            .answers
            .embeddings
            .as_ref()
            .filter(|_| ctx.answers.embedded_with.as_ref() == Some(&kind));
        let vectors = match (&self.embeddings, made) {
            (Some(given), _) => given,
            (None, Some(made)) => made,
            (None, None) => {
                let question =
                    self.ask_vectors(ctx.around.scope, ctx.around.counter, setting, ctx.answers)?;
                return Err(question.into());
            }
        };
        self.check_samples(own, ctx.answers)?;
        if let Some(question) = self.ask_next(ctx.around, setting, ctx.answers) {
            return Err(question.into());
        }
        self.write(ctx, archive, setting, vectors)
    }

    /// Refuses vectors that were made without the document's context. For the check, the server
    /// embeds some chunks alone, if its own embedder is the model that the caller names. Equal
    /// vectors show that the caller also embedded the chunks alone.
    fn check_samples(&self, own: &Fingerprint, answers: &Answers) -> Result<(), Stop> {
        let Some(embeddings) = &self.embeddings else { return Ok(()) };
        let declared = self.model_id.as_ref() == Some(&own.model_id);
        let samples = chunk::samples(self.chunks.len());
        if !declared || self.dimension != Some(own.dimension) || samples.is_empty() {
            return Ok(());
        }
        let alone = answers.alone(|| {
            let texts = samples.iter().map(|at| self.chunks[*at].text().to_owned()).collect();
            Question::EmbedAlone { texts, with: own.clone() }
        })?;
        let offered: Vec<&[f64]> = samples.iter().map(|at| &embeddings[*at][..]).collect();
        chunk::check_alone(&offered[..alone.len().min(offered.len())], alone)
            .map_err(|naive| self.refused(&naive).into())
    }

    /// Whether the stored document was made from the same arguments.
    fn is_stored_as(&self, stored: &Manifest) -> bool {
        stored.content_digest.is_some() && stored.content_digest == self.document_digest()
    }

    /// Answers an ingest of the stored document, which writes nothing unless the answer itself goes
    /// into the queue.
    fn unchanged(
        &self,
        ctx: &Ctx<'_>,
        archive: &ArchiveAnswer,
        stored: &Manifest,
    ) -> Result<Step, Stop> {
        let mut result = Map::new();
        result.insert("doc_id".into(), self.doc_id.as_str().into());
        result.insert("unchanged".into(), true.into());
        result.insert("inserted".into(), 0.into());
        result.insert("replaced".into(), 0.into());
        result.insert("_rev".into(), stored.revision.as_str().into());
        result.insert("vector_index_used".into(), archive.index_ready.into());
        match ctx.around.capture.is_some() || ctx.around.wording.is_some() {
            true => ctx.finish(ctx.draft(), result),
            false => Ok(Step::Read(result)),
        }
    }

    /// Removes the document with its chunks, vectors and edges.
    fn remove(&self, ctx: &Ctx<'_>, archive: &ArchiveAnswer) -> Result<Step, Stop> {
        let Some(old) = archive.manifest.clone() else {
            return Err(Error::new(
                Code::DocumentNotFound,
                "no such document in the archive: nothing to remove",
            )
            .with("field", "doc_id")
            .into());
        };
        let mut result = Map::new();
        result.insert("doc_id".into(), self.doc_id.as_str().into());
        result.insert("deleted".into(), true.into());
        result.insert("inserted".into(), 0.into());
        result.insert("replaced".into(), old.chunks.into());
        result.insert("vector_index_used".into(), archive.index_ready.into());
        let mut draft = ctx.draft();
        let gone = Ingest {
            fate: Fate::Removed,
            upload: None,
            setting: None,
            numbers: Vec::new(),
            manifest: old.clone(),
            passages: Vec::new(),
            derived: Vec::new(),
        };
        draft.archive(gone, Some(&old));
        ctx.finish(draft, result)
    }

    /// Returns the setting (model, version, dimension, metric) of this ingest's vectors; an error
    /// if the database contains vectors of another setting.
    fn setting(
        &self,
        stored: Option<&VectorSetting>,
        own: &Fingerprint,
        around: Surroundings<'_>,
    ) -> Result<VectorSetting> {
        self.check_own(own)?;
        // The lexical embedder can make vectors of any dimension; every other embedder has a fixed
        // dimension.
        let stored_dimension = stored
            .filter(|_| self.embeddings.is_none() && lexical::makes(own))
            .map(|s| s.dimension);
        let made_by = Fingerprint {
            dimension: self.dimension.or(stored_dimension).unwrap_or(own.dimension),
            embedding_version: self
                .embedding_version
                .clone()
                .unwrap_or_else(|| own.embedding_version.clone()),
            model_id: self.model_id.clone().unwrap_or_else(|| own.model_id.clone()),
        };
        let metric = self
            .metric
            .or(stored.filter(|_| self.embeddings.is_none()).map(|s| s.metric))
            .unwrap_or_default();
        let number = stored.map_or(1, |stored| stored.number);
        let given = VectorSetting::of(&made_by, metric, number, iso8601(around.unix_ms));
        match stored {
            Some(stored) if stored.serves(&given) => Ok(stored.clone()),
            Some(stored) => Err(mismatch(stored, &given)),
            None => Ok(given),
        }
    }

    fn write(
        &self,
        ctx: &Ctx<'_>,
        archive: &ArchiveAnswer,
        setting: &VectorSetting,
        vectors: &[Vec<f64>],
    ) -> Result<Step, Stop> {
        let old = archive.manifest.as_ref();
        let mut draft = ctx.draft();
        let pieces = self.pieces(ctx.around.counter);
        // The vectors of the newest setting come last, because the manifest stores the number of
        // the last setting in this list.
        let mut made = vec![(setting, vectors)];
        if let (Some(next), Some((kind, vectors))) =
            (next_of(setting), &ctx.answers.next_embeddings)
            && *kind == next.fingerprint()
            && vectors.len() == pieces.len()
        {
            made.push((next, vectors));
        }
        let numbers: Vec<u64> = made.iter().map(|(setting, _)| setting.number).collect();
        let manifest = self.manifest(ctx, old, setting, &numbers, pieces.len());
        let upload = match self.splits() {
            true => self.upload(ctx.around.scope, ctx.around.counter, setting),
            false => self.staged.clone(),
        };
        let passages = self.passages(ctx.around, &manifest, pieces, &made)?;
        let tainted = passages.iter().filter(|passage| !passage.taint.is_empty()).count();
        let mut result = json!({"inserted": passages.len(), "vector_index_used": archive.index_ready,
            "doc_id": self.doc_id, "_rev": manifest.revision, "replaced": old.map_or(0, |m| m.chunks)});
        if tainted > 0 {
            result["tainted"] = tainted.into();
        }
        // If the server split the document, the answer omits the chunks' ids, which are numbers
        // from 0000 on. If the document came in parts, the answer also omits the ids, because the
        // caller knows them.
        if !self.splits() && self.staged.is_none() {
            let ids: Vec<&str> = passages.iter().map(|p| p.chunk_id.as_str()).collect();
            result["chunk_ids"] = json!(ids);
        }
        let derived = self.derived(&passages)?;
        let ingest = Ingest {
            fate: if old.is_some() { Fate::Replaces } else { Fate::New },
            upload,
            setting: archive.setting.is_none().then(|| setting.clone()),
            numbers,
            manifest,
            passages,
            derived,
        };
        draft.archive(ingest, old);
        ctx.finish(draft, result)
    }

    fn manifest(
        &self,
        ctx: &Ctx<'_>,
        old: Option<&Manifest>,
        setting: &VectorSetting,
        numbers: &[u64],
        chunks: usize,
    ) -> Manifest {
        let now = iso8601(ctx.around.unix_ms);
        let late_chunking = match &self.late_chunking {
            Some(evidence) if self.embeddings.is_some() => {
                let mut evidence = json!(evidence);
                if let Some(map) = evidence.as_object_mut() {
                    map.remove("spans");
                    map.insert("by".into(), "caller".into());
                }
                evidence
            }
            _ => {
                let mut how = json!({"by": "server", "mode": "late", "pooling": "mean", "model": setting.model_id});
                if self.splits() {
                    how["splitter"] = json!(self.splitter.clone().unwrap_or_default());
                }
                how
            }
        };
        Manifest {
            key: manifest_key(&ctx.core.agent_id, &self.doc_id),
            agent_id: ctx.core.agent_id.clone(),
            doc_id: self.doc_id.clone(),
            revision: ctx.around.ids.key(),
            chunks: chunks as u64,
            dimension: setting.dimension,
            metric: setting.metric,
            embedding_version: setting.embedding_version.clone(),
            model_id: setting.model_id.clone(),
            late_chunking,
            provenance: owned(&ctx.core.agent_id, self.provenance.as_ref(), None),
            labels: self.labels.as_ref().map(Labels::stored).unwrap_or_default(),
            content_digest: self.document_digest(),
            embedded: numbers.last().copied().unwrap_or(setting.number),
            created_at: old.map_or_else(|| now.clone(), |m| m.created_at.clone()),
            updated_at: now,
        }
    }

    fn passages(
        &self,
        around: Surroundings<'_>,
        manifest: &Manifest,
        pieces: Vec<Cutting>,
        made: &[(&VectorSetting, &[Vec<f64>])],
    ) -> Result<Vec<Passage>> {
        if made.iter().any(|(_, vectors)| vectors.len() != pieces.len()) {
            return Err(Error::new(Code::Internal, "the embedder answered for other texts"));
        }
        let ids: Vec<String> = pieces.iter().map(|piece| piece.chunk_id.clone()).collect();
        let mut passages = Vec::with_capacity(ids.len());
        for (at, piece) in pieces.into_iter().enumerate() {
            let freshness_ts = match &piece.freshness_ts {
                Some(ts) => moment("freshness_ts", ts)?,
                None => manifest.updated_at.clone(),
            };
            let provenance =
                owned(&manifest.agent_id, self.provenance.as_ref(), piece.provenance.as_ref());
            let key = passage_key(&manifest.agent_id, &self.doc_id, &ids[at]);
            let taint = match around.taint {
                TaintMode::Off => Vec::new(),
                TaintMode::Mark | TaintMode::Quarantine => {
                    let mut names = vec![self.doc_id.as_str(), ids[at].as_str()];
                    names.extend(texts_of(&provenance));
                    names.extend(manifest.labels.iter().map(String::as_str));
                    rules_with_names(&piece.text, &names)
                }
            };
            passages.push(Passage {
                tainted_key: (!taint.is_empty()).then(|| key.clone()),
                taint,
                key,
                agent_id: manifest.agent_id.clone(),
                doc_id: self.doc_id.clone(),
                chunk_id: ids[at].clone(),
                index: at as u64,
                token_estimate: around.counter.count(&piece.text),
                text: piece.text,
                vectors: made
                    .iter()
                    .map(|(s, vectors)| (s.attribute(), vectors[at].clone()))
                    .collect(),
                dimension: manifest.dimension,
                metric: manifest.metric,
                embedding_version: manifest.embedding_version.clone(),
                model_id: manifest.model_id.clone(),
                provenance,
                labels: manifest.labels.clone(),
                chunk_links: ChunkLinks {
                    previous: at.checked_sub(1).map(|before| ids[before].clone()),
                    next: ids.get(at + 1).cloned(),
                },
                offset: piece.offset,
                freshness_ts,
                dated: piece.freshness_ts.is_some(),
                parent: piece.parent,
                ingested_ms: around.unix_ms + INGEST_COMMIT_MS,
                revision: manifest.revision.clone(),
            });
        }
        Ok(passages)
    }

    /// Returns the edges from each chunk to its own source messages and to the source messages of
    /// its document.
    fn derived(&self, passages: &[Passage]) -> Result<Vec<crate::memory::archive::Derived>> {
        let mut edges = Vec::new();
        for passage in passages {
            for message in message_ids("provenance", Some(&passage.provenance))? {
                edges.push(derived(&passage.key, &message));
            }
        }
        if edges.len() > DERIVED_MAX {
            return Err(Error::argument(
                "provenance.message_ids",
                format!(
                    "{} pairs of chunk and message: at most {DERIVED_MAX}; name messages only at their chunks",
                    edges.len()
                ),
            ));
        }
        Ok(edges)
    }
}

/// Returns the embedder of this server that makes an ingest's vectors: the embedder of
/// `[embedder.next]` if a reindex has already changed the database to this embedder; the lexical
/// embedder, which every server has, if the archive has its vectors; else the embedder of
/// `[embedder]`.
fn own_embedder<'a>(stored: Option<&VectorSetting>, around: Surroundings<'a>) -> &'a Fingerprint {
    let Some(serving) = stored.map(VectorSetting::fingerprint) else { return around.embedder };
    match around.next_embedder.filter(|next| **next == serving) {
        Some(next) => next,
        None if lexical::makes(&serving) && !lexical::makes(around.embedder) => &lexical::OWN,
        None => around.embedder,
    }
}

/// Returns the next vector setting while a reindex is under way; `None` if there is none or the
/// reindex is paused.
pub(super) fn next_of(setting: &VectorSetting) -> Option<&VectorSetting> {
    setting.next.as_ref().filter(|next| !next.stopped).map(|next| &next.setting)
}

/// Returns the error for vectors whose setting differs from the setting of the stored vectors. One
/// vector index can contain only vectors of one setting.
pub(super) fn mismatch(stored: &VectorSetting, given: &VectorSetting) -> Error {
    let (is, was) = (stored.described(), given.described());
    let differing: Vec<&str> = ["dimension", "metric", "embedding_version", "model_id"]
        .into_iter()
        .filter(|field| is[*field] != was[*field])
        .collect();
    Error::new(
        Code::VectorSettingMismatch,
        format!(
            "{} differ from what this database holds: send vectors of that kind, or re-index as docs/how-to/reindex.md describes",
            differing.join(", ")
        ),
    )
    .with("differing", differing)
    .with("stored", is)
    .with("given", was)
}

/// Merges the provenance of the document and of the chunk, and adds the owner; on equal names the
/// chunk's value wins, and the owner cannot be overwritten.
fn owned(
    owner: &str,
    document: Option<&Map<String, Value>>,
    chunk: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    let mut all = document.cloned().unwrap_or_default();
    all.extend(chunk.cloned().unwrap_or_default());
    all.insert(OWNER.into(), owner.into());
    all
}
