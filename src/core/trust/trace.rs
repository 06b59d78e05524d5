//! Describes a trace, which starts at one vertex of a memory (such as a message or a passage) and
//! follows relations to other vertices: the query, the bounds, and the vertices reached.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::admit::Scope;
use super::taint::{chunk_place, from_outside};
use crate::error::{Error, Result};
use crate::limits::{DOC_ID_BYTES_MAX, NAME_BYTES_MAX, TRACE_AROUND, TRACE_DEPTH, TRACE_LIMIT};
use crate::memory::archive::{Parent, Span, parted_handle, passage_key};

/// Maximum length of the start of a trace, in bytes, which is the maximum length of a handle: the
/// document's name, `#`, and the chunk's name.
const TRACE_FROM_BYTES_MAX: usize = DOC_ID_BYTES_MAX + 1 + NAME_BYTES_MAX;

/// Relations that a trace follows, in one direction or both.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Follow {
    /// From a message to the messages before and after it.
    Around,
    /// From an answer to the passages that it cites.
    Cites,
    /// From a passage to the answers that cite it.
    CitedBy,
    /// From a passage to the messages that it was made from; from a summary to the messages that it
    /// summarizes and to the summary before it.
    DerivedFrom,
    /// From a message to the passages made from it; from a summary to the next summary.
    Derived,
    /// From a passage to its neighbours in the document, and to the other parts of a larger piece.
    Links,
    /// From an evicted message to the summary that covers it; from the agent to its current
    /// summary.
    Summary,
    /// From the agent to the messages that left its window, newest first.
    Logged,
    /// From a copy to its original, and back.
    Copies,
}

impl Follow {
    /// All relations, in the order in which a trace follows them.
    pub const ALL: [Self; 9] = [
        Self::Around,
        Self::Cites,
        Self::CitedBy,
        Self::DerivedFrom,
        Self::Derived,
        Self::Links,
        Self::Summary,
        Self::Logged,
        Self::Copies,
    ];

    /// Returns the relation's name in calls and answers.
    pub fn text(self) -> &'static str {
        match self {
            Self::Around => "around",
            Self::Cites => "cites",
            Self::CitedBy => "cited_by",
            Self::DerivedFrom => "derived_from",
            Self::Derived => "derived",
            Self::Links => "links",
            Self::Summary => "summary",
            Self::Logged => "logged",
            Self::Copies => "copies",
        }
    }

    /// Returns the relation with this name; an unknown name gives an error that lists all
    /// relations.
    pub fn by_name(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|follow| follow.text() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::text).join(", ");
            Error::argument("follow", format!("no relation of that name: use some of {names}"))
        })
    }
}

/// Identifies a vertex in the graph of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VertexId {
    /// A message by its position.
    Seq(u64),
    /// A message by its key.
    Message(String),
    /// A chunk of an archived document, by its key.
    Chunk(String),
    /// A stored version of the core, by its key; this vertex represents the summary in that
    /// version.
    Version(String),
    /// The agent itself, by its key.
    Agent(String),
}

impl VertexId {
    /// Parses the start of a trace: the `seq` of a message (`17` or `#17`), the handle
    /// (`document#chunk`) of a passage, the id of a message or passage as a search shows it, a
    /// document id (`collection/key`), or `agent`.
    pub fn parse(text: &str, scope: &Scope) -> Result<Self> {
        let odd = || {
            Error::argument(
                "from",
                "give the id of a message or passage as a search shows it, the seq of a message, or `agent`",
            )
        };
        let plain = |key: &str| {
            !key.is_empty()
                && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:@".contains(&b))
        };
        if text.len() > TRACE_FROM_BYTES_MAX {
            return Err(odd());
        }
        if text == "agent" {
            return Ok(Self::Agent(scope.key().to_owned()));
        }
        if let Some((doc_id, chunk_id)) = parted_handle(text) {
            return Ok(Self::Chunk(passage_key(scope.key(), doc_id, chunk_id)));
        }
        let text = text.strip_prefix('#').unwrap_or(text);
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return text.parse().map(Self::Seq).map_err(|_| odd());
        }
        let (collection, key) = text.split_once('/').unwrap_or(("messages", text));
        let key = Some(key).filter(|key| plain(key)).ok_or_else(odd)?.to_owned();
        match collection {
            "messages" => Ok(Self::Message(key)),
            "archival_docs" => Ok(Self::Chunk(key)),
            "core_versions" => Ok(Self::Version(key)),
            "core_memory" => Ok(Self::Agent(key)),
            _ => Err(odd()),
        }
    }
}

/// The query for a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceQuery {
    /// The vertex at which the trace starts.
    pub from: VertexId,
    /// Relations to follow.
    pub follow: BTreeSet<Follow>,
    /// Maximum number of steps from the start.
    pub depth: u64,
    /// Number of messages before and after a message, and of chunks before and after a chunk.
    pub around: u64,
    /// Maximum number of vertices, not counting the start.
    pub limit: u64,
}

impl TraceQuery {
    /// Checks the bounds of a query; an error names the argument. An empty list of relations means
    /// all relations.
    pub fn checked(
        from: VertexId,
        follow: &[Follow],
        depth: u64,
        around: u64,
        limit: u64,
    ) -> Result<Self> {
        for (name, value, (_, least, most)) in [
            ("depth", depth, TRACE_DEPTH),
            ("around", around, TRACE_AROUND),
            ("limit", limit, TRACE_LIMIT),
        ] {
            if value < least || value > most {
                return Err(Error::argument(name, format!("use {least} to {most}")));
            }
        }
        let follow = if follow.is_empty() { &Follow::ALL[..] } else { follow };
        Ok(Self { from, follow: follow.iter().copied().collect(), depth, around, limit })
    }
}

/// Returns the error for a missing vertex, which is also the error for a vertex of another agent.
pub fn nothing_to_trace() -> Error {
    Error::argument(
        "from",
        "this agent has no such message, passage or summary: search for it first",
    )
}

/// A vertex in the graph of a memory. Which of the optional fields are present depends on `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vertex {
    /// Document id of the vertex: `collection/key`.
    pub id: String,
    /// Document key of the vertex.
    pub key: String,
    /// `message`, `chunk`, `summary` or `agent`.
    pub kind: String,
    /// A value that differs after a change: the digest of a message, the revision of a chunk's
    /// document, or the version of a core.
    pub revision: String,
    /// Text of the vertex, or the beginning of a long text.
    pub text: String,
    /// Number of characters of the whole text.
    pub chars: u64,
    /// Position of a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Role of the speaker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Name of the speaker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Kind of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// Time when the message was appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// Time when retention removed the vertex's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<String>,
    /// For a copy: key of the original message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
    /// Document of a chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc_id: Option<String>,
    /// Name of a chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_id: Option<String>,
    /// Index of a chunk in its document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Range of a chunk in the document's text, in characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<Span>,
    /// The larger passage that the chunk is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Version number of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Revision of a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_rev: Option<u64>,
    /// Key of the core version that contains the agent's current summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Position of the first message in the agent's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_seq: Option<u64>,
    /// Position that the agent's next message will get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_seq: Option<u64>,
    /// The taint rules stored with a message or chunk; in an answer, the rules that its text
    /// matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taint: Option<Vec<String>>,
    /// Whether the text was replaced because it is in quarantine.
    #[serde(skip)]
    pub quarantined: bool,
}

impl Vertex {
    /// Whether the vertex may contain text from a third party.
    pub fn is_from_outside(&self) -> bool {
        let told = |text: &Option<String>| Value::from(text.as_deref().unwrap_or_default());
        match (serde_json::from_value(told(&self.said)), serde_json::from_value(told(&self.role))) {
            (Ok(kind), Ok(role)) => from_outside(kind, role),
            _ => self.kind == "chunk",
        }
    }

    /// Returns the name and the revision under which the vertex is released from quarantine.
    pub fn released_as(&self) -> (String, &str) {
        match self.kind.as_str() {
            "chunk" => {
                let doc_id = self.doc_id.as_deref().unwrap_or_default();
                (chunk_place(&self.key, doc_id, self.parent), &self.revision)
            }
            _ => (self.copy_of.as_ref().unwrap_or(&self.key).clone(), ""),
        }
    }
}

/// A vertex, and how the trace reached it.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceStep {
    /// The vertex.
    pub vertex: Vertex,
    /// Index of the step from which the trace reached this vertex, and the relation; `None` for the
    /// start.
    pub by: Option<(u64, String)>,
    /// Steps from the start.
    pub depth: u64,
    /// Attributes of the edge that the trace followed to the vertex.
    pub detail: Option<Map<String, Value>>,
}

/// The result of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The vertices in the order in which the trace reached them, the start first; empty if the
    /// start does not exist.
    pub reached: Vec<TraceStep>,
    /// Whether further vertices were left out because of the limit.
    pub more: bool,
}

impl TraceStep {
    /// Returns the attributes of the step that an answer shows, without the text. `number` is the
    /// step's index in the trace.
    pub fn attributes(&self, number: u64) -> Map<String, Value> {
        let vertex = &self.vertex;
        let mut told = Map::new();
        told.insert("n".into(), number.into());
        if let Some((of, by)) = &self.by {
            told.insert("of".into(), (*of).into());
            told.insert("by".into(), by.as_str().into());
        }
        told.insert("id".into(), vertex.id.as_str().into());
        let known = [
            ("seq", json!(vertex.seq)),
            ("role", json!(vertex.role)),
            ("name", json!(vertex.name)),
            ("created_at", json!(vertex.created_at)),
            ("expired_at", json!(vertex.expired_at)),
            ("doc_id", json!(vertex.doc_id)),
            ("chunk_id", json!(vertex.chunk_id)),
            ("summary_rev", json!(vertex.summary_rev)),
            ("head_seq", json!(vertex.head_seq)),
            ("next_seq", json!(vertex.next_seq)),
            ("tainted", json!(vertex.taint)),
            ("quarantined", json!(vertex.quarantined.then_some(true))),
        ];
        told.extend(
            known.into_iter().filter(|(_, v)| !v.is_null()).map(|(n, v)| (n.to_owned(), v)),
        );
        let edge = self.detail.iter().flatten();
        told.extend(
            edge.filter(|(n, v)| !told_already(n) && !v.is_null())
                .map(|(n, v)| (n.clone(), v.clone())),
        );
        told
    }
}

/// Whether answers omit an attribute of an edge, because the attribute repeats one of the vertex or
/// is too long for a page.
fn told_already(name: &str) -> bool {
    ["summary_rev", "digest", "revision"].contains(&name)
}
