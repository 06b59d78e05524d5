//! Stores and checks the access tokens of users.

use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::value::{Value, parse, write_text};

use super::super::limits::TOKEN_S;
use super::super::reply::object;
use super::digest::{random, same};

/// Prefix of every token.
const PREFIX: &str = "v1.";
/// Number of characters from the end of a token that its fingerprint shows.
const SHOWN: usize = 6;

/// A stored token, without its secret.
#[derive(Clone, Debug)]
pub(in super::super) struct AccessToken {
    /// The token's number, unique for its user.
    pub(in super::super) id: u64,
    /// The token's name, unique for its user.
    pub(in super::super) name: String,
    /// Expiry time in seconds since 1970.
    pub(in super::super) valid_until: u64,
    /// Creation time in seconds since 1970.
    pub(in super::super) created_at: u64,
    /// The token's first and last characters, with which users recognise it.
    pub(in super::super) fingerprint: String,
    hash: [u8; 32],
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    Some(digits.chunks_exact(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}

/// Returns the user name in an access token that is used as a password; `None` for other passwords.
pub(super) fn owner(password: &str) -> Option<String> {
    let bytes = unhex(password.strip_prefix(PREFIX)?)?;
    parse(&bytes).ok()?.text_of("u").map(str::to_owned)
}

impl AccessToken {
    /// Creates a token; returns the token and its text, which is not stored.
    pub(super) fn new(
        user: &str,
        id: u64,
        name: &str,
        until: Option<u64>,
    ) -> Result<(Self, String)> {
        let created_at = now_s();
        let valid_until = until.unwrap_or(created_at + TOKEN_S);
        let secret = hex(&random::<24>()?);
        let mut inner = Vec::new();
        let whom = object! { "e" => valid_until, "c" => created_at, "u" => user, "r" => secret };
        write_text(&whom, &mut inner);
        let text = format!("{PREFIX}{}", hex(&inner));
        let token = Self {
            id,
            name: name.to_owned(),
            valid_until,
            created_at,
            fingerprint: format!("v1...{}", &text[text.len() - SHOWN..]),
            hash: Sha256::digest(text.as_bytes()).into(),
        };
        Ok((token, text))
    }

    /// Whether the token has not expired.
    pub(in super::super) fn is_active(&self) -> bool {
        self.valid_until > now_s()
    }

    /// Whether `text` is the text of this token and the token has not expired.
    pub(super) fn is(&self, text: &str) -> bool {
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        same(&self.hash, &hash) && self.is_active()
    }

    /// Converts the token to its stored form.
    pub(super) fn to_value(&self) -> Value {
        object! {
            "id" => self.id,
            "name" => self.name.as_str(),
            "validUntil" => self.valid_until,
            "createdAt" => self.created_at,
            "fingerprint" => self.fingerprint.as_str(),
            "hash" => hex(&self.hash),
        }
    }

    /// Reads a token from its stored form.
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        let number = |name: &str| match value.attribute(name) {
            Value::Int(number) => u64::try_from(number).ok(),
            _ => None,
        };
        Some(Self {
            id: number("id")?,
            name: value.text_of("name")?.to_owned(),
            valid_until: number("validUntil")?,
            created_at: number("createdAt")?,
            fingerprint: value.text_of("fingerprint")?.to_owned(),
            hash: unhex(value.text_of("hash")?)?.try_into().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_user_and_ends() {
        let (token, text) = AccessToken::new("ann", 1, "job", None).expect("random bytes");
        assert_eq!(owner(&text).as_deref(), Some("ann"));
        assert_eq!(owner("v1.zz"), None);
        let again = AccessToken::from_value(&token.to_value()).expect("a token");
        assert!(again.is(&text));
        assert!(!again.is("v1.00"));
        let (old, text) = AccessToken::new("ann", 2, "old", Some(1)).expect("random bytes");
        assert!(!old.is(&text));
    }
}
