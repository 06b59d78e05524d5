//! The levels at which a text may be split: paragraphs, blocks of code, lines, sentences, words,
//! graphemes, characters.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

/// Number of indentation depths at which code is split into blocks; code at a greater depth is
/// split between lines.
const SPLIT_DEPTHS: u8 = 8;

/// A level of units at which a text is split. A unit of the level stays whole if it fits into a
/// chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// A paragraph, which ends after an empty line or before a line that begins with `#`.
    Paragraph,
    /// A block of code at this indentation depth or less, with the deeper lines that follow it.
    Block(u8),
    /// A line, including its line break.
    Line,
    /// A sentence, by the rules of Unicode (UAX #29).
    Sentence,
    /// A word with all characters up to the next word, such as spaces and punctuation.
    Word,
    /// A grapheme cluster: one character as a reader sees it.
    Grapheme,
    /// A Unicode code point.
    Character,
}

impl Level {
    /// Returns the next finer level, at which a unit that is too long is split.
    pub(super) fn finer(self) -> Option<Self> {
        match self {
            Self::Paragraph => Some(Self::Line),
            Self::Block(depth) if depth + 1 < SPLIT_DEPTHS => Some(Self::Block(depth + 1)),
            Self::Block(_) => Some(Self::Line),
            Self::Line => Some(Self::Sentence),
            Self::Sentence => Some(Self::Word),
            Self::Word => Some(Self::Grapheme),
            Self::Grapheme => Some(Self::Character),
            Self::Character => None,
        }
    }

    /// Returns the byte positions at which the units of `range` begin or end, in rising order,
    /// including the start and the end of `range`.
    pub(super) fn bounds(self, text: &str, range: &Range<usize>) -> Vec<usize> {
        let part = &text[range.clone()];
        let inner: Vec<usize> = match self {
            Self::Paragraph => paragraphs(part),
            Self::Block(depth) => blocks(part, usize::from(depth)),
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

/// Returns the start of each line that follows an empty line or is a Markdown heading (`#`). What
/// follows a heading belongs to the heading.
fn paragraphs(text: &str) -> Vec<usize> {
    let mut bounds = Vec::new();
    let mut at = 0;
    let (mut blank, mut headed) = (false, false);
    for line in text.split_inclusive('\n') {
        let empty = line.trim().is_empty();
        if !empty {
            if !headed && (blank || is_heading(line)) {
                bounds.push(at);
            }
            headed = is_heading(line);
        }
        blank = empty;
        at += line.len();
    }
    bounds
}

/// Whether a line is a Markdown heading.
fn is_heading(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    let marks = line.len() - text.len();
    (1..=HEADING_MARKS_MAX).contains(&marks) && text.starts_with(' ') && !text.trim().is_empty()
}

/// Maximum number of `#` before a Markdown heading (CommonMark 0.31).
const HEADING_MARKS_MAX: usize = 6;

/// Returns the position after the last line of a text that is neither a Markdown heading nor empty.
/// The text after this position are headings of what follows; there is none if the position is the
/// end of the text.
pub(super) fn headings_at_end(text: &str) -> usize {
    let mut at = text.len();
    let mut begin = text.len();
    for line in text.split_inclusive('\n').rev() {
        at -= line.len();
        if is_heading(line) {
            begin = at;
        } else if !line.trim().is_empty() {
            break;
        }
    }
    begin
}

/// Number of columns that a tab indents.
const TAB: usize = 4;
/// A line that begins with one of these texts closes or continues a block of code.
const CLOSING: [&str; 11] =
    ["}", ")", "]", "end", "else", "elif", "except", "finally", "catch", "esac", "fi"];
/// A line that begins with one of these texts is a comment, attribute or decorator. The line
/// belongs to the line after it.
const LEADING: [&str; 8] = ["//", "/*", "*", "# ", "#[", "#!", "@", "--"];

/// Returns the start of each line that begins a block of code. A block begins at the smallest
/// indentation of the text, or at one of the next `depth` indentations. A line that closes or
/// continues a block begins no other block. A block includes the comments, attributes or decorators
/// before its first line.
fn blocks(text: &str, depth: usize) -> Vec<usize> {
    let mut lines: Vec<(usize, usize, &str)> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if !line.trim().is_empty() {
            let blank = line.len() - line.trim_start().len();
            let columns = |c: char| if c == '\t' { TAB } else { 1 };
            lines.push((at, line[..blank].chars().map(columns).sum(), line.trim()));
        }
        at += line.len();
    }
    let mut indents: Vec<usize> = lines.iter().map(|(_, indent, _)| *indent).collect();
    indents.sort_unstable();
    indents.dedup();
    let Some(most) = indents.get(depth).or(indents.last()) else { return Vec::new() };
    let led = |before: Option<&(usize, usize, &str)>, indent: usize| {
        before.is_some_and(|(_, other, line)| *other == indent && begins(line, &LEADING))
    };
    let starts = lines.iter().enumerate().filter(|(index, (_, indent, line))| {
        let before = index.checked_sub(1).and_then(|index| lines.get(index));
        indent <= most && !begins(line, &CLOSING) && !led(before, *indent)
    });
    starts.map(|(_, (at, _, _))| *at).collect()
}

/// Returns whether a line begins with one of the texts in `what`. A text that is a word must also
/// be a whole word in the line.
fn begins(line: &str, what: &[&str]) -> bool {
    what.iter().any(|mark| {
        let word = mark.ends_with(char::is_alphabetic);
        let goes_on = |c: char| c.is_alphanumeric() || c == '_' || c == '(';
        line.strip_prefix(mark).is_some_and(|rest| !word || !rest.starts_with(goes_on))
    })
}

/// Returns the start of each word. A word begins after white space or, in scripts without spaces,
/// at a word boundary of Unicode.
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
            (Level::Paragraph, "a\n\n# b\n\n## c\n\nd\n\ne", "a//|# b//## c//d//|e"),
            (Level::Paragraph, "a\n#!/bin/sh\nb", "a/#!/bin/sh/b"),
            (
                Level::Block(0),
                "use a;\n\n// Adds.\n#[inline]\nfn add() {\n    if a {\n        b\n    }\n}\nfn sub() {\n}\n",
                "use a;//|// Adds./#[inline]/fn add() {/    if a {/        b/    }/}/|fn sub() {/}/",
            ),
            (
                Level::Block(1),
                "class A:\n    def b(self):\n        c\n\n    @d\n    def e(self):\n        if f:\n            g\n        else:\n            h\n",
                "class A:/|    def b(self):/        c//|    @d/    def e(self):/        if f:/            g/        else:/            h/",
            ),
            (Level::Block(7), "a\n\tb\n\tc", "a/|\tb/|\tc"),
            (Level::Block(0), "end_of = 1\nend\nfinder()", "end_of = 1/end/|finder()"),
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
