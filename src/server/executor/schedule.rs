//! Schedules from outside the thinking rooms: giving and reading them, firing what is due, and who runs because of it.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::executor::{Executor, leaving, no_agent, patience};
use super::request::CallRequest;
use crate::store::{self, CutRun, DueTick, DueTicks, Fault};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    SCHEDULE_RACES_MAX, SCHEDULES_PER_AGENT_MAX, TICK_RUN_LEASE_MS, TICK_WAIT_MS,
};
use vctx_core::memory::schedule::tick_key;
use vctx_core::policy::{Actor, Principal, Scope, admit, check_name};
use vctx_core::tools::{Call, FireTick, PutSchedule};

impl Executor {
    /// Makes a schedule, or changes the one of that name; true if there was none.
    pub async fn put_schedule(
        &self,
        principal: &Principal,
        agent: &str,
        name: &str,
        body: PutSchedule,
    ) -> Result<(bool, Value)> {
        let scope = admit(principal, agent)?;
        let schedule = body.checked()?.schedule(&scope, name, self.clock.unix_ms())?;
        let given = self.unraced(|| store::put_schedule(&self.rw, &scope, &schedule)).await?;
        if !given.agent {
            return Err(no_agent());
        }
        if given.moving {
            return Err(leaving());
        }
        let Some(schedule) = given.schedule else {
            let text = format!(
                "an agent has at most {SCHEDULES_PER_AGENT_MAX} schedules: take one away first"
            );
            return Err(Error::argument("name", text));
        };
        Ok((given.made, schedule.public()))
    }

    /// All schedules of an agent, by their names.
    pub async fn schedules(&self, principal: &Principal, agent: &str) -> Result<Value> {
        let scope = admit(principal, agent)?;
        let found = self.patiently(|| store::schedules(&self.ro, &scope)).await?;
        if !found.agent {
            return Err(no_agent());
        }
        let all: Vec<Value> = found.schedules.iter().map(|one| one.public()).collect();
        Ok(json!({"schedules": all}))
    }

    /// One schedule of an agent.
    pub async fn schedule(&self, principal: &Principal, agent: &str, name: &str) -> Result<Value> {
        let scope = admit(principal, agent)?;
        check_name("name", name)?;
        let found = self.patiently(|| store::schedule(&self.ro, &scope, name)).await?;
        match found.schedules.first() {
            Some(schedule) => Ok(schedule.public()),
            None if found.agent => Err(no_schedule()),
            None => Err(no_agent()),
        }
    }

    /// Takes a schedule away. A tick that fires at the same moment has fired before it, or never will.
    pub async fn remove_schedule(
        &self,
        principal: &Principal,
        agent: &str,
        name: &str,
    ) -> Result<Value> {
        let scope = admit(principal, agent)?;
        check_name("name", name)?;
        let gone = self.unraced(|| store::remove_schedule(&self.rw, &scope, name)).await?;
        if gone {
            return Ok(json!({"name": name, "removed": true}));
        }
        // Whether it is the agent that is missing, or about to be.
        self.schedule(principal, agent, name).await?;
        let (core, _) = self.fresh(&scope, "", patience()).await?;
        Err(if core.moving.is_some() { leaving() } else { no_schedule() })
    }

    /// What waits for a server, the longest waiting first.
    pub async fn due_ticks(&self, limit: u64) -> Result<DueTicks> {
        self.patiently(|| store::due_ticks(&self.ro, limit)).await
    }

    /// Fires a moment by a write like any other: whoever is first writes the event, for everybody else it is there. Gives how many
    /// moments were missed before this one; none where there was nothing to fire any more.
    pub async fn fire(&self, tick: &DueTick, actor: &Actor) -> Result<Option<u64>> {
        let (principal, agent) = whose(actor, &tick.tenant, &tick.agent_id);
        let request = CallRequest {
            principal,
            agent,
            arguments: Map::from_iter([
                ("schedule".to_owned(), json!(tick.name)),
                ("due_ms".to_owned(), json!(tick.due_ms)),
            ]),
            call: Call::FireTick(FireTick { name: tick.name.clone(), due_ms: tick.due_ms }),
            key: Some(tick_key(&tick.name, tick.due_ms)),
            guard: None,
            capture: None,
            wording: None,
        };
        let body = self.call(&request).await?.body;
        if body["replayed"] == true {
            self.pass(tick, actor).await?;
            return Ok(None);
        }
        let fired = body["result"]["fired"] == true;
        Ok(fired.then(|| body["result"]["missed"].as_u64().unwrap_or(0)))
    }

    /// A moment whose event is there already: another server made it and moved the schedule on, or a schedule of the same name had the same
    /// moment and was given anew, and this one still stands before it.
    async fn pass(&self, tick: &DueTick, actor: &Actor) -> Result<()> {
        let scope = scope_of(actor, &tick.tenant, &tick.agent_id)?;
        let found = self.patiently(|| store::looked_at(&self.ro, &scope, &tick.name)).await?;
        let schedule = found.schedule.filter(|s| s.due_ms == Some(tick.due_ms));
        let Some(next) = schedule.and_then(|s| s.tick(found.now_ms)) else { return Ok(()) };
        let (name, due_ms) = (tick.name.as_str(), tick.due_ms);
        self.unraced(|| store::skip_tick(&self.rw, &scope, name, due_ms, next.next_ms)).await
    }

    /// Lets a moment that could not fire wait, longer each time.
    pub async fn postpone(&self, tick: &DueTick, actor: &Actor) -> Result<()> {
        let (least, most) = TICK_WAIT_MS;
        let wait_ms = (least << tick.failures.min(20)).min(most);
        let scope = scope_of(actor, &tick.tenant, &tick.agent_id)?;
        self.unraced(|| store::postpone_tick(&self.rw, &scope, tick, wait_ms)).await
    }

    /// Takes a run over for a while, or goes on with it; false while another server has it.
    pub async fn claim_run(&self, run: &CutRun, actor: &Actor) -> Result<bool> {
        let scope = scope_of(actor, &run.tenant, &run.agent_id)?;
        let owner = self.instance.as_str();
        self.patiently(|| store::claim_run(&self.rw, &scope, run, owner, TICK_RUN_LEASE_MS)).await
    }

    /// Notes that a run has ended.
    pub async fn settle_run(&self, run: &CutRun, actor: &Actor) -> Result<()> {
        let scope = scope_of(actor, &run.tenant, &run.agent_id)?;
        self.unraced(|| store::settle_run(&self.rw, &scope, run)).await
    }

    /// The same small write again while others write to the same document.
    pub(super) async fn unraced<T, F: Future<Output = std::result::Result<T, Fault>>>(
        &self,
        write: impl Fn() -> F,
    ) -> Result<T> {
        for _ in 0..SCHEDULE_RACES_MAX {
            let written = self
                .patiently(|| async {
                    match write().await {
                        Err(fault) if fault.raced() => Ok(None),
                        other => other.map(Some),
                    }
                })
                .await?;
            if let Some(written) = written {
                return Ok(written);
            }
            tokio::time::sleep(Duration::from_millis(1 + self.ids.below(16))).await;
        }
        Err(Error::new(Code::Conflict, "other writers were faster each time: try again")
            .with("retry_after_ms", 50))
    }
}

/// Who acts for an agent that is known by the key of its core, and the agent's name.
pub(super) fn whose(actor: &Actor, tenant: &str, key: &str) -> (Principal, String) {
    let prefix = format!("{tenant}:");
    let agent = match tenant {
        "" => key,
        _ => key.strip_prefix(&prefix).unwrap_or(key),
    };
    (Principal { actor: actor.clone(), tenant: tenant.to_owned() }, agent.to_owned())
}

fn scope_of(actor: &Actor, tenant: &str, key: &str) -> Result<Scope> {
    let (principal, agent) = whose(actor, tenant, key);
    admit(&principal, &agent)
}

impl CutRun {
    /// Who runs, and the agent's name.
    pub fn whose(&self, actor: &Actor) -> (Principal, String) {
        whose(actor, &self.tenant, &self.agent_id)
    }
}

fn no_schedule() -> Error {
    Error::new(Code::ScheduleNotFound, "no such schedule: see GET /v1/agents/{agent}/schedules")
}
