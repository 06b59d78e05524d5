//! Removes expired documents of ttl indexes, in bounded rounds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::date;
use crate::catalog::Catalog;
use crate::error::{Code, Result};
use crate::index::expire_after;
use crate::limits::{REQUEST_WRITES_BYTES_MAX, STEP_DOCUMENTS, TTL_COLLECTION_MAX, TTL_ROUND_MAX};
use crate::schema::{Collection, Index, IndexKind};
use crate::txn::{Beginning, Declared, IndexRange, Resources, Transaction, WriteOptions};
use crate::value::Value;

/// Upper bound of the offset of a time zone in an ISO text, in seconds.
const ZONES_S: f64 = 86_400.0;

/// Periodically removes the expired documents of all ttl indexes.
pub(crate) struct Sweeper {
    resources: Arc<Resources>,
    catalog: Arc<Catalog>,
    interval: Duration,
    last: Instant,
}

impl Sweeper {
    /// Returns a sweeper of ttl indexes whose first round starts after one interval.
    pub(crate) fn new(resources: Arc<Resources>, catalog: Arc<Catalog>, interval_ms: u64) -> Self {
        Self {
            resources,
            catalog,
            interval: Duration::from_millis(interval_ms),
            last: Instant::now(),
        }
    }

    /// Runs a round of removals if a round is due; ends the round early when `stopped` is true.
    pub(crate) fn sweep_if_due(&mut self, stopped: &dyn Fn() -> bool) -> Result<()> {
        if self.last.elapsed() < self.interval {
            return Ok(());
        }
        self.last = Instant::now();
        // `steady_clock` is used, because a system clock that is wrong for a minute must not cause
        // removals.
        let now = steady_clock::unix_ms() as f64 / 1_000.0;
        let mut left = TTL_ROUND_MAX;
        for (name, database) in self.catalog.all().iter() {
            for collection in database.collections.values() {
                let ttl = collection.indexes.iter().find(|index| index.kind == IndexKind::Ttl);
                let Some((index, after)) =
                    ttl.and_then(|index| Some((index, expire_after(index)?)))
                else {
                    continue;
                };
                if stopped() {
                    return Ok(());
                }
                let max = left.min(TTL_COLLECTION_MAX);
                left -= self.sweep_collection(name, collection, index, now - after, max)?;
            }
        }
        Ok(())
    }

    /// Removes documents that expired before the time `before` (Unix seconds). Returns the number
    /// of documents read.
    fn sweep_collection(
        &self,
        database: &str,
        collection: &Collection,
        index: &Index,
        before: f64,
        max: usize,
    ) -> Result<usize> {
        let numbers = IndexRange {
            lower: Some((Value::Double(f64::MIN), true)),
            upper: Some((Value::Double(before), true)),
            ..IndexRange::default()
        };
        let texts = IndexRange {
            lower: Some((Value::from(""), true)),
            upper: Some((Value::from(date::text_of(before + ZONES_S)), true)),
            ..IndexRange::default()
        };
        let mut looked = 0;
        for range in [numbers, texts] {
            let mut more = true;
            let mut scan = None;
            while more && looked < max {
                let Some(transaction) = self.begin(database, collection)? else {
                    return Ok(looked);
                };
                let mut place = match scan.take() {
                    Some(place) => place,
                    None => transaction.index_scan(collection, index, 0, &range, false)?,
                };
                let documents = transaction.next(&mut place, STEP_DOCUMENTS.min(max - looked))?;
                more = !documents.is_empty();
                looked += documents.len();
                for document in documents.iter().filter(|document| is_over(document, index, before))
                {
                    let key = document.text_of("_key").expect("each stored document has its key");
                    match transaction.remove(collection, key, None, &WriteOptions::default()) {
                        // Another transaction writes the document; the next round tries again.
                        Err(error) if error.code == Code::Conflict => {}
                        other => other.map(drop)?,
                    }
                }
                transaction.commit(false)?;
                scan = Some(place);
            }
        }
        Ok(looked)
    }

    /// Begins a transaction on the collection; returns `None` if the collection is locked
    /// exclusively or does not exist.
    fn begin(&self, database: &str, collection: &Collection) -> Result<Option<Transaction>> {
        let declared = Declared { write: vec![collection.name.clone()], ..Declared::default() };
        let beginning = Beginning {
            lock_wait: Some(Duration::ZERO),
            writes_bytes_max: REQUEST_WRITES_BYTES_MAX,
            wait_for_sync: false,
            one_request: true,
            locked_outside: false,
        };
        let find = || self.catalog.database(database);
        match Transaction::begin(self.resources.clone(), &find, &declared, beginning) {
            Ok(transaction) => Ok(Some(transaction)),
            Err(error)
                if matches!(
                    error.code,
                    Code::LockTimeout | Code::DataSourceNotFound | Code::DatabaseNotFound
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether a document's time (a number of Unix seconds or an ISO text) is not after `before`.
fn is_over(document: &Value, index: &Index, before: f64) -> bool {
    let path = index.fields.first().map_or(&[][..], Vec::as_slice);
    let value = path.iter().fold(document.clone(), |value, name| value.attribute(name));
    let time = match &value {
        Value::String(text) => date::seconds_of(text),
        other => other.as_f64(),
    };
    time.is_some_and(|time| time <= before)
}
