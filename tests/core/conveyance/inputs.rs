//! Tests that the terms of the score are computed from counts, and that each missing count is
//! named.

use vctx_core::conveyance::{Inputs, Path, PathTime, Places, Ratio, Term, Times, score};

/// Inputs of a session in which every term of the score has its counts and none of the terms is
/// zero.
pub(super) fn healthy() -> Inputs {
    let time = |path| {
        let mut times = Times::default();
        times.record(20.0);
        PathTime { path, times, of_session: true }
    };
    Inputs {
        places: Places {
            from_seq: 1,
            next_seq: 11,
            stored: 10,
            queued: 4,
            logged: 5,
            copies: 1,
            expired: 0,
        },
        recall_hits: Ratio::of(4, 5),
        store_requests: Ratio::of(100, 100),
        store_requests_of_session: true,
        chains: Ratio::of(2, 2),
        times: Path::ALL.map(time),
        chunks: Ratio::of(9, 10),
        probes: Ratio::of(30, 30),
        flushes: Ratio::of(3, 4),
        guards: Ratio::of(5, 5),
        audited: Ratio::of(12, 12),
        zero: Vec::new(),
    }
}

#[test]
fn terms_are_their_counts() {
    let terms = healthy().terms();
    let value = |term| terms.get(term).unwrap();
    assert_eq!(value(Term::W), 0.8);
    assert_eq!(value(Term::T), 0.2, "20 ms of the 100 of a core write are the worst");
    assert_eq!((value(Term::L), value(Term::A), value(Term::G)), (0.9, 0.75, 1.0));
}

#[test]
fn every_zero_denominator_is_named_by_term_and_count() {
    let none = Ratio::default();
    let bare = Inputs {
        places: Places { from_seq: 1, next_seq: 1, ..Places::default() },
        recall_hits: none,
        store_requests: none,
        chains: none,
        chunks: none,
        probes: none,
        flushes: none,
        guards: none,
        times: Path::ALL.map(|path| PathTime { path, times: Times::default(), of_session: false }),
        ..healthy()
    };
    let found = score(&bare.terms(), false);
    assert_eq!((found.c, found.missing.as_slice()), (None, &Term::ALL[..]));
    assert_eq!(bare.lacks(Term::W), ["conservation", "recall_hit_rate"]);
    assert_eq!(bare.lacks(Term::T), ["recall", "archival", "core_write"]);
    assert_eq!(bare.lacks(Term::G), ["guards"]);
}

#[test]
fn a_lost_message_and_a_doubled_one_do_not_make_up_for_each_other() {
    let lost = Places { stored: 9, logged: 4, ..healthy().places };
    assert_eq!(lost.conservation(), Ratio::of(9, 10));
    let edge_lost = Places { logged: 4, ..healthy().places };
    assert_eq!(edge_lost.conservation(), Ratio::of(9, 10));
    let both = Places { stored: 9, logged: 6, ..healthy().places };
    assert_eq!((both.conservation(), both.doubled()), (Ratio::of(9, 10), 2));
}
