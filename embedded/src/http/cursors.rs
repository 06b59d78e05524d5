//! Results that are fetched in batches: kept by id, owned by a user, bounded in number and bytes, ended by time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Code, Error, Result};
use crate::txn::Lent;
use crate::value::Value;

use super::limits::{CURSOR_BYTES_MAX, CURSORS_MAX};

/// A query's result and how it is to be handed out.
#[derive(Debug)]
pub(super) struct Cursor {
    /// User that alone may fetch.
    pub(super) owner: String,
    /// Database of the query.
    pub(super) database: String,
    /// All rows.
    pub(super) rows: Arc<Vec<Value>>,
    /// Bytes that the query held at most; an upper bound of what the rows take.
    pub(super) bytes: u64,
    /// Rows per batch, at least 1.
    pub(super) batch_size: usize,
    /// Life after each fetch.
    pub(super) ttl: Duration,
    /// Whether the last batch can be fetched again.
    pub(super) allow_retry: bool,
    /// Whether `count` stands in each batch.
    pub(super) with_count: bool,
    /// `extra` of each batch, as JSON text.
    pub(super) extra: Arc<str>,
    /// Key of the shared plan that was used, if one was.
    pub(super) shared: Option<String>,
}

/// One batch.
#[derive(Debug)]
pub(super) struct Batch {
    /// Its rows.
    pub(super) rows: Vec<Value>,
    /// Id of the batch after it, if there is one.
    pub(super) next_batch: Option<u64>,
    /// Number of all rows, if it was asked for.
    pub(super) count: Option<usize>,
    /// Warnings and counters, as JSON text.
    pub(super) extra: Arc<str>,
    /// `planCacheKey`
    pub(super) shared: Option<String>,
}

#[derive(Debug)]
struct Kept {
    cursor: Cursor,
    /// Number of the batch handed out last, from 1.
    batch: usize,
    expires: Instant,
    /// The stream transaction of a streaming query, by number: nobody else uses it before the last batch.
    occupies: Option<(u64, Lent)>,
}

/// The cursors of one listener.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    kept: Mutex<Store>,
}

#[derive(Debug, Default)]
struct Store {
    cursors: HashMap<u64, Kept>,
    bytes: u64,
}

impl Store {
    fn remove(&mut self, id: u64) -> Option<Kept> {
        let kept = self.cursors.remove(&id)?;
        self.bytes -= kept.cursor.bytes;
        Some(kept)
    }

    fn sweep(&mut self, now: Instant) {
        let expired: Vec<u64> = self
            .cursors
            .iter()
            .filter(|(_, kept)| kept.expires <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in expired {
            self.remove(id);
        }
    }
}

impl Cursor {
    /// The batch of that number, from 1.
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
    /// No cursors.
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn kept(&self) -> MutexGuard<'_, Store> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a cursor whose first batch is handed out now; 500/32 when there is no room.
    pub(super) fn keep(&self, id: u64, cursor: Cursor) -> Result<()> {
        let now = Instant::now();
        let mut store = self.kept();
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
        store.cursors.insert(id, Kept { cursor, batch: 1, expires, occupies: None });
        Ok(())
    }

    /// Has a kept cursor occupy its stream transaction until its last batch, its deletion or its time is over.
    pub(super) fn occupy(&self, id: u64, transaction: (u64, Lent)) {
        if let Some(kept) = self.kept().cursors.get_mut(&id) {
            kept.occupies = Some(transaction);
        }
    }

    /// Whether a cursor occupies the stream transaction of that number.
    pub(super) fn occupies(&self, id: u64, transaction: u64) -> bool {
        let store = self.kept();
        let occupied = store.cursors.get(&id).and_then(|kept| kept.occupies.as_ref());
        occupied.is_some_and(|(number, _)| *number == transaction)
    }

    /// The next batch, or with `wanted` the batch of that number: the next, or the last one again if the query allowed
    /// it. 404/1600 for everything else. A cursor without retry ends with its last batch.
    pub(super) fn fetch(
        &self,
        id: u64,
        database: &str,
        owner: &str,
        wanted: Option<u64>,
    ) -> Result<Batch> {
        let gone = || Error::of(Code::CursorNotFound);
        let now = Instant::now();
        let mut store = self.kept();
        store.sweep(now);
        let kept = store.cursors.get_mut(&id).ok_or_else(gone)?;
        if kept.cursor.database != database || kept.cursor.owner != owner {
            return Err(gone());
        }
        let next = kept.batch as u64 + 1;
        let number = match wanted {
            Some(number) if number == kept.batch as u64 && kept.cursor.allow_retry => kept.batch,
            None => kept.batch + 1,
            Some(number) if number == next => kept.batch + 1,
            Some(_) => return Err(gone()),
        };
        if kept.cursor.batch_size.saturating_mul(number - 1) >= kept.cursor.rows.len() {
            return Err(gone());
        }
        kept.batch = number;
        kept.expires = now + kept.cursor.ttl;
        let batch = kept.cursor.batch(number);
        if batch.next_batch.is_none() {
            kept.occupies = None;
            if !kept.cursor.allow_retry {
                store.remove(id);
            }
        }
        Ok(batch)
    }

    /// Forgets a cursor; 404/1600 if it is not the caller's.
    pub(super) fn remove(&self, id: u64, database: &str, owner: &str) -> Result<()> {
        let mut store = self.kept();
        store.sweep(Instant::now());
        match store.cursors.get(&id) {
            Some(kept) if kept.cursor.database == database && kept.cursor.owner == owner => {
                store.remove(id);
                Ok(())
            }
            _ => Err(Error::of(Code::CursorNotFound)),
        }
    }

    /// Drops what is over its time.
    pub(super) fn sweep(&self) {
        self.kept().sweep(Instant::now());
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
        assert_eq!(fetch("ann", Some(2)), "404/1600", "no retry was asked for");
        assert_eq!(fetch("ann", Some(3)), "1 next None");
        assert_eq!(fetch("ann", None), "404/1600");
        assert_eq!(cursors.kept().bytes, 0);
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
