//! Starts runs for schedule ticks: the tick's event is already in the queue, and no caller waits
//! for the result.

use serde_json::Map;
use tokio::sync::mpsc;

use super::processor::Processor;
use super::request::RunRequest;
use crate::limits::RUN_EVENTS_WAITING;
use vctx_core::error::Result;
use vctx_core::memory::Labels;
use vctx_core::policy::turn::Beat;
use vctx_core::trust::Principal;

impl Processor {
    /// Runs an agent's model from a tick's event until the model yields. The event is the message
    /// `event_seq` of the agent's queue. `key` is the idempotency key of the run: an interrupted
    /// run continues under the same key, on any server.
    ///
    /// # Errors
    ///
    /// After a temporary error (status 409, 429 or 5xx), another attempt with the same key
    /// continues the run; any other error ends the run.
    pub async fn tick(
        &self,
        principal: &Principal,
        agent: &str,
        event_seq: u64,
        key: &str,
    ) -> Result<()> {
        let request = RunRequest {
            principal: principal.clone(),
            agent: agent.to_owned(),
            key: key.to_owned(),
            input: Vec::new(),
            labels: Labels::default(),
            client_tools: Vec::new(),
            options: Map::new(),
            beat: Beat::default(),
            engineer: None,
            tools: None,
            is_read: false,
        };
        let (events, mut told) = mpsc::channel(RUN_EVENTS_WAITING);
        let listen = async { while told.recv().await.is_some() {} };
        let (end, ()) = tokio::join!(self.run(request, events), listen);
        tracing::debug!(agent, event_seq, turns = end?.turns, "the run of a tick ended");
        Ok(())
    }
}
