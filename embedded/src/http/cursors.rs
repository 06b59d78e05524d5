//! Query results that clients fetch in batches. A cursor belongs to one user and expires; the
//! number and total size of cursors are limited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Code, Error, Result};
use crate::expr::Share;
use crate::txn::Lent;
use crate::value::Value;

use super::limits::{CURSOR_BYTES_MAX, CURSORS_MAX};

/// A query's result and the options of its batches.
#[derive(Debug)]
pub(super) struct Cursor {
    /// The only user who may fetch batches.
    pub(super) owner: String,
    /// Database of the query.
    pub(super) database: String,
    /// All rows of the result.
    pub(super) rows: Arc<Vec<Value>>,
    /// The query's peak memory in bytes, an upper bound for the size of the rows.
    pub(super) bytes: u64,
    /// The memory of the rows, as a part of the memory of all queries.
    pub(super) _share: Option<Share>,
    /// Maximum number of rows in a batch, at least 1.
    pub(super) batch_size: usize,
    /// Time after a fetched batch until the cursor expires.
    pub(super) ttl: Duration,
    /// Whether the batch that was returned last can be fetched again.
    pub(super) allow_retry: bool,
    /// Whether each batch has the attribute `count`.
    pub(super) with_count: bool,
    /// The attribute `extra` of each batch, as JSON text.
    pub(super) extra: Arc<str>,
    /// Key of the shared plan, if the query used one.
    pub(super) shared: Option<String>,
}

/// One batch of a cursor's rows.
#[derive(Debug)]
pub(super) struct Batch {
    /// The rows of the batch.
    pub(super) rows: Vec<Value>,
    /// Id of the next batch, if any.
    pub(super) next_batch: Option<u64>,
    /// Number of rows in the entire result, if the request asked for it.
    pub(super) count: Option<usize>,
    /// The query's warnings and counters (`extra`), as JSON text.
    pub(super) extra: Arc<str>,
    /// `planCacheKey`
    pub(super) shared: Option<String>,
}

#[derive(Debug)]
struct OpenCursor {
    cursor: Cursor,
    /// Number of the last returned batch, from 1.
    batch: usize,
    expires: Instant,
    /// The stream transaction of a streaming query, with its id. No other call may use the
    /// transaction before the last batch is fetched.
    occupies: Option<(u64, Lent)>,
}

/// The cursors of one listener.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    store: Mutex<Store>,
}

#[derive(Debug, Default)]
struct Store {
    cursors: HashMap<u64, OpenCursor>,
    bytes: u64,
}

impl Store {
    fn remove(&mut self, id: u64) -> Option<OpenCursor> {
        let open = self.cursors.remove(&id)?;
        self.bytes -= open.cursor.bytes;
        Some(open)
    }

    fn sweep(&mut self, now: Instant) {
        let expired: Vec<u64> = self
            .cursors
            .iter()
            .filter(|(_, open)| open.expires <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in expired {
            self.remove(id);
        }
    }
}

impl Cursor {
    /// Returns the batch with the given number; numbers begin at 1.
    pub(super) fn batch(&self, number: usize) -> Batch {
        let start = self.batch_size.saturating_mul(number - 1).min(self.rows.len());
        let end = start.saturating_add(self.batch_size).min(self.rows.len());
        Batch {
            rows: self.rows[start..end].to_vec(),
            next_batch: (end < self.rows.len()).then_some(number as u64 + 1),
            count: self.with_count.then_some(self.rows.len()),
            extra: Arc::clone(&self.extra),
            shared: self.shared.clone(),
        }
    }
}

impl Cursors {
    /// Returns an empty set of cursors.
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a cursor whose first batch is in the current answer; error 500/32 if a limit would be
    /// exceeded.
    pub(super) fn keep(&self, id: u64, cursor: Cursor) -> Result<()> {
        let now = Instant::now();
        let mut store = self.store();
        store.sweep(now);
        let full = |what: &str| {
            Err(Error::new(Code::ResourceLimit, format!("too many {what} in open cursors")))
        };
        if store.cursors.len() >= CURSORS_MAX {
            return full("results");
        }
        let bytes = store.bytes.saturating_add(cursor.bytes);
        if bytes > CURSOR_BYTES_MAX {
            return full("bytes");
        }
        store.bytes = bytes;
        let expires = now + cursor.ttl;
        store.cursors.insert(id, OpenCursor { cursor, batch: 1, expires, occupies: None });
        Ok(())
    }

    /// Reserves a stream transaction for a stored cursor until the cursor's last batch, removal or
    /// expiry.
    pub(super) fn occupy(&self, id: u64, transaction: (u64, Lent)) {
        if let Some(open) = self.store().cursors.get_mut(&id) {
            open.occupies = Some(transaction);
        }
    }

    /// Whether the cursor `id` reserves the stream transaction with the id `transaction`.
    pub(super) fn occupies(&self, id: u64, transaction: u64) -> bool {
        let store = self.store();
        let occupied = store.cursors.get(&id).and_then(|open| open.occupies.as_ref());
        occupied.is_some_and(|(number, _)| *number == transaction)
    }

    /// Returns the next batch. `wanted` may be the number of the next batch or, if the query set
    /// `allowRetry`, of the batch returned last; any other number is error 404/1600. A cursor
    /// without `allowRetry` is removed with its last batch.
    pub(super) fn fetch(
        &self,
        id: u64,
        database: &str,
        owner: &str,
        wanted: Option<u64>,
    ) -> Result<Batch> {
        let gone = || Error::of(Code::CursorNotFound);
        let now = Instant::now();
        let mut store = self.store();
        store.sweep(now);
        let open = store.cursors.get_mut(&id).ok_or_else(gone)?;
        if open.cursor.database != database || open.cursor.owner != owner {
            return Err(gone());
        }
        let next = open.batch as u64 + 1;
        let number = match wanted {
            Some(number) if number == open.batch as u64 && open.cursor.allow_retry => open.batch,
            None => open.batch + 1,
            Some(number) if number == next => open.batch + 1,
            Some(_) => return Err(gone()),
        };
        if open.cursor.batch_size.saturating_mul(number - 1) >= open.cursor.rows.len() {
            return Err(gone());
        }
        open.batch = number;
        open.expires = now + open.cursor.ttl;
        let batch = open.cursor.batch(number);
        if batch.next_batch.is_none() {
            open.occupies = None;
            if !open.cursor.allow_retry {
                store.remove(id);
            }
        }
        Ok(batch)
    }

    /// Removes a cursor; error 404/1600 for a cursor of another caller.
    pub(super) fn remove(&self, id: u64, database: &str, owner: &str) -> Result<()> {
        let mut store = self.store();
        store.sweep(Instant::now());
        match store.cursors.get(&id) {
            Some(open) if open.cursor.database == database && open.cursor.owner == owner => {
                store.remove(id);
                Ok(())
            }
            _ => Err(Error::of(Code::CursorNotFound)),
        }
    }

    /// Removes expired cursors.
    pub(super) fn sweep(&self) {
        self.store().sweep(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(rows: i64, allow_retry: bool, ttl_ms: u64) -> Cursor {
        Cursor {
            owner: "ann".into(),
            database: "d".into(),
            rows: Arc::new((1..=rows).map(Value::Int).collect()),
            bytes: 100,
            _share: None,
            batch_size: 2,
            ttl: Duration::from_millis(ttl_ms),
            allow_retry,
            with_count: true,
            extra: "{}".into(),
            shared: None,
        }
    }

    fn sizes(result: &Result<Batch>) -> String {
        match result {
            Ok(batch) => format!("{} next {:?}", batch.rows.len(), batch.next_batch),
            Err(error) => format!("{}/{}", error.status(), error.code.num()),
        }
    }

    #[test]
    fn batches_come_in_order_and_only_to_their_owner() {
        let cursors = Cursors::new();
        cursors.keep(1, cursor(5, false, 60_000)).expect("room");
        let fetch = |user: &str, wanted| sizes(&cursors.fetch(1, "d", user, wanted));
        assert_eq!(fetch("bob", None), "404/1600");
        assert_eq!(sizes(&cursors.fetch(1, "e", "ann", None)), "404/1600");
        assert_eq!(fetch("ann", None), "2 next Some(3)");
        assert_eq!(fetch("ann", Some(2)), "404/1600", "the cursor does not allow retries");
        assert_eq!(fetch("ann", Some(3)), "1 next None");
        assert_eq!(fetch("ann", None), "404/1600");
        assert_eq!(cursors.store().bytes, 0);
    }

    #[test]
    fn with_retry_the_last_batch_stays_until_it_is_deleted() {
        let cursors = Cursors::new();
        cursors.keep(1, cursor(3, true, 60_000)).expect("room");
        let fetch = |wanted| sizes(&cursors.fetch(1, "d", "ann", wanted));
        assert_eq!(fetch(Some(1)), "2 next Some(2)");
        assert_eq!(fetch(Some(2)), "1 next None");
        assert_eq!(fetch(Some(2)), "1 next None");
        assert_eq!(fetch(Some(1)), "404/1600");
        assert_eq!(fetch(None), "404/1600");
        cursors.remove(1, "d", "ann").expect("is there");
        assert_eq!(fetch(Some(2)), "404/1600");
    }

    #[test]
    fn time_number_and_bytes_end_cursors() {
        let cursors = Cursors::new();
        cursors.keep(1, cursor(3, false, 0)).expect("room");
        assert_eq!(sizes(&cursors.fetch(1, "d", "ann", None)), "404/1600");
        for id in 0..CURSORS_MAX as u64 {
            cursors.keep(id, cursor(3, false, 60_000)).expect("room");
        }
        let refused = cursors.keep(99_999, cursor(3, false, 60_000)).expect_err("full");
        assert_eq!((refused.status(), refused.code.num()), (500, 32));
        let cursors = Cursors::new();
        let big = || Cursor { bytes: CURSOR_BYTES_MAX / 2 + 1, ..cursor(3, false, 60_000) };
        cursors.keep(1, big()).expect("room");
        assert_eq!(cursors.keep(2, big()).expect_err("full").code.num(), 32);
        cursors.remove(1, "d", "ann").expect("is there");
        cursors.keep(2, big()).expect("room again");
    }
}
