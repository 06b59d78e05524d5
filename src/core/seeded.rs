//! Generates uniform and normal pseudo-random numbers from a seed with SplitMix64 (Steele, Lea,
//! Flood 2014).

/// A sequence of pseudo-random numbers; equal seeds give equal sequences.
#[derive(Debug, Clone)]
pub struct Seeded {
    state: u64,
}

impl Seeded {
    /// Returns the sequence of pseudo-random numbers for a seed.
    pub fn new(seed: u64) -> Seeded {
        Seeded { state: seed }
    }

    /// Returns the next 64 pseudo-random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Returns a number below `bound`; a bound of 0 counts as 1. The bias is below 2^-32 for the
    /// bounds in use.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next_u64()) * bound.max(1) as u128;
        (wide >> 64) as usize
    }

    /// Returns a number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number of the standard normal distribution (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let (one, two) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos()
    }
}

/// Mixes 64 bits so that every bit of the result depends on every bit of `bits`; this is the last
/// step of SplitMix64.
pub fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
