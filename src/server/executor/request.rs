//! The request for a call, and the reply to it.

use std::sync::Arc;

use serde_json::{Map, Value};

use vctx_core::error::{Code, Error, Result};
use vctx_core::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX};
use vctx_core::memory::answer_key::{answer_key, is_kept_key, kept_key, part_key};
use vctx_core::memory::capture::Capture;
use vctx_core::memory::receipt;
use vctx_core::policy::{Depends, Wording};
use vctx_core::tools::Call;
use vctx_core::trust::{Actor, Principal, Scope, admit, local_key};

/// Number of hexadecimal digits of an idempotency key's hash in log lines.
const KEY_HASH_DIGITS: usize = 16;

/// A call with its arguments, caller, idempotency key and revision guard.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The caller.
    pub principal: Principal,
    /// Name of the agent.
    pub agent: String,
    /// The decoded call.
    pub call: Call,
    /// The arguments as received; the request hash covers them.
    pub arguments: Map<String, Value>,
    /// The idempotency key from the header `Idempotency-Key` or the argument `idempotency_key`.
    pub key: Option<String>,
    /// The revision that the caller builds on.
    pub guard: Option<Guard>,
    /// Translates the answer to another tool dialect, if the call used a tool name of that dialect.
    pub wording: Option<Arc<dyn Wording>>,
    /// How the server appends the call's result to the queue; `None` if the server does not append
    /// it.
    pub capture: Option<Capture>,
}

/// The revision that a writing call builds on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Any revision: after a conflict, the server computes the change again.
    Any,
    /// The given revision: on a conflict, the caller gets an error.
    Rev(String),
    /// No revision, since the document must not exist yet. Only an ingest may use this guard.
    Absent,
}

impl CallRequest {
    /// Builds a call that the server itself makes, without idempotency key and guard.
    pub(crate) fn internal<const N: usize>(
        (principal, agent): (Principal, String),
        call: impl Into<Call>,
        arguments: [(&str, Value); N],
    ) -> Self {
        let arguments = arguments.map(|(name, value)| (name.to_owned(), value));
        Self {
            principal,
            agent,
            call: call.into(),
            arguments: Map::from_iter(arguments),
            key: None,
            guard: None,
            wording: None,
            capture: None,
        }
    }

    /// Returns the tool name that the caller used.
    pub fn tool_name(&self) -> &'static str {
        self.wording.as_ref().map_or_else(|| self.call.name(), |wording| wording.name())
    }
}

impl Guard {
    /// Parses a revision from `If-Match` or `_rev`: `*`, an empty text, or a revision with or
    /// without quotes.
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

/// The reply to a call: the envelope, which contains the result.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The envelope as JSON.
    pub body: Value,
}

/// Derives the principal and the agent's name from the key of the agent's core, for calls that the
/// server makes itself.
pub(super) fn whose(actor: &Actor, tenant: &str, key: &str) -> (Principal, String) {
    let principal = Principal { actor: actor.clone(), tenant: tenant.to_owned(), called: None };
    (principal, local_key(tenant, key).to_owned())
}

/// Returns the scope in which the server itself acts for an agent; the agent is given only by its
/// core's key.
pub(super) fn scope_of(actor: &Actor, tenant: &str, key: &str) -> Result<Scope> {
    let (principal, agent) = whose(actor, tenant, key);
    admit(&principal, &agent)
}

/// Returns the row limit of a page: the requested number, or `usual` if none was requested. Refuses
/// 0 and more than `most`.
pub(super) fn page_limit(limit: Option<u64>, (usual, most): (u64, u64)) -> Result<u64> {
    match limit.unwrap_or(usual) {
        limit if limit == 0 || limit > most => {
            Err(Error::argument("limit", format!("use 1 to {most}")))
        }
        limit => Ok(limit),
    }
}

/// Returns the document key of a call's record.
pub(super) fn replay_key(scope: &Scope, key: &str) -> String {
    answer_key(scope.key(), &kept_key(key), None)
}

/// The document keys under which the record of a call may be stored.
#[derive(Clone, Debug)]
pub(super) struct ReplayKeys {
    /// The key under which this program stores the record.
    pub(super) key: String,
    /// The key under which an earlier program version stored the record; that version hashed the
    /// caller's key itself. `None` for a caller's key that looks like a stored form, because the
    /// hash could then be the key of another call.
    pub(super) earlier: Option<String>,
}

impl ReplayKeys {
    /// Returns the document keys for the record of a whole call.
    pub(super) fn of(scope: &Scope, key: &str) -> Self {
        let earlier = || answer_key(scope.key(), key, None);
        Self { key: replay_key(scope, key), earlier: (!is_kept_key(key)).then(earlier) }
    }

    /// Returns the document keys for the record of a part of a call.
    pub(super) fn part(&self, part: u32) -> Self {
        let of = |whole: &String| part_key(whole, part.into());
        Self { key: of(&self.key), earlier: self.earlier.as_ref().map(of) }
    }

    /// Returns all document keys.
    pub(super) fn all(&self) -> Vec<&str> {
        std::iter::once(&self.key).chain(&self.earlier).map(String::as_str).collect()
    }
}

/// Returns the first digits of the hash of a call's idempotency key; log lines contain it in place
/// of the key.
pub(super) fn key_hash(request: &CallRequest) -> Option<String> {
    let key = request.key.as_deref()?;
    let scope = admit(&request.principal, &request.agent).ok()?;
    let mut hash = replay_key(&scope, key);
    hash.truncate(KEY_HASH_DIGITS);
    Some(hash)
}

/// Returns the hash of a request without its capture (how the result is appended to the queue).
pub(super) fn request_hash_of(request: &CallRequest) -> String {
    asked_hash(request.tool_name(), &request.arguments)
}

/// Returns the hash of a request including its capture. A call with a capture and the same call
/// without a capture are two different requests.
pub(super) fn request_hash(request: &CallRequest, asked: &str) -> String {
    match &request.capture {
        None => asked.to_owned(),
        Some(Capture::Result { tool_call_id }) => {
            receipt::sha256(&format!("{asked}\0result\0{tool_call_id}"))
        }
        Some(Capture::Pair { name, .. }) => receipt::sha256(&format!("{asked}\0pair\0{name}")),
    }
}

/// Refuses a capture that cannot become a queue message.
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

/// Returns the hash of a tool name and its arguments; the order of the arguments does not change
/// the hash. As in every tool, a null argument equals an absent one.
pub(super) fn asked_hash(tool: &str, arguments: &Map<String, Value>) -> String {
    let given = arguments.iter().filter(|(_, value)| !value.is_null());
    let given: Map<String, Value> =
        given.map(|(name, value)| (name.clone(), value.clone())).collect();
    let arguments = receipt::canonical_json(&Value::Object(given));
    receipt::sha256(&format!("{tool}\0{arguments}"))
}

/// Returns the idempotency key of a call, and `true` if the key is new. A call that needs no key
/// from the caller gets a new one; any other call without a key is refused.
pub(super) fn key_of(
    request: &CallRequest,
    fresh: impl FnOnce() -> String,
) -> Result<(String, bool)> {
    match request.key.as_deref() {
        None if request.call.mints_key() || !request.call.writes() => Ok((fresh(), true)),
        key => required_key(key).map(|key| (key.to_owned(), false)),
    }
}

/// Refuses an idempotency key that is empty or too long.
pub fn check_key(key: &str) -> Result<()> {
    match key.len() {
        1..=KEY_BYTES_MAX => Ok(()),
        _ => Err(Error::argument("idempotency_key", format!("use 1 to {KEY_BYTES_MAX} bytes"))),
    }
}

fn required_key(key: Option<&str>) -> Result<&str> {
    match key {
        Some(key) => check_key(key).map(|()| key),
        None => Err(Error::new(
            Code::IdempotencyKeyRequired,
            "send a fresh Idempotency-Key header (or argument idempotency_key), and the same one when you retry",
        )),
    }
}

/// Refuses a writing call that does not name the revision that it builds on, unless the call may
/// build on any revision.
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
        // Inside a JSON value that is stored unchanged, a null counts as a value.
        let kept = |provenance: Value| hash(json!({"query": "tide", "provenance": provenance}));
        assert_ne!(kept(json!({"source": null})), kept(json!({})));
    }
}
