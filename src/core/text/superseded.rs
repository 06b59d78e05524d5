//! Finds statements that a later statement replaces, like an appointment that was moved.

use std::collections::HashMap;

use super::lexicon::StemId;

/// A stem that more clauses contain than this says too little about what a clause is about.
const SUBJECT_CLAUSES_MAX: usize = 6;
/// Number of such stems that two clauses share if they are about the same thing and neither says
/// that something changed.
const SHARED_STEMS_MIN: usize = 2;

/// What a clause says, as far as a later clause may replace it.
pub(super) struct Statement {
    /// Stems of the clause, without numbers, fillers and the names of speakers.
    pub(super) subject: Vec<StemId>,
    /// Numbers and months.
    pub(super) values: Vec<StemId>,
    /// Whether a word of the clause says that something changed.
    pub(super) is_change: bool,
    /// The speaker, if the clause says where he or she lives. The name of the place is all that
    /// such clauses need not share.
    pub(super) home_of: Option<usize>,
}

/// Returns for each statement the latest later statement about the same thing that has other
/// values, or that says that something changed.
pub(super) fn replacements(statements: &[Statement]) -> Vec<Option<usize>> {
    let mut of: HashMap<StemId, Vec<usize>> = HashMap::new();
    for (at, statement) in statements.iter().enumerate() {
        for &stem in &statement.subject {
            of.entry(stem).or_default().push(at);
        }
    }
    let mut homes: HashMap<usize, usize> = HashMap::new();
    for (at, statement) in statements.iter().enumerate() {
        homes.extend(statement.home_of.map(|speaker| (speaker, at)));
    }
    let replaced = |(at, old): (usize, &Statement)| {
        let mut shared: HashMap<usize, usize> = HashMap::new();
        for clauses in old.subject.iter().map(|stem| &of[stem]) {
            if clauses.len() <= SUBJECT_CLAUSES_MAX {
                for &later in clauses.iter().filter(|&&later| later > at) {
                    *shared.entry(later).or_default() += 1;
                }
            }
        }
        let replaces = |later: usize, shared: usize| {
            let new = &statements[later];
            let differs = !old.values.is_empty()
                && !new.values.is_empty()
                && new.values.iter().any(|value| !old.values.contains(value));
            match new.is_change {
                true => differs || shared >= SHARED_STEMS_MIN,
                false => differs && shared >= SHARED_STEMS_MIN,
            }
        };
        let home = old.home_of.map(|speaker| homes[&speaker]).filter(|&later| later > at);
        let later = shared.into_iter().filter(|&(later, shared)| replaces(later, shared));
        later.map(|(later, _)| later).chain(home).max()
    };
    statements.iter().enumerate().map(replaced).collect()
}
