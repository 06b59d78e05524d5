//! Finds statements that a later statement replaces, like an appointment that was moved.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::lexicon::StemId;

/// A stem that more clauses contain than this says too little about what a clause is about.
const SUBJECT_CLAUSES_MAX: usize = 6;
/// Number of such stems that two clauses share if they are about the same thing and neither says
/// that something changed.
const SHARED_STEMS_MIN: usize = 2;

/// What a clause says, as far as a later clause may replace it.
#[derive(Default)]
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
    /// Whether the clause has a clock time, and whether it has a month.
    pub(super) kinds: [bool; 2],
    /// Number of the message of a user who talks with a model. Such a user seldom repeats what a
    /// message is about in the clause with the new value, so that the whole message counts.
    pub(super) message: Option<usize>,
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
    let home_after = |at: usize| {
        let home = statements[at].home_of.map(|speaker| homes[&speaker]);
        home.filter(|&later| later > at)
    };
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
            let differs = !old.values.is_empty() && new.has_other_values(old);
            match new.is_change {
                true => differs || shared >= SHARED_STEMS_MIN,
                false => differs && shared >= SHARED_STEMS_MIN,
            }
        };
        let home = home_after(at);
        let later = shared.into_iter().filter(|&(later, shared)| replaces(later, shared));
        later.map(|(later, _)| later).chain(home).max()
    };
    let messages = Messages::new(statements);
    let newer = |(at, statement): (usize, &Statement)| match statement.message {
        Some(_) => messages.replacement(at).max(home_after(at)),
        None => replaced((at, statement)),
    };
    statements.iter().enumerate().map(newer).collect()
}

impl Statement {
    fn has_other_values(&self, old: &Self) -> bool {
        self.values.iter().any(|value| !old.values.contains(value))
    }
}

/// A stem that more messages contain than this says too little about what a message is about.
const SUBJECT_MESSAGES_MAX: usize = 8;
/// Minimum sum of the idf of the stems that a clause and a later message share if the message
/// replaces the clause; tried on three made-up months of chats with 39 changed facts.
const OWN_WORTH_MIN: f64 = 4.0;
/// A conversation with fewer messages is treated as if it had this number of messages.
const MESSAGES_MIN: usize = 60;
/// Minimum sum of the idf of shared stems if both clauses have a clock time or both have a month.
const SAME_KIND_WORTH_MIN: f64 = 3.4;
/// Minimum sum that also includes half the idf of the stems of the clause's whole message.
const SHARED_WORTH_MIN: f64 = 8.0;

/// The messages of users who talk with a model.
struct Messages<'a> {
    statements: &'a [Statement],
    /// First statement and number of statements of each message, in order.
    ranges: Vec<(usize, usize)>,
    /// Index in `ranges` of each statement's message.
    at: Vec<Option<usize>>,
    subjects: Vec<BTreeSet<StemId>>,
    of: HashMap<StemId, Vec<usize>>,
}

impl<'a> Messages<'a> {
    fn new(statements: &'a [Statement]) -> Self {
        let mut found = Self {
            statements,
            ranges: Vec::new(),
            at: vec![None; statements.len()],
            subjects: Vec::new(),
            of: HashMap::new(),
        };
        let mut last = None;
        for (at, statement) in statements.iter().enumerate() {
            if statement.message.is_none() {
                last = None;
                continue;
            }
            if last != statement.message {
                found.ranges.push((at, 0));
                found.subjects.push(BTreeSet::new());
            }
            last = statement.message;
            let message = found.ranges.len() - 1;
            found.ranges[message].1 += 1;
            found.at[at] = Some(message);
            found.subjects[message].extend(&statement.subject);
        }
        for (message, subject) in found.subjects.iter().enumerate() {
            for &stem in subject {
                found.of.entry(stem).or_default().push(message);
            }
        }
        found
    }

    /// Returns the idf of a stem, which says how much it means that two messages share the stem.
    fn worth(&self, stem: StemId) -> f64 {
        let messages = self.of.get(&stem).map_or(1, Vec::len);
        if messages > SUBJECT_MESSAGES_MAX {
            return 0.0;
        }
        (1.0 + self.ranges.len().max(MESSAGES_MIN) as f64 / messages as f64).ln()
    }

    /// Returns the clause that replaces a clause with a value: a later message about the same thing
    /// says that something changed, and has a clause with another value.
    fn replacement(&self, at: usize) -> Option<usize> {
        let old = &self.statements[at];
        let message = self.at[at].filter(|_| !old.values.is_empty())?;
        let mut later: BTreeSet<usize> = BTreeSet::new();
        for stem in &old.subject {
            let messages = &self.of[stem];
            if messages.len() <= SUBJECT_MESSAGES_MAX {
                later.extend(messages.iter().filter(|&&later| later > message));
            }
        }
        let score = |later: usize| {
            let new = &self.subjects[later];
            let own: f64 =
                old.subject.iter().filter(|stem| new.contains(stem)).map(|&s| self.worth(s)).sum();
            let rest = self.subjects[message].iter().filter(|stem| !old.subject.contains(stem));
            let rest: f64 = rest.filter(|stem| new.contains(stem)).map(|&s| self.worth(s)).sum();
            (own, own + rest / 2.0)
        };
        let candidates = later.into_iter().filter_map(|later| {
            let (own, all) = score(later);
            let (first, count) = self.ranges[later];
            let of = &self.statements[first..first + count];
            let changes = of.iter().any(|new| new.is_change);
            let with_value = (first..first + count)
                .filter(|&at| self.statements[at].has_other_values(old))
                .max_by_key(|&at| {
                    let new = &self.statements[at];
                    let shared = new.subject.iter().filter(|stem| old.subject.contains(stem));
                    (shared.count(), Reverse(at))
                })?;
            let kinds = old.kinds.into_iter().zip(self.statements[with_value].kinds);
            let is_same_kind = kinds.into_iter().any(|(old, new)| old && new);
            let is_same = match is_same_kind {
                true => own >= SAME_KIND_WORTH_MIN,
                false => own >= OWN_WORTH_MIN && all >= SHARED_WORTH_MIN,
            };
            (changes && is_same).then_some((all, with_value))
        });
        candidates.max_by(|(left, _), (right, _)| left.total_cmp(right)).map(|(_, at)| at)
    }
}
