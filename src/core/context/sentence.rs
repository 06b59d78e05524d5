//! Splits a text into sentences that can be understood alone: an abbreviation ends none.

use std::ops::Range;

use crate::chunk::sentences;
use crate::text::ends_sentence;

/// Returns the byte ranges of a text's sentences. A full stop of an abbreviation or an initial ends
/// none.
pub(super) fn whole_sentences(text: &str) -> Vec<Range<usize>> {
    let mut whole: Vec<Range<usize>> = Vec::new();
    for next in sentences(text) {
        let begin = text[next.clone()].split_whitespace().next();
        let goes_on = |last: &&mut Range<usize>| {
            let before = &text[(*last).clone()];
            let is_line_end = before.ends_with('\n');
            let word = before.split_whitespace().next_back().unwrap_or_default();
            !is_line_end && word.ends_with('.') && !ends_sentence(word, begin)
        };
        match whole.last_mut().filter(goes_on) {
            Some(last) => last.end = next.end,
            None => whole.push(next),
        }
    }
    whole
}

/// Returns the byte ranges of the sentences of each line of a text, without the white space around
/// them.
pub(super) fn sentences_of_lines(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let ranges = whole_sentences(line).into_iter();
        found.extend(ranges.map(|range| begin + range.start..begin + range.end));
        begin += line.len();
    }
    let trimmed = |range: Range<usize>| {
        let part = &text[range.clone()];
        let start = range.start + part.len() - part.trim_start().len();
        start..start + part.trim().len()
    };
    found.into_iter().map(trimmed).filter(|range| !range.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_and_initials_end_no_sentence_and_lines_do() {
        let text = "Ask Dr. Roe.  She lives\nhere. J. Doe is 4.5 m tall!\n\n";
        let parts: Vec<&str> =
            sentences_of_lines(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(parts, ["Ask Dr. Roe.", "She lives", "here.", "J. Doe is 4.5 m tall!"]);
        assert!(sentences_of_lines(" \n").is_empty());
    }
}
