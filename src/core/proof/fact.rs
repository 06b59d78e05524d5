//! A fact in the words of a caller, and the check whether a text states this fact exactly or by its
//! content words.

use std::collections::HashSet;

use serde::Serialize;

use crate::error::Result;
use crate::search::RecallQuery;

/// Number of characters in an excerpt around the words that state a fact.
const EXCERPT_CHARS: usize = 200;

/// How a text states a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// The text contains the fact verbatim, except for case and white space.
    Exactly,
    /// The text contains all content words of the fact, in any order.
    ByWords,
}

/// A fact, parsed from the words of a caller.
#[derive(Clone, Debug)]
pub struct Fact {
    /// The search query that finds texts with the fact.
    pub query: RecallQuery,
    plain: String,
}

impl Fact {
    /// Parses a fact. The function returns an error for a fact without a word, and for a fact that
    /// is too long for a search.
    pub fn parse(text: &str) -> Result<Self> {
        let query = RecallQuery::parse(text)?;
        Ok(Self { plain: plain(&query.words), query })
    }

    /// Returns the fact's content words, in lower case, each word once.
    pub fn words(&self) -> &[String] {
        &self.query.telling
    }

    /// Returns the fact in lower case with single spaces.
    pub fn plain(&self) -> &str {
        &self.plain
    }

    /// Returns how a text states the fact; `None` if the text does not state the fact.
    pub fn said_in(&self, text: &str) -> Option<Says> {
        if plain(text).contains(&self.plain) {
            return Some(Says::Exactly);
        }
        (self.held_in(text).len() == self.words().len()).then_some(Says::ByWords)
    }

    /// Returns the fact's content words that a text contains, in the fact's order.
    pub fn held_in(&self, text: &str) -> Vec<&str> {
        let lower = text.to_lowercase();
        let there: HashSet<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
        // A word with punctuation inside (a date, a name with a hyphen) is present if all parts
        // between the punctuation are present.
        let holds = |word: &&String| {
            word.split(|c: char| !c.is_alphanumeric())
                .filter(|part| !part.is_empty())
                .all(|part| there.contains(part))
        };
        self.words().iter().filter(holds).map(String::as_str).collect()
    }

    /// Returns the part of a text around the fact, with an ellipsis where the text is truncated.
    pub fn excerpt(&self, text: &str) -> String {
        let chars: Vec<char> = text.chars().collect();
        if chars.len() <= EXCERPT_CHARS {
            return text.to_owned();
        }
        let lower: String = text.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect();
        let first = self.plain.split(' ').next().unwrap_or_default();
        let places =
            [self.plain.as_str(), first].into_iter().chain(self.words().iter().map(String::as_str));
        let at = places.filter(|p| !p.is_empty()).find_map(|p| lower.find(p)).unwrap_or(0);
        let at = lower[..at].chars().count();
        let start = at.saturating_sub(EXCERPT_CHARS / 4).min(chars.len() - EXCERPT_CHARS);
        let cut: String = chars[start..start + EXCERPT_CHARS].iter().collect();
        let (before, after) = (
            if start > 0 { "…" } else { "" },
            if start + EXCERPT_CHARS < chars.len() { "…" } else { "" },
        );
        format!("{before}{cut}{after}")
    }
}

fn plain(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}
