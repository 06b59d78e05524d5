//! Compares the server's token estimate of a prompt with the provider's count, and adjusts the
//! model's token factor for the next prompt.

use crate::memory::prompt::Estimate;

/// Maximum number of models whose token factors an agent's core keeps.
const LEARNED_MAX: usize = 16;
/// Smallest and largest token factor of a model, in provider tokens per thousand estimated tokens.
/// A factor outside these bounds is considered an error of the provider and is limited to the
/// bounds.
const FACTOR_PERMILLE: (u64, u64) = (500, 4_000);
/// Divisor that slows the decrease of a model's token factor after a lower count; a higher count
/// raises the factor immediately.
const FACTOR_EASE: u64 = 8;
/// Maximum difference between the provider's count and the estimate that causes no event, in
/// thousandths of the estimate. Such a difference still fits in the tenth of the window above the
/// flush mark.
const VARIANCE_PERMILLE_MAX: u64 = 90;

/// Token factor of a model for which no provider has counted a prompt yet.
pub const PAR_PERMILLE: u64 = 1_000;

/// Returns the provider's tokens per thousand estimated tokens; `None` if either count is zero.
pub(super) fn counted_permille(estimate: u64, counted: u64) -> Option<u64> {
    let product = u128::from(counted) * u128::from(PAR_PERMILLE);
    let share = product.checked_div(u128::from(estimate))?;
    (counted > 0).then(|| u64::try_from(share).unwrap_or(u64::MAX))
}

/// Returns whether the provider's token count and the estimate differ enough for an event.
pub(super) fn varies(counted_permille: u64) -> bool {
    counted_permille.abs_diff(PAR_PERMILLE) > VARIANCE_PERMILLE_MAX
}

/// Returns a model's token factor, or [`PAR_PERMILLE`] for an unknown model.
pub fn factor_permille(learned: &[Estimate], model: &str) -> u64 {
    learned.iter().find(|l| l.model == model).map_or(PAR_PERMILLE, |l| l.factor_permille)
}

/// Returns a token estimate that is safe for a model. The estimate is raised if earlier prompts had
/// more tokens than estimated, and is never lowered.
pub fn safe_estimate(estimate: u64, factor_permille: u64) -> u64 {
    let factor = factor_permille.clamp(PAR_PERMILLE, FACTOR_PERMILLE.1);
    estimate.saturating_mul(factor).div_ceil(PAR_PERMILLE)
}

/// Updates a model's factor with a new count: a higher count applies immediately, a lower count
/// gradually. The model moves to the end of the core's list. If the list is full, the model with
/// the oldest last prompt is removed.
pub(super) fn learn(learned: &mut Vec<Estimate>, model: &str, counted_permille: u64, turn: u64) {
    let (least, most) = FACTOR_PERMILLE;
    let seen = counted_permille.clamp(least, most);
    let known = learned.iter().position(|l| l.model == model).map(|at| learned.remove(at));
    let (factor_permille, samples) = match known {
        None => (seen, 0),
        Some(known) if seen >= known.factor_permille => (seen, known.samples),
        Some(known) => {
            let down = (known.factor_permille - seen).div_ceil(FACTOR_EASE);
            (known.factor_permille - down, known.samples)
        }
    };
    learned.push(Estimate { model: model.to_owned(), factor_permille, samples: samples + 1, turn });
    let surplus = learned.len().saturating_sub(LEARNED_MAX);
    learned.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_more_is_told_and_a_twentieth_is_not() {
        for (estimate, counted, permille, flag) in [
            (1000, 1100, Some(1100), true),
            (1234, 1357, Some(1099), true),
            (1000, 1050, Some(1050), false),
            (1000, 890, Some(890), true),
            (1000, 1090, Some(1090), false),
            (0, 10, None, false),
            (10, 0, None, false),
            (1, u64::MAX, Some(u64::MAX), true),
        ] {
            let found = counted_permille(estimate, counted);
            assert_eq!(
                (found, found.is_some_and(varies)),
                (permille, flag),
                "{estimate} {counted}"
            );
        }
    }

    #[test]
    fn the_factor_goes_up_at_once_and_down_slowly_within_its_bounds() {
        let mut learned = Vec::new();
        let mut after = |seen: u64| {
            learn(&mut learned, "m", seen, 1);
            factor_permille(&learned, "m")
        };
        assert_eq!([1100, 1100, 1020, 1020].map(&mut after), [1100, 1100, 1090, 1081]);
        assert_eq!(after(90_000), FACTOR_PERMILLE.1);
        for _ in 0..200 {
            after(0);
        }
        assert_eq!(after(0), FACTOR_PERMILLE.0);
        assert_eq!(factor_permille(&learned, "other"), PAR_PERMILLE);
        assert_eq!(learned[0].samples, 206);
    }

    #[test]
    fn a_safe_estimate_is_never_below_ours() {
        for (estimate, factor, safe) in
            [(1000, 500, 1000), (1000, 1000, 1000), (999, 1001, 1000), (1000, 9_000, 4000)]
        {
            assert_eq!(safe_estimate(estimate, factor), safe, "{estimate} {factor}");
        }
    }

    #[test]
    fn the_models_asked_last_are_kept() {
        let mut learned = Vec::new();
        for n in 0..=LEARNED_MAX {
            learn(&mut learned, &format!("m{n}"), 1000, n as u64);
            learn(&mut learned, "m0", 1000, n as u64);
        }
        assert_eq!(learned.len(), LEARNED_MAX);
        let named = |name: &str| learned.iter().any(|l| l.model == name);
        assert!(named("m0") && !named("m1") && named(&format!("m{LEARNED_MAX}")));
    }
}
