//! Splits a document into chunks: by tokens, characters, sentences, topics, structure or code, or
//! into small chunks inside larger chunks.
//!
//! The chunks of a document have no gap between them, and no chunk exceeds the limit of tokens or
//! characters. A document is split between paragraphs, lines, sentences, words or graphemes where
//! possible. Only a grapheme that is too long is split between characters.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::{Level, headings_at_end};
use super::semantic;
use crate::error::{Error, Result};
use crate::limits::CHUNK_BYTES_MAX;
use crate::memory::TokenCounter;

/// Default, smallest and largest token limit of a chunk. Four chunks of the default size fit on a
/// page.
const SPLIT_TOKENS: (u64, u64, u64) = (128, 16, 2_048);
/// Default, smallest and largest limit of a chunk in characters, for the splitter that counts
/// characters. In any script, a chunk of the largest size has at most [`CHUNK_BYTES_MAX`] bytes.
const SPLIT_CHARS: (u64, u64, u64) = (512, 16, 8_192);
/// The maximum overlap of a chunk with the chunk before it is the chunk's size limit divided by
/// this number.
const SPLIT_OVERLAP_SHARE: u64 = 2;
/// Default ratio of the token limit of a parent chunk to the token limit of its child chunks.
const SPLIT_PARENTS: u64 = 4;

/// How a document is cut into chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Splitter {
    /// Where the document may be cut.
    #[serde(default)]
    pub by: By,
    /// Tokens of a chunk at most.
    #[serde(default = "usual_tokens")]
    #[schemars(range(min = 16, max = 2048))]
    pub tokens_max: u64,
    /// With `token` and `sentence`: tokens that a chunk repeats of the chunk before it, at most
    /// half of `tokens_max`.
    #[serde(default)]
    pub overlap_tokens: u64,
    /// With `character`: characters of a chunk at most; 512 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 16, max = 8192))]
    pub chars_max: Option<u64>,
    /// With `character`: characters that a chunk repeats of the chunk before it, at most half of
    /// `chars_max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_chars: Option<u64>,
    /// With `parent_child`: tokens of a parent at most; four times `tokens_max` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tokens_max: Option<u64>,
}

/// Where a document may be cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum By {
    /// Between words; each chunk is as long as the limit allows.
    Token,
    /// Between paragraphs; a paragraph that is too long is cut between lines, then sentences, then
    /// words.
    #[default]
    Recursive,
    /// Between sentences, as many as fit.
    Sentence,
    /// Small chunks are searched; the larger chunk around a hit is shown.
    ParentChild,
    /// After a number of characters, at any character.
    Character,
    /// Between sentences where the subject changes, as the server's embedder measures it.
    Semantic,
    /// Between functions, classes and blocks of a program, which are recognized by indentation.
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

/// The byte range of a chunk in its document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// First byte of the chunk.
    pub start: usize,
    /// First byte after the chunk.
    pub end: usize,
    /// Byte range of the larger chunk around this chunk, if the document is split by
    /// `parent_child`.
    pub parent: Option<Range<usize>>,
}

impl Splitter {
    /// Checks the limits of the splitter; an error names the wrong argument.
    pub fn checked(self) -> Result<Self> {
        let (_, least, most) = SPLIT_TOKENS;
        if !(least..=most).contains(&self.tokens_max) {
            return Err(Error::argument("splitter.tokens_max", format!("use {least} to {most}")));
        }
        let overlaps = matches!(self.by, By::Token | By::Sentence);
        if self.overlap_tokens > 0 && !overlaps {
            return Err(Error::argument(
                "splitter.overlap_tokens",
                "is allowed only with `token` and `sentence`",
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

    /// Returns the maximum number of characters of a chunk.
    fn chars(&self) -> u64 {
        self.chars_max.unwrap_or(SPLIT_CHARS.0)
    }

    /// Returns the maximum number of tokens of a parent chunk.
    fn parents(&self) -> u64 {
        let usual = (self.tokens_max * SPLIT_PARENTS).min(SPLIT_TOKENS.2);
        self.parent_tokens_max.unwrap_or(usual)
    }
}

/// Returns the chunks of a text, in order; an empty text has none. Only [`split_by_meaning`] splits
/// by topic; for `semantic`, this function splits between any sentences.
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

/// Splits a text where the similarity of neighbouring sentences drops. `vectors` contains one
/// vector for each sentence. A chunk that is still too long is split between sentences, or at finer
/// levels.
pub fn split_by_meaning(
    text: &str,
    sentences: &[Range<usize>],
    vectors: &[Vec<f64>],
    how: &Splitter,
    counter: &dyn TokenCounter,
) -> Vec<Cut> {
    let runs = semantic::runs(text, sentences, vectors, how.tokens_max, counter);
    let runs = Knife { text, tokens_max: how.tokens_max, counter }.with_headings(runs);
    again(text, &plain(runs), how, counter)
}

/// Splits chunks further, until `counter` counts at most `tokens_max` tokens in each chunk.
pub fn again(text: &str, cuts: &[Cut], how: &Splitter, counter: &dyn TokenCounter) -> Vec<Cut> {
    let knife = Knife { text, tokens_max: how.tokens_max, counter };
    let parts = cuts.iter().flat_map(|cut| knife.cut(cut.start..cut.end, Level::Sentence, 0));
    plain(parts.collect())
}

/// Splits a text by number of characters, between graphemes where possible. Each chunk repeats at
/// most `overlap` characters of the chunk before it.
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
        // The repeated text and the next unit (a grapheme) must fit into one chunk, and each chunk
        // must begin after the start of the chunk before it.
        let next = (from + 1..to)
            .find(|at| sums[to] - sums[*at] <= overlap && sums[to + 1] - sums[*at] <= chars_max);
        from = next.unwrap_or(to);
    }
    pieces
}

/// Returns the end (in bytes) and the length (in characters) of each unit. A unit is a grapheme, or
/// a single character of a grapheme that is too long.
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

/// Splits a text into pieces of at most `tokens_max` tokens.
struct Knife<'a> {
    text: &'a str,
    tokens_max: u64,
    counter: &'a dyn TokenCounter,
}

/// A chunk of at least this many tenths of the token limit counts as full.
const FULL_TENTHS: u64 = 9;
/// First estimate of the bytes per token (English text has about four and a half).
const BYTES_PER_TOKEN: usize = 4;

impl Knife<'_> {
    fn cut(&self, range: Range<usize>, level: Level, overlap: u64) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        self.cut_into(range, level, overlap, &mut pieces);
        let pieces = self.without_blanks(pieces);
        match (overlap, level) {
            (0, Level::Paragraph | Level::Sentence) => self.with_headings(pieces),
            _ => pieces,
        }
    }

    /// Moves the Markdown headings at the end of a chunk to the chunk that follows, which they
    /// describe. A chunk that is too long then is split between sentences.
    fn with_headings(&self, pieces: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let mut headed: Vec<Range<usize>> = Vec::with_capacity(pieces.len());
        let last = pieces.len().saturating_sub(1);
        let mut begin = None;
        for (at, piece) in pieces.into_iter().enumerate() {
            let piece = begin.take().unwrap_or(piece.start)..piece.end;
            let end = piece.start + headings_at_end(&self.text[piece.clone()]);
            let end = if at == last { piece.end } else { end };
            if end < piece.end {
                begin = Some(end);
            }
            if end > piece.start && self.fits(&(piece.start..end)) {
                headed.push(piece.start..end);
            } else {
                self.cut_into(piece.start..end, Level::Sentence, 0, &mut headed);
            }
        }
        self.without_blanks(headed)
    }

    fn fits(&self, range: &Range<usize>) -> bool {
        range.len() <= CHUNK_BYTES_MAX && self.tokens(range) <= self.tokens_max
    }

    fn tokens(&self, range: &Range<usize>) -> u64 {
        self.counter.count(&self.text[range.clone()])
    }

    /// Packs the units of a level into chunks. A unit that is too long for a chunk is split into
    /// units of the next finer level.
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
                        // A single character never exceeds the limit of a chunk.
                        None => pieces.push(unit),
                    }
                    from += 1;
                }
            }
        }
    }

    /// Returns the index of the last bound up to which the units fit into a chunk; `None` if not
    /// even one unit fits. Tries only a few lengths. Each length is estimated from the number of
    /// bytes per token of the previous try. The search ends when a chunk fits and is nearly full
    /// (`FULL_TENTHS`).
    fn longest(&self, bounds: &[usize], from: usize) -> Option<usize> {
        let start = bounds[from];
        let bytes_end = bounds.partition_point(|&at| at - start.min(at) <= CHUNK_BYTES_MAX);
        // The largest bound index at which the chunk is known to fit, and the smallest at which the
        // chunk is known to be too long.
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

    /// Returns the index of the bound at which the next chunk begins. The next chunk begins at the
    /// end of this chunk, or earlier. If it begins earlier, it repeats at most `overlap` tokens of
    /// this chunk.
    fn back(&self, bounds: &[usize], from: usize, to: usize, overlap: u64) -> usize {
        if overlap == 0 {
            return to;
        }
        let mut next = to;
        for at in (from + 1..to).rev() {
            let repeated = bounds[at]..bounds[to];
            // The repeated text and the next unit must fit into one chunk.
            if self.tokens(&repeated) > overlap || !self.fits(&(bounds[at]..bounds[to + 1])) {
                break;
            }
            next = at;
        }
        next
    }

    /// Joins each chunk that contains only white space to a neighbouring chunk that has room,
    /// because no search would find a chunk of white space.
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
