//! Makes the proxy's own answers in ArangoDB's format: refusals, and errors while the database is
//! unreachable.

use axum::body::Body;
use axum::response::Response;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode};
use serde_json::json;

use super::rules::Mode;

/// ArangoDB's error number for a forbidden request.
const FORBIDDEN: u16 = 11;

/// The kind of a refusal, which is also a label of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The request target is not canonical, or has parameters that no rule names.
    Path,
    /// A header could change the meaning of the request.
    Header,
    /// The request body is forbidden or invalid.
    Body,
    /// The query text cannot be parsed.
    Aql,
    /// The query text calls user code.
    Function,
    /// The query writes, but was sent to the read-only socket.
    Writes,
    /// No vctx server needs the request.
    Administration,
}

impl Reason {
    /// All kinds of refusals.
    pub(super) const ALL: [Self; 7] = [
        Self::Path,
        Self::Header,
        Self::Body,
        Self::Aql,
        Self::Function,
        Self::Writes,
        Self::Administration,
    ];

    /// Returns the label of the metric.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Header => "header",
            Self::Body => "body",
            Self::Aql => "aql",
            Self::Function => "function",
            Self::Writes => "writes",
            Self::Administration => "administration",
        }
    }
}

/// A refusal of a request.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) reason: Reason,
    /// The status 403, or 413 for a request that is refused only because it is too long.
    pub(super) status: StatusCode,
    /// The reason for the refusal and the next step, without any text of the request.
    pub(super) text: String,
}

impl Refusal {
    /// Creates a refusal with a sentence for the client.
    pub(super) fn of(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, status: StatusCode::FORBIDDEN, text: text.into() }
    }

    /// Returns the refusal of a query that would write.
    pub(super) fn writes(what: &str) -> Self {
        Self::of(
            Reason::Writes,
            format!("the query writes ({what}): use the socket for writes (vctx proxy --mode rw)"),
        )
    }

    /// Returns the refusal of an administrative database request, which no vctx server ever sends.
    pub(super) fn administration(what: &str) -> Self {
        Self::of(
            Reason::Administration,
            format!(
                "{what}: no vctx server needs this; an administrator uses the database's own socket (vctx proxy --rules shows what passes)"
            ),
        )
    }

    /// Returns the refusal of a request whose body exceeds the size limit.
    pub(super) fn too_long(bytes_max: usize) -> Self {
        let text = format!("the body is longer than {bytes_max} bytes");
        Self { reason: Reason::Body, status: StatusCode::PAYLOAD_TOO_LARGE, text }
    }

    /// Converts the refusal to an answer. The answer closes the connection, because the proxy does
    /// not read the rest of the request.
    pub(super) fn into_response(self, mode: Mode, method: &Method) -> Response {
        let text = format!("vctx proxy ({}) refuses this {method}: {}", mode.text(), self.text);
        let mut response = envelope(self.status, FORBIDDEN, &text);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

/// The reason why the database gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// Too many requests wait, or the wait for a permit was too long; the proxy sent no request to
    /// the database.
    Busy,
    /// The database does not listen; the proxy sent no request to the database.
    Unreachable,
    /// The connection to the database broke; the database may have executed the request.
    Lost,
    /// No answer of the database arrived in time; the database may have executed the request.
    Late,
    /// The body of the client's request arrived incomplete.
    BodyCut,
}

impl Broken {
    /// Returns the label of the metric.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::Late => "late",
            Self::BodyCut => "cut",
        }
    }

    /// Converts the reason to an answer with one of ArangoDB's error numbers: 21003 queue full,
    /// 2001 could not connect, 2003 could not read, 504 timeout, 400 bad request.
    pub(super) fn into_response(self) -> Response {
        let (status, num, text) = match self {
            Self::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                21003,
                "vctx proxy: too many requests at once; nothing was sent, try again",
            ),
            Self::Unreachable => (
                StatusCode::SERVICE_UNAVAILABLE,
                2001,
                "vctx proxy: the database does not answer on its socket; nothing was sent, try again",
            ),
            Self::Lost => (
                StatusCode::BAD_GATEWAY,
                2003,
                "vctx proxy: the connection to the database broke before its answer; the request may have been executed, check before you repeat it",
            ),
            Self::Late => (
                StatusCode::GATEWAY_TIMEOUT,
                504,
                "vctx proxy: the database did not answer in time; the request may have been executed, check before you repeat it",
            ),
            Self::BodyCut => (
                StatusCode::REQUEST_TIMEOUT,
                400,
                "vctx proxy: the body did not arrive completely in time; nothing was sent",
            ),
        };
        let mut response = envelope(status, num, text);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            // `Retry-After` is one second, about the time in which a database restarts.
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Returns an error answer in ArangoDB's format.
fn envelope(status: StatusCode, num: u16, message: &str) -> Response {
    let body =
        json!({"error": true, "code": status.as_u16(), "errorNum": num, "errorMessage": message});
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
