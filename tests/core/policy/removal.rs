//! Tests which data retention and `forget` remove.

use vctx_core::error::Code;
use vctx_core::limits::FORGET_MESSAGES_MAX;
use vctx_core::policy::{CallPlace, Due, DueMessage, OldPlace, Retention, paired_with};
use vctx_core::tools::Forget;

#[test]
fn a_life_is_whole_seconds_and_a_moment_before_which_it_is_over() {
    let days = |recall_ttl_days| Retention { recall_ttl_days };
    assert_eq!(days(0.0).recall_ttl_s(), None);
    assert_eq!(days(0.0).before(5_000), "");
    assert_eq!(days(30.0).recall_ttl_s(), Some(2_592_000));
    assert_eq!(days(1.0).before(86_400_000 + 5_000), "1970-01-01T00:00:05.000Z");
    for (given, good) in [
        (0.0, true),
        (0.000_02, true),
        (0.000_001, false),
        (-1.0, false),
        (f64::NAN, false),
        (4e4, false),
    ] {
        assert_eq!(days(given).fault().is_none(), good, "{given}");
    }
}

#[test]
fn the_settled_places_end_before_what_stays() {
    let place = |seq, gone| OldPlace { seq, at: format!("t{seq}"), gone };
    let due = Due {
        messages: vec![DueMessage { key: "m5".into(), seq: 5 }],
        places: vec![place(5, false), place(6, true), place(7, false), place(8, true)],
        ..Due::default()
    };
    assert_eq!(due.settled(4).map(|one| one.seq), Some(6));
    assert_eq!(due.settled(3), None, "there is a gap before it");
    assert_eq!(due.settled(6), None);
    assert!(!due.is_empty());
    assert!(Due { places: vec![place(5, true)], ..Due::default() }.is_empty());
}

fn place(seq: u64, calls: &[&str], call_id: Option<&str>) -> CallPlace {
    let calls = calls.iter().map(|id| (*id).to_owned()).collect();
    CallPlace { seq, calls, call_id: call_id.map(str::to_owned) }
}

#[test]
fn a_call_goes_with_all_of_its_results_and_with_those_of_no_other_turn() {
    let places = [
        place(1, &["a", "b"], None),
        place(2, &[], Some("a")),
        place(4, &[], Some("b")),
        place(5, &["a"], None),
        place(9, &[], Some("a")),
        place(10, &[], Some("c")),
    ];
    for (seq, paired) in
        [(1, &[2, 4][..]), (2, &[4, 1]), (4, &[2, 1]), (5, &[9]), (9, &[5]), (10, &[]), (3, &[])]
    {
        assert_eq!(paired_with(seq, &places), paired, "{seq}");
    }
}

#[test]
fn one_way_of_naming_it_is_wanted() {
    let good = [
        Forget { seqs: vec![1], ..Forget::default() },
        Forget { all: true, ..Forget::default() },
        Forget { text: Some("a secret".into()), ..Forget::default() },
    ];
    for forget in good {
        assert!(forget.checked().is_ok());
    }
    let bad = [
        Forget::default(),
        Forget { seqs: vec![1], all: true, ..Forget::default() },
        Forget { text: Some("x".into()), ..Forget::default() },
        Forget { seqs: vec![1; FORGET_MESSAGES_MAX + 1], ..Forget::default() },
    ];
    for forget in bad {
        assert_eq!(forget.checked().unwrap_err().code, Code::InvalidArgument);
    }
}
