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
use serde_json::{Map, Value};

use self::fold::Folded;
pub use self::guard::{TaintReport, chunk_place, released_name};
use self::phrases::Phrases;
use self::rules::{BEGINNINGS, How};
pub use self::rules::{RULES, Rule};
use crate::limits::TEXT_BYTES_MAX;
use crate::memory::message::{Kind, Message, RECALLED, Role, tainted};

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

/// Returns the taint rules that a text or the names sent with it match. A name is also read with
/// its words apart, because names join words (`ignore_previous`, `IgnorePrevious`).
pub fn rules_with_names(text: &str, names: &[&str]) -> Vec<&'static str> {
    let mut rules = rules_of(text);
    let apart: Vec<String> = names.iter().map(|name| words_apart(name)).collect();
    let joined = names.iter().copied().chain(apart.iter().map(String::as_str));
    let joined: Vec<&str> = joined.filter(|name| !name.is_empty()).collect();
    if joined.is_empty() {
        return rules;
    }
    // An empty line ends a sentence, so no phrase extends over two names.
    let more = rules_of(&joined.join("\n\n"));
    rules.extend(more.into_iter().filter(|rule| !rules.contains(rule)).collect::<Vec<_>>());
    let place = |id: &&str| RULES.iter().position(|rule| rule.id == *id);
    rules.sort_by_key(|id| place(id).unwrap_or(RULES.len()));
    rules
}

fn words_apart(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 8);
    let mut small = false;
    for c in name.chars() {
        if small && c.is_uppercase() {
            out.push(' ');
        }
        small = c.is_lowercase();
        out.push(if "_-./:".contains(c) { ' ' } else { c });
    }
    out
}

/// Returns all texts in a value, with the names of its fields.
pub(super) fn texts_in(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().flat_map(texts_in).collect(),
        Value::Object(map) => texts_of(map),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Returns all texts in an object, with the names of its fields.
pub fn texts_of(map: &Map<String, Value>) -> Vec<&str> {
    map.iter().flat_map(|(name, value)| [vec![name.as_str()], texts_in(value)].concat()).collect()
}

/// Returns the taint rules that a text matches, with the cost of the check. Of a text longer than
/// `TAINT_BYTES_MAX` only the beginning is read; such a text also matches the rule `too_long`.
pub fn scan(text: &str) -> Scan {
    let looked = &text[..text.floor_char_boundary(TAINT_BYTES_MAX)];
    let mut found = [false; RULES.len()];
    let mut steps = look(looked, &mut found);
    let mut behind = [false; RULES.len()];
    let unescaped = hidden::unescaped(looked, &mut steps);
    for decoded in hidden::decoded(looked, &mut steps).into_iter().chain(unescaped) {
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
    let rules = rules_with_names(&message.content, &texts_of(&message.meta));
    rules.into_iter().map(str::to_owned).collect()
}

/// Whether a message shows text from a third party in the window: a message from outside, or a copy
/// of one.
pub fn shows_outside(message: &Message) -> bool {
    from_outside(message.kind, message.role)
        || !message.meta.get(RECALLED).is_none_or(|mark| mark["fence"].is_null())
        || !tainted(&message.meta).is_empty()
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

/// Number of consecutive characters, spaces not counted, that a text for the core may share with a
/// text from outside. A shorter text is rarely a whole instruction.
const OUTSIDE_RUN_CHARS: usize = 24;

/// Whether a text shares a sequence of `OUTSIDE_RUN_CHARS` characters with one of `others`.
/// Sequences that one of the `known` texts contains do not count. The comparison knows no words, so
/// it finds a copy in any language, script or encoding.
pub fn shares_letters<'t>(
    text: &str,
    others: impl Iterator<Item = &'t str>,
    known: impl Iterator<Item = &'t str>,
) -> bool {
    let text = letters(text);
    let runs = text.windows(OUTSIDE_RUN_CHARS).filter(|run| !repeats_itself(run));
    let mut new: HashSet<&[char]> = runs.collect();
    for known in known {
        if new.is_empty() {
            return false;
        }
        for run in letters(known).windows(OUTSIDE_RUN_CHARS) {
            new.remove(run);
        }
    }
    let mut others = others;
    !new.is_empty()
        && others
            .any(|other| letters(other).windows(OUTSIDE_RUN_CHARS).any(|run| new.contains(run)))
}

/// Whether the characters are one short text, repeated; a repetition is not evidence of copying.
fn repeats_itself(run: &[char]) -> bool {
    (1..=run.len() / 2).any(|period| run[period..] == run[..run.len() - period])
}

/// Returns the characters of a text without spaces. Escapes of JSON are left out, because a result
/// in the window may be JSON.
fn letters(text: &str) -> Vec<char> {
    let folded = fold::folded_text(text);
    let mut found = Vec::with_capacity(folded.len());
    let mut chars = folded.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\' {
            chars.next_if(|next| matches!(next, 'n' | 'r' | 't'));
        } else if !c.is_whitespace() {
            found.push(c);
        }
    }
    found
}

#[cfg(test)]
mod tests;
