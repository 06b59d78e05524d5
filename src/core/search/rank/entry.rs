//! Prepares an entry of recall storage for the scorer: determines the word stems of its passages,
//! its speaker and its day.

use std::collections::HashSet;
use std::ops::Range;

use serde::Deserialize;

use super::days::{Day, day};
use super::question::QuestionWords;
use super::related::Alike;
use super::word_vectors::Topic;
use super::words::{Lexicon, Stem, Word, plain, word_ranges};
use crate::search::passage::{passages, weight};

/// Number of tokens per unit of [`weight`], measured as 0.88 on conversations and 0.81 on answers
/// with code.
const TOKENS_PER_UNIT: f64 = 0.83;
/// A text counts as a question if a question mark is within this number of bytes of the text's end.
const ASKING_END_BYTES: usize = 80;

/// An entry of recall storage, or a neighbouring message in the log.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct RecallEntry {
    /// Key of the entry, which is also the key of the entry's message.
    pub id: String,
    /// Position of the entry's message.
    pub seq: u64,
    /// Role of the entry's speaker.
    pub role: String,
    /// Name of the entry's speaker, if known.
    pub name: Option<String>,
    /// Labels of the message, as they are stored.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Time that the client gave for the message, as free text, if present.
    pub said_at: Option<String>,
    /// When the entry was appended, in milliseconds.
    pub created_ms: u64,
    /// Time of the message, ISO 8601 with milliseconds. This is the client's time if it is a date,
    /// otherwise the time when the entry was appended.
    pub at: String,
    /// Whether the entry and its neighbours belong to one conversation; false for an entry that
    /// `write_recall` wrote.
    pub dialog: bool,
    /// Whether the entry is a message of the queue without a word of the query, next to a found
    /// message. Such an entry is a result only if its vector is compared with the query.
    #[serde(default)]
    pub context: bool,
    /// The entry's text, or the beginning of a very long text.
    pub content: String,
}

impl RecallEntry {
    /// Returns the time and position of the entry; of two entries, the newer one has the greater
    /// value. An import may bring entries whose times run backwards.
    pub(super) fn age(&self) -> (&str, u64) {
        (&self.at, self.seq)
    }
}

/// The words of a passage, as the scorer uses them.
pub(super) struct PassageWords {
    /// Byte range of the passage in the entry's text.
    pub(super) range: Range<usize>,
    pub(super) words: Vec<Word>,
    /// Number of occurrences of each query word in the passage. If a query word does not occur, the
    /// degree to which another word of the passage counts as the query word, which is below 1.
    pub(super) counts: Vec<f64>,
    /// Whether the passage ends with a question.
    pub(super) asks: bool,
    /// Whether the passage consists of questions only.
    pub(super) asks_only: bool,
    /// Whether the passage speaks in the first person.
    pub(super) is_own: bool,
    /// Whether the passage names somebody or something that the query does not name.
    pub(super) has_others: bool,
    /// Number of names in the passage that the query does not contain; 0 unless the query asks for
    /// a name.
    pub(super) names: usize,
    /// The subject of the passage.
    pub(super) topic: Topic,
}

/// The words of an entry, as the scorer uses them.
pub(super) struct EntryWords<'a> {
    pub(super) row: &'a RecallEntry,
    pub(super) parts: Vec<PassageWords>,
    /// Name of the entry's speaker in lower case, if known.
    pub(super) name: Option<String>,
    pub(super) day: Option<Day>,
    /// Day of the message, from the client's time or else from the time when the message was
    /// appended.
    pub(super) said: Option<Day>,
    /// Estimated length of the entry in tokens.
    pub(super) tokens: f64,
    /// Whether the entry ends with a question.
    pub(super) asks: bool,
}

/// Returns the names of speakers in lower case, without repetition.
pub(super) fn speakers(rows: &[RecallEntry]) -> Vec<String> {
    let mut names: Vec<String> =
        rows.iter().filter_map(|row| row.name.as_deref()).map(str::to_lowercase).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl<'a> EntryWords<'a> {
    pub(super) fn of(row: &'a RecallEntry, asked: &QuestionWords, lexicon: &mut Lexicon) -> Self {
        let text = row.content.as_str();
        let mut ranges = passages(text);
        if ranges.is_empty() {
            ranges.push(0..0);
        }
        let parts = ranges.into_iter().map(|range| {
            let words = lexicon.read(&text[range.clone()]);
            PassageWords {
                counts: Vec::new(),
                asks_only: asks_only(&text[range.clone()]),
                is_own: is_first_person(&text[range.clone()]),
                has_others: other_names(&text[range.clone()], &asked.words),
                asks: text[range.clone()].trim_end().ends_with('?'),
                names: match asked.wants_name {
                    true => names(&text[range.clone()], &asked.words),
                    false => 0,
                },
                topic: lexicon.topic(words.iter().map(|word| word.stem)),
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

    /// Returns the number of words of the entry.
    pub(super) fn length(&self) -> usize {
        self.parts.iter().map(|part| part.words.len()).sum()
    }

    /// Counts the query words in each passage.
    pub(super) fn count_terms(&mut self, alike: &Alike) {
        for part in &mut self.parts {
            part.counts = alike.counts(&part.words);
        }
    }

    /// Returns how often the entry contains the query word with index `term`. Below 1, the value is
    /// the degree to which another word of the entry counts as the query word.
    pub(super) fn count(&self, term: usize) -> f64 {
        let exact = self.parts.iter().map(|part| part.counts[term]).filter(|count| *count >= 1.0);
        let exact: f64 = exact.sum();
        if exact > 0.0 {
            return exact;
        }
        self.parts.iter().map(|part| part.counts[term]).fold(0.0, f64::max)
    }

    /// Whether the entry contains a query word, or a word that counts as one to some degree.
    pub(super) fn holds_a_term(&self) -> bool {
        self.parts.iter().flat_map(|part| &part.counts).any(|count| *count > 0.0)
    }

    /// Returns whether the entry contains the given words as a phrase.
    pub(super) fn holds(&self, phrase: &[Stem]) -> bool {
        let all = self.stems();
        !phrase.is_empty() && all.windows(phrase.len()).any(|window| window == phrase)
    }

    /// Returns whether the entry consists of exactly the given words.
    pub(super) fn is(&self, phrase: &[Stem]) -> bool {
        !phrase.is_empty() && self.stems() == phrase
    }

    fn stems(&self) -> Vec<Stem> {
        self.parts.iter().flat_map(|part| &part.words).map(|word| word.stem).collect()
    }
}

/// Returns the number of distinct capitalised words that do not begin a sentence, except the words
/// in `but`.
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

/// Whether a text has a pronoun of the first person.
fn is_first_person(text: &str) -> bool {
    word_ranges(text).into_iter().any(|range| {
        let word = plain(&text[range]);
        let base = word.split('\'').next().unwrap_or_default();
        FIRST_PERSON.contains(&base)
    })
}

/// Whether each sentence of a text is a question.
fn asks_only(text: &str) -> bool {
    let text = text.trim();
    text.ends_with('?') && !text.trim_end_matches('?').contains(['.', '!'])
}

/// Pronouns of the first person, without their endings after an apostrophe.
const FIRST_PERSON: [&str; 10] =
    ["i", "me", "my", "mine", "myself", "we", "us", "our", "ours", "ourselves"];

/// Whether a text has a capitalised word that is not in `but`. At the beginning of a sentence, only
/// a word with a possessive ending counts.
fn other_names(text: &str, but: &HashSet<String>) -> bool {
    if names(text, but) > 0 {
        return true;
    }
    word_ranges(text).into_iter().any(|range| {
        let word = &text[range];
        let base = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s"));
        base.is_some_and(|base| {
            base.starts_with(char::is_uppercase)
                && base.chars().count() > 2
                && !CONTRACTED.contains(&plain(base).as_str())
                && !but.contains(&plain(base))
        })
    })
}

/// Words whose ending `'s` is a contraction.
const CONTRACTED: [&str; 12] =
    ["it", "that", "there", "what", "who", "where", "here", "he", "she", "let", "how", "when"];

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
        let row = RecallEntry {
            name: Some("Ida".into()),
            said_at: Some("8 May, 2023".into()),
            content: long,
            ..RecallEntry::default()
        };
        let mut lexicon = Lexicon::new();
        let asked = QuestionWords::read("blue boats", &[], |_| Some(1.0), &[], &mut lexicon);
        let mut read = EntryWords::of(&row, &asked, &mut lexicon);
        read.count_terms(&Alike::of(&asked, &lexicon, std::iter::empty()));
        assert!(read.parts.len() > 2 && !read.asks && !read.parts[0].asks);
        assert_eq!((read.count(0), read.count(1)), (1.0, 2.0));
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
