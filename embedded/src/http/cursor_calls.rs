//! Handlers of `/_api/cursor`, which run queries and return their results in batches.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::value::{Sink, Value, write_text};

use super::auth::random;
use super::call::Call;
use super::cursors::{Batch, Cursor};
use super::limits::{BATCH_SIZE_DEFAULT, CURSOR_TTL_S_MAX};
use super::queries;
use super::reply::Reply;

/// Bytes reserved for an answer: at most the first number for the rows of the batch, and the second
/// number for the text around the rows.
const REPLY_BYTES_MAX: usize = 64 << 10;
const REPLY_BYTES_MORE: usize = 1024;

/// `POST /_api/cursor`
pub(super) fn create(call: &Call<'_>) -> Result<Reply> {
    let body = Value::object(call.request.object()?);
    let query = queries::query_of(&body)?;
    let batch_size = batch_size(&body)?;
    let ttl = queries::number(&body, "ttl")?
        .filter(|s| *s > 0.0)
        .unwrap_or(call.engine().options().role.cursor_ttl_s());
    let flag = |value: Value| matches!(value, Value::Bool(true));
    let allow_retry = flag(body.attribute("options").attribute("allowRetry"));
    // ArangoDB cannot know the number of rows of a streaming query, so `count` is ignored.
    let is_stream = flag(body.attribute("options").attribute("stream"));
    let with_count = flag(body.attribute("count")) && !is_stream;
    let mut ran = queries::run(call, &query)?;
    let (rows, share) = (std::mem::take(&mut ran.answer.rows), ran.answer.share.take());
    let extra = queries::extra(&ran, &body.attribute("options").attribute("profile")).into();
    let bytes = ran.answer.stats.peak_memory_usage;
    if rows.len() <= batch_size {
        let count = with_count.then_some(rows.len());
        let batch = Batch { rows, next_batch: None, count, extra, shared: ran.shared.take() };
        ran.finish()?;
        let reply = reply(201, None, bytes, &batch);
        drop((batch, share));
        return Ok(reply);
    }
    let cursor = Cursor {
        owner: call.caller.name().to_owned(),
        database: call.db().to_owned(),
        bytes,
        _share: share,
        rows: Arc::new(rows),
        batch_size,
        ttl: Duration::from_secs_f64(ttl.min(CURSOR_TTL_S_MAX)),
        allow_retry,
        with_count,
        extra,
        shared: ran.shared.clone(),
    };
    let batch = cursor.batch(1);
    // The cursor is stored before the commit, because a query whose result cannot be stored must
    // not change any data.
    // Behind a proxy all clients are one user, so an id must not lead to the cursors of others.
    let id = u64::from_le_bytes(random()?) >> 1;
    if let Err(error) = call.front.cursors.keep(id, cursor) {
        ran.undo();
        return Err(error);
    }
    match (call.stream()?.filter(|_| is_stream), ran.finish()) {
        // In ArangoDB a streaming query reads in the transaction until the last batch is fetched.
        // Until then, no other call may use the transaction.
        (Some(stream), Ok(Some(lent))) => call.front.cursors.occupy(id, (stream, lent)),
        (_, Ok(_)) => {}
        (_, Err(error)) => {
            call.front.cursors.remove(id, call.db(), call.caller.name())?;
            return Err(error);
        }
    }
    Ok(reply(201, Some(id), bytes, &batch))
}

fn batch_size(body: &Value) -> Result<usize> {
    match queries::number(body, "batchSize")? {
        None => Ok(BATCH_SIZE_DEFAULT),
        Some(size) if size >= 1.0 => Ok(size as usize),
        Some(_) => Err(Error::new(Code::BadParameter, "'batchSize' must be at least 1")),
    }
}

/// `POST` or `PUT /_api/cursor/ID` returns the next batch; `POST /_api/cursor/ID/BATCH` returns the
/// batch with that number.
pub(super) fn next(call: &Call<'_>, id: &str, batch: Option<&str>) -> Result<Reply> {
    let number = cursor_id(id)?;
    let wanted = batch
        .map(|batch| batch.parse().map_err(|_| Error::of(Code::CursorNotFound)))
        .transpose()?;
    if let Some(stream) = call.stream()?
        && !call.front.cursors.occupies(number, stream)
    {
        // Fetching a batch inside a stream transaction keeps the transaction alive, and fails if
        // the transaction no longer exists.
        drop(call.engine().streams().lend(stream, call.db(), call.caller.name())?);
    }
    let batch = call.front.cursors.fetch(number, call.db(), call.caller.name(), wanted)?;
    Ok(reply(200, Some(number), 0, &batch))
}

/// `DELETE /_api/cursor/ID`
pub(super) fn remove(call: &Call<'_>, id: &str) -> Result<Reply> {
    call.front.cursors.remove(cursor_id(id)?, call.db(), call.caller.name())?;
    Ok(Reply::json(202, &super::reply::object! { "id" => id, "error" => false, "code" => 202_i64 }))
}

fn cursor_id(text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::of(Code::CursorNotFound))
}

/// Writes a batch as JSON text; `bytes` is an upper bound for the size of its rows.
fn reply(status: u16, id: Option<u64>, bytes: u64, batch: &Batch) -> Reply {
    let room = usize::try_from(bytes).unwrap_or(REPLY_BYTES_MAX).min(REPLY_BYTES_MAX);
    let mut text = Vec::with_capacity(room + REPLY_BYTES_MORE);
    text.put("{\"result\":[");
    for (at, row) in batch.rows.iter().enumerate() {
        if at > 0 {
            text.put(",");
        }
        write_text(row, &mut text);
    }
    text.put("]");
    let mut put = |name: &str, value: &str| {
        text.put(",\"");
        text.put(name);
        text.put("\":");
        text.put(value);
    };
    put("hasMore", if batch.next_batch.is_some() { "true" } else { "false" });
    if let (Some(id), Some(_)) = (id, batch.next_batch) {
        put("id", &format!("\"{id}\""));
    }
    if let Some(count) = batch.count {
        put("count", &count.to_string());
    }
    if let Some(key) = &batch.shared {
        put("planCacheKey", &Value::from(key.as_str()).to_json());
    }
    // As in arangod, `cached` comes after `extra` in an answer with a cursor, and before `extra` in
    // an answer with the complete result.
    let extra = ("extra", &*batch.extra);
    let cached = ("cached", "false");
    let both = if id.is_some() { [extra, cached] } else { [cached, extra] };
    for (name, value) in both {
        put(name, value);
    }
    if let Some(next) = batch.next_batch {
        put("nextBatchId", &format!("\"{next}\""));
    }
    put("error", "false");
    put("code", &status.to_string());
    text.put("}");
    Reply::json_bytes(status, text)
}
