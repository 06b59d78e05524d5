//! The measures of a ranking: shares of the evidence among the first so many results and inside so many tokens.

use std::collections::BTreeSet;

/// Budgets in tokens: one page and its multiples.
pub(super) const BUDGETS: [u64; 4] = [512, 1024, 2048, 4096];

/// Results that the longest list measure looks at.
pub(super) const RESULTS_MAX: usize = 20;

/// Names of the measures, in the order of [`Scores`]: R share of the evidence, H any of it, A all of it, MRR the reciprocal rank of
/// the first, T share inside a budget of bare text, P the same with each result as it was answered.
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

/// Measures of one question, or their mean; shares from 0 to 1, the last one in tokens.
pub(super) type Scores = [f64; NAMES.len()];

/// One result of a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    /// The message that it is, or is a part of.
    pub(super) item: usize,
    /// Tokens of its text alone.
    pub(super) bare: u64,
    /// Tokens of it as it was answered.
    pub(super) rendered: u64,
}

/// Measures one ranking against the evidence, which is not empty.
pub(super) fn scores(evidence: &BTreeSet<usize>, ranking: &[Shown]) -> Scores {
    let share = |found: usize| found as f64 / evidence.len().max(1) as f64;
    let among = |first: usize| found(evidence, ranking.iter().take(first));
    let flag = |holds: bool| if holds { 1.0 } else { 0.0 };
    let rank = first_rank(evidence, ranking);
    let bare = BUDGETS.map(|budget| share(inside(evidence, ranking, budget, |shown| shown.bare)));
    let rendered =
        BUDGETS.map(|budget| share(inside(evidence, ranking, budget, |shown| shown.rendered)));
    let tokens: u64 = ranking.iter().take(10).map(|shown| shown.bare).sum();
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

/// Rank of the first result that is evidence, from 1.
pub(super) fn first_rank(evidence: &BTreeSet<usize>, ranking: &[Shown]) -> Option<usize> {
    ranking.iter().position(|shown| evidence.contains(&shown.item)).map(|at| at + 1)
}

/// The mean of each measure; zeros for no question.
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

/// Place of a measure in [`NAMES`].
pub(super) fn place(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).expect("the measure is one of NAMES")
}

fn found<'a>(evidence: &BTreeSet<usize>, shown: impl Iterator<Item = &'a Shown>) -> usize {
    let items: BTreeSet<usize> = shown.map(|shown| shown.item).collect();
    items.intersection(evidence).count()
}

/// Evidence inside a budget that is filled in the order of the ranking: a result that does not fit whole is passed over.
fn inside(
    evidence: &BTreeSet<usize>,
    ranking: &[Shown],
    budget: u64,
    cost: impl Fn(&Shown) -> u64,
) -> usize {
    let mut left = budget;
    let fits = ranking.iter().filter(|shown| {
        let fits = cost(shown) <= left;
        if fits {
            left -= cost(shown);
        }
        fits
    });
    found(evidence, fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of so many bare tokens each; rendered they cost ten more.
    fn ranking(results: &[(usize, u64)]) -> Vec<Shown> {
        let shown = |&(item, bare): &(usize, u64)| Shown { item, bare, rendered: bare + 10 };
        results.iter().map(shown).collect()
    }

    fn of(name: &str, evidence: &[usize], results: &[(usize, u64)]) -> f64 {
        scores(&evidence.iter().copied().collect(), &ranking(results))[place(name)]
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
            // Twelve results of 40 tokens are 480; of 50 tokens they are 600.
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
