//! What a run came to, as an answer: read from the messages that it left, so that it is the same whenever it is asked for.

use serde_json::{Value, json};

use super::converse::{Settled, said_after, sight, take_place};
use crate::agent_loop::{Beat, RunEnd, RunRequest};
use crate::executor::Executor;
use vctx_base::clock::seconds_of;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::message::Role;
use vctx_core::memory::run::RunReason;
use vctx_core::memory::thread::Seen;
use vctx_core::openai::{Answer, Conversation, Ending, Head, Visible, visible};
use vctx_core::policy::Principal;

/// What an answer says of itself.
pub(super) fn head_of(settled: &Settled, conversation: &Conversation) -> Head {
    let mut told = json!({"agent": settled.agent});
    if let Some((parent, seq)) = &settled.branch {
        told["branch"] = json!({"parent": parent, "seq": seq});
    }
    Head {
        thread: settled.place.thread.clone(),
        created_s: seconds_of(&settled.created_at).unwrap_or(0),
        model: conversation.model.clone(),
        told,
        echo: conversation.echo.clone(),
    }
}

/// The run of a conversation at its place: everything was appended, and the key is that of the place.
pub(super) fn run_of(
    principal: &Principal,
    settled: &Settled,
    conversation: &Conversation,
) -> RunRequest {
    RunRequest {
        principal: principal.clone(),
        agent: settled.agent.clone(),
        key: settled.place.thread.clone(),
        input: Vec::new(),
        client_tools: conversation.tools.clone(),
        options: conversation.options.clone(),
        beat: Beat::Always,
        tools: None,
    }
}

/// An answer that was given before.
pub(super) fn again(head: Head, known: Visible) -> Answer {
    let ending = if known.seen.calls.is_empty() { Ending::Stop } else { Ending::ToolCalls };
    Answer { head, seen: known.seen, ending, usage: None }
}

/// What stands in the agent behind the last message of the client; none where nothing does.
pub(super) async fn standing(
    executor: &Executor,
    principal: &Principal,
    settled: &Settled,
    conversation: &Conversation,
) -> Result<Option<Visible>> {
    let said = said_after(executor, principal, &settled.agent, settled.seq).await?;
    let end = said.iter().position(|m| m.thread.is_some()).unwrap_or(said.len());
    Ok(visible(&said[..end], &sight(conversation)))
}

/// The answer of a run that ended; `told` is what its client saw of it already. It takes its place in the thread as the client saw it.
pub(super) async fn answer_of(
    executor: &Executor,
    principal: &Principal,
    (settled, conversation): (&Settled, &Conversation),
    head: Head,
    end: &RunEnd,
    told: Option<&str>,
) -> Result<Answer> {
    let said = said_after(executor, principal, &settled.agent, settled.seq).await?;
    let upto = said.iter().take_while(|m| m.thread.is_none() || m.seq == end.last_seq);
    let upto = upto.count();
    let mut stands = visible(&said[..upto], &sight(conversation)).filter(|_| end.last_seq > 0);
    let text = stands.as_ref().map_or("", |stands| stands.seen.text.as_str());
    if text.trim().is_empty() && told.is_none_or(str::is_empty) {
        fault_of(end)?;
    }
    if let (Some(stands), Some(told)) = (&mut stands, told)
        && !stands.seen.text.starts_with(told)
    {
        // Something that was told is not on record: the client sends back what it saw.
        stands.seen.text = told.to_owned();
    }
    let calls = end.reason == RunReason::ClientCalls;
    if let Some(stands) = &mut stands {
        if !calls {
            stands.seen.calls.clear();
        }
        take_place(executor, principal, settled, stands).await?;
    }
    let nothing = || Seen::text(Role::Assistant, told.unwrap_or_default());
    let seen = stands.map_or_else(nothing, |stands| stands.seen);
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

/// A run without a word of an answer is an error where its model or its client is to blame; a budget that ended it is told as the reason.
fn fault_of(end: &RunEnd) -> Result<()> {
    let why: Option<Value> = end.fault.as_deref().map(Value::from);
    let with =
        |error: Error| why.clone().into_iter().fold(error, |error, why| error.with("why", why));
    match end.reason {
        RunReason::ModelFailed => {
            let text = "the model gave no answer: the same request asks it again";
            Err(with(Error::new(Code::ModelUnavailable, text)))
        }
        RunReason::Cancelled => Err(Error::new(
            Code::Timeout,
            "the run was cancelled: the same request goes on with it",
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
