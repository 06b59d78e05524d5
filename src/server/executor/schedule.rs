//! Stores, reads and fires schedules, and manages the leases of the runs that schedules start.

use serde_json::{Value, json};

use super::executor::Executor;
use super::kernel::{leaving, no_agent, patience};
use super::request::{CallRequest, scope_of, whose};
use crate::limits::{SCHEDULES_PER_AGENT_MAX, TICK_RUN_LEASE_MS};
use crate::store::{self, CutRun, DueTick, DueTicks};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::schedule::tick_key;
use vctx_core::tools::{FireTick, PutSchedule};
use vctx_core::trust::{Actor, Principal, admit, check_name};

/// First and longest wait before a failed tick is fired again, in milliseconds; the wait doubles
/// after each failure.
const TICK_WAIT_MS: (u64, u64) = (1_000, 300_000);

impl Executor {
    /// Creates a schedule, or changes the existing schedule with this name. Returns `true` if the
    /// schedule is new.
    pub async fn put_schedule(
        &self,
        principal: &Principal,
        agent: &str,
        name: &str,
        body: PutSchedule,
    ) -> Result<(bool, Value)> {
        let scope = admit(principal, agent)?;
        let schedule = body.checked()?.schedule(&scope, name, self.kernel.clock.unix_ms())?;
        let outcome = self.kernel.write(|rw| store::put_schedule(rw, &scope, &schedule)).await?;
        if !outcome.agent {
            return Err(no_agent());
        }
        if outcome.moving {
            return Err(leaving());
        }
        let Some(schedule) = outcome.schedule else {
            let text = format!(
                "an agent has at most {SCHEDULES_PER_AGENT_MAX} schedules: remove one first"
            );
            return Err(Error::argument("name", text));
        };
        Ok((outcome.made, self.taint.shown_schedule(&schedule)))
    }

    /// Returns all schedules of an agent in the order of their names.
    pub async fn schedules(&self, principal: &Principal, agent: &str) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let found = self.kernel.read(|ro| store::schedules(ro, &scope)).await?;
        if !found.agent {
            return Err(no_agent());
        }
        let all: Vec<Value> =
            found.schedules.iter().map(|one| self.taint.shown_schedule(one)).collect();
        Ok(json!({"schedules": all}))
    }

    /// Returns one schedule of an agent.
    pub async fn schedule(&self, principal: &Principal, agent: &str, name: &str) -> Result<Value> {
        let scope = admit(principal, agent)?;
        check_name("name", name)?;
        let found = self.kernel.read(|ro| store::schedule(ro, &scope, name)).await?;
        match found.schedules.first() {
            Some(schedule) => Ok(self.taint.shown_schedule(schedule)),
            None if found.agent => Err(no_schedule()),
            None => Err(no_agent()),
        }
    }

    /// Removes a schedule. A concurrent tick of this schedule fires either before the removal or
    /// not at all.
    pub async fn remove_schedule(
        &self,
        principal: &Principal,
        agent: &str,
        name: &str,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        check_name("name", name)?;
        let gone = self.kernel.write(|rw| store::remove_schedule(rw, &scope, name)).await?;
        if gone {
            return Ok(json!({"name": name, "removed": true}));
        }
        // Nothing was removed: finds out whether the agent is missing or is being moved.
        self.schedule(principal, agent, name).await?;
        let (core, _) = self.kernel.fresh(&scope, &[], patience()).await?;
        Err(if core.moving.is_some() { leaving() } else { no_schedule() })
    }

    /// Returns the due ticks and the unfinished runs of schedules, the oldest first.
    pub async fn due_ticks(&self, limit: u64) -> Result<DueTicks> {
        self.kernel.read(|ro| store::due_ticks(ro, limit)).await
    }

    /// Fires a tick by an ordinary write. The first server writes the tick's event; the others find
    /// it written. Returns the number of ticks that were missed before this one, or `None` if the
    /// tick had already fired.
    pub async fn fire(&self, tick: &DueTick, actor: &Actor) -> Result<Option<u64>> {
        let mut request = CallRequest::internal(
            whose(actor, &tick.tenant, &tick.agent_id),
            FireTick { name: tick.name.clone(), due_ms: tick.due_ms },
            [("schedule", json!(tick.name)), ("due_ms", json!(tick.due_ms))],
        );
        request.key = Some(tick_key(&tick.name, tick.due_ms));
        let body = self.call(&request).await?.body;
        if body["replayed"] == true {
            self.pass(tick, actor).await?;
            return Ok(None);
        }
        let fired = body["result"]["fired"] == true;
        Ok(fired.then(|| body["result"]["missed"].as_u64().unwrap_or(0)))
    }

    /// Advances a schedule past a tick whose event already exists. Either another server has fired
    /// the tick, or the schedule was deleted and created again with the same tick.
    async fn pass(&self, tick: &DueTick, actor: &Actor) -> Result<()> {
        let scope = scope_of(actor, &tick.tenant, &tick.agent_id)?;
        let found = self.kernel.read(|ro| store::looked_at(ro, &scope, &tick.name)).await?;
        let schedule = found.schedule.filter(|s| s.due_ms == Some(tick.due_ms));
        let Some(next) = schedule.and_then(|s| s.tick(found.now_ms)) else { return Ok(()) };
        let (name, due_ms) = (tick.name.as_str(), tick.due_ms);
        self.kernel.write(|rw| store::skip_tick(rw, &scope, name, due_ms, next.next_ms)).await
    }

    /// Gives the schedules whose next tick is too far ahead a new next tick, one interval from now.
    /// Such a tick was computed while the database's clock was wrong, and the schedule would be
    /// silent until then. Returns the number of these schedules.
    pub async fn restart_ahead(&self, actor: &Actor, limit: u64) -> Result<usize> {
        let found = self.kernel.read(|ro| store::ticks_ahead(ro, TICK_WAIT_MS.1, limit)).await?;
        for tick in &found.ahead {
            let scope = scope_of(actor, &tick.tenant, &tick.agent_id)?;
            let next_ms = Some(found.now_ms + tick.every_ms);
            let skip = |rw| store::skip_tick(rw, &scope, &tick.name, tick.due_ms, next_ms);
            self.kernel.write(skip).await?;
        }
        Ok(found.ahead.len())
    }

    /// Postpones a failed tick; the delay grows with each failure.
    pub async fn postpone(&self, tick: &DueTick, actor: &Actor) -> Result<()> {
        let (least, most) = TICK_WAIT_MS;
        let wait_ms = (least << tick.failures.min(20)).min(most);
        let scope = scope_of(actor, &tick.tenant, &tick.agent_id)?;
        self.kernel.write(|rw| store::postpone_tick(rw, &scope, tick, wait_ms)).await
    }

    /// Takes or renews the lease of a schedule's run; returns `false` if another server holds it.
    pub async fn claim_run(&self, run: &CutRun, actor: &Actor) -> Result<bool> {
        let scope = scope_of(actor, &run.tenant, &run.agent_id)?;
        let owner = self.kernel.instance.as_str();
        self.kernel
            .patiently(|| store::claim_run(&self.kernel.rw, &scope, run, owner, TICK_RUN_LEASE_MS))
            .await
    }

    /// Records that a schedule's run has ended.
    pub async fn end_run(&self, run: &CutRun, actor: &Actor) -> Result<()> {
        let scope = scope_of(actor, &run.tenant, &run.agent_id)?;
        self.kernel.write(|rw| store::end_run(rw, &scope, run)).await
    }
}

impl CutRun {
    /// Returns the principal and the agent's name for a schedule's run.
    pub fn whose(&self, actor: &Actor) -> (Principal, String) {
        whose(actor, &self.tenant, &self.agent_id)
    }
}

fn no_schedule() -> Error {
    Error::new(Code::ScheduleNotFound, "no such schedule: see GET /v1/agents/{agent}/schedules")
}
