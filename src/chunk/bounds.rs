//! Where a text may be cut: between paragraphs, lines, sentences, words, graphemes, and at last characters.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

/// What stays whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Up to an empty line, or up to a line that begins like a heading.
    Paragraph,
    /// Up to a line break.
    Line,
    /// By the rules of Unicode (UAX #29).
    Sentence,
    /// Up to the next word; what is no letter stays with the word before it.
    Word,
    /// What a reader takes for one character.
    Grapheme,
    /// A code point.
    Character,
}

impl Level {
    /// What is cut when a unit of this level is too long.
    pub(super) fn finer(self) -> Option<Self> {
        match self {
            Self::Paragraph => Some(Self::Line),
            Self::Line => Some(Self::Sentence),
            Self::Sentence => Some(Self::Word),
            Self::Word => Some(Self::Grapheme),
            Self::Grapheme => Some(Self::Character),
            Self::Character => None,
        }
    }

    /// The bounds of the units of `range`, its own ends included, rising.
    pub(super) fn bounds(self, text: &str, range: &Range<usize>) -> Vec<usize> {
        let part = &text[range.clone()];
        let inner: Vec<usize> = match self {
            Self::Paragraph => paragraphs(part),
            Self::Line => part.match_indices('\n').map(|(at, _)| at + 1).collect(),
            Self::Sentence => ends(part.split_sentence_bounds()),
            Self::Word => words(part),
            Self::Grapheme => ends(part.graphemes(true)),
            Self::Character => part.char_indices().map(|(at, _)| at).collect(),
        };
        let mut bounds = vec![range.start];
        let inside = |at: &usize| *at > 0 && *at < part.len();
        bounds.extend(inner.into_iter().filter(inside).map(|at| range.start + at));
        bounds.push(range.end);
        bounds
    }
}

fn ends<'a>(parts: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let mut at = 0;
    parts
        .map(|part| {
            at += part.len();
            at
        })
        .collect()
}

/// Behind empty lines, and before headings (`#`, as Markdown has them).
fn paragraphs(text: &str) -> Vec<usize> {
    let mut bounds = Vec::new();
    let mut at = 0;
    let mut blank = false;
    for line in text.split_inclusive('\n') {
        let empty = line.trim().is_empty();
        if !empty && (blank || line.starts_with('#')) {
            bounds.push(at);
        }
        blank = empty;
        at += line.len();
    }
    bounds
}

/// Before each word that is not glued to what stands before it: behind white space, or between signs of scripts without blanks.
fn words(text: &str) -> Vec<usize> {
    let mut bounds = Vec::new();
    let mut after_blank = false;
    for (at, segment) in text.split_word_bound_indices() {
        let blank = segment.chars().all(char::is_whitespace);
        let word = segment.starts_with(char::is_alphanumeric);
        if !blank && (after_blank || word) {
            bounds.push(at);
        }
        after_blank = blank;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(level: Level, text: &str) -> String {
        let bounds = level.bounds(text, &(0..text.len()));
        let parts: Vec<&str> = bounds.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        parts.join("|").replace('\n', "/")
    }

    #[test]
    fn each_level_has_its_units_and_loses_nothing() {
        for (level, text, wanted) in [
            (Level::Paragraph, "a\nb\n\nc\n# d\ne", "a/b//|c/|# d/e"),
            (Level::Paragraph, "\n\na", "//|a"),
            (Level::Line, "a\nb\n\nc", "a/|b/|/|c"),
            (
                Level::Sentence,
                "v3.12 is out. It sails! 潮は七時に。満ちる。",
                "v3.12 is out. |It sails! |潮は七時に。|満ちる。",
            ),
            (Level::Word, "The (old) boat, 3.5 m", "The |(|old) |boat, |3.5 |m"),
            (Level::Word, "潮は七", "潮|は|七"),
            (Level::Grapheme, "👩‍👩‍👧é!", "👩‍👩‍👧|é|!"),
            (Level::Character, "ab", "a|b"),
            (Level::Word, "", ""),
        ] {
            assert_eq!(parts(level, text), wanted, "{level:?}");
        }
    }
}
