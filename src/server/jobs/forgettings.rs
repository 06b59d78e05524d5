//! Goes on with forgettings whose server died in the middle.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::runner::Job;
use crate::executor::Executor;
use vctx_core::error::{Code, Result};
use vctx_core::limits::FORGET_PAUSE_MS;
use vctx_core::policy::Actor;

/// The job. Every server runs it; of several, one does a step and the others find it done.
pub struct Forgettings {
    executor: Arc<Executor>,
    /// The server itself, as the rows of events name it.
    actor: Actor,
}

impl Forgettings {
    /// A job of this server.
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
            match self.executor.take_up_forgetting(&due, &self.actor).await {
                // The agent is busy, or goes whole: its turn comes again, or never.
                Err(error)
                    if matches!(
                        error.code,
                        Code::Conflict | Code::Overloaded | Code::AgentMoving | Code::AgentNotFound
                    ) => {}
                other => first_fault = first_fault.and(other),
            }
        }
        first_fault
    }
}
