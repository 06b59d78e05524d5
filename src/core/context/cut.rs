//! Cuts a unit that does not fit into the rest of a context: to its most valuable words in a row.

use std::ops::Range;

use crate::memory::TokenCounter;
use crate::search::word_values;

/// Value of any word, relative to the words of the question.
const FILL_VALUE: f64 = 0.01;

/// Returns the byte range of the most valuable words in a row that have at most `tokens_max`
/// tokens.
pub(super) fn cut(
    question: &str,
    text: &str,
    tokens_max: u64,
    counter: &dyn TokenCounter,
) -> Range<usize> {
    let words = word_values(question, text);
    // Most tokens of English begin with the space before a word.
    let begin_of = |at: usize| at.checked_sub(1).map_or(0, |before| words[before].0.end);
    let end_of = |at: usize| match words.get(at + 1) {
        None => text.trim_end().len(),
        Some(_) => words[at].0.end,
    };
    let cost = |at: usize| counter.count(&text[begin_of(at)..end_of(at)]);
    let costs: Vec<u64> = (0..words.len()).map(cost).collect();
    let (mut best, mut most) = (0..0, f64::MIN);
    let (mut from, mut cost, mut value) = (0, 0, 0.0);
    for to in 0..words.len() {
        cost += costs[to];
        value += words[to].1 + FILL_VALUE;
        while cost > tokens_max && from <= to {
            cost -= costs[from];
            value -= words[from].1 + FILL_VALUE;
            from += 1;
        }
        if from <= to && value > most {
            most = value;
            best = words[from].0.start..end_of(to);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Encoding;
    use crate::text::Tiktoken;

    #[test]
    fn the_words_around_the_answer_stay() {
        let text =
            "In the spring of that year, the old sloop got two red sails in Porto, it is said.";
        let counter = Tiktoken::new(Encoding::default());
        for tokens_max in [0, 8, 12, 100] {
            let part = cut("Which sails did the sloop get?", text, tokens_max, &counter);
            assert!(counter.count(&text[part.clone()]) <= tokens_max);
            assert_eq!(text[part].contains("sails"), tokens_max >= 8);
        }
    }
}
