//! The formula C = (W·R·H / T)·Ctx^1.7, where Ctx is the mean of L, I, A and G
//! (`docs/explanation/conveyance.md`). With the values of the example in this project's
//! specification, C is 0.6756.

/// Exponent of the context term `Ctx`, from this project's specification.
pub const ALPHA: f64 = 1.7;
/// Smallest value of the time term T. Without this minimum, C would grow without limit as answers
/// get faster.
pub const TIME_FLOOR: f64 = 0.05;

/// A term of the Conveyance score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// The term What: the share of messages that are not lost, multiplied by the share of recall
    /// searches with a result.
    W,
    /// The term Where: the share of database requests with an answer.
    R,
    /// The term Who: the share of chains that end by a decision of the model.
    H,
    /// The term Time: the 99th percentile of an operation's durations as a share of its allowed
    /// time. The value of the term is the largest of the operations' shares.
    T,
    /// Share of chunks with evidence of late chunking.
    L,
    /// Share of probes that the tiers of the memory answer.
    I,
    /// Share of flushes that reach their target without a drift alarm (a summary that lacks evicted
    /// text).
    A,
    /// The smaller of two shares: passed self-checks, and writes with an audit row.
    G,
}

impl Term {
    /// All terms, in the order of the score's formula.
    pub const ALL: [Self; 8] =
        [Self::W, Self::R, Self::H, Self::T, Self::L, Self::I, Self::A, Self::G];

    /// Returns the letter of the term.
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

/// Values of the score's terms; a value is `None` if the term's denominator is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms([Option<f64>; 8]);

impl Terms {
    /// Returns a copy of the terms in which one term has the given value.
    #[must_use]
    pub fn with(mut self, term: Term, value: Option<f64>) -> Self {
        self.0[term as usize] = value;
        self
    }

    /// Returns the value of a term; for T, the measured value before the floor is applied.
    pub fn get(&self, term: Term) -> Option<f64> {
        self.0[term as usize]
    }
}

/// The result of the Conveyance formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// The score C; `None` while a term is missing, unless C is forced to zero.
    pub c: Option<f64>,
    /// The context term `Ctx`, which is the mean of L, I, A and G.
    pub ctx: Option<f64>,
    /// The value of the term T that the formula used.
    pub time: Option<f64>,
    /// Whether the formula used [`TIME_FLOOR`] instead of the measured value of T.
    pub time_floored: bool,
    /// Terms of the score that have no value.
    pub missing: Vec<Term>,
}

impl Score {
    /// Returns how good a term is, from 0 to 1: the term's value, and for T the allowed time as a
    /// share of the measured time, at most 1. `None` if the term has no value.
    pub fn worth(&self, terms: &Terms, term: Term) -> Option<f64> {
        match term {
            Term::T => self.time.map(|time| 1.0 / time.max(1.0)),
            term => terms.get(term),
        }
    }

    /// Returns the factor by which C would grow if the term were as good as possible (T: as fast as
    /// allowed). `None` if C has no such factor, because a term is missing or zero.
    pub fn gain(&self, terms: &Terms, term: Term) -> Option<f64> {
        let worth = self.worth(terms, term)?;
        match term {
            Term::L | Term::I | Term::A | Term::G => {
                let mean = self.ctx.filter(|mean| *mean > 0.0)?;
                Some(((mean + (1.0 - worth) / 4.0) / mean).powf(ALPHA))
            }
            Term::W | Term::R | Term::H | Term::T => (worth > 0.0).then(|| 1.0 / worth),
        }
    }
}

/// Computes the score C. If `zero` is true, C is 0; the caller sets `zero` if a tier is down or
/// chunks came without late-chunking evidence.
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
