//! Tests one turn of a model: the model's calls, the maximum length of its answer, how the run
//! continues after the turn, and previews of long texts.

use vctx_core::limits::{NAME_BYTES_MAX, RUN_REPAIRS_MAX};
use vctx_core::memory::TokenCounter as _;
use vctx_core::memory::run::{RunReason, ToolCall};
use vctx_core::policy::preview;
use vctx_core::policy::turn::{Beat, Beaten, CallResult, Cut, Next, next, settled};

use crate::world::Letters;

/// Maximum number of calls in one answer that a run executes.
const RUN_CALLS_MAX: usize = 32;

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

#[test]
fn calls_get_ids_of_their_own_and_arguments_that_any_format_takes() {
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let calls = vec![
        call("a", "f", "{\"x\":1}"),
        call("a", "f", ""),
        call("", "f", "[1]"),
        call(&long, "", "{\"x\""),
    ];
    let (asked, dropped) = settled(calls, 7, &Letters, 1_000);
    assert_eq!(dropped, 0);
    let ids: Vec<&str> = asked.iter().map(|one| one.call.id.as_str()).collect();
    assert_eq!(ids, ["a", "call_7_1", "call_7_2", "call_7_3"]);
    let fine: Vec<bool> = asked.iter().map(|one| one.arguments.is_ok()).collect();
    assert_eq!(fine, [true, true, false, false]);
    assert_eq!(asked[0].call.arguments, "{\"x\":1}");
    assert_eq!(asked[1].call.arguments, "{}");
    assert_eq!(asked[2].call.arguments, "{\"not_understood\":\"[1]\"}");
    assert_eq!(asked[3].call.name, "unnamed");
    let (asked, dropped) = settled(vec![call("", "f", "{}"); RUN_CALLS_MAX + 2], 1, &Letters, 9);
    assert_eq!((asked.len(), dropped), (RUN_CALLS_MAX, 2));
    let large = format!("{{\"x\":\"{}\"}}", "y".repeat(500));
    let (asked, _) = settled(vec![call("a", "f", &large)], 1, &Letters, 100);
    assert!(asked[0].arguments.is_err());
    assert!(asked[0].call.arguments.len() < 200);
}

#[test]
fn a_caller_that_may_ask_for_the_next_inference_gets_it() {
    let fine = CallResult::default();
    let failed = CallResult { failed: true, ..CallResult::default() };
    let with = |beat| CallResult { asked_beat: true, beat: Some(beat), ..CallResult::default() };
    let spoke = CallResult { spoke: true, ..CallResult::default() };
    let request = CallResult { asked_beat: true, ..CallResult::default() };
    let ended = |reason| Next::End(reason);
    for (beat, outcomes, expected) in [
        (Beat::Asked, vec![], ended(RunReason::Yield)),
        (Beat::Always, vec![], ended(RunReason::Yield)),
        (Beat::Asked, vec![fine.clone()], ended(RunReason::Yield)),
        (Beat::Always, vec![fine.clone()], Next::Beat(0)),
        (Beat::Asked, vec![failed], Next::Beat(0)),
        (Beat::Always, vec![spoke], ended(RunReason::Yield)),
        (Beat::Asked, vec![request], Next::Beat(0)),
        (Beat::Asked, vec![with(Beaten::Granted), fine], Next::Ask),
        (Beat::Always, vec![with(Beaten::Wait(9))], Next::Beat(9)),
        (
            Beat::Always,
            vec![with(Beaten::Granted), with(Beaten::Ended(RunReason::Depth))],
            ended(RunReason::Depth),
        ),
    ] {
        assert_eq!(next(beat, &outcomes, 0, 0), expected, "{beat:?} {outcomes:?}");
    }
    assert_eq!(next(Beat::Always, &[], 1, 9), ended(RunReason::ClientCalls));
    assert_eq!(next(Beat::Always, &[], 0, RUN_REPAIRS_MAX + 1), ended(RunReason::Repairs));
}

#[test]
fn an_answer_has_no_more_tokens_than_were_asked_for() {
    for step in [1, 3, 50, 1000] {
        let whole = "äbcdefghij".repeat(20);
        let mut cut = Cut::new(&Letters, 33);
        let mut given = String::new();
        let letters: Vec<char> = whole.chars().collect();
        for piece in letters.chunks(step) {
            let piece: String = piece.iter().collect();
            given.extend(cut.push(&piece));
        }
        assert_eq!(given, whole.chars().take(33).collect::<String>(), "{step}");
        assert!(cut.is_full());
        assert_eq!(cut.text(), given);
    }
}

#[test]
fn a_preview_never_costs_more_than_it_may() {
    let text = "äb cd ".repeat(200);
    for tokens_max in [0, 1, 2, 7, 100, 1199, 1200, 5000] {
        let shown = preview(&Letters, &text, tokens_max);
        assert!(Letters.count(&shown) <= tokens_max, "{tokens_max}: {shown}");
        assert_eq!(shown == text, tokens_max >= 1200, "{tokens_max}");
        assert!(tokens_max < 2 || !shown.is_empty(), "{tokens_max}");
        assert!(text.starts_with(shown.trim_end_matches('…')));
    }
}
