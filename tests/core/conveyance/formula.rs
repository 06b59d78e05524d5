//! Tests the Conveyance score that results from known terms.

use vctx_core::conveyance::{Term, Terms, score};

/// The values of the terms in an example of the project's requirements, which also state the score
/// that results from these values.
fn card() -> Terms {
    let values = [0.87, 0.89, 0.90, 0.83, 0.90, 0.86, 0.88, 0.88];
    Term::ALL
        .into_iter()
        .zip(values)
        .fold(Terms::default(), |terms, (term, value)| terms.with(term, Some(value)))
}

#[test]
fn the_scorecard_of_the_requirement_gives_its_figure() {
    let score = score(&card(), false);
    assert!((score.ctx.unwrap() - 0.88).abs() < 1e-12);
    assert_eq!(format!("{:.4}", score.c.unwrap()), "0.6756");
    assert!(score.missing.is_empty() && !score.time_floored);
}

#[test]
fn a_missing_term_is_named_and_nothing_is_made_up_for_it() {
    for term in Term::ALL {
        let score = score(&card().with(term, None), false);
        assert_eq!((score.c, score.missing), (None, vec![term]));
    }
}

#[test]
fn zero_wins_over_everything_and_what_is_missing_is_still_named() {
    assert_eq!(score(&card(), true).c, Some(0.0));
    let nothing = score(&Terms::default(), true);
    assert_eq!((nothing.c, nothing.missing.len()), (Some(0.0), 8));
}

#[test]
fn the_floor_of_the_time_is_told_when_it_acts_and_only_then() {
    for (measured, used, floored) in [(0.01, 0.05, true), (0.05, 0.05, false), (3.0, 3.0, false)] {
        let score = score(&card().with(Term::T, Some(measured)), false);
        assert_eq!((score.time, score.time_floored), (Some(used), floored));
    }
}

#[test]
fn a_score_above_one_is_not_clamped() {
    let fast = Term::ALL
        .into_iter()
        .fold(Terms::default(), |terms, term| terms.with(term, Some(1.0)))
        .with(Term::T, Some(0.5));
    assert_eq!(score(&fast, false).c, Some(2.0));
}
