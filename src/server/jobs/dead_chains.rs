//! Closes chains of heartbeats that nobody went on with: their runtime or their server died.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::runner::Job;
use crate::executor::Executor;
use vctx_core::error::{Code, Result};
use vctx_core::limits::{SWEEP_CHAINS_MAX, SWEEP_MS};
use vctx_core::policy::Actor;

/// The job. Every server runs it; of several, one closes a chain and the others find it closed.
pub struct DeadChains {
    executor: Arc<Executor>,
    /// The server itself, as the rows of events name it.
    actor: Actor,
}

impl DeadChains {
    /// A job of this server.
    pub fn new(executor: Arc<Executor>, actor: Actor) -> Self {
        Self { executor, actor }
    }
}

impl Job for DeadChains {
    const NAME: &'static str = "dead_chains";
    const PAUSE: Duration = Duration::from_millis(SWEEP_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let mut stop = stopping.clone();
        let found = tokio::select! {
            found = self.executor.dead_chains(SWEEP_CHAINS_MAX) => found?,
            // A dropped sender means that the program ends. What was only read may be cut off.
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
        };
        // One agent whose chain cannot be closed does not keep those behind it open.
        let mut first_fault = Ok(());
        for dead in found {
            if *stopping.borrow() {
                break;
            }
            match self.executor.bury(&dead, &self.actor).await {
                Ok(_) => {}
                // The agent is busy with other writes, and the first of those has closed the chain.
                Err(error)
                    if matches!(
                        error.code,
                        Code::Conflict | Code::Overloaded | Code::AgentMoving
                    ) => {}
                Err(error) => first_fault = first_fault.and(Err(error)),
            }
        }
        first_fault
    }
}
