//! What a call wants written: decided without touching anything, applied in one transaction.

use serde::Serialize;
use serde_json::{Map, Value};

use super::archive::Ingest;
use super::core::Core;
use super::event::Event;
use super::forget::Forgetting;
use super::joined::{Cite, Folded};
use super::message::Message;
use super::page::Page;
use super::prompt::ToolSet;
use super::schedule::Fired;

/// Everything one call writes; all of it or nothing.
#[derive(Clone, Debug)]
pub struct Change {
    /// The core as it was loaded; its revision guards the write.
    pub before: Core,
    /// The core as it will be.
    pub after: Core,
    /// New messages, in order of seq.
    pub messages: Vec<Message>,
    /// Edges for messages that go straight into recall storage.
    pub recall: Vec<RecallEdge>,
    /// Messages that leave the queue.
    pub evict: Option<Evict>,
    /// Texts that go by their age.
    pub expire: Option<Expire>,
    /// A step of a forgetting.
    pub forget: Option<Box<Forget>>,
    /// New token counts of messages, when the encoding changes.
    pub recount: Vec<Recount>,
    /// Edges to the chunks that a new message cites.
    pub cites: Vec<Cite>,
    /// Edges to what a new summary was made of.
    pub folded: Vec<Folded>,
    /// A document that is taken into the archive.
    pub ingest: Option<Box<Ingest>>,
    /// A schedule that fires with it.
    pub fired: Option<Fired>,
    /// Rows for `memory_events`.
    pub events: Vec<Event>,
    /// Result lists to keep for a while.
    pub pages: Vec<Page>,
    /// Rows of `prompts`: new ones whole, earlier ones by what is new in them.
    pub prompts: Vec<Value>,
    /// Tool sets that are new.
    pub tool_sets: Vec<ToolSet>,
    /// The tool's own result; `_rev` is filled in by the write.
    pub result: Map<String, Value>,
    /// Further fields of the envelope (`receipt`, `flush`).
    pub envelope: Map<String, Value>,
}

impl Change {
    /// Whether it says something of prompts.
    pub fn has_prompts(&self) -> bool {
        !self.prompts.is_empty() || !self.tool_sets.is_empty()
    }

    /// Whether a result found no room in the window: it is named by a new notice.
    pub fn spooled(&self) -> bool {
        let notice = |core: &'_ Core| core.notices.iter().find(|n| n.kind == "spool").cloned();
        let after = notice(&self.after);
        after.is_some() && after != notice(&self.before)
    }
}

/// Which messages an eviction logs and drops from the queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evict {
    /// Server time, in milliseconds.
    pub logged_ms: u64,
    /// First seq that leaves.
    pub head_seq: u64,
    /// First seq that stays.
    pub new_head_seq: u64,
    /// Marks the edges of one eviction.
    pub batch_id: String,
    /// Revision of the summary that now stands for them.
    pub summary_rev: u64,
    /// Messages that leave.
    pub evicted_count: u64,
}

/// Texts that go by the policy of retention: places, digests and chains stay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expire {
    /// Keys of messages, copies included.
    pub keys: Vec<String>,
    /// Places of those that lay in recall storage, for their vectors.
    pub seqs: Vec<u64>,
    /// Keys of copies of texts.
    pub versions: Vec<String>,
    /// Keys of stored answers.
    pub answers: Vec<String>,
    /// When, in ISO form.
    pub expired_at: String,
    /// Version of the core as of which they are forgotten by request; none: they go by their age.
    pub forgotten_version: Option<u64>,
}

/// A step of a forgetting: how it stands with it, and what goes beside messages and stored answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forget {
    /// The row as it is after the step.
    pub row: Forgetting,
    /// The step that it must be at; none: it begins.
    pub at: Option<u64>,
    /// Keys of messages whose digests of threads go.
    pub threads: Vec<String>,
    /// Keys of copies of texts that lose all of them.
    pub versions: Vec<String>,
    /// Schedules that go, by name.
    pub schedules: Vec<String>,
    /// Keys of sets of tools that go.
    pub tool_sets: Vec<String>,
    /// Whether result lists and unfinished documents go.
    pub beside: bool,
}

/// An edge of `recall_log`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecallEdge {
    /// Same key as the message: a second log entry would be refused.
    #[serde(rename = "_key")]
    pub key: String,
    /// `core_memory/{scope}`.
    #[serde(rename = "_from")]
    pub from: String,
    /// `messages/{key}`.
    #[serde(rename = "_to")]
    pub to: String,
    /// Place of the message.
    pub seq: u64,
    /// Time of the message.
    pub created_at: String,
    /// Server time at which it was logged, in milliseconds: tells a search what its view may not show yet.
    pub logged_ms: u64,
    /// `role, content, meta, token_estimate`.
    pub payload: Value,
    /// The eviction that logged it; null for direct writes.
    pub evicted_batch_id: Option<String>,
    /// Revision of the summary at that time.
    pub summary_rev: u64,
}

/// A message's count in another encoding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recount {
    /// Message.
    #[serde(rename = "_key")]
    pub key: String,
    /// New cost.
    pub token_estimate: u64,
}
