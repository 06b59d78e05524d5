//! Chance that follows from a seed, so that a run can be repeated: SplitMix64 (Steele, Lea, Flood 2014), uniform and normal numbers.

/// A row of numbers that follows from its seed.
#[derive(Debug, Clone)]
pub(super) struct Seeded {
    state: u64,
}

impl Seeded {
    /// The same seed gives the same row.
    pub(super) fn new(seed: u64) -> Seeded {
        Seeded { state: seed }
    }

    /// The next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0; the bias is below 2^-32 for the bounds used here.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next()) * bound.max(1) as u128;
        (wide >> 64) as usize
    }

    /// A number from 0 (counted in) to 1 (not counted in).
    pub(super) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of the normal distribution (Box and Muller 1958).
    pub(super) fn normal(&mut self) -> f64 {
        let (one, two) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_is_the_published_one() {
        // First numbers for the seed 1234567 of the reference implementation.
        let mut row = Seeded::new(1_234_567);
        assert_eq!(row.next(), 6_457_827_717_110_365_317);
        assert_eq!(row.next(), 3_203_168_211_198_807_973);
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
}
