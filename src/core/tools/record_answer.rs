//! Command that records a model's answer (the assistant's message and the end of the prompt) in one
//! write. The command writes in the same way as a tool, but models cannot call it.

use serde_json::json;

use super::append_fifo::{CallKind, Function, Parts, ToolCall, checked_parts, meta_of};
use super::spec::{Access, Command, Spec};
use crate::error::{Error, Result};
use crate::limits::{KEY_BYTES_MAX, PREVIEW_TOKENS_MIN};
use crate::memory::Labels;
use crate::memory::message::{Kind, Role};
use crate::memory::run::{self, Usage};
use crate::policy::{Ctx, Draft, PromptOutcome, Step, Stop, Surroundings, preview};
use crate::window::{Section, open_call, summary_tokens_max, tokens};

/// A model's answer to a prompt, or the error that ended the prompt.
#[derive(Clone, Debug)]
pub struct RecordAnswer {
    /// Key of the run.
    pub run: String,
    /// Name of the holder of the run's lease.
    pub owner: String,
    /// Number of the prompt.
    pub turn: u64,
    /// The model's text; empty if the answer consists of tool calls only, or if its text is not
    /// stored.
    pub content: String,
    /// Tool calls of the answer.
    pub tool_calls: Vec<run::ToolCall>,
    /// Reason why the model stopped, or the error.
    pub finish: String,
    /// Token counts that the model's provider reported.
    pub usage: Option<Usage>,
}

impl Command for RecordAnswer {
    const SPEC: Spec = Spec::command("record_answer", Access::Post);

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        check_short("finish", &self.finish)?;
        let parts = self.parts()?;
        let mut draft = ctx.draft();
        draft.waits_for(&self.run, &self.owner, self.turn)?;
        let mut result = json!({"turn": self.turn});
        if let Some(parts) = parts {
            let (message_id, cost, spooled) = self.say(ctx.around, &mut draft, &parts);
            result["message_id"] = message_id.into();
            result["seq"] = draft.last_seq().into();
            result["token_estimate"] = cost.into();
            if !spooled.is_empty() {
                result["spooled"] = json!(spooled);
            }
        }
        let answer_seq = result["seq"].as_u64();
        let outcome = PromptOutcome { finish: &self.finish, usage: self.usage, answer_seq };
        if let Some(end) = draft.answered(&outcome) {
            result["counted_permille"] = json!(end.counted_permille);
            result["variance_flag"] = end.variance_flag.into();
            result["duration_ms"] = end.duration_ms.into();
        }
        ctx.finish(draft, result)
    }
}

impl RecordAnswer {
    fn parts(&self) -> Result<Option<Parts>> {
        if self.content.is_empty() && self.tool_calls.is_empty() {
            return Ok(None);
        }
        let call = |call: &run::ToolCall| ToolCall {
            id: call.id.clone(),
            kind: CallKind::Function,
            function: Function { name: call.name.clone(), arguments: call.arguments.clone() },
        };
        let calls: Vec<ToolCall> = self.tool_calls.iter().map(call).collect();
        let parts = Parts {
            content: self.content.clone(),
            tool_calls: (!calls.is_empty()).then_some(calls),
            ..Parts::default()
        };
        checked_parts(&parts, Role::Assistant, "")?;
        Ok(Some(parts))
    }

    /// Appends the answer to the queue. If the answer would not fit even after an eviction, recall
    /// storage receives the whole answer and the queue only its beginning.
    fn say(
        &self,
        around: Surroundings<'_>,
        draft: &mut Draft<'_>,
        parts: &Parts,
    ) -> (String, u64, Vec<String>) {
        let mut meta = meta_of(parts);
        if let Some(run) = &draft.after.run {
            Labels::read(run.labels.iter().map(String::as_str)).store(&mut meta);
        }
        meta.insert("turn".into(), self.turn.into());
        // The answer's cost includes the placeholders for the missing results of its calls.
        let calls = parts.tool_calls.iter().flatten();
        let open: u64 =
            calls.map(|call| open_call(around.counter, &call.id, 0, None).token_estimate).sum();
        let stamped = draft.clone();
        let cost = |text: &str| stamped.turn_cost(Role::Assistant, text, &meta) + open;
        let now = tokens(&draft.after);
        // The tokens of the offered tools are not counted here, because the length of the answer
        // was already limited to the room that the tools leave.
        let moves = [Section::Queue, Section::Summary, Section::Notices, Section::Tools];
        let taken = now.without(&moves) + summary_tokens_max(draft.after.context_window);
        let room = draft.after.token_budget.flush.saturating_sub(taken);
        if cost(&parts.content) <= room {
            let (id, cost) = draft.push(Kind::Turn, Role::Assistant, parts.content.clone(), meta);
            return (id, cost, Vec::new());
        }
        let frame = cost("");
        let shown = (room.saturating_sub(frame) / 2).max(PREVIEW_TOKENS_MIN);
        let text = preview(around.counter, &parts.content, shown);
        let spooled = draft.spool(&parts.content);
        let (id, cost) = draft.push(Kind::Turn, Role::Assistant, text, meta);
        (id, cost, spooled)
    }
}

/// Refuses a name or reason that is empty or too long.
pub(super) fn check_short(name: &str, text: &str) -> Result<()> {
    if text.is_empty() || text.len() > KEY_BYTES_MAX {
        return Err(Error::argument(name, format!("use 1 to {KEY_BYTES_MAX} bytes")));
    }
    Ok(())
}
