//! A model's answer: the assistant's message and the end of its prompt in one write; no tool of a model, but a write like any other.

use serde_json::{Map, Value, json};

use super::append_fifo::{CallKind, Function, Parts, ToolCall, checked_parts, meta_of, own_flush};
use super::spec::Step;
use crate::error::{Error, Result};
use crate::limits::{KEY_BYTES_MAX, PREVIEW_TOKENS_MIN};
use crate::memory::core::Core;
use crate::memory::message::{Kind, Role, rendered};
use crate::memory::render;
use crate::memory::run::{self, Usage};
use crate::memory::tokens::message_cost;
use crate::policy::{
    Answers, Draft, PromptOutcome, Surroundings, preview, summary_tokens_max, tokens,
};

/// What became of a prompt.
#[derive(Clone, Debug)]
pub struct RecordAnswer {
    /// Key of the run.
    pub run: String,
    /// Who holds it.
    pub owner: String,
    /// Number of the prompt.
    pub turn: u64,
    /// What the model said; empty beside calls, or where nothing is to be kept.
    pub content: String,
    /// Calls that it makes.
    pub tool_calls: Vec<run::ToolCall>,
    /// Why it stopped, or what went wrong.
    pub finish: String,
    /// The provider's count.
    pub usage: Option<Usage>,
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

    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        check_short("finish", &self.finish)?;
        let parts = self.parts()?;
        let mut draft = Draft::new(around, core);
        draft.waits_for(&self.run, &self.owner, self.turn)?;
        let mut result = json!({"turn": self.turn});
        if let Some(parts) = parts {
            let (message_id, cost, spooled) = self.say(around, &mut draft, &parts);
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
        Ok(draft.finish(own_flush(core), answers, object(result))?.into())
    }

    /// Puts the answer into the queue. One that no eviction makes room for lies in recall storage whole, and its beginning in the queue.
    fn say(
        &self,
        around: Surroundings<'_>,
        draft: &mut Draft<'_>,
        parts: &Parts,
    ) -> (String, u64, Vec<String>) {
        let mut meta = meta_of(parts);
        meta.insert("turn".into(), self.turn.into());
        // What stands in the places of their results comes with the calls.
        let calls = parts.tool_calls.iter().flatten();
        let open: u64 =
            calls.map(|call| render::open_call(around.counter, &call.id, 0).token_estimate).sum();
        let cost = |text: &str| {
            message_cost(around.counter, &rendered(Role::Assistant, text, &meta)) + open
        };
        let now = tokens(&draft.after);
        let taken = now.system + now.working + summary_tokens_max(draft.after.context_window);
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

/// Refuses what is too long for a name or a reason.
pub(super) fn check_short(name: &str, text: &str) -> Result<()> {
    if text.is_empty() || text.len() > KEY_BYTES_MAX {
        return Err(Error::argument(name, format!("use 1 to {KEY_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// The object that a value is known to be.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
