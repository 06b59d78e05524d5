//! `/_api/cursor`

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::value::{Object, Value};

use super::call::Call;
use super::cursors::{Batch, Cursor};
use super::limits::{BATCH_SIZE_DEFAULT, CURSOR_TTL_S_MAX};
use super::queries;
use super::reply::Reply;

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
    // A streaming query does not know how many rows it has.
    let is_stream = flag(body.attribute("options").attribute("stream"));
    let with_count = flag(body.attribute("count")) && !is_stream;
    let mut ran = queries::run(call, &query)?;
    let cursor = Cursor {
        owner: call.caller.name().to_owned(),
        database: call.db().to_owned(),
        bytes: ran.answer.stats.peak_memory_usage,
        rows: Arc::new(std::mem::take(&mut ran.answer.rows)),
        batch_size,
        ttl: Duration::from_secs_f64(ttl.min(CURSOR_TTL_S_MAX)),
        allow_retry,
        with_count,
        extra: queries::extra(&ran, &body.attribute("options").attribute("profile")),
        shared: ran.shared.clone(),
    };
    let batch = cursor.batch(1);
    if cursor.fits_one_batch() {
        ran.finish()?;
        return Ok(reply(201, None, batch));
    }
    // A result that cannot be kept must not have changed anything.
    let id = call.engine().next_id();
    if let Err(error) = call.front.cursors.keep(id, cursor) {
        ran.undo();
        return Err(error);
    }
    match (call.stream()?.filter(|_| is_stream), ran.finish()) {
        // The server reads on with each batch, so that nothing else may use the transaction in between.
        (Some(stream), Ok(Some(lent))) => call.front.cursors.occupy(id, (stream, lent)),
        (_, Ok(_)) => {}
        (_, Err(error)) => {
            call.front.cursors.remove(id, call.db(), call.caller.name())?;
            return Err(error);
        }
    }
    Ok(reply(201, Some(id), batch))
}

fn batch_size(body: &Value) -> Result<usize> {
    match queries::number(body, "batchSize")? {
        None => Ok(BATCH_SIZE_DEFAULT),
        Some(size) if size >= 1.0 => Ok(size as usize),
        Some(_) => Err(Error::new(Code::BadParameter, "'batchSize' must be at least 1")),
    }
}

/// `POST` or `PUT /_api/cursor/ID`, `POST /_api/cursor/ID/BATCH`
pub(super) fn next(call: &Call<'_>, id: &str, batch: Option<&str>) -> Result<Reply> {
    let number = cursor_id(id)?;
    let wanted = batch
        .map(|batch| batch.parse().map_err(|_| Error::of(Code::CursorNotFound)))
        .transpose()?;
    if let Some(stream) = call.stream()?
        && !call.front.cursors.occupies(number, stream)
    {
        // A fetch inside a stream transaction keeps it alive, and fails when it is gone.
        drop(call.engine().streams().lend(stream, call.db(), call.caller.name())?);
    }
    let batch = call.front.cursors.fetch(number, call.db(), call.caller.name(), wanted)?;
    Ok(reply(200, Some(number), batch))
}

/// `DELETE /_api/cursor/ID`
pub(super) fn remove(call: &Call<'_>, id: &str) -> Result<Reply> {
    call.front.cursors.remove(cursor_id(id)?, call.db(), call.caller.name())?;
    Ok(Reply::json(202, &super::reply::object! { "id" => id, "error" => false, "code" => 202_i64 }))
}

fn cursor_id(text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::of(Code::CursorNotFound))
}

fn reply(status: u16, id: Option<u64>, batch: Batch) -> Reply {
    let mut body = Object::with_capacity(9);
    body.push_new("result", batch.rows.into());
    body.push_new("hasMore", batch.next_batch.is_some().into());
    if let (Some(id), Some(_)) = (id, batch.next_batch) {
        body.push_new("id", id.to_string().into());
    }
    if let Some(count) = batch.count {
        body.push_new("count", Value::from(count as u64));
    }
    if let Some(key) = batch.shared {
        body.push_new("planCacheKey", key.into());
    }
    // A cursor tells `cached` behind `extra`, a result that is whole at once before it.
    let extra = ("extra", batch.extra);
    let cached = ("cached", Value::Bool(false));
    let both = if id.is_some() { [extra, cached] } else { [cached, extra] };
    for (name, value) in both {
        body.push_new(name, value);
    }
    if let Some(next) = batch.next_batch {
        body.push_new("nextBatchId", next.to_string().into());
    }
    Reply::ok_last(status, body)
}
