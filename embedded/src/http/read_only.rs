//! The methods and paths that a read-only listener allows, and the stream transactions that began
//! on it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use http::Method;

use crate::error::{Code, Error, Result};

use super::limits::READ_STREAMS_MAX;
use super::request::Request;

/// The stream transactions that began on a read-only listener. The listener can end no other
/// transactions.
#[derive(Debug, Default)]
pub(super) struct ReadStreams {
    ids: Mutex<BTreeSet<u64>>,
}

impl ReadStreams {
    /// Adds a new transaction; if the limit is exceeded, removes the oldest.
    pub(super) fn add(&self, id: u64) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.insert(id);
        if ids.len() > READ_STREAMS_MAX {
            ids.pop_first();
        }
    }

    /// Whether the transaction began on this read-only listener.
    pub(super) fn has(&self, id: u64) -> bool {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }
}

/// Returns the error for a write on a read-only listener.
pub(super) fn refusal() -> Error {
    Error::of(Code::ReadOnly)
}

/// Refuses requests whose method and path show that they write. Queries and begins of transactions
/// pass; their handlers check them later, because only the handlers know which collections are
/// written.
pub(super) fn check(request: &Request) -> Result<()> {
    let method = &request.method;
    if [Method::GET, Method::HEAD].contains(method) {
        return Ok(());
    }
    let may_pass = match request.segments().as_slice() {
        ["_open", "auth"]
        | ["_api", "cursor", ..]
        | ["_api", "explain" | "query"]
        | ["_api", "job", ..]
        | ["_api", "transaction", "begin"] => true,
        ["_api", "transaction", id] => *id != "write",
        ["_api", "document", _] => *method == Method::PUT && request.flag("onlyget") == Some(true),
        _ => false,
    };
    if may_pass { Ok(()) } else { Err(refusal()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_read_passes() {
        let table = [
            ("GET", "/_api/collection", true),
            ("HEAD", "/_api/document/c/k", true),
            ("POST", "/_api/cursor", true),
            ("PUT", "/_api/cursor/1", true),
            ("DELETE", "/_api/cursor/1", true),
            ("POST", "/_api/explain", true),
            ("PUT", "/_api/document/c?onlyget=true", true),
            ("PUT", "/_api/document/c?onlyget=false", false),
            ("PUT", "/_api/document/c", false),
            ("POST", "/_api/document/c?onlyget=true", false),
            ("DELETE", "/_api/document/c/k", false),
            ("POST", "/_api/transaction/begin", true),
            ("DELETE", "/_api/transaction/1", true),
            ("DELETE", "/_api/transaction/write", false),
            ("POST", "/_api/collection", false),
            ("PUT", "/_api/collection/c/truncate", false),
            ("POST", "/_api/index", false),
            ("POST", "/_api/database", false),
            ("POST", "/_api/user", false),
            ("PUT", "/_admin/server/mode", false),
        ];
        for (method, target, passes) in table {
            let request = Request::new(
                method.parse().expect("a method"),
                &target.parse().expect("a target"),
                http::HeaderMap::new(),
                bytes::Bytes::new(),
            )
            .expect("a request");
            assert_eq!(check(&request).is_ok(), passes, "{method} {target}");
        }
    }
}
