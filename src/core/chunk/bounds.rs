//! Where a text may be cut: between paragraphs or blocks of code, lines, sentences, words, graphemes, and at last characters.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::limits::SPLIT_DEPTHS;

/// What stays whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Up to an empty line, or up to a line that begins like a heading.
    Paragraph,
    /// What is indented no further than so many depths of a part of a program, with what is indented below it.
    Block(u8),
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
            Self::Block(depth) if depth + 1 < SPLIT_DEPTHS => Some(Self::Block(depth + 1)),
            Self::Block(_) => Some(Self::Line),
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

/// Columns that a tab stands for.
const TAB: usize = 4;
/// What a line begins with that closes or goes on with the block before it.
const CLOSING: [&str; 11] =
    ["}", ")", "]", "end", "else", "elif", "except", "finally", "catch", "esac", "fi"];
/// What a line begins with that belongs to the line behind it: remarks, attributes, decorators.
const LEADING: [&str; 8] = ["//", "/*", "*", "# ", "#[", "#!", "@", "--"];

/// Before each line of the outermost depths of indentation that begins something: no line that closes a block, and none behind its own
/// remarks, attributes or decorators.
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

/// Whether a line begins with one of these, as a whole word where it is one.
fn begins(line: &str, what: &[&str]) -> bool {
    what.iter().any(|mark| {
        let word = mark.ends_with(char::is_alphabetic);
        let goes_on = |c: char| c.is_alphanumeric() || c == '_' || c == '(';
        line.strip_prefix(mark).is_some_and(|rest| !word || !rest.starts_with(goes_on))
    })
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
