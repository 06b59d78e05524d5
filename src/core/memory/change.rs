//! The writes of one call. They are first computed without side effects, and then applied in one
//! transaction.

use serde::Serialize;
use serde_json::{Map, Value};

use super::archive::Ingest;
use super::core::Core;
use super::edges::{Cite, SummaryEdge};
use super::event::Event;
use super::forget::{Forgetting, QuotingVersion};
use super::message::Message;
use super::pack::ContextPack;
use super::page::Page;
use super::prompt::ToolSet;
use super::schedule::TickResult;

/// All writes of one call, which are committed together or not at all.
#[derive(Clone, Debug)]
pub struct Change {
    /// The core as loaded from the database. The transaction fails if another write has changed the
    /// core's revision since then.
    pub before: Core,
    /// The core after the call.
    pub after: Core,
    /// New messages of the call, in order of seq.
    pub messages: Vec<Message>,
    /// Rows for `memory_events`.
    pub events: Vec<Event>,
    /// The other writes of the call, in the order of [`Part::order`].
    pub parts: Vec<Part>,
    /// The tool's own result. `_rev` is added to the result after the write.
    pub result: Map<String, Value>,
    /// Further fields of the answer, next to the tool's result (`receipt`, `flush`).
    pub envelope: Map<String, Value>,
    /// What a model may summarise again in the background, after an eviction that did not wait for
    /// a model.
    pub refinable: Option<Refinable>,
}

/// An eviction whose summary a model may write again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refinable {
    /// Text of the summary before the eviction.
    pub previous: String,
    /// Revision of the summary that the eviction wrote. A model's summary replaces only this one.
    pub revision: u64,
    /// Number of forgotten messages at the eviction. If it has grown, the texts that a model read
    /// may contain a forgotten one.
    pub forgotten: u64,
    /// Position of the first evicted message.
    pub first_seq: u64,
    /// Position of the last evicted message.
    pub last_seq: u64,
    /// Id of the eviction.
    pub batch_id: String,
}

impl Change {
    /// Returns the eviction among the writes of the call, if any.
    pub fn evict(&self) -> Option<&Evict> {
        self.parts.iter().find_map(Part::evict)
    }

    /// Returns the ingest among the writes of the call, if any.
    pub fn ingest(&self) -> Option<&Ingest> {
        self.parts.iter().find_map(|part| match part {
            Part::Ingest(ingest) => Some(&**ingest),
            _ => None,
        })
    }

    /// Whether the change adds a notice for a result that did not fit into the window.
    pub fn spooled(&self) -> bool {
        let notice = |core: &'_ Core| core.notices.iter().find(|n| n.kind == "spool").cloned();
        let after = notice(&self.after);
        after.is_some() && after != notice(&self.before)
    }
}

/// Data that a call writes in addition to the core, messages and events. For each variant, the
/// server's store defines the collections and the function that writes the data.
#[derive(Clone, Debug)]
pub enum Part {
    /// New token counts of messages after a change of the encoding.
    Recount(Vec<Recount>),
    /// Messages that leave the queue.
    Evict(Evict),
    /// Texts that retention or a forget operation removes.
    Expire(Expire),
    /// A step of a forget operation, with all that the step removes.
    Forget(Box<Forget>),
    /// The state of a schedule after a tick that posted an event.
    Fire(TickResult),
    /// A document that is added to the archive, replaced or removed.
    Ingest(Box<Ingest>),
    /// An edge for a message that enters recall storage without having been in the queue.
    Recall(RecallEdge),
    /// A result list that is kept for later pages.
    Page(Page),
    /// An edge to a chunk that a new message cites.
    Cite(Cite),
    /// An edge from a new summary to a source of the summary.
    Fold(SummaryEdge),
    /// A row of `prompts`: a whole new row, or the changed attributes of an existing row.
    Prompt(Value),
    /// A new set of tools offered to the model.
    ToolSet(ToolSet),
    /// A new context pack.
    Pack(ContextPack),
}

impl Part {
    /// Returns the position of the part in the order of writes. New token counts are written first,
    /// because an eviction reads them. Rows that are written together with the core come last.
    pub fn order(&self) -> u8 {
        match self {
            Self::Recount(_) => 0,
            Self::Evict(_) => 1,
            Self::Expire(_) => 2,
            Self::Forget(_) => 3,
            Self::Fire(_) => 4,
            Self::Ingest(_) => 5,
            Self::Recall(_)
            | Self::Page(_)
            | Self::Cite(_)
            | Self::Fold(_)
            | Self::Prompt(_)
            | Self::ToolSet(_)
            | Self::Pack(_) => 6,
        }
    }

    /// Returns the eviction if this part is an eviction.
    pub fn evict(&self) -> Option<&Evict> {
        match self {
            Self::Evict(evict) => Some(evict),
            _ => None,
        }
    }
}

/// The messages that an eviction moves from the queue to recall storage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evict {
    /// Server time at which the messages enter recall storage, in milliseconds.
    pub logged_ms: u64,
    /// Seq of the first message that leaves the queue.
    pub head_seq: u64,
    /// Seq of the first message that stays in the queue.
    pub new_head_seq: u64,
    /// Id shared by the edges of one eviction.
    pub batch_id: String,
    /// Revision of the summary that replaces the messages.
    pub summary_rev: u64,
    /// Number of messages that leave the queue.
    pub evicted_count: u64,
}

/// Texts that retention or a forget operation removes. The messages' positions, digests and chain
/// values remain.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Expire {
    /// Keys of the messages, including copies, that lose their text.
    pub keys: Vec<String>,
    /// Positions of the messages whose vectors in recall storage are removed.
    pub seqs: Vec<u64>,
    /// Keys of the stored core versions from which the summary is removed.
    pub versions: Vec<String>,
    /// Keys of the stored answers that lose their texts.
    pub answers: Vec<String>,
    /// Time of the removal, ISO 8601.
    pub expired_at: String,
    /// Version of the core at which a request forgot the texts; `None` if retention removes the
    /// texts.
    pub forgotten_version: Option<u64>,
}

/// A step of a forget operation: the operation's row, and what the step removes in addition to
/// messages, summaries and stored answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forget {
    /// The forget operation's row as it is after the step.
    pub row: Forgetting,
    /// Step number that the stored row must still have; otherwise the write fails. `None` for the
    /// first step.
    pub at: Option<u64>,
    /// Keys of messages whose thread digests are removed.
    pub threads: Vec<String>,
    /// Keys of prompts whose options are removed.
    pub prompts: Vec<String>,
    /// Keys of prompts whose options and notices are removed.
    pub noticed: Vec<String>,
    /// Stored core versions from which the quoting texts are removed.
    pub versions: Vec<QuotingVersion>,
    /// Names of schedules that are removed.
    pub schedules: Vec<String>,
    /// Keys of tool sets that are removed.
    pub tool_sets: Vec<String>,
    /// Keys of context packs that are removed.
    pub packs: Vec<String>,
    /// Whether result lists and unfinished documents are removed.
    pub beside: bool,
}

/// An edge of `recall_log`, which makes a message an entry of recall storage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecallEdge {
    /// Key of the logged message. It is also the key of the edge, so the database refuses a second
    /// edge for the message.
    #[serde(rename = "_key")]
    pub key: String,
    /// Start of the edge, the agent's core: `core_memory/{scope}`.
    #[serde(rename = "_from")]
    pub from: String,
    /// End of the edge, the message: `messages/{key}`.
    #[serde(rename = "_to")]
    pub to: String,
    /// Position of the logged message.
    pub seq: u64,
    /// Time of the logged message.
    pub created_at: String,
    /// Server time at which the message was logged, in milliseconds. A search uses this time to
    /// find entries that the ArangoSearch view does not contain yet.
    pub logged_ms: u64,
    /// Attributes of the logged message: `role, content, meta, token_estimate`.
    pub payload: Value,
    /// Id of the eviction that logged the message; null if the message was never in the queue.
    pub evicted_batch_id: Option<String>,
    /// Revision of the summary when the message was logged.
    pub summary_rev: u64,
}

/// The token count of a message in the agent's new encoding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recount {
    /// Key of the message.
    #[serde(rename = "_key")]
    pub key: String,
    /// New token count of the message.
    pub token_estimate: u64,
    /// Time that the message shows in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp: Option<String>,
    /// New token count of the message's frame; see [`super::message::Message::frame_tokens`].
    pub frame_tokens: u64,
}
