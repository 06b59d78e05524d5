//! Sends the checkpoints to the witness.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::runner::{Job, unless_stopping};
use crate::checkpoints::Checkpoints;
use vctx_core::error::{Code, Error, Result};

/// Pause between two looks for new checkpoints, in milliseconds.
const WITNESS_LOOK_MS: u64 = 250;

/// The job that sends the checkpoints of a server to its witness.
pub struct Witnessing {
    checkpoints: Arc<Checkpoints>,
}

impl Witnessing {
    /// Makes the job for one server.
    pub fn new(checkpoints: Arc<Checkpoints>) -> Self {
        Self { checkpoints }
    }
}

impl Job for Witnessing {
    const NAME: &'static str = "witnessing";
    const PAUSE: Duration = Duration::from_millis(WITNESS_LOOK_MS);

    async fn run(&self, stopping: &watch::Receiver<bool>) -> Result<()> {
        let asked = async {
            self.checkpoints.ask_witness().await.map_err(|error| {
                let text = "cannot read the checkpoints: check the server's data directory";
                Error::new(Code::Internal, text).caused_by(error)
            })
        };
        unless_stopping(stopping, asked).await.map(drop)
    }
}
