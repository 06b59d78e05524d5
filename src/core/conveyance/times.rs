//! Durations in fixed buckets, small enough to keep for every session, and the percentile that the score asks for.

/// Buckets: from 0.1 ms in steps of a fifth to 33 s, which is longer than a call may take.
const BUCKETS: usize = 71;
const FIRST_MS: f64 = 0.1;
const STEP: f64 = 1.2;

/// Counted durations.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    counts: [u32; BUCKETS],
    beyond: u32,
    longest_ms: f64,
}

impl Default for Times {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], beyond: 0, longest_ms: 0.0 }
    }
}

/// Upper end of a bucket, in milliseconds.
fn end_ms(bucket: usize) -> f64 {
    // A step is exact to the last bit for every reader that multiplies in the same way.
    (0..bucket).fold(FIRST_MS, |end, _| end * STEP)
}

impl Times {
    /// Counts a duration, in milliseconds.
    pub fn record(&mut self, ms: f64) {
        let mut end = FIRST_MS;
        let mut bucket = 0;
        while bucket < BUCKETS && ms > end {
            end *= STEP;
            bucket += 1;
        }
        let count = self.counts.get_mut(bucket).unwrap_or(&mut self.beyond);
        *count = count.saturating_add(1);
        self.longest_ms = self.longest_ms.max(ms);
    }

    /// How many were counted.
    pub fn samples(&self) -> u64 {
        self.counts.iter().chain([&self.beyond]).map(|count| u64::from(*count)).sum()
    }

    /// The 99th percentile, in milliseconds: the upper end of the bucket that holds it (at most a fifth too long), or the longest
    /// duration if that is shorter. None without samples.
    pub fn p99_ms(&self) -> Option<f64> {
        let samples = self.samples();
        if samples == 0 {
            return None;
        }
        // The smallest rank that at least 99 % of the samples do not exceed.
        let rank = (samples * 99).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return Some(end_ms(bucket).min(self.longest_ms));
            }
        }
        Some(self.longest_ms)
    }

    /// The longest, in milliseconds.
    pub fn longest_ms(&self) -> f64 {
        self.longest_ms
    }

    /// Upper ends in milliseconds and counts of the buckets that hold something; the end of the last one may be none.
    pub fn buckets(&self) -> Vec<(Option<f64>, u32)> {
        let held = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let mut buckets: Vec<_> = held.map(|(at, count)| (Some(end_ms(at)), *count)).collect();
        if self.beyond > 0 {
            buckets.push((None, self.beyond));
        }
        buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_never_too_short_and_at_most_a_fifth_too_long() {
        let mut times = Times::default();
        assert_eq!(times.p99_ms(), None);
        for ms in 1..=1000 {
            times.record(f64::from(ms));
        }
        let p99 = times.p99_ms().unwrap();
        assert!((990.0..=990.0 * STEP).contains(&p99), "{p99}");
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
        assert!(end_ms(BUCKETS - 1) > 30_000.0);
    }
}
