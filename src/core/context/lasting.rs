//! Chooses the lasting requests of the user that a context shows beside the answer of a question.

use super::candidate::Candidate;
use super::condense::Unit;
use crate::memory::pack::Origin;

/// Share of a context's tokens that lasting requests may take, in percent.
const LASTING_PERCENT: u64 = 25;

/// Returns the units with lasting requests that a context shows: those that are nearest to the
/// question, the newest of them first, as long as they fit into their share of the tokens.
/// `tokens_of` returns the tokens of a unit with its line.
pub(super) fn of_lasting<'u>(
    candidates: &[Candidate],
    units: &'u [Unit],
    tokens_max: u64,
    tokens_of: &dyn Fn(&Unit) -> u64,
) -> Vec<&'u Unit> {
    let seq = |unit: &Unit| match candidates[unit.candidate].origin {
        Origin::Recall { seq, .. } => seq,
        Origin::Archive { .. } | Origin::Document { .. } => 0,
    };
    let mut all: Vec<&Unit> = units.iter().filter(|unit| unit.is_lasting).collect();
    all.sort_by(|a, b| b.value.total_cmp(&a.value).then(seq(b).cmp(&seq(a))));
    let mut left = tokens_max * LASTING_PERCENT / 100;
    all.retain(|unit| {
        let tokens = tokens_of(unit);
        let fits = tokens <= left;
        left -= if fits { tokens } else { 0 };
        fits
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_and_then_the_newest_requests_fit_into_their_share() {
        let message = |seq: u64| Candidate {
            origin: Origin::Recall { id: format!("m{seq}"), seq },
            ..Candidate::given("", "Never call me Bob.")
        };
        let candidates: Vec<Candidate> = (1..=4).map(message).collect();
        let unit = |candidate: usize, value: f64, is_lasting: bool| Unit {
            candidate,
            value,
            is_lasting,
            ..Unit::default()
        };
        let units =
            [unit(0, 0.0, true), unit(1, 0.9, true), unit(2, 1.0, false), unit(3, 0.0, true)];
        let chosen = |tokens_max: u64| -> Vec<usize> {
            let chosen = of_lasting(&candidates, &units, tokens_max, &|_| 10);
            chosen.into_iter().map(|unit| unit.candidate).collect()
        };
        assert_eq!(chosen(400), [1, 3, 0]);
        assert_eq!(chosen(80), [1, 3]);
        assert_eq!(chosen(39), Vec::<usize>::new());
    }
}
