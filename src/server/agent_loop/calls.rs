//! Executes the calls of a model's answer in order, each call once under its own idempotency key,
//! and appends the results.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Map, Value};

use super::records::ModelAnswer;
use super::request::RunEvent;
use super::toolbox::{Meant, Toolbox};
use super::walk::Walk;
use crate::agent_loop::limits::RUN_BEAT_MS_MAX;
use vctx_base::clock;
use vctx_core::dialect::Translated;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::capture::Capture;
use vctx_core::memory::run::ToolCall;
use vctx_core::policy::TEXT;
use vctx_core::policy::turn::{Beaten, CallResult};
use vctx_core::tools::{Call, told_error};

/// Maximum number of messages that a resumed run searches for the results of its calls.
const RUN_SAID_MAX: u64 = 1_000;

/// Result of a call that failed; a system message says why.
const FAILED: &str = "Failed.";

impl Walk<'_> {
    /// Executes the memory calls of a model's answer. Returns the results of the memory calls, and
    /// the calls of client tools that have no result yet, which the client must execute.
    pub(super) async fn make_calls(
        &mut self,
        n: u64,
        said: &ModelAnswer,
        toolbox: &Toolbox,
    ) -> Result<(Vec<CallResult>, Vec<ToolCall>)> {
        let answered = if self.resuming { self.answered(said).await? } else { HashSet::new() };
        let (mut outcomes, mut client_calls) = (Vec::new(), Vec::new());
        for call in &said.calls {
            let key = format!("call/{n}/{}", call.id);
            match parse_recorded(toolbox, call) {
                Ok(Meant::Client) if answered.contains(&call.id) => {
                    outcomes.push(CallResult { failed: true, ..CallResult::default() });
                }
                Ok(Meant::Client) => client_calls.push(call.clone()),
                Ok(Meant::Ours { call: ours, arguments, asked_beat }) => {
                    let (id, name) = (call.id.clone(), call.name.clone());
                    let as_written = call.arguments.clone();
                    self.tell(RunEvent::Called { id, name, arguments: as_written }).await;
                    let is_answered = answered.contains(&call.id);
                    if let Some(text) = ours.user_text().filter(|_| !self.resuming) {
                        self.tell(RunEvent::Text { text: text.to_owned() }).await;
                    }
                    let spoke = ours.user_text().is_some();
                    let made = self.make(&key, &call.id, *ours, arguments, is_answered).await?;
                    self.returned(call, !made.failed, made.code).await;
                    let asked_beat = asked_beat || made.asked_beat;
                    outcomes.push(CallResult { asked_beat, spoke: spoke && !made.failed, ..made });
                }
                Err(error) => {
                    if !answered.contains(&call.id) {
                        self.fail(&key, &call.id, &error).await?;
                    }
                    self.returned(call, false, Some(error.code)).await;
                    let (failed, malformed) = (true, true);
                    outcomes.push(CallResult { failed, malformed, ..CallResult::default() });
                }
            }
        }
        Ok((outcomes, client_calls))
    }

    async fn returned(&mut self, call: &ToolCall, ok: bool, code: Option<Code>) {
        let error = code.map(|code| code.text().to_owned());
        self.tell(RunEvent::Returned { id: call.id.clone(), ok, error }).await;
    }

    /// Returns the ids of an answer's calls that already have a result.
    async fn answered(&self, said: &ModelAnswer) -> Result<HashSet<String>> {
        let (who, agent) = (&self.request.principal, &self.request.agent);
        let executor = &self.processor.executor;
        let after = executor.said_from(who, agent, said.seq + 1, RUN_SAID_MAX).await?;
        Ok(after.iter().filter_map(|m| m.tool_call_id()).map(str::to_owned).collect())
    }

    /// Executes a model's call and appends the call's result exactly once. If the heartbeat limit
    /// refuses the call, waits and tries again.
    async fn make(
        &mut self,
        key: &str,
        id: &str,
        call: Translated,
        arguments: Map<String, Value>,
        is_answered: bool,
    ) -> Result<CallResult> {
        // An earlier, interrupted attempt of this run already recorded an error for this call, so
        // the call is not made.
        if is_answered && self.processor.stored_result(self.request, key).await?.is_none() {
            return Ok(CallResult { failed: true, ..CallResult::default() });
        }
        self.renew().await?;
        let until = clock::now() + Duration::from_millis(RUN_BEAT_MS_MAX);
        let own_key = self.request.key_of(key);
        let is_beat = matches!(call.call, Call::RecordHeartbeat(_));
        loop {
            let (key_of_call, capture) = (Some(own_key.clone()), Some(Capture::answering(id)));
            let (processor, request) = (self.processor, self.request);
            let (asked, guard) = (call.clone(), self.seen.guard(&call));
            let work =
                processor.captured(request, asked, arguments.clone(), key_of_call, capture, guard);
            let made = self.with_lease(work).await;
            let error = match made {
                Ok(body) => {
                    self.seen.wrote(&call.call, &body);
                    let beat = Beaten::of(&body["heartbeat"]);
                    // A heartbeat counts as a request for the next inference only if it was
                    // granted; another write may have ended the chain of heartbeats meanwhile.
                    let asked_beat = is_beat && beat == Some(Beaten::Granted);
                    return Ok(CallResult { beat, asked_beat, ..CallResult::default() });
                }
                Err(error) => error,
            };
            match error.code {
                Code::HeartbeatRateLimited | Code::HeartbeatCooldown if clock::now() < until => {
                    let ms = error.fields.get("retry_after_ms").and_then(Value::as_u64);
                    let ms = ms.unwrap_or(1).clamp(1, RUN_BEAT_MS_MAX);
                    if !self.wait(ms, "heartbeat").await? {
                        self.fail(key, id, &error).await?;
                        return Ok(CallResult::of(error.code));
                    }
                }
                // A server fault ends this attempt of the run, since the model cannot correct the
                // fault. A repeated request continues the run later.
                _ if is_trouble(error.code) => return Err(error),
                _ => {
                    self.fail(key, id, &error).await?;
                    return Ok(CallResult::of(error.code));
                }
            }
        }
    }

    /// Appends the error of a call for the next inference: as a system message, and as the call's
    /// result that chat formats require. A dialect with texts of its own gets the error as the
    /// result alone. The system message is first, so that an interrupted run that finds the result
    /// has both.
    async fn fail(&self, key: &str, id: &str, error: &Error) -> Result<()> {
        let result_key = self.request.key_of(&format!("{key}/result"));
        let content = match error.fields.get(TEXT).and_then(Value::as_str) {
            Some(text) => text,
            None => {
                let notice_key = self.request.key_of(&format!("{key}/error"));
                let text = told_error(error.code.text(), &error.message, &error.fields);
                self.processor.append_notice(self.request, notice_key, &text).await?;
                FAILED
            }
        };
        self.processor.append_result(self.request, result_key, id, content).await
    }
}

/// Parses a recorded call; invalid arguments cause the same error as when the call was recorded.
fn parse_recorded(toolbox: &Toolbox, call: &ToolCall) -> Result<Meant> {
    let parsed: Value = serde_json::from_str(&call.arguments)
        .map_err(|e| Error::argument("arguments", format!("no JSON: {e}")))?;
    match parsed {
        Value::Object(map) if map.len() == 1 && map.contains_key("not_understood") => {
            let text = "no JSON object, or too long: send one object that matches the schema";
            Err(Error::argument("arguments", text))
        }
        Value::Object(map) => toolbox.parse(&call.name, map),
        _ => Err(Error::argument("arguments", "no JSON object")),
    }
}

/// Returns whether an error comes from the server and not from the call's arguments.
fn is_trouble(code: Code) -> bool {
    matches!(
        code,
        Code::StoreUnavailable
            | Code::StoreRefused
            | Code::Timeout
            | Code::Overloaded
            | Code::NotReady
            | Code::Internal
            | Code::Conflict
            | Code::AgentNotFound
            | Code::IdempotencyKeyReused
            | Code::RunBusy
            | Code::RunLost
    )
}
