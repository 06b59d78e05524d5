//! `ingest_archival`: takes a document into the archive, whole or not at all, in chunks or as a text; or takes it away.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::either::text_or_object;
use super::pieces::{Cuts, Cutting};
use super::spec::Step;
use crate::chunk::{self, LateChunking, Naive, Offered, Splitter};
use crate::clock::iso8601;
use crate::error::{Code, Error, Result};
use crate::limits::{
    CHUNK_BYTES_MAX, CHUNKS_MAX, COMPONENT_MAX, DERIVED_MAX, DIMENSION_MAX, DOC_ID_BYTES_MAX,
    NAME_BYTES_MAX, PROVENANCE_BYTES_MAX,
};
use crate::memory::Fingerprint;
use crate::memory::archive::{
    ChunkLinks, Fate, Ingest, Manifest, Metric, Passage, VectorSetting, derived, manifest_key,
    passage_key,
};
use crate::memory::core::Core;
use crate::models::lexical;
use crate::policy::{Answers, ArchiveAnswer, Draft, Question, Surroundings, check_name};

/// Arguments of `ingest_archival`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IngestArchival {
    /// The caller's name for the document, e.g. its path. Taking it in again replaces it.
    pub doc_id: String,
    /// Its chunks, in order: texts, or objects with a text. Left out: the server splits `document`.
    #[serde(default)]
    #[schemars(length(max = 512))]
    pub chunks: Vec<Chunk>,
    /// One vector for each chunk. Left out: the server's embedder makes them, late.
    #[serde(default)]
    pub embeddings: Option<Vec<Vec<f64>>>,
    /// Components of each vector; the same for all documents of a database.
    #[serde(default)]
    #[schemars(range(min = 1, max = 4096))]
    pub dimension: Option<u32>,
    /// How vectors are compared; the same for all documents of a database.
    #[serde(default)]
    pub metric: Option<Metric>,
    /// Version of the embedding; needed with `embeddings`.
    #[serde(default)]
    pub embedding_version: Option<String>,
    /// What made the vectors; needed with `embeddings`.
    #[serde(default)]
    pub model_id: Option<String>,
    /// How the vectors were made; needed with `embeddings`. Chunks that were embedded one by one are refused.
    #[serde(default)]
    pub late_chunking: Option<LateChunking>,
    /// The document's whole text. Without `chunks` it is split and every character of it belongs to a chunk; with them it is what they are
    /// checked against, and not stored.
    #[serde(default)]
    pub document: Option<String>,
    /// How the server splits `document`.
    #[serde(default)]
    pub splitter: Option<Splitter>,
    /// When the document was current, for chunks that do not say otherwise: `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS.mmmZ`.
    #[serde(default)]
    pub freshness_ts: Option<String>,
    /// Takes the document away instead: its chunks, their vectors and the edges from and to them.
    #[serde(default)]
    pub delete: bool,
    /// Where the document comes from; `message_ids` names messages that it was made from.
    #[serde(default)]
    pub provenance: Option<Map<String, Value>>,
    /// What the server cuts the document into.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) cuts: Cuts,
}

/// A chunk as it is given.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Chunk {
    /// Just its text.
    Text(String),
    /// With its parts.
    Parts(ChunkParts),
}

/// The parts of a chunk.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChunkParts {
    /// The text.
    pub text: String,
    /// Its name in the document; its place (`0000`, `0001`, …) unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_id: Option<String>,
    /// When its content was current: `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS.mmmZ`; now unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freshness_ts: Option<String>,
    /// Where it comes from, beside what is said of the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Map<String, Value>>,
}

impl<'de> Deserialize<'de> for Chunk {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        let expected = "a text, or an object with `text`";
        text_or_object(deserializer, expected, |text| Ok(Self::Text(text.to_owned())), Self::Parts)
    }
}

impl Chunk {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => &parts.text,
        }
    }

    pub(super) fn parts(&self) -> ChunkParts {
        match self {
            Self::Text(text) => ChunkParts { text: text.clone(), ..ChunkParts::default() },
            Self::Parts(parts) => parts.clone(),
        }
    }

    pub(super) fn id(&self, index: usize) -> String {
        match self {
            Self::Parts(ChunkParts { chunk_id: Some(id), .. }) => id.clone(),
            Self::Parts(_) | Self::Text(_) => format!("{index:04}"),
        }
    }
}

/// Name under which messages stand in a provenance.
const MESSAGE_IDS: &str = "message_ids";
/// Name under which the server writes whose a document is.
const OWNER: &str = "owner";

impl IngestArchival {
    /// The same, checked beyond its types; a fault names the argument.
    pub(super) fn checked(self) -> Result<Self> {
        if self.doc_id.is_empty()
            || self.doc_id.len() > DOC_ID_BYTES_MAX
            || self.doc_id.chars().any(char::is_control)
        {
            return Err(Error::argument(
                "doc_id",
                format!("use 1 to {DOC_ID_BYTES_MAX} bytes without control characters"),
            ));
        }
        if self.delete {
            self.check_bare()?;
            return Ok(self);
        }
        if self.splits() {
            self.check_document()?;
        } else {
            self.check_chunks()?;
        }
        if let Some(ts) = &self.freshness_ts {
            moment("freshness_ts", ts)?;
        }
        self.check_embeddings()?;
        check_provenance("provenance", self.provenance.as_ref())?;
        let named = self.message_ids()?.len();
        if named > DERIVED_MAX {
            return Err(Error::argument(
                "provenance.message_ids",
                format!("{named} messages are named: at most {DERIVED_MAX}"),
            ));
        }
        Ok(self)
    }

    /// A document that goes is named, and nothing else is said of it.
    fn check_bare(&self) -> Result<()> {
        let said = [
            ("chunks", !self.chunks.is_empty()),
            ("document", self.document.is_some()),
            ("splitter", self.splitter.is_some()),
            ("embeddings", self.embeddings.is_some()),
            ("late_chunking", self.late_chunking.is_some()),
            ("provenance", self.provenance.is_some()),
            ("freshness_ts", self.freshness_ts.is_some()),
        ];
        match said.iter().find(|(_, given)| *given) {
            Some((field, _)) => Err(Error::argument(field, "leave it out with `delete`")),
            None => Ok(()),
        }
    }

    fn check_document(&self) -> Result<()> {
        let document = self.document.as_deref().unwrap_or_default();
        if document.trim().is_empty() {
            return Err(Error::argument("document", "is empty: nothing in it could be found"));
        }
        for (field, given) in [
            ("embeddings", self.embeddings.is_some()),
            ("late_chunking", self.late_chunking.is_some()),
        ] {
            if given {
                return Err(Error::argument(field, "goes with `chunks`, which it describes"));
            }
        }
        self.splitter.clone().unwrap_or_default().checked().map(drop)
    }

    fn check_chunks(&self) -> Result<()> {
        if self.chunks.is_empty() || self.chunks.len() > CHUNKS_MAX {
            return Err(Error::argument(
                "chunks",
                format!(
                    "give 1 to {CHUNKS_MAX}, or the whole text as `document`, which the server splits itself"
                ),
            ));
        }
        if self.splitter.is_some() {
            return Err(Error::argument("splitter", "goes with `document` without `chunks`"));
        }
        let mut ids = BTreeSet::new();
        for (at, chunk) in self.chunks.iter().enumerate() {
            let place = |field: &str| format!("chunks[{at}]{field}");
            if chunk.text().trim().is_empty() || chunk.text().len() > CHUNK_BYTES_MAX {
                return Err(Error::argument(
                    &place(""),
                    format!("use 1 to {CHUNK_BYTES_MAX} bytes that are not all white space"),
                ));
            }
            let parts = chunk.parts();
            if let Some(id) = &parts.chunk_id {
                check_name(&place(".chunk_id"), id)?;
            }
            if !ids.insert(chunk.id(at)) {
                return Err(Error::argument(
                    &place(".chunk_id"),
                    format!("`{}` names two chunks", chunk.id(at)),
                ));
            }
            if let Some(ts) = &parts.freshness_ts {
                moment(&place(".freshness_ts"), ts)?;
            }
            check_provenance(&place(".provenance"), parts.provenance.as_ref())?;
        }
        Ok(())
    }

    /// Lengths, numbers and directions of the vectors, and that what describes them is there.
    fn check_embeddings(&self) -> Result<()> {
        for (field, text) in
            [("embedding_version", &self.embedding_version), ("model_id", &self.model_id)]
        {
            if text.as_ref().is_some_and(|t| t.is_empty() || t.len() > NAME_BYTES_MAX) {
                return Err(Error::argument(field, format!("use 1 to {NAME_BYTES_MAX} bytes")));
            }
        }
        if self.dimension.is_some_and(|d| d == 0 || d > DIMENSION_MAX) {
            return Err(Error::argument("dimension", format!("use 1 to {DIMENSION_MAX}")));
        }
        let Some(embeddings) = &self.embeddings else { return Ok(()) };
        let missing = |field: &str| {
            Error::argument(field, "is needed with embeddings: say what the vectors are")
        };
        let dimension = self.dimension.ok_or_else(|| missing("dimension"))?;
        let metric = self.metric.ok_or_else(|| missing("metric"))?;
        self.embedding_version.as_ref().ok_or_else(|| missing("embedding_version"))?;
        self.model_id.as_ref().ok_or_else(|| missing("model_id"))?;
        if embeddings.len() != self.chunks.len() {
            let (vectors, chunks) = (embeddings.len(), self.chunks.len());
            return Err(Error::argument(
                "embeddings",
                format!("{vectors} vectors for {chunks} chunks: give one for each"),
            ));
        }
        for (at, vector) in embeddings.iter().enumerate() {
            check_vector(&format!("embeddings[{at}]"), vector, dimension, metric)?;
        }
        Ok(())
    }

    /// Without vectors only the server's own kind of vectors may be described.
    fn check_own(&self, own: &Fingerprint) -> Result<()> {
        if self.embeddings.is_some() {
            return Ok(());
        }
        let dimension = own.dimension;
        if !lexical::makes(own) && self.dimension.is_some_and(|given| given != dimension) {
            return Err(Error::argument(
                "dimension",
                format!(
                    "the server's embedder makes {dimension}: leave it out, or say {dimension}"
                ),
            ));
        }
        for (field, given, own) in [
            ("model_id", self.model_id.as_deref(), own.model_id.as_str()),
            (
                "embedding_version",
                self.embedding_version.as_deref(),
                own.embedding_version.as_str(),
            ),
        ] {
            if given.is_some_and(|given| given != own) {
                return Err(Error::argument(
                    field,
                    format!(
                        "without embeddings the server makes vectors itself: leave it out, or say {own}"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Messages that the document or a chunk is derived from, each once.
    fn message_ids(&self) -> Result<BTreeSet<String>> {
        let mut all: BTreeSet<String> =
            message_ids("provenance", self.provenance.as_ref())?.into_iter().collect();
        for (at, chunk) in self.chunks.iter().enumerate() {
            let place = format!("chunks[{at}].provenance");
            all.extend(message_ids(&place, chunk.parts().provenance.as_ref())?);
        }
        Ok(all)
    }

    /// Thinks: what the call does to this core and to the archive.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        if !self.splits() && !self.delete {
            self.check_evidence(around.embedder)?;
        }
        let messages: Vec<String> = self.message_ids()?.into_iter().collect();
        let Some(archive) = &answers.archive else {
            let manifest_key = manifest_key(&core.agent_id, &self.doc_id);
            return Ok(Step::Ask(Question::Archive { manifest_key, messages }));
        };
        if let Some(unknown) = messages.iter().find(|id| !archive.messages.contains(id)) {
            return Err(Error::argument(
                "provenance.message_ids",
                format!("no message `{unknown}` of this agent"),
            ));
        }
        if self.delete {
            return self.remove(around, core, answers, archive);
        }
        let own = own_embedder(archive.setting.as_ref(), around);
        let setting = self.setting(archive.setting.as_ref(), own, around)?;
        let vectors = match (&self.embeddings, &answers.embeddings) {
            (Some(given), _) => given,
            (None, Some(made)) => made,
            (None, None) => {
                let question = self.ask_vectors(around.scope, around.counter, &setting)?;
                return Ok(Step::Ask(question));
            }
        };
        if let Some(question) = self.sampled(own, answers)? {
            return Ok(Step::Ask(question));
        }
        if let Some(question) = self.ask_next(around, &setting, answers) {
            return Ok(Step::Ask(question));
        }
        self.write(around, core, answers, archive, &setting, vectors)
    }

    /// Where the configured embedder is the model that the caller names, some chunks are embedded alone: vectors that are the same were not
    /// made in the light of the document. Asks for them first.
    fn sampled(&self, own: &Fingerprint, answers: &Answers) -> Result<Option<Question>> {
        let Some(embeddings) = &self.embeddings else { return Ok(None) };
        let declared = self.model_id.as_ref() == Some(&own.model_id);
        let samples = chunk::samples(self.chunks.len());
        if !declared || self.dimension != Some(own.dimension) || samples.is_empty() {
            return Ok(None);
        }
        let Some(alone) = &answers.alone else {
            let texts = samples.iter().map(|at| self.chunks[*at].text().to_owned()).collect();
            return Ok(Some(Question::EmbedAlone { texts, with: own.clone() }));
        };
        let offered: Vec<&[f64]> = samples.iter().map(|at| &embeddings[*at][..]).collect();
        chunk::check_alone(&offered[..alone.len().min(offered.len())], alone)
            .map(|()| None)
            .map_err(|naive| self.refused(&naive))
    }

    /// The document goes, with everything that was made of it.
    fn remove(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
        archive: &ArchiveAnswer,
    ) -> Result<Step> {
        let Some(old) = archive.manifest.clone() else {
            return Err(Error::new(
                Code::DocumentNotFound,
                "no such document in the archive: nothing to take away",
            )
            .with("field", "doc_id"));
        };
        let mut result = Map::new();
        result.insert("doc_id".into(), self.doc_id.as_str().into());
        result.insert("deleted".into(), true.into());
        result.insert("inserted".into(), 0.into());
        result.insert("replaced".into(), old.chunks.into());
        result.insert("vector_index_used".into(), archive.index_ready.into());
        let mut draft = Draft::new(around, core);
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
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }

    /// Vectors of the caller need evidence; those of the server are made late.
    fn check_evidence(&self, own: &Fingerprint) -> Result<()> {
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
        chunk::check(self.late_chunking.as_ref(), offered).map_err(|naive| self.refused(&naive))
    }

    fn refused(&self, naive: &Naive) -> Error {
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

    /// What this ingest's vectors are; refused when the database holds others.
    fn setting(
        &self,
        stored: Option<&VectorSetting>,
        own: &Fingerprint,
        around: Surroundings<'_>,
    ) -> Result<VectorSetting> {
        self.check_own(own)?;
        // The lexical embedder makes any length; of others the length is part of what they are.
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
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
        archive: &ArchiveAnswer,
        setting: &VectorSetting,
        vectors: &[Vec<f64>],
    ) -> Result<Step> {
        let old = archive.manifest.as_ref();
        let mut draft = Draft::new(around, core);
        let pieces = self.pieces(around.counter);
        // The newest number stands last.
        let mut made = vec![(setting, vectors)];
        if let (Some(next), Some(vectors)) = (next_of(setting), &answers.next_embeddings)
            && vectors.len() == pieces.len()
        {
            made.push((next, vectors));
        }
        let numbers: Vec<u64> = made.iter().map(|(setting, _)| setting.number).collect();
        let manifest = self.manifest(around, core, old, setting, &numbers, pieces.len());
        let upload = match self.splits() {
            true => self.upload(around.scope, around.counter, setting),
            false => None,
        };
        let passages = self.passages(around, &manifest, pieces, &made)?;
        let mut result = json!({"inserted": passages.len(), "vector_index_used": archive.index_ready,
            "doc_id": self.doc_id, "_rev": manifest.revision, "replaced": old.map_or(0, |m| m.chunks)});
        // Of a document that the server cut they are the numbers from 0000 on.
        if !self.splits() {
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
        let result = result.as_object().cloned().unwrap_or_default();
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }

    fn manifest(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        old: Option<&Manifest>,
        setting: &VectorSetting,
        numbers: &[u64],
        chunks: usize,
    ) -> Manifest {
        let now = iso8601(around.unix_ms);
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
            key: manifest_key(&core.agent_id, &self.doc_id),
            agent_id: core.agent_id.clone(),
            doc_id: self.doc_id.clone(),
            revision: around.ids.key(),
            chunks: chunks as u64,
            dimension: setting.dimension,
            metric: setting.metric,
            embedding_version: setting.embedding_version.clone(),
            model_id: setting.model_id.clone(),
            late_chunking,
            provenance: owned(&core.agent_id, self.provenance.as_ref(), None),
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
            passages.push(Passage {
                key: passage_key(&manifest.agent_id, &self.doc_id, &ids[at]),
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
                chunk_links: ChunkLinks {
                    previous: at.checked_sub(1).map(|before| ids[before].clone()),
                    next: ids.get(at + 1).cloned(),
                },
                offset: piece.offset,
                freshness_ts,
                dated: piece.freshness_ts.is_some(),
                parent: piece.parent,
                ingested_ms: around.unix_ms,
                revision: manifest.revision.clone(),
            });
        }
        Ok(passages)
    }

    /// Each chunk comes from the messages that it names, and from those that its document names.
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
                    "{} pairs of chunk and message: at most {DERIVED_MAX}; name messages at the chunks that they belong to",
                    edges.len()
                ),
            ));
        }
        Ok(edges)
    }
}

/// The embedder of this server whose vectors an ingest may leave to it: the one that the archive has changed to, if it has; else the
/// configured one.
fn own_embedder<'a>(stored: Option<&VectorSetting>, around: Surroundings<'a>) -> &'a Fingerprint {
    let serving = stored.map(VectorSetting::fingerprint);
    around.next_embedder.filter(|next| Some(*next) == serving.as_ref()).unwrap_or(around.embedder)
}

/// The setting that the archive changes to, while it does.
pub(super) fn next_of(setting: &VectorSetting) -> Option<&VectorSetting> {
    setting.next.as_ref().filter(|next| !next.stopped).map(|next| &next.setting)
}

/// Vectors of two kinds cannot lie in one index.
pub(super) fn mismatch(stored: &VectorSetting, given: &VectorSetting) -> Error {
    let (is, was) = (stored.described(), given.described());
    let differing: Vec<&str> = ["dimension", "metric", "embedding_version", "model_id"]
        .into_iter()
        .filter(|field| is[*field] != was[*field])
        .collect();
    Error::new(
        Code::VectorSettingMismatch,
        format!(
            "{} differ from what this database holds: send vectors of that kind, or re-index as docs/reindex.md tells",
            differing.join(", ")
        ),
    )
    .with("differing", differing)
    .with("stored", is)
    .with("given", was)
}

/// A vector of that many finite numbers, with a direction where directions are compared.
pub(super) fn check_vector(
    field: &str,
    vector: &[f64],
    dimension: u32,
    metric: Metric,
) -> Result<()> {
    if vector.len() as u64 != u64::from(dimension) {
        return Err(Error::argument(
            field,
            format!("has {} components, not {dimension}", vector.len()),
        ));
    }
    if vector.iter().any(|c| !c.is_finite() || c.abs() > COMPONENT_MAX) {
        return Err(Error::argument(
            field,
            format!("has a component that is not finite or beyond ±{COMPONENT_MAX:e}"),
        ));
    }
    // What counts is the direction in the floats of four bytes that an index keeps.
    let squares: f32 = vector.iter().map(|c| (*c as f32) * (*c as f32)).sum();
    if metric == Metric::Cosine && squares <= 0.0 {
        return Err(Error::argument(field, "is a zero vector, which has no direction"));
    }
    Ok(())
}

fn check_provenance(field: &str, provenance: Option<&Map<String, Value>>) -> Result<()> {
    let Some(provenance) = provenance else { return Ok(()) };
    if Value::Object(provenance.clone()).to_string().len() > PROVENANCE_BYTES_MAX {
        return Err(Error::argument(field, format!("longer than {PROVENANCE_BYTES_MAX} bytes")));
    }
    if provenance.contains_key(OWNER) {
        return Err(Error::argument(field, "`owner` is the server's to write: leave it out"));
    }
    Ok(())
}

fn message_ids(field: &str, provenance: Option<&Map<String, Value>>) -> Result<Vec<String>> {
    let Some(ids) = provenance.and_then(|p| p.get(MESSAGE_IDS)) else { return Ok(Vec::new()) };
    let ids = ids.as_array().map(|ids| ids.iter().map(|id| id.as_str().map(str::to_owned)));
    ids.and_then(Iterator::collect).ok_or_else(|| {
        Error::argument(&format!("{field}.{MESSAGE_IDS}"), "must be a list of message ids")
    })
}

/// What is said of the document, then of the chunk, then whose it is.
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

/// A moment in the one form that sorts by time: `YYYY-MM-DDTHH:MM:SS.mmmZ`. A day alone, and seconds without a fraction, are filled up.
pub(super) fn moment(field: &str, text: &str) -> Result<String> {
    let filled = match text.len() {
        10 => format!("{text}T00:00:00.000Z"),
        20 => format!("{}.000Z", &text.get(..19).unwrap_or_default()),
        _ => text.to_owned(),
    };
    let fits = filled.len() == FORM.len()
        && filled.bytes().zip(FORM.bytes()).all(|(is, form)| match form {
            b'0' => is.is_ascii_digit(),
            other => is == other,
        });
    let part = |from: usize, to: usize| filled.get(from..to).and_then(|p| p.parse::<u32>().ok());
    let within = |from, to, least: u32, most: u32| {
        part(from, to).is_some_and(|number| (least..=most).contains(&number))
    };
    if fits
        && within(5, 7, 1, 12)
        && within(8, 10, 1, 31)
        && within(11, 13, 0, 23)
        && within(14, 16, 0, 59)
        && within(17, 19, 0, 59)
        && (text.len() != 20 || text.ends_with('Z'))
    {
        return Ok(filled);
    }
    Err(Error::argument(field, "use YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS.mmmZ (UTC)"))
}

const FORM: &str = "0000-00-00T00:00:00.000Z";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_filled_up_or_refused() {
        for (text, wanted) in [
            ("2026-02-03", Some("2026-02-03T00:00:00.000Z")),
            ("2026-02-03T04:05:06Z", Some("2026-02-03T04:05:06.000Z")),
            ("2026-02-03T04:05:06.007Z", Some("2026-02-03T04:05:06.007Z")),
            ("2026-02-03T04:05:06X", None),
            ("2026-13-03", None),
            ("2026-02-03T24:05:06Z", None),
            ("2026-02-03T04:05:06+01:00", None),
            ("yesterday!", None),
            ("20260203T0405:06ä.0Z", None),
            ("", None),
        ] {
            assert_eq!(moment("f", text).ok().as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn vectors_are_checked_for_length_numbers_and_direction() {
        for (vector, metric, fits) in [
            (vec![1.0, 0.0], Metric::Cosine, true),
            (vec![0.0, 0.0], Metric::L2, true),
            (vec![0.0, 0.0], Metric::Cosine, false),
            (vec![1e-30, 0.0], Metric::Cosine, false),
            (vec![1.0], Metric::Cosine, false),
            (vec![1.0, f64::NAN], Metric::L2, false),
            (vec![1.0, f64::INFINITY], Metric::L2, false),
            (vec![1.0, 1e300], Metric::L2, false),
        ] {
            assert_eq!(check_vector("v", &vector, 2, metric).is_ok(), fits, "{vector:?}");
        }
    }
}
