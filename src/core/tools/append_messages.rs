//! Command that appends several messages to the queue in one write.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::append_fifo::{Parts, ToolCall, checked_parts, meta_of};
use super::spec::{Access, Command, Spec, optional_object};
use crate::error::{Error, Result};
use crate::limits::APPENDED_MAX;
use crate::memory::Labels;
use crate::memory::message::{Kind, Role};
use crate::policy::{Ctx, Draft, Step, Stop};
use crate::window::{Section, summary_tokens_max, tokens};

/// Body of `POST /v1/agents/{agent}/messages`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendMessages {
    /// The messages, oldest first.
    #[schemars(length(min = 1, max = 256))]
    pub messages: Vec<NewMessage>,
}

/// One of several messages to append.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// The text; may be empty if there are tool calls.
    pub content: String,
    /// Who speaks.
    pub role: Role,
    /// Name of the speaker.
    #[serde(default)]
    pub name: Option<String>,
    /// Tool calls that an assistant makes.
    #[serde(default)]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// The call that a tool's message answers.
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// When the text was said, by the client's clock; free text.
    #[serde(default)]
    pub said_at: Option<String>,
    /// User, session, tags and metadata, by which searches select.
    #[serde(default, deserialize_with = "optional_object")]
    pub labels: Option<Labels>,
}

impl NewMessage {
    fn parts(&self) -> Parts {
        Parts {
            content: self.content.clone(),
            name: self.name.clone(),
            // An empty list of calls is stored as no list, because chat formats refuse it.
            tool_calls: self.tool_calls.clone().filter(|calls| !calls.is_empty()),
            tool_call_id: self.tool_call_id.clone(),
            said_at: self.said_at.clone(),
            labels: self.labels.clone(),
        }
    }
}

impl AppendMessages {
    /// Checks the arguments beyond their types.
    pub fn checked(self) -> Result<Self> {
        if self.messages.is_empty() || self.messages.len() > APPENDED_MAX {
            return Err(Error::argument("messages", format!("give 1 to {APPENDED_MAX}")));
        }
        for (at, message) in self.messages.iter().enumerate() {
            checked_parts(&message.parts(), message.role, &format!("messages[{at}]."))?;
        }
        Ok(self)
    }
}

impl Command for AppendMessages {
    const SPEC: Spec = Spec::command("append_messages", Access::Post);

    /// Appends as many of the messages as one write can take, at least the first one. An eviction
    /// never removes a message of its own write, so the messages of one write must fit together
    /// into the part of the window that an eviction leaves.
    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let mut draft = ctx.draft();
        if self.messages.iter().any(|message| message.tool_call_id.is_some()) {
            draft.know_open_calls(ctx.answers)?;
        }
        let mut room = room(&draft);
        let mut appended = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            let parts = message.parts();
            let meta = meta_of(&parts);
            let expected = draft.turn_cost(message.role, &parts.content, &meta);
            if !appended.is_empty() && expected > room {
                break;
            }
            room = room.saturating_sub(expected);
            if let Some(id) = &parts.tool_call_id {
                draft.pair(id, &format!("messages[{at}].tool_call_id"), ctx.answers)?;
            }
            let (message_id, cost) = draft.push(Kind::Turn, message.role, parts.content, meta);
            appended.push(
                json!({"message_id": message_id, "seq": draft.last_seq(), "token_estimate": cost}),
            );
        }
        if self.messages[..appended.len()].iter().any(|message| message.role == Role::User) {
            draft.interrupt_chain();
        }
        let rest = self.messages.len() - appended.len();
        ctx.finish(draft, json!({"appended": appended, "rest": rest}))
    }
}

/// Returns the number of tokens that the messages of one write may take: what the fixed sections
/// and the longest summary leave of the window that an eviction aims at.
fn room(draft: &Draft<'_>) -> u64 {
    let passing = [Section::Queue, Section::Summary, Section::Notices];
    let fixed = tokens(&draft.after).without(&passing);
    let summary = summary_tokens_max(draft.after.context_window);
    draft.after.token_budget.target.saturating_sub(fixed + summary)
}
