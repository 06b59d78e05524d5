//! What is said to the user by a tool, as MemGPT's `send_message` has it: an assistant's message like any other.

use serde_json::{Map, json};

use super::append_fifo::own_flush;
use super::spec::Step;
use crate::error::{Error, Result};
use crate::limits::TEXT_BYTES_MAX;
use crate::memory::core::Core;
use crate::memory::message::{Kind, Role};
use crate::policy::{Answers, Draft, Surroundings};

/// What is said.
#[derive(Clone, Debug)]
pub struct Say {
    /// The text that the user sees.
    pub message: String,
}

impl Say {
    /// The same, checked beyond its types.
    pub fn checked(self) -> Result<Self> {
        if self.message.is_empty() || self.message.len() > TEXT_BYTES_MAX {
            return Err(Error::argument("message", format!("use 1 to {TEXT_BYTES_MAX} bytes")));
        }
        Ok(self)
    }

    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        if around.capture.is_some() {
            // The message that makes the call holds what is said, and stands in the queue already.
            return Ok(Step::Read(Map::new()));
        }
        let mut draft = Draft::new(around, core);
        let (message_id, cost) =
            draft.push(Kind::Turn, Role::Assistant, self.message.clone(), Map::new());
        let result = json!({"message_id": message_id, "token_estimate": cost});
        let result = result.as_object().cloned().unwrap_or_default();
        Ok(draft.finish(own_flush(core), answers, result)?.into())
    }
}
