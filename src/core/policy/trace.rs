//! Traces through a memory: where one begins, which relations it follows, what it came to; kept within bounds however much is joined.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::admit::Scope;
use super::taint::{chunk_place, from_outside};
use crate::error::{Error, Result};
use crate::limits::{TRACE_AROUND, TRACE_DEPTH, TRACE_FROM_BYTES_MAX, TRACE_LIMIT};
use crate::memory::archive::{Parent, Span};

/// Relations that a trace follows, each to both sides or to one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Follow {
    /// From a message to what was said before and after it.
    Around,
    /// From an answer to the passages that it cites.
    Cites,
    /// From a passage to the answers that cite it.
    CitedBy,
    /// From a passage to the messages that it was made from; from a summary to the messages that it took up and to the summary before.
    DerivedFrom,
    /// From a message to the passages made from it; from a summary to the next one.
    Derived,
    /// From a passage to its neighbours in the document, and to the other parts of a larger piece.
    Links,
    /// From an evicted message to the summary that took it up; from the agent to the summary that stands.
    Summary,
    /// From the agent to what left its window, newest first.
    Logged,
    /// From a copy to what it is a copy of, and back.
    Copies,
}

impl Follow {
    /// All of them, in the order in which they are tried.
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

    /// Its name outside.
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

    /// The relation of that name.
    pub fn named(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|follow| follow.text() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::text).join(", ");
            Error::argument("follow", format!("no relation of that name: use some of {names}"))
        })
    }
}

/// An entry of a memory, by the collection that it lies in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The message with this seq.
    Seq(u64),
    /// A message by its key.
    Message(String),
    /// A chunk of an archived document.
    Chunk(String),
    /// A version of the core, for its summary.
    Version(String),
    /// The agent itself.
    Agent(String),
}

impl Place {
    /// Reads what a trace begins with: a seq as a number, the id of a message as `search_recall` shows it, that of a passage as
    /// `search_archival` does, an id of the graph, or `agent`.
    pub fn parse(text: &str, scope: &Scope) -> Result<Self> {
        let odd = || {
            Error::argument(
                "from",
                "give the id of a message or passage as a search shows it, the seq of a message, or `agent`",
            )
        };
        let plain = |key: &str| {
            !key.is_empty()
                && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
        };
        if text.len() > TRACE_FROM_BYTES_MAX {
            return Err(odd());
        }
        if text == "agent" {
            return Ok(Self::Agent(scope.key().to_owned()));
        }
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

/// What a trace asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceQuery {
    /// Where it begins.
    pub from: Place,
    /// Relations.
    pub follow: BTreeSet<Follow>,
    /// Steps from the beginning.
    pub depth: u64,
    /// Messages before and after, chunks before and behind.
    pub around: u64,
    /// Most entries beside the first.
    pub limit: u64,
}

impl TraceQuery {
    /// A query within its bounds; a fault names the argument. No relation at all means every one.
    pub fn checked(
        from: Place,
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

/// The answer for an entry that is not there, and for one of somebody else.
pub fn nothing_to_trace() -> Error {
    Error::argument(
        "from",
        "this agent has no such message, passage or summary: search for it first",
    )
}

/// An entry of a memory as a trace finds it. What an entry of its kind does not have is absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vertex {
    /// Its id in the graph.
    pub id: String,
    /// Its document key.
    pub key: String,
    /// `message`, `chunk`, `summary` or `agent`.
    pub kind: String,
    /// Tells whether it is still what it was: digest of a message, revision of a chunk's document, version of a core.
    pub revision: String,
    /// Its text, or the beginning of a long one.
    pub text: String,
    /// Characters of the whole text.
    pub chars: u64,
    /// Place of a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Who said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Name of who said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the message is to the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// When its text went by the policy of retention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<String>,
    /// Key of the message this is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
    /// Document of a chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc_id: Option<String>,
    /// Name of a chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_id: Option<String>,
    /// Place of a chunk in its document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Place of a chunk in the document's text, in characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<Span>,
    /// The larger piece that a chunk is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Version of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Revision of a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_rev: Option<u64>,
    /// Key of the version that holds the agent's summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// First seq of the agent's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_seq: Option<u64>,
    /// Seq of the agent's next message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_seq: Option<u64>,
    /// The rules of tainted text that a message or chunk was marked with; as it is shown, those that its text meets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taint: Option<Vec<String>>,
    /// Whether something else is told in the place of its text.
    #[serde(skip)]
    pub quarantined: bool,
}

impl Vertex {
    /// Whether it may hold what somebody else wrote than the user, the model or who runs it.
    pub fn is_from_outside(&self) -> bool {
        let told = |text: &Option<String>| Value::from(text.as_deref().unwrap_or_default());
        match (serde_json::from_value(told(&self.said)), serde_json::from_value(told(&self.role))) {
            (Ok(kind), Ok(role)) => from_outside(kind, role),
            _ => self.kind == "chunk",
        }
    }

    /// Place and revision under which it is released from quarantine.
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

/// An entry and how the trace came to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// The entry.
    pub vertex: Vertex,
    /// Place in the list of the entry that led to it, and the relation; none for the first.
    pub by: Option<(u64, String)>,
    /// Steps from the first.
    pub depth: u64,
    /// What the edge says.
    pub detail: Option<Map<String, Value>>,
}

/// A trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traced {
    /// Entries in the order in which they were reached, the first one first; none at all if it is not there.
    pub reached: Vec<Reached>,
    /// Whether there is more than the limit let through.
    pub more: bool,
}

impl Reached {
    /// What is told of it beside its text. `number`: its place in the list.
    pub fn told(&self, number: u64) -> Map<String, Value> {
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

/// What an edge says that is the entry's own, or too long for a page.
fn told_already(name: &str) -> bool {
    ["summary_rev", "digest", "revision"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Actor, Principal, admit};

    fn scope() -> Scope {
        let actor = Actor { uid: 1, pid: 1, label: None };
        admit(&Principal { actor, tenant: "acme".into() }, "ada").unwrap()
    }

    #[test]
    fn a_trace_begins_with_a_seq_an_id_or_the_agent() {
        for (text, place) in [
            ("17", Place::Seq(17)),
            ("0190-ab", Place::Message("0190-ab".into())),
            ("messages/m1", Place::Message("m1".into())),
            ("archival_docs/c1", Place::Chunk("c1".into())),
            ("core_versions/acme:ada:3", Place::Version("acme:ada:3".into())),
            ("core_memory/bob", Place::Agent("bob".into())),
            ("agent", Place::Agent("acme:ada".into())),
        ] {
            assert_eq!(Place::parse(text, &scope()).unwrap(), place, "{text}");
        }
        let long = "x".repeat(TRACE_FROM_BYTES_MAX + 1);
        for text in
            ["", "/", "messages/", "users/x", "a b", "messages/a/b", "99999999999999999999", &long]
        {
            assert_eq!(Place::parse(text, &scope()).unwrap_err().fields["field"], "from", "{text}");
        }
    }

    #[test]
    fn each_bound_of_a_trace_is_named() {
        let ask =
            |depth, around, limit| TraceQuery::checked(Place::Seq(1), &[], depth, around, limit);
        assert_eq!(ask(1, 2, 20).unwrap().follow.len(), Follow::ALL.len());
        for (depth, around, limit, field) in [
            (0, 2, 20, "depth"),
            (4, 2, 20, "depth"),
            (1, 99, 20, "around"),
            (1, 2, 0, "limit"),
            (1, 2, 999, "limit"),
        ] {
            assert_eq!(ask(depth, around, limit).unwrap_err().fields["field"], field);
        }
        assert!(Follow::ALL.iter().all(|one| Follow::named(one.text()).unwrap() == *one));
        assert!(Follow::named("likes").is_err());
    }
}
