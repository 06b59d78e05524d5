//! K-means with a seed: the same sample and the same seed always give the same cells.

use super::distance::with_vectors;
use super::model::nearest;
use crate::schema::{Metric, VectorParams};

/// Part by which the two halves of a split cell differ (Faiss: 1/1024).
const SPLIT: f32 = 1.0 / 1024.0;
/// Vectors between two looks at whether to go on.
const VECTORS_PER_LOOK: usize = 256;

/// Reproducible chance (splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The same seed gives the same numbers.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end` (0 for 0); the bias of a remainder does not matter here.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// `lists` centroids for a sample of at least as many vectors; `sample` holds whole vectors one behind the
/// other. None if `stopped` came first. Cells of the metrics that compare directions have centroids of length one.
pub(crate) fn train(
    sample: &[f32],
    params: &VectorParams,
    lists: u32,
    seed: u64,
    stopped: &dyn Fn() -> bool,
) -> Option<Vec<f32>> {
    let dimension = params.dimension as usize;
    let mut cells = Cells {
        metric: params.metric,
        dimension,
        centroids: beginnings(sample, dimension, lists as usize, &mut Chance::new(seed)),
    };
    cells.normalise();
    let mut places = vec![usize::MAX; sample.len() / dimension];
    for _ in 0..params.training_rounds {
        if !cells.assign(sample, &mut places, stopped)? {
            break;
        }
        cells.move_to_means(sample, &places);
        cells.normalise();
    }
    Some(cells.centroids)
}

/// Different vectors of the sample, by chance.
fn beginnings(sample: &[f32], dimension: usize, lists: usize, chance: &mut Chance) -> Vec<f32> {
    let count = sample.len() / dimension;
    let mut order: Vec<usize> = (0..count).collect();
    for at in 0..lists.min(count) {
        let other = at + chance.below((count - at) as u64) as usize;
        order.swap(at, other);
    }
    let chosen = order.iter().cycle().take(lists);
    chosen.flat_map(|at| &sample[at * dimension..(at + 1) * dimension]).copied().collect()
}

struct Cells {
    metric: Metric,
    dimension: usize,
    centroids: Vec<f32>,
}

impl Cells {
    /// Puts each vector into the cell of the nearest centroid; whether any changed its cell, None if stopped.
    fn assign(
        &self,
        sample: &[f32],
        places: &mut [usize],
        stopped: &dyn Fn() -> bool,
    ) -> Option<bool> {
        let mut changed = false;
        for (at, (vector, place)) in
            sample.chunks_exact(self.dimension).zip(places.iter_mut()).enumerate()
        {
            if at.is_multiple_of(VECTORS_PER_LOOK) && stopped() {
                return None;
            }
            let best = with_vectors(
                #[inline(always)]
                || nearest(self.metric, vector, &self.centroids, self.dimension),
            );
            changed |= std::mem::replace(place, best) != best;
        }
        Some(changed)
    }

    /// Each centroid becomes the mean of its cell; an empty cell takes half of the largest one.
    fn move_to_means(&mut self, sample: &[f32], places: &[usize]) {
        let dimension = self.dimension;
        let mut counts = vec![0_usize; self.centroids.len() / dimension];
        let mut sums = vec![0.0_f64; self.centroids.len()];
        for (vector, place) in sample.chunks_exact(dimension).zip(places) {
            counts[*place] += 1;
            let sum = &mut sums[place * dimension..(place + 1) * dimension];
            sum.iter_mut().zip(vector).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        let means = self.centroids.chunks_exact_mut(dimension).zip(sums.chunks_exact(dimension));
        for ((centroid, sum), count) in means.zip(&counts) {
            if *count > 0 {
                let mean = sum.iter().map(|sum| (sum / *count as f64) as f32);
                centroid.iter_mut().zip(mean).for_each(|(x, mean)| *x = mean);
            }
        }
        for empty in 0..counts.len() {
            if counts[empty] == 0 {
                self.split_largest(empty, &mut counts);
            }
        }
    }

    fn split_largest(&mut self, empty: usize, counts: &mut [usize]) {
        let largest = (0..counts.len()).max_by_key(|cell| counts[*cell]).unwrap_or(empty);
        let half = counts[largest] / 2;
        counts[empty] = half;
        counts[largest] -= half;
        for at in 0..self.dimension {
            let x = self.centroids[largest * self.dimension + at];
            let part = if at % 2 == 0 { SPLIT } else { -SPLIT };
            self.centroids[empty * self.dimension + at] = x * (1.0 + part);
            self.centroids[largest * self.dimension + at] = x * (1.0 - part);
        }
    }

    /// Centroids of length one where directions are compared; a mean of nothing but opposites stays as it is.
    fn normalise(&mut self) {
        if self.metric == Metric::L2 {
            return;
        }
        for centroid in self.centroids.chunks_exact_mut(self.dimension) {
            let squared: f64 = centroid.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
            if squared > 0.0 {
                let length = squared.sqrt();
                centroid.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points around the corners of a square, a corner after the other.
    fn corners(per_corner: usize) -> Vec<f32> {
        let mut chance = Chance::new(7);
        let mut noise = || chance.below(1000) as f32 / 1000.0;
        let mut sample = Vec::new();
        for (x, y) in [(10.0, 10.0), (-10.0, 10.0), (-10.0, -10.0), (10.0, -10.0)] {
            for _ in 0..per_corner {
                sample.extend([x + noise(), y + noise()]);
            }
        }
        sample
    }

    fn params(metric: Metric, lists: u32) -> VectorParams {
        VectorParams { metric, dimension: 2, ..VectorParams::of_cells(lists) }
    }

    #[test]
    fn each_corner_gets_a_cell_and_the_seed_decides() {
        let sample = corners(50);
        for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
            // Not each beginning leads to four corners; several seeds have to.
            let found = (0..8).filter(|seed| {
                let made = train(&sample, &params(metric, 4), 4, *seed, &|| false).unwrap();
                assert_eq!(made, train(&sample, &params(metric, 4), 4, *seed, &|| false).unwrap());
                let mut signs: Vec<_> =
                    made.chunks_exact(2).map(|c| (c[0] > 0.0, c[1] > 0.0)).collect();
                signs.sort_unstable();
                signs.dedup();
                signs.len() == 4
            });
            assert!(found.count() >= 3, "{metric:?}");
        }
    }

    #[test]
    fn equal_vectors_still_make_all_cells_and_a_stop_ends_it() {
        let same = [1.0, 2.0].repeat(9);
        let made = train(&same, &params(Metric::L2, 3), 3, 1, &|| false).unwrap();
        assert_eq!(made.len(), 6);
        assert!(made.iter().all(|x| x.is_finite()));
        assert!(train(&corners(5), &params(Metric::L2, 3), 3, 1, &|| true).is_none());
    }
}
