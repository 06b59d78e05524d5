//! Tests how events change the counts from which the score of a session is computed.

use serde_json::{Value, json};
use vctx_core::conveyance::{Noted, Ratio, Tallied, session_start, tally};

/// Parses events from lines of `type milliseconds {details}`, oldest first; returns them newest
/// first.
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
