//! The secret of the servers of a database, with which they recognize entries that they wrote.
//!
//! A hash without a secret can be computed by every writer to the database. A checkpoint therefore
//! signs only entries with the right code.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

/// Number of bytes of a code in an entry. A guess is right once in 2^128 times.
const CODE_BYTES: usize = 16;

/// A secret that no row of the database contains.
pub struct Secret(hmac::Key);

impl Secret {
    /// Number of random bytes of a secret.
    pub const BYTES: usize = 32;

    /// Returns the secret with the given bytes.
    pub fn new(bytes: &[u8; Self::BYTES]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Returns the code of an entry with the given hash in hex, or of another text: the first bytes
    /// of HMAC-SHA-256 (RFC 2104) of the text, in base64 without padding. Other texts than hashes
    /// begin with words that say what they are.
    pub fn code(&self, text: &str) -> String {
        let code = hmac::sign(&self.0, text.as_bytes());
        URL_SAFE_NO_PAD.encode(&code.as_ref()[..CODE_BYTES])
    }

    /// Returns the code of an entry that an import brought along.
    pub fn imported_code(&self, hash: &str) -> String {
        self.code(&format!("imported {hash}"))
    }

    /// Returns whether a code is the one of the given text.
    pub fn holds(&self, text: &str, code: &str) -> bool {
        self.code(text) == code
    }

    /// Returns whether a code is the one of an entry that an import brought along.
    pub fn holds_imported(&self, hash: &str, code: &str) -> bool {
        self.imported_code(hash) == code
    }

    /// Returns whether a code is one of an entry with the given hash.
    pub fn holds_entry(&self, hash: &str, code: &str) -> bool {
        self.holds(hash, code) || self.holds_imported(hash, code)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_needs_the_secret() {
        let (ours, other) = (Secret::new(&[1; 32]), Secret::new(&[2; 32]));
        let code = ours.code("ab");
        assert!(ours.holds("ab", &code) && code.len() == 22);
        let imported = ours.imported_code("ab");
        assert!(ours.holds_imported("ab", &imported) && !ours.holds("ab", &imported));
        assert!(ours.holds_entry("ab", &imported) && ours.holds_entry("ab", &code));
        assert!(!ours.holds("ac", &code) && !other.holds("ab", &code) && !ours.holds("ab", ""));
    }
}
