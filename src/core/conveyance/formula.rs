//! The formula: C = (W·R·H / T)·Ctx^1.7, with Ctx the mean of L, I, A and G (design §6; the seed's scorecard gives 0.6756).

/// Power of the context term (seed 002, scorecard).
pub const ALPHA: f64 = 1.7;
/// Least time cost: below it a faster answer would let C grow without end (design §6).
pub const TIME_FLOOR: f64 = 0.05;

/// A term of the score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// What: nothing is lost, and what is looked for is found.
    W,
    /// Where: the database answers.
    R,
    /// Who: chains end by decision.
    H,
    /// Time: cost against what is promised.
    T,
    /// Late chunking.
    L,
    /// Tiers that answer their probes.
    I,
    /// Flushes that reach their target without alarm.
    A,
    /// Guards and audit.
    G,
}

impl Term {
    /// All of them, in the order of the formula.
    pub const ALL: [Self; 8] =
        [Self::W, Self::R, Self::H, Self::T, Self::L, Self::I, Self::A, Self::G];

    /// Its letter.
    pub fn text(self) -> &'static str {
        match self {
            Self::W => "W",
            Self::R => "R",
            Self::H => "H",
            Self::T => "T",
            Self::L => "L",
            Self::I => "I",
            Self::A => "A",
            Self::G => "G",
        }
    }
}

/// Values of the terms; none where its denominator is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms([Option<f64>; 8]);

impl Terms {
    /// The terms with one of them set.
    #[must_use]
    pub fn with(mut self, term: Term, value: Option<f64>) -> Self {
        self.0[term as usize] = value;
        self
    }

    /// The value of a term; T as it was measured, before its floor.
    pub fn get(&self, term: Term) -> Option<f64> {
        self.0[term as usize]
    }
}

/// What the formula makes of the terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// C; none while a term is missing and nothing forces zero.
    pub c: Option<f64>,
    /// Mean of L, I, A and G.
    pub ctx: Option<f64>,
    /// T as it stands in the formula.
    pub time: Option<f64>,
    /// Whether that is the floor instead of the measurement.
    pub time_floored: bool,
    /// Terms without a value.
    pub missing: Vec<Term>,
}

/// Computes C. `zero`: a tier is down or chunking was naive, so that C is 0 whatever else is known.
pub fn score(terms: &Terms, zero: bool) -> Score {
    let missing: Vec<Term> =
        Term::ALL.into_iter().filter(|term| terms.get(*term).is_none()).collect();
    let time = terms.get(Term::T).map(|measured| measured.max(TIME_FLOOR));
    let mean = [Term::L, Term::I, Term::A, Term::G]
        .into_iter()
        .map(|term| terms.get(term))
        .sum::<Option<f64>>()
        .map(|sum| sum / 4.0);
    let product = [Term::W, Term::R, Term::H]
        .into_iter()
        .map(|term| terms.get(term))
        .product::<Option<f64>>();
    let c = match (product, time, mean) {
        _ if zero => Some(0.0),
        (Some(product), Some(time), Some(mean)) => Some(product / time * mean.powf(ALPHA)),
        _ => None,
    };
    let time_floored = terms.get(Term::T).is_some_and(|measured| measured < TIME_FLOOR);
    Score { c, ctx: mean, time, time_floored, missing }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scorecard of the seed.
    fn card() -> Terms {
        let values = [0.87, 0.89, 0.90, 0.83, 0.90, 0.86, 0.88, 0.88];
        Term::ALL
            .into_iter()
            .zip(values)
            .fold(Terms::default(), |terms, (term, value)| terms.with(term, Some(value)))
    }

    #[test]
    fn the_scorecard_of_the_requirement_gives_its_figure() {
        let score = score(&card(), false);
        assert!((score.ctx.unwrap() - 0.88).abs() < 1e-12);
        assert_eq!(format!("{:.4}", score.c.unwrap()), "0.6756");
        assert!(score.missing.is_empty() && !score.time_floored);
    }

    #[test]
    fn a_missing_term_is_named_and_nothing_is_made_up_for_it() {
        for term in Term::ALL {
            let score = score(&card().with(term, None), false);
            assert_eq!((score.c, score.missing), (None, vec![term]));
        }
    }

    #[test]
    fn zero_wins_over_everything_and_what_is_missing_is_still_named() {
        assert_eq!(score(&card(), true).c, Some(0.0));
        let nothing = score(&Terms::default(), true);
        assert_eq!((nothing.c, nothing.missing.len()), (Some(0.0), 8));
    }

    #[test]
    fn the_floor_of_the_time_is_told_when_it_acts_and_only_then() {
        for (measured, used, floored) in
            [(0.01, 0.05, true), (0.05, 0.05, false), (3.0, 3.0, false)]
        {
            let score = score(&card().with(Term::T, Some(measured)), false);
            assert_eq!((score.time, score.time_floored), (Some(used), floored));
        }
    }

    #[test]
    fn a_score_above_one_is_not_clamped() {
        let fast = Term::ALL
            .into_iter()
            .fold(Terms::default(), |terms, term| terms.with(term, Some(1.0)))
            .with(Term::T, Some(0.5));
        assert_eq!(score(&fast, false).c, Some(2.0));
    }
}
