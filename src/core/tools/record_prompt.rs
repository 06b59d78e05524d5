//! A prompt on record before it is sent: no tool of a model, but a write like any other.

use serde_json::{Value, json};

use super::append_fifo::own_flush;
use super::hold_run::HoldRun;
use super::record_answer::{check_short, object};
use super::spec::Step;
use crate::error::{Error, Result};
use crate::limits::{LEASE_MS_BOUNDS, PROMPT_OPTIONS_BYTES_MAX, TOOL_SET_BYTES_MAX};
use crate::memory::core::Core;
use crate::memory::prompt::{Rendered, Sent, ToolSet};
use crate::policy::{Answers, Draft, Surroundings};

/// What is sent, and in which run.
#[derive(Clone, Debug)]
pub struct RecordPrompt {
    /// The run, opened or renewed by this.
    pub hold: HoldRun,
    /// The window as it was rendered.
    pub window: Rendered,
    /// Model, tools, options, digest of the bytes.
    pub sent: Sent,
    /// Schemas of the tools that are offered; empty: none.
    pub tools: Vec<Value>,
}

impl RecordPrompt {
    fn check(&self) -> Result<()> {
        check_short("run", &self.hold.run)?;
        check_short("owner", &self.hold.owner)?;
        let (shortest, longest) = LEASE_MS_BOUNDS;
        if self.hold.lease_ms < shortest || self.hold.lease_ms > longest {
            return Err(Error::argument("lease_ms", format!("use {shortest} to {longest}")));
        }
        check_short("model", &self.sent.model)?;
        if self.sent.options.len() > PROMPT_OPTIONS_BYTES_MAX {
            let text = format!("longer than {PROMPT_OPTIONS_BYTES_MAX} bytes");
            return Err(Error::argument("options", text));
        }
        Ok(())
    }

    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        self.check()?;
        let set = ToolSet::of(&core.agent_id, &self.tools);
        if set.as_ref().is_some_and(|set| set.text.len() > TOOL_SET_BYTES_MAX) {
            let text = format!("longer than {TOOL_SET_BYTES_MAX} bytes: offer fewer");
            return Err(Error::argument("tools", text));
        }
        let mut draft = Draft::new(around, core);
        if let Some(question) = self.hold.hold(&mut draft, around.unix_ms, core, answers)? {
            return Ok(Step::Ask(question));
        }
        let sent = Sent { tools: set.as_ref().map(|set| set.digest.clone()), ..self.sent.clone() };
        let turn = draft.ask(self.window.clone(), sent, set);
        let result = json!({"turn": turn, "token_estimate": self.window.token_estimate,
            "factor_permille": draft.factor_of(&self.sent.model), "request_digest": self.sent.request_digest});
        Ok(draft.finish(own_flush(core), answers, object(result))?.into())
    }
}
