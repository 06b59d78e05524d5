//! Continues forget operations that a dead server left unfinished.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::runner::{Job, busy};
use crate::executor::Executor;
use vctx_core::error::{Code, Result};
use vctx_core::trust::Actor;

/// Pause between two rounds of the job that continues forget operations, in milliseconds.
const FORGET_PAUSE_MS: u64 = 5_000;

/// The job that continues forget operations. Every server runs it; if one server has done a step,
/// the others find it done.
pub struct Forgettings {
    executor: Arc<Executor>,
    /// The actor that the job's events name: this server.
    actor: Actor,
}

impl Forgettings {
    /// Makes this server's job for forget operations.
    pub fn new(executor: Arc<Executor>, actor: Actor) -> Self {
        Self { executor, actor }
    }
}

impl Job for Forgettings {
    const NAME: &'static str = "forgettings";
    const PAUSE: Duration = Duration::from_millis(FORGET_PAUSE_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let mut first_fault = Ok(());
        for due in self.executor.due_forgettings().await? {
            if *stopping.borrow() {
                break;
            }
            let step = self.executor.take_up_forgetting(&due, &self.actor).await;
            first_fault = first_fault.and(match step {
                // The agent was already forgotten as a whole.
                Err(error) if error.code == Code::AgentNotFound => Ok(()),
                step => step.or_else(busy),
            });
        }
        first_fault
    }
}
