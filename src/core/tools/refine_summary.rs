//! Command that replaces a summary, which the local summariser made during an eviction, by one that
//! a model writes. Models cannot call the command.

use serde_json::{Map, Value};

use super::spec::{Access, Command, Spec};
use crate::error::Result;
use crate::memory::change::Refinable;
use crate::policy::{Ctx, DEGRADED, Question, Step, Stop};

/// Arguments of the command.
#[derive(Clone, Debug)]
pub struct RefineSummary {
    /// The eviction, and the summary that is replaced.
    pub of: Refinable,
}

impl Command for RefineSummary {
    /// The duration contains the model's time, so it is not measured as a write.
    const SPEC: Spec = Spec { path: None, ..Spec::command("refine_summary", Access::Signal) };

    /// Writes the model's summary. Writes nothing if the summary is no longer the one that the
    /// eviction wrote, if a text was forgotten since, or if no answer of the model is usable.
    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let is_current = ctx.core.queue_head_summary.revision == self.of.revision
            && ctx.core.forgotten.messages == self.of.forgotten;
        if !is_current {
            return Ok(Step::Read(result(false, Value::Null)));
        }
        let evicted = ctx.answers.evicted(|| Question::Evicted { since: String::new() })?;
        let mut draft = ctx.draft();
        match draft.refine_summary(&self.of, evicted, ctx.answers)? {
            Ok(()) => ctx.finish(draft, result(true, Value::Null)),
            Err(reason) => Ok(Step::Read(result(false, reason))),
        }
    }
}

fn result(wrote: bool, reason: Value) -> Map<String, Value> {
    Map::from_iter([("wrote".to_owned(), wrote.into()), (DEGRADED.to_owned(), reason)])
}
