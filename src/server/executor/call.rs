//! Admits, runs, counts and logs a call.
//!
//! A reading call is completed here; a writing call continues as a [`Run`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tracing::Instrument as _;
use tracing::field::Empty;

use super::contexts::count;
use super::executor::Executor;
use super::figures::{occupancy, report_search, sample};
use super::kernel::{no_agent, patience};
use super::request::{CallRequest, Reply, check_capture, key_hash};
use super::run::Run;
use super::steps::{StageSpans, step, step_at_once};
use super::{envelope, heartbeat};
use crate::store::{self, Trips, counted, open_archive};
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::core::Core;
use vctx_core::policy::{Answers, Ctx, Stage, Stages as _, Step, Stop, TEXT};
use vctx_core::tools::Call;
use vctx_core::trust::{Scope, admit};

/// Maximum number of questions (requests for data) that one call may ask before its decision.
pub(super) const QUESTIONS_MAX: usize = 16;
/// Codes of the refusals that become events of the agent.
const NOTED_REFUSALS: [Code; 4] = [
    Code::TokenBudgetExceeded,
    Code::PinLimitExceeded,
    Code::TaintedContent,
    Code::LateChunkingRequired,
];

/// How a reading call ends.
enum ReadEnd {
    Answer(Value),
    /// The result must be stored, so the call continues as a write, with the answers to its
    /// questions so far.
    Write(Box<Answers>),
}

impl Executor {
    /// Runs a call to its end. Writes one tracing span, one log line and the call's metrics.
    pub async fn call(&self, request: &CallRequest) -> Result<Reply> {
        let begun = clock::now();
        let tool = request.call.name();
        let key_hash = key_hash(request);
        let span = tracing::info_span!(
            "tool_call",
            tool,
            agent = request.agent,
            key_hash,
            outcome = Empty
        );
        let work = Box::pin(self.run(request, begun)).instrument(span.clone());
        let (outcome, trips) = counted(work).await;
        let took = begun.elapsed();
        if let Err(error) = &outcome {
            self.note_refused(request, error).await;
        }
        if let (Call::SearchArchival(search), Ok(body)) = (&request.call, &outcome) {
            report_search(search.n_probe.is_some(), body);
        }
        let code = outcome.as_ref().map_or_else(|e| e.code.text(), |_| "OK");
        span.record("outcome", code);
        metrics::counter!(metric::TOOL_CALLS, "tool" => tool, "outcome" => code).increment(1);
        metrics::histogram!(metric::TOOL_SECONDS, "tool" => tool).record(took.as_secs_f64());
        self.measure(request, &outcome, trips, took);
        let duration_ms = u64::try_from(took.as_micros()).unwrap_or(u64::MAX) / 1000;
        let (trips, tokens) = (trips.sent, occupancy(&outcome));
        match &outcome {
            Err(error) if error.code.status() >= 500 => {
                tracing::error!(
                    tool,
                    agent = request.agent,
                    key_hash,
                    code,
                    duration_ms,
                    trips,
                    error = error.chain(),
                    "call failed"
                );
            }
            _ => tracing::info!(
                tool,
                agent = request.agent,
                key_hash,
                code,
                duration_ms,
                trips,
                tokens,
                uid = request.principal.actor.uid,
                "call"
            ),
        }
        if let Err(error) = &outcome {
            heartbeat::count_refusal(error);
        }
        let told = |error: Error| match &request.wording {
            Some(wording) => {
                let text = wording.refused(&error);
                error.with(TEXT, text)
            }
            None => error,
        };
        outcome.map(|body| Reply { body }).map_err(told)
    }

    /// Adds the call to the measurements of the agent's session. If the agent does not exist, there
    /// is no session.
    fn measure(
        &self,
        request: &CallRequest,
        outcome: &Result<Value>,
        trips: Trips,
        took: Duration,
    ) {
        let gone = outcome.as_ref().is_err_and(|e| e.code == Code::AgentNotFound);
        let Ok(scope) = admit(&request.principal, &request.agent) else { return };
        if gone {
            return;
        }
        let sample = sample(request, outcome, trips, took);
        let now_ms = self.kernel.clock.unix_ms();
        self.measures.note(&scope, now_ms, self.measures.idle_ms, &sample);
    }

    async fn run(&self, request: &CallRequest, begun: Instant) -> Result<Value> {
        let scope = step_at_once("validate", || {
            let scope = admit(&request.principal, &request.agent)?;
            check_capture(request).map(|()| scope)
        })?;
        // A search with an idempotency key may have a stored answer.
        let keyed = request.call.mints_key() && request.key.is_some();
        let mut found = Answers::default();
        if !request.call.writes() && !keyed && request.capture.is_none() {
            match Box::pin(self.read(request, &scope)).await? {
                ReadEnd::Answer(body) => return Ok(body),
                ReadEnd::Write(answers) => found = *answers,
            }
        }
        let run = Run::begin(self, request, scope, begun)?;
        Box::pin(run.write(found)).await
    }

    /// Records an event for a refusal that shows a limit of the agent's memory.
    async fn note_refused(&self, request: &CallRequest, error: &Error) {
        if error.code == Code::LateChunkingRequired {
            let refused = error.fields.get("refused_chunks").and_then(Value::as_u64).unwrap_or(0);
            metrics::counter!(metric::CHUNKS, "outcome" => "refused").increment(refused);
        }
        if NOTED_REFUSALS.contains(&error.code)
            && let Err(fault) = self.note_refusal(&request.principal, &request.agent, error).await
        {
            let code = error.code.text();
            tracing::error!(code, error = fault.chain(), "a refusal could not be recorded");
        }
    }

    /// Loads the core for a reading call, and for a search of the archive also the state of its
    /// vectors.
    async fn read_core(
        &self,
        request: &CallRequest,
        scope: &Scope,
        answers: &mut Answers,
    ) -> Result<Arc<Core>> {
        match &request.call {
            Call::SearchArchival(search) if search.page_token.is_none() => {
                let open = |ro| open_archive(ro, scope);
                let opened = self.kernel.read_checked(scope, open, |o| o.core.as_ref()).await?;
                let core = Arc::new(opened.core.ok_or_else(no_agent)?);
                let exact_rows_max = self.archive.settings.exact_rows_max;
                let chunks = core.archived.chunks;
                let vectors = self.vectors(opened.setting, chunks, exact_rows_max).await?;
                answers.vectors = Some(vectors);
                Ok(core)
            }
            _ => Ok(self.kernel.checked(scope, &[], patience()).await?.0),
        }
    }

    /// Runs a reading call on the read socket.
    async fn read(&self, request: &CallRequest, scope: &Scope) -> Result<ReadEnd> {
        let mut answers = Answers::default();
        let core = step("load", self.read_core(request, scope, &mut answers)).await?;
        for _ in 0..QUESTIONS_MAX {
            let stages = StageSpans::default();
            let around = self.surroundings(scope, request, &core, "", "", &stages);
            stages.begins(Stage::Execute);
            let decided = request.call.step(&Ctx { around, core: &core, answers: &answers });
            drop(stages);
            match decided {
                Err(Stop::Ask(question)) => {
                    step("ask", self.answer(*question, &mut answers, scope, &core)).await?;
                }
                Err(Stop::Fail(error)) => return Err(error),
                Ok(Step::Read(result)) => {
                    return Ok(ReadEnd::Answer(envelope::of_read(
                        &core,
                        worded(request, result),
                        self.kernel.clock.unix_ms(),
                    )));
                }
                Ok(Step::Keep(result, pack)) => {
                    step("write", store::keep_pack(&self.kernel.rw, scope, &pack)).await?;
                    let degraded = result.get("degraded").and_then(Value::as_str);
                    count(Some(&pack), degraded);
                    return Ok(ReadEnd::Answer(envelope::of_read(
                        &core,
                        result,
                        self.kernel.clock.unix_ms(),
                    )));
                }
                Ok(Step::Write(_) | Step::Part(_)) if request.call.mints_key() => {
                    answers.keep_lasting();
                    return Ok(ReadEnd::Write(Box::new(answers)));
                }
                Ok(Step::Write(_) | Step::Part(_)) => {
                    return Err(Error::new(Code::Internal, "a reading tool wants to write"));
                }
            }
        }
        Err(curious())
    }
}

/// Returns the result of a call; for a call in another tool dialect, translates the result's text
/// to that dialect.
pub(super) fn worded(request: &CallRequest, mut result: Map<String, Value>) -> Map<String, Value> {
    if let Some(wording) = &request.wording {
        result.insert(TEXT.into(), wording.answer_text(&result).into());
    }
    result
}

pub(super) fn curious() -> Error {
    Error::new(Code::Internal, format!("a call asked more than {QUESTIONS_MAX} questions"))
}
