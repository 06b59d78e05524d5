//! Selects the query words that a search of the archive looks for, and the identifiers among these
//! words.

use super::nearest::Conditions;
use super::stop_words::StopWords;
use crate::memory::archive::Metric;

/// Maximum number of identifiers in a query that are searched for as phrases.
const IDENTIFIERS_MAX: usize = 2;

/// Minimum length of an identifier in characters, and its minimum number of digits. A UUID or a
/// file number is an identifier, but `covid-19` is not.
const IDENTIFIER_CHARS_MIN: usize = 12;
const IDENTIFIER_DIGITS_MIN: usize = 3;

/// A search of the archive by words.
#[derive(Clone, Debug, PartialEq)]
pub struct WordQuery {
    /// The whole text of the query.
    pub text: String,
    /// The words that the search looks for.
    pub words: String,
    /// Identifiers that are searched for as phrases. If any chunk contains such an identifier, the
    /// results are limited to chunks with an identifier.
    pub identifiers: Vec<String>,
    /// The vector of the query, if any, which is compared with the vectors of the chunks found by
    /// words.
    pub vector: Option<Vec<f64>>,
    /// Name of the attribute that contains a chunk's vector.
    pub attribute: String,
    /// Metric by which vectors are compared.
    pub metric: Metric,
    /// Conditions that the chunks must meet.
    pub filter: Conditions,
    /// Server time of the search, in milliseconds.
    pub now_ms: u64,
}

/// Returns the query words to search for, and the identifiers among them.
pub fn words_of_question(text: &str) -> (String, Vec<String>) {
    let bare = |word: &str| {
        word.trim_matches(|c: char| !c.is_alphanumeric()).trim_end_matches("'s").to_lowercase()
    };
    let tells = |word: &&str| {
        let word = bare(word);
        !word.is_empty() && !StopWords::Archive.contains(&word)
    };
    let telling: Vec<&str> = text.split_whitespace().filter(tells).collect();
    let words = if telling.is_empty() { text.trim().to_owned() } else { telling.join(" ") };
    let trimmed = text.split_whitespace().map(|w| w.trim_matches(|c: char| !c.is_alphanumeric()));
    let mut identifiers: Vec<String> =
        trimmed.filter(|w| is_identifier(w)).map(str::to_owned).collect();
    identifiers.dedup();
    identifiers.truncate(IDENTIFIERS_MAX);
    (words, identifiers)
}

/// Returns whether a word is an identifier: a long word with digits and several parts.
fn is_identifier(piece: &str) -> bool {
    let digits = piece.chars().filter(char::is_ascii_digit).count();
    let parts = piece.split(['-', '_', '.', ':', '/']).filter(|part| !part.is_empty()).count();
    piece.chars().count() >= IDENTIFIER_CHARS_MIN && digits >= IDENTIFIER_DIGITS_MIN && parts >= 2
}
