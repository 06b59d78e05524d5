//! Late chunking: divides the tokens of a document into overlapping windows, and computes vectors
//! of spans as means of token states.

use std::ops::Range;

/// Share of a model's input window that the next input window repeats, in quarters. A token near
/// the edge of one window is thus also in another window, with context on both sides.
const OVERLAP_QUARTERS: usize = 1;

/// Divides `length` tokens into windows of at most `size` tokens. Each window repeats a quarter of
/// the previous window. The last window begins earlier if necessary, so that all windows have equal
/// length. A token in several windows gets the mean of its states.
pub(super) fn windows(length: usize, size: usize) -> Vec<Range<usize>> {
    if length <= size {
        return std::iter::once(0..length).collect();
    }
    let step = (size - size * OVERLAP_QUARTERS / 4).max(1);
    let mut windows = Vec::new();
    let mut start = 0;
    while start + size < length {
        windows.push(start..start + size);
        start += step;
    }
    windows.push(length - size..length);
    windows
}

/// Sums of the token states of each span.
pub(super) struct Pool {
    sums: Vec<f64>,
    dimension: usize,
}

impl Pool {
    /// Creates empty sums for the given number of spans.
    pub(super) fn new(spans: usize, dimension: usize) -> Self {
        Self { sums: vec![0.0; spans * dimension], dimension }
    }

    /// Adds a token's state (its vector from the model), multiplied by `weight`, to the sum of a
    /// span.
    pub(super) fn add(&mut self, span: usize, state: &[f32], weight: f64) {
        let sum = &mut self.sums[span * self.dimension..(span + 1) * self.dimension];
        sum.iter_mut().zip(state).for_each(|(sum, part)| *sum += weight * f64::from(*part));
    }

    /// Returns the mean state of each span, scaled to length 1. (Because of the scaling, a sum need
    /// not be divided by the number of its states.)
    pub(super) fn unit(&self) -> Vec<Vec<f32>> {
        let one = |sum: &[f64]| {
            let length = sum.iter().map(|c| c * c).sum::<f64>().sqrt();
            let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
            sum.iter().map(|c| (c * scale) as f32).collect()
        };
        self.sums.chunks_exact(self.dimension).map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_every_token_and_overlap() {
        for length in [0, 8] {
            let one = windows(length, 8);
            assert_eq!((one.len(), &one[0]), (1, &(0..length)));
        }
        assert_eq!(windows(9, 8), [0..8, 1..9]);
        assert_eq!(windows(20, 8), [0..8, 6..14, 12..20]);
        for (length, size) in [(1_000, 254), (255, 254), (77, 3), (5, 1)] {
            let windows = windows(length, size);
            assert!(windows.iter().all(|w| w.len() == size));
            assert_eq!((windows[0].start, windows[windows.len() - 1].end), (0, length));
            assert!(windows.windows(2).all(|w| w[1].start <= w[0].end && w[1].start > w[0].start));
        }
    }

    #[test]
    fn a_span_is_the_mean_of_its_states() {
        let mut pool = Pool::new(2, 2);
        pool.add(0, &[3.0, 0.0], 1.0);
        pool.add(0, &[3.0, 8.0], 1.0);
        // A token that is in two windows (weight 0.5 in each) counts as much as a token in one
        // window.
        pool.add(1, &[1.0, 0.0], 0.5);
        pool.add(1, &[0.0, 1.0], 0.5);
        pool.add(1, &[0.5, 0.5], 1.0);
        let made = pool.unit();
        assert_eq!(made[0], [0.6, 0.8]);
        assert!((made[1][0] - made[1][1]).abs() < 1e-6);
    }
}
