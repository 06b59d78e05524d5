//! How many cells of the vector index a search looks into: the fewest with which a sample of questions finds enough of what all cells hold.

use serde::{Deserialize, Serialize};

use crate::limits::N_PROBE_MAX;

/// Share of the nearest that must be found.
pub const RECALL_WANTED: f64 = 0.98;
/// Largest share of the cells that is looked into unless a call says otherwise: beyond it an index is no better than comparing one by one.
const CELLS_SHARE_MAX: f64 = 0.12;
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
    /// Chunks that there were.
    pub rows: u64,
}

/// Whether it is time to measure: nothing was measured, or the archive has grown since.
pub fn is_due(last: Option<&Measured>, rows: u64) -> bool {
    last.is_none_or(|last| rows as f64 >= last.rows as f64 * GROWTH)
}

/// Numbers of cells worth trying, rising; the last one is the most that is looked into without being told.
pub fn ladder(n_lists: u64) -> Vec<u32> {
    let most = (n_lists as f64 * CELLS_SHARE_MAX).floor().max(1.0);
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
        let last = Measured { n_probe: 8, recall: 0.98, questions: 16, rows: 1_000 };
        assert!(is_due(None, 1) && !is_due(Some(&last), 1_249) && is_due(Some(&last), 1_250));
        let axes = [vec![1.0, 0.0, 0.0], vec![0.0, 2.0, 0.0], vec![0.0, 0.0, 5.0]];
        assert_eq!(questions(&axes), [[1.0, 1.0, 1.0]]);
        assert!(questions(&axes[..2]).is_empty());
    }
}
