//! The centroids of a trained index, which determine the list of a vector and the lists nearest to
//! a query.

use super::distance::{closeness, with_vectors};
use crate::schema::Metric;

/// The centroids of one training. Lists are numbered from 1; list 0 contains vectors that were
/// stored before the training.
#[derive(Debug)]
pub(crate) struct Model {
    /// Number of the training that computed the centroids.
    pub(crate) generation: u64,
    metric: Metric,
    dimension: usize,
    centroids: Vec<f32>,
}

impl Model {
    /// Creates a model. `centroids` must contain at least one vector of `dimension` components.
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

    /// Returns the number of the list nearest to a vector; of equally near lists, the first.
    pub(crate) fn list_of(&self, vector: &[f32]) -> u32 {
        with_vectors(
            #[inline(always)]
            || nearest(self.metric, vector, &self.centroids, self.dimension),
        ) as u32
            + 1
    }

    /// Returns the `count` lists nearest to a query, nearest first, or all lists if the index has
    /// fewer.
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

/// Returns the index of the nearest of several contiguous vectors; of equally near ones, the first.
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
