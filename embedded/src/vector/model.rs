//! The cells of a trained index: where a vector belongs, and which cells are near a query.

use super::distance::{closeness, with_vectors};
use crate::schema::Metric;

/// Centroids of one training. Lists are numbered from 1; 0 is the list of what came before the training.
#[derive(Debug)]
pub(crate) struct Model {
    /// Number of the training that made them.
    pub(crate) generation: u64,
    metric: Metric,
    dimension: usize,
    centroids: Vec<f32>,
}

impl Model {
    /// `centroids` holds whole vectors of `dimension` components, at least one.
    pub(crate) fn new(
        generation: u64,
        metric: Metric,
        dimension: u32,
        centroids: Vec<f32>,
    ) -> Self {
        let dimension = dimension as usize;
        debug_assert!(!centroids.is_empty() && centroids.len().is_multiple_of(dimension));
        Self { generation, metric, dimension, centroids }
    }

    /// The list a vector belongs to; of equally near ones the first.
    pub(crate) fn list_of(&self, vector: &[f32]) -> u32 {
        with_vectors(
            #[inline(always)]
            || nearest(self.metric, vector, &self.centroids, self.dimension),
        ) as u32
            + 1
    }

    /// The `count` lists nearest to a query (all of them if there are fewer), the nearest first.
    pub(crate) fn lists_near(&self, query: &[f32], count: usize) -> Vec<u32> {
        let mut lists: Vec<(f32, u32)> = with_vectors(
            #[inline(always)]
            || {
                let centroids = self.centroids.chunks_exact(self.dimension);
                let near = centroids.map(
                    #[inline(always)]
                    |centroid| closeness(self.metric, query, centroid),
                );
                near.zip(1..).collect()
            },
        );
        let order = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if count < lists.len() {
            lists.select_nth_unstable_by(count, order);
            lists.truncate(count);
        }
        lists.sort_unstable_by(order);
        lists.into_iter().map(|(_, list)| list).collect()
    }
}

/// Which of several vectors, one behind the other, is the nearest; of equally near ones the first.
#[inline(always)]
pub(super) fn nearest(metric: Metric, vector: &[f32], all: &[f32], dimension: usize) -> usize {
    let mut best = (f32::NEG_INFINITY, 0);
    for (at, one) in all.chunks_exact(dimension).enumerate() {
        let near = closeness(metric, vector, one);
        if near > best.0 {
            best = (near, at);
        }
    }
    best.1
}
