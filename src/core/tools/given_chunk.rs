//! The argument that gives one chunk of a document: a text, or an object with the text and further
//! attributes.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::text_or_object::text_or_object;

/// A chunk as the caller gives it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Chunk {
    /// Only the text.
    Text(String),
    /// The text with further attributes.
    Parts(ChunkParts),
}

/// The parts of a chunk.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChunkParts {
    /// The text.
    pub text: String,
    /// Name of the chunk in the document; its index (`0000`, `0001`, …) by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_id: Option<String>,
    /// When the content was current: `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS.mmmZ`; now by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freshness_ts: Option<String>,
    /// Source of the chunk, in addition to the document's provenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::given_chunk::provenance")]
    pub provenance: Option<Map<String, Value>>,
}

/// Returns the schema of a provenance, which allows any attributes and describes those that the
/// server itself reads.
pub(super) fn provenance(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["object", "null"],
        "properties": {
            "source": {"type": "string", "description": "What it is from; `filter.source` of search_archival looks for it."},
            "message_ids": {"type": "array", "items": {"type": "string"}, "description": "Messages that it was made from."},
        },
        "additionalProperties": true,
    })
}

impl<'de> Deserialize<'de> for Chunk {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a text, or an object with `text`";
        text_or_object(deserializer, expected, |text| Ok(Self::Text(text.to_owned())), Self::Parts)
    }
}

impl Chunk {
    /// Returns the chunk's text.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => &parts.text,
        }
    }

    /// Returns the chunk as an object, in whichever form the caller gave it.
    pub(super) fn parts(&self) -> ChunkParts {
        match self {
            Self::Text(text) => ChunkParts { text: text.clone(), ..ChunkParts::default() },
            Self::Parts(parts) => parts.clone(),
        }
    }

    /// Returns the chunk's name; for a chunk without a name, its index with four digits.
    pub(super) fn id(&self, index: usize) -> String {
        match self {
            Self::Parts(ChunkParts { chunk_id: Some(id), .. }) => id.clone(),
            Self::Parts(_) | Self::Text(_) => format!("{index:04}"),
        }
    }
}
