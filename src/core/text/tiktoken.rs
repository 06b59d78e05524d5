//! Token counts by tiktoken-rs; the rank tables are in the program, so counting needs no network.

use tiktoken_rs::CoreBPE;

use crate::memory::{Encoding, TokenCounter};

/// Longest stretch given to the encoder at once, in bytes. Its splitting pattern backtracks; far longer runs of one
/// kind of character would meet the pattern engine's step limit.
const PIECE_BYTES_MAX: usize = 16 * 1024;

/// Counts tokens in one encoding. Cheap to make and to copy: the table is loaded once per process, at the first count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tiktoken {
    encoding: Encoding,
}

impl Tiktoken {
    /// A counter for `encoding`.
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding }
    }

    /// Loads the rank table now (some 0.2 s), so that the first call need not wait for it.
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

/// Length of the next piece. A cut before a single blank between words changes no count; where a long text has none,
/// any white space and at last any character boundary is taken, and the count may be high by a token per piece.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_the_published_ones() {
        // Reference counts of OpenAI's own tiktoken for these texts.
        let table = [
            ("", 0, 0),
            ("hello world", 2, 2),
            ("tiktoken is great!", 6, 6),
            ("antidisestablishmentarianism", 6, 6),
            ("2 + 2 = 4", 7, 7),
        ];
        for (text, o200k, cl100k) in table {
            assert_eq!(
                Tiktoken::new(Encoding::O200kBase).count(text),
                o200k,
                "o200k_base of {text:?}"
            );
            assert_eq!(
                Tiktoken::new(Encoding::Cl100kBase).count(text),
                cl100k,
                "cl100k_base of {text:?}"
            );
        }
    }

    #[test]
    fn the_spelling_of_a_special_token_is_plain_text() {
        for &encoding in Encoding::ALL {
            let counter = Tiktoken::new(encoding);
            counter.warm();
            assert_eq!(counter.encoding(), encoding);
            assert!(counter.count("<|endoftext|>") > 3, "{encoding}");
        }
    }

    #[test]
    fn a_long_text_counts_like_its_encoding_in_one_go() {
        let text = "The tide turns at seven, and the harbour master wants 14 euros. ".repeat(2_000);
        for &encoding in Encoding::ALL {
            let counter = Tiktoken::new(encoding);
            assert!(text.len() > 7 * PIECE_BYTES_MAX);
            assert_eq!(
                counter.count(&text),
                counter.table().encode_ordinary(&text).len() as u64,
                "{encoding}"
            );
        }
    }

    #[test]
    fn runs_without_a_blank_are_counted_and_do_not_panic() {
        let counter = Tiktoken::default();
        for unit in ["a", "A", " ", "\n", "漢", "🦀", "é", "\u{0}", "7", " \t", "-"] {
            let text = unit.repeat(60_000 / unit.len());
            let tokens = counter.count(&format!("{text}x"));
            assert!(tokens > 0 && tokens <= text.len() as u64 + 1, "{unit:?}: {tokens}");
        }
    }
}
