//! A stream transaction: begun with its collections named, closed exactly once, never committed late.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use arangors::AqlQuery;
use arangors::transaction::{Status, Transaction, TransactionCollections, TransactionSettings};
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::db::{Binds, Rw};
use super::fault::{Fault, FaultKind};
use super::query::Query;
use super::uds::UdsClient;
use vctx_base::clock;
use vctx_base::metric;
use vctx_core::limits::{BATCH_ROWS, LEFTOVER_MS, TRANSACTION_BYTES_MAX, TRANSACTION_IDLE_MS_MAX};

/// A running stream transaction.
pub(super) struct Stream<'a> {
    rw: &'a Rw,
    transaction: Option<Transaction<UdsClient>>,
    last_used: Mutex<Instant>,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Committed {
    /// It is durable.
    Yes,
    /// It never will be.
    No,
    /// Nobody knows: the idempotency key decides.
    Unknown,
}

/// Times a transaction is asked for its status, or aborted, while answers are lost.
const SETTLE_TRIES_MAX: u32 = 5;
/// Pause before it is asked again.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);

/// Whether nobody knows if the request arrived.
fn lost(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Lost | FaultKind::Unreachable | FaultKind::Garbage)
}

impl<'a> Stream<'a> {
    /// Begins with exactly these collections; nothing else may be touched.
    pub(super) async fn begin(rw: &'a Rw, read: &[&str], write: &[&str]) -> Result<Self, Fault> {
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

    /// Runs a query inside. All rows must come in the first batch: arangors' own loop loses the last of several
    /// (`Transaction::aql_query`, 0.6.0), and no write of ours returns more than `BATCH_ROWS`.
    pub(super) async fn rows<R: DeserializeOwned>(
        &self,
        query: Query,
        binds: Binds,
    ) -> Result<Vec<R>, Fault> {
        self.check_idle()?;
        metrics::counter!(metric::STORE_TRIPS, "socket" => "rw").increment(1);
        let request =
            AqlQuery::builder().query(query.text).bind_vars(binds.0).batch_size(BATCH_ROWS).build();
        let answer = self.running()?.aql_query_batch::<R>(request).await?;
        *self.last_used.lock().expect("no holder panics") = clock::now();
        if answer.more {
            return Err(Fault::new(
                FaultKind::Garbage,
                format!("{} returned more than {BATCH_ROWS} rows", query.name),
            ));
        }
        Ok(answer.result)
    }

    /// Commits, and asks the database whether it did: a commit that comes too late may be answered with success and not be one.
    pub(super) async fn commit(mut self) -> Result<Committed, Fault> {
        self.check_idle()?;
        let Some(transaction) = self.transaction.take() else { return Ok(Committed::No) };
        let answer = transaction.commit().await.map_err(Fault::from);
        let outcome = match answer {
            Ok(Status::Committed) => self.settle(transaction.id()).await,
            Err(fault) if lost(&fault) => self.settle(transaction.id()).await,
            Ok(_) => Committed::No,
            Err(fault) if fault.passing() => Committed::Unknown,
            Err(fault) => {
                count("aborted");
                return Err(fault);
            }
        };
        count(match outcome {
            Committed::Yes => "committed",
            Committed::No => "aborted",
            Committed::Unknown => "unknown",
        });
        Ok(outcome)
    }

    /// Gives everything up. Repeated, because a transaction that stays open keeps its locks until it idles out.
    pub(super) async fn abort(mut self) {
        let Some(transaction) = self.transaction.take() else { return };
        count("aborted");
        self.abort_by_id(transaction.id()).await;
    }

    async fn abort_by_id(&self, id: &str) {
        for _ in 0..SETTLE_TRIES_MAX {
            match self.call(Method::DELETE, id).await {
                Err(fault) if lost(&fault) => tokio::time::sleep(SETTLE_PAUSE).await,
                Ok(_) => return,
                Err(fault) => return tracing::debug!(%fault, "nothing to abort"),
            }
        }
        tracing::debug!("abort not answered; the database drops the transaction when it idles");
    }

    /// Finds out what became of a commit whose answer does not say. One that never arrived is sent again.
    async fn settle(&self, id: &str) -> Committed {
        for _ in 0..SETTLE_TRIES_MAX {
            match self.call(Method::GET, id).await {
                Ok(answer) => match answer["result"]["status"].as_str() {
                    Some("committed") => return Committed::Yes,
                    Some("aborted") => return Committed::No,
                    Some("running") => {
                        if let Err(fault) = self.call(Method::PUT, id).await {
                            tracing::debug!(%fault, "the commit is sent again");
                        }
                    }
                    _ => return Committed::Unknown,
                },
                Err(fault) if lost(&fault) => tokio::time::sleep(SETTLE_PAUSE).await,
                Err(_) => return Committed::Unknown,
            }
        }
        // Nothing may stay open behind us; what was committed is not touched by this.
        self.abort_by_id(id).await;
        Committed::Unknown
    }

    /// A request about a transaction; arangors has no call for the status, and its others cannot be repeated.
    async fn call(&self, method: Method, id: &str) -> Result<Value, Fault> {
        let path = format!("_api/transaction/{id}");
        self.rw.link.call(method, &path, None).await.map(|(_, answer)| answer)
    }

    fn running(&self) -> Result<&Transaction<UdsClient>, Fault> {
        self.transaction
            .as_ref()
            .ok_or_else(|| Fault::new(FaultKind::Garbage, "transaction is closed"))
    }

    fn check_idle(&self) -> Result<(), Fault> {
        let idle = self.last_used.lock().expect("no holder panics").elapsed();
        if idle < Duration::from_millis(TRANSACTION_IDLE_MS_MAX) {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::Arango { status: 410, num: 1654 },
            "transaction idled too long to be trusted",
        ))
    }
}

/// Running transactions of our user that were seen while a call could not get through, and since when.
///
/// A server that was killed leaves its transaction behind, with locks, until it idles out (60 s). A living one ends in
/// milliseconds, so one that is still there after [`LEFTOVER_MS`] is aborted; should it live after all, its call is repeated
/// under its idempotency key.
#[derive(Debug, Default)]
pub struct Leftovers {
    seen: HashMap<String, Instant>,
}

impl Leftovers {
    /// Looks once, and aborts what has been there for too long.
    pub async fn look(&mut self, rw: &Rw) -> Result<(), Fault> {
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
                tracing::info!(id, "aborted a transaction that somebody left behind");
            }
        }
        Ok(())
    }
}

fn count(outcome: &'static str) {
    metrics::counter!(metric::TRANSACTIONS, "outcome" => outcome).increment(1);
}

impl Drop for Stream<'_> {
    /// A transaction that nobody closed is aborted in the background, so that it keeps no locks.
    fn drop(&mut self) {
        if let (Some(transaction), Ok(runtime)) =
            (self.transaction.take(), tokio::runtime::Handle::try_current())
        {
            count("aborted");
            runtime.spawn(async move { transaction.abort().await.map(|_| ()) });
        }
    }
}
