//! The suite that compares the server's order of an archive's documents with the better one of two
//! single search methods.

use super::arms::Arm;
use super::figures::{Figures, differences, mean};
use super::ranked::FUSED;

/// The single search methods.
pub(super) const ARMS: [Arm; 2] = [Arm::Bm25, Arm::Minilm];

/// Returns for each set how much better the better method is than the built contexts (less is
/// better), and the largest of these regrets. The measure is the share of the gold documents among
/// the best ten.
pub(super) fn regrets(sets: &[Figures]) -> Figures {
    let what =
        "gold in the best ten: points by which the better single method leads (less is better)";
    let mut figures = Figures::new("fusion", what);
    let mut largest: Option<(f64, &str, Arm)> = None;
    for set in sets {
        let Some(built) = set.values(None, FUSED) else { continue };
        let values = ARMS.into_iter().filter_map(|arm| Some((arm, set.values(Some(arm), FUSED)?)));
        let best = values.max_by(|(_, a), (_, b)| mean(a).total_cmp(&mean(b)));
        let Some((arm, ahead)) = best.and_then(|(arm, of)| Some((arm, differences(of, built)?)))
        else {
            continue;
        };
        for regret in &ahead {
            figures.note(&format!("regret, {}", set.suite()), *regret);
        }
        let regret = mean(&ahead);
        if largest.is_none_or(|(known, _, _)| regret > known) {
            largest = Some((regret, set.suite(), arm));
        }
    }
    if let Some((regret, set, arm)) = largest {
        figures.note("largest regret", regret);
        figures
            .notes
            .push(format!("fusion: the largest regret is on {set}, against {}", arm.name()));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_regret_is_that_against_the_better_method_of_the_worst_set() {
        let set = |name, values: [f64; 3]| {
            let mut set = Figures::new(name, "");
            for (arm, value) in [None, Some(Arm::Bm25), Some(Arm::Minilm)].into_iter().zip(values) {
                set.note_of(arm, FUSED, value);
                set.note_of(arm, FUSED, 0.0);
            }
            set
        };
        let found = regrets(&[set("a", [0.8, 0.6, 0.4]), set("b", [0.5, 0.25, 0.75])]);
        assert_eq!(found.values(None, "largest regret"), Some(&[0.125][..]));
        assert_eq!(found.values(None, "regret, b"), Some(&[0.25, 0.0][..]));
        assert!(found.values(None, "regret, a").unwrap()[0] < 0.0);
        assert!(found.notes[0].ends_with("on b, against minilm"), "{:?}", found.notes);
        assert_eq!(regrets(&[]).values(None, "largest regret"), None);
    }
}
