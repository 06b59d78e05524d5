//! What a proxy answers itself, in ArangoDB's form: refusals, and what it says while nobody is behind it.

use axum::body::Body;
use axum::response::Response;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode};
use serde_json::json;

use super::rules::Mode;

/// ArangoDB's number of a forbidden request.
const FORBIDDEN: u16 = 11;

/// Why a request is refused: the label of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The target is not canonical, or has parameters that no rule names.
    Path,
    /// A header that could change what the request means.
    Header,
    /// A body where none belongs, or one that is none.
    Body,
    /// The text of a query is not understood.
    Aql,
    /// A text that calls code.
    Function,
    /// It writes, on the socket for reads.
    Writes,
    /// No server needs it.
    Administration,
}

impl Reason {
    /// All of them.
    pub(super) const ALL: [Self; 7] = [
        Self::Path,
        Self::Header,
        Self::Body,
        Self::Aql,
        Self::Function,
        Self::Writes,
        Self::Administration,
    ];

    /// Its label.
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

/// A request that does not pass.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) reason: Reason,
    /// 403, or 413 for what is only too long.
    pub(super) status: StatusCode,
    /// What was wrong and what to do; nothing of what the request said.
    pub(super) text: String,
}

impl Refusal {
    /// A refusal with its sentence.
    pub(super) fn of(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, status: StatusCode::FORBIDDEN, text: text.into() }
    }

    /// It would write.
    pub(super) fn writes(what: &str) -> Self {
        Self::of(
            Reason::Writes,
            format!("it writes ({what}): use the socket for writes (vctx proxy --mode rw)"),
        )
    }

    /// No server needs it.
    pub(super) fn administration(what: &str) -> Self {
        Self::of(
            Reason::Administration,
            format!(
                "{what}: no server needs that; an administrator uses the database's own socket (vctx proxy --rules shows what passes)"
            ),
        )
    }

    /// A body above its bound.
    pub(super) fn too_long(bytes_max: usize) -> Self {
        let text = format!("the body is longer than {bytes_max} bytes");
        Self { reason: Reason::Body, status: StatusCode::PAYLOAD_TOO_LARGE, text }
    }

    /// As an answer. The connection ends with it: what else came with the request is read by nobody.
    pub(super) fn into_response(self, mode: Mode, method: &Method) -> Response {
        let text = format!("vctx proxy ({}) refuses this {method}: {}", mode.text(), self.text);
        let mut response = envelope(self.status, FORBIDDEN, &text);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

/// Why there is no answer of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// Too many wait already, or it waited too long for its turn: nothing was sent.
    Busy,
    /// Nobody listens behind the proxy: nothing was sent.
    Unreachable,
    /// The connection broke: it may have been done.
    Lost,
    /// No answer in time: it may have been done.
    Late,
    /// The client's body did not come whole.
    BodyCut,
}

impl Broken {
    /// Its label.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::Late => "late",
            Self::BodyCut => "cut",
        }
    }

    /// As an answer. Numbers are ArangoDB's: 21003 queue full, 2001 could not connect, 2003 could not read, 504 too late, 400 bad request.
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
                "vctx proxy: the connection to the database broke before its answer; the request may have been done, look before it is repeated",
            ),
            Self::Late => (
                StatusCode::GATEWAY_TIMEOUT,
                504,
                "vctx proxy: the database did not answer in time; the request may have been done, look before it is repeated",
            ),
            Self::BodyCut => (
                StatusCode::REQUEST_TIMEOUT,
                400,
                "vctx proxy: the body did not come whole in time; nothing was sent",
            ),
        };
        let mut response = envelope(status, num, text);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            // Seconds; a database that is started again takes about as long.
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// ArangoDB's error envelope.
fn envelope(status: StatusCode, num: u16, message: &str) -> Response {
    let body =
        json!({"error": true, "code": status.as_u16(), "errorNum": num, "errorMessage": message});
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
