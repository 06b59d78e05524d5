//! Generates random numbers from a seed, so that a failing test run can be repeated.

/// SplitMix64 (Steele, Lea, Flood 2014), a generator with one word of state, used to choose kill
/// points.
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

    /// Returns a random number below the bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound.max(1)
    }

    /// Returns a random item of a list.
    pub(crate) fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        let at = self.below(list.len() as u64);
        &list[usize::try_from(at).expect("an index")]
    }
}

/// Returns the number of rounds of a repeated test: the value of the named environment variable. If
/// this variable is not set, the number is all rounds with `VCTX_ROUNDS=full`, and otherwise an
/// eighth of the rounds. Seeds are fixed, so every run repeats the same eighth of the rounds.
pub(crate) fn rounds(name: &str, full: u64) -> u64 {
    rounds_of(name, full, 8)
}

/// Returns the number of rounds as `rounds` does, but usually divides it by `part`.
pub(crate) fn rounds_of(name: &str, full: u64, part: u64) -> u64 {
    setting(name, if all_rounds() { full } else { full.div_ceil(part) })
}

/// Returns the cases of a long table that this run tries: all with `VCTX_ROUNDS=full`, otherwise
/// every eighth, beginning with the first.
pub(crate) fn share<T>(cases: &[T]) -> impl Iterator<Item = &T> {
    cases.iter().step_by(if all_rounds() { 1 } else { 8 })
}

/// Returns the cases that are tried in one of several ways: all with `VCTX_ROUNDS=full`; otherwise
/// the ways take turns, so that each case is tried in one way, and each way with some cases.
pub(crate) fn in_turn<T>(cases: &[T], way: usize, ways: usize) -> Vec<&T> {
    let (first, step) = if all_rounds() { (0, 1) } else { (way, ways) };
    cases.iter().skip(first).step_by(step).collect()
}

fn all_rounds() -> bool {
    std::env::var("VCTX_ROUNDS").is_ok_and(|rounds| rounds == "full")
}

/// Returns a number from an environment variable, or the default.
pub(crate) fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().map_or(usual, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a whole number"))
    })
}

/// Returns a random UUID.
pub(crate) fn uuid(chance: &mut Chance) -> String {
    let mut part = |digits: usize| {
        let digit = |_| {
            char::from(b"0123456789abcdef"[usize::try_from(chance.below(16)).expect("a digit")])
        };
        (0..digits).map(digit).collect::<String>()
    };
    format!("{}-{}-4{}-a{}-{}", part(8), part(4), part(3), part(3), part(12))
}
