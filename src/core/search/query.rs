//! A query for recall storage, with words, phrases, filter and mode.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::rank::{RecallEntry, better_passage, content_words, without_names};
use crate::error::{Error, Result};
use crate::limits::{QUERY_BYTES_MAX, RECALL_HITS_MAX};

/// Maximum number of quoted phrases in a query.
const PHRASES_MAX: usize = 2;

/// A query for recall storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallQuery {
    /// All words of the query; an entry with any of these words matches.
    pub words: String,
    /// The quoted phrases, or all words as one phrase if nothing is quoted. An entry with a phrase
    /// ranks above an entry with scattered words.
    pub phrases: Vec<String>,
    /// The query's content words, in lower case, without repetition.
    pub telling: Vec<String>,
    /// Whether the query's phrases were quoted.
    pub quoted: bool,
    /// Conditions that an entry must meet in addition to the words.
    pub filter: RecallFilter,
    /// Whether to search by words, by vectors, or by both.
    pub mode: RecallMode,
}

/// Whether a search of recall storage uses words, vectors or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecallMode {
    /// Search by words and, if an embedding model is configured, by vectors.
    #[default]
    Auto,
    /// Search by words only.
    Text,
    /// Search by vectors only, and leave out entries below a minimum similarity.
    Vector {
        /// Minimum cosine similarity of a result, in thousandths; `None` for the configured value.
        similarity_min: Option<u32>,
    },
    /// Search by words and vectors; refused without an embedding model.
    Hybrid,
}

/// Configured defaults for searches of recall storage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecallSettings {
    /// Minimum cosine similarity of a result, in a search by vectors only.
    pub similarity_threshold: f64,
    /// Maximum number of results of a search, over all pages.
    pub max_memories: usize,
}

impl Default for RecallSettings {
    fn default() -> Self {
        Self { similarity_threshold: 0.7, max_memories: RECALL_HITS_MAX }
    }
}

impl RecallSettings {
    /// Returns one description for each invalid setting. A description begins with the setting's
    /// name.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(0.0..=1.0).contains(&self.similarity_threshold) {
            faults.push("recall.similarity_threshold: use 0 to 1".to_owned());
        }
        if self.max_memories == 0 || self.max_memories > RECALL_HITS_MAX {
            faults.push(format!("recall.max_memories: use 1 to {RECALL_HITS_MAX}"));
        }
        faults
    }
}

/// Returns a cosine in thousandths.
pub fn thousandths(cosine: f64) -> u32 {
    (cosine.clamp(0.0, 1.0) * 1000.0).round() as u32
}

/// Conditions that an entry must meet in addition to the words of the query; `None` sets no
/// condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecallFilter {
    /// Role of the message's speaker.
    pub role: Option<String>,
    /// Name of the message's speaker.
    pub name: Option<String>,
    /// Earliest time of a message, ISO 8601 with milliseconds.
    pub after: Option<String>,
    /// Time before which the message was written, ISO 8601 with milliseconds.
    pub before: Option<String>,
    /// Labels that the message has, as they are stored.
    pub labels: Vec<String>,
}

impl RecallQuery {
    /// Parses a query for recall storage, in which text between quotation marks is a phrase.
    pub fn parse(text: &str) -> Result<Self> {
        let fault = |why: String| Err(Error::argument("query", why));
        if text.len() > QUERY_BYTES_MAX {
            return fault(format!("longer than {QUERY_BYTES_MAX} bytes: shorten it"));
        }
        let marked = text.replace(['“', '”', '„', '«', '»'], "\"");
        let words = marked.replace('"', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        if !has_word(&words) {
            return fault(
                "no word to search for: give some words, or a phrase in \"quotes\"".into(),
            );
        }
        let mut phrases = phrases_of(text);
        if phrases.len() > PHRASES_MAX {
            return fault(format!(
                "more than {PHRASES_MAX} quoted phrases: search for them one by one"
            ));
        }
        let quoted = !phrases.is_empty();
        if !quoted && words.split(' ').filter(|w| has_word(w)).count() > 1 {
            phrases.push(words.clone());
        }
        let telling = content_words(&words);
        Ok(Self {
            words,
            phrases,
            telling,
            quoted,
            filter: RecallFilter::default(),
            mode: RecallMode::Auto,
        })
    }

    /// Returns the query with the configured defaults for values that the query does not set.
    #[must_use]
    pub fn settled(mut self, settings: &RecallSettings) -> Self {
        if let RecallMode::Vector { similarity_min } = &mut self.mode {
            similarity_min.get_or_insert(thousandths(settings.similarity_threshold));
        }
        self
    }

    /// Returns the query without the names of speakers. The vector of a query with a name would be
    /// near messages that mention the name instead of messages by this speaker.
    pub fn nameless<'n>(&self, names: impl Iterator<Item = &'n str>) -> String {
        without_names(&self.words, names)
    }

    /// Returns the passage of a text that matches the query's words best, if this passage matches
    /// better than the passage that contains the byte at position `known`. Returns `None` for a
    /// search by vectors only.
    pub fn better_passage(&self, text: &str, known: usize) -> Option<Range<usize>> {
        let quoted = if self.quoted { &self.phrases[..] } else { &[] };
        let by_meaning = matches!(self.mode, RecallMode::Vector { .. });
        if by_meaning { None } else { better_passage(&self.words, quoted, text, known) }
    }
}

/// Returns the quoted phrases of a text, in order.
pub(crate) fn phrases_of(text: &str) -> Vec<String> {
    let marked = text.replace(['“', '”', '„', '«', '»'], "\"");
    // An unpaired quotation mark at the end opens no phrase.
    let pairs = marked.matches('"').count() / 2;
    let quoted = marked.split('"').skip(1).step_by(2).take(pairs).map(str::trim);
    let mut phrases: Vec<String> = quoted.filter(|p| has_word(p)).map(str::to_owned).collect();
    phrases.dedup();
    phrases
}

fn has_word(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

impl RecallFilter {
    /// Returns whether the filter sets no condition.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether an entry meets all conditions.
    pub fn meets(&self, entry: &RecallEntry) -> bool {
        self.role.as_ref().is_none_or(|role| *role == entry.role)
            && self.name.as_ref().is_none_or(|name| entry.name.as_ref() == Some(name))
            && self.after.as_ref().is_none_or(|after| entry.at >= *after)
            && self.before.as_ref().is_none_or(|before| entry.at < *before)
            && self.labels.iter().all(|label| entry.labels.contains(label))
    }
}
