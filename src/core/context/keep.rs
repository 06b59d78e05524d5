//! The order in which a context leaves texts out if not all of them fit.

use std::collections::BTreeMap;

use super::candidate::Candidate;
use super::condense::Unit;
use crate::memory::pack::Origin;

/// Tokens for each given document from which each has a unit in the context.
const GIVEN_TOKENS_MIN: u64 = 64;

/// How long a context keeps a text, first those that it keeps longest. Of each class, the least
/// valuable texts are left out first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keep {
    /// A text that the caller gave.
    #[default]
    Given,
    /// A message that answers a part of the question.
    CorrectMessage,
    /// A chunk of the archive that answers a part of the question.
    CorrectChunk,
    /// A message that may help.
    Message,
    /// A chunk of the archive that may help.
    Chunk,
}

impl Keep {
    /// Returns how long a text from the given place is kept.
    pub fn of(origin: &Origin, is_correct: bool) -> Self {
        match (origin, is_correct) {
            (Origin::Document { .. }, _) => Self::Given,
            (Origin::Recall { .. }, true) => Self::CorrectMessage,
            (Origin::Archive { .. }, true) => Self::CorrectChunk,
            (Origin::Recall { .. }, false) => Self::Message,
            (Origin::Archive { .. }, false) => Self::Chunk,
        }
    }
}

/// Returns the best unit of each given document, the most valuable first; none if there are few
/// tokens for each. A caller who gives a few documents wants to see each of them.
pub(super) fn of_each_given<'u>(
    candidates: &[Candidate],
    units: &'u [Unit],
    tokens_max: u64,
) -> Vec<&'u Unit> {
    let mut best: BTreeMap<usize, &Unit> = BTreeMap::new();
    for unit in units {
        let is_given = matches!(candidates[unit.candidate].origin, Origin::Document { .. });
        if is_given && best.get(&unit.candidate).is_none_or(|known| unit.value > known.value) {
            best.insert(unit.candidate, unit);
        }
    }
    let mut best: Vec<&Unit> = best.into_values().collect();
    if best.len() as u64 * GIVEN_TOKENS_MIN > tokens_max {
        best.clear();
    }
    best.sort_by(|a, b| b.value.total_cmp(&a.value));
    best
}
