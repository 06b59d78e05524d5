//! Checks the headers of a request.
//!
//! A header that could change the request's meaning causes a refusal; other headers are dropped,
//! and the proxy writes the forwarded headers itself.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};

use super::refusal::{Reason, Refusal};
use super::rules::{HEADERS_REFUSED, Mode};

/// Header that names the stream transaction to which a request belongs.
const TRANSACTION: &str = "x-arango-trx-id";
/// Header with the name of a client library, which is dropped without a refusal.
const DRIVER: &str = "x-arango-driver";

/// The data that the proxy takes from the headers of a request.
#[derive(Debug)]
pub(super) struct Head {
    /// Declared length of the body; 0 if no length is declared.
    pub(super) body_bytes: u64,
    /// Whether the request has credentials.
    pub(super) named: bool,
    /// The stream transaction to which the request belongs, if any.
    transaction: Option<HeaderValue>,
}

impl Head {
    /// Reads and checks the headers of a request.
    pub(super) fn read(mode: Mode, headers: &HeaderMap) -> Result<Self, Refusal> {
        let mut transaction = None;
        for name in headers.keys() {
            if name == TRANSACTION {
                transaction = Some(transaction_of(mode, headers)?);
            } else if let Some(what) = refused(name) {
                return Err(Refusal::of(Reason::Header, format!("the header {name} means {what}")));
            }
        }
        check_type(headers)?;
        Ok(Self {
            body_bytes: length_of(headers)?,
            named: headers.contains_key(http::header::AUTHORIZATION),
            transaction,
        })
    }

    /// Returns the headers that the proxy sends to the database; only the transaction header comes
    /// from the client.
    pub(super) fn onward(&self, authorization: &HeaderValue) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        // A request without credentials is forwarded without credentials, so that a vctx server can
        // check whether the database requires credentials.
        if self.named {
            headers.insert(http::header::AUTHORIZATION, authorization.clone());
        }
        if self.body_bytes > 0 {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(transaction) = &self.transaction {
            headers.insert(HeaderName::from_static(TRANSACTION), transaction.clone());
        }
        headers
    }
}

fn refused(name: &HeaderName) -> Option<&'static str> {
    if name == DRIVER {
        return None;
    }
    let begins = |(start, _): &&(&str, &str)| name.as_str().starts_with(start);
    HEADERS_REFUSED.iter().find(begins).map(|(_, what)| *what)
}

fn transaction_of(mode: Mode, headers: &HeaderMap) -> Result<HeaderValue, Refusal> {
    if mode == Mode::Ro {
        return Err(Refusal::writes("the request belongs to a stream transaction"));
    }
    let mut values = headers.get_all(TRANSACTION).iter();
    match (values.next(), values.next()) {
        (Some(id), None) if !id.is_empty() && id.as_bytes().iter().all(u8::is_ascii_digit) => {
            Ok(id.clone())
        }
        _ => {
            Err(Refusal::of(Reason::Header, format!("the header {TRANSACTION} is not one number")))
        }
    }
}

/// Accepts the content type JSON or no content type.
fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let is_json = |value: &HeaderValue| {
        value.to_str().is_ok_and(|text| {
            let (kind, rest) = text.split_once(';').unwrap_or((text, ""));
            let charset = rest.trim();
            kind.trim().eq_ignore_ascii_case("application/json")
                && (charset.is_empty() || charset.eq_ignore_ascii_case("charset=utf-8"))
        })
    };
    let values = headers.get_all(CONTENT_TYPE);
    match values.iter().count() <= 1 && values.iter().all(is_json) {
        true => Ok(()),
        false => Err(Refusal::of(Reason::Body, "the body is not JSON: send application/json")),
    }
}

fn length_of(headers: &HeaderMap) -> Result<u64, Refusal> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let text = match (lengths.next(), lengths.next()) {
        (None, _) => return Ok(0),
        (Some(length), None) => length.to_str().ok(),
        (Some(_), Some(_)) => None,
    };
    text.filter(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|t| t.parse().ok())
        .ok_or_else(|| Refusal::of(Reason::Header, "content-length is not one number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mode: Mode, pairs: &[(&'static str, &'static str)]) -> Result<Head, Refusal> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        Head::read(mode, &headers)
    }

    #[test]
    fn headers_that_change_the_meaning_refuse_the_request() {
        for name in [
            "x-http-method",
            "x-http-method-override",
            "x-method-override",
            "x-original-url",
            "x-rewrite-url",
            "transfer-encoding",
            "content-encoding",
            "upgrade",
            "x-arango-async",
            "x-arango-frontend",
            "x-arango-allow-dirty-read",
        ] {
            for mode in [Mode::Ro, Mode::Rw] {
                let refusal = read(mode, &[(name, "1")]).unwrap_err();
                assert_eq!(refusal.reason, Reason::Header, "{name}");
            }
        }
        for kind in ["application/x-velocypack", "text/plain", "application/json; charset=utf-16"] {
            assert!(read(Mode::Rw, &[("content-type", kind)]).is_err(), "{kind}");
        }
        assert!(read(Mode::Rw, &[("x-arango-trx-id", "12")]).is_ok());
        assert!(read(Mode::Ro, &[("x-arango-trx-id", "12")]).is_err());
        for ids in [&["1", "2"][..], &["1 begin"], &[""]] {
            let pairs: Vec<_> = ids.iter().map(|id| ("x-arango-trx-id", *id)).collect();
            assert!(read(Mode::Rw, &pairs).is_err(), "{ids:?}");
        }
        assert!(read(Mode::Rw, &[("content-length", "1"), ("content-length", "1")]).is_err());
    }

    #[test]
    fn nothing_of_the_client_goes_on_but_its_transaction() {
        let given = [
            ("authorization", "Basic Y2xpZW50"),
            ("cookie", "a=b"),
            ("accept", "application/x-velocypack"),
            ("connection", "keep-alive, x-secret"),
            ("x-secret", "1"),
            ("x-arango-driver", "some/1"),
            ("content-type", "application/json; charset=utf-8"),
            ("content-length", "2"),
            ("x-arango-trx-id", "12"),
        ];
        let own = HeaderValue::from_static("Basic b3du");
        let onward = read(Mode::Rw, &given).unwrap().onward(&own);
        let mut names: Vec<&str> = onward.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "content-type", "host", "x-arango-trx-id"]);
        assert_eq!(onward["authorization"], own);
        let nobody = read(Mode::Rw, &[]).unwrap().onward(&own);
        assert!(!nobody.contains_key("authorization"));
    }
}
