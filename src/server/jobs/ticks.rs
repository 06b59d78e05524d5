//! Fires the due ticks of schedules, and runs the agents for which the schedules request a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use super::runner::{Job, unless_stopping};
use crate::agent_loop::Processor;
use crate::executor::{CutRun, DueTick, Executor};
use crate::limits::{TICK_RUN_LEASE_MS, TICKS_LOOKED};
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::trust::Actor;

/// Pause between two searches for due schedules, in milliseconds.
const TICK_LOOK_MS: u64 = 500;
/// Number of searches for due schedules after which the job searches for schedules whose next tick
/// is too far ahead: about five minutes.
const AHEAD_ROUNDS: u64 = 600;
/// Maximum number of agents whose ticks are fired at the same time.
const TICKS_AT_ONCE: usize = 8;
/// Maximum number of concurrent scheduled runs on one server; more runs must wait.
const TICK_RUNS_MAX: usize = 8;
/// Longest time that a scheduled run waits for a server with a model, in milliseconds; after this
/// time the run is given up.
const TICK_RUN_LATE_MS_MAX: u64 = 3_600_000;

/// The job that fires schedules. Every server runs it; a tick that one server has fired is skipped
/// by the others.
pub struct Ticks {
    executor: Arc<Executor>,
    /// The actor that the job's events name: this server.
    actor: Actor,
    /// The agent loop that runs the agents; `None` if no model is configured.
    runner: Option<Arc<Processor>>,
    /// The scheduled runs in progress; they continue while the job searches for more.
    runs: Mutex<JoinSet<()>>,
    /// Number of searches so far.
    rounds: AtomicU64,
}

impl Ticks {
    /// Makes the schedules job for this server.
    pub fn new(executor: Arc<Executor>, actor: Actor, runner: Option<Arc<Processor>>) -> Self {
        Self { executor, actor, runner, runs: Mutex::default(), rounds: AtomicU64::new(0) }
    }

    /// Fires the due ticks of several agents at a time. An agent to which no event can be written
    /// does not delay the other agents.
    async fn fire(&self, due: Vec<DueTick>, stopping: &watch::Receiver<bool>) -> Result<()> {
        let mut first_fault = Ok(());
        let mut firing = JoinSet::new();
        for tick in due {
            if *stopping.borrow() {
                break;
            }
            if firing.len() >= TICKS_AT_ONCE {
                first_fault = first_fault.and(ended(firing.join_next().await));
            }
            let (executor, actor) = (Arc::clone(&self.executor), self.actor.clone());
            firing.spawn(async move { fire_one(&executor, &actor, &tick).await });
        }
        while let Some(done) = firing.join_next().await {
            first_fault = first_fault.and(ended(Some(done)));
        }
        first_fault
    }

    /// Continues the scheduled runs that no server is working on. Without a configured model, these
    /// runs wait for a server with a model, up to a time limit.
    async fn run_cut(&self, cut: Vec<CutRun>, now_ms: u64) -> Result<()> {
        let mut runs = self.runs.lock().await;
        while runs.try_join_next().is_some() {}
        for run in cut {
            let Some(runner) = &self.runner else {
                if now_ms.saturating_sub(run.running.since_ms) > TICK_RUN_LATE_MS_MAX {
                    count("unrun");
                    self.executor.end_run(&run, &self.actor).await?;
                }
                continue;
            };
            if runs.len() >= TICK_RUNS_MAX {
                break;
            }
            if !self.executor.claim_run(&run, &self.actor).await? {
                continue;
            }
            let (executor, actor) = (Arc::clone(&self.executor), self.actor.clone());
            let runner = Arc::clone(runner);
            runs.spawn(async move { Box::pin(run_one(&executor, &actor, &runner, &run)).await });
        }
        Ok(())
    }
}

fn ended(done: Option<std::result::Result<Result<()>, tokio::task::JoinError>>) -> Result<()> {
    match done {
        None => Ok(()),
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) => Err(Error::new(Code::Internal, "a tick stopped").caused_by(error)),
    }
}

fn count(outcome: &'static str) {
    metrics::counter!(metric::TICKS, "outcome" => outcome).increment(1);
}

async fn fire_one(executor: &Executor, actor: &Actor, tick: &DueTick) -> Result<()> {
    match executor.fire(tick, actor).await {
        Ok(Some(missed)) => {
            count("fired");
            metrics::counter!(metric::TICKS_MISSED).increment(missed);
            Ok(())
        }
        // Another server has fired the tick, or the schedule was changed or removed.
        Ok(None) => Ok(()),
        Err(error) => {
            count("failed");
            executor.postpone(tick, actor).await?;
            // A full window or a busy agent affects only that agent; if the database does not
            // answer, the whole round fails.
            if error.code.status() < 500
                || matches!(error.code, Code::Overloaded | Code::AgentMoving)
            {
                tracing::debug!(code = error.code.text(), "a tick waits");
                return Ok(());
            }
            Err(error)
        }
    }
}

/// Completes one scheduled run, and renews its lease meanwhile. After a temporary error, the server
/// that takes the lease next continues the run.
async fn run_one(executor: &Executor, actor: &Actor, runner: &Processor, run: &CutRun) {
    let (principal, agent) = run.whose(actor);
    let work = runner.tick(&principal, &agent, run.running.seq, &run.running.key);
    tokio::pin!(work);
    let mut renew = tokio::time::interval(Duration::from_millis(TICK_RUN_LEASE_MS / 3));
    let outcome = loop {
        tokio::select! {
            outcome = &mut work => break outcome,
            _ = renew.tick() => match executor.claim_run(run, actor).await {
                Ok(true) => {}
                // Another server has taken the lease, and continues the run.
                Ok(false) => return,
                Err(error) => tracing::debug!(error = error.chain(), "a run's lease was not renewed"),
            },
        }
    };
    if let Err(error) = outcome {
        let passing = matches!(error.code.status(), 409 | 429 | 500..=599);
        tracing::warn!(
            code = error.code.text(),
            error = error.chain(),
            passing,
            "the run of a tick failed"
        );
        count("run_failed");
        if passing {
            return;
        }
    }
    if let Err(error) = executor.end_run(run, actor).await {
        tracing::warn!(error = error.chain(), "the end of a tick's run was not recorded");
    }
}

impl Job for Ticks {
    const NAME: &'static str = "ticks";
    const PAUSE: Duration = Duration::from_millis(TICK_LOOK_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        if self.rounds.fetch_add(1, Ordering::Relaxed).is_multiple_of(AHEAD_ROUNDS) {
            let restarting = self.executor.restart_ahead(&self.actor, TICKS_LOOKED);
            let restarted = unless_stopping(stopping, restarting).await?.unwrap_or_default();
            if restarted > 0 {
                tracing::warn!(restarted, "schedules were far ahead, because a clock was wrong");
            }
        }
        let found = unless_stopping(stopping, self.executor.due_ticks(TICKS_LOOKED)).await?;
        let Some(found) = found else { return Ok(()) };
        let fired = self.fire(found.due, stopping).await;
        if *stopping.borrow() {
            return fired;
        }
        fired.and(self.run_cut(found.cut, found.now_ms).await)
    }
}
