//! Handlers of `/_api/transaction`, which begin, end and list stream transactions.

use crate::error::{Code, Error, Result};
use crate::txn::{Declared, StreamSettings};
use crate::value::Value;

use super::auth::Level;
use super::call::{Call, stream_id};
use super::limits::DECLARED_MAX;
use super::queries::number;
use super::read_only;
use super::reply::{Reply, object};
use super::server::Mode;

/// `POST /_api/transaction/begin`
pub(super) fn begin(call: &Call<'_>) -> Result<Reply> {
    let body = call.request.body()?;
    let collections = body.attribute("collections");
    if collections.as_object().is_none() {
        return Err(Error::new(
            Code::BadParameter,
            "missing/invalid collections definition for transaction",
        ));
    }
    let allow_implicit = flag(&body, "allowImplicit")?.unwrap_or(true);
    let declared = Declared {
        read: names(call, &collections, "read", Level::Read)?,
        write: names(call, &collections, "write", Level::Write)?,
        exclusive: names(call, &collections, "exclusive", Level::Write)?,
        // The caller's grants on undeclared collections are not checked. As in single queries,
        // reading such collections is therefore allowed only if the caller may read all
        // collections.
        allow_implicit: allow_implicit && call.reads_everything(),
    };
    let writes = !declared.write.is_empty() || !declared.exclusive.is_empty();
    let read_only = call.front.mode == Mode::ReadOnly;
    if read_only && writes {
        return Err(read_only::refusal());
    }
    // In ArangoDB a `lockTimeout` of 0 means no limit; the engine then waits for its maximum time.
    let lock_timeout = number(&body, "lockTimeout")?.filter(|seconds| *seconds > 0.0);
    let size = number(&body, "maxTransactionSize")?.map(|bytes| bytes as u64);
    let settings = StreamSettings {
        wait_for_sync: flag(&body, "waitForSync")?.unwrap_or(false),
        lock_timeout_ms: lock_timeout.map(|seconds| ((seconds * 1000.0) as u64).max(1)),
        max_transaction_size: size,
    };
    let engine = call.engine();
    let id = engine.streams().begin(engine, call.db(), call.caller.name(), &declared, settings)?;
    if read_only {
        call.front.read_streams.add(id);
    }
    Ok(state(201, id, "running"))
}

fn flag(body: &Value, name: &str) -> Result<Option<bool>> {
    match body.attribute(name) {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(flag)),
        _ => Err(Error::new(Code::BadParameter, format!("'{name}' must be a boolean"))),
    }
}

/// Reads the collection names in `read`, `write` or `exclusive`: a text or a list of texts. Each
/// collection must exist, and the caller must have at least the access level `level` on it.
fn names(call: &Call<'_>, collections: &Value, kind: &str, level: Level) -> Result<Vec<String>> {
    let bad = || {
        let message = format!("'collections.{kind}' must be a collection name or a list of names");
        Error::new(Code::BadParameter, message)
    };
    let given = match collections.as_object().and_then(|kinds| kinds.get(kind)) {
        None => Vec::new(),
        Some(one @ Value::String(_)) => vec![one.clone()],
        Some(Value::Array(list)) if list.len() <= DECLARED_MAX => (**list).clone(),
        Some(_) => return Err(bad()),
    };
    given
        .iter()
        .map(|name| {
            let name = name.as_str().filter(|name| !name.is_empty()).ok_or_else(bad)?;
            Ok(call.permitted(name, level)?.name.clone())
        })
        .collect()
}

fn state(status: u16, id: u64, word: &str) -> Reply {
    let result = object! { "id" => id.to_string(), "status" => word };
    let code = i64::from(status);
    Reply::json(status, &object! { "code" => code, "error" => false, "result" => result })
}

/// `GET /_api/transaction`: lists the caller's running transactions in the database.
pub(super) fn all(call: &Call<'_>) -> Reply {
    let list = call.engine().streams().list(call.db(), call.caller.name());
    let list: Vec<Value> = list
        .iter()
        .map(|(id, state)| object! { "id" => id.to_string(), "state" => *state })
        .collect();
    Reply::json(200, &object! { "transactions" => list })
}

/// `GET /_api/transaction/ID`
pub(super) fn status(call: &Call<'_>, id: &str) -> Result<Reply> {
    let id = stream_id(id)?;
    let word = call.engine().streams().status(id, call.db(), call.caller.name())?;
    Ok(state(200, id, word))
}

/// Returns the transaction's id if this listener may end the transaction. A read-only listener may
/// end only transactions that began on it.
fn own(call: &Call<'_>, id: &str) -> Result<u64> {
    let id = stream_id(id)?;
    if call.front.mode == Mode::ReadOnly && !call.front.read_streams.has(id) {
        return Err(read_only::refusal());
    }
    Ok(id)
}

/// `PUT /_api/transaction/ID`
pub(super) fn commit(call: &Call<'_>, id: &str) -> Result<Reply> {
    let id = own(call, id)?;
    call.engine().streams().commit(id, call.db(), call.caller.name())?;
    Ok(state(200, id, "committed"))
}

/// `DELETE /_api/transaction/ID`
pub(super) fn abort(call: &Call<'_>, id: &str) -> Result<Reply> {
    let id = own(call, id)?;
    call.engine().streams().abort(id, call.db(), call.caller.name())?;
    Ok(state(200, id, "aborted"))
}

/// `DELETE /_api/transaction/write`: aborts the caller's running write transactions in all
/// databases.
pub(super) fn abort_writing(call: &Call<'_>) -> Reply {
    call.engine().streams().abort_writing(call.caller.name());
    Reply::result(200, object! {})
}
