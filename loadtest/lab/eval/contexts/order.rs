//! Scores and orders of the usual search methods, from the scores of words and of meaning.

/// The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009).
const RANK_CONSTANT: f64 = 60.0;

/// Returns the indexes of the scores, best first; of equal scores, the first one first.
pub(super) fn best_first(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order
}

/// Returns the sum of the reciprocal ranks. A text without any word of the question has no rank
/// among the words.
pub(super) fn rank_fusion(words: &[f64], meaning: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; words.len()];
    let found = best_first(words).into_iter().filter(|at| words[*at] > 0.0).collect();
    for order in [found, best_first(meaning)] {
        let order: Vec<usize> = order;
        for (rank, at) in order.into_iter().enumerate() {
            sums[at] += 1.0 / (RANK_CONSTANT + rank as f64 + 1.0);
        }
    }
    sums
}

/// Returns the sum of the scores, each as a number of standard deviations from the mean.
pub(super) fn z_sum(words: &[f64], meaning: &[f64]) -> Vec<f64> {
    let (words, meaning) = (standardised(words), standardised(meaning));
    words.iter().zip(&meaning).map(|(a, b)| a + b).collect()
}

/// Returns for each score the mean of the scores around it, up to `each` on each side.
pub(super) fn windowed(scores: &[f64], each: usize) -> Vec<f64> {
    let mean = |at: usize| {
        let around = &scores[at.saturating_sub(each)..(at + each + 1).min(scores.len())];
        around.iter().sum::<f64>() / around.len() as f64
    };
    (0..scores.len()).map(mean).collect()
}

/// Takes texts in the given order, as long as they fit into a number of tokens. A text that does
/// not fit is passed over. Returns the taken texts in their own order.
pub(super) fn packed(order: &[usize], costs: &[u64], tokens_max: u64) -> Vec<usize> {
    let mut left = tokens_max;
    let mut taken: Vec<usize> = order
        .iter()
        .copied()
        .filter(|at| {
            let fits = costs[*at] <= left;
            if fits {
                left -= costs[*at];
            }
            fits
        })
        .collect();
    taken.sort_unstable();
    taken
}

fn standardised(scores: &[f64]) -> Vec<f64> {
    let count = scores.len().max(1) as f64;
    let mean = scores.iter().sum::<f64>() / count;
    let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / count;
    let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
    scores.iter().map(|score| (score - mean) / deviation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_fused_and_a_text_without_words_has_one_rank() {
        let sums = rank_fusion(&[2.0, 0.0, 1.0], &[0.1, 0.9, 0.2]);
        let rank = |place: f64| 1.0 / (60.0 + place);
        assert_eq!(sums, [rank(1.0) + rank(3.0), rank(1.0), rank(2.0) + rank(2.0)]);
        assert_eq!(best_first(&sums), [0, 2, 1]);
    }

    #[test]
    fn standard_scores_do_not_depend_on_the_scale() {
        let (words, meaning) = ([3.0, 1.0, 2.0], [0.1, 0.2, 0.6]);
        let scaled: Vec<f64> = words.iter().map(|score| score * 40.0 + 7.0).collect();
        let (one, other) = (z_sum(&words, &meaning), z_sum(&scaled, &meaning));
        assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-9), "{one:?} {other:?}");
        assert_eq!(best_first(&one), [2, 0, 1]);
        assert_eq!(z_sum(&[1.0, 1.0], &[0.0, 0.0]), [0.0, 0.0]);
    }

    #[test]
    fn a_window_is_shorter_at_the_ends() {
        assert_eq!(windowed(&[3.0, 0.0, 0.0, 9.0], 1), [1.5, 1.0, 3.0, 4.5]);
        assert!(windowed(&[], 5).is_empty());
    }

    #[test]
    fn what_does_not_fit_is_passed_over() {
        assert_eq!(packed(&[2, 0, 1], &[30, 5, 60], 65), [1, 2]);
        assert_eq!(packed(&[0, 1], &[30, 5], 4), [0; 0]);
    }
}
