//! A decoded request: database, path segments, parameters, headers and body.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};

use crate::error::{Code, Error, Result};
use crate::value::{Object, Value, parse};

/// Path prefix before the database name. A request without the prefix goes to the database
/// `_system`.
const DATABASE_PREFIX: &str = "_db";

/// A request that has been received completely.
#[derive(Debug)]
pub(super) struct Request {
    /// The method.
    pub(super) method: Method,
    /// The decoded database name if the path begins with `/_db/NAME`, otherwise `_system`.
    pub(super) database: String,
    /// Path segments after the database prefix, decoded once, without empty segments.
    pub(super) path: Vec<String>,
    /// Headers as received.
    pub(super) headers: HeaderMap,
    /// A flag that another thread sets to end the request's queries.
    pub(super) cancelled: Arc<AtomicBool>,
    parameters: Vec<(String, String)>,
    body: Bytes,
}

impl Request {
    /// Builds a request, splitting and decoding its target; error 400 for a broken percent escape
    /// or invalid UTF-8.
    pub(super) fn new(method: Method, uri: &Uri, headers: HeaderMap, body: Bytes) -> Result<Self> {
        let mut path = uri
            .path()
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(|segment| percent_decode(segment, false))
            .collect::<Result<Vec<_>>>()?;
        strip_version(&mut path)?;
        let database = if path.len() >= 2 && path[0] == DATABASE_PREFIX {
            path.remove(0);
            path.remove(0)
        } else {
            "_system".to_owned()
        };
        strip_version(&mut path)?;
        let parameters = uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Ok((percent_decode(name, true)?, percent_decode(value, true)?))
            })
            .collect::<Result<Vec<_>>>()?;
        let cancelled = Arc::default();
        Ok(Self { method, database, path, headers, cancelled, parameters, body })
    }

    /// Returns the path segments as borrowed texts, for pattern matching.
    pub(super) fn segments(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// Returns the value of a URL parameter; the last value if the parameter is repeated.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Returns the names and values of all URL parameters.
    #[cfg(feature = "conformance")]
    pub(super) fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns a boolean URL parameter, read as arangod does: `true`, `yes`, `on`, `y` and `1` are
    /// true, all other values are false.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        let value = self.parameter(name)?;
        let yes = ["true", "yes", "on", "y", "1"];
        Some(yes.iter().any(|word| value.eq_ignore_ascii_case(word)))
    }

    /// Returns the value of a header if it is a text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether the request has a body.
    pub(super) fn has_body(&self) -> bool {
        !self.body.is_empty()
    }

    /// Returns the bytes of the body, without parsing them.
    #[cfg(feature = "conformance")]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// Parses the body as JSON; error 400/600 for an empty body.
    pub(super) fn body(&self) -> Result<Value> {
        parse(self.json()?)
    }

    /// Returns the unparsed text of a JSON body; error 400/600 for an empty body.
    pub(super) fn json(&self) -> Result<&[u8]> {
        if self.body.is_empty() {
            return Err(Error::new(Code::HttpCorruptedJson, "expecting a JSON body"));
        }
        Ok(&self.body)
    }

    /// Parses the body as a JSON object. An empty body counts as an empty object; any other JSON
    /// value is error 400/10.
    pub(super) fn object(&self) -> Result<Object> {
        if self.body.is_empty() {
            return Ok(Object::new());
        }
        match parse(&self.body)? {
            Value::Object(object) => Ok(Arc::unwrap_or_clone(object)),
            _ => Err(Error::new(Code::BadParameter, "expecting a JSON object as body")),
        }
    }
}

/// Removes the prefix `/_arango/v0`, which may come before or after the database; refuses other API
/// versions.
fn strip_version(path: &mut Vec<String>) -> Result<()> {
    if path.len() < 2 || path[0] != "_arango" {
        return Ok(());
    }
    if path[1] != "v0" {
        return Err(Error::unsupported(format_args!("API version {}", path[1])));
    }
    path.drain(..2);
    Ok(())
}

/// Decodes `%XX` and, in URL parameters, `+` as a blank.
pub(super) fn percent_decode(text: &str, plus_is_blank: bool) -> Result<String> {
    let bad = || Error::new(Code::HttpBadParameter, "malformed percent-encoding in URL");
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let digits = bytes.get(at + 1..at + 3).ok_or_else(bad)?;
                let high = char::from(digits[0]).to_digit(16).ok_or_else(bad)?;
                let low = char::from(digits[1]).to_digit(16).ok_or_else(bad)?;
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            b'+' if plus_is_blank => {
                out.push(b' ');
                at += 1;
            }
            byte => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).map_err(|_| bad())
}

/// Percent-encodes all characters except the unreserved ones, for `location` headers.
pub(super) fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Result<(String, String)> {
        let uri: Uri = text.parse().expect("a URI");
        let request = Request::new(Method::GET, &uri, HeaderMap::new(), Bytes::new())?;
        Ok((request.database.clone(), request.path.join("|")))
    }

    #[test]
    fn targets_split_into_database_and_segments() {
        let table = [
            ("/", "_system", ""),
            ("/_api/version", "_system", "_api|version"),
            ("/_api/document/c/?", "_system", "_api|document|c"),
            ("/_db/my%20db/_api/document/c/a%2Fb", "my db", "_api|document|c|a/b"),
            ("/_db/d/_arango/v0/_api/version/", "d", "_api|version"),
            ("/_arango/v0/_db/d/_api/version", "d", "_api|version"),
            ("/_api/document/c/a+b", "_system", "_api|document|c|a+b"),
        ];
        for (text, database, path) in table {
            assert_eq!(target(text).expect(text), (database.to_owned(), path.to_owned()), "{text}");
        }
        for broken in ["/a%", "/a%2", "/a%zz", "/%ff"] {
            assert_eq!(target(broken).expect_err(broken).status(), 400);
        }
        assert_eq!(target("/_arango/v9/_api/version").expect_err("v9").status(), 501);
    }
}
