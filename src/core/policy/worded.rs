//! A question in words: which of its words are looked for, and what in it is an identifier that must be found whole.

use super::nearest::Conditions;
use crate::limits::IDENTIFIERS_MAX;
use crate::memory::archive::Metric;

/// Function words of questions; what is left must tell something, or all of them are looked for. They count where they stand beside other words.
const QUESTION_WORDS: &str = "a an the of is are was were be been in on at to for and or by with from as it its that this these those what \
    who when where which how does do did has have had why whom whose i you he she they we there their his her many much can will would s";

/// An identifier has at least this length, and so many digits: a UUID, a file number, no `covid-19`.
const IDENTIFIER_CHARS_MIN: usize = 12;
const IDENTIFIER_DIGITS_MIN: usize = 3;

/// What is looked for in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Words {
    /// The whole question.
    pub text: String,
    /// Those of its words that are looked for.
    pub words: String,
    /// What must stand in a chunk whole, if anything does hold it.
    pub identifiers: Vec<String>,
    /// The question as a vector, to compare what is found by words with it too.
    pub vector: Option<Vec<f64>>,
    /// Under which name those that it is compared with stand in a chunk.
    pub attribute: String,
    /// How vectors are compared.
    pub metric: Metric,
    /// What the chunks must be.
    pub filter: Conditions,
    /// Server time of the question, in milliseconds.
    pub now_ms: u64,
}

/// The words of a question that are looked for, and its identifiers.
pub fn words_of_question(text: &str) -> (String, Vec<String>) {
    let bare = |word: &str| {
        word.trim_matches(|c: char| !c.is_alphanumeric()).trim_end_matches("'s").to_lowercase()
    };
    let tells = |word: &&str| {
        let word = bare(word);
        !word.is_empty() && !QUESTION_WORDS.split_whitespace().any(|stop| stop == word)
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

/// One unbroken piece of text that is a name of something rather than words: long, with digits, in several parts.
fn is_identifier(piece: &str) -> bool {
    let digits = piece.chars().filter(char::is_ascii_digit).count();
    let parts = piece.split(['-', '_', '.', ':', '/']).filter(|part| !part.is_empty()).count();
    piece.chars().count() >= IDENTIFIER_CHARS_MIN && digits >= IDENTIFIER_DIGITS_MIN && parts >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_nothing_is_not_looked_for_unless_nothing_else_is_there() {
        for (text, words, identifiers) in [
            ("who got the first nobel prize in physics", "got first nobel prize physics", vec![]),
            ("who is it?", "who is it?", vec![]),
            ("covid-19 in 2020", "covid-19 2020", vec![]),
            (
                "key = 94071d67-86df-455c-8ee9-691e492ff740?",
                "key 94071d67-86df-455c-8ee9-691e492ff740?",
                vec!["94071d67-86df-455c-8ee9-691e492ff740"],
            ),
            ("Akte 12-B/2024.0017", "Akte 12-B/2024.0017", vec!["12-B/2024.0017"]),
        ] {
            let expected: Vec<String> = identifiers.into_iter().map(str::to_owned).collect();
            assert_eq!(words_of_question(text), (words.to_owned(), expected), "{text}");
        }
    }
}
