//! Texts and questions of the service level test: generated with the word frequencies of a
//! language, or read from files.

use std::fs;
use std::path::Path;

use vctx_core::seeded::Seeded;

use crate::Fault;

/// Number of different words in the generated texts.
const VOCABULARY: u64 = 60_000;
/// Minimum and maximum number of words of a generated text.
const TEXT_WORDS: (usize, usize) = (12, 48);
/// Minimum and maximum number of words of a generated question.
const QUERY_WORDS: (usize, usize) = (2, 6);
/// Maximum length of a line of a file, in bytes.
const LINE_BYTES_MAX: usize = 8_192;

/// A sequence of texts or questions. A given number always selects the same text.
pub(crate) enum Corpus {
    Made { seed: u64, words: (usize, usize) },
    Read(Vec<String>),
}

impl Corpus {
    /// Creates a sequence of generated texts.
    pub(crate) fn texts(seed: u64) -> Self {
        Self::Made { seed, words: TEXT_WORDS }
    }

    /// Creates a sequence of generated questions.
    pub(crate) fn queries(seed: u64) -> Self {
        Self::Made { seed, words: QUERY_WORDS }
    }

    /// Reads the lines of a file: plain text, or JSON objects with `content`, `text` or `query`.
    pub(crate) fn read(path: &Path) -> Result<Self, Fault> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut lines = Vec::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let text = content(line).ok_or_else(|| {
                format!("{}:{}: no `content`, `text` or `query`", path.display(), at + 1)
            })?;
            if text.len() > LINE_BYTES_MAX {
                return Err(format!(
                    "{}:{}: more than {LINE_BYTES_MAX} bytes",
                    path.display(),
                    at + 1
                )
                .into());
            }
            lines.push(text);
        }
        match lines.is_empty() {
            true => Err(format!("{} has no line", path.display()).into()),
            false => Ok(Self::Read(lines)),
        }
    }

    /// Returns the text with the given number.
    pub(crate) fn get(&self, number: u64) -> String {
        match self {
            Self::Read(lines) => lines[(number % lines.len() as u64) as usize].clone(),
            Self::Made { seed, words } => {
                let mut chance =
                    Seeded::new(seed.wrapping_add(number.wrapping_mul(0x2545_f491_4f6c_dd1d)));
                let count = words.0 + chance.below(words.1 - words.0 + 1);
                let words: Vec<String> = (0..count).map(|_| word(zipf(&mut chance))).collect();
                words.join(" ")
            }
        }
    }
}

fn content(line: &str) -> Option<String> {
    if !line.trim_start().starts_with('{') {
        return Some(line.trim().to_owned());
    }
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    ["content", "text", "query"].iter().find_map(|name| Some(value.get(name)?.as_str()?.to_owned()))
}

/// Returns the rank of a random word by Zipf's law with exponent 1, computed with the inverse of
/// the logarithmic distribution function.
fn zipf(chance: &mut Seeded) -> u64 {
    let rank = (VOCABULARY as f64).powf(chance.uniform());
    (rank as u64).clamp(1, VOCABULARY)
}

/// Returns the pronounceable word with the given frequency rank. An analyzer for English treats the
/// result as one word.
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
        assert_eq!(content(" plain ").as_deref(), Some("plain"));
        assert_eq!(content(r#"{"content": "c"}"#).as_deref(), Some("c"));
        assert_eq!(content(r#"{"other": "c"}"#), None);
    }
}
