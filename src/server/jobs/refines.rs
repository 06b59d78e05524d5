//! Lets the configured model write the summaries of evictions that did not wait for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use super::runner::Job;
use crate::executor::Executor;
use vctx_base::clock;
use vctx_core::error::Result;
use vctx_core::trust::Actor;

/// Maximum number of summaries that one server requests from the model at the same time.
const REFINES_AT_ONCE: usize = 4;
/// Time of one round of the job, in milliseconds; summaries under way continue in the next.
const REFINE_ROUND_MS: u64 = 20_000;
/// Longest wait for an eviction while all summaries under way are looked at, in milliseconds.
const REFINE_WAIT_MS: u64 = 5_000;

/// The job that asks the model. Each server asks for the evictions of its own calls; the revision
/// of the summary decides between several answers.
pub struct SummaryRefines {
    executor: Arc<Executor>,
    /// The actor that the job's events name: this server.
    actor: Actor,
    /// The summaries under way. They end with the job, because every write is atomic.
    under_way: Mutex<JoinSet<()>>,
}

impl SummaryRefines {
    /// Makes this server's job.
    pub fn new(executor: Arc<Executor>, actor: Actor) -> Self {
        Self { executor, actor, under_way: Mutex::default() }
    }
}

impl Job for SummaryRefines {
    const NAME: &'static str = "summaries";
    const PAUSE: Duration = Duration::from_millis(1);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let mut stopping = stopping.clone();
        let mut under_way = self.under_way.lock().await;
        let until = clock::now() + Duration::from_millis(REFINE_ROUND_MS);
        let wait = Duration::from_millis(REFINE_WAIT_MS);
        while clock::now() < until {
            let is_free = under_way.len() < REFINES_AT_ONCE;
            tokio::select! {
                // If the sender of the stop signal is dropped, the program is ending.
                _ = stopping.wait_for(|stop| *stop) => return Ok(()),
                Some(ended) = under_way.join_next(), if !under_way.is_empty() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "the writing of a summary stopped");
                    }
                }
                due = self.executor.due_refine(wait), if is_free => {
                    let Some(due) = due else { continue };
                    let (executor, actor) = (Arc::clone(&self.executor), self.actor.clone());
                    under_way.spawn(async move { executor.refine(due, &actor).await });
                }
                () = tokio::time::sleep(wait), if !is_free => {}
            }
        }
        Ok(())
    }
}
