//! Selects the nearest of many vectors in bounded memory.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A found vector: its closeness to the query, and the local id of its document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    pub(crate) closeness: f32,
    pub(crate) local: u64,
}

impl Ord for Near {
    /// Compares vectors so that a nearer one is greater. Of equally near vectors, that of the older
    /// document is greater.
    fn cmp(&self, other: &Self) -> Ordering {
        self.closeness.total_cmp(&other.closeness).then_with(|| other.local.cmp(&self.local))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Near {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Near {}

/// Keeps the `keep` nearest of the vectors offered to it.
#[derive(Debug)]
pub(crate) struct Top {
    keep: usize,
    /// The kept vectors, as a heap with the farthest vector on top.
    kept: BinaryHeap<std::cmp::Reverse<Near>>,
}

impl Top {
    /// Creates an empty set for at most `keep` vectors.
    pub(crate) fn new(keep: usize) -> Self {
        Self { keep, kept: BinaryHeap::new() }
    }

    /// Keeps a vector if it is among the nearest so far.
    #[inline(always)]
    pub(crate) fn offer(&mut self, near: Near) {
        if self.kept.len() < self.keep {
            self.kept.push(std::cmp::Reverse(near));
        } else if let Some(mut farthest) = self.kept.peek_mut()
            && near > farthest.0
        {
            farthest.0 = near;
        }
    }

    /// Returns the number of kept vectors.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns all kept vectors, nearest first.
    pub(crate) fn into_sorted(self) -> Vec<Near> {
        self.kept.into_sorted_vec().into_iter().map(|near| near.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_kept_are_the_first_of_a_full_sort(values in prop::collection::vec(-3_i8..3, 0..40), keep in 0_usize..12) {
            let all = values.iter().zip(0..).map(|(value, local)| Near { closeness: f32::from(*value), local });
            let mut sorted: Vec<Near> = all.clone().collect();
            sorted.sort_by(|a, b| b.cmp(a));
            let mut top = Top::new(keep);
            all.for_each(|near| top.offer(near));
            prop_assert_eq!(top.len(), keep.min(values.len()));
            sorted.truncate(keep);
            prop_assert_eq!(top.into_sorted(), sorted);
        }
    }
}
