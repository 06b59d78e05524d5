//! Carries out a requested reindex of the archive, while searches use the current vectors.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::runner::Job;
use crate::executor::{Executor, Reindexed};
use vctx_base::clock;
use vctx_core::error::Result;
use vctx_core::trust::Actor;

/// Pause between two rounds of the reindexing job, in milliseconds.
const REINDEX_PAUSE_MS: u64 = 1_000;
/// Time after which a round of the job starts work on no further document, in milliseconds; well
/// below `JOB_MS_MAX`.
const REINDEX_MS: u64 = 10_000;

/// The reindexing job. Every server runs it, so that the servers divide the documents among
/// themselves. A vector is the same, whichever server computes it.
pub struct Reindex {
    executor: Arc<Executor>,
    /// The actor that the job's events name: this server.
    actor: Actor,
}

impl Reindex {
    /// Makes this server's reindexing job.
    pub fn new(executor: Arc<Executor>, actor: Actor) -> Self {
        Self { executor, actor }
    }
}

impl Job for Reindex {
    const NAME: &'static str = "reindex";
    const PAUSE: Duration = Duration::from_millis(REINDEX_PAUSE_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let until = clock::now() + Duration::from_millis(REINDEX_MS);
        let mut stop = stopping.clone();
        let reindex = self.executor.reindex();
        loop {
            let worked = tokio::select! {
                worked = reindex.work(&self.actor, until) => worked?,
                // An interruption is harmless: every write is atomic, and the next round finds the
                // documents that still lack vectors.
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            };
            if worked == Reindexed::Rests || clock::now() >= until {
                return Ok(());
            }
        }
    }
}
