//! Things by weight: the lighter goes first, of two alike the one with the smaller number.

use std::cmp::Ordering;

/// Something with its weight.
pub(super) struct Weighed<T> {
    /// What counts first.
    pub(super) weight: f64,
    /// What tells two of the same weight apart; no two have the same.
    pub(super) number: u64,
    /// What is weighed.
    pub(super) item: T,
}

impl<T> PartialEq for Weighed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Weighed<T> {}

impl<T> PartialOrd for Weighed<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Weighed<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.weight.total_cmp(&other.weight).then_with(|| self.number.cmp(&other.number))
    }
}
