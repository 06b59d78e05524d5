//! Builds a run's answer from the messages that the run appended, so that a repeated request gets
//! the same answer.

use serde_json::{Value, json};

use super::converse::{StoredConversation, mark_answer, messages_after, sight};
use crate::agent_loop::{Beat, RunEnd, RunRequest};
use crate::executor::Executor;
use vctx_base::clock::unix_ms_of;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::conversation::ClientMessage;
use vctx_core::memory::message::{Message, Role};
use vctx_core::memory::run::RunReason;
use vctx_core::openai::{Answer, Conversation, Ending, Head, Visible, visible};
use vctx_core::trust::Principal;

/// Returns the fields of an answer that do not depend on its text.
pub(super) fn head_of(
    principal: &Principal,
    stored: &StoredConversation,
    conversation: &Conversation,
) -> Head {
    let mut told = json!({"agent": principal.name_of(&stored.agent)});
    if let Some((parent, seq)) = &stored.branch {
        told["branch"] = json!({"parent": parent, "seq": seq});
    }
    Head {
        thread: stored.position.thread.clone(),
        created_s: unix_ms_of(&stored.created_at).map_or(0, |ms| ms / 1000),
        model: conversation.model.clone(),
        told,
        echo: conversation.echo.clone(),
    }
}

/// Returns the request for the run that answers a stored conversation. The run's idempotency key is
/// the digest of the thread up to the conversation's last message.
pub(super) fn run_of(
    principal: &Principal,
    stored: &StoredConversation,
    conversation: &Conversation,
) -> RunRequest {
    RunRequest {
        principal: principal.clone(),
        agent: stored.agent.clone(),
        key: stored.position.thread.clone(),
        input: Vec::new(),
        labels: conversation.labels.clone(),
        client_tools: conversation.tools.clone(),
        options: conversation.options.clone(),
        beat: Beat::Always,
        engineer: None,
        tools: None,
        is_read: false,
    }
}

/// Returns the answer to an earlier, equal request.
pub(super) fn known_answer(head: Head, known: Visible) -> Answer {
    let ending = if known.seen.calls.is_empty() { Ending::Stop } else { Ending::ToolCalls };
    Answer { head, seen: known.seen, ending, usage: None }
}

/// Returns what the client may see of the messages after the client's last message; `None` if there
/// are no such messages.
pub(super) async fn visible_answer(
    executor: &Executor,
    principal: &Principal,
    stored: &StoredConversation,
    conversation: &Conversation,
) -> Result<Option<Visible>> {
    visible_upto(executor, principal, (stored, conversation), u64::MAX).await
}

/// Returns what the client may see of the messages after the client's last message, up to the
/// position `last_seq`; `None` if there are no such messages.
pub(super) async fn visible_upto(
    executor: &Executor,
    principal: &Principal,
    (stored, conversation): (&StoredConversation, &Conversation),
    last_seq: u64,
) -> Result<Option<Visible>> {
    let said = messages_after(executor, principal, &stored.agent, stored.seq).await?;
    let is_after = |m: &Message| m.thread.is_some() || m.seq > last_seq;
    let end = said.iter().position(is_after).unwrap_or(said.len());
    Ok(visible(&said[..end], &sight(conversation)))
}

/// Returns the answer of an ended run. `sent` is the text that the client has already received.
/// Stores the answer's thread position, which depends on the text that the client saw.
pub(super) async fn answer_of(
    executor: &Executor,
    principal: &Principal,
    (stored, conversation): (&StoredConversation, &Conversation),
    head: Head,
    end: &RunEnd,
    sent: Option<&str>,
) -> Result<Answer> {
    let said = messages_after(executor, principal, &stored.agent, stored.seq).await?;
    let upto = said.iter().take_while(|m| m.thread.is_none() || m.seq == end.last_seq);
    let upto = upto.count();
    let mut shown = visible(&said[..upto], &sight(conversation)).filter(|_| end.last_seq > 0);
    let text = shown.as_ref().map_or("", |shown| shown.seen.text.as_str());
    if text.trim().is_empty() && sent.is_none_or(str::is_empty) {
        fault_of(end)?;
    }
    if let (Some(shown), Some(sent)) = (&mut shown, sent)
        && !shown.seen.text.starts_with(sent)
    {
        // The client received text that was not recorded. Its next request will contain this text,
        // so the answer's thread position must be computed from it.
        shown.seen.text = sent.to_owned();
    }
    let calls = end.reason == RunReason::ClientCalls;
    if let Some(shown) = &mut shown {
        if !calls {
            shown.seen.calls.clear();
        }
        mark_answer(executor, principal, stored, shown).await?;
    }
    let nothing = || ClientMessage::text(Role::Assistant, sent.unwrap_or_default());
    let seen = shown.map_or_else(nothing, |shown| shown.seen);
    let usage = Some((end.usage.prompt, end.usage.completion));
    Ok(Answer { head, seen, ending: ending_of(end.reason), usage })
}

fn ending_of(reason: RunReason) -> Ending {
    match reason {
        RunReason::Yield => Ending::Stop,
        RunReason::ClientCalls => Ending::ToolCalls,
        RunReason::Depth
        | RunReason::Duration
        | RunReason::Tokens
        | RunReason::LoopDetected
        | RunReason::Repairs
        | RunReason::ModelFailed
        | RunReason::Cancelled => Ending::Length,
    }
}

/// Returns an error for a run without any text if the model failed or the run was cancelled. Any
/// other run without text gives an empty answer with a finish reason.
fn fault_of(end: &RunEnd) -> Result<()> {
    let why: Option<Value> = end.fault.as_deref().map(Value::from);
    let with =
        |error: Error| why.clone().into_iter().fold(error, |error, why| error.with("why", why));
    match end.reason {
        RunReason::ModelFailed => {
            let text = "the model gave no answer: send the same request again";
            Err(with(Error::new(Code::ModelUnavailable, text)))
        }
        RunReason::Cancelled => Err(Error::new(
            Code::Timeout,
            "the run was cancelled: send the same request again to continue it",
        )),
        RunReason::Yield
        | RunReason::ClientCalls
        | RunReason::Depth
        | RunReason::Duration
        | RunReason::Tokens
        | RunReason::LoopDetected
        | RunReason::Repairs => Ok(()),
    }
}
