//! Writes the records of a run under the run's keys: prompts before they are sent, and answers,
//! results and errors as messages.

use serde_json::{Map, Value};

use super::processor::Processor;
use super::request::{NewMessage, RunRequest};
use super::revisions::KnownRevisions;
use crate::executor::{Ask, Executor, Prompted};
use vctx_core::dialect::understood;
use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::PREVIEW_TOKENS_MIN;
use vctx_core::memory::LABELS;
use vctx_core::memory::message::{Message, Role};
use vctx_core::memory::run::ToolCall;
use vctx_core::policy::preview;
use vctx_core::tools::{RecordAnswer, Tool};
use vctx_core::trust::Principal;

/// A recorded answer of the model.
#[derive(Clone, Debug)]
pub(super) struct ModelAnswer {
    pub(super) seq: u64,
    pub(super) content: String,
    pub(super) calls: Vec<ToolCall>,
}

impl Processor {
    /// Appends the input of the run to the queue; returns `true` if the input was already appended.
    pub(super) async fn append_input(
        &self,
        request: &RunRequest,
        at: usize,
        message: &NewMessage,
    ) -> Result<bool> {
        let key = request.key_of(&format!("in/{at}"));
        let parts = parts(&message.content, &message.meta);
        let body = self.append(request, message.role, parts, key).await?;
        Ok(body["replayed"] == true)
    }

    /// Records a prompt before it is sent: the current window, with the given tools and options.
    pub(super) async fn record_prompt(
        &self,
        request: &RunRequest,
        owner: &str,
        what: &str,
        ask: Ask,
    ) -> Result<Prompted> {
        // The key contains the owner of the run's lease: a new owner records a new prompt, since
        // the earlier prompt belongs to the earlier owner.
        let key = request.key_of(&format!("{what}/{owner}"));
        self.executor.prompt(&request.principal, &request.agent, &key, &ask).await
    }

    /// Records a model's answer. For an empty answer, records only the end of the prompt and
    /// returns `None`.
    pub(super) async fn record_answer(
        &self,
        request: &RunRequest,
        key: &str,
        answer: RecordAnswer,
    ) -> Result<Option<ModelAnswer>> {
        let (content, calls) = (answer.content.clone(), answer.tool_calls.clone());
        let key = request.key_of(key);
        let (who, agent) = (&request.principal, &request.agent);
        let reply = self.executor.answered(who, agent, &key, answer).await?;
        let seq = reply.body["result"]["seq"].as_u64();
        Ok(seq.map(|seq| ModelAnswer { seq, content, calls }))
    }

    /// Returns the recorded answer of a turn, if any, with the core revisions that the model saw.
    pub(super) async fn recorded_answer(
        &self,
        request: &RunRequest,
        n: u64,
    ) -> Result<Option<(ModelAnswer, KnownRevisions)>> {
        let Some(body) = self.stored_result(request, &format!("answer/{n}")).await? else {
            return Ok(None);
        };
        let number = |name: &str| body["result"][name].as_u64().unwrap_or(0);
        let Some(said) = answer_at(&self.executor, request, number("seq")).await? else {
            return Ok(None);
        };
        let (who, agent) = (&request.principal, &request.agent);
        let revision = self.executor.shown_revision(who, agent, number("turn")).await?;
        Ok(Some((said, KnownRevisions::window(revision))))
    }

    /// Returns the stored result of a write of this run, if the write happened.
    pub(super) async fn stored_result(
        &self,
        request: &RunRequest,
        what: &str,
    ) -> Result<Option<Value>> {
        let key = request.key_of(what);
        Ok(self.executor.peek(&request.principal, &request.agent, &key).await?.1)
    }

    /// Appends the result or error of a call as a message; a long text is truncated and marked as
    /// truncated.
    pub(super) async fn append_result(
        &self,
        request: &RunRequest,
        key: String,
        id: &str,
        content: &str,
    ) -> Result<()> {
        let meta = Map::from_iter([("tool_call_id".to_owned(), Value::from(id))]);
        let outcome = self.append(request, Role::Tool, parts(content, &meta), key.clone()).await;
        match outcome {
            Err(error) if error.code == Code::TokenBudgetExceeded => {
                let (core, _) = self.executor.window(&request.principal, &request.agent).await?;
                let counter = self.executor.counter(core.encoding);
                let most = (core.context_window / 8).max(PREVIEW_TOKENS_MIN);
                let shown = preview(&*counter, content, most);
                self.append(request, Role::Tool, parts(&shown, &meta), key).await.map(drop)
            }
            other => other.map(drop),
        }
    }

    /// Appends a system message that reports a fault to the model.
    pub(super) async fn append_notice(
        &self,
        request: &RunRequest,
        key: String,
        text: &str,
    ) -> Result<()> {
        self.append(request, Role::System, parts(text, &Map::new()), key).await.map(drop)
    }

    async fn append(
        &self,
        request: &RunRequest,
        role: Role,
        message: Value,
        key: String,
    ) -> Result<Value> {
        let mut arguments = Map::new();
        arguments.insert("message".into(), message);
        arguments.insert("role".into(), role.text().into());
        let call = Tool::AppendFifo.decode(arguments.clone())?;
        self.call(request, call, arguments, Some(key)).await
    }
}

/// Returns a message as an argument of `append_fifo`.
fn parts(content: &str, meta: &Map<String, Value>) -> Value {
    let mut message = Map::new();
    message.insert("content".into(), content.into());
    for name in ["name", "tool_calls", "tool_call_id", "said_at", LABELS] {
        if let Some(value) = meta.get(name) {
            message.insert(name.into(), value.clone());
        }
    }
    Value::Object(message)
}

/// Returns the text of an answer, followed by the texts that the answer's calls send to the user.
pub(super) fn spoken(said: &ModelAnswer) -> String {
    let mut parts = vec![said.content.clone()];
    for call in &said.calls {
        if let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments)
            && let Ok(meant) = understood(&call.name, arguments)
        {
            parts.extend(meant.user_text().map(str::to_owned));
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Returns the message at a position, or `None` if it is not an answer of the model.
pub(super) async fn answer_at(
    executor: &Executor,
    request: &RunRequest,
    seq: u64,
) -> Result<Option<ModelAnswer>> {
    if seq == 0 {
        return Ok(None);
    }
    let (who, agent): (&Principal, &str) = (&request.principal, &request.agent);
    let found = executor.said_from(who, agent, seq, 1).await?;
    let Some(message) = found.into_iter().find(|m| m.seq == seq && m.role == Role::Assistant)
    else {
        return Err(Error::new(Code::Internal, "an answer on record is missing at its position"));
    };
    Ok(Some(ModelAnswer { seq, calls: calls_of(&message), content: message.content }))
}

fn calls_of(message: &Message) -> Vec<ToolCall> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let calls = message.meta.get("tool_calls").and_then(Value::as_array);
    let calls = calls.into_iter().flatten().map(|call| ToolCall {
        id: text(&call["id"]),
        name: text(&call["function"]["name"]),
        arguments: text(&call["function"]["arguments"]),
    });
    calls.collect()
}
