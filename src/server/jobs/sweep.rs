//! Ends chains of heartbeats past their time limit, and runs with an expired lease. A dead runtime
//! or server has left them open.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::runner::{Job, busy, unless_stopping};
use crate::executor::Executor;
use vctx_core::error::Result;
use vctx_core::trust::Actor;

/// Pause between two rounds of the job that ends abandoned chains and runs, in milliseconds.
const SWEEP_MS: u64 = 2_000;
/// Maximum number of abandoned chains of heartbeats that one round ends; the next round continues.
const SWEEP_CHAINS_MAX: u64 = 256;

/// The job that ends abandoned chains of heartbeats and runs. Every server runs it; a chain or run
/// that one server has ended is skipped by the others.
pub struct Sweep {
    executor: Arc<Executor>,
    /// The actor that the job's events name: this server.
    actor: Actor,
}

impl Sweep {
    /// Makes the sweep job for this server.
    pub fn new(executor: Arc<Executor>, actor: Actor) -> Self {
        Self { executor, actor }
    }

    async fn chains(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let dead = unless_stopping(stopping, self.executor.dead_chains(SWEEP_CHAINS_MAX)).await?;
        // If one agent's chain cannot be ended, the job still continues with the next agents.
        let mut first_fault = Ok(());
        for dead in dead.unwrap_or_default() {
            if *stopping.borrow() {
                break;
            }
            // If the agent is busy, this attempt fails without harm: the write that keeps the agent
            // busy also ends the chain.
            let buried = self.executor.bury(&dead, &self.actor).await;
            first_fault = first_fault.and(buried.map(drop).or_else(busy));
        }
        first_fault
    }

    async fn runs(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let dead = unless_stopping(stopping, self.executor.expired_runs()).await?;
        let mut first_fault = Ok(());
        for dead in dead.unwrap_or_default() {
            if *stopping.borrow() {
                break;
            }
            // If the agent is busy, this attempt fails without harm: a runtime may be continuing
            // the run.
            let ended = self.executor.end_expired(&dead, &self.actor).await;
            first_fault = first_fault.and(ended.map(drop).or_else(busy));
        }
        first_fault
    }
}

impl Job for Sweep {
    const NAME: &'static str = "sweep";
    const PAUSE: Duration = Duration::from_millis(SWEEP_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let chains = self.chains(stopping).await;
        chains.and(self.runs(stopping).await)
    }
}
