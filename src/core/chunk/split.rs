//! Cuts a document into chunks: by tokens, characters, sentences or meaning, recursively by its structure or its code's, or small ones inside
//! of larger ones.
//!
//! Whatever the text, the pieces follow each other without a gap, so every character belongs to one; each is cut between characters and,
//! wherever one fits, between graphemes, words, sentences, lines and paragraphs; none is above its limit.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::Level;
use super::semantic;
use crate::error::{Error, Result};
use crate::limits::{
    CHUNK_BYTES_MAX, SPLIT_CHARS, SPLIT_OVERLAP_SHARE, SPLIT_PARENTS, SPLIT_TOKENS,
};
use crate::memory::TokenCounter;

/// How a document is cut into chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Splitter {
    /// Where it may be cut.
    #[serde(default)]
    pub by: By,
    /// Most tokens of a chunk.
    #[serde(default = "usual_tokens")]
    #[schemars(range(min = 16, max = 2048))]
    pub tokens_max: u64,
    /// Tokens that a chunk repeats of the one before, with `token` and `sentence`; at most half of `tokens_max`.
    #[serde(default)]
    pub overlap_tokens: u64,
    /// Most characters of a chunk, with `character`, which counts no tokens; 512 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 16, max = 8192))]
    pub chars_max: Option<u64>,
    /// Characters that a chunk repeats of the one before, with `character`; at most half of `chars_max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_chars: Option<u64>,
    /// Most tokens of a parent, with `parent_child`; four times `tokens_max` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tokens_max: Option<u64>,
}

/// Where a document may be cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum By {
    /// Between words, as full as the limit allows.
    Token,
    /// Between paragraphs; where one is too long between its lines, then sentences, then words.
    #[default]
    Recursive,
    /// Between sentences, as many as fit.
    Sentence,
    /// Small chunks are searched, the larger one around them is shown.
    ParentChild,
    /// After so many characters, whatever they are.
    Character,
    /// Between sentences where what they are about changes, told by the server's embedder.
    Semantic,
    /// Between functions, classes and blocks of a program, told by its indentation.
    Code,
}

fn usual_tokens() -> u64 {
    SPLIT_TOKENS.0
}

impl Default for Splitter {
    fn default() -> Self {
        let by = By::default();
        Self {
            by,
            tokens_max: usual_tokens(),
            overlap_tokens: 0,
            chars_max: None,
            overlap_chars: None,
            parent_tokens_max: None,
        }
    }
}

/// A chunk's place in its document, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// First byte.
    pub start: usize,
    /// First byte behind it.
    pub end: usize,
    /// The larger chunk around it, with `parent_child`.
    pub parent: Option<Range<usize>>,
}

impl Splitter {
    /// The same, with sound limits; a fault names the argument.
    pub fn checked(self) -> Result<Self> {
        let (_, least, most) = SPLIT_TOKENS;
        if !(least..=most).contains(&self.tokens_max) {
            return Err(Error::argument("splitter.tokens_max", format!("use {least} to {most}")));
        }
        let overlaps = matches!(self.by, By::Token | By::Sentence);
        if self.overlap_tokens > 0 && !overlaps {
            return Err(Error::argument(
                "splitter.overlap_tokens",
                "goes with `token` and `sentence` only",
            ));
        }
        if self.overlap_tokens > self.tokens_max / SPLIT_OVERLAP_SHARE {
            return Err(Error::argument("splitter.overlap_tokens", "at most half of tokens_max"));
        }
        match (self.by, self.parent_tokens_max) {
            (By::ParentChild, Some(parents)) if parents < self.tokens_max || parents > most => Err(
                Error::argument("splitter.parent_tokens_max", format!("use tokens_max to {most}")),
            ),
            (By::ParentChild, _) | (_, None) => self.checked_chars(),
            (_, Some(_)) => {
                Err(Error::argument("splitter.parent_tokens_max", "goes with `parent_child` only"))
            }
        }
    }

    fn checked_chars(self) -> Result<Self> {
        let given = [
            ("splitter.chars_max", self.chars_max),
            ("splitter.overlap_chars", self.overlap_chars),
        ];
        if let Some((field, _)) = given.iter().find(|(_, given)| given.is_some())
            && self.by != By::Character
        {
            return Err(Error::argument(field, "goes with `character` only"));
        }
        let (_, least, most) = SPLIT_CHARS;
        if !(least..=most).contains(&self.chars()) {
            return Err(Error::argument("splitter.chars_max", format!("use {least} to {most}")));
        }
        if self.overlap_chars.unwrap_or(0) > self.chars() / SPLIT_OVERLAP_SHARE {
            return Err(Error::argument("splitter.overlap_chars", "at most half of chars_max"));
        }
        Ok(self)
    }

    /// Most characters of a chunk.
    fn chars(&self) -> u64 {
        self.chars_max.unwrap_or(SPLIT_CHARS.0)
    }

    /// Most tokens of a parent.
    fn parents(&self) -> u64 {
        let usual = (self.tokens_max * SPLIT_PARENTS).min(SPLIT_TOKENS.2);
        self.parent_tokens_max.unwrap_or(usual)
    }
}

/// The chunks of a text, in order; none of an empty one. Together they are the whole text. By meaning it is cut by [`split_by_meaning`]; without
/// vectors of its sentences it is cut between any of them.
pub fn split(text: &str, how: &Splitter, counter: &dyn TokenCounter) -> Vec<Cut> {
    let knife = |tokens_max| Knife { text, tokens_max, counter };
    let whole = 0..text.len();
    match how.by {
        By::Token => plain(knife(how.tokens_max).cut(whole, Level::Word, how.overlap_tokens)),
        By::Sentence | By::Semantic => {
            plain(knife(how.tokens_max).cut(whole, Level::Sentence, how.overlap_tokens))
        }
        By::Code => plain(knife(how.tokens_max).cut(whole, Level::Block(0), 0)),
        By::Character => plain(by_characters(text, how.chars(), how.overlap_chars.unwrap_or(0))),
        By::Recursive => plain(knife(how.tokens_max).cut(whole, Level::Paragraph, 0)),
        By::ParentChild => {
            let mut cuts = Vec::new();
            for parent in knife(how.parents()).cut(whole, Level::Paragraph, 0) {
                for child in knife(how.tokens_max).cut(parent.clone(), Level::Sentence, 0) {
                    let parent = Some(parent.clone());
                    cuts.push(Cut { start: child.start, end: child.end, parent });
                }
            }
            cuts
        }
    }
}

fn plain(ranges: Vec<Range<usize>>) -> Vec<Cut> {
    ranges.into_iter().map(|r| Cut { start: r.start, end: r.end, parent: None }).collect()
}

/// The chunks of a text whose sentences have these vectors: cut where likeness drops; what is too long even so is cut like sentences.
pub fn split_by_meaning(
    text: &str,
    sentences: &[Range<usize>],
    vectors: &[Vec<f64>],
    how: &Splitter,
    counter: &dyn TokenCounter,
) -> Vec<Cut> {
    let runs = semantic::runs(text, sentences, vectors, how.tokens_max, counter);
    again(text, &plain(runs), how, counter)
}

/// The same chunks, none above the limit as this counter counts.
pub fn again(text: &str, cuts: &[Cut], how: &Splitter, counter: &dyn TokenCounter) -> Vec<Cut> {
    let knife = Knife { text, tokens_max: how.tokens_max, counter };
    let parts = cuts.iter().flat_map(|cut| knife.cut(cut.start..cut.end, Level::Sentence, 0));
    plain(parts.collect())
}

/// Pieces of so many characters, whole graphemes where one is no longer than a piece; each repeats at most so many of the one before.
fn by_characters(text: &str, chars_max: u64, overlap: u64) -> Vec<Range<usize>> {
    let units = units(text, chars_max);
    let sums: Vec<u64> = std::iter::once(0)
        .chain(units.iter().scan(0, |sum, (_, chars)| {
            *sum += chars;
            Some(*sum)
        }))
        .collect();
    let place = |unit: usize| if unit == 0 { 0 } else { units[unit - 1].0 };
    let mut pieces = Vec::new();
    let mut from = 0;
    while from < units.len() {
        let to = sums.partition_point(|sum| *sum <= sums[from] + chars_max) - 1;
        pieces.push(place(from)..place(to));
        if to == units.len() {
            break;
        }
        // What comes behind must fit beside what is repeated, and each piece begins behind the one before.
        let next = (from + 1..to)
            .find(|at| sums[to] - sums[*at] <= overlap && sums[to + 1] - sums[*at] <= chars_max);
        from = next.unwrap_or(to);
    }
    pieces
}

/// End and length in characters of what is not parted: graphemes, and of those that are too long characters.
fn units(text: &str, chars_max: u64) -> Vec<(usize, u64)> {
    let whole = 0..text.len();
    let mut units = Vec::new();
    for pair in Level::Grapheme.bounds(text, &whole).windows(2) {
        let part = &text[pair[0]..pair[1]];
        let chars = part.chars().count() as u64;
        if chars <= chars_max {
            units.push((pair[1], chars));
        } else {
            units.extend(part.char_indices().map(|(at, c)| (pair[0] + at + c.len_utf8(), 1)));
        }
    }
    units.retain(|(_, chars)| *chars > 0);
    units
}

/// Cuts one text under one limit.
struct Knife<'a> {
    text: &'a str,
    tokens_max: u64,
    counter: &'a dyn TokenCounter,
}

/// Share of the limit, in tenths, from which on a chunk counts as full and is not tried any larger.
const FULL_TENTHS: u64 = 9;
/// Bytes of a token to begin with (English has some four and a half); corrected by what is counted.
const BYTES_PER_TOKEN: usize = 4;

impl Knife<'_> {
    fn cut(&self, range: Range<usize>, level: Level, overlap: u64) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        self.cut_into(range, level, overlap, &mut pieces);
        self.without_blanks(pieces)
    }

    fn fits(&self, range: &Range<usize>) -> bool {
        range.len() <= CHUNK_BYTES_MAX && self.tokens(range) <= self.tokens_max
    }

    fn tokens(&self, range: &Range<usize>) -> u64 {
        self.counter.count(&self.text[range.clone()])
    }

    /// Packs the units of a level; a unit that is too long itself is cut by the next finer level.
    fn cut_into(
        &self,
        range: Range<usize>,
        level: Level,
        overlap: u64,
        pieces: &mut Vec<Range<usize>>,
    ) {
        if range.is_empty() {
            return;
        }
        let bounds = level.bounds(self.text, &range);
        let mut from = 0;
        while from + 1 < bounds.len() {
            match self.longest(&bounds, from) {
                Some(to) => {
                    pieces.push(bounds[from]..bounds[to]);
                    from = if to + 1 == bounds.len() {
                        to
                    } else {
                        self.back(&bounds, from, to, overlap)
                    };
                }
                None => {
                    let unit = bounds[from]..bounds[from + 1];
                    match level.finer() {
                        Some(finer) => self.cut_into(unit, finer, overlap, pieces),
                        // One character: there is nothing smaller, and it is below every limit.
                        None => pieces.push(unit),
                    }
                    from += 1;
                }
            }
        }
    }

    /// The farthest bound up to which the units from `from` on fit; none if not even one does. Few lengths are tried: each is guessed from
    /// how many bytes a token had so far.
    fn longest(&self, bounds: &[usize], from: usize) -> Option<usize> {
        let start = bounds[from];
        let bytes_end = bounds.partition_point(|&at| at - start.min(at) <= CHUNK_BYTES_MAX);
        // The first length known to be too long, and the longest known to fit.
        let (mut short, mut long) = (None, bytes_end.max(from + 1));
        let limit = usize::try_from(self.tokens_max).unwrap_or(usize::MAX);
        let mut guess = start + limit.saturating_mul(BYTES_PER_TOKEN);
        loop {
            let low = short.map_or(from + 1, |fits| fits + 1);
            if low >= long {
                return short;
            }
            let at = bounds.partition_point(|&bound| bound <= guess).saturating_sub(1);
            let at = at.clamp(low, long - 1);
            let range = start..bounds[at];
            let tokens = self.tokens(&range).max(1);
            if tokens <= self.tokens_max {
                short = Some(at);
                if tokens * 10 >= self.tokens_max * FULL_TENTHS {
                    return short;
                }
            } else {
                long = at;
            }
            let scaled = range.len() as u128 * u128::from(self.tokens_max) / u128::from(tokens);
            guess = start + usize::try_from(scaled).unwrap_or(usize::MAX / 2);
        }
    }

    /// Where the next piece begins: at the end of this one, or so much before it that it repeats at most `overlap` tokens.
    fn back(&self, bounds: &[usize], from: usize, to: usize, overlap: u64) -> usize {
        if overlap == 0 {
            return to;
        }
        let mut next = to;
        for at in (from + 1..to).rev() {
            let repeated = bounds[at]..bounds[to];
            // What comes behind must fit beside what is repeated.
            if self.tokens(&repeated) > overlap || !self.fits(&(bounds[at]..bounds[to + 1])) {
                break;
            }
            next = at;
        }
        next
    }

    /// A piece of white space alone would be found by nobody: it goes to the piece before, or behind, where there is room.
    fn without_blanks(&self, pieces: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let blank = |range: &Range<usize>| self.text[range.clone()].trim().is_empty();
        let mut kept: Vec<Range<usize>> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            if let Some(last) = kept.last_mut()
                && (blank(&piece) || blank(last))
                && last.end >= piece.start
                && self.fits(&(last.start..piece.end))
            {
                last.end = piece.end;
            } else {
                kept.push(piece);
            }
        }
        kept
    }
}
