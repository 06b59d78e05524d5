//! Chooses the vector index's number of lists (`nLists`) and the number of lists that a search
//! reads (`nProbe`), and decides when the index has too few lists.

use serde::{Deserialize, Serialize};

use crate::limits::N_PROBE_MAX;

/// Share of the nearest vectors that a search with the vector index must find.
pub const RECALL_WANTED: f64 = 0.98;
/// Maximum share of the vector index's lists and vectors that a search reads by default. A search
/// that reads a larger share has no advantage over a comparison of all vectors.
const SHARE_MAX: f64 = 0.12;
/// Measured recall below which a vector index counts as outdated for its current rows.
const RECALL_POOR: f64 = 0.95;
/// Share of its present rows that an archive had before it grew by a quarter, as numerator and
/// denominator. After this growth, a vector index with poor recall is trained again.
const BEFORE_POOR: (u64, u64) = (4, 5);
/// Number of the vector index's lists divided by the square root of the number of rows, for a small
/// and for a large archive. FAISS's guidelines recommend 4 to 16 for up to a million vectors. With
/// more lists, a search that reads a fixed share of the vectors finds more, but training time grows
/// with the square of the number of lists.
const LISTS_PER_ROOT: (u64, u64) = (12, 4);
/// The factor for a small archive gives at most this number of lists.
const LISTS_FINE_MAX: u64 = 2_048;
/// Minimum number of training vectors per list of the vector index.
const ROWS_PER_LIST: u64 = 7;
/// Factor of growth of the archive after which recall is measured again.
const GROWTH: f64 = 1.25;
/// Tolerance in comparisons of similarities, because the vector index computes in 32-bit floats.
const SLACK: f64 = 1e-6;

/// A measurement of a vector index's recall.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListMeasurement {
    /// Number of the vector index's lists that a search reads.
    #[serde(rename = "nProbe")]
    pub n_probe: u32,
    /// Mean share of the nearest vectors that a search finds in the lists that it reads, over the
    /// sample.
    pub recall: f64,
    /// Number of queries in the measured sample.
    pub questions: u64,
    /// Share of all vectors that are in the lists which a search reads; the mean over the sample.
    #[serde(default)]
    pub scanned: f64,
    /// Number of chunks when recall was measured.
    pub rows: u64,
    /// Number of lists of the vector index.
    #[serde(rename = "nLists", default)]
    pub n_lists: u64,
}

impl ListMeasurement {
    /// Returns the values to use before the first measurement. With these values, a search reads
    /// the maximum number of lists.
    pub fn unknown(n_lists: u64) -> Self {
        let n_probe = ladder(n_lists).last().copied().unwrap_or(1);
        Self { n_probe, recall: 0.0, questions: 0, scanned: 0.0, rows: 0, n_lists }
    }

    /// Returns a smaller `nProbe` if the lists that a search reads contain more than the maximum
    /// share of the vectors.
    pub fn within_share(&self) -> Option<u32> {
        let fewer = (f64::from(self.n_probe) * SHARE_MAX / self.scanned).floor().max(1.0) as u32;
        (self.scanned > SHARE_MAX && fewer < self.n_probe).then_some(fewer)
    }
}

/// Returns the number of lists for a vector index over `rows` vectors.
pub fn lists_for(rows: u64) -> u64 {
    let root = rows.isqrt();
    let fine = (LISTS_PER_ROOT.0 * root).min(LISTS_FINE_MAX);
    fine.max(LISTS_PER_ROOT.1 * root).min(rows / ROWS_PER_LIST).max(1)
}

/// Returns whether a vector index has too few lists, because its number of rows grew by the factor
/// `growth`, or by a quarter if recall is poor. With a `growth` of 0, no index has too few lists.
pub fn is_outgrown(n_lists: u64, rows: u64, growth: u64, last: Option<&ListMeasurement>) -> bool {
    if growth == 0 {
        return false;
    }
    let poor = last.is_some_and(|last| {
        last.questions > 0 && last.n_lists == n_lists && last.recall < RECALL_POOR
    });
    let before = if poor { rows * BEFORE_POOR.0 / BEFORE_POOR.1 } else { rows / growth };
    // `before` is less than the current number of vectors. If even an index over `before` vectors
    // would have more lists than the current index, the current index has too few lists.
    lists_for(before) > n_lists
}

/// Returns whether to measure the recall of the vector index, because no measurement exists, the
/// archive has grown, or the index is new.
pub fn is_due(last: Option<&ListMeasurement>, rows: u64, n_lists: u64) -> bool {
    last.is_none_or(|last| rows as f64 >= last.rows as f64 * GROWTH || last.n_lists != n_lists)
}

/// Returns the values of `nProbe` to try, in rising order; the last value is the default maximum.
pub fn ladder(n_lists: u64) -> Vec<u32> {
    let most = (n_lists as f64 * SHARE_MAX).floor().max(1.0);
    let most = most.min(f64::from(N_PROBE_MAX)) as u32;
    let steps = (0..32).flat_map(|power| [1_u64 << power, (1 << power) + (1 << power) / 2]);
    let mut steps: Vec<u32> =
        steps.filter_map(|n| u32::try_from(n).ok()).filter(|n| *n < most).collect();
    steps.dedup();
    steps.push(most);
    steps
}

/// Returns the share of the nearest vectors that a search found. `truth` contains the similarities
/// of the nearest vectors, nearest first, and `found` those of the found vectors. A different
/// vector that is equally near counts as found. `rising` is true if the values are distances, which
/// are larger for vectors that are farther apart.
pub fn recall(truth: &[f64], found: &[f64], rising: bool) -> f64 {
    let Some(last) = truth.last() else { return 1.0 };
    let within =
        |value: &&f64| if rising { **value <= last + SLACK } else { **value >= last - SLACK };
    found.iter().filter(within).count().min(truth.len()) as f64 / truth.len() as f64
}

/// Makes query vectors from a sample of vectors, in order to measure the recall of a vector index.
/// Each query vector points in the direction of the mean of three unrelated vectors of the sample.
/// A vector of the index itself would be found too easily, in the first list that is read. Real
/// queries are no nearer to the chunks than these query vectors.
pub fn questions(sample: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let third = sample.len() / 3;
    let unit = |vector: &[f64]| {
        let length = vector.iter().map(|c| c * c).sum::<f64>().sqrt();
        vector.iter().map(|c| if length > 0.0 { c / length } else { 0.0 }).collect::<Vec<f64>>()
    };
    let middle = |at: usize| {
        let parts = [at, at + third, at + 2 * third].map(|at| unit(&sample[at]));
        parts[0].iter().enumerate().map(|(i, c)| c + parts[1][i] + parts[2][i]).collect()
    };
    (0..third).map(middle).collect()
}
