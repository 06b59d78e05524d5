//! What left the window, by when it was appended: no words are looked for, and nothing comes back into the window.

use serde_json::{Map, Value, json};

use super::append_fifo::own_flush;
use super::spec::Step;
use crate::error::{Error, Result};
use crate::limits::{RECALL_DATED_OFFSET_MAX, RECALL_LIMIT, TRACE_CHARS_MAX};
use crate::memory::core::Core;
use crate::memory::message::Role;
use crate::policy::{Answers, Dated, Draft, Question, Surroundings, Untrusted};

/// Which entries are wanted.
#[derive(Clone, Debug)]
pub struct RecallDates {
    /// First moment and the first one behind the last, with the part of the list.
    pub dated: Dated,
    /// Whether to be called again at once.
    pub heartbeat: bool,
}

impl RecallDates {
    /// The same, checked beyond its types; a fault names the argument.
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

    /// Thinks: what the call does to this core.
    pub(super) fn step(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        answers: &Answers,
    ) -> Result<Step> {
        let Some(found) = &answers.dated else {
            return Ok(Step::Ask(Question::Dated(self.dated.clone())));
        };
        let result = self.result(around, core, &found.results, found.total);
        if !self.heartbeat {
            return Ok(Step::Read(result));
        }
        Ok(Draft::new(around, core).finish(own_flush(core), answers, result)?.into())
    }

    fn result(
        &self,
        around: Surroundings<'_>,
        core: &Core,
        found: &[Value],
        total: u64,
    ) -> Map<String, Value> {
        let next = self.dated.offset + found.len() as u64;
        let shown = found.iter().map(|one| {
            let mut one = one.clone();
            guard(around, core, &mut one);
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

/// Tells the rules that an entry meets, and its text only if that may be told.
fn guard(around: Surroundings<'_>, core: &Core, one: &mut Value) {
    let Some(entry) = one.as_object_mut() else { return };
    let marked = entry.shift_remove("taint").unwrap_or_default();
    let marked = marked.as_array().into_iter().flatten().filter_map(Value::as_str);
    let text = |entry: &Map<String, Value>, name: &str| {
        entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (content, id) = (text(entry, "content"), text(entry, "id"));
    let mut rules: Vec<String> = marked.map(str::to_owned).collect();
    if rules.is_empty() && text(entry, "role") == Role::Tool.text() {
        rules = around.taint.rules_in(&content);
    }
    let Untrusted { rules, held } = around.taint.guarded(core, rules, &id, "", &content);
    if !rules.is_empty() {
        entry.insert("tainted".into(), json!(rules));
    }
    if let Some(told) = held {
        entry.insert("chars".into(), told.chars().count().into());
        entry.insert("content".into(), told.into());
        entry.insert("quarantined".into(), true.into());
    }
}
