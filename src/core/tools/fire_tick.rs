//! Command that posts the event of a schedule's tick and sets the schedule's next tick; models
//! cannot call it.

use serde_json::{Map, Value, json};

use super::post_event::Class;
use super::spec::{Access, Command, Spec};
use crate::clock::iso8601;
use crate::error::Result;
use crate::memory::message::{Kind, Role};
use crate::memory::schedule::{LastTick, Schedule, Tick, TickResult, TickRun, tick_key};
use crate::policy::{Ctx, Question, Step, Stop};

/// The tick to fire.
#[derive(Clone, Debug)]
pub struct FireTick {
    /// Name of the schedule.
    pub name: String,
    /// Time of the tick, in milliseconds since 1970.
    pub due_ms: u64,
}

impl Command for FireTick {
    const SPEC: Spec = Spec::command("fire_tick", Access::Post);

    /// Posts the event. Does nothing if the schedule was removed, if this tick was already posted,
    /// or if the schedule now has another time for its next tick.
    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let looked = ctx.answers.schedule(|| Question::Schedule { name: self.name.clone() })?;
        let now_ms = looked.now_ms;
        let found = looked.schedule.as_ref().filter(|s| s.due_ms == Some(self.due_ms));
        let Some((schedule, tick)) = found.and_then(|s| Some((s, s.tick(now_ms)?))) else {
            return Ok(Step::Read(result(None, &self.name, false)));
        };
        let mut draft = ctx.draft();
        let seq = draft.after.queue.next_seq;
        let class = Class::Scheduled.text();
        let meta = json!({"class": class, "event": self.name,
            "tick": {"due": iso8601(tick.due_ms), "missed": tick.missed}});
        let meta = meta.as_object().cloned().unwrap_or_default();
        draft.push(Kind::Event, Role::System, text(class, schedule, &tick), meta);
        draft.interrupt_chain();
        draft.fire(TickResult {
            name: self.name.clone(),
            due_ms: tick.due_ms,
            next_ms: tick.next_ms,
            last: LastTick { due_ms: tick.due_ms, fired_ms: now_ms, seq, missed: tick.missed },
            running: schedule.run.then(|| TickRun {
                key: tick_key(&self.name, tick.due_ms),
                seq,
                since_ms: now_ms,
                owner: String::new(),
                until_ms: now_ms,
            }),
        });
        let result = result(Some((seq, tick.missed)), &self.name, schedule.run);
        ctx.finish(draft, result)
    }
}
/// Returns the event as plain text: class, schedule, time, number of missed ticks, and the
/// schedule's text.
fn text(class: &str, schedule: &Schedule, tick: &Tick) -> String {
    let missed = match tick.missed {
        0 => String::new(),
        1 => ", 1 more was missed".to_owned(),
        more => format!(", {more} more were missed"),
    };
    format!("[{class} {}, {}{missed}] {}", schedule.name, iso8601(tick.due_ms), schedule.content)
}

fn result(fired: Option<(u64, u64)>, name: &str, run: bool) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("schedule".into(), name.into());
    map.insert("fired".into(), fired.is_some().into());
    if let Some((seq, missed)) = fired {
        map.insert("seq".into(), seq.into());
        map.insert("missed".into(), missed.into());
        map.insert("run".into(), run.into());
    }
    map
}
