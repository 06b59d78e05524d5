//! Computes the uncertainty of a mean by resampling (percentile bootstrap, Efron 1979), with a
//! fixed seed.

use vctx_core::seeded::Seeded;

/// Number of resampled means.
const SAMPLES: usize = 2_000;
const SEED: u64 = 20_240_517;
/// Share of resampled means outside the 95 % interval, at each end.
const TAIL: f64 = 0.025;

/// Returns the bounds of the 95 % interval of the mean; `None` if there are no values. For a paired
/// comparison, the caller passes the differences of the pairs.
pub(super) fn interval(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let mut row = Seeded::new(SEED);
    let mut means: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let drawn = (0..values.len()).map(|_| values[row.below(values.len())]);
            drawn.sum::<f64>() / values.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let cut = (SAMPLES as f64 * TAIL) as usize;
    Some((means[cut], means[SAMPLES - 1 - cut]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_leave_no_doubt_and_no_values_no_interval() {
        assert_eq!(interval(&[0.25; 40]), Some((0.25, 0.25)));
        assert_eq!(interval(&[]), None);
    }

    #[test]
    fn the_interval_of_a_coin_is_that_of_the_normal_approximation() {
        let coin: Vec<f64> = (0..400).map(|at| f64::from(at % 2)).collect();
        let (low, high) = interval(&coin).unwrap();
        // Half the width of the normal 95 % interval: 1.96 * sqrt(.25 / 400) = .049.
        assert!((low - 0.451).abs() < 0.006 && (high - 0.549).abs() < 0.006, "{low} {high}");
    }
}
