//! Measures of a ranking: shares of the evidence among the first results and within token budgets.

use std::collections::BTreeSet;

/// Token budgets for measures: the size of one result page, and multiples of that size.
pub(super) const BUDGETS: [u64; 4] = [512, 1024, 2048, 4096];

/// Maximum number of results that a measure reads.
pub(super) const RESULTS_MAX: usize = 20;

/// Names of the measures, in the order of [`Scores`]. R is the share of the evidence that was
/// found. H is 1 if any evidence was found, and A is 1 if all evidence was found. MRR is the
/// reciprocal rank of the first evidence. T is the share of the evidence in the first results that
/// fit into a token budget; only the tokens of these results' texts count. P is the same share if
/// all tokens count that a model reads: also those of positions, speakers and days.
pub(super) const NAMES: [&str; 15] = [
    "R@5",
    "R@10",
    "R@20",
    "H@10",
    "A@10",
    "MRR",
    "T512",
    "T1024",
    "T2048",
    "T4096",
    "P512",
    "P1024",
    "P2048",
    "P4096",
    "tokens@10",
];

/// Measures of one question, or means over several questions. All are shares from 0 to 1, except
/// the last one, which is in tokens.
pub(super) type Scores = [f64; NAMES.len()];

/// One result of a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RankedResult {
    /// Index of the message from which the result's text comes.
    pub(super) item: usize,
    /// Tokens of the result's text.
    pub(super) bare: u64,
    /// Tokens of the lines in which a model reads the result.
    pub(super) rendered: u64,
}

/// Computes the measures of one ranking; the question's evidence must not be empty.
pub(super) fn scores(evidence: &BTreeSet<usize>, ranking: &[RankedResult]) -> Scores {
    let share = |found: usize| found as f64 / evidence.len().max(1) as f64;
    let among = |first: usize| found(evidence, ranking.iter().take(first));
    let flag = |holds: bool| if holds { 1.0 } else { 0.0 };
    let rank = first_rank(evidence, ranking);
    let bare = BUDGETS.map(|budget| share(inside(evidence, ranking, budget, |result| result.bare)));
    let rendered =
        BUDGETS.map(|budget| share(inside(evidence, ranking, budget, |result| result.rendered)));
    let tokens: u64 = ranking.iter().take(10).map(|result| result.bare).sum();
    [
        share(among(5)),
        share(among(10)),
        share(among(RESULTS_MAX)),
        flag(among(10) > 0),
        flag(among(10) == evidence.len()),
        rank.map_or(0.0, |rank| 1.0 / rank as f64),
        bare[0],
        bare[1],
        bare[2],
        bare[3],
        rendered[0],
        rendered[1],
        rendered[2],
        rendered[3],
        tokens as f64,
    ]
}

/// Returns the number of the evidence's messages within a token budget, as a model reads results.
pub(super) fn rendered_inside(
    evidence: &BTreeSet<usize>,
    ranking: &[RankedResult],
    budget: u64,
) -> usize {
    inside(evidence, ranking, budget, |result| result.rendered)
}

/// Returns the rank of the first evidence among the results, from 1.
pub(super) fn first_rank(evidence: &BTreeSet<usize>, ranking: &[RankedResult]) -> Option<usize> {
    ranking.iter().position(|result| evidence.contains(&result.item)).map(|at| at + 1)
}

/// Returns the mean of each measure over questions; zeros if there are no questions.
pub(super) fn mean<'a>(all: impl IntoIterator<Item = &'a Scores>) -> Scores {
    let mut sum = [0.0; NAMES.len()];
    let mut count = 0.0;
    for scores in all {
        count += 1.0;
        for (total, score) in sum.iter_mut().zip(scores) {
            *total += score;
        }
    }
    sum.map(|total| if count > 0.0 { total / count } else { 0.0 })
}

/// Returns the index of a measure in [`NAMES`].
pub(super) fn measure_index(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).expect("the measure is one of NAMES")
}

fn found<'a>(evidence: &BTreeSet<usize>, results: impl Iterator<Item = &'a RankedResult>) -> usize {
    let items: BTreeSet<usize> = results.map(|result| result.item).collect();
    items.intersection(evidence).count()
}

/// Returns the share of the evidence within a token budget. Results fill the budget in the order of
/// the ranking; a result that does not fit is skipped.
fn inside(
    evidence: &BTreeSet<usize>,
    ranking: &[RankedResult],
    budget: u64,
    cost: impl Fn(&RankedResult) -> u64,
) -> usize {
    let mut left = budget;
    let fits = ranking.iter().filter(|result| {
        let fits = cost(result) <= left;
        if fits {
            left -= cost(result);
        }
        fits
    });
    found(evidence, fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns results with the given number of plain tokens; a rendered result costs ten tokens
    /// more.
    fn ranking(results: &[(usize, u64)]) -> Vec<RankedResult> {
        let result =
            |&(item, bare): &(usize, u64)| RankedResult { item, bare, rendered: bare + 10 };
        results.iter().map(result).collect()
    }

    fn of(name: &str, evidence: &[usize], results: &[(usize, u64)]) -> f64 {
        scores(&evidence.iter().copied().collect(), &ranking(results))[measure_index(name)]
    }

    #[test]
    fn shares_of_two_units_at_ranks_three_and_twelve() {
        let results: Vec<(usize, u64)> = (1..=30).map(|item| (item, 40)).collect();
        for (name, wanted) in [
            ("R@5", 0.5),
            ("R@10", 0.5),
            ("R@20", 1.0),
            ("H@10", 1.0),
            ("A@10", 0.0),
            ("MRR", 1.0 / 3.0),
            // Twelve results of 40 tokens have 480 tokens; twelve results of 50 tokens have 600.
            ("T512", 1.0),
            ("P512", 0.5),
            ("P1024", 1.0),
            ("tokens@10", 400.0),
        ] {
            assert_eq!(of(name, &[3, 12], &results), wanted, "{name}");
        }
    }

    #[test]
    fn what_does_not_fit_whole_is_passed_over_and_smaller_ones_still_come() {
        let results = [(1, 500), (2, 600), (3, 12)];
        assert_eq!(of("T512", &[2], &results), 0.0);
        assert_eq!(of("T512", &[3], &results), 1.0);
        assert_eq!(of("T1024", &[2], &results), 0.0);
        assert_eq!(of("T2048", &[2], &results), 1.0);
    }

    #[test]
    fn two_parts_of_one_message_count_once_but_take_two_places() {
        let results = [(7, 10), (7, 10), (7, 10), (7, 10), (7, 10), (8, 10)];
        assert_eq!(of("R@5", &[7, 8], &results), 0.5);
        assert_eq!(of("R@10", &[7, 8], &results), 1.0);
        assert_eq!(of("A@10", &[7, 8], &results), 1.0);
    }

    #[test]
    fn nothing_found_scores_nothing() {
        assert_eq!(scores(&BTreeSet::from([1]), &[]), [0.0; NAMES.len()]);
        assert_eq!(of("MRR", &[9], &[(1, 1)]), 0.0);
        assert_eq!(mean([]), [0.0; NAMES.len()]);
    }

    #[test]
    fn a_mean_is_over_questions() {
        let (mut one, mut two) = ([0.0; NAMES.len()], [0.0; NAMES.len()]);
        one[0] = 1.0;
        two[0] = 0.5;
        assert_eq!(mean([&one, &two])[0], 0.75);
    }
}
