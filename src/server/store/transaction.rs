//! A stream transaction: it names its collections when it begins, is closed exactly once, and is
//! never committed after a long idle time.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use arangors::transaction::{Status, Transaction, TransactionCollections, TransactionSettings};
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::db::{Binds, Rw};
use super::fault::{Fault, FaultKind, Result};
use super::query::Query;
use super::uds::UdsClient;
use crate::limits::LEFTOVER_MS;
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::limits::TRANSACTION_BYTES_MAX;

/// Longest idle time after which a stream transaction is still used, in milliseconds by this
/// server's clock. The database's own limit is 60 s; after that time, the database's answer to a
/// commit may be wrong (see ArangoDB's source code).
const TRANSACTION_IDLE_MS_MAX: u64 = 45_000;

/// A running stream transaction.
pub(super) struct Stream<'a> {
    rw: &'a Rw,
    transaction: Option<Transaction<UdsClient>>,
    last_used: Mutex<Instant>,
}

/// Outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Committed {
    /// The commit is durable.
    Yes,
    /// The transaction is not committed, and never will be.
    No,
    /// The outcome is unknown; only the record of the idempotency key shows it.
    Unknown,
}

/// Maximum number of requests for a transaction's status, or for its abort, while answers are lost.
const STATUS_TRIES_MAX: u32 = 5;
/// Pause between two requests for the status or abort of a transaction.
const STATUS_PAUSE: Duration = Duration::from_millis(20);

/// Returns whether the answer is missing or unusable, so that it is unknown whether the request was
/// executed.
fn lost(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Lost | FaultKind::Unreachable | FaultKind::Garbage)
}

impl<'a> Stream<'a> {
    /// Begins a transaction with exactly the given collections; its queries can use no others.
    pub(super) async fn begin(rw: &'a Rw, read: &[&str], write: &[&str]) -> Result<Self> {
        let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let collections =
            TransactionCollections::builder().read(names(read)).write(names(write)).build();
        let settings = TransactionSettings::builder()
            .collections(collections)
            .wait_for_sync(rw.sync)
            .allow_implicit(false)
            .max_transaction_size(TRANSACTION_BYTES_MAX)
            .build();
        let transaction = rw.link.database.begin_transaction(settings).await?;
        Ok(Self { rw, transaction: Some(transaction), last_used: Mutex::new(clock::now()) })
    }

    /// Runs a query inside the transaction. Rows are parsed directly from the database's answer:
    /// arangors (0.6.0) would first build values of them, in which the last bit of a fraction may
    /// be wrong, and its own loop loses the last of several batches.
    pub(super) async fn rows<R: DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>> {
        self.check_idle()?;
        metrics::counter!(metric::STORE_TRIPS, "socket" => "rw").increment(1);
        let rows = self.rw.link.rows_inside(self.id()?, query, binds).await?;
        *self.last_used.lock().expect("no holder panics") = clock::now();
        Ok(rows)
    }

    /// Returns whether a query inside the transaction wrote something.
    pub(super) async fn wrote(&self, query: Query, binds: Binds) -> Result<bool> {
        Ok(!self.rows::<Value>(query, binds).await?.is_empty())
    }

    /// Returns the transaction's id, for reads by other requests.
    pub(super) fn id(&self) -> Result<&str> {
        Ok(self.running()?.id())
    }

    /// Notes that another request has just used the transaction.
    pub(super) fn touch(&self) {
        *self.last_used.lock().expect("no holder panics") = clock::now();
    }

    /// Commits the transaction, and then reads its status, since the database may report success
    /// for a late commit without committing.
    pub(super) async fn commit(mut self) -> Result<Committed> {
        self.check_idle()?;
        let Some(transaction) = self.transaction.take() else { return Ok(Committed::No) };
        let answer = transaction.commit().await.map_err(Fault::from);
        let outcome = match answer {
            Ok(Status::Committed) => self.fate_of(transaction.id()).await,
            Err(fault) if lost(&fault) => self.fate_of(transaction.id()).await,
            Ok(_) => Committed::No,
            Err(fault) if fault.passing() => Committed::Unknown,
            // A database that takes no more writes answers the repeated call with an error too, so
            // the caller gets this fault, which says that the outcome is unknown.
            Err(fault) if fault.refuses_writes() || !fault.leaves_commit_open() => {
                count(if fault.leaves_commit_open() { "unknown" } else { "aborted" });
                return Err(fault);
            }
            Err(fault) => {
                tracing::warn!(%fault, "the commit got an error, so its outcome is unknown");
                Committed::Unknown
            }
        };
        count(match outcome {
            Committed::Yes => "committed",
            Committed::No => "aborted",
            Committed::Unknown => "unknown",
        });
        Ok(outcome)
    }

    /// Aborts the transaction. Repeats lost requests, since an open transaction keeps its locks
    /// until its idle timeout.
    pub(super) async fn abort(mut self) {
        let Some(transaction) = self.transaction.take() else { return };
        count("aborted");
        self.abort_by_id(transaction.id()).await;
    }

    async fn abort_by_id(&self, id: &str) {
        for _ in 0..STATUS_TRIES_MAX {
            match self.call(Method::DELETE, id).await {
                Err(fault) if lost(&fault) => tokio::time::sleep(STATUS_PAUSE).await,
                Ok(_) => return,
                Err(fault) => return tracing::debug!(%fault, "nothing to abort"),
            }
        }
        tracing::debug!("abort not answered; the idle timeout will end the transaction");
    }

    /// Finds the outcome of a commit whose answer was unclear. If the transaction is still running,
    /// sends the commit again.
    async fn fate_of(&self, id: &str) -> Committed {
        for _ in 0..STATUS_TRIES_MAX {
            match self.call(Method::GET, id).await {
                Ok(answer) => match answer["result"]["status"].as_str() {
                    Some("committed") => return Committed::Yes,
                    Some("aborted") => return Committed::No,
                    Some("running") => {
                        if let Err(fault) = self.call(Method::PUT, id).await {
                            tracing::debug!(%fault, "the repeated commit got an error");
                        }
                    }
                    _ => return Committed::Unknown,
                },
                Err(fault) if lost(&fault) => tokio::time::sleep(STATUS_PAUSE).await,
                Err(_) => return Committed::Unknown,
            }
        }
        // The transaction must not stay open. If it was committed after all, the abort has no
        // effect.
        self.abort_by_id(id).await;
        Committed::Unknown
    }

    /// Sends a request about a transaction. arangors has no method for the status, and its other
    /// methods cannot be repeated.
    async fn call(&self, method: Method, id: &str) -> Result<Value> {
        let path = format!("_api/transaction/{id}");
        self.rw.link.call(method, &path, None).await.map(|(_, answer)| answer)
    }

    fn running(&self) -> Result<&Transaction<UdsClient>> {
        self.transaction
            .as_ref()
            .ok_or_else(|| Fault::new(FaultKind::Garbage, "transaction is closed"))
    }

    fn check_idle(&self) -> Result<()> {
        let idle = self.last_used.lock().expect("no holder panics").elapsed();
        if idle < Duration::from_millis(TRANSACTION_IDLE_MS_MAX) {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::Arango { status: 410, num: 1654 },
            "the transaction was idle for too long and is no longer used",
        ))
    }
}

/// The transactions that were running when calls of this server waited for a lock, each with the
/// time when this server first saw it.
///
/// A killed server's transaction keeps its locks until its idle timeout (60 s). A normal
/// transaction ends within milliseconds, so a transaction older than `LEFTOVER_MS` is aborted. If
/// the server of an aborted transaction is alive after all, it repeats the call with the call's
/// idempotency key.
#[derive(Debug, Default)]
pub struct Leftovers {
    seen: HashMap<String, Instant>,
}

impl Leftovers {
    /// Reads the running transactions once, and aborts those that were first seen more than
    /// `LEFTOVER_MS` ago.
    pub async fn look(&mut self, rw: &Rw) -> Result<()> {
        let (_, answer) = rw.link.call(Method::GET, "_api/transaction", None).await?;
        let running: Vec<&str> = answer["transactions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|t| t["state"] == "running")
            .filter_map(|t| t["id"].as_str())
            .collect();
        self.seen.retain(|id, _| running.contains(&id.as_str()));
        for id in running {
            let since = *self.seen.entry(id.to_owned()).or_insert_with(clock::now);
            if since.elapsed() > Duration::from_millis(LEFTOVER_MS) {
                rw.link.call(Method::DELETE, &format!("_api/transaction/{id}"), None).await?;
                tracing::info!(id, "aborted a transaction that was left open");
            }
        }
        Ok(())
    }
}

fn count(outcome: &'static str) {
    metrics::counter!(metric::TRANSACTIONS, "outcome" => outcome).increment(1);
}

impl Drop for Stream<'_> {
    /// Aborts a dropped transaction in the background, so that it keeps no locks.
    fn drop(&mut self) {
        if let (Some(transaction), Ok(runtime)) =
            (self.transaction.take(), tokio::runtime::Handle::try_current())
        {
            count("aborted");
            runtime.spawn(async move { transaction.abort().await.map(|_| ()) });
        }
    }
}
