//! An entry of recall storage as the scorer reads it: its passages in stems, who said it, on which day.

use std::collections::HashSet;
use std::ops::Range;

use serde::Deserialize;

use super::asked::Asked;
use super::days::{Day, day};
use super::words::{Lexicon, Stem, Word, plain, word_ranges};
use crate::policy::passage::{passages, weight};

/// Tokens of one unit of [`weight`], as measured on conversations (0.88) and on long answers with code (0.81).
const TOKENS_PER_UNIT: f64 = 0.83;
/// End of a text in which a question mark makes it one that asks, in bytes.
const ASKING_END_BYTES: usize = 80;

/// An entry, or one that was said beside it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Spoken {
    /// Key of the entry and of its message.
    pub id: String,
    /// Place of the message.
    pub seq: u64,
    /// Role of the speaker.
    pub role: String,
    /// Name of the speaker, where given.
    pub name: Option<String>,
    /// When it was said by the client's clock, free text, where given.
    pub said_at: Option<String>,
    /// When it was appended, in milliseconds.
    pub created_ms: u64,
    /// When it was said by the client's clock if that is a date, else when it was appended, ISO 8601 with milliseconds.
    pub at: String,
    /// Whether it was said in a conversation, so that what stands beside it belongs to it; a fact written straight to recall storage
    /// stands alone.
    pub dialog: bool,
    /// Its text, or the beginning of a very long one.
    pub content: String,
}

/// A passage in words.
pub(super) struct Part {
    /// Where it stands, in bytes.
    pub(super) range: Range<usize>,
    pub(super) words: Vec<Word>,
    /// How often each term of the question stands in it.
    pub(super) counts: Vec<u32>,
    /// Whether it ends with a question.
    pub(super) asks: bool,
    /// Names in it that the question does not hold; not counted where no name is wanted.
    pub(super) names: usize,
}

/// An entry in words.
pub(super) struct Read<'a> {
    pub(super) row: &'a Spoken,
    pub(super) parts: Vec<Part>,
    /// Name of the speaker in lower case.
    pub(super) name: Option<String>,
    pub(super) day: Option<Day>,
    /// When it was said by the day that was given, or by that on which it was appended.
    pub(super) said: Option<Day>,
    /// Its length, about, in tokens.
    pub(super) tokens: f64,
    /// Whether it ends with a question.
    pub(super) asks: bool,
}

/// Names of speakers in lower case, each once.
pub(super) fn speakers(rows: &[Spoken]) -> Vec<String> {
    let mut names: Vec<String> =
        rows.iter().filter_map(|row| row.name.as_deref()).map(str::to_lowercase).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl<'a> Read<'a> {
    pub(super) fn of(row: &'a Spoken, asked: &Asked, lexicon: &mut Lexicon) -> Self {
        let text = row.content.as_str();
        let mut ranges = passages(text);
        if ranges.is_empty() {
            ranges.push(0..0);
        }
        let parts = ranges.into_iter().map(|range| {
            let words = lexicon.read(&text[range.clone()]);
            let times = |stem: Stem| words.iter().filter(|word| word.stem == stem).count();
            let counts =
                asked.terms.iter().map(|(stem, _)| u32::try_from(times(*stem)).unwrap_or(u32::MAX));
            Part {
                counts: counts.collect(),
                asks: text[range.clone()].trim_end().ends_with('?'),
                names: match asked.wants_name {
                    true => names(&text[range.clone()], &asked.words),
                    false => 0,
                },
                range,
                words,
            }
        });
        Self {
            row,
            parts: parts.collect(),
            name: row.name.as_deref().map(str::to_lowercase),
            day: row.said_at.as_deref().and_then(day),
            said: row.said_at.as_deref().and_then(day).or_else(|| day(&row.at)),
            tokens: weight(text) as f64 * TOKENS_PER_UNIT,
            asks: ends_asking(text),
        }
    }

    /// Words in all of it.
    pub(super) fn length(&self) -> usize {
        self.parts.iter().map(|part| part.words.len()).sum()
    }

    /// How often a term of the question stands in all of it.
    pub(super) fn count(&self, term: usize) -> u32 {
        self.parts.iter().map(|part| part.counts[term]).sum()
    }

    /// Whether some words stand in it one behind the other.
    pub(super) fn holds(&self, phrase: &[Stem]) -> bool {
        let all = self.stems();
        !phrase.is_empty() && all.windows(phrase.len()).any(|window| window == phrase)
    }

    /// Whether it is just these words.
    pub(super) fn is(&self, phrase: &[Stem]) -> bool {
        !phrase.is_empty() && self.stems() == phrase
    }

    fn stems(&self) -> Vec<Stem> {
        self.parts.iter().flat_map(|part| &part.words).map(|word| word.stem).collect()
    }
}

/// Words with a capital within a sentence that are not among some others, each once.
fn names(text: &str, but: &HashSet<String>) -> usize {
    let mut found: HashSet<String> = HashSet::new();
    for range in word_ranges(text) {
        let word = &text[range.clone()];
        let before = text[..range.start].trim_end_matches([' ', '(', '"', '“']);
        let is_inside = before.len() < range.start
            && !before.is_empty()
            && !before.ends_with(['.', '!', '?', '…', ':', '\n']);
        let is_capital = word.starts_with(char::is_uppercase)
            && !word.starts_with("I'")
            && !word.starts_with("I’")
            && word.chars().count() > 1;
        if is_inside && is_capital {
            let word = plain(word);
            if !but.contains(&word) {
                found.insert(word);
            }
        }
    }
    found.len()
}

fn ends_asking(text: &str) -> bool {
    let mut begin = text.len().saturating_sub(ASKING_END_BYTES);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    text[begin..].contains('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_by_passages() {
        let long = format!("Where is the boat? {} The boat is blue.", "Nothing here. ".repeat(60));
        let row = Spoken {
            name: Some("Ida".into()),
            said_at: Some("8 May, 2023".into()),
            content: long,
            ..Spoken::default()
        };
        let mut lexicon = Lexicon::new();
        let asked = Asked::read("blue boats", &[], |_| 1.0, &[], &mut lexicon);
        let read = Read::of(&row, &asked, &mut lexicon);
        assert!(read.parts.len() > 2 && !read.asks && !read.parts[0].asks);
        assert_eq!((read.count(0), read.count(1)), (1, 2));
        assert_eq!((read.name.as_deref(), read.day.is_some()), (Some("ida"), true));
        let phrase: Vec<Stem> = lexicon.read("boat is blue").iter().map(|w| w.stem).collect();
        assert!(read.holds(&phrase) && !read.holds(&[]));
        let but = HashSet::from(["rome".to_owned()]);
        for (text, wanted) in [
            ("Ida met Otto and Alma. Then Otto left", 2),
            ("I'm in Rome, I said", 0),
            ("We read “Emma” (Jane Austen)", 3),
            ("a\nTitle", 0),
        ] {
            assert_eq!(names(text, &but), wanted, "{text}");
        }
        assert_eq!(speakers(&[row.clone(), row]), ["ida"]);
        assert!(ends_asking("Did you? Yes") && !ends_asking(&format!("Did? {}", "é".repeat(80))));
    }
}
