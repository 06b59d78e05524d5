//! The rows of the archive in the database: chunks, a manifest for each document, and the vector
//! setting.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Fingerprint;
use super::receipt::sha256;
use super::reindex::{LeavingSetting, NextSetting};
use crate::limits::N_PROBE_DEFAULT;

/// How two vectors are compared; the word is ArangoDB's.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Cosine of the angle; larger is nearer.
    #[default]
    Cosine,
    /// Euclidean distance; smaller is nearer.
    L2,
}

impl Metric {
    /// Returns the name of the metric in index definitions.
    pub fn text(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::L2 => "l2",
        }
    }
}

/// The properties that all vectors of a database share, because a vector index has one dimension
/// and one metric. The first ingest writes the setting as the document `vctx_meta/vector`. Later
/// ingests never change this document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VectorSetting {
    /// Number of the setting in its database, from 1. Two settings never have the same number, so
    /// chunks store the vectors of different settings in different attributes.
    #[serde(default = "first_number")]
    pub number: u64,
    /// Number of components of each vector.
    pub dimension: u32,
    /// How the vectors are compared.
    pub metric: Metric,
    /// Version of the embedding model.
    pub embedding_version: String,
    /// Name of the embedding model.
    pub model_id: String,
    /// Configured `nProbe` of a search (number of the index's lists that are read).
    #[serde(rename = "defaultNProbe")]
    pub default_n_probe: u32,
    /// Number of lists of the vector index; `None` while there is no index.
    #[serde(rename = "nLists", default)]
    pub n_lists: Option<u64>,
    /// Results of the index's measurement, including the best `nProbe`; `None` before an index is
    /// ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Value>,
    /// When the setting was written.
    pub created_at: String,
    /// Revision of the document `vctx_meta/vector`; read from the database and never written.
    #[serde(rename = "_rev", default, skip_serializing)]
    pub rev: String,
    /// Largest number that any setting of this database has had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
    /// The setting that a reindex introduces, while the server computes vectors for this setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Box<NextSetting>>,
    /// A former or cancelled setting, while the server removes its vectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<LeavingSetting>,
}

fn first_number() -> u64 {
    1
}

impl VectorSetting {
    /// Returns the name of the attribute in which a chunk stores its vector of this setting.
    pub fn attribute(&self) -> String {
        attribute(self.number)
    }

    /// Returns the default `nProbe` of a search: the measured value, or else the configured value.
    pub fn n_probe(&self) -> u32 {
        let measured = self.measured.as_ref().and_then(|measured| measured["nProbe"].as_u64());
        measured.and_then(|n| u32::try_from(n).ok()).unwrap_or(self.default_n_probe)
    }

    /// Returns whether vectors of `self` and `other` can be compared.
    pub fn serves(&self, other: &Self) -> bool {
        self.dimension == other.dimension
            && self.metric == other.metric
            && self.embedding_version == other.embedding_version
            && self.model_id == other.model_id
    }

    /// Returns the fingerprint of the vectors: model, version and dimension.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            model_id: self.model_id.clone(),
            embedding_version: self.embedding_version.clone(),
            dimension: self.dimension,
        }
    }

    /// Returns a new setting for vectors with the given fingerprint.
    pub fn of(made_by: &Fingerprint, metric: Metric, number: u64, created_at: String) -> Self {
        Self {
            number,
            dimension: made_by.dimension,
            metric,
            embedding_version: made_by.embedding_version.clone(),
            model_id: made_by.model_id.clone(),
            default_n_probe: N_PROBE_DEFAULT,
            n_lists: None,
            measured: None,
            created_at,
            rev: String::new(),
            last: None,
            next: None,
            leaving: None,
        }
    }

    /// Returns the fields that [`Self::serves`] compares, for error messages.
    pub fn described(&self) -> Value {
        json!({"dimension": self.dimension, "metric": self.metric,
            "embedding_version": self.embedding_version, "model_id": self.model_id})
    }
}

/// Returns the name of the attribute in which a chunk stores its vector of a setting, given the
/// setting's number.
pub fn attribute(number: u64) -> String {
    match number {
        0 | 1 => "embedding".to_owned(),
        number => format!("embedding_{number}"),
    }
}

/// Size of an agent's archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archived {
    /// Number of documents in the archive.
    pub documents: u64,
    /// Number of chunks of all documents.
    pub chunks: u64,
}

/// The document `archival_manifests/{key}`, which describes one document of the archive. A call
/// that replaces or removes the archived document must name the manifest's current revision or `*`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Key of the manifest; see [`manifest_key`].
    #[serde(rename = "_key")]
    pub key: String,
    /// Key of the agent.
    pub agent_id: String,
    /// The caller's name for the document.
    pub doc_id: String,
    /// Revision of the document. It changes with each ingest of the document, and every chunk has
    /// the revision of its ingest.
    pub revision: String,
    /// Number of chunks.
    pub chunks: u64,
    /// Number of components of each vector.
    pub dimension: u32,
    /// How the vectors are compared.
    pub metric: Metric,
    /// Version of the embedding model.
    pub embedding_version: String,
    /// Name of the embedding model.
    pub model_id: String,
    /// Evidence of late chunking, without the spans, which are in the chunks.
    pub late_chunking: Value,
    /// Number of the newest vector setting for which all chunks of the document have vectors; 0 for
    /// a document that was stored with an earlier schema.
    #[serde(default)]
    pub embedded: u64,
    /// Source of the document.
    pub provenance: Map<String, Value>,
    /// Labels of the document, as they are stored; see [`Labels`](super::Labels).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Digest of the arguments of the last ingest, by which an ingest of the same document is
    /// recognized; `None` for a document that came in parts or was stored by an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_digest: Option<String>,
    /// Time of the first ingest.
    pub created_at: String,
    /// Time of the last ingest.
    pub updated_at: String,
}

/// A range of a document in tokens or characters; `end` is outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The first position of the span.
    pub start: u64,
    /// The first position after the span.
    pub end: u64,
}

/// The `chunk_id` of the chunks before and after a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkLinks {
    /// The chunk before this chunk; `None` for the first chunk.
    pub previous: Option<String>,
    /// The chunk after this chunk; `None` for the last chunk.
    pub next: Option<String>,
}

/// A larger passage made of consecutive chunks. A search that finds one of these chunks shows all
/// of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Index of the first chunk of the passage.
    pub first: u64,
    /// Index of the last chunk of the passage.
    pub last: u64,
    /// Range of the passage in the document's text, in characters.
    pub offset: Option<Span>,
}

/// The document `archival_docs/{key}`: one chunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Passage {
    /// Key of the chunk; see [`passage_key`].
    #[serde(rename = "_key")]
    pub key: String,
    /// Key of the agent.
    pub agent_id: String,
    /// The caller's name for the chunk's document, as in the manifest.
    pub doc_id: String,
    /// Name of the chunk within the document.
    pub chunk_id: String,
    /// Index of the chunk in the document, from 0.
    pub index: u64,
    /// The text of the chunk.
    pub text: String,
    /// The chunk's vectors, one for each vector setting, by attribute name (see [`attribute`]). If
    /// a chunk has no vector of a setting, the attribute is absent, because a vector index refuses
    /// null.
    #[serde(flatten)]
    pub vectors: BTreeMap<String, Vec<f64>>,
    /// Number of components of the vector.
    pub dimension: u32,
    /// Metric that compares the vectors.
    pub metric: Metric,
    /// Version of the embedding model.
    pub embedding_version: String,
    /// Name of the embedding model.
    pub model_id: String,
    /// Source of the chunk, with its `owner`.
    pub provenance: Map<String, Value>,
    /// Labels of the chunk's document, as they are stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The chunk's neighbours in the document.
    pub chunk_links: ChunkLinks,
    /// Range of the chunk in the document's text, in characters, if known.
    pub offset: Option<Span>,
    /// Time of the chunk's content, ISO 8601 with milliseconds.
    pub freshness_ts: String,
    /// Whether the caller gave `freshness_ts`; otherwise it is the time of the ingest.
    pub dated: bool,
    /// The larger passage that contains the chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Upper bound, as server time in milliseconds: the chunk and its newest vectors were committed
    /// at this time or earlier. For an ingest, this is the time when its writes were computed, plus
    /// [`INGEST_COMMIT_MS`](crate::limits::INGEST_COMMIT_MS). The ArangoSearch view contains the
    /// chunk a moment after the commit.
    pub ingested_ms: u64,
    /// Number of tokens of the chunk's text in the agent's encoding. It does not include the cost
    /// of a message that contains the text.
    pub token_estimate: u64,
    /// The manifest's revision at the chunk's ingest.
    pub revision: String,
    /// Names of the injection rules that the chunk's text matches. An injection rule recognizes
    /// text that reads like an instruction to the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taint: Vec<&'static str>,
    /// The chunk's own key if the chunk is tainted; an index of tainted chunks uses this attribute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tainted_key: Option<String>,
}

/// A chunk in a search result, without its vector.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FoundPassage {
    /// Key of the chunk in `archival_docs`.
    pub key: String,
    /// The caller's name for the chunk's document.
    pub doc_id: String,
    /// Name of the chunk within the document.
    pub chunk_id: String,
    /// The text of the chunk.
    pub text: String,
    /// Cosine of the chunk's vector and the query's vector; with the metric `l2`, the distance of
    /// the two vectors; `None` for a chunk that was read by its key.
    pub similarity: Option<f64>,
    /// Source of the chunk.
    pub provenance: Map<String, Value>,
    /// Labels of the chunk's document, as they are stored.
    #[serde(default)]
    pub labels: Vec<String>,
    /// The chunk's neighbours in the document.
    pub chunk_links: ChunkLinks,
    /// Range of the passage in the document's text, in characters.
    pub offset: Option<Span>,
    /// Time of the chunk's content.
    pub freshness_ts: String,
    /// Whether the caller gave `freshness_ts`; `None` for chunks of an earlier schema.
    #[serde(default)]
    pub dated: Option<bool>,
    /// The larger passage that contains the chunk. If the chunk was read by its key, `text` and
    /// `offset` describe the larger passage.
    #[serde(default)]
    pub parent: Option<Parent>,
    /// The manifest's revision at the chunk's ingest.
    pub revision: String,
    /// Score of a search that also matches words; `None` for a search by vector alone.
    #[serde(default)]
    pub score: Option<f64>,
    /// Names of the injection rules that the text matches. The server sets these names before it
    /// shows the chunk, and never reads them from the database.
    #[serde(skip)]
    pub tainted: Vec<String>,
    /// Whether a quarantine notice replaces the text.
    #[serde(skip)]
    pub quarantined: bool,
}

/// An edge of `derived_from`, from a chunk to a message from which it was made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Derived {
    /// Hash of the edge's two ends.
    #[serde(rename = "_key")]
    pub key: String,
    /// Start of the edge, the chunk: `archival_docs/{key}`.
    #[serde(rename = "_from")]
    pub from: String,
    /// End of the edge, the message: `messages/{key}`.
    #[serde(rename = "_to")]
    pub to: String,
}

/// What a write does to a document of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The document is new.
    New,
    /// The document replaces an earlier document.
    Replaces,
    /// The document is removed.
    Removed,
}

/// All rows that an ingest writes, except the core.
#[derive(Clone, Debug, PartialEq)]
pub struct Ingest {
    /// The new manifest, or the last manifest of a removed document.
    pub manifest: Manifest,
    /// Whether the write adds, replaces or removes the document.
    pub fate: Fate,
    /// Name of the upload, if the document arrived in several parts.
    pub upload: Option<String>,
    /// The chunks, in order.
    pub passages: Vec<Passage>,
    /// The vector setting, if this is the first ingest of the database.
    pub setting: Option<VectorSetting>,
    /// Numbers of the vector settings for which the chunks have vectors; the setting in use at the
    /// time of the write must be one of them.
    pub numbers: Vec<u64>,
    /// Edges to the messages that the document was made from.
    pub derived: Vec<Derived>,
}

/// A part of a document during its ingest, kept until all parts are present.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StagedPart {
    /// The chunks as the caller gave them; null if the server splits the document.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub chunks: Value,
    /// The vectors of the chunks.
    pub embeddings: Vec<Vec<f64>>,
    /// Ranges of the chunks in the whole document; empty if the server splits the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
}

impl StagedPart {
    /// Returns the estimated size of the part in a transaction, in bytes.
    pub fn bytes(&self) -> usize {
        let components: usize = self.embeddings.iter().map(Vec::len).sum();
        let texts = match &self.chunks {
            Value::Array(chunks) => chunks.iter().map(text_bytes).sum(),
            _ => 0,
        };
        texts + components * size_of::<f64>()
    }
}

fn text_bytes(chunk: &Value) -> usize {
    chunk.as_str().or_else(|| chunk["text"].as_str()).map_or(0, str::len)
}

/// Returns the key of a document's manifest. The key consists of 128 bits of a hash, so that no
/// agent can guess the key of another agent's manifest.
pub fn manifest_key(agent_id: &str, doc_id: &str) -> String {
    short(&format!("manifest\0{agent_id}\0{doc_id}"))
}

/// Returns the key of a chunk, which stays the same when the document is ingested again.
pub fn passage_key(agent_id: &str, doc_id: &str, chunk_id: &str) -> String {
    let mut key = short(&format!("passage\0{agent_id}\0{doc_id}\0{chunk_id}"));
    key.truncate(PASSAGE_KEY_DIGITS);
    key
}

/// Returns the handle of a chunk, which names the chunk to a model.
pub fn handle(doc_id: &str, chunk_id: &str) -> String {
    format!("{doc_id}#{chunk_id}")
}

/// Returns the names of document and chunk in a handle; `None` for a text without `#`.
pub fn parted_handle(handle: &str) -> Option<(&str, &str)> {
    handle.rsplit_once('#').filter(|(doc_id, chunk_id)| !doc_id.is_empty() && !chunk_id.is_empty())
}

/// Returns the key under which a part of a document is stored during its ingest.
pub fn part_key(agent_id: &str, upload: &str, part: usize) -> String {
    short(&format!("part\0{agent_id}\0{upload}\0{part}"))
}

/// Returns the edge of `derived_from` from a chunk to a message.
pub fn derived(passage_key: &str, message_key: &str) -> Derived {
    Derived {
        key: short(&format!("derived\0{passage_key}\0{message_key}")),
        from: format!("archival_docs/{passage_key}"),
        to: format!("messages/{message_key}"),
    }
}

/// Number of hex digits of a key, which has 128 bits.
const KEY_DIGITS: usize = 32;
/// Number of hex digits of a chunk's key. The key has only 80 bits to save tokens, because every
/// search result contains the key. The probability that two of ten million chunks have equal keys
/// is about one in ten billion.
const PASSAGE_KEY_DIGITS: usize = 20;

/// Returns the first digits of a text's hash, as a key.
pub(super) fn short(text: &str) -> String {
    let mut hash = sha256(text);
    hash.truncate(KEY_DIGITS);
    hash
}
