//! Signs the heads of the ledgers that the server has written.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::runner::{Job, unless_stopping};
use crate::executor::Executor;
use vctx_core::error::Result;

/// Pause between two checkpoints, in milliseconds. A write is signed at most a second after it.
const CHECKPOINT_MS: u64 = 500;
/// Maximum number of steps of one round. Each step signs what the server knows, and then looks for
/// unsigned entries of some agents; the next round goes on where this one ended.
const ROUND_STEPS: usize = 20;

/// The job that signs the heads of ledgers.
pub struct Signing {
    executor: Arc<Executor>,
}

impl Signing {
    /// Makes the signing job for one database.
    pub fn new(executor: Arc<Executor>) -> Self {
        Self { executor }
    }
}

impl Job for Signing {
    const NAME: &'static str = "signing";
    const PAUSE: Duration = Duration::from_millis(CHECKPOINT_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        for _ in 0..ROUND_STEPS {
            if *stopping.borrow() || self.executor.sign_known().await? {
                break;
            }
            if unless_stopping(stopping, self.executor.search_on()).await? != Some(true) {
                break;
            }
        }
        Ok(())
    }
}
