//! The end of what was said so long ago that the policy of retention lets it go: no tool of a model, but a write like any other.

use serde_json::{Map, Value};

use super::append_fifo::own_flush;
use super::spec::Step;
use crate::error::Result;
use crate::memory::core::Core;
use crate::policy::{Answers, Draft, Question, Surroundings};

/// What is meant.
#[derive(Clone, Debug)]
pub struct ExpireRecall {
    /// The moment before which the time of what was said is over, in ISO form.
    pub before: String,
}

impl ExpireRecall {
    /// Thinks: what the call does to this core. Nothing, if nothing is due.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let Some(due) = &answers.due else {
            return Ok(Step::Ask(Question::Due { before: self.before.clone() }));
        };
        if due.is_empty() && due.settled(core.expired.through_seq).is_none() {
            return Ok(Step::Read(result(0, false)));
        }
        let mut draft = Draft::new(around, core);
        let expired = draft.expire(due);
        Ok(draft.finish(own_flush(core), answers, result(expired, true))?.into())
    }
}

fn result(expired: u64, wrote: bool) -> Map<String, Value> {
    Map::from_iter([
        ("expired".to_owned(), Value::from(expired)),
        ("wrote".to_owned(), Value::Bool(wrote)),
    ])
}
