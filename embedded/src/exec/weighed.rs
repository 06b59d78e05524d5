//! Orders items by weight, and items of equal weight by number, the smallest first.

use std::cmp::Ordering;

/// An item with a weight, for a priority queue.
pub(super) struct Weighed<T> {
    /// The item's weight, the first criterion of the order.
    pub(super) weight: f64,
    /// The item's unique number, the second criterion of the order.
    pub(super) number: u64,
    /// The item.
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
