//! Counts tokens with tiktoken-rs, whose tables are compiled into the program, so that counting
//! needs no network.

use tiktoken_rs::CoreBPE;

use crate::memory::{Encoding, TokenCounter};

/// Maximum length of the text for one call of the encoder, in bytes. On a longer sequence of
/// characters of one class (letters, spaces), the encoder's pattern could exceed the backtracking
/// limit of the regex engine.
const PIECE_BYTES_MAX: usize = 16 * 1024;

/// Counts tokens in one encoding. A counter is cheap to create, because the encoding's table is
/// loaded once per process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tiktoken {
    encoding: Encoding,
}

impl Tiktoken {
    /// Returns a counter for `encoding`.
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding }
    }

    /// Loads the encoding's table now (about 0.2 s), so that the first count does not wait for it.
    pub fn warm(&self) {
        self.table();
    }

    fn table(&self) -> &'static CoreBPE {
        match self.encoding {
            Encoding::O200kBase => tiktoken_rs::o200k_base_singleton(),
            Encoding::Cl100kBase => tiktoken_rs::cl100k_base_singleton(),
        }
    }
}

impl TokenCounter for Tiktoken {
    fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn count(&self, text: &str) -> u64 {
        let table = self.table();
        let mut rest = text;
        let mut tokens = 0;
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(piece_bytes(rest));
            tokens += table.encode_ordinary(piece).len() as u64;
            rest = tail;
        }
        tokens
    }
}

/// Returns the length in bytes of the next piece of text for one call of the encoder. A split
/// before a space between words does not change the token count; any other split may add one token.
fn piece_bytes(text: &str) -> usize {
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
