//! Command that records a prompt before the prompt is sent to the model. Models cannot call it.

use serde_json::{Value, json};

use super::hold_run::HoldRun;
use super::record_answer::check_short;
use super::spec::{Access, Command, Spec};
use crate::error::{Error, Result};
use crate::limits::LEASE_MS_BOUNDS;
use crate::memory::prompt::{RenderedPrompt, SentPrompt, ToolSet};
use crate::policy::{Ctx, PromptContext, Step, Stop};

/// Maximum size of the tool schemas that a prompt offers, in bytes of their JSON.
const TOOL_SET_BYTES_MAX: usize = 512 * 1024;
/// Maximum size of a prompt's options, in bytes of their JSON.
const PROMPT_OPTIONS_BYTES_MAX: usize = 64 * 1024;

/// The prompt to send, and its run.
#[derive(Clone, Debug)]
pub struct RecordPrompt {
    /// Lease of the run, which this call takes or renews.
    pub hold: HoldRun,
    /// The rendered window.
    pub window: RenderedPrompt,
    /// Model, tools and options of the request, and the digest of its bytes.
    pub sent: SentPrompt,
    /// Schemas of the offered tools; empty if there are none.
    pub tools: Vec<Value>,
    /// The context that was built for the prompt, if one was to be built.
    pub context: Option<PromptContext>,
}

impl Command for RecordPrompt {
    const SPEC: Spec = Spec::command("record_prompt", Access::Post);

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        self.check()?;
        let set = ToolSet::of(&ctx.core.agent_id, &self.tools);
        if set.as_ref().is_some_and(|set| set.text.len() > TOOL_SET_BYTES_MAX) {
            let text = format!("longer than {TOOL_SET_BYTES_MAX} bytes: offer fewer");
            return Err(Error::argument("tools", text).into());
        }
        let mut draft = ctx.draft();
        self.hold.hold(&mut draft, ctx)?;
        draft.check_spending(self.window.token_estimate)?;
        let sent =
            SentPrompt { tools: set.as_ref().map(|set| set.digest.clone()), ..self.sent.clone() };
        let turn = draft.ask(self.window.clone(), sent, set, self.context.clone());
        let result = json!({"turn": turn, "token_estimate": self.window.token_estimate,
            "factor_permille": draft.factor_of(&self.sent.model), "request_digest": self.sent.request_digest});
        ctx.finish(draft, result)
    }
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
}
