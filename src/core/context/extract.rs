//! Condenses a text into sentences of its own, without a question and without a model.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use frostem::{Algorithm, Stemmer};

use super::sentence::sentences_of_lines;
use crate::memory::TokenCounter;
use crate::search::{StopWords, content_words};

/// Maximum number of sentences of a text that are compared with each other.
const SENTENCES_MAX: usize = 2_048;

/// A text condensed into some of its sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extract {
    /// The sentences, with spaces between them.
    pub text: String,
    /// Byte ranges of the sentences in the whole text, in order.
    pub spans: Vec<Range<usize>>,
    /// Cost of `text`, in tokens.
    pub tokens: u64,
}

/// Condenses a text into at most the given number of tokens. A sentence is worth the words that the
/// sentences before it do not have, by the number of sentences that have them, and the best
/// sentence per token is taken first (cost-scaled greedy, as by Lin and Bilmes 2010). The sentences
/// stay in the order of the text. If no sentence fits, the beginning of the first one is taken.
pub fn extract(text: &str, tokens_max: u64, counter: &dyn TokenCounter) -> Extract {
    let mut sentences = sentences_of_lines(text);
    sentences.truncate(SENTENCES_MAX);
    let (stems, counts) = stems_of(sentences.iter().map(|range| &text[range.clone()]));
    // A sentence costs one token more for the space before it.
    let cost = |range: &Range<usize>| counter.count(&text[range.clone()]) + 1;
    let costs: Vec<u64> = sentences.iter().map(cost).collect();
    let mut left: Vec<usize> = (0..sentences.len()).collect();
    let (mut taken, mut used, mut covered) = (Vec::new(), 0, vec![false; counts.len()]);
    loop {
        let worth = |at: usize| {
            let new = stems[at].iter().filter(|stem| !covered[**stem]);
            new.map(|stem| counts[*stem]).sum::<f64>() / costs[at] as f64
        };
        left.retain(|at| used + costs[*at] <= tokens_max + 1);
        // Of equal sentences, the first.
        let next = left.iter().copied().rev().max_by(|a, b| worth(*a).total_cmp(&worth(*b)));
        let Some(at) = next.filter(|at| worth(*at) > 0.0) else { break };
        left.retain(|other| *other != at);
        stems[at].iter().for_each(|stem| covered[*stem] = true);
        used += costs[at];
        taken.push(at);
    }
    let mut told = joined(text, &sentences, &taken, counter);
    while told.tokens > tokens_max {
        taken.pop();
        told = joined(text, &sentences, &taken, counter);
    }
    match (taken.is_empty(), sentences.first()) {
        (true, Some(first)) => beginning(text, first, tokens_max, counter),
        _ => told,
    }
}

/// Returns the stems of each sentence as numbers, and how many sentences have each stem.
fn stems_of<'t>(sentences: impl Iterator<Item = &'t str>) -> (Vec<Vec<usize>>, Vec<f64>) {
    let stemmer = Stemmer::new(Algorithm::English);
    let (mut numbers, mut counts) = (HashMap::new(), Vec::new());
    let mut all = Vec::new();
    for sentence in sentences {
        let words = content_words(sentence);
        let words = words.iter().filter(|word| !StopWords::Recall.contains(word));
        let stems: BTreeSet<String> = words.map(|word| stemmer.stem(word).into_owned()).collect();
        let mut own = Vec::with_capacity(stems.len());
        for stem in stems {
            let number = *numbers.entry(stem).or_insert(counts.len());
            match counts.get_mut(number) {
                Some(count) => *count += 1.0,
                None => counts.push(1.0),
            }
            own.push(number);
        }
        all.push(own);
    }
    (all, counts)
}

fn joined(
    text: &str,
    sentences: &[Range<usize>],
    taken: &[usize],
    counter: &dyn TokenCounter,
) -> Extract {
    let order: BTreeSet<usize> = taken.iter().copied().collect();
    let spans: Vec<Range<usize>> = order.into_iter().map(|at| sentences[at].clone()).collect();
    let parts: Vec<&str> = spans.iter().map(|span| &text[span.clone()]).collect();
    let text = parts.join(" ");
    Extract { tokens: counter.count(&text), text, spans }
}

/// Returns as many words of the beginning of a sentence as fit.
fn beginning(
    text: &str,
    sentence: &Range<usize>,
    tokens_max: u64,
    counter: &dyn TokenCounter,
) -> Extract {
    let whole = &text[sentence.clone()];
    let ends = whole.match_indices(char::is_whitespace).map(|(at, _)| at).chain([whole.len()]);
    let ends: Vec<usize> = ends.collect();
    let fitting = ends.partition_point(|end| counter.count(&whole[..*end]) <= tokens_max);
    let Some(end) = fitting.checked_sub(1).map(|at| ends[at]) else { return Extract::default() };
    let part = whole[..end].trim_end();
    Extract {
        text: part.to_owned(),
        spans: std::iter::once(sentence.start..sentence.start + part.len()).collect(),
        tokens: counter.count(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Encoding;
    use crate::text::Tiktoken;

    const TEXT: &str = "The harbour of Elba was closed in May. It was a nice day. \
        Dr. Roe said that the harbour opens again in June. Ferries to Elba leave from Piombino. \
        The ferry takes an hour. Someone laughed.";

    #[test]
    fn an_extract_is_made_of_whole_sentences_within_its_tokens_and_grows_with_them() {
        let counter = Tiktoken::new(Encoding::O200kBase);
        let mut shown = 0;
        for tokens_max in [1, 4, 8, 16, 32, 64, 128] {
            let told = extract(TEXT, tokens_max, &counter);
            assert!(told.tokens <= tokens_max, "{tokens_max}: {told:?}");
            assert_eq!(told.tokens, counter.count(&told.text));
            let parts: Vec<&str> = told.spans.iter().map(|span| &TEXT[span.clone()]).collect();
            assert_eq!(parts.join(" "), told.text);
            assert!(told.spans.len() >= shown, "{tokens_max}: {told:?}");
            shown = told.spans.len();
        }
        let told = extract(TEXT, 24, &counter);
        assert!(told.text.contains("harbour") && told.text.contains("ferry"), "{told:?}");
        assert_eq!(extract(TEXT, 1_000, &counter).text, TEXT);
        assert_eq!(extract(" ", 10, &counter), Extract::default());
        let one = extract("word ".repeat(100).trim(), 10, &counter);
        assert_eq!((one.tokens, one.spans.len()), (10, 1), "{one:?}");
    }
}
