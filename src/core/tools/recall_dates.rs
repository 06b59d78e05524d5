//! Lists the messages in recall storage that were appended within a span of time, without a search
//! for words and without copies in the queue.

use serde_json::{Map, Value, json};

use super::spec::{Access, Command, Spec};
use crate::error::{Error, Result};
use crate::limits::{RECALL_DATED_OFFSET_MAX, RECALL_LIMIT, TRACE_CHARS_MAX};
use crate::memory::message::Role;
use crate::policy::{Ctx, Dated, Question, Step, Stop};
use crate::trust::TaintReport;

/// Request for a part of the list of messages from a span of time.
#[derive(Clone, Debug)]
pub struct RecallDates {
    /// Start and exclusive end of the span, and the requested part of the list.
    pub dated: Dated,
    /// Whether the call requests the model's next inference (a heartbeat).
    pub heartbeat: bool,
}

impl Command for RecallDates {
    const SPEC: Spec = Spec { tells_messages: true, ..Spec::tool("recall_dates", Access::Search) };

    fn writes(&self) -> bool {
        self.heartbeat
    }

    fn beats(&self) -> bool {
        self.heartbeat
    }

    fn step(&self, ctx: &Ctx<'_>) -> Result<Step, Stop> {
        let found = ctx.answers.dated(|| Question::Dated(self.dated.clone()))?;
        let result = self.result(ctx, &found.results, found.total);
        if !self.heartbeat {
            return Ok(Step::Read(result));
        }
        ctx.finish(ctx.draft(), result)
    }
}

impl RecallDates {
    /// Checks the arguments beyond their types; an error names the argument.
    pub fn checked(self) -> Result<Self> {
        let (_, most) = RECALL_LIMIT;
        if self.dated.limit == 0 || self.dated.limit > most {
            return Err(Error::argument("limit", format!("use 1 to {most}")));
        }
        if self.dated.offset > RECALL_DATED_OFFSET_MAX {
            return Err(Error::argument("offset", format!("at most {RECALL_DATED_OFFSET_MAX}")));
        }
        Ok(self)
    }

    fn result(&self, ctx: &Ctx<'_>, found: &[Value], total: u64) -> Map<String, Value> {
        let next = self.dated.offset + found.len() as u64;
        let shown = found.iter().map(|one| {
            let mut one = one.clone();
            guard(ctx, &mut one);
            let longer = one["chars"].as_u64().is_some_and(|chars| chars > TRACE_CHARS_MAX);
            if let Some(map) = one.as_object_mut() {
                map.retain(|name, value| (name != "chars" || longer) && !value.is_null());
                if longer {
                    map.insert("truncated".into(), true.into());
                }
            }
            one
        });
        let mut result = Map::new();
        result.insert("results".into(), shown.collect());
        result.insert("total".into(), total.into());
        result.insert("next_offset".into(), json!((next < total).then_some(next)));
        result
    }
}

/// Adds the taint rules that an entry's text matches; if the entry is in quarantine, replaces its
/// text by the reason and removes `said_at`, which the sender of the text may have chosen.
fn guard(ctx: &Ctx<'_>, one: &mut Value) {
    let Some(entry) = one.as_object_mut() else { return };
    let marked = entry.shift_remove("taint").unwrap_or_default();
    let marked = marked.as_array().into_iter().flatten().filter_map(Value::as_str);
    let text = |entry: &Map<String, Value>, name: &str| {
        entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (content, id) = (text(entry, "content"), text(entry, "id"));
    let mut rules: Vec<String> = marked.map(str::to_owned).collect();
    if rules.is_empty() && text(entry, "role") == Role::Tool.text() {
        let (name, said_at) = (text(entry, "name"), text(entry, "said_at"));
        rules = ctx.around.taint.rules_in(&content, &[&name, &said_at]);
    }
    let TaintReport { rules, held } = ctx.around.taint.guarded(ctx.core, rules, &id, "", &content);
    if !rules.is_empty() {
        entry.insert("tainted".into(), json!(rules));
    }
    if let Some(told) = held {
        entry.insert("chars".into(), told.chars().count().into());
        entry.insert("content".into(), told.into());
        entry.insert("quarantined".into(), true.into());
        entry.shift_remove("said_at");
    }
}
