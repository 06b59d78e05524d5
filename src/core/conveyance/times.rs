//! Counts durations in fixed buckets, and computes their 99th percentile.

/// Number of buckets. Their upper ends rise from 0.1 ms to 35 s, which is longer than any call
/// without a model; each upper end is 1.2 times the previous upper end.
const BUCKETS: usize = 71;
const FIRST_MS: f64 = 0.1;
const STEP: f64 = 1.2;

/// Number of measured durations in each bucket, and the longest duration.
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

/// Returns the upper end of a bucket, in milliseconds.
fn end_ms(bucket: usize) -> f64 {
    // Multiplies step by step, so that another program that multiplies step by step gets equal
    // floats.
    (0..bucket).fold(FIRST_MS, |end, _| end * STEP)
}

impl Times {
    /// Adds one duration, in milliseconds.
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

    /// Returns the number of counted durations.
    pub fn samples(&self) -> u64 {
        self.counts.iter().chain([&self.beyond]).map(|count| u64::from(*count)).sum()
    }

    /// Returns the 99th percentile of the durations in milliseconds: the upper end of the bucket
    /// that contains the percentile, or the longest duration, if the longest duration is smaller.
    /// The upper end exceeds the exact percentile by at most a fifth. Returns `None` if there are
    /// no samples.
    pub fn p99_ms(&self) -> Option<f64> {
        let samples = self.samples();
        if samples == 0 {
            return None;
        }
        // The smallest number of samples, counted from the shortest, that includes 99 % of all
        // samples.
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

    /// Returns the longest duration, in milliseconds.
    pub fn longest_ms(&self) -> f64 {
        self.longest_ms
    }

    /// Returns the upper end (in milliseconds) and the count of each bucket that is not empty.
    /// Durations beyond the last bucket have the upper end `None`.
    pub fn buckets(&self) -> Vec<(Option<f64>, u32)> {
        let held = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let mut buckets: Vec<_> = held.map(|(at, count)| (Some(end_ms(at)), *count)).collect();
        if self.beyond > 0 {
            buckets.push((None, self.beyond));
        }
        buckets
    }
}
