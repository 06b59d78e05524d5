//! A fact as somebody words it, and whether a text says it: letter by letter, or with all of its telling words.

use std::collections::HashSet;

use serde::Serialize;

use crate::error::Result;
use crate::policy::RecallQuery;

/// Characters of a text that are shown around what says the fact.
const EXCERPT_CHARS: usize = 200;

/// How a text says a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// Letter by letter, but for case and white space.
    Exactly,
    /// With all of its telling words, wherever they stand.
    ByWords,
}

/// A fact.
#[derive(Clone, Debug)]
pub struct Fact {
    /// What is asked for in a search.
    pub query: RecallQuery,
    plain: String,
}

impl Fact {
    /// Reads it; a fault where it has no word, or is too long for a search.
    pub fn parse(text: &str) -> Result<Self> {
        let query = RecallQuery::parse(text)?;
        Ok(Self { plain: plain(&query.words), query })
    }

    /// Its telling words, in lower case, each once.
    pub fn words(&self) -> &[String] {
        &self.query.telling
    }

    /// The text in lower case with single spaces.
    pub fn plain(&self) -> &str {
        &self.plain
    }

    /// Whether and how a text says it.
    pub fn said_in(&self, text: &str) -> Option<Says> {
        if plain(text).contains(&self.plain) {
            return Some(Says::Exactly);
        }
        (self.held_in(text).len() == self.words().len()).then_some(Says::ByWords)
    }

    /// Its telling words that a text holds, in their order.
    pub fn held_in(&self, text: &str) -> Vec<&str> {
        let lower = text.to_lowercase();
        let there: HashSet<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
        // A word with a mark inside (a date, a name with a hyphen) stands where all of its parts do.
        let holds = |word: &&String| {
            word.split(|c: char| !c.is_alphanumeric())
                .filter(|part| !part.is_empty())
                .all(|part| there.contains(part))
        };
        self.words().iter().filter(holds).map(String::as_str).collect()
    }

    /// The part of a text that says it, with an ellipsis where it is cut.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_a_fact_letter_by_letter_or_by_its_words() {
        let fact = Fact::parse("The berth costs 14 crowns").unwrap();
        for (text, says) in [
            ("She said: the  Berth costs 14\ncrowns.", Some(Says::Exactly)),
            ("14 crowns: that is what a berth costs.", Some(Says::ByWords)),
            ("The berth costs 140 crowns", None),
            ("The berth costs much", None),
            ("", None),
        ] {
            assert_eq!(fact.said_in(text), says, "{text}");
        }
        assert_eq!(fact.held_in("a berth of 14"), ["berth", "14"]);
    }

    #[test]
    fn an_excerpt_shows_where_it_is_said() {
        let fact = Fact::parse("berth costs 14").unwrap();
        let long = format!("{} The BERTH costs 14. {}", "ä ".repeat(300), "b ".repeat(300));
        let shown = fact.excerpt(&long);
        assert!(
            shown.contains("BERTH costs 14") && shown.starts_with('…') && shown.ends_with('…'),
            "{shown}"
        );
        assert_eq!(shown.chars().count(), EXCERPT_CHARS + 2);
        assert_eq!(fact.excerpt("short"), "short");
    }
}
