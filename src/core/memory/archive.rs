//! The archive as it lies in the database: passages (one document for each chunk), the manifest of their document, the vector setting.

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
    /// The word in definitions of indexes.
    pub fn text(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::L2 => "l2",
        }
    }
}

/// What all vectors of a database have in common: one vector index serves them, and it has one dimension and one metric.
/// It is `vctx_meta/vector`, written with the first ingest and never changed by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VectorSetting {
    /// Counts the settings of a database from 1 on; none is used twice, so vectors of two lie under two names.
    #[serde(default = "first_number")]
    pub number: u64,
    /// Components of each vector.
    pub dimension: u32,
    /// How they are compared.
    pub metric: Metric,
    /// Version of the embedding.
    pub embedding_version: String,
    /// What made them.
    pub model_id: String,
    /// Cells that a search looks into unless it says otherwise.
    #[serde(rename = "defaultNProbe")]
    pub default_n_probe: u32,
    /// Cells of the index; none before there is one.
    #[serde(rename = "nLists", default)]
    pub n_lists: Option<u64>,
    /// How many cells a search needs, as it was measured; none before there is an index that is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Value>,
    /// When it was written.
    pub created_at: String,
    /// The database's own revision of what was read; never written.
    #[serde(rename = "_rev", default, skip_serializing)]
    pub rev: String,
    /// The largest number that was ever used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
    /// What will serve instead, while its vectors are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Box<NextSetting>>,
    /// What served before, or was to serve, while its vectors are taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<LeavingSetting>,
}

fn first_number() -> u64 {
    1
}

impl VectorSetting {
    /// Under which name vectors of this setting stand in a chunk.
    pub fn attribute(&self) -> String {
        attribute(self.number)
    }

    /// Cells that a search looks into unless it says otherwise: as measured, else the default.
    pub fn n_probe(&self) -> u32 {
        let measured = self.measured.as_ref().and_then(|measured| measured["nProbe"].as_u64());
        measured.and_then(|n| u32::try_from(n).ok()).unwrap_or(self.default_n_probe)
    }

    /// What vectors made under `self` and `other` must share.
    pub fn serves(&self, other: &Self) -> bool {
        self.dimension == other.dimension
            && self.metric == other.metric
            && self.embedding_version == other.embedding_version
            && self.model_id == other.model_id
    }

    /// What made the vectors.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            model_id: self.model_id.clone(),
            embedding_version: self.embedding_version.clone(),
            dimension: self.dimension,
        }
    }

    /// What a new setting looks like before anything is known of it.
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

    /// Those four, for messages.
    pub fn described(&self) -> Value {
        json!({"dimension": self.dimension, "metric": self.metric,
            "embedding_version": self.embedding_version, "model_id": self.model_id})
    }
}

/// Under which name vectors of a setting stand in a chunk.
pub fn attribute(number: u64) -> String {
    match number {
        0 | 1 => "embedding".to_owned(),
        number => format!("embedding_{number}"),
    }
}

/// What an agent has in the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archived {
    /// Documents.
    pub documents: u64,
    /// Their chunks.
    pub chunks: u64,
}

/// The document `archival_manifests/{key}`: which chunks make up an archived document, and the revision that guards the next ingest of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// See [`manifest_key`].
    #[serde(rename = "_key")]
    pub key: String,
    /// Whose it is.
    pub agent_id: String,
    /// The caller's name for the document.
    pub doc_id: String,
    /// Changes with each ingest; every chunk carries the one it was written under.
    pub revision: String,
    /// Chunks.
    pub chunks: u64,
    /// Components of each vector.
    pub dimension: u32,
    /// How they are compared.
    pub metric: Metric,
    /// Version of the embedding.
    pub embedding_version: String,
    /// What made them.
    pub model_id: String,
    /// The evidence, without its spans (they lie with the chunks).
    pub late_chunking: Value,
    /// The newest setting, by its number, of which all of its chunks have vectors; 0 of what was taken in under an earlier schema.
    #[serde(default)]
    pub embedded: u64,
    /// Where the document comes from.
    pub provenance: Map<String, Value>,
    /// When the document was first taken in.
    pub created_at: String,
    /// When it was last taken in.
    pub updated_at: String,
}

/// A place in a document, in its tokens or characters; `end` is outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// First one.
    pub start: u64,
    /// First one behind it.
    pub end: u64,
}

/// The chunks before and behind a chunk, by `chunk_id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkLinks {
    /// The one before; none for the first.
    pub previous: Option<String>,
    /// The one behind; none for the last.
    pub next: Option<String>,
}

/// A larger piece of a document that some chunks in a row make up; where one of them is found, all of it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Index of its first chunk.
    pub first: u64,
    /// Index of its last chunk.
    pub last: u64,
    /// Its place in the document's text, in characters.
    pub offset: Option<Span>,
}

/// The document `archival_docs/{key}`: one chunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Passage {
    /// See [`passage_key`].
    #[serde(rename = "_key")]
    pub key: String,
    /// Whose it is.
    pub agent_id: String,
    /// Its document.
    pub doc_id: String,
    /// Its name in the document.
    pub chunk_id: String,
    /// Its place in the document, from 0.
    pub index: u64,
    /// The text.
    pub text: String,
    /// Its vectors by their names ([`attribute`]), one for each setting that the chunk has vectors of. One that is missing is left out: null is
    /// not a vector, and a vector index refuses it.
    #[serde(flatten)]
    pub vectors: BTreeMap<String, Vec<f64>>,
    /// Components of the vector.
    pub dimension: u32,
    /// How vectors are compared.
    pub metric: Metric,
    /// Version of the embedding.
    pub embedding_version: String,
    /// What made the vector.
    pub model_id: String,
    /// Where it comes from, with its `owner`.
    pub provenance: Map<String, Value>,
    /// Its neighbours.
    pub chunk_links: ChunkLinks,
    /// Its place in the document's text in characters, where that is known.
    pub offset: Option<Span>,
    /// When its content was current, ISO 8601 with milliseconds.
    pub freshness_ts: String,
    /// Whether somebody said so; else it is the time of the ingest.
    pub dated: bool,
    /// The larger piece that it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// When it was taken in, or got other vectors, in milliseconds of server time: the view shows it a moment later.
    pub ingested_ms: u64,
    /// Tokens of the text alone, in the agent's encoding.
    pub token_estimate: u64,
    /// The manifest's revision under which it was written.
    pub revision: String,
    /// The rules of tainted text that its text meets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taint: Vec<&'static str>,
    /// Its key once more, if it is tainted: what the list of such chunks goes by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tainted_key: Option<String>,
}

/// A chunk as a search finds it: without its vector.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FoundPassage {
    /// Document key.
    pub key: String,
    /// Its document.
    pub doc_id: String,
    /// Its name in the document.
    pub chunk_id: String,
    /// The text.
    pub text: String,
    /// How near it is: the cosine, or the distance under l2. None when it was asked for by its key.
    pub similarity: Option<f64>,
    /// Where it comes from.
    pub provenance: Map<String, Value>,
    /// Its neighbours.
    pub chunk_links: ChunkLinks,
    /// Its place in the document's text, in characters.
    pub offset: Option<Span>,
    /// When its content was current.
    pub freshness_ts: String,
    /// Whether somebody said so; not known of what was taken in under an earlier schema.
    #[serde(default)]
    pub dated: Option<bool>,
    /// The larger piece that it is a part of; `text` and `offset` are that piece's where the chunk was asked for by its key.
    #[serde(default)]
    pub parent: Option<Parent>,
    /// The manifest's revision under which it was written.
    pub revision: String,
    /// What it is ranked by where words count; none where nearness alone does.
    #[serde(default)]
    pub score: Option<f64>,
    /// The rules of tainted text that its text meets, as whoever shows it finds them; never read.
    #[serde(skip)]
    pub tainted: Vec<String>,
    /// Whether something else is told in the place of its text.
    #[serde(skip)]
    pub quarantined: bool,
}

/// An edge of `derived_from`: a chunk was made from a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Derived {
    /// Hash of both ends.
    #[serde(rename = "_key")]
    pub key: String,
    /// `archival_docs/{key}`.
    #[serde(rename = "_from")]
    pub from: String,
    /// `messages/{key}`.
    #[serde(rename = "_to")]
    pub to: String,
}

/// What becomes of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is taken in; there was none of its name.
    New,
    /// It takes the place of an earlier one.
    Replaces,
    /// It is taken away.
    Removed,
}

/// Everything an ingest writes beside the core.
#[derive(Clone, Debug, PartialEq)]
pub struct Ingest {
    /// The manifest as it will be; of a document that is taken away, as it was.
    pub manifest: Manifest,
    /// Whether chunks of an earlier ingest give way.
    pub fate: Fate,
    /// Under which name vectors of its parts were kept, if they were.
    pub upload: Option<String>,
    /// The chunks, in order.
    pub passages: Vec<Passage>,
    /// The setting, if this ingest is the database's first.
    pub setting: Option<VectorSetting>,
    /// Numbers of the settings of which its chunks have vectors: one of them must serve when it is written.
    pub numbers: Vec<u64>,
    /// Edges to the messages it was made from.
    pub derived: Vec<Derived>,
}

/// A part of a document that is being taken in, as it is kept until the whole is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StagedPart {
    /// Its chunks as they were given; none of a document that the server cuts.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub chunks: Value,
    /// Their vectors.
    pub embeddings: Vec<Vec<f64>>,
    /// Their spans in the whole document; none of a document that the server cuts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
}

impl StagedPart {
    /// Bytes that it will take in a transaction, about.
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

/// Key of a document's manifest: 128 bits of a hash, so that no key can be guessed from one agent to another.
pub fn manifest_key(agent_id: &str, doc_id: &str) -> String {
    short(&format!("manifest\0{agent_id}\0{doc_id}"))
}

/// Key of a chunk; it stays the same when the document is taken in again.
pub fn passage_key(agent_id: &str, doc_id: &str, chunk_id: &str) -> String {
    let mut key = short(&format!("passage\0{agent_id}\0{doc_id}\0{chunk_id}"));
    key.truncate(PASSAGE_KEY_DIGITS);
    key
}

/// Key of a part of a document that is being taken in.
pub fn part_key(agent_id: &str, upload: &str, part: usize) -> String {
    short(&format!("part\0{agent_id}\0{upload}\0{part}"))
}

/// An edge from a chunk to a message.
pub fn derived(passage_key: &str, message_key: &str) -> Derived {
    Derived {
        key: short(&format!("derived\0{passage_key}\0{message_key}")),
        from: format!("archival_docs/{passage_key}"),
        to: format!("messages/{message_key}"),
    }
}

/// Hex digits of a key: 128 bits.
const KEY_DIGITS: usize = 32;
/// Hex digits of a chunk's key: 80 bits, since it stands in every result of a page; among ten million chunks two share one with a chance of
/// one in ten thousand million.
const PASSAGE_KEY_DIGITS: usize = 20;

/// The beginning of a hash, long enough for a key.
pub(super) fn short(text: &str) -> String {
    let mut hash = sha256(text);
    hash.truncate(KEY_DIGITS);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_two_agents_documents_or_chunks_differ() {
        let keys = [
            passage_key("a", "d", "c"),
            passage_key("b", "d", "c"),
            passage_key("a", "e", "c"),
            passage_key("a", "d", "e"),
            passage_key("a", "d\0c", ""),
            manifest_key("a", "d"),
            manifest_key("b", "d"),
        ];
        let different: std::collections::BTreeSet<&String> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
        assert!(keys.iter().all(|k| [KEY_DIGITS, PASSAGE_KEY_DIGITS].contains(&k.len())));
    }

    #[test]
    fn a_missing_vector_is_left_out() {
        let passage = Passage {
            key: "k".into(),
            agent_id: "a".into(),
            doc_id: "d".into(),
            chunk_id: "0".into(),
            index: 0,
            text: "t".into(),
            vectors: BTreeMap::new(),
            dimension: 2,
            metric: Metric::Cosine,
            embedding_version: "1".into(),
            model_id: "m".into(),
            provenance: Map::new(),
            chunk_links: ChunkLinks::default(),
            offset: None,
            freshness_ts: String::new(),
            dated: false,
            parent: None,
            ingested_ms: 0,
            token_estimate: 1,
            revision: "r".into(),
            taint: Vec::new(),
            tainted_key: None,
        };
        let value = serde_json::to_value(&passage).unwrap();
        assert!(value.get("embedding").is_none());
        let two = [(attribute(1), vec![1.0]), (attribute(2), vec![0.0, 1.0])];
        let value = serde_json::to_value(Passage { vectors: two.into(), ..passage }).unwrap();
        assert_eq!(
            (&value["embedding"], &value["embedding_2"]),
            (&json!([1.0]), &json!([0.0, 1.0]))
        );
    }
}
