//! Repeatable random numbers (SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom
//! number generators", 2014).

/// A stream of random numbers, which a seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates a stream of random numbers; equal seeds give equal numbers.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next random number of the stream.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns the next random number below `end`, or 0 if `end` is 0. The numbers are slightly
    /// biased, which does not matter for training and tests.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}
