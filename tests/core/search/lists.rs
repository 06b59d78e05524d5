//! Tests the lists of a vector index: their number, when the server measures how many of them a
//! search needs, and when there are too few of them.

use vctx_core::limits::N_PROBE_MAX;
use vctx_core::search::{
    ListMeasurement, is_due, is_outgrown, ladder, lists_for, questions, recall,
};

#[test]
fn the_ladder_rises_to_a_share_of_the_cells_within_the_bound() {
    assert_eq!(ladder(1), [1]);
    assert_eq!(ladder(100), [1, 2, 3, 4, 6, 8, 12]);
    assert_eq!(ladder(1_000_000).last(), Some(&N_PROBE_MAX));
    for lists in [2, 9, 306, 4_000] {
        assert!(ladder(lists).windows(2).all(|two| two[0] < two[1]), "{lists}");
    }
}

fn measured(n_lists: u64, recall: f64) -> ListMeasurement {
    ListMeasurement { n_probe: 8, recall, questions: 16, scanned: 0.1, rows: 1_000, n_lists }
}

#[test]
fn lists_grow_with_the_root_and_never_starve() {
    for (rows, lists) in [
        (1, 1),
        (19, 2),
        (1_000, 142),
        (6_000, 857),
        (25_000, 1_896),
        (65_536, 2_048),
        (262_144, 2_048),
        (1_000_000, 4_000),
    ] {
        assert_eq!(lists_for(rows), lists, "{rows}");
    }
    assert!((1..200_000).all(|rows| lists_for(rows) <= lists_for(rows + 1)));
}

#[test]
fn an_index_is_outgrown_by_so_many_times_its_rows_or_by_fewer_where_it_finds_too_little() {
    for (lists, rows, growth, last, outgrown) in [
        (142, 1_000, 2, None, false),
        (142, 2_001, 2, None, false),
        (142, 2_002, 2, None, true),
        (142, 16_000, 2, None, true),
        (142, 2_002, 4, None, false),
        (142, 16_000, 0, None, false),
        (142, 1_252, 2, Some(measured(142, 0.9)), true),
        (142, 1_200, 2, Some(measured(142, 0.9)), false),
        (142, 1_252, 2, Some(measured(142, 0.96)), false),
        // A measurement of an index with another number of lists does not apply to this index.
        (142, 1_252, 2, Some(measured(50, 0.5)), false),
        (142, 1_252, 2, Some(ListMeasurement::unknown(142)), false),
        (2_048, 520_000, 2, None, false),
        (2_048, 530_000, 2, None, true),
    ] {
        assert_eq!(is_outgrown(lists, rows, growth, last.as_ref()), outgrown, "{lists} {rows}");
    }
}

#[test]
fn cells_that_hold_too_much_become_fewer() {
    let of = |n_probe, scanned| ListMeasurement { n_probe, scanned, ..measured(100, 1.0) };
    assert_eq!(of(12, 0.12).within_share(), None);
    assert_eq!(of(12, 0.24).within_share(), Some(6));
    assert_eq!(of(1, 0.5).within_share(), None);
    assert_eq!(ListMeasurement::unknown(100).n_probe, 12);
}

#[test]
fn ties_are_no_misses_and_distances_rise() {
    assert_eq!(recall(&[0.9, 0.8], &[0.9, 0.8], false), 1.0);
    assert_eq!(recall(&[0.9, 0.8], &[0.9, 0.7], false), 0.5);
    assert_eq!(recall(&[0.9, 0.8, 0.8], &[0.9, 0.8, 0.8 - 1e-9], false), 1.0);
    assert_eq!(recall(&[0.1, 0.2], &[0.1, 0.3], true), 0.5);
    assert_eq!(recall(&[], &[], true), 1.0);
}

#[test]
fn a_sample_is_measured_once_and_again_when_the_archive_has_grown() {
    let last = measured(100, 0.98);
    assert!(is_due(None, 1, 100));
    assert!(!is_due(Some(&last), 1_249, 100) && is_due(Some(&last), 1_250, 100));
    assert!(is_due(Some(&last), 1_000, 200), "another index");
    let axes = [vec![1.0, 0.0, 0.0], vec![0.0, 2.0, 0.0], vec![0.0, 0.0, 5.0]];
    assert_eq!(questions(&axes), [[1.0, 1.0, 1.0]]);
    assert!(questions(&axes[..2]).is_empty());
}
