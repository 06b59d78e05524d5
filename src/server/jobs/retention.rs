//! Removes texts that are older than the retention policy allows.
//!
//! A TTL index removes the old entries of recall storage. After an entry's removal, the job also
//! removes the message's text from the agent's log.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use super::runner::{Job, busy, unless_stopping};
use crate::executor::Executor;
use crate::limits::EXPIRE_AGENTS_LOOKED;
use vctx_core::error::Result;
use vctx_core::trust::Actor;

/// Pause between two rounds of the retention job, in milliseconds.
const EXPIRE_PAUSE_MS: u64 = 5_000;
/// Maximum number of writes to one agent in one round of the retention job; the next round
/// continues.
const EXPIRE_BATCHES_MAX: usize = 16;

/// The retention job. Every server runs it; a text that one server has removed is no longer due for
/// the others.
pub struct Expiry {
    executor: Arc<Executor>,
    /// The actor that the job's events name: this server.
    actor: Actor,
    /// Key of the last agent examined in the current pass over all agents.
    after: Mutex<String>,
}

impl Expiry {
    /// Makes this server's retention job.
    pub fn new(executor: Arc<Executor>, actor: Actor) -> Self {
        Self { executor, actor, after: Mutex::default() }
    }
}

impl Job for Expiry {
    const NAME: &'static str = "retention";
    const PAUSE: Duration = Duration::from_millis(EXPIRE_PAUSE_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let mut after = self.after.lock().await;
        let page = unless_stopping(stopping, self.executor.due_agents(&after)).await?;
        let Some(page) = page else { return Ok(()) };
        let last_page = (page.len() as u64) < EXPIRE_AGENTS_LOOKED;
        // If one agent cannot be written, the job still continues with the next agents.
        let mut first_fault = Ok(());
        for agent in page {
            for _ in 0..EXPIRE_BATCHES_MAX {
                if *stopping.borrow() {
                    return first_fault;
                }
                if !agent.due {
                    break;
                }
                match self.executor.expire(&agent, &self.actor).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        first_fault = first_fault.and(busy(error));
                        break;
                    }
                }
            }
            *after = agent.key;
        }
        if last_page {
            after.clear();
        }
        first_fault
    }
}
