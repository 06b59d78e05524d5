//! Builds HTTP responses: JSON with a status, and an agent's revision as `ETag`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use super::problem::IntoProblem as _;
use vctx_core::error::Result;

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

/// Returns the response of a reading route.
pub(super) fn answer(outcome: Result<Value>) -> Response {
    match noted(outcome) {
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
