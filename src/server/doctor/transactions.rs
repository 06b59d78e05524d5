//! Stream transactions: what they see, who wins, how they end, and that an idle one goes.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::check::{self, Step};
use super::objects::insert;
use super::report::Rows;
use super::scratch::Ground;
use super::visit::{NO_GROUND, Told};
use crate::store::{Answer, Fault, Sent, probe};
use vctx_base::clock;
use vctx_core::limits::TRANSACTION_BYTES_MAX;

/// Longest wait for an idle transaction to go, in milliseconds: arangod's default is 60 s (`--transaction.streaming-idle-timeout`), and it looks
/// every few seconds.
const IDLE_MS_MAX: u64 = 75_000;
/// Pause between two looks, in milliseconds.
const LOOK_MS: u64 = 250;
/// An id that no transaction has: the type of a coordinator's, far beyond any counter.
const NO_ID: &str = "9007199254740001";

/// Begins one that writes these collections and nothing else.
pub(super) async fn begin(ground: &Ground, writes: &[&str]) -> Result<Answer, Fault> {
    let body = json!({"collections": {"write": writes}, "allowImplicit": false, "maxTransactionSize": TRANSACTION_BYTES_MAX});
    ground.ask(Method::POST, "_api/transaction/begin", &body).await
}

/// A transaction of a probe.
struct Open<'a> {
    ground: &'a Ground,
    id: String,
}

impl<'a> Open<'a> {
    /// None, and the first open row says why, if it does not begin.
    async fn begin(ground: &'a Ground, rows: &mut Rows) -> Result<Option<Self>, Fault> {
        let begun = begin(ground, &[&ground.of("docs")]).await?;
        match begun.body["result"]["id"].as_str() {
            Some(id) if begun.status == 201 => Ok(Some(Self { ground, id: id.to_owned() })),
            _ => {
                rows.cut(Step::Transactions, &format!("no transaction begins: {}", begun.told()));
                Ok(None)
            }
        }
    }

    fn path(&self) -> String {
        format!("_api/transaction/{}", self.id)
    }

    /// Commits, aborts, or asks how it is.
    async fn ask(&self, method: Method) -> Result<Answer, Fault> {
        self.ground.ask(method, &self.path(), &Value::Null).await
    }

    async fn status(&self) -> Result<String, Fault> {
        let answer = self.ask(Method::GET).await?;
        Ok(answer.body["result"]["status"].as_str().map_or_else(|| answer.told(), str::to_owned))
    }

    async fn insert(&self, key: &str) -> Result<Answer, Fault> {
        let binds = json!({"@docs": self.ground.of("docs"), "row": {"_key": key}});
        probe::run_in(&self.ground.db, Some(&self.id), probe::INSERT, &binds).await
    }

    async fn change(&self, key: &str, to: u64) -> Result<Answer, Fault> {
        let binds = json!({"@docs": self.ground.of("docs"), "row": {"_key": key}, "patch": {"n": to}, "keep_null": true});
        probe::run_in(&self.ground.db, Some(&self.id), probe::UPDATE, &binds).await
    }

    /// Whether it sees a document; one that runs outside where there is no id.
    async fn sees(&self, inside: bool, key: &str) -> Result<bool, Fault> {
        let id = inside.then_some(self.id.as_str());
        let binds = json!({"@docs": self.ground.of("docs"), "key": key});
        let read = probe::run_in(&self.ground.db, id, probe::READ, &binds).await?;
        Ok(read.body["result"].as_array().is_some_and(|found| !found.is_empty()))
    }
}

/// Looks at them.
pub(super) async fn look(told: &Told<'_>, rows: &mut Rows) -> Result<(), Fault> {
    let Some(ground) = told.ground else {
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
    idle(told, ground, rows).await
}

async fn aborted(ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let Some(open) = Open::begin(ground, rows).await? else { return Ok(()) };
    let listed = ground.ask(Method::GET, "_api/transaction", &Value::Null).await?;
    let entries = listed.body["transactions"].as_array().cloned().unwrap_or_default();
    let own = entries.iter().find(|entry| entry["id"] == open.id.as_str());
    let state = own.map_or("not listed", |entry| entry["state"].as_str().unwrap_or_default());
    let status = open.status().await?;
    rows.see(
        check::BEGIN,
        state == "running" && status == "running",
        format!("{status}; in the list {state}"),
    );
    let written = open.insert("inside").await?;
    let (inside, outside) = (open.sees(true, "inside").await?, open.sees(false, "inside").await?);
    rows.see(
        check::READS,
        written.is_ok() && inside && !outside,
        format!("{}, inside {inside}, outside {outside}", written.told()),
    );
    let ended = open.ask(Method::DELETE).await?;
    let (status, after) = (open.status().await?, open.insert("late").await?);
    let gone = !open.sees(false, "inside").await?;
    rows.see(
        check::ABORT,
        ended.is_ok() && status == "aborted" && gone && is_over(&after),
        format!("{}, {status}, gone {gone}, then {}", ended.told(), after.told()),
    );
    Ok(())
}

/// What a transaction answers that has ended.
fn is_over(answer: &Answer) -> bool {
    answer.is(410, 1654) || answer.is(404, 1655)
}

async fn committed(ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let Some(open) = Open::begin(ground, rows).await? else { return Ok(()) };
    let written = open.insert("kept").await?;
    let ended = open.ask(Method::PUT).await?;
    let (status, kept) = (open.status().await?, open.sees(false, "kept").await?);
    rows.see(
        check::COMMIT,
        written.is_ok() && ended.is_ok() && status == "committed" && kept,
        format!("{}, {status}, there {kept}", ended.told()),
    );
    let Some(open) = Open::begin(ground, rows).await? else { return Ok(()) };
    open.insert("kept_too").await?;
    let headers = [("x-arango-trx-id", open.id.as_str())];
    let path = open.path();
    let sent = Sent { method: Method::PUT, path: &path, headers: &headers, body: None };
    let ended = ground.db.exchange(sent).await?;
    let (status, kept) = (open.status().await?, open.sees(false, "kept_too").await?);
    rows.see(
        check::COMMIT_HEADER,
        ended.is_ok() && status == "committed" && kept,
        format!("{}, {status}, there {kept}", ended.told()),
    );
    Ok(())
}

async fn conflict(ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let fresh = insert(ground, "docs", &json!({"_key": "contended", "n": 0})).await?;
    let Some(first) = Open::begin(ground, rows).await? else { return Ok(()) };
    let Some(second) = Open::begin(ground, rows).await? else { return Ok(()) };
    let won = first.change("contended", 1).await?;
    let lost = second.change("contended", 2).await?;
    second.ask(Method::DELETE).await?;
    let ended = first.ask(Method::PUT).await?;
    rows.see(
        check::CONFLICT,
        fresh.is_ok() && won.is_ok() && lost.is(409, 1200) && ended.is_ok(),
        format!("{}, the other {}, {}", won.told(), lost.told(), ended.told()),
    );
    Ok(())
}

async fn refused(ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let Some(open) = Open::begin(ground, rows).await? else { return Ok(()) };
    let binds = json!({"@docs": ground.of("mine"), "row": {"_key": "undeclared"}});
    let answer = probe::run_in(&ground.db, Some(&open.id), probe::INSERT, &binds).await?;
    open.ask(Method::DELETE).await?;
    rows.see(check::UNDECLARED, answer.is(400, 1652), answer.told());
    let binds = json!({"@docs": ground.of("docs"), "key": "kept"});
    let unknown = probe::run_in(&ground.db, Some(NO_ID), probe::READ, &binds).await?;
    rows.see(check::UNKNOWN, unknown.is(404, 1655), unknown.told());
    Ok(())
}

async fn idle(told: &Told<'_>, ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    if !rows.wants_check(check::IDLE) {
        return Ok(());
    }
    if told.asked.quick {
        rows.skip(check::IDLE, "waits a minute: run without --quick");
        return Ok(());
    }
    let Some(open) = Open::begin(ground, rows).await? else { return Ok(()) };
    open.insert("idle").await?;
    let begun = clock::now();
    // The list is asked, not the transaction, so that nothing uses it.
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
    // arangod may answer a late commit with success although nothing is kept; the status tells.
    let (late, status) = (open.ask(Method::PUT).await?, open.status().await?);
    let kept = open.sees(false, "idle").await?;
    open.ask(Method::DELETE).await?;
    rows.see(
        check::IDLE,
        gone && is_over(&after) && !kept && status != "committed",
        format!(
            "gone {gone} after {s} s, then {}, a late commit {}, {status}, its write there {kept}",
            after.told(),
            late.told()
        ),
    );
    Ok(())
}

/// Two requests of one transaction at once.
async fn busy(ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let Some(open) = Open::begin(ground, rows).await? else { return Ok(()) };
    let (first, second) = tokio::join!(open.insert("busy_one"), open.insert("busy_two"));
    let (first, second) = (first?, second?);
    let ended = open.ask(Method::PUT).await?;
    let is_told = |answer: &Answer| answer.is_ok() || answer.is(500, 28);
    let kept = [open.sees(false, "busy_one").await?, open.sees(false, "busy_two").await?];
    rows.see(
        check::BUSY,
        is_told(&first)
            && is_told(&second)
            && ended.is_ok()
            && kept == [first.is_ok(), second.is_ok()],
        format!("{}, {}, then there {kept:?}", first.told(), second.told()),
    );
    Ok(())
}
