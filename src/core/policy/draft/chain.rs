//! Beats of the agent's chain inside a change, and the events that tell of its beginning and end.

use serde_json::{Map, Value, json};

use super::Draft;
use crate::memory::event::EventType;
use crate::memory::heartbeat::{ClosedBy, EndedChain};
use crate::memory::receipt;
use crate::policy::budget::tokens;
use crate::policy::heartbeat::{self, Intent, Outcome};

impl Draft<'_> {
    /// A beat of the agent's chain, weighed when everything else of this call is decided: on what the window then has left.
    /// The answer's `heartbeat` tells what became of it.
    pub fn beat(&mut self, intent: Intent) {
        self.intent = Some(intent);
    }

    /// A beat that is weighed now, for a call that does nothing else. `note` names it in its events.
    pub fn beat_now(&mut self, intent: Intent, note: Option<&str>) -> Outcome {
        let free = tokens(&self.after).free;
        let (ids, now) = (self.around.ids, self.around.unix_ms);
        let outcome = heartbeat::beat(&mut self.after.heartbeat, now, free, intent, || ids.key());
        self.heartbeat = heartbeat::outcome_fields(&outcome);
        match &outcome {
            Outcome::Granted { chain, first: true, depth, .. } => {
                self.chain_started(chain, *depth, note);
            }
            Outcome::Ended { chain, first } => {
                if *first {
                    self.chain_started(&chain.id, chain.depth, note);
                }
                self.chain_ended(chain, note);
            }
            Outcome::Granted { .. }
            | Outcome::Idle
            | Outcome::Limited { .. }
            | Outcome::Cooling { .. } => {}
        }
        outcome
    }

    /// Counts this call in the chain that runs; true if it ended the chain, since it brought nothing new once too often.
    pub(super) fn ends_loop(&mut self, result: &Map<String, Value>) -> bool {
        if self.around.asked.is_empty() || self.after.heartbeat.chain.is_none() {
            return false;
        }
        let digest = digest_of(self.around.asked, result);
        let (state, now) = (&mut self.after.heartbeat, self.around.unix_ms);
        let Some(chain) = heartbeat::repeated(state, now, digest) else { return false };
        let refused = self.intent.take().is_some();
        self.end_of_chain(chain);
        if refused {
            self.heartbeat.insert("granted".into(), false.into());
        }
        true
    }

    /// Something happened outside: a chain that runs ends here, and the next beat starts another.
    pub fn interrupt_chain(&mut self) {
        if let Some(chain) = heartbeat::interrupt(&mut self.after.heartbeat, self.around.unix_ms) {
            self.end_of_chain(chain);
        }
    }

    /// Ends a chain that outlived its cap; true if there was one.
    pub fn bury_chain(&mut self, closed_by: ClosedBy) -> bool {
        let (state, now) = (&mut self.after.heartbeat, self.around.unix_ms);
        let dead = heartbeat::bury(state, now, closed_by);
        let found = dead.is_some();
        if let Some(chain) = dead {
            self.end_of_chain(chain);
        }
        found
    }

    fn end_of_chain(&mut self, chain: EndedChain) {
        self.chain_ended(&chain, None);
        self.heartbeat = heartbeat::outcome_fields(&Outcome::Ended { chain, first: false });
        self.heartbeat.remove("granted");
    }

    fn chain_started(&mut self, chain: &str, depth: u64, note: Option<&str>) {
        let free = tokens(&self.after).free;
        let details = json!({"chain": chain, "chain_depth": depth, "duration_ms": 0, "tokens_remaining": free,
            "limits": self.after.heartbeat.limits, "tool": self.around.tool, "note": note});
        self.event(EventType::HbStart, details);
    }

    fn chain_ended(&mut self, chain: &EndedChain, note: Option<&str>) {
        let free = tokens(&self.after).free;
        let details = json!({"chain": chain.id, "chain_depth": chain.depth, "duration_ms": chain.duration_ms,
            "tokens_remaining": free, "reason": chain.reason, "closed_by": chain.closed_by,
            "tool": self.around.tool, "note": note});
        self.event(EventType::HbEnd, details);
    }
}

/// Hex digits of a call's digest in its chain (64 bits; it only tells calls of one chain apart).
const CALL_DIGITS: usize = 16;

/// Digest of what a call asked and what it was answered, without what differs each time though nothing new was found: handles of kept
/// lists, scores that time moves, revisions.
fn digest_of(asked: &str, result: &Map<String, Value>) -> String {
    let mut same = Value::Object(result.clone());
    drop_passing(&mut same);
    let mut digest = receipt::sha256(&format!("{asked}\0{}", receipt::canonical_json(&same)));
    digest.truncate(CALL_DIGITS);
    digest
}

/// Names of what passes in a result.
const PASSING: [&str; 7] =
    ["_rev", "next_page_token", "tokens_added", "copy_seq", "score", "similarity", "parts"];

fn drop_passing(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|name, _| !PASSING.contains(&name.as_str()));
            map.values_mut().for_each(drop_passing);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_passing),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
