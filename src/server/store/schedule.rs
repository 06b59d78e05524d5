//! Stores schedules: writes and removes them, fires due ticks, and manages the leases of their
//! runs.
//!
//! All times come from the database's clock.

use serde::Deserialize;
use serde_json::json;

use super::beside::{Beside, beside};
use super::db::{Binds, Ro, Rw, binds, must};
use super::fault::Result;
use super::ledger::{Touched, Written, salt};
use super::query::{Query, queries};
use super::transaction::Stream;
use crate::limits::{SCHEDULES_PER_AGENT_MAX, TICK_RUN_LEASE_MS};
use vctx_core::memory::schedule::{Schedule, TickResult, TickRun};
use vctx_core::policy::ScheduleSeen;
use vctx_core::trust::Scope;

queries! {
    PUT = "schedule_put",
    LIST = "schedule_list",
    LOAD = "schedule_load",
    REMOVE = "schedule_remove",
    DUE = "schedule_due",
    AHEAD = "schedule_ahead",
    FIRED = "schedule_fired",
    SKIP = "schedule_skip",
    POSTPONE = "schedule_postpone",
    CLAIM = "schedule_claim",
    END_RUN = "schedule_settle",
}

/// Collections that a tick writes, in addition to the collections that every change writes.
pub(super) const WRITES: [&str; 1] = ["schedules"];

/// Outcome of [`put_schedule`].
#[derive(Clone, Debug, Deserialize)]
pub struct ScheduleOutcome {
    /// Whether the agent exists.
    pub agent: bool,
    /// Whether the agent is being moved to another database.
    pub moving: bool,
    /// Number of the agent's other schedules. The count stops at the maximum number of schedules of
    /// one agent.
    pub others: u64,
    /// Whether the schedule is new.
    pub made: bool,
    /// The written schedule; `None` if nothing was written.
    pub schedule: Option<Schedule>,
}

/// The schedules found for an agent.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Schedules {
    /// Whether the agent exists.
    pub agent: bool,
    /// The database's time, in milliseconds since 1970.
    pub now_ms: u64,
    /// The requested schedules, in the order of their names.
    pub schedules: Vec<Schedule>,
}

/// A tick that is due.
#[derive(Clone, Debug, Deserialize)]
pub struct DueTick {
    /// Key of the agent's core.
    pub agent_id: String,
    /// Tenant of the agent.
    pub tenant: String,
    /// Name of the schedule.
    pub name: String,
    /// When the tick is due, in milliseconds since 1970.
    pub due_ms: u64,
    /// Number of failed attempts to fire this tick.
    pub failures: u64,
}

/// A schedule's run that no server is working on.
#[derive(Clone, Debug, Deserialize)]
pub struct CutRun {
    /// Key of the agent's core.
    pub agent_id: String,
    /// Tenant of the agent.
    pub tenant: String,
    /// Name of the schedule.
    pub name: String,
    /// The run in progress, as the schedule records it.
    pub running: TickRun,
}

/// The ticks and runs that servers must process.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DueTicks {
    /// The database's time, in milliseconds since 1970.
    pub now_ms: u64,
    /// Ticks that are due.
    pub due: Vec<DueTick>,
    /// Runs that no server is working on.
    pub cut: Vec<CutRun>,
}

/// A repeating schedule whose next tick is too far ahead.
#[derive(Clone, Debug, Deserialize)]
pub struct AheadTick {
    /// Key of the agent's core.
    pub agent_id: String,
    /// Tenant of the agent.
    pub tenant: String,
    /// Name of the schedule.
    pub name: String,
    /// When the next tick is due, in milliseconds since 1970.
    pub due_ms: u64,
    /// Interval of the schedule, in milliseconds.
    pub every_ms: u64,
}

/// The repeating schedules whose next ticks are too far ahead.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct AheadTicks {
    /// The database's time, in milliseconds since 1970.
    pub now_ms: u64,
    /// The schedules.
    pub ahead: Vec<AheadTick>,
}

/// Creates a schedule, or changes the one with the same name.
pub async fn put_schedule(rw: &Rw, scope: &Scope, schedule: &Schedule) -> Result<ScheduleOutcome> {
    #[derive(Deserialize)]
    struct Row {
        #[serde(flatten)]
        outcome: ScheduleOutcome,
        rows: Vec<Touched>,
    }
    let mut row = json!(schedule);
    row["salt"] = salt();
    let binds = binds!(scope;
        name = schedule.name, every_ms = schedule.every_ms, at_ms = schedule.at_ms, schedule = row,
        most = SCHEDULES_PER_AGENT_MAX, sync = rw.sync
    );
    let work = Beside { what: "schedule", writes: &WRITES, query: PUT, binds };
    beside(rw, scope, work, |rows: Vec<Row>, written| {
        let row = must(rows.into_iter().next(), PUT)?;
        written.touched(row.rows)?;
        Ok(row.outcome)
    })
    .await
}

/// Returns all schedules of an agent.
pub async fn schedules(ro: &Ro, scope: &Scope) -> Result<Schedules> {
    let limit = 2 * SCHEDULES_PER_AGENT_MAX;
    Ok(ro.row(LIST, binds!(scope; limit)).await?.unwrap_or_default())
}

/// Returns one schedule of an agent.
pub async fn schedule(ro: &Ro, scope: &Scope, name: &str) -> Result<Schedules> {
    Ok(ro.row(LOAD, binds!(scope; name)).await?.unwrap_or_default())
}

/// Returns one schedule of an agent, in the form in which the `step` function of a tool receives
/// schedules.
pub async fn looked_at(ro: &Ro, scope: &Scope, name: &str) -> Result<ScheduleSeen> {
    let found = schedule(ro, scope, name).await?;
    Ok(ScheduleSeen { now_ms: found.now_ms, schedule: found.schedules.into_iter().next() })
}

/// Removes a schedule. Returns `false` if it does not exist.
pub async fn remove_schedule(rw: &Rw, scope: &Scope, name: &str) -> Result<bool> {
    changed(rw, scope, REMOVE, binds!(scope; name, sync = rw.sync)).await
}

/// Returns due ticks and abandoned runs, the oldest first.
pub async fn due_ticks(ro: &Ro, limit: u64) -> Result<DueTicks> {
    Ok(ro.row(DUE, binds!(none; limit, lease_ms = TICK_RUN_LEASE_MS)).await?.unwrap_or_default())
}

/// Returns repeating schedules whose next tick is further ahead than their interval and `wait_ms`.
pub async fn ticks_ahead(ro: &Ro, wait_ms: u64, limit: u64) -> Result<AheadTicks> {
    Ok(ro.row(AHEAD, binds!(none; wait_ms, limit)).await?.unwrap_or_default())
}

/// Advances a schedule to its next tick, inside a running transaction. Returns `false` if the
/// schedule has moved on to another tick or was removed.
pub(super) async fn fire(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    fired: &TickResult,
    written: &mut Written<'_>,
) -> Result<bool> {
    let binds = binds!(scope;
        name = fired.name, due_ms = fired.due_ms, next_ms = fired.next_ms,
        missed = fired.last.missed, last = fired.last, running = fired.running, sync = rw.sync
    );
    let rows: Vec<Touched> = stream.rows(FIRED, binds).await?;
    let is_fired = !rows.is_empty();
    written.touched(rows)?;
    Ok(is_fired)
}

/// Gives a schedule another next tick in place of the one at `due_ms`.
pub async fn skip_tick(
    rw: &Rw,
    scope: &Scope,
    name: &str,
    due_ms: u64,
    next_ms: Option<u64>,
) -> Result<()> {
    changed(rw, scope, SKIP, binds!(scope; name, due_ms, next_ms, sync = rw.sync)).await.map(drop)
}

/// Postpones a tick that could not be fired.
pub async fn postpone_tick(rw: &Rw, scope: &Scope, tick: &DueTick, wait_ms: u64) -> Result<()> {
    let binds = binds!(scope; name = tick.name, due_ms = tick.due_ms, wait_ms, sync = false);
    changed(rw, scope, POSTPONE, binds).await.map(drop)
}

/// Takes or renews the lease of a run. Returns `false` while another server holds it. If two
/// servers try at the same time, one of them succeeds.
pub async fn claim_run(
    rw: &Rw,
    scope: &Scope,
    run: &CutRun,
    owner: &str,
    lease_ms: u64,
) -> Result<bool> {
    let binds = binds!(scope;
        name = run.name, run = run.running.key, owner, lease_ms, sync = false
    );
    changed(rw, scope, CLAIM, binds).await
}

/// Records the end of a run.
pub async fn end_run(rw: &Rw, scope: &Scope, run: &CutRun) -> Result<()> {
    let binds = binds!(scope; name = run.name, run = run.running.key, sync = rw.sync);
    changed(rw, scope, END_RUN, binds).await.map(drop)
}

/// Runs a query that changes at most one schedule. Returns whether it changed one.
async fn changed(rw: &Rw, scope: &Scope, query: Query, binds: Binds) -> Result<bool> {
    let work = Beside { what: "schedule", writes: &WRITES, query, binds };
    beside(rw, scope, work, |rows: Vec<Touched>, written| {
        let any = !rows.is_empty();
        written.touched(rows)?;
        Ok(any)
    })
    .await
}
