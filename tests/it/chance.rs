//! Numbers by chance that are the same for the same seed, so that a failing run can be had again.

/// SplitMix64 (Steele, Lea, Flood 2014): one word of state, good enough to choose kill points.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below the bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound.max(1)
    }

    /// One of a list.
    pub(crate) fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        let at = self.below(list.len() as u64);
        &list[usize::try_from(at).expect("an index")]
    }
}

/// Rounds of a test that proves by repetition: what the environment asks for by name, else all of them
/// with `VCTX_ROUNDS=full`, else a fifth. Seeds are fixed, so every run has the same fifth.
pub(crate) fn rounds(name: &str, full: u64) -> u64 {
    let whole = std::env::var("VCTX_ROUNDS").is_ok_and(|rounds| rounds == "full");
    setting(name, if whole { full } else { full.div_ceil(5) })
}

/// A number from the environment, or what a normal run takes.
pub(crate) fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().map_or(usual, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a whole number"))
    })
}
