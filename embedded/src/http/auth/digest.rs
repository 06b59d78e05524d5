//! SHA-256 digests: salted passwords, HMAC, comparison in constant time, and random bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::digest::consts::U64;
use sha2::digest::generic_array::GenericArray;
use sha2::{Digest, Sha256, compress256};

use crate::error::{Code, Error, Result};
use crate::value::Value;

use super::super::limits::PASSWORD_ROUNDS;
use super::super::reply::object;

/// Block size of SHA-256 in bytes (FIPS 180-4).
const BLOCK: usize = 64;
/// State of SHA-256 before the first block (FIPS 180-4, section 5.3.3).
const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];
/// Total length of the input of one round (the salt and the previous hash), in bits.
const ROUND_BITS: u16 = (16 + 32) * 8;

/// Random bytes from the operating system.
pub(in crate::http) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(Code::SystemError, format!("no random bytes: {error}")))?;
    Ok(bytes)
}

/// Computes the HMAC-SHA-256 of a message (RFC 2104).
pub(super) fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner =
        Sha256::new().chain_update(block.map(|b| b ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|b| b ^ 0x5c)).chain_update(inner).finalize().into()
}

/// Compares two byte strings in constant time.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0_u8, |all, (x, y)| all | (x ^ y)) == 0
}

/// A password as a salted hash.
#[derive(Clone)]
pub(in super::super) struct Password {
    salt: [u8; 16],
    rounds: u32,
    hash: [u8; 32],
}

impl Password {
    /// Hashes a new password with a new salt.
    pub(super) fn new(plain: &str) -> Result<Self> {
        let salt = random()?;
        Ok(Self { salt, rounds: PASSWORD_ROUNDS, hash: stretch(&salt, PASSWORD_ROUNDS, plain) })
    }

    /// Whether `plain` is the stored password, and is hashed as new passwords are.
    pub(super) fn is_current(&self, plain: &str) -> bool {
        self.rounds == PASSWORD_ROUNDS && self.is(plain)
    }

    /// Whether `plain` is the stored password.
    pub(super) fn is(&self, plain: &str) -> bool {
        same(&self.hash, &stretch(&self.salt, self.rounds, plain))
    }

    /// Converts the password hash to its stored form.
    pub(super) fn to_value(&self) -> Value {
        object! {
            "method" => "sha256-rounds",
            "salt" => STANDARD.encode(self.salt),
            "rounds" => i64::from(self.rounds),
            "hash" => STANDARD.encode(self.hash),
        }
    }

    /// Reads a password hash from its stored form.
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        let bytes = |name: &str| STANDARD.decode(value.text_of(name)?).ok();
        let Value::Int(rounds) = value.attribute("rounds") else { return None };
        Some(Self {
            salt: bytes("salt")?.try_into().ok()?,
            rounds: u32::try_from(rounds).ok()?,
            hash: bytes("hash")?.try_into().ok()?,
        })
    }
}

/// Hashes the salt and the previous hash, `rounds` times. The input of a round and its padding
/// (FIPS 180-4, section 5.1.1) fill exactly one block. A round therefore costs one call of the
/// compression function and is fast even in a build without optimisation.
fn stretch(salt: &[u8; 16], rounds: u32, plain: &str) -> [u8; 32] {
    let mut hash = hmac(salt, plain.as_bytes());
    let mut block = GenericArray::<u8, U64>::default();
    block[..16].copy_from_slice(salt);
    block[48] = 0x80;
    block[62..].copy_from_slice(&ROUND_BITS.to_be_bytes());
    for _ in 1..rounds {
        block[16..48].copy_from_slice(&hash);
        let mut state = INITIAL;
        compress256(&mut state, std::slice::from_ref(&block));
        for (bytes, word) in hash.chunks_exact_mut(4).zip(state) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_is_that_of_rfc_4231() {
        let mac = hmac(b"Jefe", b"what do ya want for nothing?");
        let hex: String = mac.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let mac = hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(mac[..4], [0x60, 0xe4, 0x31, 0x59]);
    }

    #[test]
    fn a_round_is_the_digest_of_salt_and_hash() {
        let salt = *b"sixteen of salt.";
        let mut hash = hmac(&salt, b"secret");
        for rounds in 1..=5 {
            assert_eq!(stretch(&salt, rounds, "secret"), hash, "{rounds} rounds");
            hash = Sha256::new().chain_update(salt).chain_update(hash).finalize().into();
        }
    }

    #[test]
    fn a_password_survives_its_stored_form_and_refuses_others() {
        let kept = Password::new("päss").expect("random bytes");
        let again = Password::from_value(&kept.to_value()).expect("a password");
        assert!(again.is("päss"));
        assert!(!again.is("pass"));
        assert!(!again.is(""));
    }
}
