//! Counts the tokens of OpenAI's encodings, whose tables are compiled into the program, so that
//! counting needs no network. The counts are those of tiktoken-rs, whose own tables take ten times
//! as much memory; they are only loaded for prompts of earlier versions, and by tests.

use std::sync::LazyLock;

use regex::Regex;
use tiktoken_rs::CoreBPE;

use super::vocabulary::Vocabulary;
use crate::memory::{Encoding, TokenCounter};

/// Usual maximum length of the text for one call of the encoder, in bytes.
const PIECE_BYTES_MAX: usize = 16 * 1024;
/// Maximum length of the text for one call of the encoder, in bytes, if the text has no certain
/// boundary. The counts of recorded prompts depend on it.
const RUN_BYTES_MAX: usize = 256 * 1024;

/// Roles of messages, which are one token in both encodings. Each message has one, so it is not
/// encoded again and again.
const ROLES: [&str; 4] = ["user", "assistant", "system", "tool"];

/// Counts tokens in one encoding. A counter is cheap to create, because the encoding's table is
/// loaded once per process.
///
/// Counts are exact, unless more than 256 KiB of a text are a run of letters, of punctuation or of
/// blanks; such a run may count one or two tokens more for each further 256 KiB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tiktoken {
    encoding: Encoding,
}

impl Tiktoken {
    /// Returns a counter for `encoding`.
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding }
    }
}

impl TokenCounter for Tiktoken {
    fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn count(&self, text: &str) -> u64 {
        if ROLES.contains(&text) {
            return 1;
        }
        let next = |rest: &str| piece_bytes(rest, PIECE_BYTES_MAX, RUN_BYTES_MAX);
        let table = table(self.encoding);
        sum_of_pieces(text, next, |piece| table.count(piece))
    }
}

/// Counts tokens as earlier versions of the program did, only to replay the prompts that they
/// recorded. Texts over 16 KiB without a blank between words may count some tokens more.
#[derive(Clone, Copy, Debug, Default)]
pub struct EarlierTiktoken {
    encoding: Encoding,
}

impl EarlierTiktoken {
    /// Returns a counter for `encoding`.
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding }
    }
}

impl TokenCounter for EarlierTiktoken {
    fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn count(&self, text: &str) -> u64 {
        let table = published(self.encoding);
        let count = |piece: &str| table.encode_ordinary(piece).len() as u64;
        sum_of_pieces(text, earlier_piece_bytes, count)
    }
}

/// How an encoding splits a text into pieces, and the tokens of the pieces.
struct Table {
    /// Matches the first piece of a text, unless it is of blanks only.
    piece: Regex,
    vocabulary: Vocabulary,
}

/// Patterns of a text's first piece, from OpenAI's tiktoken (`openai_public.py`): words, up to
/// three digits, punctuation, and blanks to a line end. Other blanks are a piece by [`blanks`].
const O200K_PIECES: &str = concat!(
    r"^(?:[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+)",
);
const CL100K_PIECES: &str = concat!(
    r"^(?:'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n]+)",
);

impl Table {
    fn of(pieces: &str, file: &'static [u8]) -> Self {
        let piece = Regex::new(pieces).expect("the pattern is a constant");
        Self { piece, vocabulary: Vocabulary::read(file) }
    }

    fn count(&self, text: &str) -> u64 {
        let (mut rest, mut tokens) = (text, 0);
        while !rest.is_empty() {
            let end = self.piece.find(rest).map_or_else(|| blanks(rest), |found| found.end());
            let (piece, tail) = rest.split_at(rest.ceil_char_boundary(end.max(1)));
            tokens += self.vocabulary.count(piece.as_bytes());
            rest = tail;
        }
        tokens
    }
}

/// Returns the length of the piece of blanks with which a text begins: all of them at the end of
/// the text, and otherwise all but the last one, which belongs to the next piece.
fn blanks(text: &str) -> usize {
    let after = text.trim_start();
    let run = &text[..text.len() - after.len()];
    match run.char_indices().next_back() {
        Some((last, _)) if last > 0 && !after.is_empty() => last,
        _ => run.len(),
    }
}

fn table(encoding: Encoding) -> &'static Table {
    static O200K: LazyLock<Table> =
        LazyLock::new(|| Table::of(O200K_PIECES, include_bytes!("o200k_base.tokens")));
    static CL100K: LazyLock<Table> =
        LazyLock::new(|| Table::of(CL100K_PIECES, include_bytes!("cl100k_base.tokens")));
    match encoding {
        Encoding::O200kBase => &O200K,
        Encoding::Cl100kBase => &CL100K,
    }
}

/// Returns the tables of tiktoken-rs.
fn published(encoding: Encoding) -> &'static CoreBPE {
    match encoding {
        Encoding::O200kBase => tiktoken_rs::o200k_base_singleton(),
        Encoding::Cl100kBase => tiktoken_rs::cl100k_base_singleton(),
    }
}

/// Adds up the tokens of the pieces of a text; `next` returns the length of the next piece.
fn sum_of_pieces(text: &str, next: impl Fn(&str) -> usize, count: impl Fn(&str) -> u64) -> u64 {
    let mut rest = text;
    let mut tokens = 0;
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(next(rest));
        tokens += count(piece);
        rest = tail;
    }
    tokens
}

/// Returns the length in bytes of the next piece of text for one call of the encoder: up to the
/// last certain boundary within `usual` bytes, else up to the first one within `longest` bytes.
fn piece_bytes(text: &str, usual: usize, longest: usize) -> usize {
    if text.len() <= usual {
        return text.len();
    }
    let (usual, longest) = (text.floor_char_boundary(usual), text.floor_char_boundary(longest));
    let before = |at: usize| text[..at].chars().next_back();
    let certain = |(at, after): &(usize, char)| {
        before(*at).is_some_and(|before| is_certain_boundary(before, *after))
    };
    let last = text[..usual].char_indices().rev().find(certain);
    let found = last.or_else(|| {
        let beyond = text[usual..longest].char_indices();
        beyond.map(|(at, after)| (usual + at, after)).find(certain)
    });
    found.map_or(longest.max(1), |(at, _)| at)
}

/// Returns whether both encodings always begin a token between two characters, whatever the text
/// before and after them is, so that both parts of the text have the same tokens as the whole. The
/// character before the boundary is never a blank, because the tokens of blanks depend on what
/// follows them.
fn is_certain_boundary(before: char, after: char) -> bool {
    match after {
        // Punctuation takes in the line ends that follow it.
        '\r' | '\n' => before.is_ascii_alphanumeric(),
        _ if before.is_whitespace() => false,
        _ if after.is_whitespace() => true,
        // Letters take in endings such as 's.
        '\'' => before.is_ascii_digit(),
        // Digits form groups of three from the beginning of their run.
        '0'..='9' => !before.is_numeric(),
        _ if !after.is_ascii() => false,
        _ => {
            before.is_ascii_digit()
                || (before.is_ascii_alphabetic() && !after.is_ascii_alphabetic())
        }
    }
}

/// Returns the length in bytes of the next piece of text, as earlier versions cut it.
fn earlier_piece_bytes(text: &str) -> usize {
    if text.len() <= PIECE_BYTES_MAX {
        return text.len();
    }
    let end = text.floor_char_boundary(PIECE_BYTES_MAX);
    let head = &text[..end];
    let bytes = head.as_bytes();
    let between_words = |&at: &usize| {
        bytes[at] == b' '
            && bytes[at - 1].is_ascii_alphanumeric()
            && bytes[at + 1].is_ascii_alphabetic()
    };
    let clean = (1..end - 1).rev().find(between_words);
    clean.or_else(|| head.rfind(char::is_whitespace)).filter(|&at| at > 0).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Characters of every class that the encodings' patterns distinguish.
    const ALPHABET: [char; 24] = [
        'a', 'b', 's', 'A', 'B', '7', '0', '²', '\'', '-', '/', '(', ' ', '\t', '\n', '\r',
        '\u{3000}', 'é', '漢', 'ǅ', '\u{301}', 'Ⓐ', '。', '🦀',
    ];

    #[test]
    fn each_role_is_one_token() {
        for &encoding in Encoding::ALL {
            for role in ROLES {
                assert_eq!(table(encoding).count(role), 1, "{encoding} {role}");
            }
        }
    }

    proptest! {
        #[test]
        fn long_words_count_as_published(
            word in "[aeinorst]{90,110}|[a-z]{97,400}|[a-zäß漢字]{60,300}",
        ) {
            for &encoding in Encoding::ALL {
                let whole = published(encoding).encode_ordinary(&word).len() as u64;
                prop_assert_eq!(table(encoding).count(&word), whole, "{:?}", word);
            }
        }

        #[test]
        fn pieces_count_like_the_whole_wherever_they_are_cut(
            some in proptest::collection::vec(0..ALPHABET.len(), 1..120), usual in 4_usize..24,
        ) {
            let text: String = some.into_iter().map(|at| ALPHABET[at]).collect();
            for &encoding in Encoding::ALL {
                let whole = published(encoding).encode_ordinary(&text).len() as u64;
                let next = |rest: &str| piece_bytes(rest, usual, 1_000);
                let count = |piece: &str| table(encoding).count(piece);
                prop_assert_eq!(sum_of_pieces(&text, next, count), whole, "{:?}", text);
            }
        }
    }
}
