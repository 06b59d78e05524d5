//! Mutates inputs at random, with a fixed seed so that runs can be repeated; `FUZZ_ITERATIONS` sets
//! another number of rounds, and `FUZZ_SEED` another seed.

use crate::random::Random;

/// Pieces that the mutator inserts because parsers often fail on them.
const PIECES: [&[u8]; 40] = [
    b"\"",
    b"'",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b",",
    b":",
    b"..",
    b"--",
    b"/*",
    b"null",
    b"true",
    b"-0",
    b"1e308",
    b"9223372036854775808",
    b"18446744073709551616",
    b"0x",
    b"0.1e",
    b"@",
    b"@@c",
    b"FOR x IN ",
    b"RETURN ",
    b"FILTER ",
    b"LET x = ",
    b"[* ",
    b"?:",
    b" IN ",
    b"\xff",
    b"\xc3",
    b"\0",
    b"%2F",
    b"\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
];
/// Maximum length of an input in bytes.
const BYTES_MAX: usize = 4_000;
/// Default number of mutated inputs in each test.
const ITERATIONS: u64 = 1_500;

#[allow(clippy::disallowed_methods, reason = "a test reads its own settings from the environment")]
fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

/// Splits the text of a corpus into its entries, which lines of `====` separate.
pub(crate) fn corpus(text: &str) -> Vec<Vec<u8>> {
    text.split("\n====\n").map(|entry| entry.trim_end().as_bytes().to_vec()).collect()
}

/// Calls `look` with each corpus entry and then with each mutated input; prints a mutated input for
/// which `look` panics.
pub(crate) fn bend(corpus: &[Vec<u8>], mut look: impl FnMut(&[u8])) {
    let mut mutator = Mutator::new(asked("FUZZ_SEED", 1));
    for entry in corpus {
        look(entry);
    }
    for round in 0..asked("FUZZ_ITERATIONS", ITERATIONS) {
        let input = mutator.bend(corpus);
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| look(&input)));
        if let Err(panic) = looked {
            eprintln!("round {round}: {:?}", String::from_utf8_lossy(&input));
            std::panic::resume_unwind(panic);
        }
    }
}

/// A mutator of inputs with its own random number generator.
struct Mutator {
    random: Random,
}

impl Mutator {
    fn new(seed: u64) -> Self {
        Self { random: Random::new(seed) }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }

    /// Returns a random corpus entry with one to four changes.
    fn bend(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let chosen = self.below(corpus.len());
        let mut bytes = corpus[chosen].clone();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, corpus);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let end = (at + 1 + self.below(24)).min(bytes.len());
        match self.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = self.below(256) as u8,
            2 if at < end => drop(bytes.drain(at..end)),
            3 if at < end => {
                // Repeats a piece of the input, sometimes many times, which causes deep nesting and
                // long repetitions.
                let piece = bytes[at..end].repeat(1 + self.below(60));
                bytes.splice(at..at, piece);
            }
            4 => bytes.truncate(at),
            5 => {
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len() + 1);
                bytes.splice(at.., other[from..].iter().copied());
            }
            _ => {
                let piece = PIECES[self.below(PIECES.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
}
