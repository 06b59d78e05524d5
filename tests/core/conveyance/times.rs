//! Tests percentiles that are computed from durations counted in buckets.

use vctx_core::conveyance::Times;

#[test]
fn the_percentile_is_never_too_short_and_at_most_a_fifth_too_long() {
    let mut times = Times::default();
    assert_eq!(times.p99_ms(), None);
    for ms in 1..=1000 {
        times.record(f64::from(ms));
    }
    let p99 = times.p99_ms().unwrap();
    assert!((990.0..=990.0 * 1.2).contains(&p99), "{p99}");
    assert_eq!((times.samples(), times.longest_ms()), (1000, 1000.0));
}

#[test]
fn one_slow_call_of_a_hundred_is_not_the_percentile_but_two_are() {
    let mut times = Times::default();
    (0..99).for_each(|_| times.record(1.0));
    times.record(10_000.0);
    assert!(times.p99_ms().unwrap() < 2.0);
    times.record(10_000.0);
    assert!(times.p99_ms().unwrap() > 9_000.0);
}

#[test]
fn few_samples_and_long_ones_are_told_as_they_are() {
    let mut times = Times::default();
    times.record(7.0);
    assert_eq!(times.p99_ms(), Some(7.0));
    times.record(1e6);
    assert_eq!(times.p99_ms(), Some(1e6));
    assert_eq!(times.buckets().len(), 2);
    assert_eq!(times.buckets()[1], (None, 1));
}

#[test]
fn the_last_bucket_is_longer_than_a_call_may_take() {
    let mut times = Times::default();
    times.record(30_000.0);
    assert!(times.buckets()[0].0.is_some());
}
