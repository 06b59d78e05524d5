//! Changes all vectors of the archive to another setting while those of now serve, when somebody asked for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::runner::Job;
use crate::executor::{Executor, Reindexed};
use vctx_base::clock;
use vctx_core::error::Result;
use vctx_core::limits::{REINDEX_MS, REINDEX_PAUSE_MS};
use vctx_core::policy::Actor;

/// The job. Every server runs it: of two, each finds less to do, and vectors that both make are the same.
pub struct Reindex {
    executor: Arc<Executor>,
    /// The server itself.
    actor: Actor,
}

impl Reindex {
    /// A job of this server.
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
        loop {
            let worked = tokio::select! {
                worked = self.executor.reindex_work(&self.actor, until) => worked?,
                // Each write is whole, and what is missing is found again.
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            };
            if worked == Reindexed::Rests || clock::now() >= until {
                return Ok(());
            }
        }
    }
}
