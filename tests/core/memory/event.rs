//! Tests how events of earlier versions are shown.

use serde_json::{Value, json};
use vctx_core::memory::event::{Event, EventType, in_present_form};
use vctx_core::memory::heartbeat::Reason;

fn shown(stored: &Value) -> Value {
    let mut row = stored.clone();
    in_present_form(&mut row);
    row
}

#[test]
fn events_of_earlier_versions_are_shown_in_the_closed_types() {
    for (stored, now) in [
        (
            json!({"type": "run_start", "ts": "t", "details": {"run": "r", "cause_seq": 1}}),
            json!({"type": "audit", "ts": "t",
                "details": {"runs": [{"event": "start", "run": "r", "cause_seq": 1}]}}),
        ),
        (
            json!({"type": "run_end", "details": {"run": "r", "reason": "yield"}}),
            json!({"type": "audit",
                "details": {"runs": [{"event": "end", "run": "r", "reason": "yield"}]}}),
        ),
        (
            json!({"type": "variance", "details": {"turn": 2}}),
            json!({"type": "error", "details": {"turn": 2, "code": "PROMPT_VARIANCE"}}),
        ),
        (
            json!({"type": "hb_end", "details": {"reason": "loop_detected", "closed_by": "call"}}),
            json!({"type": "hb_end", "details": {"reason": "depth", "closed_by": "call"}}),
        ),
    ] {
        assert_eq!(shown(&stored), now);
        assert_eq!(shown(&now), now, "an event of this version stays as it is");
    }
}

#[test]
fn stored_types_and_reasons_of_earlier_versions_are_read() {
    for (stored, kind) in [
        ("run_start", EventType::Audit),
        ("run_end", EventType::Audit),
        ("variance", EventType::Error),
    ] {
        let row = json!({"type": stored, "details": {}, "agent_id": "a", "ts": "t"});
        assert_eq!(serde_json::from_value::<Event>(row).unwrap().kind, kind);
    }
    let reason: Reason = serde_json::from_value(json!("loop_detected")).unwrap();
    assert_eq!((reason, json!(reason)), (Reason::Depth, json!("depth")));
}
