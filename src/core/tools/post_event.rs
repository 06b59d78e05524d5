//! Command that posts an event from outside; the event enters the queue as plain text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::append_fifo::{Parts, checked_parts, meta_of};
use super::spec::{Access, Command, Spec};
use crate::error::{Error, Result};
use crate::limits::TEXT_BYTES_MAX;
use crate::memory::message::{Kind, Role};
use crate::policy::{Ctx, Step, Stop};
use crate::trust::check_name;

/// Body of `POST /v1/agents/{agent}/events`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PostEvent {
    /// Class of the event.
    pub class: Class,
    /// Name of the event, in a word (`login`, `disk-full`).
    #[serde(default)]
    pub name: Option<String>,
    /// A text, or any JSON, which is converted to text.
    pub content: serde_json::Value,
}

/// Classes of events, after MemGPT (arXiv 2310.08560, §2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A message of a user.
    User,
    /// A warning or alert of the system.
    System,
    /// An action of a user, e.g. a login.
    #[serde(alias = "user-interaction")]
    UserInteraction,
    /// A timer fired.
    #[serde(alias = "timed")]
    Scheduled,
}

impl Class {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::System => "system",
            Self::UserInteraction => "user_interaction",
            Self::Scheduled => "scheduled",
        }
    }
}

impl Command for PostEvent {
    const SPEC: Spec = Spec::command("post_event", Access::Post);

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let role = if self.class == Class::User { Role::User } else { Role::System };
        let mut meta = meta_of(&Parts::default());
        meta.insert("class".into(), self.class.text().into());
        if let Some(name) = &self.name {
            meta.insert("event".into(), name.as_str().into());
        }
        let mut draft = ctx.draft();
        let (message_id, cost) = draft.push(Kind::Event, role, self.text(), meta);
        draft.interrupt_chain();
        let result = json!({"message_id": message_id, "token_estimate": cost});
        ctx.finish(draft, result)
    }
}

impl PostEvent {
    /// Checks the arguments beyond their types.
    pub fn checked(self) -> Result<Self> {
        if let Some(name) = &self.name {
            check_name("name", name)?;
        }
        let text = self.text();
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return Err(Error::argument("content", format!("use 1 to {TEXT_BYTES_MAX} bytes")));
        }
        checked_parts(&Parts { content: text, ..Parts::default() }, Role::User, "")?;
        Ok(self)
    }

    /// Returns the event as plain text: a user's words unchanged, any other event with its class
    /// and name in brackets before the text.
    fn text(&self) -> String {
        let body = match &self.content {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match (self.class, &self.name) {
            (Class::User, _) => body,
            (class, Some(name)) => format!("[{} {name}] {body}", class.text()),
            (class, None) => format!("[{}] {body}", class.text()),
        }
    }
}
