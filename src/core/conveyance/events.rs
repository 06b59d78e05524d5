//! What the events of an agent come to: chains, chunks, flushes, audited writes, and where its session began.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::inputs::Ratio;
use crate::memory::event::EventType;

/// An event as the score reads it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Noted {
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// When, in milliseconds since 1970.
    pub ms: u64,
    /// The numbers that the score needs of it.
    pub details: Map<String, Value>,
}

impl Noted {
    fn number(&self, name: &str) -> Option<u64> {
        self.details.get(name).and_then(Value::as_u64)
    }

    fn text(&self, name: &str) -> &str {
        self.details.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn holds(&self, name: &str) -> bool {
        self.details.get(name) == Some(&Value::Bool(true))
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallied {
    /// Chains that ended by decision, of those started.
    pub chains: Ratio,
    /// Compliant chunks, of those offered.
    pub chunks: Ratio,
    /// Offers without late-chunking evidence.
    pub naive_offers: u64,
    /// Flushes at or below target without alarm, of all.
    pub flushes: Ratio,
    /// Writes with an audit row, of all writes since the first event looked at.
    pub audited: Ratio,
    /// Recall searches that wrote and found something, of all that wrote.
    pub searches: Ratio,
}

/// Code of the refusal of an ingest without late-chunking evidence.
const LATE_CHUNKING_REQUIRED: &str = "LATE_CHUNKING_REQUIRED";

/// Milliseconds at which the newest session began: going back from the newest event, the first one after a pause of `idle_ms`.
/// `events`: newest first. `began`: the first call that a server remembers of the session; calls that only read leave no event.
pub fn session_start(events: &[Noted], idle_ms: u64, began: Option<u64>) -> Option<u64> {
    let mut start = began.or_else(|| events.first().map(|event| event.ms))?;
    for event in events {
        if start.saturating_sub(event.ms) >= idle_ms {
            break;
        }
        start = start.min(event.ms);
    }
    Some(start)
}

/// Counts events, newest first. `version`: the core's, so that what a later write added is left out.
pub fn tally(events: &[Noted], version: u64) -> Tallied {
    let mut found = Tallied::default();
    let (mut started, mut decided, mut audited) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut first_version = version;
    for event in events {
        match event.kind {
            EventType::HbStart => {
                started.insert(event.text("chain"));
            }
            EventType::HbEnd if DECIDED.contains(&event.text("reason")) => {
                decided.insert(event.text("chain"));
            }
            EventType::Flush => {
                let good = event.holds("target_reached") && !event.holds("drift_alarm");
                found.flushes.denominator += 1;
                found.flushes.numerator += u64::from(good);
            }
            EventType::Error if event.text("code") == LATE_CHUNKING_REQUIRED => {
                found.naive_offers += 1;
                let offered = event.number("offered_chunks").unwrap_or(1);
                let refused = event.number("refused_chunks").unwrap_or(offered);
                let compliant = offered.saturating_sub(refused);
                found.chunks = found.chunks.plus(Ratio::of(compliant, offered));
            }
            EventType::Audit => {
                found.chunks = found.chunks.plus(ingested(event));
                if let Some(number) = event.number("found") {
                    found.searches = found.searches.plus(Ratio::of(u64::from(number > 0), 1));
                }
                if let Some(after) = event.number("version_after").filter(|v| *v <= version) {
                    let before = event.number("version_before").unwrap_or(after);
                    first_version = first_version.min(before);
                    audited.insert(after);
                }
            }
            EventType::HbEnd
            | EventType::Warning
            | EventType::Summarize
            | EventType::Error
            | EventType::RunStart
            | EventType::RunEnd
            | EventType::Variance => {}
        }
    }
    // A chain that began before the first event looked at counts in neither.
    let ended_well = started.intersection(&decided).count();
    found.chains = Ratio::of(ended_well as u64, started.len() as u64);
    found.audited = Ratio::of(audited.len() as u64, version - first_version);
    found
}

/// Ends of a chain that somebody decided on (design §6).
const DECIDED: [&str; 2] = ["explicit_yield", "tokens"];

/// Chunks of an accepted ingest, as its audit row has them.
fn ingested(audit: &Noted) -> Ratio {
    let count =
        |name: &str| audit.details.get("ingest").and_then(|i| i[name].as_u64()).unwrap_or(0);
    Ratio::of(count("compliant_chunks"), count("offered_chunks"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Events from lines of `type milliseconds {details}`, oldest first; the answer has the newest first.
    fn events(text: &str) -> Vec<Noted> {
        let event = |line: &str| {
            let mut parts = line.trim().splitn(3, ' ');
            let (kind, ms) = (parts.next().unwrap(), parts.next().unwrap());
            let details: Value = serde_json::from_str(parts.next().unwrap_or("{}")).unwrap();
            let ms: u64 = ms.parse().unwrap();
            serde_json::from_value(json!({"type": kind, "ms": ms, "details": details})).unwrap()
        };
        let mut events: Vec<Noted> =
            text.lines().filter(|line| !line.trim().is_empty()).map(event).collect();
        events.reverse();
        events
    }

    #[test]
    fn each_kind_of_event_is_counted_by_what_it_says() {
        let found = tally(
            &events(
                r#"audit 1 {"version_before": 0, "version_after": 1}
                hb_start 2 {"chain": "a"}
                hb_end 3 {"chain": "a", "reason": "explicit_yield"}
                hb_start 4 {"chain": "b"}
                hb_end 5 {"chain": "b", "reason": "depth"}
                hb_start 6 {"chain": "c"}
                flush 7 {"target_reached": true, "drift_alarm": false}
                flush 8 {"target_reached": true, "drift_alarm": true}
                flush 9 {"target_reached": false}
                audit 10 {"version_before": 1, "version_after": 2, "ingest": {"offered_chunks": 9, "compliant_chunks": 9}}
                error 11 {"code": "LATE_CHUNKING_REQUIRED", "offered_chunks": 3, "refused_chunks": 3}
                error 12 {"code": "TOKEN_BUDGET_EXCEEDED"}
                audit 13 {"version_before": 3, "version_after": 4, "tool": "search_recall", "found": 0}
                audit 14 {"version_before": 4, "version_after": 5}"#,
            ),
            4,
        );
        let wanted = Tallied {
            chains: Ratio::of(1, 3),
            chunks: Ratio::of(9, 12),
            naive_offers: 1,
            flushes: Ratio::of(1, 3),
            audited: Ratio::of(3, 4),
            searches: Ratio::of(0, 1),
        };
        assert_eq!(found, wanted, "version 3 has no row, version 5 is newer than the core");
    }

    #[test]
    fn a_chain_that_began_before_the_events_looked_at_is_not_counted() {
        let found = tally(&events(r#"hb_end 3 {"chain": "a", "reason": "tokens"}"#), 1);
        assert_eq!(found.chains, Ratio::default());
    }

    #[test]
    fn a_session_begins_after_the_last_long_pause() {
        let busy = events("audit 0\naudit 100\naudit 1100\naudit 1150\naudit 1900");
        assert_eq!(session_start(&busy, 1000, None), Some(1100));
        assert_eq!(session_start(&busy, 2000, None), Some(0));
        assert_eq!(session_start(&[], 1000, None), None);
        assert_eq!(session_start(&busy, 1000, Some(1600)), Some(1100), "another server saw more");
        assert_eq!(session_start(&busy, 1000, Some(9000)), Some(9000), "reads leave no event");
    }
}
