//! Runs the steps of a run (inference, calls, heartbeat) until one of them ends the run.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::inference::Inference;
use super::processor::Processor;
use super::records::{ModelAnswer, spoken};
use super::request::{RunEnd, RunEvent, RunRequest};
use super::revisions::KnownRevisions;
use super::toolbox::Toolbox;
use crate::agent_loop::limits::RUN_BEAT_MS_MAX;
use crate::models::chat::ChatModel;
use vctx_base::clock;
use vctx_core::error::{Code, Result};
use vctx_core::limits::RUN_REPAIRS_MAX;
use vctx_core::memory::run::{RunReason, ToolCall, Usage};
use vctx_core::policy::turn::{Beaten, Next, next};
use vctx_core::tools::Tool;

/// Maximum number of inferences in one run.
const RUN_TURNS_MAX: u64 = 1_100;
/// Maximum duration of a run, in milliseconds; after this time the run starts no inference.
const RUN_MS_MAX: u64 = 1_800_000;
/// Longest wait for a caller that does not read its events, in milliseconds; after this time the
/// run is cancelled.
const RUN_READER_MS_MAX: u64 = 4_000;

/// A run in progress.
pub(super) struct Walk<'a> {
    pub(super) processor: &'a Processor,
    pub(super) model: &'a dyn ChatModel,
    pub(super) request: &'a RunRequest,
    pub(super) owner: &'a str,
    pub(super) events: &'a mpsc::Sender<RunEvent>,
    begun: Instant,
    /// Whether an earlier attempt of the run may already have written the next step.
    pub(super) resuming: bool,
    /// Number of consecutive unusable answers.
    pub(super) repairs: u32,
    pub(super) usage: Usage,
    pub(super) turns: u64,
    /// The core revisions that the model knows.
    pub(super) seen: KnownRevisions,
    /// Time of the last renewal of the run's lease.
    pub(super) held: Instant,
    pub(super) fault: Option<String>,
    last: Option<ModelAnswer>,
    client_calls: Vec<ToolCall>,
}

impl<'a> Walk<'a> {
    /// Makes a run whose lease this server already holds.
    pub(super) fn new(
        processor: &'a Processor,
        model: &'a dyn ChatModel,
        request: &'a RunRequest,
        owner: &'a str,
        events: &'a mpsc::Sender<RunEvent>,
    ) -> Self {
        let now = clock::now();
        Self {
            processor,
            model,
            request,
            owner,
            events,
            begun: now,
            resuming: true,
            repairs: 0,
            usage: Usage::default(),
            turns: 0,
            seen: KnownRevisions::default(),
            held: now,
            fault: None,
            last: None,
            client_calls: Vec::new(),
        }
    }

    /// Runs the agent's model until a step ends the run. Errors are server faults; the run's
    /// recorded steps stay.
    pub(super) async fn go(&mut self, toolbox: &Toolbox) -> Result<RunReason> {
        let mut seen = self.request.input.is_empty();
        for (at, message) in self.request.input.iter().enumerate() {
            seen |= self.processor.append_input(self.request, at, message).await?;
        }
        self.resuming = seen;
        loop {
            if self.is_cancelled() {
                return Ok(RunReason::Cancelled);
            }
            if self.turns >= RUN_TURNS_MAX {
                return Ok(RunReason::Depth);
            }
            if self.begun.elapsed() > Duration::from_millis(RUN_MS_MAX) {
                return Ok(RunReason::Duration);
            }
            self.turns += 1;
            if let Some(reason) = self.turn(toolbox).await? {
                return Ok(reason);
            }
        }
    }

    /// Returns the result of the run.
    pub(super) fn end(&self, reason: RunReason) -> RunEnd {
        let (text, last_seq) = match &self.last {
            Some(said) => (spoken(said), said.seq),
            None => (String::new(), 0),
        };
        let client_calls = match reason {
            RunReason::ClientCalls => self.client_calls.clone(),
            _ => Vec::new(),
        };
        RunEnd {
            reason,
            text,
            client_calls,
            usage: self.usage,
            turns: self.turns,
            last_seq,
            fault: self.fault.clone(),
            warnings: Vec::new(),
        }
    }

    /// Runs one inference and the calls of the model's answer. Returns the reason if the run ends,
    /// otherwise `None`.
    async fn turn(&mut self, toolbox: &Toolbox) -> Result<Option<RunReason>> {
        let n = self.turns;
        let said = match self.on_record(n).await? {
            OnRecord::Answer(said) => said,
            OnRecord::Fault => return Ok(self.repaired()),
            OnRecord::Nothing => {
                let last_seq = self.last.as_ref().map_or(0, |said| said.seq);
                self.tell(RunEvent::Turn { n, last_seq }).await;
                match self.ask(n, toolbox).await? {
                    Inference::Answer(said) => said,
                    Inference::Fault => return Ok(self.repaired()),
                    Inference::End(reason) => return Ok(Some(reason)),
                    Inference::Partial(said, reason) => {
                        self.last = Some(said);
                        return Ok(Some(reason));
                    }
                }
            }
        };
        let (outcomes, client_calls) = self.make_calls(n, &said, toolbox).await?;
        let is_fine = outcomes.is_empty() || outcomes.iter().any(|one| !one.malformed);
        self.repairs = if is_fine { 0 } else { self.repairs + 1 };
        self.last = Some(said);
        let count = client_calls.len();
        self.client_calls = client_calls;
        match next(self.request.beat, &outcomes, count, self.repairs) {
            Next::End(reason) => Ok(Some(reason)),
            Next::Ask => Ok(None),
            Next::Beat(wait_ms) => self.beat(n, wait_ms).await,
        }
    }

    /// Counts an unusable answer of the model, and ends the run after too many.
    fn repaired(&mut self) -> Option<RunReason> {
        self.repairs += 1;
        (self.repairs > RUN_REPAIRS_MAX).then_some(RunReason::Repairs)
    }

    async fn on_record(&mut self, n: u64) -> Result<OnRecord> {
        if !self.resuming {
            return Ok(OnRecord::Nothing);
        }
        if let Some((said, seen)) = self.processor.recorded_answer(self.request, n).await? {
            self.seen = seen;
            return Ok(OnRecord::Answer(said));
        }
        if self.processor.stored_result(self.request, &format!("fault/{n}")).await?.is_some() {
            return Ok(OnRecord::Fault);
        }
        self.resuming = false;
        Ok(OnRecord::Nothing)
    }

    /// Records a heartbeat, and waits if the heartbeat limit requires it. If the run must end,
    /// returns the reason.
    async fn beat(&mut self, n: u64, wait_ms: u64) -> Result<Option<RunReason>> {
        let arguments: Map<String, Value> =
            Map::from_iter([("state".to_owned(), json!("continue"))]);
        let key = self.request.key_of(&format!("beat/{n}"));
        let mut wait_ms = wait_ms;
        let until = clock::now() + Duration::from_millis(RUN_BEAT_MS_MAX);
        loop {
            if wait_ms > 0 && !self.wait(wait_ms, "heartbeat").await? {
                return Ok(Some(RunReason::Cancelled));
            }
            let call = Tool::RecordHeartbeat.decode(arguments.clone())?;
            let made =
                self.processor.call(self.request, call, arguments.clone(), Some(key.clone())).await;
            match made {
                Ok(body) => {
                    return Ok(match Beaten::of(&body["heartbeat"]) {
                        Some(Beaten::Ended(reason)) => Some(reason),
                        Some(Beaten::Granted | Beaten::Wait(_)) | None => None,
                    });
                }
                Err(error)
                    if matches!(
                        error.code,
                        Code::HeartbeatRateLimited | Code::HeartbeatCooldown
                    ) && clock::now() < until =>
                {
                    let ms = error.fields.get("retry_after_ms").and_then(Value::as_u64);
                    wait_ms = ms.unwrap_or(1).clamp(1, RUN_BEAT_MS_MAX);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits while renewing the run's lease; returns `false` if the caller disconnected.
    pub(super) async fn wait(&mut self, ms: u64, why: &str) -> Result<bool> {
        self.tell(RunEvent::Waiting { ms, why: why.into() }).await;
        let until = clock::now() + Duration::from_millis(ms);
        while clock::now() < until {
            if self.is_cancelled() {
                return Ok(false);
            }
            self.renew().await?;
            let step = Duration::from_millis(WAIT_STEP_MS).min(until - clock::now());
            tokio::time::sleep(step).await;
        }
        Ok(true)
    }

    /// Sends an event of the run to the caller; a caller that does not read for too long counts as
    /// disconnected.
    pub(super) async fn tell(&mut self, event: RunEvent) -> bool {
        let limit = Duration::from_millis(RUN_READER_MS_MAX);
        matches!(tokio::time::timeout(limit, self.events.send(event)).await, Ok(Ok(())))
    }

    /// Returns whether the caller disconnected.
    pub(super) fn is_cancelled(&self) -> bool {
        self.events.is_closed()
    }
}

/// Longest sleep between two checks of the caller's connection, in milliseconds.
const WAIT_STEP_MS: u64 = 250;

/// What an earlier attempt of the run recorded for a turn.
enum OnRecord {
    Answer(ModelAnswer),
    Fault,
    Nothing,
}
