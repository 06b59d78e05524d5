//! MemGPT's tool `send_message`, which appends an ordinary assistant message.

use serde_json::{Map, json};

use super::spec::{Access, Command, Spec};
use crate::error::{Error, Result};
use crate::limits::TEXT_BYTES_MAX;
use crate::memory::message::{Kind, Role};
use crate::policy::{Ctx, Step, Stop};

/// Arguments of the tool.
#[derive(Clone, Debug)]
pub struct Say {
    /// The text that the user sees.
    pub message: String,
}

impl Command for Say {
    const SPEC: Spec = Spec::tool("say", Access::Write);

    fn user_text(&self) -> Option<&str> {
        Some(&self.message)
    }

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        if ctx.around.capture.is_some() {
            // The queue already contains the text, in the assistant message that makes this call.
            return Ok(Step::Read(Map::new()));
        }
        let mut draft = ctx.draft();
        let (message_id, cost) =
            draft.push(Kind::Turn, Role::Assistant, self.message.clone(), Map::new());
        let result = json!({"message_id": message_id, "token_estimate": cost});
        ctx.finish(draft, result)
    }
}

impl Say {
    /// Checks the rules for arguments that their types do not express.
    pub fn checked(self) -> Result<Self> {
        if self.message.is_empty() || self.message.len() > TEXT_BYTES_MAX {
            return Err(Error::argument("message", format!("use 1 to {TEXT_BYTES_MAX} bytes")));
        }
        Ok(self)
    }
}
