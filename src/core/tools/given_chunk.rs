//! A chunk of a document as its caller gives it: a text, or a text with its parts.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::either::text_or_object;

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
    #[schemars(schema_with = "super::given_chunk::provenance")]
    pub provenance: Option<Map<String, Value>>,
}

/// Schema of a provenance: any attributes, with those that something here reads by name.
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
    /// Its text.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => &parts.text,
        }
    }

    /// Its parts, whichever way it was given.
    pub(super) fn parts(&self) -> ChunkParts {
        match self {
            Self::Text(text) => ChunkParts { text: text.clone(), ..ChunkParts::default() },
            Self::Parts(parts) => parts.clone(),
        }
    }

    /// Its name; of one without a name its place.
    pub(super) fn id(&self, index: usize) -> String {
        match self {
            Self::Parts(ChunkParts { chunk_id: Some(id), .. }) => id.clone(),
            Self::Parts(_) | Self::Text(_) => format!("{index:04}"),
        }
    }
}
