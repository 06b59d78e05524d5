//! The lease of a run: whoever holds it goes on with the agent; one that nobody renewed is taken over, and what it left open is closed.

use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::spec::Step;
use crate::error::{Code, Error, Result};
use crate::limits::CLOCK_SKEW_MS_MAX;
use crate::memory::core::Core;
use crate::memory::event::EventType;
use crate::memory::message::{Kind, Message, Role};
use crate::memory::run::{OpenRun, RunReason};
use crate::policy::{Answers, CallPlace, Draft, Intent, Question, Surroundings};

/// Begins a run, goes on with it, or renews its lease.
#[derive(Clone, Debug)]
pub struct HoldRun {
    /// Key of the run.
    pub run: String,
    /// Who holds it: another name for each try, on one server too.
    pub owner: String,
    /// How long it counts as alive without being renewed, in milliseconds.
    pub lease_ms: u64,
}

/// Ends a run: the lease goes, its chain ends, and an event says why.
#[derive(Clone, Debug)]
pub struct EndRun {
    /// Key of the run.
    pub run: String,
    /// Who holds it; none where its time is over and anybody may end it.
    pub owner: Option<String>,
    /// Why it ends.
    pub reason: RunReason,
    /// What is to be told of it besides, in the event and to the same request later.
    pub told: Map<String, Value>,
}

/// What a call that was never made is answered with.
const CUT_OFF: &str = "{\"error\":\"RUN_CUT_OFF\",\"detail\":\"the run ended before this call was made: nothing happened\"}";

impl HoldRun {
    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let mut draft = Draft::new(around, core);
        match self.hold(&mut draft, around.unix_ms, core, answers)? {
            Some(question) => Ok(Step::Ask(question)),
            None => Ok(draft.finish(own_flush(core), answers, Map::new())?.into()),
        }
    }

    /// Takes the run inside a change that does more; a question where the queue has to be known first.
    pub(super) fn hold(
        &self,
        draft: &mut Draft<'_>,
        now: u64,
        core: &Core,
        answers: &Answers,
    ) -> Result<Option<Question>> {
        let is_own = |run: &OpenRun| run.id == self.run && run.owner == self.owner;
        let begun = match &core.run {
            Some(run) if is_own(run) => run.clone(),
            Some(run) if lives(run, now) => return Err(busy(run, now)),
            Some(run) if run.id == self.run => OpenRun { owner: self.owner.clone(), ..run.clone() },
            Some(run) => {
                let Some(queue) = &answers.queue else {
                    return Ok(Some(Question::Queue { head_seq: core.queue.head_seq }));
                };
                close(draft, run, RunReason::Cancelled, &Map::new(), queue);
                self.fresh(draft, now)
            }
            None => self.fresh(draft, now),
        };
        let until_ms = now + self.lease_ms;
        if draft.after.run.as_ref().is_none_or(|run| run.owner != self.owner) {
            draft.lose_prompt();
        }
        draft.after.run = Some(OpenRun { until_ms, ..begun });
        Ok(None)
    }

    fn fresh(&self, draft: &mut Draft<'_>, now: u64) -> OpenRun {
        let cause_seq = draft.after.queue.next_seq;
        draft.event(EventType::RunStart, json!({"run": self.run, "cause_seq": cause_seq}));
        OpenRun {
            id: self.run.clone(),
            cause_seq,
            owner: self.owner.clone(),
            until_ms: now,
            started_ms: now,
        }
    }
}

impl EndRun {
    /// Thinks: what the call does to this core. Nothing, if the run is another's by now.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let now = around.unix_ms;
        let meant = core.run.as_ref().filter(|run| match &self.owner {
            Some(owner) => run.id == self.run && run.owner == *owner,
            None => run.id == self.run && !lives(run, now),
        });
        let Some(run) = meant else {
            return Ok(Step::Read(Map::from_iter([("ended".to_owned(), false.into())])));
        };
        // Calls have their results, and those of the client's own tools wait for it, unless the run was cut off.
        let queue = match (&answers.queue, self.reason == RunReason::Cancelled) {
            (_, false) => &[][..],
            (Some(queue), true) => queue.as_slice(),
            (None, true) => {
                return Ok(Step::Ask(Question::Queue { head_seq: core.queue.head_seq }));
            }
        };
        let mut draft = Draft::new(around, core);
        close(&mut draft, run, self.reason, &self.told, queue);
        let mut result = self.told.clone();
        result.insert("ended".into(), true.into());
        result.insert("reason".into(), json!(self.reason));
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }
}

/// Whether a run's holder may still be alive, by the clock of any server.
fn lives(run: &OpenRun, now: u64) -> bool {
    run.until_ms + CLOCK_SKEW_MS_MAX >= now
}

fn busy(run: &OpenRun, now: u64) -> Error {
    let ms = (run.until_ms + CLOCK_SKEW_MS_MAX + 1).saturating_sub(now);
    Error::new(
        Code::RunBusy,
        "another run of this agent is under way: retry later with the same key",
    )
    .with("retry_after_ms", ms)
}

/// Closes a run: calls without a result get one that says so, the chain ends, the event says why.
fn close(
    draft: &mut Draft<'_>,
    run: &OpenRun,
    reason: RunReason,
    told: &Map<String, Value>,
    queue: &[Message],
) {
    draft.lose_prompt();
    let places: Vec<CallPlace> = queue.iter().map(CallPlace::from).collect();
    draft.know_calls(&places);
    let open = open_calls(run, queue);
    let cut_off = open.len();
    for id in open {
        let meta = Map::from_iter([("tool_call_id".to_owned(), Value::from(id))]);
        draft.push(Kind::Turn, Role::Tool, CUT_OFF.to_owned(), meta);
    }
    if draft.after.heartbeat.chain.is_some() {
        draft.beat_now(Intent::Yield, None);
    }
    let mut details = told.clone();
    details.insert("run".into(), run.id.as_str().into());
    details.insert("reason".into(), json!(reason));
    details.insert("cause_seq".into(), run.cause_seq.into());
    details.insert("next_seq".into(), draft.after.queue.next_seq.into());
    details.insert("calls_cut_off".into(), cut_off.into());
    draft.event(EventType::RunEnd, Value::Object(details));
    draft.after.run = None;
}

/// Ids of the calls of a run that no message answers, oldest first.
fn open_calls(run: &OpenRun, queue: &[Message]) -> Vec<String> {
    let own = queue.iter().filter(|m| m.kind.queued() && m.seq >= run.cause_seq);
    let mut open: Vec<String> = Vec::new();
    for message in own {
        for id in message.tool_call_ids().chain(message.answers()) {
            open.retain(|waiting| waiting != id);
        }
        open.extend(message.tool_call_ids().map(str::to_owned));
    }
    open
}
