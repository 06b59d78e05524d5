//! Rows of `memory_events`: what happened to a memory, never its text.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `type` of an event: the seed's six, one audit row for each write, and what becomes of runs and their prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the requirement's")]
pub enum EventType {
    Warning,
    Flush,
    HbStart,
    HbEnd,
    Summarize,
    Error,
    Audit,
    RunStart,
    RunEnd,
    Variance,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// Numbers and ids about it.
    pub details: Map<String, Value>,
    /// Whose memory.
    pub agent_id: String,
    /// When, ISO 8601.
    pub ts: String,
}
