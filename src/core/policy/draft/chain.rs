//! Applies the beats of an agent's heartbeat chain in a change, and writes the events for the
//! beginning and end of a chain.

use serde_json::{Map, Value, json};

use super::Draft;
use crate::memory::event::{EventType, named};
use crate::memory::heartbeat::{ClosedBy, EndedChain};
use crate::memory::receipt;
use crate::policy::heartbeat::{self, BeatResult, Intent};
use crate::window::tokens;

impl Draft<'_> {
    /// Requests a beat for the agent's heartbeat chain. The beat is granted or refused at the end
    /// of the call, because the free tokens are known only then. The answer's field `heartbeat`
    /// contains the outcome.
    pub fn beat(&mut self, intent: Intent) {
        self.intent = Some(intent);
    }

    /// Grants or refuses a beat immediately, for example for a call that only sends a beat. The
    /// text `note` is added to the beat's events.
    pub fn beat_now(&mut self, intent: Intent, note: Option<&str>) -> BeatResult {
        let free = tokens(&self.after).free;
        let (ids, now) = (self.around.ids, self.around.unix_ms);
        let outcome = heartbeat::beat(&mut self.after.heartbeat, now, free, intent, || ids.key());
        self.heartbeat = heartbeat::outcome_fields(&outcome);
        match &outcome {
            BeatResult::Granted { chain, first: true, depth, .. } => {
                self.chain_started(chain, *depth, note);
            }
            BeatResult::Ended { chain, first } => {
                if *first {
                    self.chain_started(&chain.id, chain.depth, note);
                }
                self.chain_ended(chain, note);
            }
            BeatResult::Granted { .. }
            | BeatResult::Idle
            | BeatResult::Limited { .. }
            | BeatResult::Cooling { .. } => {}
        }
        outcome
    }

    /// Counts a yield without an open chain like a beat; returns the milliseconds to wait.
    pub fn spare_yield(&mut self) -> u64 {
        heartbeat::spare_yield(&mut self.after.heartbeat, self.around.unix_ms)
    }

    /// Counts this call in the open chain. Returns true if the chain ended because calls were
    /// repeated without a new result.
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

    /// Ends an open chain because an event arrived from outside; the next beat starts another
    /// chain.
    pub fn interrupt_chain(&mut self) {
        if let Some(chain) = heartbeat::interrupt(&mut self.after.heartbeat, self.around.unix_ms) {
            self.end_of_chain(chain);
        }
    }

    /// Ends the open chain if it exceeded its maximum duration, and returns whether it did.
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
        self.heartbeat = heartbeat::outcome_fields(&BeatResult::Ended { chain, first: false });
        self.heartbeat.remove("granted");
    }

    fn chain_started(&mut self, chain: &str, depth: u64, note: Option<&str>) {
        let free = tokens(&self.after).free;
        let details = json!({"chain": chain, "chain_depth": depth, "duration_ms": 0, "tokens_remaining": free,
            "limits": self.after.heartbeat.limits, "tool": self.around.tool, "note": self.named_note(note)});
        self.event(EventType::HbStart, details);
    }

    fn named_note(&self, note: Option<&str>) -> Option<String> {
        note.map(|note| named(&self.after.agent_id, note))
    }

    fn chain_ended(&mut self, chain: &EndedChain, note: Option<&str>) {
        let free = tokens(&self.after).free;
        let details = json!({"chain": chain.id, "chain_depth": chain.depth, "duration_ms": chain.duration_ms,
            "tokens_remaining": free, "reason": chain.reason, "closed_by": chain.closed_by,
            "tool": self.around.tool, "note": self.named_note(note)});
        self.event(EventType::HbEnd, details);
    }
}

/// Number of hex digits in a call's digest. 64 bits are enough, because the digest only
/// distinguishes the calls of one chain.
const CALL_DIGITS: usize = 16;

/// Returns a digest over a call and its result. The digest leaves out page tokens, scores and
/// revisions, because these change even if the call found nothing new.
fn digest_of(asked: &str, result: &Map<String, Value>) -> String {
    let mut same = Value::Object(result.clone());
    drop_passing(&mut same);
    let mut digest = receipt::sha256(&format!("{asked}\0{}", receipt::canonical_json(&same)));
    digest.truncate(CALL_DIGITS);
    digest
}

/// Names of result fields whose values may change although the call found nothing new.
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
