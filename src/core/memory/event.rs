//! Rows of `memory_events`, which record the history of an agent's memory, but contain no text of
//! the memory.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::heartbeat::Reason;
use super::receipt::sha256;

/// The type of a memory event. The set is closed: anything finer is in the event's details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the requirement's")]
pub enum EventType {
    Warning,
    Flush,
    HbStart,
    HbEnd,
    Summarize,
    /// Earlier versions also stored the type `variance`.
    #[serde(alias = "variance")]
    Error,
    /// Earlier versions also stored the types `run_start` and `run_end`.
    #[serde(alias = "run_start", alias = "run_end")]
    Audit,
}

/// The code of an event about a prompt for which server and provider counted different numbers of
/// tokens.
pub const PROMPT_VARIANCE: &str = "PROMPT_VARIANCE";

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

/// Returns the form in which an event has an id or a name that a caller chose: a caller who knows
/// it finds its events, and no text gets into a row that is never removed. Equal names of two
/// agents have different forms.
pub fn named(agent_id: &str, name: &str) -> String {
    format!("sha256:{}", sha256(&format!("{agent_id}\0{name}")))
}

/// Fields of a refusal whose texts are words of the server.
const OWN_WORDS: [&str; 4] = ["code", "field", "reason", "rules"];

/// Returns the fields of a refusal as an event may have them: a text that the caller may have
/// chosen becomes a digest (see [`named`]).
pub fn without_names(agent_id: &str, fields: &Map<String, Value>) -> Map<String, Value> {
    let hidden = |value: &Value| match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => named(agent_id, text).into(),
        Value::Array(_) | Value::Object(_) => named(agent_id, &value.to_string()).into(),
    };
    let told = fields.iter().map(|(name, value)| {
        let own = OWN_WORDS.contains(&name.as_str());
        (name.clone(), if own { value.clone() } else { hidden(value) })
    });
    told.collect()
}

/// Returns the key of an event that is an entry of the agent's ledger.
pub fn entry_key(scope: &str, n: u64) -> String {
    format!("l:{scope}:{n}")
}

/// Gives an event that an earlier version stored the form in which this version stores it. The row
/// in the database stays as it is, because the ledger's hash covers it.
pub fn in_present_form(row: &mut Value) {
    let Some(stored) = row["type"].as_str().map(str::to_owned) else { return };
    let details = &mut row["details"];
    let kind = match stored.as_str() {
        "run_start" => told_of_run("start", details),
        "run_end" => told_of_run("end", details),
        "variance" => {
            details["code"] = PROMPT_VARIANCE.into();
            EventType::Error
        }
        "hb_end" if details["reason"] == "loop_detected" => {
            details["reason"] = Reason::Depth.text().into();
            EventType::HbEnd
        }
        _ => return,
    };
    row["type"] = json!(kind);
}

fn told_of_run(what: &'static str, details: &mut Value) -> EventType {
    details["event"] = what.into();
    *details = json!({"runs": [details.take()]});
    EventType::Audit
}

impl Event {
    /// Returns whether the event is the audit row of a write.
    pub fn is_audit(&self) -> bool {
        self.kind == EventType::Audit
    }
}
