//! Issues and verifies JSON Web Tokens (HS256): user tokens of `POST /_open/auth`, and server
//! tokens that clients sign with the server's secret.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::value::{Value, parse, write_text};

use super::super::limits::SESSION_S;
use super::super::reply::object;
use super::digest::{hmac, same};

/// The caller that a valid token identifies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bearer {
    /// The user in `preferred_username`.
    User(String),
    /// A token with `server_id` and without a user.
    Server,
}

/// The current time in seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns a token for `user` that expires after `SESSION_S` seconds.
pub(super) fn issue(secret: &[u8], user: &str) -> String {
    let now = now_s();
    sign(
        secret,
        &object! {
            "preferred_username" => user,
            "iss" => "arangodb",
            "iat" => now,
            "exp" => now + SESSION_S,
        },
    )
}

fn sign(secret: &[u8], payload: &Value) -> String {
    let encode = |value: &Value| {
        let mut text = Vec::new();
        write_text(value, &mut text);
        URL_SAFE_NO_PAD.encode(text)
    };
    let head = encode(&object! { "alg" => "HS256", "typ" => "JWT" });
    let signed = format!("{head}.{}", encode(payload));
    let mac = hmac(secret, signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac))
}

/// Returns the caller that a token identifies, if the token is signed with `secret`, issued by
/// `arangodb` and not expired.
pub(super) fn verify(secret: &[u8], token: &str) -> Option<Bearer> {
    let (signed, mac) = token.rsplit_once('.')?;
    let mac = URL_SAFE_NO_PAD.decode(mac.trim_end_matches('=')).ok()?;
    if !same(&hmac(secret, signed.as_bytes()), &mac) {
        return None;
    }
    let (head, payload) = signed.split_once('.')?;
    let decode = |part: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok()?;
        parse(&bytes).ok()
    };
    if decode(head)?.text_of("alg") != Some("HS256") {
        return None;
    }
    let payload = decode(payload)?;
    if payload.text_of("iss") != Some("arangodb") || is_expired(&payload) {
        return None;
    }
    match payload.text_of("preferred_username") {
        Some(user) => Some(Bearer::User(user.to_owned())),
        None => payload.text_of("server_id").map(|_| Bearer::Server),
    }
}

/// `exp`, if present, must be a number in the future.
fn is_expired(payload: &Value) -> bool {
    match payload.attribute("exp") {
        Value::Null => false,
        end => end.as_f64().is_none_or(|end| end <= now_s() as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_unexpired_tokens_of_this_secret_are_good() {
        let token = issue(b"secret", "ann");
        assert_eq!(verify(b"secret", &token), Some(Bearer::User("ann".into())));
        assert_eq!(verify(b"other", &token), None);
        assert_eq!(verify(b"secret", &token[..token.len() - 2]), None);
        assert_eq!(verify(b"secret", "a.b"), None);
        let server = sign(b"s", &object! { "iss" => "arangodb", "server_id" => "x" });
        assert_eq!(verify(b"s", &server), Some(Bearer::Server));
        let expired = object! { "iss" => "arangodb", "server_id" => "x", "exp" => 1_i64 };
        assert_eq!(verify(b"s", &sign(b"s", &expired)), None);
        let endless = object! { "iss" => "arangodb", "server_id" => "x", "exp" => "never" };
        assert_eq!(verify(b"s", &sign(b"s", &endless)), None);
        let nobody = object! { "iss" => "arangodb" };
        assert_eq!(verify(b"s", &sign(b"s", &nobody)), None);
    }
}
