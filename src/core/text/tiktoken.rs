//! Counts tokens with tiktoken-rs, whose tables are compiled into the program, so that counting
//! needs no network.

use tiktoken_rs::CoreBPE;

use crate::memory::{Encoding, TokenCounter};

/// Usual maximum length of the text for one call of the encoder, in bytes.
const PIECE_BYTES_MAX: usize = 16 * 1024;
/// Maximum length of the text for one call of the encoder, in bytes, if the text has no certain
/// boundary. With 1 MiB of spaces, the encoder's pattern exceeds the backtracking limit of the
/// regex engine; 256 KiB of one character take about 0.2 s.
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
        count_in_pieces(self.encoding, text, next)
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
        count_in_pieces(self.encoding, text, earlier_piece_bytes)
    }
}

fn table(encoding: Encoding) -> &'static CoreBPE {
    match encoding {
        Encoding::O200kBase => tiktoken_rs::o200k_base_singleton(),
        Encoding::Cl100kBase => tiktoken_rs::cl100k_base_singleton(),
    }
}

fn count_in_pieces(encoding: Encoding, text: &str, next: impl Fn(&str) -> usize) -> u64 {
    let table = table(encoding);
    let mut rest = text;
    let mut tokens = 0;
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(next(rest));
        tokens += table.encode_ordinary(piece).len() as u64;
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
                assert_eq!(table(encoding).encode_ordinary(role).len(), 1, "{encoding} {role}");
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_count_like_the_whole_wherever_they_are_cut(
            some in proptest::collection::vec(0..ALPHABET.len(), 1..120), usual in 4_usize..24,
        ) {
            let text: String = some.into_iter().map(|at| ALPHABET[at]).collect();
            for &encoding in Encoding::ALL {
                let whole = table(encoding).encode_ordinary(&text).len() as u64;
                let next = |rest: &str| piece_bytes(rest, usual, 1_000);
                prop_assert_eq!(count_in_pieces(encoding, &text, next), whole, "{:?}", text);
            }
        }
    }
}
