//! Parses the envelope of a call: its idempotency key, its guard, and how its result is appended to
//! the queue.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value};

use super::body::object;
use super::caller::Caller;
use super::reply::with_etag;
use crate::executor::{CallRequest, Guard, check_key};
use vctx_core::dialect::Translated;
use vctx_core::error::{Code, Error, Result};
use vctx_core::memory::capture::Capture;

/// Decodes the body of a call, runs the call, and answers with the new revision.
pub(super) async fn call(
    caller: &Caller,
    body: Body,
    decode: impl FnOnce(Map<String, Value>) -> Result<Translated>,
) -> Result<Response> {
    let (arguments, _room) = object(body).await?;
    let reply = called(caller, arguments, decode).await?;
    Ok(with_etag(StatusCode::OK, &reply))
}

/// Builds a call from the call's arguments.
pub(super) async fn called(
    caller: &Caller,
    mut arguments: Map<String, Value>,
    decode: impl FnOnce(Map<String, Value>) -> Result<Translated>,
) -> Result<Value> {
    let (key, guard) = envelope(&caller.headers, &mut arguments)?;
    let capture = arguments.shift_remove("capture");
    let Translated { call, wording, any_revision } = decode(arguments.clone())?;
    let guard = if any_revision { Some(Guard::Any) } else { guard };
    let tool = wording.as_ref().map_or_else(|| call.name(), |wording| wording.name());
    let capture = capture_of(capture, tool, &arguments)?;
    let (principal, agent) = (caller.principal.clone(), caller.agent.clone());
    let request = CallRequest { principal, agent, call, arguments, key, guard, wording, capture };
    caller.executor().call(&request).await.map(|reply| reply.body)
}

/// Returns the idempotency key of a call that must have one.
pub(super) fn required_key(
    headers: &HeaderMap,
    arguments: &mut Map<String, Value>,
) -> Result<String> {
    envelope(headers, arguments)?.0.ok_or_else(|| {
        let text = "send a fresh Idempotency-Key header (or argument idempotency_key), and the same one when you retry";
        Error::new(Code::IdempotencyKeyRequired, text)
    })
}

/// Returns a call's idempotency key and guard, from its headers or arguments. If both are sent,
/// they must agree.
pub fn envelope(
    headers: &HeaderMap,
    arguments: &mut Map<String, Value>,
) -> Result<(Option<String>, Option<Guard>)> {
    let key = either(headers, "idempotency-key", arguments, "idempotency_key")?;
    key.as_deref().map_or(Ok(()), check_key)?;
    let guard = either(headers, "if-match", arguments, "_rev")?;
    Ok((key, guard.as_deref().map(Guard::parse).transpose()?))
}

fn either(
    headers: &HeaderMap,
    header: &str,
    arguments: &mut Map<String, Value>,
    argument: &str,
) -> Result<Option<String>> {
    let mut values = headers.get_all(header).iter();
    let from_header = match (values.next(), values.next()) {
        (None, _) => None,
        (Some(_), Some(_)) => return Err(Error::argument(header, "sent twice: send it once")),
        (Some(value), None) => {
            let text = value.to_str();
            let text = text.map_err(|_| Error::argument(header, "use visible ASCII characters"))?;
            Some(unquoted(text).to_owned())
        }
    };
    let from_arguments = match arguments.remove(argument) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(_) => return Err(Error::argument(argument, "must be a text")),
    };
    match (from_header, from_arguments) {
        (Some(a), Some(b)) if a != unquoted(&b) => Err(Error::argument(
            argument,
            format!("differs from the header {header}: send one of them"),
        )),
        (a, b) => Ok(a.or(b)),
    }
}

/// Returns a header's text without the quotes that entity tags and keys may have (RFC 9110 §8.8.3,
/// RFC 8941 §3.3.3). A key with quotes thus equals the same key without quotes.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text)
}

/// Parses how a call's result is appended to the queue: `true` appends the call and its result, and
/// `{"tool_call_id": …}` appends only the result.
fn capture_of(
    given: Option<Value>,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Result<Option<Capture>> {
    let wrong = || Error::argument("capture", "use true, or an object with `tool_call_id`");
    match given {
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => {
            let arguments = Value::Object(arguments.clone()).to_string();
            Ok(Some(Capture::Pair { name: tool.to_owned(), arguments }))
        }
        Some(Value::Object(mut parts)) => match (parts.remove("tool_call_id"), parts.is_empty()) {
            (Some(Value::String(id)), true) => Ok(Some(Capture::answering(id))),
            _ => Err(wrong()),
        },
        Some(_) => Err(wrong()),
    }
}
