//! Ends runs whose lease nobody renewed: their server died, and so far nobody went on with them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::runner::Job;
use crate::executor::Executor;
use vctx_core::error::{Code, Result};
use vctx_core::limits::SWEEP_MS;
use vctx_core::policy::Actor;

/// The job. Every server runs it; of several, one ends a run and the others find it ended.
pub struct DeadRuns {
    executor: Arc<Executor>,
    /// The server itself, as the rows of events name it.
    actor: Actor,
}

impl DeadRuns {
    /// A job of this server.
    pub fn new(executor: Arc<Executor>, actor: Actor) -> Self {
        Self { executor, actor }
    }
}

impl Job for DeadRuns {
    const NAME: &'static str = "dead_runs";
    const PAUSE: Duration = Duration::from_millis(SWEEP_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let mut stop = stopping.clone();
        let found = tokio::select! {
            found = self.executor.expired_runs() => found?,
            // A dropped sender means that the program ends. What was only read may be cut off.
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
        };
        // One agent whose run cannot be ended does not keep those behind it waiting.
        let mut first_fault = Ok(());
        for dead in found {
            if *stopping.borrow() {
                break;
            }
            match self.executor.end_expired(&dead, &self.actor).await {
                Ok(_) => {}
                // The agent is busy with other writes: somebody goes on with it.
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
