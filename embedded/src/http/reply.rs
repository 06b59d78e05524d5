//! Builds answers: status, headers, JSON body, and the attributes that ArangoDB adds to successes
//! and errors.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;

use crate::error::Error;
use crate::expr::{Room, Share};
use crate::value::{Object, Value, write_text};

/// Builds a `Value` object; keys must be distinct.
macro_rules! object {
    ($($key:expr => $value:expr),* $(,)?) => {{
        #[allow(unused_mut, reason = "without keys, `mut` is not needed")]
        let mut object = $crate::value::Object::new();
        $(object.push_new($key, $crate::value::Value::from($value));)*
        $crate::value::Value::object(object)
    }};
}
pub(super) use object;

/// Initial capacity for a body in bytes, which usually suffices.
const BODY_BYTES: usize = 1024;
/// Content type of every JSON answer.
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
/// Content type of answers without a body.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Headers of every answer (recorded from 3.12.10), and a header with the engine's version.
const ALWAYS: [(HeaderName, HeaderValue); 9] = [
    (header::SERVER, HeaderValue::from_static("ArangoDB")),
    (HeaderName::from_static("x-arango-queue-time-seconds"), HeaderValue::from_static("0.000000")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        header::CACHE_CONTROL,
        HeaderValue::from_static(
            "no-cache, no-store, must-revalidate, pre-check=0, post-check=0, max-age=0, s-maxage=0",
        ),
    ),
    (header::PRAGMA, HeaderValue::from_static("no-cache")),
    (header::EXPIRES, HeaderValue::from_static("0")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("frame-ancestors 'self'; form-action 'self';"),
    ),
    (
        header::STRICT_TRANSPORT_SECURITY,
        HeaderValue::from_static("max-age=31536000 ; includeSubDomains"),
    ),
    (
        HeaderName::from_static("x-arango-embedded"),
        HeaderValue::from_static(env!("CARGO_PKG_VERSION")),
    ),
];

/// An answer before it is sent.
#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
    json: bool,
    /// The memory of the body, as a part of the memory of all answers, until the body is sent.
    share: Option<Share>,
}

/// The body of an answer with its share of the memory of all answers.
struct CountedBody {
    bytes: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for CountedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Reply {
    /// Returns an answer with a JSON body.
    pub(super) fn json(status: u16, body: &Value) -> Self {
        let mut text = Vec::with_capacity(BODY_BYTES);
        write_text(body, &mut text);
        Self::json_bytes(status, text)
    }

    /// Returns an answer whose JSON body is given as finished text.
    pub(super) fn json_text(status: u16, json: String) -> Self {
        Self::json_bytes(status, json.into_bytes())
    }

    /// Returns an answer whose JSON body is already encoded as bytes.
    pub(super) fn json_bytes(status: u16, body: Vec<u8>) -> Self {
        Self { status, headers: Vec::new(), body, json: true, share: None }
    }

    /// Returns an answer with `error: false` and `code`, followed by the attributes of `body`.
    pub(super) fn ok(status: u16, body: Value) -> Self {
        let mut object = Object::with_capacity(8);
        object.push_new("error", Value::Bool(false));
        object.push_new("code", Value::Int(i64::from(status)));
        append(&mut object, &body);
        Self::json(status, &Value::object(object))
    }

    /// Returns an answer with the attributes of `body`, followed by `error: false` and `code`.
    pub(super) fn ok_last(status: u16, mut body: Object) -> Self {
        body.insert("error", Value::Bool(false));
        body.insert("code", Value::Int(i64::from(status)));
        Self::json(status, &Value::object(body))
    }

    /// Returns an answer with the attributes of `own`, followed by `code` and `error: false`.
    pub(super) fn ok_merged(status: u16, own: &Value) -> Self {
        let mut body = own.as_object().cloned().unwrap_or_default();
        body.insert("code", Value::Int(i64::from(status)));
        body.insert("error", Value::Bool(false));
        Self::json(status, &Value::object(body))
    }

    /// Returns an answer in the form `{error: false, code, result}`.
    pub(super) fn result(status: u16, result: Value) -> Self {
        Self::ok(status, object! { "result" => result })
    }

    /// Returns an answer of type `text/plain` without a body.
    pub(super) fn empty(status: u16) -> Self {
        Self::text(status, String::new())
    }

    /// Returns the answer for an error, in the form that ArangoDB uses.
    pub(super) fn error(error: &Error) -> Self {
        let status = error.status();
        let code = Value::Int(i64::from(status));
        let number = Value::Int(i64::from(error.code.num()));
        let message = Value::string(&error.message);
        let mut object = Object::with_capacity(8);
        // The attributes have the same order as in arangod, where the order depends on the code
        // path that answers.
        if let Some(extra) = &error.extra {
            object.push_new("error", Value::Bool(true));
            object.push_new("code", code);
            object.push_new("errorNum", number);
            object.push_new("errorMessage", message);
            append(&mut object, extra);
        } else {
            object.push_new("code", code);
            object.push_new("error", Value::Bool(true));
            object.push_new("errorMessage", message);
            object.push_new("errorNum", number);
        }
        let reply = Self::json(status, &Value::object(object));
        match error.extra.as_deref().and_then(|extra| extra.text_of("_rev")) {
            Some(rev) => reply.etag(rev),
            None => reply,
        }
    }

    /// Length of the body in bytes.
    #[cfg(feature = "conformance")]
    pub(super) fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Returns an answer of type `text/plain` with a body.
    pub(super) fn text(status: u16, body: String) -> Self {
        Self { json: false, ..Self::json_text(status, body) }
    }

    /// Adds a header; ignores a value that HTTP does not allow. `name` must be valid.
    #[must_use]
    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((HeaderName::from_static(name), value));
        }
        self
    }

    /// Adds the header `etag` with the revision in double quotes, as in the document API.
    #[must_use]
    pub(super) fn etag(self, rev: &str) -> Self {
        self.header("etag", &format!("\"{rev}\""))
    }

    /// Counts the memory of the body until the body is sent. If `refusable` and there is no room,
    /// returns error 503/21003 instead. The answer of a request that has changed data cannot be
    /// refused.
    #[must_use]
    pub(super) fn counted(self, room: &Arc<Room>, refusable: bool) -> Self {
        let mut share = Share::of(room);
        match share.grow_to(self.body.len() as u64) {
            Err(error) if refusable => Self::error(&error),
            Ok(()) | Err(_) => Self { share: Some(share), ..self },
        }
    }

    /// Converts the answer to the response type of `hyper`.
    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let body = match self.share {
            Some(share) => Bytes::from_owner(CountedBody { bytes: self.body, _share: share }),
            None => Bytes::from(self.body),
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.reserve(ALWAYS.len() + 1 + self.headers.len());
        headers.insert(CONTENT_TYPE, if self.json { JSON } else { TEXT });
        for (name, value) in ALWAYS {
            headers.insert(name, value);
        }
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
        response
    }
}

/// Adds the attributes of `from` to an object; does nothing if `from` is not an object.
fn append(object: &mut Object, from: &Value) {
    if let Some(from) = from.as_object() {
        for (name, value) in from.iter() {
            object.insert(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn an_error_carries_its_number_status_and_further_attributes() {
        let error =
            Error::of(Code::Conflict).with_status(412).with_extra(object! { "_rev" => "a" });
        let response = Reply::error(&error).into_response();
        assert_eq!(response.status(), 412);
        assert_eq!(response.headers()["etag"], "\"a\"");
        assert_eq!(response.headers()["server"], "ArangoDB");
    }
}
