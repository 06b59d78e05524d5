//! Finds tainted text: text from outside that reads like an instruction to the model, and text
//! copied from such a text into the core.
//!
//! The taint rules read a normalised text (`fold.rs`) and visit each position a bounded number of
//! times, so the cost grows linearly with the text. The rules catch known attack patterns; a text
//! without a match is not proven harmless (see `docs/explanation/threat-model.md`).

mod fold;
mod guard;
mod hidden;
mod phrases;
mod rules;

use std::collections::HashSet;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use self::fold::Folded;
pub use self::guard::{TaintReport, chunk_place, released_name};
use self::phrases::Phrases;
use self::rules::{BEGINNINGS, How};
pub use self::rules::{RULES, Rule};
use crate::limits::TEXT_BYTES_MAX;
use crate::memory::message::{Kind, Message, Role, tainted};

/// Maximum number of bytes of a text that the taint rules read; a whole message or block fits
/// ([`TEXT_BYTES_MAX`]).
const TAINT_BYTES_MAX: usize = TEXT_BYTES_MAX;
/// Minimum number of consecutive words shared with a tainted text at which a text for the core
/// counts as copied. Shorter word sequences may be common phrases (Broder 1997, On the resemblance
/// and containment of documents).
const TAINT_RUN_WORDS: usize = 8;
/// Minimum number of different words in a shared sequence of words that counts as copied; a
/// repetition of one word is not evidence of copying.
const TAINT_RUN_DIFFERENT: usize = 4;

/// How tainted text is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaintMode {
    /// The taint rules read no text.
    Off,
    /// Tainted text is marked in storage and in answers, and may enter the core only with a
    /// justification.
    #[default]
    Mark,
    /// Tainted text is marked and put into quarantine. Until its release, searches show only the
    /// text's position, rules and length.
    Quarantine,
}

/// Settings of the taint rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaintSettings {
    /// How tainted text is treated.
    pub mode: TaintMode,
}

/// Name of the rule that matches a text too long to be read in full.
const TOO_LONG: &str = "too_long";

/// The taint rules that a text matches, and the cost of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The taint rules that the text matches, in the order of [`RULES`].
    pub rules: Vec<&'static str>,
    /// Number of characters and words that the check visited.
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

/// Returns the taint rules that a text matches.
pub fn rules_of(text: &str) -> Vec<&'static str> {
    scan(text).rules
}

/// Returns the taint rules that a text matches, with the cost of the check. Of a text longer than
/// `TAINT_BYTES_MAX` only the beginning is read; such a text also matches the rule `too_long`.
pub fn scan(text: &str) -> Scan {
    let looked = &text[..text.floor_char_boundary(TAINT_BYTES_MAX)];
    let mut found = [false; RULES.len()];
    let mut steps = look(looked, &mut found);
    let mut behind = [false; RULES.len()];
    for decoded in hidden::decoded(looked, &mut steps) {
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
    Scan { rules, steps }
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
            How::Hidden => hidden::hides(text, &mut steps),
            How::Image => hidden::carries(&folded.text, &mut steps),
        };
    }
    steps
}

/// Whether a message may contain text from a third party. Such messages are tool results, events
/// other than a user's messages, and entries that `write_recall` wrote.
pub fn from_outside(kind: Kind, role: Role) -> bool {
    match kind {
        Kind::Recall | Kind::Spool => true,
        Kind::Event => role != Role::User,
        Kind::Turn | Kind::Copy => role == Role::Tool,
    }
}

/// Returns the taint rules that a message matches: the rules stored with the message or, if none
/// are stored and the message comes from outside, the rules that its text matches now.
pub(super) fn rules_of_message(message: &Message) -> Vec<String> {
    let marked = tainted(&message.meta);
    if !marked.is_empty() || !from_outside(message.kind, message.role) {
        return marked.into_iter().map(str::to_owned).collect();
    }
    rules_of(&message.content).into_iter().map(str::to_owned).collect()
}

/// Whether a text shares a sequence of at least `TAINT_RUN_WORDS` words with one of `others`.
/// Sequences that `known` also contains, and sequences with fewer than `TAINT_RUN_DIFFERENT`
/// different words, do not count.
pub fn shares_run<'t>(text: &str, others: impl Iterator<Item = &'t str>, known: &str) -> bool {
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
