//! Reduces content words to stems (Snowball's English stemmer), to check whether a summary contains
//! a fact.

use std::collections::HashSet;

use frostem::{Algorithm, Stemmer};

/// Stop words, which the benchmark ignores. The summariser under test has a different list.
const STOP: &str = "a about above after again against all am an and any are aren as at be because been before being below between both but by \
can cannot could couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn have haven having he her here hers \
herself him himself his how i if in into is isn it its itself just let ll m me more most my myself no nor not now of off on once only or other ought \
our ours ourselves out over own re s same shall she should shouldn so some such t than that the their theirs them themselves then there these they \
this those through to too under until up ve very was wasn we were weren what when where which while who whom why will with won would wouldn you your \
yours yourself yourselves";

/// Splits texts into words and reduces each word to its stem.
pub(super) struct Stems {
    stemmer: Stemmer,
    stop: HashSet<&'static str>,
}

impl Stems {
    /// Creates a stemmer and loads the stop words.
    pub(super) fn new() -> Stems {
        Stems { stemmer: Stemmer::new(Algorithm::English), stop: STOP.split(' ').collect() }
    }

    /// Returns the stems of the content words of a text.
    pub(super) fn of(&self, text: &str) -> HashSet<String> {
        self.stems(&text.to_lowercase()).collect()
    }

    /// Returns the stems of the content words of a text, in order and with repetitions. A name of
    /// several words, as in `maxTokens`, is several words.
    pub(super) fn all(&self, text: &str) -> Vec<String> {
        let mut parted = String::with_capacity(text.len());
        let mut is_lower = false;
        for c in text.chars() {
            if is_lower && c.is_uppercase() {
                parted.push(' ');
            }
            is_lower = c.is_lowercase();
            parted.extend(c.to_lowercase());
        }
        self.stems(&parted).collect()
    }

    fn stems<'a>(&'a self, lower: &'a str) -> impl Iterator<Item = String> + 'a {
        let words = lower.split(|c: char| !c.is_alphanumeric());
        words
            .filter(|word| !word.is_empty() && !self.stop.contains(word))
            .map(|word| self.stemmer.stem(word).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_stems_and_function_words_are_left_out() {
        let stems = Stems::new();
        let mut found: Vec<String> =
            stems.of("She's been painting the 2 Kites, hasn't she?").into_iter().collect();
        found.sort();
        assert_eq!(found, ["2", "kite", "paint"]);
    }

    #[test]
    fn names_in_code_become_words_in_their_order() {
        let found = Stems::new().all("fn maxTokens(kites: &Kite) the HTTPServer");
        assert_eq!(found, ["fn", "max", "token", "kite", "kite", "httpserver"]);
    }
}
