//! A moment of a schedule that has come: no tool of a model, but an event like any other, written together with the schedule's next moment.

use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::post_event::Class;
use super::spec::Step;
use crate::clock::iso8601;
use crate::error::Result;
use crate::memory::core::Core;
use crate::memory::message::{Kind, Role};
use crate::memory::schedule::{Fired, LastTick, Schedule, Tick, TickRun, tick_key};
use crate::policy::{Answers, Draft, Question, Surroundings};

/// Which moment is meant.
#[derive(Clone, Debug)]
pub struct FireTick {
    /// Name of the schedule.
    pub name: String,
    /// The moment, in milliseconds since 1970.
    pub due_ms: u64,
}

impl FireTick {
    /// Thinks: what the call does to this core. Nothing, if the schedule is gone, fired meanwhile or has another moment by now.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let Some(looked) = &answers.schedule else {
            return Ok(Step::Ask(Question::Schedule { name: self.name.clone() }));
        };
        let now_ms = looked.now_ms;
        let found = looked.schedule.as_ref().filter(|s| s.due_ms == Some(self.due_ms));
        let Some((schedule, tick)) = found.and_then(|s| Some((s, s.tick(now_ms)?))) else {
            return Ok(Step::Read(result(None, &self.name, false)));
        };
        let mut draft = Draft::new(around, core);
        let seq = draft.after.queue.next_seq;
        let class = Class::Scheduled.text();
        let meta = json!({"class": class, "event": self.name,
            "tick": {"due": iso8601(tick.due_ms), "missed": tick.missed}});
        let meta = meta.as_object().cloned().unwrap_or_default();
        draft.push(Kind::Event, Role::System, text(class, schedule, &tick), meta);
        draft.interrupt_chain();
        draft.fire(Fired {
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
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }
}

/// The event as plain text: class, name, the moment it stands for, and how many stand behind it.
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
