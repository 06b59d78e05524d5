//! Texts to search in and questions to ask: made by a seeded generator with the word frequencies of a language, or read from files.

use std::fs;
use std::path::Path;

use crate::Fault;

/// Words of the made language.
const VOCABULARY: u64 = 60_000;
/// Words of one made text: from, to.
const TEXT_WORDS: (u64, u64) = (12, 48);
/// Words of one made question: from, to.
const QUERY_WORDS: (u64, u64) = (2, 6);
/// Longest line of a file that is taken, in bytes.
const LINE_BYTES_MAX: usize = 8_192;

/// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, the same on every machine.
#[derive(Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// A sequence of its own for each seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 on, below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From 0 on, below 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal: the sum of twelve uniform numbers less six.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

/// Texts or questions, by number; the same number gives the same one.
pub(crate) enum Corpus {
    Made { seed: u64, words: (u64, u64) },
    Read(Vec<String>),
}

impl Corpus {
    /// Made texts.
    pub(crate) fn texts(seed: u64) -> Self {
        Self::Made { seed, words: TEXT_WORDS }
    }

    /// Made questions.
    pub(crate) fn queries(seed: u64) -> Self {
        Self::Made { seed, words: QUERY_WORDS }
    }

    /// The lines of a file: plain text, or JSON objects with `content`, `text` or `query`.
    pub(crate) fn read(path: &Path) -> Result<Self, Fault> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut lines = Vec::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let said = spoken(line).ok_or_else(|| {
                format!("{}:{}: no `content`, `text` or `query`", path.display(), at + 1)
            })?;
            if said.len() > LINE_BYTES_MAX {
                return Err(format!(
                    "{}:{}: more than {LINE_BYTES_MAX} bytes",
                    path.display(),
                    at + 1
                )
                .into());
            }
            lines.push(said);
        }
        match lines.is_empty() {
            true => Err(format!("{} has no line", path.display()).into()),
            false => Ok(Self::Read(lines)),
        }
    }

    /// The text of this number.
    pub(crate) fn get(&self, number: u64) -> String {
        match self {
            Self::Read(lines) => lines[(number % lines.len() as u64) as usize].clone(),
            Self::Made { seed, words } => {
                let mut chance =
                    Chance::new(seed.wrapping_add(number.wrapping_mul(0x2545_f491_4f6c_dd1d)));
                let count = words.0 + chance.below(words.1 - words.0 + 1);
                let words: Vec<String> = (0..count).map(|_| word(zipf(&mut chance))).collect();
                words.join(" ")
            }
        }
    }
}

fn spoken(line: &str) -> Option<String> {
    if !line.trim_start().starts_with('{') {
        return Some(line.trim().to_owned());
    }
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    ["content", "text", "query"].iter().find_map(|name| Some(value.get(name)?.as_str()?.to_owned()))
}

/// Rank of a word by Zipf's law with exponent 1: the inverse of the logarithmic distribution function.
fn zipf(chance: &mut Chance) -> u64 {
    let rank = (VOCABULARY as f64).powf(chance.share());
    (rank as u64).clamp(1, VOCABULARY)
}

/// A word that can be spoken, so that an analyzer for English treats it as one.
fn word(rank: u64) -> String {
    const STARTS: [&str; 20] = [
        "b", "br", "c", "d", "dr", "f", "g", "gr", "h", "k", "l", "m", "n", "p", "pl", "r", "s",
        "st", "t", "v",
    ];
    const MIDDLES: [&str; 6] = ["a", "e", "i", "o", "u", "ou"];
    let mut left = rank;
    let mut word = String::new();
    loop {
        word.push_str(STARTS[(left % 20) as usize]);
        left /= 20;
        word.push_str(MIDDLES[(left % 6) as usize]);
        left /= 6;
        if left == 0 {
            word.push('n');
            return word;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_number_is_one_text_and_frequent_words_are_frequent() {
        let texts = Corpus::texts(7);
        assert_eq!(texts.get(3), texts.get(3));
        assert_ne!(texts.get(3), texts.get(4));
        let first = word(1);
        let with = (0..200).filter(|n| texts.get(*n).split(' ').any(|w| w == first)).count();
        assert!(with > 100, "{with}");
        let words: HashSet<String> = (1..5_000).map(word).collect();
        assert_eq!(words.len(), 4_999);
    }

    #[test]
    fn lines_of_files_are_read_in_both_forms() {
        assert_eq!(spoken(" plain ").as_deref(), Some("plain"));
        assert_eq!(spoken(r#"{"content": "c"}"#).as_deref(), Some("c"));
        assert_eq!(spoken(r#"{"other": "c"}"#), None);
    }
}
