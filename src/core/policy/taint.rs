//! Text from outside the user's own mouth that looks like an order to the model: which rules it meets, and what it shares with a text
//! that is to stand in the core.
//!
//! The rules read a folded text (`fold.rs`) and look at each place a bounded number of times, so that their cost grows with the length of
//! a text and with nothing else. They are a net, not a proof: `docs/explanation/threat-model.md` has how much they catch, and what they let through.

mod fold;
mod guard;
mod phrases;
mod rules;
mod seen;

use std::collections::HashSet;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use self::fold::Folded;
pub use self::guard::{Untrusted, chunk_place, released_name};
use self::phrases::Phrases;
use self::rules::{BEGINNINGS, How};
pub use self::rules::{RULES, Rule};
use crate::limits::{TAINT_BYTES_MAX, TAINT_RUN_DIFFERENT, TAINT_RUN_WORDS};
use crate::memory::message::{Kind, Message, Role, tainted};

/// What is done about tainted text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaintMode {
    /// Nothing: no text is looked at.
    Off,
    /// It is marked where it stands and where it is told, and needs a justification to enter the core.
    #[default]
    Mark,
    /// That, and a search gives its place, rules and length only, until it is released.
    Quarantine,
}

/// Settings of the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaintSettings {
    /// What is done about tainted text.
    pub mode: TaintMode,
}

/// The rule that a text meets of which not all was looked at.
const TOO_LONG: &str = "too_long";

/// What the rules found, and at what cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// The rules that the text meets, in the order of [`RULES`].
    pub rules: Vec<&'static str>,
    /// Characters and words that were looked at, counted each time.
    pub steps: u64,
}

static PHRASES: LazyLock<Phrases> = LazyLock::new(|| {
    let mut phrases = Phrases::default();
    for (at, rule) in RULES.iter().enumerate() {
        if let How::Phrases(patterns) = rule.how {
            patterns.iter().for_each(|pattern| phrases.add(at, pattern));
        }
    }
    phrases
});

/// The rules that a text meets.
pub fn rules_of(text: &str) -> Vec<&'static str> {
    scan(text).rules
}

/// The same, with the cost. Of a text that is longer than [`TAINT_BYTES_MAX`] the beginning is looked at, and it meets the rule `too_long`.
pub fn scan(text: &str) -> Scanned {
    let looked = &text[..text.floor_char_boundary(TAINT_BYTES_MAX)];
    let mut found = [false; RULES.len()];
    let mut steps = look(looked, &mut found);
    let mut behind = [false; RULES.len()];
    for decoded in seen::decoded(looked, &mut steps) {
        steps += look(&decoded, &mut behind);
    }
    for (at, rule) in RULES.iter().enumerate() {
        found[at] |= matches!(rule.how, How::Encoded) && behind.contains(&true);
    }
    let met = RULES.iter().zip(found).filter(|(_, found)| *found);
    let mut rules: Vec<&'static str> = met.map(|(rule, _)| rule.id).collect();
    if looked.len() < text.len() {
        rules.push(TOO_LONG);
    }
    Scanned { rules, steps }
}

fn look(text: &str, found: &mut [bool]) -> u64 {
    let folded = Folded::of(text);
    let mut steps = (text.len() + folded.text.len()) as u64 + PHRASES.find(&folded, found);
    for (at, rule) in RULES.iter().enumerate() {
        found[at] |= match rule.how {
            How::Phrases(_) | How::Encoded => false,
            How::Marks(marks) => {
                steps += folded.text.len() as u64;
                folded.text.match_indices(BEGINNINGS).any(|(at, _)| {
                    steps += marks.len() as u64;
                    marks.iter().any(|mark| folded.text[at..].starts_with(mark))
                })
            }
            How::Lines(beginnings) => {
                steps += folded.text.len() as u64;
                folded.text.lines().any(|line| {
                    steps += beginnings.len() as u64;
                    beginnings.iter().any(|one| line.trim_start().starts_with(one))
                })
            }
            How::Hidden => seen::hides(text, &mut steps),
            How::Image => seen::carries(&folded.text, &mut steps),
        };
    }
    steps
}

/// Whether a message may hold what somebody else wrote than the user, the model or who runs it: what tools answer, what happens, what is
/// written straight into recall storage.
pub fn from_outside(kind: Kind, role: Role) -> bool {
    match kind {
        Kind::Recall | Kind::Spool => true,
        Kind::Event => role != Role::User,
        Kind::Turn | Kind::Copy => role == Role::Tool,
    }
}

/// The rules that a message meets: as it was marked, or, of one that was appended before there were marks, as they are now.
pub(super) fn rules_of_message(message: &Message) -> Vec<String> {
    let marked = tainted(&message.meta);
    if !marked.is_empty() || !from_outside(message.kind, message.role) {
        return marked.into_iter().map(str::to_owned).collect();
    }
    rules_of(&message.content).into_iter().map(str::to_owned).collect()
}

/// Whether a text shares so many words in a row with another as [`TAINT_RUN_WORDS`] says, which do not stand in `known` already. A row
/// of few different words ([`TAINT_RUN_DIFFERENT`]) was copied from nowhere.
pub(super) fn shares_run<'t>(
    text: &str,
    others: impl Iterator<Item = &'t str>,
    known: &str,
) -> bool {
    let (text, known) = (Folded::of(text), Folded::of(known));
    let (words, known): (Vec<&str>, Vec<&str>) = (text.words().collect(), known.words().collect());
    let known: HashSet<&[&str]> = known.windows(TAINT_RUN_WORDS).collect();
    let says = |run: &[&str]| run.iter().collect::<HashSet<_>>().len() >= TAINT_RUN_DIFFERENT;
    let runs = words.windows(TAINT_RUN_WORDS).filter(|run| !known.contains(run) && says(run));
    let new: HashSet<&[&str]> = runs.collect();
    let shares = |other: &str| {
        let other = Folded::of(other);
        let words: Vec<&str> = other.words().collect();
        words.windows(TAINT_RUN_WORDS).any(|run| new.contains(run))
    };
    let mut others = others;
    !new.is_empty() && others.any(shares)
}

#[cfg(test)]
mod tests;
