//! Schedules: when something is to happen by itself, what came of it, and the tick that a moment of one is.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::receipt;
use crate::clock::iso8601;

/// The document of `schedules`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// See [`schedule_key`].
    #[serde(rename = "_key")]
    pub key: String,
    /// Whose it is.
    pub agent_id: String,
    /// Tenant of the agent.
    pub tenant: String,
    /// Its name, unique within the agent.
    pub name: String,
    /// It fires again and again, so far apart, in milliseconds.
    pub every_ms: Option<u64>,
    /// It fires once, then, in milliseconds since 1970.
    pub at_ms: Option<u64>,
    /// What its event says.
    pub content: String,
    /// Whether the agent runs when it fires.
    pub run: bool,
    /// The moment that has not fired yet; none behind the last one.
    #[serde(default)]
    pub due_ms: Option<u64>,
    /// When a server looks at it next: the moment, or later where it could not fire then.
    #[serde(default)]
    pub look_ms: Option<u64>,
    /// Times that it could not fire, one after the other.
    #[serde(default)]
    pub failures: u64,
    /// Events that it made.
    #[serde(default)]
    pub fired: u64,
    /// Moments that passed without one.
    #[serde(default)]
    pub missed: u64,
    /// The last event.
    #[serde(default)]
    pub last: Option<LastTick>,
    /// The run that the last events caused, while it is not over.
    #[serde(default)]
    pub running: Option<TickRun>,
    /// When it was made.
    pub created_at: String,
    /// When it was last given.
    pub updated_at: String,
}

/// The event that a schedule made last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastTick {
    /// The moment it stands for, in milliseconds since 1970.
    pub due_ms: u64,
    /// When it was made, by the database's clock.
    pub fired_ms: u64,
    /// Place of its message.
    pub seq: u64,
    /// Moments before it that passed without one.
    pub missed: u64,
}

/// A run that a tick caused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickRun {
    /// Its key: that of the tick.
    pub key: String,
    /// Place of the tick's message.
    pub seq: u64,
    /// When the tick fired, in milliseconds since 1970.
    pub since_ms: u64,
    /// The server that runs it; empty: nobody yet.
    pub owner: String,
    /// Until then nobody else takes it over.
    pub until_ms: u64,
}

/// A moment of a schedule that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The moment.
    pub due_ms: u64,
    /// Moments behind it that have come too: nobody was there to fire them, and one event stands for all.
    pub missed: u64,
    /// The next moment, which has not come; none of what fires once.
    pub next_ms: Option<u64>,
}

/// A schedule that fires with a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fired {
    /// Its name.
    pub name: String,
    /// The moment.
    pub due_ms: u64,
    /// The next one.
    pub next_ms: Option<u64>,
    /// The event.
    pub last: LastTick,
    /// The run that it causes, unless one is on its way.
    pub running: Option<TickRun>,
}

impl Schedule {
    /// The tick of this moment; none while none has come. Moments keep their distance from the first one, however late one fires.
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

    /// What is told of it outside.
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

/// Key of an agent's schedule: names of agents and schedules together may be longer than a document key.
pub fn schedule_key(agent_id: &str, name: &str) -> String {
    receipt::sha256(&format!("{agent_id}\0{name}"))
}

/// Idempotency key of a tick: whoever fires it, it fires once.
pub fn tick_key(name: &str, due_ms: u64) -> String {
    format!("tick/{name}/{due_ms}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(every_ms: Option<u64>, due_ms: u64) -> Schedule {
        let at_ms = every_ms.is_none().then_some(due_ms);
        serde_json::from_value(json!({"_key": "k", "agent_id": "ada", "tenant": "", "name": "n", "every_ms": every_ms, "at_ms": at_ms,
            "content": "c", "run": false, "due_ms": due_ms, "created_at": "", "updated_at": ""}))
        .expect("a schedule")
    }

    #[test]
    fn one_tick_stands_for_all_that_were_missed_and_the_rhythm_stays() {
        for (now_ms, wanted) in [
            (9_999, None),
            (10_000, Some((0, 11_000))),
            (10_999, Some((0, 11_000))),
            (11_000, Some((1, 12_000))),
            (3_610_500, Some((3_600, 3_611_000))),
        ] {
            let tick = schedule(Some(1_000), 10_000).tick(now_ms);
            assert_eq!(tick.map(|t| t.due_ms), wanted.map(|_| 10_000));
            assert_eq!(tick.map(|t| (t.missed, t.next_ms)), wanted.map(|(m, n)| (m, Some(n))));
        }
    }

    #[test]
    fn what_fires_once_fires_late_rather_than_never_and_has_no_next_moment() {
        let once = schedule(None, 10_000);
        assert_eq!(once.tick(9_999), None);
        let late = once.tick(99_000).expect("a tick");
        assert_eq!((late.due_ms, late.missed, late.next_ms), (10_000, 0, None));
    }
}
