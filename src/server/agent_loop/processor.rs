//! What all runs share, and the frame of one: its lease, its end, and the same answer for the same request.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::reply;
use super::request::{RunEnd, RunEvent, RunRequest};
use super::walk::Walk;
use crate::executor::{CallRequest, Executor, Guard};
use crate::models::chat::ChatModel;
use vctx_base::clock;
use vctx_core::dialect::{Dialect, Translated};
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{RUN_LEASE_MS, RUN_WAIT_MS};
use vctx_core::memory::capture::Capture;
use vctx_core::memory::run::RunReason;
use vctx_core::tools::{Call, EndRun, HoldRun};

/// How runs are driven.
#[derive(Clone, Debug)]
pub struct ProcessorSettings {
    /// Most tokens of one answer.
    pub max_tokens: u64,
    /// Name of the field that carries them.
    pub max_tokens_field: String,
    /// Tools that are offered, by name or `all`; empty: those of the dialect for a chat.
    pub tools: Vec<String>,
    /// Names under which they are offered.
    pub dialect: Dialect,
    /// Whether their schemas are strict.
    pub strict: bool,
}

/// The lease of a run.
pub(super) fn lease(request: &RunRequest, owner: &str) -> HoldRun {
    HoldRun { run: request.key.clone(), owner: owner.to_owned(), lease_ms: RUN_LEASE_MS }
}

/// Drives models through runs; shared by all connections.
pub struct Processor {
    pub(super) executor: Arc<Executor>,
    pub(super) model: Option<Arc<dyn ChatModel>>,
    pub(super) settings: ProcessorSettings,
}

impl Processor {
    /// A processor; without a model every run is refused.
    pub fn new(
        executor: Arc<Executor>,
        model: Option<Arc<dyn ChatModel>>,
        settings: ProcessorSettings,
    ) -> Self {
        Self { executor, model, settings }
    }

    /// Name of the configured model, if there is one.
    pub fn model_name(&self) -> Option<&str> {
        self.model.as_deref().map(ChatModel::model)
    }

    /// Runs from an event until the model yields. The same request, on whatever server, goes on where the run stands and ends the same
    /// way. A receiver of `events` that is dropped cancels: calls of the last answer are made, the chain ends, and the agent is free.
    pub async fn run(&self, request: RunRequest, events: mpsc::Sender<RunEvent>) -> Result<RunEnd> {
        request.check()?;
        if let Some(end) = self.ended(&request).await? {
            return Ok(end);
        }
        let Some(model) = &self.model else {
            return Err(Error::new(
                Code::ModelUnavailable,
                "no chat model is configured: set [chat] in the configuration",
            ));
        };
        let owner = self.executor.fresh_id();
        if let Some(end) = self.begin(&request, &owner, &events).await? {
            return Ok(end);
        }
        let mut walk = Walk::new(self, &**model, &request, &owner, &events);
        match walk.go().await {
            Ok(reason) => {
                let end = walk.end(reason);
                self.close(&request, &owner, &end).await?;
                Ok(end)
            }
            Err(error) => {
                // What is written stands, and the same request goes on from there; only the agent must not wait for it.
                let end = walk.end(RunReason::Cancelled);
                if let Err(fault) = self.close(&request, &owner, &end).await {
                    tracing::warn!(
                        error = fault.chain(),
                        "a run that failed holds its agent until its lease is over"
                    );
                }
                Err(error)
            }
        }
    }

    /// What the same request came to, if it ended.
    async fn ended(&self, request: &RunRequest) -> Result<Option<RunEnd>> {
        let key = request.key_of("end");
        let (_, answer) = self.executor.peek(&request.principal, &request.agent, &key).await?;
        match answer {
            Some(answer) => reply::again(&self.executor, request, &answer).await.map(Some),
            None => Ok(None),
        }
    }

    /// Takes the lease, waiting while another run holds it; that run may be this very one on another server, and end meanwhile.
    async fn begin(
        &self,
        request: &RunRequest,
        owner: &str,
        events: &mpsc::Sender<RunEvent>,
    ) -> Result<Option<RunEnd>> {
        let (longest, look) = RUN_WAIT_MS;
        let until = clock::now() + Duration::from_millis(longest);
        let mut told = false;
        loop {
            let busy = match self.hold(request, owner).await {
                Ok(()) => break,
                Err(error) if error.code == Code::RunBusy => error,
                Err(error) => return Err(error),
            };
            if clock::now() > until || events.is_closed() {
                return Err(busy);
            }
            if !told {
                let ms = busy.fields.get("retry_after_ms").and_then(Value::as_u64).unwrap_or(look);
                // Whoever does not listen is noticed above.
                drop(events.try_send(RunEvent::Waiting { ms, why: "another_run".into() }));
                told = true;
            }
            tokio::time::sleep(Duration::from_millis(look)).await;
            if let Some(end) = self.ended(request).await? {
                return Ok(Some(end));
            }
        }
        if !told {
            return Ok(None);
        }
        // It may have ended between the last look and the lease.
        let end = self.ended(request).await?;
        if let Some(end) = &end {
            self.close(request, owner, &RunEnd { reason: RunReason::Cancelled, ..end.clone() })
                .await?;
        }
        Ok(end)
    }

    /// Takes or renews the lease.
    pub(super) async fn hold(&self, request: &RunRequest, owner: &str) -> Result<()> {
        let hold = lease(request, owner);
        self.call(request, Call::HoldRun(hold), Map::new(), None).await.map(drop)
    }

    /// Gives the agent back. An end that the same request is to find again is kept under its key.
    async fn close(&self, request: &RunRequest, owner: &str, end: &RunEnd) -> Result<()> {
        let told = reply::kept(end);
        // A model that failed may answer when the same request comes again.
        let lasting = !matches!(end.reason, RunReason::Cancelled | RunReason::ModelFailed);
        let arguments = Map::from_iter([("told".to_owned(), json!(told))]);
        let call = EndRun {
            run: request.key.clone(),
            owner: Some(owner.to_owned()),
            reason: end.reason,
            told,
        };
        let key = lasting.then(|| request.key_of("end"));
        self.call(request, Call::EndRun(Box::new(call)), arguments, key).await.map(drop)
    }

    /// A call for the run, on any revision.
    pub(super) async fn call(
        &self,
        request: &RunRequest,
        call: Call,
        arguments: Map<String, Value>,
        key: Option<String>,
    ) -> Result<Value> {
        self.captured(request, call.into(), arguments, key, None, Guard::Any).await
    }

    /// The same for a call in other words that builds on something, with the result appended as a tool's message in the transaction of its effect.
    pub(super) async fn captured(
        &self,
        request: &RunRequest,
        asked: Translated,
        arguments: Map<String, Value>,
        key: Option<String>,
        capture: Option<Capture>,
        guard: Guard,
    ) -> Result<Value> {
        let request = CallRequest {
            principal: request.principal.clone(),
            agent: request.agent.clone(),
            call: asked.call,
            arguments,
            key,
            guard: Some(guard),
            wording: asked.wording,
            capture,
        };
        self.executor.call(&request).await.map(|reply| reply.body)
    }
}
