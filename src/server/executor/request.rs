//! A call as it came, and the reply it gets.

use std::sync::Arc;

use serde_json::{Map, Value};

use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX};
use vctx_core::memory::capture::Capture;
use vctx_core::memory::receipt;
use vctx_core::policy::{Depends, Principal, Scope, Wording, admit};
use vctx_core::tools::Call;

/// Hex digits of a key's hash in a log line.
const KEY_HASH_DIGITS: usize = 16;

/// A call with everything that stands around its arguments.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// Who calls.
    pub principal: Principal,
    /// Agent by name.
    pub agent: String,
    /// What is asked.
    pub call: Call,
    /// Its arguments as they came, for the request hash.
    pub arguments: Map<String, Value>,
    /// `Idempotency-Key` header or `idempotency_key` argument.
    pub key: Option<String>,
    /// What the caller builds on.
    pub guard: Option<Guard>,
    /// How the caller is told what came of it, if the call came under another name than ours.
    pub wording: Option<Arc<dyn Wording>>,
    /// How the result is to stand in the queue; none: it is the caller's to append.
    pub capture: Option<Capture>,
}

/// What a writing call builds on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Any revision: conflicts are recomputed here.
    Any,
    /// This revision: a conflict goes back to the caller.
    Rev(String),
    /// Nothing: what the call makes must not exist yet. Only an ingest builds on that.
    Absent,
}

impl CallRequest {
    /// The name under which the call came.
    pub fn named(&self) -> &'static str {
        self.wording.as_ref().map_or_else(|| self.call.name(), |wording| wording.name())
    }
}

impl Guard {
    /// Reads `If-Match` or `_rev`: `*`, a revision with or without quotes, or nothing at all.
    pub fn parse(text: &str) -> Result<Self> {
        let bare = text.trim().trim_matches('"');
        match bare {
            "*" => Ok(Self::Any),
            "" => Ok(Self::Absent),
            _ if bare.len() > KEY_BYTES_MAX => {
                Err(Error::argument("_rev", "not a revision of this server"))
            }
            rev => Ok(Self::Rev(rev.to_owned())),
        }
    }
}

/// A reply: the envelope of design §5.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The JSON body.
    pub body: Value,
}

/// Hash of an agent's idempotency key: the record's document key.
pub(super) fn replay_key(scope: &Scope, key: &str) -> String {
    receipt::sha256(&format!("{}\0{key}", scope.key()))
}

/// The beginning of the hash of the key that a call came with, as log lines tell it: enough to find its audit row, and no key.
pub(super) fn key_hash(request: &CallRequest) -> Option<String> {
    let key = request.key.as_deref()?;
    let scope = admit(&request.principal, &request.agent).ok()?;
    let mut hash = replay_key(&scope, key);
    hash.truncate(KEY_HASH_DIGITS);
    Some(hash)
}

/// Hash of what a request asks that is not captured.
pub(super) fn request_hash_of(request: &CallRequest) -> String {
    asked_hash(request.named(), &request.arguments)
}

/// Hash of the request, of what it asks and how it is captured: one that is captured is another request than the same one that is not.
pub(super) fn request_hash(request: &CallRequest, asked: &str) -> String {
    match &request.capture {
        None => asked.to_owned(),
        Some(Capture::Result { tool_call_id }) => {
            receipt::sha256(&format!("{asked}\0result\0{tool_call_id}"))
        }
        Some(Capture::Pair { name, .. }) => receipt::sha256(&format!("{asked}\0pair\0{name}")),
    }
}

/// Refuses what could not stand in a message.
pub(super) fn check_capture(request: &CallRequest) -> Result<()> {
    let Some(capture) = &request.capture else { return Ok(()) };
    let (field, name, bytes) = match capture {
        Capture::Result { tool_call_id } => ("capture.tool_call_id", tool_call_id, 0),
        Capture::Pair { name, arguments } => ("capture.name", name, arguments.len()),
    };
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::argument(field, format!("use 1 to {NAME_BYTES_MAX} bytes")));
    }
    if bytes > TEXT_BYTES_MAX {
        let text = format!("the arguments are longer than {TEXT_BYTES_MAX} bytes");
        return Err(Error::argument("capture", text));
    }
    Ok(())
}

/// Hash of what a call asks, whatever the order of its arguments. One that is null is one that was left out: no tool takes it otherwise.
pub(super) fn asked_hash(tool: &str, arguments: &Map<String, Value>) -> String {
    let given = arguments.iter().filter(|(_, value)| !value.is_null());
    let given: Map<String, Value> =
        given.map(|(name, value)| (name.clone(), value.clone())).collect();
    let arguments = receipt::canonical_json(&Value::Object(given));
    receipt::sha256(&format!("{tool}\0{arguments}"))
}

/// The key of a writing call, or why it may not go on without one. A call that may have its key minted gets a fresh one;
/// true means that it did.
pub(super) fn key_of(
    request: &CallRequest,
    fresh: impl FnOnce() -> String,
) -> Result<(String, bool)> {
    match request.key.as_deref() {
        None if request.call.mints_key() || !request.call.writes() => Ok((fresh(), true)),
        key => required_key(key).map(|key| (key.to_owned(), false)),
    }
}

fn required_key(key: Option<&str>) -> Result<&str> {
    match key {
        Some(key) if !key.is_empty() && key.len() <= KEY_BYTES_MAX => Ok(key),
        Some(_) => {
            Err(Error::argument("idempotency_key", format!("use 1 to {KEY_BYTES_MAX} bytes")))
        }
        None => Err(Error::new(
            Code::IdempotencyKeyRequired,
            "send a fresh Idempotency-Key header (or argument idempotency_key), and the same one when you retry",
        )),
    }
}

/// Whether a writing call says what it builds on, or means any revision.
pub(super) fn check_guarded(request: &CallRequest) -> Result<()> {
    if request.guard == Some(Guard::Absent) && request.call.depends() != Depends::Manifest {
        return Err(Error::argument(
            "_rev",
            "empty: give the revision of the last answer, or \"*\" for any",
        ));
    }
    let harmless = request.call.any_revision() || !request.call.writes();
    if request.guard.is_some() || harmless {
        return Ok(());
    }
    Err(Error::new(
        Code::PreconditionRequired,
        "send If-Match (or argument _rev) with the _rev of the last answer, or \"*\" for any revision",
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hash(arguments: Value) -> String {
        asked_hash("search_recall", arguments.as_object().expect("an object"))
    }

    #[test]
    fn neither_order_nor_a_null_makes_another_request() {
        let plain = hash(json!({"query": "tide", "limit": 3}));
        assert_eq!(hash(json!({"limit": 3, "query": "tide"})), plain);
        assert_eq!(hash(json!({"limit": 3, "page_token": null, "query": "tide"})), plain);
        assert_ne!(hash(json!({"limit": 4, "query": "tide"})), plain);
        // Inside of what is stored as it came a null is a value.
        let kept = |provenance: Value| hash(json!({"query": "tide", "provenance": provenance}));
        assert_ne!(kept(json!({"source": null})), kept(json!({})));
    }
}
