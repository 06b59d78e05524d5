//! Schedules, which post events to an agent: their stored state, and the computation of due ticks.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::receipt;
use crate::clock::iso8601;

/// A schedule of an agent, stored as a document of the collection `schedules`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// See [`schedule_key`].
    #[serde(rename = "_key")]
    pub key: String,
    /// Key of the agent.
    pub agent_id: String,
    /// Tenant of the agent.
    pub tenant: String,
    /// Name of the schedule, unique within the agent.
    pub name: String,
    /// Interval between the events of a repeating schedule, in milliseconds; `None` for a schedule
    /// with a single event.
    pub every_ms: Option<u64>,
    /// Time of the event of a schedule with a single event, in milliseconds since 1970.
    pub at_ms: Option<u64>,
    /// Text of the schedule's event.
    pub content: String,
    /// Whether the schedule's event starts a run.
    pub run: bool,
    /// Time of the schedule's next tick; `None` after the last tick.
    #[serde(default)]
    pub due_ms: Option<u64>,
    /// Time when a server next checks the schedule: `due_ms`, or later after a failure.
    #[serde(default)]
    pub look_ms: Option<u64>,
    /// Number of consecutive failures to post the schedule's event.
    #[serde(default)]
    pub failures: u64,
    /// Number of events that the schedule posted.
    #[serde(default)]
    pub fired: u64,
    /// Number of ticks for which no event was posted.
    #[serde(default)]
    pub missed: u64,
    /// The last event that the schedule posted.
    #[serde(default)]
    pub last: Option<LastTick>,
    /// The open run that an event of the schedule started, if any.
    #[serde(default)]
    pub running: Option<TickRun>,
    /// Time when the schedule was created.
    pub created_at: String,
    /// Time when the schedule was last changed.
    pub updated_at: String,
}

/// The last event that a schedule posted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastTick {
    /// Scheduled time of the tick, in milliseconds since 1970.
    pub due_ms: u64,
    /// Time when the event was posted, by the database's clock, in milliseconds since 1970.
    pub fired_ms: u64,
    /// Position of the event's message.
    pub seq: u64,
    /// Number of ticks that this event covers in addition to its own tick.
    pub missed: u64,
}

/// A run started by a tick.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickRun {
    /// Idempotency key of the tick and of its event.
    pub key: String,
    /// Position of the message that contains the tick's event.
    pub seq: u64,
    /// Time when the tick's event was posted, in milliseconds since 1970.
    pub since_ms: u64,
    /// The server that drives the run; empty until a server starts to drive it.
    pub owner: String,
    /// End of the server's lease on the run, in milliseconds since 1970.
    pub until_ms: u64,
}

/// A due tick of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Scheduled time of the tick, in milliseconds since 1970.
    pub due_ms: u64,
    /// Number of later ticks that are also due, for example because no server was running. One
    /// event covers all due ticks.
    pub missed: u64,
    /// Time of the schedule's next tick; `None` for a schedule with a single event.
    pub next_ms: Option<u64>,
}

/// Changes to a schedule's document after a tick, written together with the tick's event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TickResult {
    /// Name of the schedule.
    pub name: String,
    /// Scheduled time of the tick, in milliseconds since 1970.
    pub due_ms: u64,
    /// Time of the schedule's next tick; `None` after the last tick.
    pub next_ms: Option<u64>,
    /// The posted event.
    pub last: LastTick,
    /// The run that the tick starts, if any. This run is not stored while an earlier run of the
    /// schedule is open.
    pub running: Option<TickRun>,
}

impl Schedule {
    /// Returns the schedule's tick that is due at `now_ms`, if any. Ticks stay at whole multiples
    /// of the interval after the first tick, even if an event is posted late.
    pub fn tick(&self, now_ms: u64) -> Option<Tick> {
        let due_ms = self.due_ms.filter(|due_ms| *due_ms <= now_ms)?;
        Some(match self.every_ms {
            Some(every_ms) => {
                let missed = (now_ms - due_ms) / every_ms.max(1);
                Tick { due_ms, missed, next_ms: Some(due_ms + (missed + 1) * every_ms.max(1)) }
            }
            None => Tick { due_ms, missed: 0, next_ms: None },
        })
    }

    /// Returns the JSON form of the schedule for answers to callers.
    pub fn public(&self) -> Value {
        let last = self.last.as_ref().map(|last| {
            json!({"due": iso8601(last.due_ms), "fired_at": iso8601(last.fired_ms), "seq": last.seq, "missed": last.missed})
        });
        json!({
            "name": self.name, "every_ms": self.every_ms, "at": self.at_ms.map(iso8601), "content": self.content, "run": self.run,
            "next": self.due_ms.map(iso8601), "fired": self.fired, "missed": self.missed, "last": last,
            "running": self.running.is_some(), "failures": self.failures,
            "created_at": self.created_at, "updated_at": self.updated_at,
        })
    }
}

/// Returns the document key of an agent's schedule. The key is a hash, because the joined names of
/// agent and schedule may be too long for a document key.
pub fn schedule_key(agent_id: &str, name: &str) -> String {
    receipt::sha256(&format!("{agent_id}\0{name}"))
}

/// Returns the idempotency key of a tick; all servers compute the same key.
pub fn tick_key(name: &str, due_ms: u64) -> String {
    format!("tick/{name}/{due_ms}")
}
