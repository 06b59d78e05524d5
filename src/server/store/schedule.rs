//! Schedules: giving, reading and taking them away; what is due, firing it, and who runs because of it. Their time is the database's.

use serde::Deserialize;
use serde_json::{Value, json};

use super::db::{Binds, Ro, Rw};
use super::fault::Fault;
use super::query::{Query, query};
use super::transaction::Stream;
use vctx_core::limits::SCHEDULES_PER_AGENT_MAX;
use vctx_core::memory::schedule::{Fired, Schedule, TickRun};
use vctx_core::policy::{ScheduleSeen, Scope};

/// One is given.
pub(super) const PUT: Query = query!("schedule_put");
/// Those of an agent.
pub(super) const LIST: Query = query!("schedule_list");
/// One of them.
pub(super) const LOAD: Query = query!("schedule_load");
/// One goes.
pub(super) const REMOVE: Query = query!("schedule_remove");
/// What is due.
pub(super) const DUE: Query = query!("schedule_due");
/// It fires.
pub(super) const FIRED: Query = query!("schedule_fired");
/// It fired before.
pub(super) const SKIP: Query = query!("schedule_skip");
/// It could not.
pub(super) const POSTPONE: Query = query!("schedule_postpone");
/// Who runs.
pub(super) const CLAIM: Query = query!("schedule_claim");
/// That is over.
pub(super) const SETTLE: Query = query!("schedule_settle");

/// Collections that only a tick writes, beside those of every change.
pub(super) const WRITES: [&str; 1] = ["schedules"];

/// What became of a schedule that was given.
#[derive(Clone, Debug, Deserialize)]
pub struct Given {
    /// Whether there is such an agent.
    pub agent: bool,
    /// Whether it is leaving for another place.
    pub moving: bool,
    /// Its other schedules, counted up to the most that it may have.
    pub others: u64,
    /// Whether there was none of that name.
    pub made: bool,
    /// What was written; none: nothing.
    pub schedule: Option<Schedule>,
}

/// Schedules of an agent.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Schedules {
    /// Whether there is such an agent.
    pub agent: bool,
    /// What time it is for the database, in milliseconds since 1970.
    pub now_ms: u64,
    /// Those asked for, by their names.
    pub schedules: Vec<Schedule>,
}

/// A moment that has come.
#[derive(Clone, Debug, Deserialize)]
pub struct DueTick {
    /// Key of the agent's core.
    pub agent_id: String,
    /// Its tenant.
    pub tenant: String,
    /// The schedule.
    pub name: String,
    /// The moment, in milliseconds since 1970.
    pub due_ms: u64,
    /// Times that it could not fire.
    pub failures: u64,
}

/// A run that nobody goes on with.
#[derive(Clone, Debug, Deserialize)]
pub struct CutRun {
    /// Key of the agent's core.
    pub agent_id: String,
    /// Its tenant.
    pub tenant: String,
    /// The schedule.
    pub name: String,
    /// The run.
    pub running: TickRun,
}

/// What waits for a server.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DueTicks {
    /// What time it is for the database, in milliseconds since 1970.
    pub now_ms: u64,
    /// Moments that have come.
    pub due: Vec<DueTick>,
    /// Runs that nobody goes on with.
    pub cut: Vec<CutRun>,
}

/// Makes a schedule, or changes the one of that name.
pub async fn put_schedule(rw: &Rw, scope: &Scope, schedule: &Schedule) -> Result<Given, Fault> {
    let binds = Binds::of(
        scope,
        [
            ("name", schedule.name.as_str().into()),
            ("every_ms", schedule.every_ms.into()),
            ("at_ms", schedule.at_ms.into()),
            ("schedule", json!(schedule)),
            ("most", SCHEDULES_PER_AGENT_MAX.into()),
            ("sync", rw.sync.into()),
        ],
    );
    let rows: Vec<Given> = rw.rows(PUT, binds).await?;
    let none = Given { agent: false, moving: false, others: 0, made: false, schedule: None };
    Ok(rows.into_iter().next().unwrap_or(none))
}

/// All schedules of an agent.
pub async fn schedules(ro: &Ro, scope: &Scope) -> Result<Schedules, Fault> {
    let limit = 2 * SCHEDULES_PER_AGENT_MAX;
    let rows: Vec<Schedules> = ro.rows(LIST, Binds::of(scope, [("limit", limit.into())])).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// One schedule of an agent.
pub async fn schedule(ro: &Ro, scope: &Scope, name: &str) -> Result<Schedules, Fault> {
    let rows: Vec<Schedules> = ro.rows(LOAD, Binds::of(scope, [("name", name.into())])).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// The same as a decision asks for it.
pub async fn looked_at(ro: &Ro, scope: &Scope, name: &str) -> Result<ScheduleSeen, Fault> {
    let found = schedule(ro, scope, name).await?;
    Ok(ScheduleSeen { now_ms: found.now_ms, schedule: found.schedules.into_iter().next() })
}

/// Takes a schedule away; false where there is none.
pub async fn remove_schedule(rw: &Rw, scope: &Scope, name: &str) -> Result<bool, Fault> {
    let binds = Binds::of(scope, [("name", name.into()), ("sync", rw.sync.into())]);
    rw.rows::<Value>(REMOVE, binds).await.map(|rows| !rows.is_empty())
}

/// What waits for a server, the longest waiting first.
pub async fn due_ticks(ro: &Ro, limit: u64) -> Result<DueTicks, Fault> {
    let rows: Vec<DueTicks> = ro.rows(DUE, Binds::unscoped([("limit", limit.into())])).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// Moves a schedule on inside a running transaction; false where another moment is due by now.
pub(super) async fn fire(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    fired: &Fired,
) -> Result<bool, Fault> {
    let binds = Binds::of(
        scope,
        [
            ("name", fired.name.as_str().into()),
            ("due_ms", fired.due_ms.into()),
            ("next_ms", fired.next_ms.into()),
            ("missed", fired.last.missed.into()),
            ("last", json!(fired.last)),
            ("running", json!(fired.running)),
            ("sync", rw.sync.into()),
        ],
    );
    stream.rows::<Value>(FIRED, binds).await.map(|rows| !rows.is_empty())
}

/// Moves a schedule past a moment whose event is there already.
pub async fn skip_tick(
    rw: &Rw,
    scope: &Scope,
    name: &str,
    due_ms: u64,
    next_ms: Option<u64>,
) -> Result<(), Fault> {
    let binds = Binds::of(
        scope,
        [
            ("name", name.into()),
            ("due_ms", due_ms.into()),
            ("next_ms", next_ms.into()),
            ("sync", rw.sync.into()),
        ],
    );
    rw.rows::<Value>(SKIP, binds).await.map(|_| ())
}

/// Lets one that could not fire wait.
pub async fn postpone_tick(
    rw: &Rw,
    scope: &Scope,
    tick: &DueTick,
    wait_ms: u64,
) -> Result<(), Fault> {
    let binds = Binds::of(
        scope,
        [
            ("name", tick.name.as_str().into()),
            ("due_ms", tick.due_ms.into()),
            ("wait_ms", wait_ms.into()),
            ("sync", false.into()),
        ],
    );
    rw.rows::<Value>(POSTPONE, binds).await.map(|_| ())
}

/// Takes a run over, or goes on with it; false while another server has it. Of two that try at once one gets it.
pub async fn claim_run(
    rw: &Rw,
    scope: &Scope,
    run: &CutRun,
    owner: &str,
    lease_ms: u64,
) -> Result<bool, Fault> {
    let binds = Binds::of(
        scope,
        [
            ("name", run.name.as_str().into()),
            ("run", run.running.key.as_str().into()),
            ("owner", owner.into()),
            ("lease_ms", lease_ms.into()),
            ("sync", false.into()),
        ],
    );
    match rw.rows::<Value>(CLAIM, binds).await {
        Ok(rows) => Ok(!rows.is_empty()),
        Err(fault) if fault.raced() => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Notes that a run has ended.
pub async fn settle_run(rw: &Rw, scope: &Scope, run: &CutRun) -> Result<(), Fault> {
    let binds = Binds::of(
        scope,
        [
            ("name", run.name.as_str().into()),
            ("run", run.running.key.as_str().into()),
            ("sync", rw.sync.into()),
        ],
    );
    rw.rows::<Value>(SETTLE, binds).await.map(|_| ())
}
