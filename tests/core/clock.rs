//! Tests the conversion of times to text and back, and the generator of random numbers from a seed.

use proptest::prelude::*;
use vctx_core::clock::{iso8601, unix_ms_of};
use vctx_core::seeded::Seeded;

/// Milliseconds since 1970 of the last supported time, 9999-12-31T23:59:59.999Z.
const LAST_MS: u64 = 253_402_300_799_999;

#[test]
fn other_forms_and_missing_days_are_refused() {
    for text in [
        "",
        "1970",
        "2026-01-01",
        "2026-02-30T00:00:00.000Z",
        "2026-13-01T00:00:00.000Z",
        "1970-01-00T00:00:00.000Z",
        "1969-12-31T23:59:59.999Z",
        "2016-12-31T23:59:60.000Z",
        "2026-01-01T00:00:00.000",
        "2026-01-01 00:00:00.000Z",
        "2026-01-01t00:00:00.000Z",
        "2026-01-01T00:00:00.0001Z",
        "2026-01-01T00:00:00.000ZZ",
        "+002026-01-01T00:00:00.000Z",
    ] {
        assert_eq!(unix_ms_of(text), None, "{text}");
    }
}

#[test]
fn known_times_print_as_known() {
    for (ms, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (68_255_999_999, "1972-02-29T23:59:59.999Z"),
        (951_782_400_123, "2000-02-29T00:00:00.123Z"),
        (951_868_799_999, "2000-02-29T23:59:59.999Z"),
        (951_868_800_000, "2000-03-01T00:00:00.000Z"),
        (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
        (2_147_483_648_000, "2038-01-19T03:14:08.000Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (LAST_MS, "9999-12-31T23:59:59.999Z"),
    ] {
        assert_eq!(iso8601(ms), text);
        assert_eq!(unix_ms_of(text), Some(ms));
    }
    assert_eq!(iso8601(u64::MAX), iso8601(LAST_MS));
}

proptest! {
    #[test]
    fn a_printed_time_is_read_back_and_sorts_as_its_number(a in 0..=LAST_MS, b in 0..=LAST_MS) {
        prop_assert_eq!(unix_ms_of(&iso8601(a)), Some(a));
        prop_assert_eq!(iso8601(a).cmp(&iso8601(b)), a.cmp(&b));
    }
}

#[test]
fn the_sequence_is_the_published_one() {
    // The first numbers that the reference implementation of SplitMix64 returns for the seed
    // 1234567.
    let mut row = Seeded::new(1_234_567);
    assert_eq!(row.next_u64(), 6_457_827_717_110_365_317);
    assert_eq!(row.next_u64(), 3_203_168_211_198_807_973);
}

#[test]
fn numbers_stay_below_their_bound_and_reach_all_of_it() {
    let mut row = Seeded::new(7);
    let seen: std::collections::BTreeSet<usize> = (0..200).map(|_| row.below(5)).collect();
    assert_eq!(seen, (0..5).collect());
}

#[test]
fn normal_numbers_have_mean_zero_and_variance_one() {
    let mut row = Seeded::new(3);
    let some: Vec<f64> = (0..20_000).map(|_| row.normal()).collect();
    let mean = some.iter().sum::<f64>() / 20_000.0;
    let variance = some.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
    assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
}
