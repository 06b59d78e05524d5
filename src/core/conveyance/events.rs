//! Counts the memory events of an agent for the Conveyance score, and finds the start of the
//! session.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::inputs::Ratio;
use crate::memory::event::EventType;

/// A memory event, reduced to the fields that the score needs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Noted {
    /// Type of the memory event.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// Time of the memory event, in milliseconds since 1970.
    pub ms: u64,
    /// Details of the memory event.
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

/// Counts of an agent's memory events, as inputs of the Conveyance score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallied {
    /// Chains of heartbeats that ended by the model's own decision, as a share of all started
    /// chains.
    pub chains: Ratio,
    /// Chunks with late-chunking evidence, as a share of all offered chunks.
    pub chunks: Ratio,
    /// Number of ingests refused for lack of late-chunking evidence.
    pub naive_offers: u64,
    /// Flushes that reached their target without a drift alarm (a summary that lacks evicted text),
    /// as a share of all flushes.
    pub flushes: Ratio,
    /// Writes with an audit row, as a share of all writes since the oldest event that was read.
    pub audited: Ratio,
    /// Recall searches with a result, as a share of all recall searches that wrote a copy or a
    /// result list.
    pub searches: Ratio,
}

/// Error code of the events about ingests that were refused for lack of late-chunking evidence.
const LATE_CHUNKING_REQUIRED: &str = "LATE_CHUNKING_REQUIRED";

/// Returns the start time of the newest session, in milliseconds since 1970. A session starts with
/// the first event after a pause of `idle_ms`. `events` are sorted newest first. `began` is the
/// time of the session's first call. Only the running server knows this time, because read-only
/// calls leave no event.
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

/// Counts `events`, which are sorted newest first. `version` is the version of the core. A write
/// that led to a later version of the core is not counted.
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
            EventType::HbEnd | EventType::Warning | EventType::Summarize | EventType::Error => {}
        }
    }
    // A chain that began before the oldest event that was read counts neither as started nor as
    // ended.
    let ended_well = started.intersection(&decided).count();
    found.chains = Ratio::of(ended_well as u64, started.len() as u64);
    found.audited = Ratio::of(audited.len() as u64, version - first_version);
    found
}

/// Reasons for the end of a chain that count as a decision of the model
/// (`docs/explanation/conveyance.md`).
const DECIDED: [&str; 2] = ["explicit_yield", "tokens"];

/// Reads the audit row of an accepted ingest. Returns the number of chunks with late-chunking
/// evidence, as a share of all chunks of the ingest.
fn ingested(audit: &Noted) -> Ratio {
    let count =
        |name: &str| audit.details.get("ingest").and_then(|i| i[name].as_u64()).unwrap_or(0);
    Ratio::of(count("compliant_chunks"), count("offered_chunks"))
}
