//! The calls of an answer, in order: each is made once under its key and has its result as a message, whatever becomes of the run.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Map, Value};

use super::records::Said;
use super::request::RunEvent;
use super::toolbox::{Meant, Toolbox};
use super::walk::Walk;
use vctx_base::clock;
use vctx_core::dialect::Translated;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{RUN_BEAT_MS_MAX, RUN_SAID_MAX};
use vctx_core::memory::capture::Capture;
use vctx_core::memory::run::ToolCall;
use vctx_core::policy::TEXT;
use vctx_core::policy::turn::{Beaten, Outcome};
use vctx_core::tools::Call;

impl Walk<'_> {
    /// Makes the calls of an answer; gives what became of ours, and the client's own.
    pub(super) async fn make_calls(
        &mut self,
        n: u64,
        said: &Said,
        toolbox: &Toolbox,
    ) -> Result<(Vec<Outcome>, Vec<ToolCall>)> {
        let answered = if self.resuming { self.answered(said).await? } else { HashSet::new() };
        let (mut outcomes, mut client_calls) = (Vec::new(), Vec::new());
        for call in &said.calls {
            let key = format!("call/{n}/{}", call.id);
            match meant(toolbox, call) {
                Ok(Meant::Client) if answered.contains(&call.id) => {
                    outcomes.push(Outcome { failed: true, ..Outcome::default() });
                }
                Ok(Meant::Client) => client_calls.push(call.clone()),
                Ok(Meant::Ours { call: ours, arguments, asked_beat }) => {
                    self.tell(RunEvent::Called { id: call.id.clone(), name: call.name.clone() })
                        .await;
                    let is_answered = answered.contains(&call.id);
                    if let Some(text) = ours.shown().filter(|_| !self.resuming) {
                        self.tell(RunEvent::Text { text: text.to_owned() }).await;
                    }
                    let spoke = ours.shown().is_some();
                    let made = self.make(&key, &call.id, *ours, arguments, is_answered).await?;
                    self.returned(call, !made.failed).await;
                    let asked_beat = asked_beat || made.asked_beat;
                    outcomes.push(Outcome { asked_beat, spoke: spoke && !made.failed, ..made });
                }
                Err(error) => {
                    if !answered.contains(&call.id) {
                        self.fail(&key, &call.id, &error).await?;
                    }
                    self.returned(call, false).await;
                    let (failed, malformed) = (true, true);
                    outcomes.push(Outcome { failed, malformed, ..Outcome::default() });
                }
            }
        }
        Ok((outcomes, client_calls))
    }

    async fn returned(&mut self, call: &ToolCall, ok: bool) {
        self.tell(RunEvent::Returned { id: call.id.clone(), ok }).await;
    }

    /// Ids of the calls of this answer that have their result.
    async fn answered(&self, said: &Said) -> Result<HashSet<String>> {
        let (who, agent) = (&self.request.principal, &self.request.agent);
        let executor = &self.processor.executor;
        let after = executor.said_from(who, agent, said.seq + 1, RUN_SAID_MAX).await?;
        Ok(after.iter().filter_map(|m| m.tool_call_id()).map(str::to_owned).collect())
    }

    /// Makes a call and appends its result, each once. A beat that has to wait is waited for.
    async fn make(
        &mut self,
        key: &str,
        id: &str,
        call: Translated,
        arguments: Map<String, Value>,
        is_answered: bool,
    ) -> Result<Outcome> {
        // One that was closed when the run was cut off was not made, and is not made now.
        if is_answered && self.processor.kept(self.request, key).await?.is_none() {
            return Ok(Outcome { failed: true, ..Outcome::default() });
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
            let made = self.held(work).await;
            let error = match made {
                Ok(body) => {
                    self.seen.wrote(&call.call, &body);
                    let beat = Beaten::of(&body["heartbeat"]);
                    // A chain that some other write found dead is no answer to this call.
                    let asked_beat = is_beat && beat == Some(Beaten::Granted);
                    return Ok(Outcome { beat, asked_beat, ..Outcome::default() });
                }
                Err(error) => error,
            };
            match error.code {
                Code::HeartbeatRateLimited | Code::HeartbeatCooldown if clock::now() < until => {
                    let ms = error.fields.get("retry_after_ms").and_then(Value::as_u64);
                    let ms = ms.unwrap_or(1).clamp(1, RUN_BEAT_MS_MAX);
                    if !self.wait(ms, "heartbeat").await? {
                        self.fail(key, id, &error).await?;
                        return Ok(Outcome { failed: true, ..Outcome::default() });
                    }
                }
                // The server's own trouble is not the model's: the same request goes on later.
                _ if is_trouble(error.code) => return Err(error),
                _ => {
                    self.fail(key, id, &error).await?;
                    return Ok(Outcome { failed: true, ..Outcome::default() });
                }
            }
        }
    }

    /// Appends what was wrong with a call as its result, so that the next inference sees it.
    async fn fail(&self, key: &str, id: &str, error: &Error) -> Result<()> {
        let mut told = Map::new();
        told.insert("error".into(), error.code.text().into());
        told.insert("detail".into(), error.message.as_str().into());
        for (name, value) in &error.fields {
            told.insert(name.clone(), value.clone());
        }
        let content = match error.fields.get(TEXT).and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => Value::Object(told).to_string(),
        };
        let key = self.request.key_of(&format!("{key}/result"));
        self.processor.append_result(self.request, key, id, &content).await
    }
}

/// What a recorded call means; arguments that could not be understood fail here as they did when the answer came.
fn meant(toolbox: &Toolbox, call: &ToolCall) -> Result<Meant> {
    let parsed: Value = serde_json::from_str(&call.arguments)
        .map_err(|e| Error::argument("arguments", format!("no JSON: {e}")))?;
    match parsed {
        Value::Object(map) if map.len() == 1 && map.contains_key("not_understood") => {
            let text = "no JSON object, or too long: send one object as the schema says";
            Err(Error::argument("arguments", text))
        }
        Value::Object(map) => toolbox.meant(&call.name, map),
        _ => Err(Error::argument("arguments", "no JSON object")),
    }
}

/// Faults that say nothing of the call.
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
