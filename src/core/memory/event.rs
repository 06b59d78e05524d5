//! Rows of `memory_events`, which record the history of an agent's memory, but contain no text of
//! the memory.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The type of a memory event.
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

/// A row of `memory_events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Type of the memory event.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// Details of the event, such as numbers and ids.
    pub details: Map<String, Value>,
    /// Key of the agent.
    pub agent_id: String,
    /// Time of the event, ISO 8601.
    pub ts: String,
}

/// Returns the key of an event that is an entry of the agent's ledger.
pub fn entry_key(scope: &str, n: u64) -> String {
    format!("l:{scope}:{n}")
}

impl Event {
    /// Returns whether the event is the audit row of a write.
    pub fn is_audit(&self) -> bool {
        self.kind == EventType::Audit
    }
}
