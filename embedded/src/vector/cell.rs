//! One list of a vector index in memory, whose vectors are contiguous for fast linear reads.

use super::distance::{closeness, with_vectors};
use super::top::{Near, Top};
use crate::schema::Metric;

/// The vectors of a list, and the local ids of their documents.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    locals: Vec<u64>,
    components: Vec<f32>,
}

impl Cell {
    /// Adds a stored vector. Returns `false` if the stored vector does not have `dimension`
    /// components.
    pub(crate) fn push(&mut self, local: u64, stored: &[u8], dimension: usize) -> bool {
        let (stored, rest) = stored.as_chunks::<4>();
        if stored.len() != dimension || !rest.is_empty() {
            return false;
        }
        self.locals.push(local);
        self.components.extend(stored.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        true
    }

    /// Returns the number of vectors.
    pub(crate) fn len(&self) -> usize {
        self.locals.len()
    }

    /// Returns the size of the list in memory, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.locals.capacity() * 8 + self.components.capacity() * 4) as u64
    }

    /// Frees unused capacity.
    pub(crate) fn shrink(&mut self) {
        self.locals.shrink_to_fit();
        self.components.shrink_to_fit();
    }

    /// Offers the vectors of a part of the list to `top`; the part is given by its first position
    /// and its maximum length.
    pub(crate) fn keep_nearest(
        &self,
        metric: Metric,
        query: &[f32],
        part: (usize, usize),
        top: &mut Top,
    ) {
        with_vectors(
            #[inline(always)]
            || {
                for (local, vector) in self.part(query.len(), part) {
                    top.offer(Near { closeness: closeness(metric, query, vector), local });
                }
            },
        );
    }

    /// Adds the vectors of a part of the list to `all`, with their closeness; the part is given by
    /// its first position and its maximum length.
    pub(crate) fn all_near(
        &self,
        metric: Metric,
        query: &[f32],
        part: (usize, usize),
        all: &mut Vec<Near>,
    ) {
        with_vectors(
            #[inline(always)]
            || {
                for (local, vector) in self.part(query.len(), part) {
                    all.push(Near { closeness: closeness(metric, query, vector), local });
                }
            },
        );
    }

    #[inline(always)]
    fn part(
        &self,
        dimension: usize,
        (first, count): (usize, usize),
    ) -> impl Iterator<Item = (u64, &[f32])> {
        let vectors = self.components.chunks_exact(dimension);
        self.locals.iter().copied().zip(vectors).skip(first).take(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::bytes_of;

    #[test]
    fn parts_of_a_cell_make_the_whole() {
        let mut cell = Cell::default();
        for local in 0..10_u64 {
            assert!(cell.push(local, &bytes_of(&[local as f32, 1.0]), 2));
        }
        assert!(!cell.push(11, &bytes_of(&[1.0]), 2) && !cell.push(11, &[0; 9], 2));
        cell.shrink();
        assert_eq!((cell.len(), cell.bytes()), (10, size_of::<Cell>() as u64 + 160));
        let mut all = Vec::new();
        let mut top = Top::new(3);
        for first in [0, 4, 8] {
            cell.all_near(Metric::L2, &[9.0, 1.0], (first, 4), &mut all);
            cell.keep_nearest(Metric::L2, &[9.0, 1.0], (first, 4), &mut top);
        }
        assert_eq!(all.len(), 10);
        let kept: Vec<u64> = top.into_sorted().iter().map(|near| near.local).collect();
        assert_eq!(kept, [9, 8, 7]);
        assert!(all.iter().all(|near| near.closeness == -(9.0 - near.local as f32).powi(2)));
    }
}
