//! Command that removes the texts of messages that are older than the retention age, and makes a
//! summary again that was made from such texts. The command writes in the same way as a tool, but
//! models cannot call it.

use serde_json::{Map, Value};

use super::spec::{Access, Command, Spec};
use crate::error::Result;
use crate::policy::{Ctx, Question, Step, Stop};
use crate::window::tokens;

/// Arguments of the removal.
#[derive(Clone, Debug)]
pub struct ExpireRecall {
    /// Time in ISO 8601 form; the texts of older messages are removed.
    pub before: String,
    /// Time in ISO 8601 form; a summary that is made again contains only later messages.
    pub fresh: String,
}

impl Command for ExpireRecall {
    const SPEC: Spec = Spec::command("expire_recall", Access::Signal);

    /// Removes the texts; does nothing if no message is old enough.
    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let due = ctx.answers.due(|| Question::Due { before: self.before.clone() })?;
        let settles = due.settled(ctx.core.expired.through_seq).is_some();
        // A write that also evicts asks for a summary of its own.
        let occupancy = tokens(ctx.core).occupancy;
        let renews = ctx.core.summary_has_expired() && occupancy < ctx.core.token_budget.flush;
        if due.is_empty() && !settles && !renews {
            return Ok(Step::Read(result(0, false)));
        }
        let mut draft = ctx.draft();
        if renews {
            let fresh = || Question::Evicted { since: self.fresh.clone() };
            draft.renew_expired(ctx.answers.evicted(fresh)?, ctx.answers)?;
        }
        let expired = if due.is_empty() && !settles { 0 } else { draft.expire(due) };
        ctx.finish(draft, result(expired, true))
    }
}

fn result(expired: u64, wrote: bool) -> Map<String, Value> {
    Map::from_iter([
        ("expired".to_owned(), Value::from(expired)),
        ("wrote".to_owned(), Value::Bool(wrote)),
    ])
}
