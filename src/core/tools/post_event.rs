//! Events from outside: the dispatcher's way into the queue, as plain text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::append_fifo::{Parts, checked_parts, meta_of, own_flush};
use super::spec::Step;
use crate::error::{Error, Result};
use crate::limits::TEXT_BYTES_MAX;
use crate::memory::core::Core;
use crate::memory::message::{Kind, Role};
use crate::policy::{Answers, Draft, Surroundings, check_name};

/// Body of `POST /v1/agents/{agent}/events`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PostEvent {
    /// Which of the four classes.
    pub class: Class,
    /// What happened, in a word (`login`, `disk-full`).
    #[serde(default)]
    pub name: Option<String>,
    /// A text, or any JSON that becomes one.
    pub content: serde_json::Value,
}

/// Classes of events (DP-02 of the requirements, after MemGPT §2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A message of a user.
    User,
    /// A warning or alert of the system.
    System,
    /// A user did something, e.g. logged in.
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

impl PostEvent {
    /// Checks what serde cannot.
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

    /// The event as plain text: a user's words as they are, everything else headed by class and name.
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

    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let role = if self.class == Class::User { Role::User } else { Role::System };
        let mut meta = meta_of(&Parts::default());
        meta.insert("class".into(), self.class.text().into());
        if let Some(name) = &self.name {
            meta.insert("event".into(), name.as_str().into());
        }
        let mut draft = Draft::new(around, core);
        let (message_id, cost) = draft.push(Kind::Event, role, self.text(), meta);
        draft.interrupt_chain();
        let result = json!({"message_id": message_id, "token_estimate": cost});
        let result = result.as_object().cloned().unwrap_or_default();
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }
}
