//! Splits a text into sentences that can be understood alone: a title ends none.

use std::ops::Range;

use crate::chunk::sentences;

/// Titles with a point.
const TITLES: [&str; 8] = ["Dr", "Jr", "Mr", "Mrs", "Ms", "Prof", "Sr", "St"];

/// Returns the byte ranges of a text's sentences, without the white space around them. A title or
/// an initial, as in "Dr. Roe", ends no sentence, but the end of a line does.
pub(super) fn whole_sentences(text: &str) -> Vec<Range<usize>> {
    let mut whole: Vec<Range<usize>> = Vec::new();
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let first = whole.len();
        for range in sentences(line) {
            let range = begin + range.start..begin + range.end;
            match whole[first..].last_mut().filter(|last| ends_in_title(&text[(*last).clone()])) {
                Some(last) => last.end = range.end,
                None => whole.push(range),
            }
        }
        begin += line.len();
    }
    let trimmed = |range: Range<usize>| {
        let part = &text[range.clone()];
        let start = range.start + part.len() - part.trim_start().len();
        start..start + part.trim().len()
    };
    whole.into_iter().map(trimmed).filter(|range| !range.is_empty()).collect()
}

fn ends_in_title(sentence: &str) -> bool {
    let last = sentence.split_whitespace().next_back().and_then(|word| word.strip_suffix('.'));
    last.is_some_and(|word| {
        let is_initial = word.chars().count() == 1 && word.starts_with(char::is_uppercase);
        is_initial || TITLES.contains(&word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_and_initials_end_no_sentence_and_lines_do() {
        let text = "Ask Dr. Roe.  She lives\nhere. J. Doe is 4.5 m tall!\n\n";
        let parts: Vec<&str> =
            whole_sentences(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(parts, ["Ask Dr. Roe.", "She lives", "here.", "J. Doe is 4.5 m tall!"]);
        assert!(whole_sentences(" \n").is_empty());
    }
}
