//! Writes errors as problem details (RFC 9457): type, title, status, detail, error code and the
//! error's own fields.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use vctx_core::error::{Code, Error};

/// Converts an error to a response.
pub trait IntoProblem {
    /// Returns the problem details with the HTTP status of the error code. If a retry may help,
    /// adds `Retry-After`.
    fn into_problem(self) -> Response;
}

impl IntoProblem for Error {
    fn into_problem(self) -> Response {
        let status =
            StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, body(&self).to_string()).into_response();
        response.extensions_mut().insert(self.code);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after_s(&self) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Returns after how many whole seconds a retry may succeed (RFC 9110 §10.2.3), or `None` if no
/// retry can succeed.
pub(super) fn retry_after_s(error: &Error) -> Option<u64> {
    match error.code {
        Code::Overloaded
        | Code::StoreUnavailable
        | Code::NotReady
        | Code::Conflict
        | Code::AgentMoving
        | Code::MoveBusy
        | Code::ModelUnavailable => Some(1),
        Code::HeartbeatRateLimited | Code::HeartbeatCooldown | Code::RunBusy => {
            let ms = error.fields.get("retry_after_ms").and_then(Value::as_u64).unwrap_or(0);
            Some(ms.div_ceil(1_000))
        }
        _ => None,
    }
}

pub(super) fn body(error: &Error) -> Value {
    let mut map = Map::new();
    let code = error.code.text();
    map.insert(
        "type".into(),
        format!("urn:vctx:error:{}", code.to_lowercase().replace('_', "-")).into(),
    );
    map.insert("title".into(), error.code.title().into());
    map.insert("status".into(), error.code.status().into());
    map.insert("detail".into(), error.message.as_str().into());
    map.insert("error".into(), code.into());
    map.insert("system_message".into(), format!("Error {code}: {}.", error.message).into());
    for (name, value) in &error.fields {
        map.insert(name.clone(), value.clone());
    }
    Value::Object(map)
}
