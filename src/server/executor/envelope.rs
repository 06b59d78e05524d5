//! Builds the envelope of a tool's result: the answer's JSON object, which has the result and
//! further fields such as the revision and token counts.
//!
//! The envelope for a change is built before the change is written, and stored with the change.

use serde_json::{Map, Value, json};

use vctx_core::memory::change::Change;
use vctx_core::memory::core::Core;
use vctx_core::policy::report;
use vctx_core::window::{Pressure, pressure, tokens};

/// Returns the envelope for a change. The revision is still missing, since only the write
/// determines it.
pub(super) fn of_change(change: &Change) -> Map<String, Value> {
    let (before, after) = (tokens(&change.before), tokens(&change.after));
    let mut map = of_core(&change.after);
    map.insert("result".into(), Value::Object(change.result.clone()));
    map.insert("token_estimate".into(), json!(difference(after.occupancy, before.occupancy)));
    if change.evict().is_some() {
        map.insert("pressure".into(), json!(Pressure::Flush));
    }
    map.entry("flush").or_insert(Value::Null);
    for (name, value) in &change.envelope {
        map.insert(name.clone(), value.clone());
    }
    map
}

/// Returns the envelope for a reading tool's result. `now_ms` is the server's time, at which the
/// heartbeat limits are reported.
pub(super) fn of_read(core: &Core, result: Map<String, Value>, now_ms: u64) -> Value {
    let mut map = of_core(core);
    map.insert("result".into(), Value::Object(result));
    let heartbeat = report(&core.heartbeat, now_ms, tokens(core).free);
    map.insert("heartbeat".into(), Value::Object(heartbeat));
    map.insert("token_estimate".into(), 0.into());
    finished(map, &core.rev, false)
}

/// Adds the agent's revision to an answer, and to the result if the result has an empty field
/// `_rev`. If the result's `_rev` is the revision of an archived document, that revision also
/// becomes the answer's `_rev`, and the agent's revision gets the field `agent_rev`.
pub(super) fn finished(mut map: Map<String, Value>, rev: &str, replayed: bool) -> Value {
    map.insert("_rev".into(), rev.into());
    if let Some(slot) = map.get_mut("result").and_then(|r| r.get_mut("_rev")) {
        if slot.is_null() {
            *slot = rev.into();
        } else {
            let own = slot.clone();
            map.insert("agent_rev".into(), rev.into());
            map.insert("_rev".into(), own);
        }
    }
    map.insert("replayed".into(), replayed.into());
    Value::Object(map)
}

fn of_core(core: &Core) -> Map<String, Value> {
    let now = tokens(core);
    let mut map = Map::new();
    map.insert("result".into(), Value::Null);
    map.insert("_rev".into(), Value::Null);
    map.insert("version".into(), core.version.into());
    map.insert("token_estimate".into(), 0.into());
    map.insert("tokens".into(), json!(now));
    map.insert("pressure".into(), json!(pressure(&core.token_budget, now.occupancy)));
    map.insert("heartbeat".into(), Value::Null);
    map
}

fn difference(after: u64, before: u64) -> i64 {
    let (after, before) = (i64::try_from(after), i64::try_from(before));
    after.unwrap_or(i64::MAX).saturating_sub(before.unwrap_or(i64::MAX))
}
