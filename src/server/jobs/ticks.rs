//! Fires schedules whose moment has come, and lets their agents run.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use super::runner::Job;
use crate::dispatch::Runner;
use crate::executor::{CutRun, DueTick, Executor};
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{
    TICK_LOOK_MS, TICK_RUN_LATE_MS_MAX, TICK_RUN_LEASE_MS, TICK_RUNS_MAX, TICKS_AT_ONCE,
    TICKS_LOOKED,
};
use vctx_core::policy::Actor;

/// The job. Every server runs it; of several, one fires a moment and the others find it fired.
pub struct Ticks {
    executor: Arc<Executor>,
    /// The server itself, as the rows of events name it.
    actor: Actor,
    /// Who runs agents; none where no model is configured.
    runner: Option<Arc<dyn Runner>>,
    /// Runs that go on while the job looks for more.
    runs: Mutex<JoinSet<()>>,
}

impl Ticks {
    /// A job of this server.
    pub fn new(executor: Arc<Executor>, actor: Actor, runner: Option<Arc<dyn Runner>>) -> Self {
        Self { executor, actor, runner, runs: Mutex::default() }
    }

    /// Fires what is due, several agents at a time. One that cannot be written waits, and keeps nobody behind it.
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

    /// Goes on with runs that nobody has. Without a runner they wait for a server that has one, up to a bound.
    async fn run_cut(&self, cut: Vec<CutRun>, now_ms: u64) -> Result<()> {
        let mut runs = self.runs.lock().await;
        while runs.try_join_next().is_some() {}
        for run in cut {
            let Some(runner) = &self.runner else {
                if now_ms.saturating_sub(run.running.since_ms) > TICK_RUN_LATE_MS_MAX {
                    count("unrun");
                    self.executor.settle_run(&run, &self.actor).await?;
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
            runs.spawn(async move { run_one(&executor, &actor, &*runner, &run).await });
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
        // Another server was faster, or it was changed or taken away.
        Ok(None) => Ok(()),
        Err(error) => {
            count("failed");
            executor.postpone(tick, actor).await?;
            // A full window or a busy agent is that agent's affair; a database that is away is the job's.
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

/// One run to its end, with the claim renewed while it goes on. What passes is left to the next look, after the claim.
async fn run_one(executor: &Executor, actor: &Actor, runner: &dyn Runner, run: &CutRun) {
    let (principal, agent) = run.whose(actor);
    let work = runner.tick(&principal, &agent, run.running.seq, &run.running.key);
    tokio::pin!(work);
    let mut renew = tokio::time::interval(Duration::from_millis(TICK_RUN_LEASE_MS / 3));
    let outcome = loop {
        tokio::select! {
            outcome = &mut work => break outcome,
            _ = renew.tick() => match executor.claim_run(run, actor).await {
                Ok(true) => {}
                // Another server has it: it goes on with what is written so far.
                Ok(false) => return,
                Err(error) => tracing::debug!(error = error.chain(), "a claim was not renewed"),
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
    if let Err(error) = executor.settle_run(run, actor).await {
        tracing::warn!(error = error.chain(), "the end of a tick's run was not noted");
    }
}

impl Job for Ticks {
    const NAME: &'static str = "ticks";
    const PAUSE: Duration = Duration::from_millis(TICK_LOOK_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let mut stop = stopping.clone();
        let found = tokio::select! {
            found = self.executor.due_ticks(TICKS_LOOKED) => found?,
            // A dropped sender means that the program ends. What was only read may be cut off.
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
        };
        let fired = self.fire(found.due, stopping).await;
        if *stopping.borrow() {
            return fired;
        }
        fired.and(self.run_cut(found.cut, found.now_ms).await)
    }
}
