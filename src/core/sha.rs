//! SHA-256 of ring, whose assembly is two to three times as fast as portable code on processors
//! without instructions for SHA.

use std::fmt;

use ring::digest::{Context, SHA256};

/// Number of bytes of a SHA-256.
pub const SHA256_BYTES: usize = 32;

/// A SHA-256 that is computed piece by piece.
#[derive(Clone)]
pub struct Sha256(Context);

impl Sha256 {
    /// Returns the SHA-256 of no bytes.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(bytes.as_ref());
    }

    /// Returns the SHA-256 of all added bytes.
    pub fn finalize(self) -> [u8; SHA256_BYTES] {
        let mut bytes = [0; SHA256_BYTES];
        bytes.copy_from_slice(self.0.finish().as_ref());
        bytes
    }

    /// Returns the SHA-256 of the given bytes.
    pub fn digest(bytes: impl AsRef<[u8]>) -> [u8; SHA256_BYTES] {
        let mut hash = Self::new();
        hash.update(bytes);
        hash.finalize()
    }
}

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sha256")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::receipt::hex;

    #[test]
    fn the_digests_are_those_of_fips_180_4() {
        let of = |text: &str| hex(&Sha256::digest(text));
        assert_eq!(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let mut pieces = Sha256::new();
        pieces.update("a");
        let first = pieces.clone();
        pieces.update(b"bc");
        assert_eq!(hex(&pieces.finalize()), of("abc"));
        assert_eq!(hex(&first.finalize()), of("a"));
    }
}
