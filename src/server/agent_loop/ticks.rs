//! Runs that a schedule causes: nobody listens, and the event stands in the queue already.

use async_trait::async_trait;
use serde_json::Map;
use tokio::sync::mpsc;

use super::processor::Processor;
use super::request::RunRequest;
use crate::dispatch::Runner;
use vctx_core::error::Result;
use vctx_core::limits::RUN_EVENTS_WAITING;
use vctx_core::policy::Principal;
use vctx_core::policy::turn::Beat;

#[async_trait]
impl Runner for Processor {
    async fn tick(
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
            client_tools: Vec::new(),
            options: Map::new(),
            beat: Beat::default(),
            tools: None,
        };
        let (events, mut told) = mpsc::channel(RUN_EVENTS_WAITING);
        let listen = async { while told.recv().await.is_some() {} };
        let (end, ()) = tokio::join!(self.run(request, events), listen);
        let end = end?;
        tracing::debug!(agent, event_seq, turns = end.turns, "the run of a tick ended");
        Ok(())
    }
}
