//! Takes texts away whose time is over by the policy of retention, behind the ttl index of recall storage.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use super::runner::Job;
use crate::executor::Executor;
use vctx_core::error::{Code, Result};
use vctx_core::limits::{EXPIRE_AGENTS_LOOKED, EXPIRE_BATCHES_MAX, EXPIRE_PAUSE_MS};
use vctx_core::policy::Actor;

/// The job. Every server runs it; of several, one takes a text away and the others find it gone.
pub struct Expiry {
    executor: Arc<Executor>,
    /// The server itself, as the rows of events name it.
    actor: Actor,
    /// Agents up to this key were looked at in this round.
    after: Mutex<String>,
}

impl Expiry {
    /// A job of this server.
    pub fn new(executor: Arc<Executor>, actor: Actor) -> Self {
        Self { executor, actor, after: Mutex::default() }
    }
}

impl Job for Expiry {
    const NAME: &'static str = "retention";
    const PAUSE: Duration = Duration::from_millis(EXPIRE_PAUSE_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let mut after = self.after.lock().await;
        let mut stop = stopping.clone();
        let looked = tokio::select! {
            looked = self.executor.due_agents(&after) => looked?,
            // A dropped sender means that the program ends. What was only read may be cut off.
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
        };
        let last_page = (looked.len() as u64) < EXPIRE_AGENTS_LOOKED;
        // One agent that cannot be written does not keep those behind it from their turn.
        let mut first_fault = Ok(());
        for agent in looked {
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
                    // The agent is busy with other writes: its turn comes again.
                    Err(error)
                        if matches!(
                            error.code,
                            Code::Conflict | Code::Overloaded | Code::AgentMoving
                        ) =>
                    {
                        break;
                    }
                    Err(error) => {
                        first_fault = first_fault.and(Err(error));
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
