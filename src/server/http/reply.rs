//! Builds HTTP responses: JSON with a status, and an agent's revision as `ETag`.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use super::problem::IntoProblem as _;
use vctx_core::error::{Error, Result};
use vctx_core::tools::told_refusal;

/// Header with the agent's revision of an answer in text.
const AGENT_REV: HeaderName = HeaderName::from_static("x-vctx-agent-rev");
/// Header with the memory's version of an answer in text.
const VERSION: HeaderName = HeaderName::from_static("x-vctx-version");
/// Header with the code of an error in text.
const ERROR: HeaderName = HeaderName::from_static("x-vctx-error");

/// Returns a JSON response.
pub fn json_answer(status: StatusCode, body: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, body.to_string()).into_response()
}

/// Returns the response to a write: status 201 if it created a resource, otherwise 200.
pub(super) fn made_answer(made: bool, body: &Value) -> Response {
    with_etag(if made { StatusCode::CREATED } else { StatusCode::OK }, body)
}

/// Returns a response with the agent's revision as `ETag`.
pub(super) fn with_etag(status: StatusCode, body: &Value) -> Response {
    let mut response = json_answer(status, body);
    let tag = body["_rev"].as_str();
    if let Some(tag) = tag.and_then(|rev| HeaderValue::from_str(&format!("\"{rev}\"")).ok()) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Returns an answer as the text that a model reads, with the answer's revision as `ETag`. The
/// header `X-Vctx-Agent-Rev` has the agent's revision if the answer's revision is a document's, and
/// `X-Vctx-Version` the memory's version.
pub(super) fn told(text: String, answer: &Value) -> Response {
    let mut response = with_etag(StatusCode::OK, answer);
    let rev = answer["agent_rev"].as_str().and_then(|rev| HeaderValue::from_str(rev).ok());
    if let Some(rev) = rev {
        response.headers_mut().insert(AGENT_REV, rev);
    }
    if let Some(version) = answer["version"].as_u64() {
        response.headers_mut().insert(VERSION, version.into());
    }
    as_text(response, text)
}

/// Returns an error as the text that a model reads; the header `X-Vctx-Error` has the error's code.
pub(super) fn refusal_told(error: Error) -> Response {
    let (text, code) = (told_refusal(&error), error.code.text());
    let mut response = error.into_problem();
    response.headers_mut().insert(ERROR, HeaderValue::from_static(code));
    as_text(response, text)
}

fn as_text(mut response: Response, text: String) -> Response {
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    *response.body_mut() = text.into();
    response
}

/// Returns the response of a reading route, whose faults were logged.
pub(super) fn answer(outcome: Result<Value>) -> Response {
    match outcome {
        Ok(body) => with_etag(StatusCode::OK, &body),
        Err(error) => error.into_problem(),
    }
}

/// Logs a server fault. Used outside of tool calls, which log their own faults.
pub(super) fn noted<T>(outcome: Result<T>) -> Result<T> {
    outcome.inspect_err(|error| {
        if error.code.status() >= 500 {
            tracing::error!(code = error.code.text(), error = error.chain(), "request failed");
        }
    })
}
