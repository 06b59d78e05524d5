//! Takes and releases the lease of a run, and answers a repeated request with the stored result of
//! the run.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::reply;
use super::request::{RunEnd, RunEvent, RunRequest};
use super::toolbox::Toolbox;
use super::walk::Walk;
use crate::agent_loop::limits::RUN_LEASE_MS;
use crate::executor::{CallRequest, Executor, Guard};
use crate::limits::RUN_WAIT_MS;
use crate::models::chat::ChatModel;
use vctx_base::clock;
use vctx_core::dialect::{Dialect, Translated};
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::capture::Capture;
use vctx_core::memory::core::{Core, Offered};
use vctx_core::memory::engineer::ContextSettings;
use vctx_core::memory::run::RunReason;
use vctx_core::tools::{Call, EndRun, HoldRun};
use vctx_core::window::narrow_window;

/// Settings of the agent loop.
#[derive(Clone, Debug)]
pub struct ProcessorSettings {
    /// Maximum number of tokens of one answer.
    pub max_tokens: u64,
    /// Name of the field that limits an answer's tokens in a request to the model.
    pub max_tokens_field: String,
    /// Memory tools offered to the model, by name or `all`; if empty, the chat tools of the
    /// dialect.
    pub tools: Vec<String>,
    /// Dialect of the memory tools: the set of names and schemas that the model sees.
    pub dialect: Dialect,
    /// Whether the tool schemas are sent in strict mode.
    pub strict: bool,
    /// Settings of the contexts of prompts.
    pub context: ContextSettings,
}

/// Returns the call that takes or renews a run's lease.
pub(super) fn lease(request: &RunRequest, owner: &str) -> HoldRun {
    HoldRun {
        run: request.key.clone(),
        owner: owner.to_owned(),
        lease_ms: RUN_LEASE_MS,
        reserve: None,
        labels: request.labels.clone(),
    }
}

/// Drives models through runs; shared by all connections.
pub struct Processor {
    pub(super) executor: Arc<Executor>,
    pub(super) model: Option<Arc<dyn ChatModel>>,
    pub(super) settings: ProcessorSettings,
}

impl Processor {
    /// Makes a `Processor`, which refuses every run if no model is configured.
    pub fn new(
        executor: Arc<Executor>,
        model: Option<Arc<dyn ChatModel>>,
        settings: ProcessorSettings,
    ) -> Self {
        Self { executor, model, settings }
    }

    /// Returns the name of the configured model, if there is one.
    pub fn model_name(&self) -> Option<&str> {
        self.model.as_deref().map(ChatModel::model)
    }

    /// Runs an agent's model from an event until the yield. If the caller repeats the request, on
    /// this or another server, the run continues. If the receiver of `events` is dropped, the run
    /// is cancelled: the calls of the last answer are still made, the chain of heartbeats ends, and
    /// the run's lease on the agent is released.
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
        let toolbox = self.toolbox(&request).await?;
        if let Some(end) = self.begin(&request, &owner, &toolbox, &events).await? {
            return Ok(end);
        }
        let mut walk = Walk::new(self, &**model, &request, &owner, &events);
        match walk.go(&toolbox).await {
            Ok(reason) => {
                let end = walk.end(reason);
                self.close(&request, &owner, &end).await?;
                Ok(RunEnd { warnings: toolbox.warnings, ..end })
            }
            Err(error) => {
                // The run's recorded steps stay, so that the same request can continue the run
                // later. Until then, other runs may use the agent.
                let end = walk.end(RunReason::Cancelled);
                if let Err(fault) = self.close(&request, &owner, &end).await {
                    tracing::warn!(
                        error = fault.chain(),
                        "a failed run keeps its agent until the lease of the run expires"
                    );
                }
                Err(error)
            }
        }
    }

    /// Returns the stored result of a run of the same request, if that run has ended.
    async fn ended(&self, request: &RunRequest) -> Result<Option<RunEnd>> {
        let key = request.key_of("end");
        let (_, answer) = self.executor.peek(&request.principal, &request.agent, &key).await?;
        match answer {
            Some(answer) => reply::again(&self.executor, request, &answer).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the tools that the run offers, counted in the agent's encoding.
    async fn toolbox(&self, request: &RunRequest) -> Result<Toolbox> {
        let (core, _) = self.executor.peek(&request.principal, &request.agent, "").await?;
        let counter = self.executor.counter(core.encoding);
        let mut toolbox = Toolbox::of(self, request, &*counter)?;
        let with_tools = Core { reserved: Some(toolbox.offered()), ..(*core).clone() };
        toolbox.warnings.extend(narrow_window(&with_tools));
        Ok(toolbox)
    }

    /// Takes the run's lease, and reserves tokens for the tools of the run. Waits as long as
    /// another run of the agent, or the same run on another server, holds the lease.
    async fn begin(
        &self,
        request: &RunRequest,
        owner: &str,
        toolbox: &Toolbox,
        events: &mpsc::Sender<RunEvent>,
    ) -> Result<Option<RunEnd>> {
        let (longest, look) = RUN_WAIT_MS;
        let until = clock::now() + Duration::from_millis(longest);
        let mut told = false;
        loop {
            let busy = match self.hold(request, owner, Some(toolbox.offered())).await {
                Ok(()) => break,
                Err(error) if error.code == Code::RunBusy => error,
                Err(error) => return Err(error),
            };
            if clock::now() > until || events.is_closed() {
                return Err(busy);
            }
            if !told {
                let ms = busy.fields.get("retry_after_ms").and_then(Value::as_u64).unwrap_or(look);
                // An error is ignored here: if the receiver of events was dropped, the loop that
                // waits for the lease detects this.
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
        // Another server may have ended the run before this server took the lease.
        let end = self.ended(request).await?;
        if let Some(end) = &end {
            self.close(request, owner, &RunEnd { reason: RunReason::Cancelled, ..end.clone() })
                .await?;
        }
        Ok(end)
    }

    /// Takes the run's lease and reserves tokens for its tools, or renews the lease.
    pub(super) async fn hold(
        &self,
        request: &RunRequest,
        owner: &str,
        reserve: Option<Offered>,
    ) -> Result<()> {
        let hold = HoldRun { reserve, ..lease(request, owner) };
        self.call(request, Call::from(hold), Map::new(), None).await.map(drop)
    }

    /// Ends the run, so that other runs may use the agent. Stores the result under the run's key if
    /// the result is final.
    async fn close(&self, request: &RunRequest, owner: &str, end: &RunEnd) -> Result<()> {
        let told = reply::stored_end(end);
        // The result of a cancelled run, or of a run that ended with a failure of the model, is not
        // final, since a repeated request may still get an answer.
        let lasting = !matches!(end.reason, RunReason::Cancelled | RunReason::ModelFailed);
        let arguments = Map::from_iter([("told".to_owned(), json!(told))]);
        let call = EndRun {
            run: request.key.clone(),
            owner: Some(owner.to_owned()),
            reason: end.reason,
            told,
        };
        let key = lasting.then(|| request.key_of("end"));
        self.call(request, call.into(), arguments, key).await.map(drop)
    }

    /// Makes a call for the run without a revision check.
    pub(super) async fn call(
        &self,
        request: &RunRequest,
        call: Call,
        arguments: Map<String, Value>,
        key: Option<String>,
    ) -> Result<Value> {
        self.captured(request, call.into(), arguments, key, None, Guard::Any).await
    }

    /// Makes a call in the run's tool dialect and checks the revisions in `guard`. With `capture`,
    /// the call's result is appended as a tool message in the same transaction.
    pub(super) async fn captured(
        &self,
        request: &RunRequest,
        asked: Translated,
        arguments: Map<String, Value>,
        key: Option<String>,
        capture: Option<Capture>,
        guard: Guard,
    ) -> Result<Value> {
        let mut call = asked.call;
        if let Call::EvictFifo(evict) = &mut call {
            // A run never waits for the summary model, which writes in the background instead.
            evict.at_once = true;
        }
        let request = CallRequest {
            principal: request.principal.clone(),
            agent: request.agent.clone(),
            call,
            arguments,
            key,
            guard: Some(guard),
            wording: asked.wording,
            capture,
        };
        self.executor.call(&request).await.map(|reply| reply.body)
    }
}
