//! A stream transaction: begun with its collections named, closed exactly once, never committed late.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use arangors::AqlQuery;
use arangors::transaction::{Status, Transaction, TransactionCollections, TransactionSettings};
use http::Method;
use serde::de::DeserializeOwned;

use super::db::{Binds, Rw};
use super::fault::{Fault, FaultKind};
use super::query::Query;
use super::uds::UdsClient;
use crate::clock;
use crate::limits::{BATCH_ROWS, TRANSACTION_BYTES_MAX, TRANSACTION_IDLE_MS_MAX};
use crate::meters;

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

/// Times the status of a transaction is asked after a lost answer.
const STATUS_TRIES_MAX: u32 = 3;

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
        metrics::counter!(meters::STORE_TRIPS, "socket" => "rw").increment(1);
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
            Ok(Status::Committed)
            | Err(Fault {
                kind: FaultKind::Lost | FaultKind::Unreachable | FaultKind::Garbage,
                ..
            }) => self.status(transaction.id()).await,
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

    /// Gives everything up.
    pub(super) async fn abort(mut self) {
        if let Some(transaction) = self.transaction.take() {
            count("aborted");
            if let Err(error) = transaction.abort().await {
                tracing::debug!(error = %Fault::from(error), "abort not answered; the database drops the transaction when it idles");
            }
        }
    }

    /// arangors has no call for the status, so it is asked raw.
    async fn status(&self, id: &str) -> Committed {
        for _ in 0..STATUS_TRIES_MAX {
            match self.rw.link.call(Method::GET, &format!("_api/transaction/{id}"), None).await {
                Ok((_, answer)) => {
                    return match answer["result"]["status"].as_str() {
                        Some("committed") => Committed::Yes,
                        Some("aborted") => Committed::No,
                        _ => Committed::Unknown,
                    };
                }
                Err(fault) if matches!(fault.kind, FaultKind::Arango { num: 1655, .. }) => {
                    return Committed::Unknown;
                }
                Err(fault) if fault.passing() => {
                    tokio::time::sleep(Duration::from_millis(20)).await
                }
                Err(_) => return Committed::Unknown,
            }
        }
        Committed::Unknown
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

fn count(outcome: &'static str) {
    metrics::counter!(meters::TRANSACTIONS, "outcome" => outcome).increment(1);
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
