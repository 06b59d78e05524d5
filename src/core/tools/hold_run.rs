//! Commands that take, renew or release the lease of a run; the server or client that holds the
//! lease drives the agent.

use serde_json::{Map, Value, json};

use super::patch_agent::check_room;
use super::spec::{Access, Command, Spec};
use crate::error::{Code, Error, Result};
use crate::limits::{CLOCK_SKEW_MS_MAX, LEASE_MS_BOUNDS};
use crate::memory::Labels;
use crate::memory::core::Offered;
use crate::memory::event::named;
use crate::memory::message::{Kind, Message, Role};
use crate::memory::run::{OpenRun, RunReason};
use crate::policy::{CallPlace, Ctx, Draft, Intent, Step, Stop};

/// Begins a run, takes over its expired lease, or renews its lease.
#[derive(Clone, Debug)]
pub struct HoldRun {
    /// Key of the run.
    pub run: String,
    /// Name of the lease's holder; each attempt to drive the run uses a new name, even on the same
    /// server.
    pub owner: String,
    /// Time for which a lease is valid without renewal, in milliseconds.
    pub lease_ms: u64,
    /// The tools for which the run reserves tokens of the window; `None` if they are reserved
    /// already, or if the run offers no tools.
    pub reserve: Option<Offered>,
    /// Labels of the answers, if the run's input was appended before the run.
    pub labels: Labels,
}

/// Ends a run: releases the lease, ends the heartbeat chain, and records the reason in the audit
/// row.
#[derive(Clone, Debug)]
pub struct EndRun {
    /// Key of the run.
    pub run: String,
    /// Name of the lease's holder; `None` if the lease has expired, so that any server may end the
    /// run.
    pub owner: Option<String>,
    /// Why the run ends.
    pub reason: RunReason,
    /// Further facts about the end of the run, for the audit row and for the answer to a repeated
    /// request.
    pub told: Map<String, Value>,
}

/// Result that is stored for a tool call that was never made, because its run ended first.
const CUT_OFF: &str =
    "Error RUN_CUT_OFF: the run ended before this call was made, so nothing happened.";

impl Command for HoldRun {
    const SPEC: Spec = Spec::command("hold_run", Access::Signal);

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let mut draft = ctx.draft();
        self.hold(&mut draft, ctx)?;
        ctx.finish(draft, Map::new())
    }
}

impl HoldRun {
    /// Takes or renews the lease as part of a larger change.
    pub(super) fn hold(&self, draft: &mut Draft<'_>, ctx: &Ctx<'_>) -> Result<(), Stop> {
        let now = ctx.around.unix_ms;
        let is_own = |run: &OpenRun| run.id == self.run && run.owner == self.owner;
        let begun = match &ctx.core.run {
            Some(run) if is_own(run) => run.clone(),
            Some(run) if lives(run, now) => return Err(busy(run, now).into()),
            Some(run) if run.id == self.run => OpenRun { owner: self.owner.clone(), ..run.clone() },
            Some(run) => {
                let queue = ctx.queue()?;
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
        if let Some(tools) = &self.reserve {
            draft.reserve(tools);
            check_room(&draft.after)?;
        }
        Ok(())
    }

    fn fresh(&self, draft: &mut Draft<'_>, now: u64) -> OpenRun {
        let cause_seq = draft.after.queue.next_seq;
        let run = Value::from(named(&draft.after.agent_id, &self.run));
        let details = [("run".to_owned(), run), ("cause_seq".to_owned(), cause_seq.into())];
        draft.run_event("start", details.into_iter().collect());
        OpenRun {
            id: self.run.clone(),
            cause_seq,
            owner: self.owner.clone(),
            until_ms: now,
            started_ms: now,
            labels: self.labels.stored(),
        }
    }
}

impl Command for EndRun {
    const SPEC: Spec = Spec::command("end_run", Access::Signal);

    /// Ends the run; does nothing if another holder now has the lease.
    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let now = ctx.around.unix_ms;
        let meant = ctx.core.run.as_ref().filter(|run| match &self.owner {
            Some(owner) => run.id == self.run && run.owner == *owner,
            None => run.id == self.run && !lives(run, now),
        });
        let Some(run) = meant else {
            return Ok(Step::Read(Map::from_iter([("ended".to_owned(), false.into())])));
        };
        // Only a cancelled run may have unanswered calls, which are found in the queue. In every
        // other run, each call has a result, or waits for the result of a client's own tool.
        let queue = if self.reason == RunReason::Cancelled { ctx.queue()? } else { &[] };
        let mut draft = ctx.draft();
        close(&mut draft, run, self.reason, &self.told, queue);
        let mut result = self.told.clone();
        result.insert("ended".into(), true.into());
        result.insert("reason".into(), json!(self.reason));
        ctx.finish(draft, result)
    }
}
/// Whether a run's lease may still be valid, allowing for the clock skew between servers. A lease
/// whose end is further away than the maximum duration of a lease was taken by a server whose clock
/// was wrong. Such a lease is not valid.
fn lives(run: &OpenRun, now: u64) -> bool {
    let latest = now + LEASE_MS_BOUNDS.1 + CLOCK_SKEW_MS_MAX;
    run.until_ms + CLOCK_SKEW_MS_MAX >= now && run.until_ms <= latest
}

fn busy(run: &OpenRun, now: u64) -> Error {
    let ms = (run.until_ms + CLOCK_SKEW_MS_MAX + 1).saturating_sub(now);
    Error::new(
        Code::RunBusy,
        "another run of this agent is under way: retry later with the same key",
    )
    .with("retry_after_ms", ms)
}

/// Closes a run: releases the tokens of its tools, stores the result [`CUT_OFF`] for each call
/// without a result, ends the heartbeat chain, and records the reason in the audit row.
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
    details.insert("run".into(), named(&draft.after.agent_id, &run.id).into());
    details.insert("reason".into(), json!(reason));
    details.insert("cause_seq".into(), run.cause_seq.into());
    details.insert("next_seq".into(), draft.after.queue.next_seq.into());
    details.insert("calls_cut_off".into(), cut_off.into());
    draft.run_event("end", details);
    draft.after.run = None;
    draft.after.reserved = None;
}

/// Returns the ids of the run's calls that no message answers, oldest first.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_holds_until_its_end_and_never_longer_than_the_longest_lease() {
        let now = 1_800_000_000_000;
        let (_, longest) = LEASE_MS_BOUNDS;
        let held = |until_ms: u64| {
            let (id, owner) = ("r".to_owned(), "one".to_owned());
            lives(
                &OpenRun { id, cause_seq: 1, owner, until_ms, started_ms: now, labels: Vec::new() },
                now,
            )
        };
        assert!(held(now) && held(now - CLOCK_SKEW_MS_MAX));
        assert!(!held(now - CLOCK_SKEW_MS_MAX - 1));
        assert!(held(now + longest + CLOCK_SKEW_MS_MAX));
        assert!(!held(now + longest + CLOCK_SKEW_MS_MAX + 1));
        assert!(!held(now + 8 * 86_400_000));
    }
}
