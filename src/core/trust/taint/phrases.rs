//! Finds the phrases of the taint rules in one pass over a text; a phrase may have gaps, but its
//! total length is bounded.

use std::collections::HashMap;

use super::fold::Folded;

/// A position in a phrase: the words that match at this position, and the permitted gap before this
/// position. For a word with `true`, a prefix is enough.
#[derive(Debug)]
struct Slot {
    words: Vec<(&'static str, bool)>,
    /// Maximum number of other words between the previous position and this one.
    gap: u32,
}

/// A phrase that the taint rules look for.
#[derive(Debug)]
struct Phrase {
    /// Index of the phrase's rule in `RULES`.
    rule: usize,
    slots: Vec<Slot>,
}

/// All phrases of all taint rules, indexed by their first words.
#[derive(Debug, Default)]
pub(super) struct Phrases {
    phrases: Vec<Phrase>,
    first: HashMap<&'static str, Vec<usize>>,
}

/// Maximum number of words after a phrase's first word over which the phrase may extend; each word
/// is one bit of an integer.
const REACH_WORDS: u32 = 40;

impl Phrases {
    /// Adds a phrase. In the pattern, `|` separates alternatives, `*` follows a prefix, and `..n`
    /// permits up to n other words. At the first position only whole words are permitted.
    pub(super) fn add(&mut self, rule: usize, pattern: &'static str) {
        let mut gap = 0;
        let mut slots: Vec<Slot> = Vec::new();
        for part in pattern.split_whitespace() {
            if let Some(room) = part.strip_prefix("..") {
                gap = room.parse().expect("a number of words");
                continue;
            }
            let word = |word: &'static str| match word.strip_suffix('*') {
                Some(beginning) => (beginning, true),
                None => (word, false),
            };
            slots.push(Slot { words: part.split('|').map(word).collect(), gap });
            gap = 0;
        }
        let at = self.phrases.len();
        for (word, beginning) in slots.first().map_or(&[][..], |slot| &slot.words) {
            assert!(!beginning, "the first place of a phrase has whole words: {pattern}");
            self.first.entry(word).or_default().push(at);
        }
        self.phrases.push(Phrase { rule, slots });
    }

    /// Sets `found` to true for each rule with a phrase that the text contains, and returns the
    /// number of visited words.
    pub(super) fn find(&self, text: &Folded, found: &mut [bool]) -> u64 {
        let mut steps = 0;
        for at in 0..text.len() {
            steps += 1;
            let Some(phrases) = self.first.get(text.word(at)) else { continue };
            let sentence = sentence_of(text, at, &mut steps);
            for phrase in phrases.iter().map(|phrase| &self.phrases[*phrase]) {
                if !found[phrase.rule] && phrase.goes_on(text, at, sentence, &mut steps) {
                    found[phrase.rule] = true;
                }
            }
        }
        steps
    }
}

impl Phrase {
    /// Whether every position of the phrase after the first position matches within the sentence.
    /// All words at which a partial match may end are tracked at the same time, as bits.
    fn goes_on(&self, text: &Folded, start: usize, sentence: u64, steps: &mut u64) -> bool {
        let mut ends: u64 = 1;
        for slot in &self.slots[1..] {
            let reach = (1..=slot.gap + 1).fold(0, |reach, by| reach | ends << by) & sentence;
            ends = 0;
            for next in bits(reach) {
                *steps += 1;
                let word = text.word(start + next as usize);
                let is = |(wanted, beginning): &(&str, bool)| match beginning {
                    true => word.starts_with(wanted),
                    false => word == *wanted,
                };
                if slot.words.iter().any(is) {
                    ends |= 1 << next;
                }
            }
            if ends == 0 {
                return false;
            }
        }
        true
    }
}

/// Returns which of the next [`REACH_WORDS`] words belong to the sentence of a given word, as bits.
fn sentence_of(text: &Folded, start: usize, steps: &mut u64) -> u64 {
    let mut sentence = 0;
    for next in 1..=REACH_WORDS {
        *steps += 1;
        if text.breaks(start + next as usize) {
            break;
        }
        sentence |= 1 << next;
    }
    sentence
}

fn bits(mut of: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (of != 0).then(|| of.trailing_zeros())?;
        of &= of - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(pattern: &'static str, text: &str) -> bool {
        let mut phrases = Phrases::default();
        phrases.add(0, pattern);
        let mut found = [false];
        phrases.find(&Folded::of(text), &mut found);
        found[0]
    }

    #[test]
    fn words_may_stand_between_and_sentences_may_not_end() {
        let pattern = "ignore|forget ..2 previous instruct*";
        for (text, expected) in [
            ("ignore previous instructions", true),
            ("please forget all the previous instruction", true),
            ("ignore all of the previous instructions", false),
            ("ignore all. previous instructions", false),
            ("ignore ignore previous previous instructions", true),
            ("ignore previous", false),
            ("previous instructions", false),
            ("", false),
        ] {
            assert_eq!(holds(pattern, text), expected, "{text}");
        }
    }
}
