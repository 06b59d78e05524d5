//! `ingest_archival`: takes a document into the archive, whole or not at all, in chunks or as a text; or takes it away.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::given_chunk::Chunk;
use super::ingest_checks::{OWNER, message_ids, moment};
use super::ingest_part::Part;
use super::pieces::{Cuts, Cutting};
use super::spec::Step;
use crate::chunk::{self, LateChunking, Splitter};
use crate::clock::iso8601;
use crate::error::{Code, Error, Result};
use crate::limits::DERIVED_MAX;
use crate::memory::Fingerprint;
use crate::memory::archive::{
    ChunkLinks, Fate, Ingest, Manifest, Metric, Passage, VectorSetting, derived, manifest_key,
    passage_key,
};
use crate::memory::core::Core;
use crate::policy::{Answers, ArchiveAnswer, Draft, Question, Surroundings, TaintMode, rules_of};
use crate::text::lexical;

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
    #[schemars(schema_with = "super::given_chunk::provenance")]
    pub provenance: Option<Map<String, Value>>,
    /// Which part of the document these chunks are, where chunks with vectors are too many or too long for one call.
    #[serde(default)]
    pub part: Option<Part>,
    /// Under which name the parts of the whole are kept, once they are put together.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) staged: Option<String>,
    /// What the server cuts the document into.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) cuts: Cuts,
}

impl IngestArchival {
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
        match &self.part {
            Some(part) => self.take_part(part, around, core, answers, archive, &setting),
            None => self.complete(around, core, answers, archive, &setting),
        }
    }

    /// Goes on with a whole document of a setting that fits.
    pub(super) fn complete(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
        archive: &ArchiveAnswer,
        setting: &VectorSetting,
    ) -> Result<Step> {
        let own = own_embedder(archive.setting.as_ref(), around);
        let kind = setting.fingerprint();
        let made =
            answers.embeddings.as_ref().filter(|_| answers.embedded_with.as_ref() == Some(&kind));
        let vectors = match (&self.embeddings, made) {
            (Some(given), _) => given,
            (None, Some(made)) => made,
            (None, None) => {
                let question = self.ask_vectors(around.scope, around.counter, setting, answers)?;
                return Ok(Step::Ask(question));
            }
        };
        if let Some(question) = self.sampled(own, answers)? {
            return Ok(Step::Ask(question));
        }
        if let Some(question) = self.ask_next(around, setting, answers) {
            return Ok(Step::Ask(question));
        }
        self.write(around, core, answers, archive, setting, vectors)
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
        if let (Some(next), Some((kind, vectors))) = (next_of(setting), &answers.next_embeddings)
            && *kind == next.fingerprint()
            && vectors.len() == pieces.len()
        {
            made.push((next, vectors));
        }
        let numbers: Vec<u64> = made.iter().map(|(setting, _)| setting.number).collect();
        let manifest = self.manifest(around, core, old, setting, &numbers, pieces.len());
        let upload = match self.splits() {
            true => self.upload(around.scope, around.counter, setting),
            false => self.staged.clone(),
        };
        let passages = self.passages(around, &manifest, pieces, &made)?;
        let tainted = passages.iter().filter(|passage| !passage.taint.is_empty()).count();
        let mut result = json!({"inserted": passages.len(), "vector_index_used": archive.index_ready,
            "doc_id": self.doc_id, "_rev": manifest.revision, "replaced": old.map_or(0, |m| m.chunks)});
        if tainted > 0 {
            result["tainted"] = tainted.into();
        }
        // Of a document that the server cut they are the numbers from 0000 on; of one that came in parts its caller has them.
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
            let key = passage_key(&manifest.agent_id, &self.doc_id, &ids[at]);
            let taint = match around.taint {
                TaintMode::Off => Vec::new(),
                TaintMode::Mark | TaintMode::Quarantine => rules_of(&piece.text),
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
            "{} differ from what this database holds: send vectors of that kind, or re-index as docs/how-to/reindex.md tells",
            differing.join(", ")
        ),
    )
    .with("differing", differing)
    .with("stored", is)
    .with("given", was)
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
