//! Checks stream transactions: visibility, conflicts, commit and abort, and the expiry of an idle
//! transaction.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::objects::insert;
use super::report::Rows;
use super::scratch::Ground;
use super::visit::{NO_GROUND, Visit};
use crate::checks::{self, Step};
use crate::store::{Answer, DatabaseRequest, Result, probe};
use vctx_base::clock;
use vctx_core::limits::TRANSACTION_BYTES_MAX;

/// Longest wait until an idle transaction expires, in milliseconds. arangod's default timeout is 60
/// s (`--transaction.streaming-idle-timeout`), checked every few seconds.
const IDLE_MS_MAX: u64 = 75_000;
/// Pause between two readings of the list of transactions, in milliseconds.
const LOOK_MS: u64 = 250;
/// An id that belongs to no transaction: valid for a coordinator, but larger than any assigned id.
const NO_ID: &str = "9007199254740001";

/// Begins a transaction that may write only to the given collections.
pub(super) async fn begin(ground: &Ground, writes: &[&str]) -> Result<Answer> {
    let body = json!({"collections": {"write": writes}, "allowImplicit": false, "maxTransactionSize": TRANSACTION_BYTES_MAX});
    ground.ask(Method::POST, "_api/transaction/begin", &body).await
}

/// An open transaction of a check.
struct Open<'a> {
    ground: &'a Ground,
    id: String,
}

impl<'a> Open<'a> {
    /// Begins a transaction. If the database refuses the transaction, ends the step with the reason
    /// in the report and returns `None`.
    async fn begin(ground: &'a Ground, rows: &mut Rows) -> Result<Option<Self>> {
        let begun = begin(ground, &[&ground.of("docs")]).await?;
        match begun.body["result"]["id"].as_str() {
            Some(id) if begun.status == 201 => Ok(Some(Self { ground, id: id.to_owned() })),
            _ => {
                rows.cut(Step::Transactions, &format!("no transaction begins: {begun}"));
                Ok(None)
            }
        }
    }

    fn path(&self) -> String {
        format!("_api/transaction/{}", self.id)
    }

    /// Commits (`PUT`), aborts (`DELETE`) or reads the status (`GET`) of the transaction.
    async fn ask(&self, method: Method) -> Result<Answer> {
        self.ground.ask(method, &self.path(), &Value::Null).await
    }

    async fn status(&self) -> Result<String> {
        let answer = self.ask(Method::GET).await?;
        Ok(answer.body["result"]["status"]
            .as_str()
            .map_or_else(|| answer.to_string(), str::to_owned))
    }

    async fn insert(&self, key: &str) -> Result<Answer> {
        let binds = json!({"@docs": self.ground.of("docs"), "row": {"_key": key}});
        probe::run_in(&self.ground.db, Some(&self.id), probe::INSERT, &binds).await
    }

    async fn change(&self, key: &str, to: u64) -> Result<Answer> {
        let binds = json!({"@docs": self.ground.of("docs"), "row": {"_key": key}, "patch": {"n": to}, "keep_null": true});
        probe::run_in(&self.ground.db, Some(&self.id), probe::UPDATE, &binds).await
    }

    /// Returns whether a document is visible, read inside or outside the transaction.
    async fn sees(&self, inside: bool, key: &str) -> Result<bool> {
        let id = inside.then_some(self.id.as_str());
        let binds = json!({"@docs": self.ground.of("docs"), "key": key});
        let read = probe::run_in(&self.ground.db, id, probe::READ, &binds).await?;
        Ok(read.body["result"].as_array().is_some_and(|found| !found.is_empty()))
    }
}

/// Runs the doctor's checks of transactions.
pub(super) async fn look(visit: &Visit<'_>, rows: &mut Rows) -> Result<()> {
    let Some(ground) = visit.ground else {
        rows.skip_rest(Step::Transactions, NO_GROUND);
        return Ok(());
    };
    ground.collection("docs").await?;
    ground.collection("mine").await?;
    aborted(ground, rows).await?;
    committed(ground, rows).await?;
    conflict(ground, rows).await?;
    refused(ground, rows).await?;
    busy(ground, rows).await?;
    idle(visit, ground, rows).await
}

async fn aborted(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let Some(open) = Open::begin(ground, rows).await? else { return Ok(()) };
    let listed = ground.ask(Method::GET, "_api/transaction", &Value::Null).await?;
    let entries = listed.body["transactions"].as_array().cloned().unwrap_or_default();
    let own = entries.iter().find(|entry| entry["id"] == open.id.as_str());
    let state = own.map_or("not listed", |entry| entry["state"].as_str().unwrap_or_default());
    let status = open.status().await?;
    rows.see(
        checks::BEGIN,
        state == "running" && status == "running",
        format!("status {status}; state in the list: {state}"),
    );
    let written = open.insert("inside").await?;
    let (inside, outside) = (open.sees(true, "inside").await?, open.sees(false, "inside").await?);
    rows.see(
        checks::READS,
        written.is_ok() && inside && !outside,
        format!("write {written}; visible inside: {inside}, outside: {outside}"),
    );
    let ended = open.ask(Method::DELETE).await?;
    let (status, after) = (open.status().await?, open.insert("late").await?);
    let gone = !open.sees(false, "inside").await?;
    rows.see(
        checks::ABORT,
        ended.is_ok() && status == "aborted" && gone && is_over(&after),
        format!("abort {ended}; status {status}; write removed: {gone}; later write {after}"),
    );
    Ok(())
}

/// Returns whether an answer says that the transaction is over.
fn is_over(answer: &Answer) -> bool {
    answer.is(410, 1654) || answer.is(404, 1655)
}

async fn committed(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let Some(open) = Open::begin(ground, rows).await? else { return Ok(()) };
    let written = open.insert("kept").await?;
    let ended = open.ask(Method::PUT).await?;
    let (status, kept) = (open.status().await?, open.sees(false, "kept").await?);
    rows.see(
        checks::COMMIT,
        written.is_ok() && ended.is_ok() && status == "committed" && kept,
        format!("commit {ended}; status {status}; write kept: {kept}"),
    );
    let Some(open) = Open::begin(ground, rows).await? else { return Ok(()) };
    open.insert("kept_too").await?;
    let headers = [("x-arango-trx-id", open.id.as_str())];
    let path = open.path();
    let request =
        DatabaseRequest { method: Method::PUT, path: &path, headers: &headers, body: None };
    let ended = ground.db.exchange(request).await?;
    let (status, kept) = (open.status().await?, open.sees(false, "kept_too").await?);
    rows.see(
        checks::COMMIT_HEADER,
        ended.is_ok() && status == "committed" && kept,
        format!("commit {ended}; status {status}; write kept: {kept}"),
    );
    Ok(())
}

async fn conflict(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let fresh = insert(ground, "docs", &json!({"_key": "contended", "n": 0})).await?;
    let Some(first) = Open::begin(ground, rows).await? else { return Ok(()) };
    let Some(second) = Open::begin(ground, rows).await? else { return Ok(()) };
    let won = first.change("contended", 1).await?;
    let lost = second.change("contended", 2).await?;
    second.ask(Method::DELETE).await?;
    let ended = first.ask(Method::PUT).await?;
    rows.see(
        checks::CONFLICT,
        fresh.is_ok() && won.is_ok() && lost.is(409, 1200) && ended.is_ok(),
        format!("first write {won}; second write {lost}; commit {ended}"),
    );
    Ok(())
}

async fn refused(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let Some(open) = Open::begin(ground, rows).await? else { return Ok(()) };
    let binds = json!({"@docs": ground.of("mine"), "row": {"_key": "undeclared"}});
    let answer = probe::run_in(&ground.db, Some(&open.id), probe::INSERT, &binds).await?;
    open.ask(Method::DELETE).await?;
    rows.see(checks::UNDECLARED, answer.is(400, 1652), answer.to_string());
    let binds = json!({"@docs": ground.of("docs"), "key": "kept"});
    let unknown = probe::run_in(&ground.db, Some(NO_ID), probe::READ, &binds).await?;
    rows.see(checks::UNKNOWN, unknown.is(404, 1655), unknown.to_string());
    Ok(())
}

async fn idle(visit: &Visit<'_>, ground: &Ground, rows: &mut Rows) -> Result<()> {
    if !rows.wants_check(checks::IDLE) {
        return Ok(());
    }
    if visit.order.quick {
        rows.skip(checks::IDLE, "waits a minute: run without --quick");
        return Ok(());
    }
    let Some(open) = Open::begin(ground, rows).await? else { return Ok(()) };
    open.insert("idle").await?;
    let begun = clock::now();
    // Reads the list of all transactions, since a request for the idle transaction would keep it
    // alive.
    let gone = loop {
        let listed = ground.ask(Method::GET, "_api/transaction", &Value::Null).await?;
        let entries = listed.body["transactions"].as_array().cloned().unwrap_or_default();
        if !entries
            .iter()
            .any(|entry| entry["id"] == open.id.as_str() && entry["state"] == "running")
        {
            break true;
        }
        if begun.elapsed() > Duration::from_millis(IDLE_MS_MAX) {
            break false;
        }
        tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
    };
    let s = begun.elapsed().as_secs();
    let after = open.insert("too_late").await?;
    // arangod may report success for a late commit that wrote nothing; only the transaction's
    // status shows the abort.
    let (late, status) = (open.ask(Method::PUT).await?, open.status().await?);
    let kept = open.sees(false, "idle").await?;
    open.ask(Method::DELETE).await?;
    rows.see(
        checks::IDLE,
        gone && is_over(&after) && !kept && status != "committed",
        format!("no longer running: {gone}, after {s} s; late write {after}; late commit {late}; status {status}; early write kept: {kept}"),
    );
    Ok(())
}

/// Sends two concurrent requests in one transaction.
async fn busy(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let Some(open) = Open::begin(ground, rows).await? else { return Ok(()) };
    let (first, second) = tokio::join!(open.insert("busy_one"), open.insert("busy_two"));
    let (first, second) = (first?, second?);
    let ended = open.ask(Method::PUT).await?;
    let is_told = |answer: &Answer| answer.is_ok() || answer.is(500, 28);
    let kept = [open.sees(false, "busy_one").await?, open.sees(false, "busy_two").await?];
    rows.see(
        checks::BUSY,
        is_told(&first)
            && is_told(&second)
            && ended.is_ok()
            && kept == [first.is_ok(), second.is_ok()],
        format!("first write {first}; second write {second}; kept: {kept:?}"),
    );
    Ok(())
}
