//! How many cells the vector index has, how many of them a search looks into (the fewest with which a sample of questions finds enough of what
//! all cells hold), and when an index has become too coarse for what it holds.

use serde::{Deserialize, Serialize};

use crate::limits::N_PROBE_MAX;

/// Share of the nearest that must be found.
pub const RECALL_WANTED: f64 = 0.98;
/// Largest share of the cells, and of the vectors, that is looked into unless a call says otherwise: beyond it an index is no better than
/// comparing one by one.
const SHARE_MAX: f64 = 0.12;
/// Measured recall below which an index counts as one that no longer fits what it holds.
const RECALL_POOR: f64 = 0.95;
/// Growth that is enough for a training anew where recall is poor, as a share of the rows that there are.
const BEFORE_POOR: (u64, u64) = (4, 5);
/// Cells for a square root of the rows, in a small archive and in a large one: FAISS's guidelines say 4 to 16 up to a million vectors. Finer cells
/// find more for the same share of vectors looked at, but a training takes time with the square of their number.
const LISTS_PER_ROOT: (u64, u64) = (12, 4);
/// Cells up to which the larger of the two holds.
const LISTS_FINE_MAX: u64 = 2_048;
/// Vectors that each cell is trained on at least.
const ROWS_PER_LIST: u64 = 7;
/// Growth of the archive after which it is measured again.
const GROWTH: f64 = 1.25;
/// How close to the last of the nearest a likeness counts as found: an index computes in floats of four bytes.
const SLACK: f64 = 1e-6;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Cells that a search looks into.
    #[serde(rename = "nProbe")]
    pub n_probe: u32,
    /// Share of the nearest that they hold, over the sample.
    pub recall: f64,
    /// Questions of the sample.
    pub questions: u64,
    /// Share of all vectors that lie in those cells, over the sample.
    #[serde(default)]
    pub scanned: f64,
    /// Chunks that there were.
    pub rows: u64,
    /// Cells that the index had.
    #[serde(rename = "nLists", default)]
    pub n_lists: u64,
}

impl Measured {
    /// What holds for an index of which nothing was measured yet: as many cells as may be looked into.
    pub fn unknown(n_lists: u64) -> Self {
        let n_probe = ladder(n_lists).last().copied().unwrap_or(1);
        Self { n_probe, recall: 0.0, questions: 0, scanned: 0.0, rows: 0, n_lists }
    }

    /// Fewer cells, if these hold more of the vectors than may be looked at.
    pub fn within_share(&self) -> Option<u32> {
        let fewer = (f64::from(self.n_probe) * SHARE_MAX / self.scanned).floor().max(1.0) as u32;
        (self.scanned > SHARE_MAX && fewer < self.n_probe).then_some(fewer)
    }
}

/// Cells for so many vectors.
pub fn lists_for(rows: u64) -> u64 {
    let root = rows.isqrt();
    let fine = (LISTS_PER_ROOT.0 * root).min(LISTS_FINE_MAX);
    fine.max(LISTS_PER_ROOT.1 * root).min(rows / ROWS_PER_LIST).max(1)
}

/// Whether an index of so many cells is too coarse for its vectors: there are `growth` times as many as such cells are made for, or a quarter more
/// and it finds too little. 0 never is.
pub fn is_outgrown(n_lists: u64, rows: u64, growth: u64, last: Option<&Measured>) -> bool {
    if growth == 0 {
        return false;
    }
    let poor = last.is_some_and(|last| {
        last.questions > 0 && last.n_lists == n_lists && last.recall < RECALL_POOR
    });
    let before = if poor { rows * BEFORE_POOR.0 / BEFORE_POOR.1 } else { rows / growth };
    // An index of that many vectors would have more cells already.
    lists_for(before) > n_lists
}

/// Whether it is time to measure: nothing was measured, the archive has grown since, or the index is another one.
pub fn is_due(last: Option<&Measured>, rows: u64, n_lists: u64) -> bool {
    last.is_none_or(|last| rows as f64 >= last.rows as f64 * GROWTH || last.n_lists != n_lists)
}

/// Numbers of cells worth trying, rising; the last one is the most that is looked into without being told.
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

/// Share of the nearest (`truth`, nearest first) that was found; ties are no misses. `rising` for distances.
pub fn recall(truth: &[f64], found: &[f64], rising: bool) -> f64 {
    let Some(last) = truth.last() else { return 1.0 };
    let within =
        |value: &&f64| if rising { **value <= last + SLACK } else { **value >= last - SLACK };
    found.iter().filter(within).count().min(truth.len()) as f64 / truth.len() as f64
}

/// Questions for a sample of vectors: the middle of three that have nothing to do with each other, since a vector of the index itself would
/// be found in the first cell, and what people ask is nearer to no chunk than these.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_rises_to_a_share_of_the_cells_within_the_bound() {
        assert_eq!(ladder(1), [1]);
        assert_eq!(ladder(100), [1, 2, 3, 4, 6, 8, 12]);
        assert_eq!(ladder(1_000_000).last(), Some(&N_PROBE_MAX));
        for lists in [2, 9, 306, 4_000] {
            assert!(ladder(lists).windows(2).all(|two| two[0] < two[1]), "{lists}");
        }
    }

    fn measured(n_lists: u64, recall: f64) -> Measured {
        Measured { n_probe: 8, recall, questions: 16, scanned: 0.1, rows: 1_000, n_lists }
    }

    #[test]
    fn lists_grow_with_the_root_and_never_starve() {
        for (rows, lists) in [
            (1, 1),
            (19, 2),
            (1_000, 142),
            (6_000, 857),
            (25_000, 1_896),
            (65_536, 2_048),
            (262_144, 2_048),
            (1_000_000, 4_000),
        ] {
            assert_eq!(lists_for(rows), lists, "{rows}");
        }
        assert!((1..200_000).all(|rows| lists_for(rows) <= lists_for(rows + 1)));
    }

    #[test]
    fn an_index_is_outgrown_by_so_many_times_its_rows_or_by_fewer_where_it_finds_too_little() {
        for (lists, rows, growth, last, outgrown) in [
            (142, 1_000, 2, None, false),
            (142, 2_001, 2, None, false),
            (142, 2_002, 2, None, true),
            (142, 16_000, 2, None, true),
            (142, 2_002, 4, None, false),
            (142, 16_000, 0, None, false),
            (142, 1_252, 2, Some(measured(142, 0.9)), true),
            (142, 1_200, 2, Some(measured(142, 0.9)), false),
            (142, 1_252, 2, Some(measured(142, 0.96)), false),
            // What was measured of another index says nothing of this one.
            (142, 1_252, 2, Some(measured(50, 0.5)), false),
            (142, 1_252, 2, Some(Measured::unknown(142)), false),
            (2_048, 520_000, 2, None, false),
            (2_048, 530_000, 2, None, true),
        ] {
            assert_eq!(is_outgrown(lists, rows, growth, last.as_ref()), outgrown, "{lists} {rows}");
        }
    }

    #[test]
    fn cells_that_hold_too_much_become_fewer() {
        let of = |n_probe, scanned| Measured { n_probe, scanned, ..measured(100, 1.0) };
        assert_eq!(of(12, 0.12).within_share(), None);
        assert_eq!(of(12, 0.24).within_share(), Some(6));
        assert_eq!(of(1, 0.5).within_share(), None);
        assert_eq!(Measured::unknown(100).n_probe, 12);
    }

    #[test]
    fn ties_are_no_misses_and_distances_rise() {
        assert_eq!(recall(&[0.9, 0.8], &[0.9, 0.8], false), 1.0);
        assert_eq!(recall(&[0.9, 0.8], &[0.9, 0.7], false), 0.5);
        assert_eq!(recall(&[0.9, 0.8, 0.8], &[0.9, 0.8, 0.8 - 1e-9], false), 1.0);
        assert_eq!(recall(&[0.1, 0.2], &[0.1, 0.3], true), 0.5);
        assert_eq!(recall(&[], &[], true), 1.0);
    }

    #[test]
    fn a_sample_is_measured_once_and_again_when_the_archive_has_grown() {
        let last = measured(100, 0.98);
        assert!(is_due(None, 1, 100));
        assert!(!is_due(Some(&last), 1_249, 100) && is_due(Some(&last), 1_250, 100));
        assert!(is_due(Some(&last), 1_000, 200), "another index");
        let axes = [vec![1.0, 0.0, 0.0], vec![0.0, 2.0, 0.0], vec![0.0, 0.0, 5.0]];
        assert_eq!(questions(&axes), [[1.0, 1.0, 1.0]]);
        assert!(questions(&axes[..2]).is_empty());
    }
}
