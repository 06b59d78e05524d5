//! Checks the health of a running deployment without writing to it.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::health_backlog;
use super::health_schema;
use super::report::Rows;
use super::rights::level;
use super::scratch::{self, Whose};
use super::visit::Order;
use crate::checks::{self, Check, Licence, Step};
use crate::limits::{LEFTOVER_MS, STORE_IN_FLIGHT_MAX};
use crate::store::{self, Admin, Credentials, Fault, Result, Ro, SCHEMA, probe};
use vctx_base::clock::{self, Clock as _, SystemClock};

/// Maximum difference between the clocks of the server and the database, in milliseconds: a third
/// of a lease (`RUN_LEASE_MS`).
const CLOCK_MS_MAX: u64 = 2_000;
/// Dataset size at which the doctor warns, in percent of the licence's limit.
const SIZE_PERCENT_MAX: u64 = 80;
/// Longest acceptable time of a request in the database's queue, in seconds.
const QUEUE_S_MAX: f64 = 1.0;
/// The users that `vctx setup --users` creates.
const USERS: [&str; 2] = ["vctx_rw", "vctx_ro"];
/// A collection that has a vector index.
const INDEXED: &str = "archival_docs";

/// Runs the checks of a running deployment.
pub(super) async fn look(order: &Order, rows: &mut Rows) -> Result<()> {
    let database = &order.store.database;
    let version = store::schema_version(order.endpoint(), order.who(), database).await?;
    match version {
        Some(found) => rows.see(
            checks::H_SCHEMA,
            found == SCHEMA,
            format!("schema {found}; this program needs {SCHEMA}"),
        ),
        None => {
            rows.see(
                checks::H_SCHEMA,
                false,
                format!("{database} is not set up: run `vctx setup`"),
            );
            rows.skip_rest(Step::Health, "nothing is set up: run `vctx setup`");
            return Ok(());
        }
    }
    let db = Admin::connect(order.endpoint(), order.who(), database).await?;
    let ro = Ro::connect(&order.store).await?;
    // If one group of checks gets no answer, the other groups still run.
    guard(rows, checks::H_OBJECTS, health_schema::objects(&db).await);
    health_schema::vectors(order, &db, rows)
        .await
        .unwrap_or_else(|fault| failed(rows, checks::H_VECTORS, &fault));
    health_schema::views(&db, rows)
        .await
        .unwrap_or_else(|fault| failed(rows, checks::H_VIEWS, &fault));
    guard(rows, checks::H_CLOCK, clock_skew(&db).await);
    license(&db, rows).await.unwrap_or_else(|fault| failed(rows, checks::H_LICENSE, &fault));
    guard(rows, checks::H_MODE, checks::mode(&db).await);
    guard(rows, checks::H_QUEUE, queue(order).await);
    metrics(order, &db, rows).await.unwrap_or_else(|fault| failed(rows, checks::H_METRICS, &fault));
    health_backlog::look(order, &db, &ro, rows).await;
    guard(rows, checks::H_TRANSACTIONS, transactions(&db).await);
    users(order, &db, rows).await.unwrap_or_else(|fault| failed(rows, checks::H_RW, &fault));
    let before = Whose::Before(SystemClock.unix_ms().saturating_sub(order.leftover_s * 1000));
    let left = scratch::left(order.endpoint(), order.who(), database, before).await;
    guard(
        rows,
        checks::H_SCRATCH,
        left.map(|left| match left.as_slice() {
            [] => (true, "none".to_owned()),
            left => (false, format!("{}: run `vctx doctor`", left.join(", "))),
        }),
    );
    Ok(())
}

/// Records the result of a check, or the fault that prevented it.
pub(super) fn guard(rows: &mut Rows, check: &'static Check, seen: Result<(bool, String)>) {
    match seen {
        Ok((holds, seen)) => rows.see(check, holds, seen),
        Err(fault) => failed(rows, check, &fault),
    }
}

/// Records that a check failed because a fault prevented it.
pub(super) fn failed(rows: &mut Rows, check: &'static Check, fault: &Fault) {
    rows.see(check, false, format!("cannot be asked: {fault}"));
}

async fn clock_skew(db: &Admin) -> Result<(bool, String)> {
    let before = SystemClock.unix_ms();
    let answer = probe::run(db, probe::VALUES, &json!({"row": {}})).await?;
    let after = SystemClock.unix_ms();
    let Some(theirs) = answer.body["result"][0]["now_ms"].as_u64() else {
        return Ok((false, answer.to_string()));
    };
    // The database read its clock at an unknown time during the request, so half of the request's
    // duration is tolerance.
    let ours = before + after.saturating_sub(before) / 2;
    let slack = after.saturating_sub(before) / 2;
    let ahead = i128::from(theirs) - i128::from(ours);
    Ok((ahead.unsigned_abs() <= u128::from(CLOCK_MS_MAX + slack), format!("{ahead:+} ms")))
}

async fn license(db: &Admin, rows: &mut Rows) -> Result<()> {
    let Licence { code, told, status, used, limit } = Licence::of(db).await?;
    if code != 200 {
        rows.skip(checks::H_LICENSE, format!("{told}: run this as administrator"));
        return Ok(());
    }
    let percent = used.saturating_mul(100) / limit.max(1);
    let status = status.as_deref().unwrap_or("good");
    let seen = format!("{status}, {used} of {limit} bytes, {percent} %");
    match (status, percent) {
        ("good", SIZE_PERCENT_MAX..) => rows.warn(checks::H_LICENSE, seen),
        _ => rows.see(checks::H_LICENSE, status == "good", seen),
    }
    Ok(())
}

/// Checks the database's queue, and opens a new connection as another server would do.
async fn queue(order: &Order) -> Result<(bool, String)> {
    let begun = clock::now();
    let db = Admin::connect(order.endpoint(), order.who(), &order.store.database).await?;
    let ms = begun.elapsed().as_millis();
    let answer = db.ask(Method::GET, "_api/version", None).await?;
    let queue_s = answer.queue_s.unwrap_or(0.0);
    let seen = format!(
        "{queue_s} s in the queue; a new connection took {ms} ms; a vctx server uses up to {STORE_IN_FLIGHT_MAX} connections for each socket"
    );
    Ok((queue_s < QUEUE_S_MAX, seen))
}

async fn metrics(order: &Order, db: &Admin, rows: &mut Rows) -> Result<()> {
    let answer = db.ask(Method::GET, "_admin/metrics", None).await?;
    let text = answer.body.as_str().unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with("arangodb_")).count();
    match answer.status {
        401 | 403 => rows.skip(checks::H_METRICS, format!("{answer}: ask as administrator")),
        _ => rows.see(
            checks::H_METRICS,
            answer.status == 200 && lines > 0,
            format!("{answer}, {lines} values; {}", statistics(order).await),
        ),
    }
    Ok(())
}

/// Asks whether the database keeps rows of its own figures in `_statisticsRaw`: ArangoDB 3.12 does
/// in `_system`, with `--server.statistics`; ArangoDB 4 and many nodes of a cluster do not.
async fn statistics(order: &Order) -> String {
    let asked = async {
        let system = Admin::connect(order.endpoint(), order.who(), "_system").await?;
        system.ask(Method::GET, "_api/collection/_statisticsRaw/count", None).await
    };
    match asked.await {
        Ok(answer) if answer.status == 200 => {
            format!("{} rows in _statisticsRaw", answer.body["count"])
        }
        Ok(answer) if answer.status == 404 => "no _statisticsRaw".into(),
        Ok(answer) => format!("_statisticsRaw: {answer}"),
        Err(fault) => format!("_statisticsRaw: {fault}"),
    }
}

/// Finds transactions that are open for longer than any transaction of a running server can be.
async fn transactions(db: &Admin) -> Result<(bool, String)> {
    let look = async || -> Result<Vec<String>> {
        let answer = db.ask(Method::GET, "_api/transaction", None).await?;
        let entries = answer.body["transactions"].as_array().cloned().unwrap_or_default();
        let running = entries.iter().filter(|entry| entry["state"] == "running");
        Ok(running.filter_map(|entry| entry["id"].as_str().map(str::to_owned)).collect())
    };
    let first = look().await?;
    if first.is_empty() {
        return Ok((true, "no transaction is open".into()));
    }
    tokio::time::sleep(Duration::from_millis(LEFTOVER_MS)).await;
    let still: Vec<String> = look().await?.into_iter().filter(|id| first.contains(id)).collect();
    Ok((
        still.is_empty(),
        format!(
            "{} transactions are open, {} of them for at least {LEFTOVER_MS} ms",
            first.len(),
            still.len()
        ),
    ))
}

/// Checks the rights of the server's users, each with that user's own credentials. If the doctor is
/// an administrator, also asks the database about the users that setup creates.
async fn users(order: &Order, db: &Admin, rows: &mut Rows) -> Result<()> {
    let database = &order.store.database;
    let is_admin = level(db, &order.who().user, "_system").await?.as_deref() == Some("rw");
    let reader = &order.store.ro_credentials;
    let reads = Admin::connect(&order.store.ro, reader, database).await?;
    let asks = [
        (checks::H_RW, "rw", USERS[0], db, order.who().user.as_str()),
        (checks::H_RO, "ro", USERS[1], &reads, reader.user.as_str()),
    ];
    for (check, wanted, made, own_db, own) in asks {
        let (asker, user) =
            if is_admin && own == order.who().user { (db, made) } else { (own_db, own) };
        let Some(access) = level(asker, user, database).await? else {
            let told = format!(
                "there is no user {user}, or its rights cannot be read: `vctx setup --users` makes this user; let the server run as this user"
            );
            rows.warn(check, told);
            continue;
        };
        let none = || "none".to_owned();
        let system = level(asker, user, "_system").await?.unwrap_or_else(none);
        let documents =
            level(asker, user, &format!("{database}/messages")).await?.unwrap_or_else(none);
        let holds = access == "ro" && documents == wanted && system == "none";
        rows.see(
            check,
            holds,
            format!("{user}: database {access}, collections {documents}, _system {system}"),
        );
    }
    indexer(order, db, is_admin, rows)
        .await
        .unwrap_or_else(|fault| failed(rows, checks::H_INDEX, &fault));
    Ok(())
}

/// Checks the rights of the user that creates indexes, either as an administrator or with this
/// user's credentials.
async fn indexer(order: &Order, db: &Admin, is_admin: bool, rows: &mut Rows) -> Result<()> {
    let (database, user) = (&order.store.database, order.index_user.as_str());
    let own = match &order.index_password {
        Some(password) if !is_admin => {
            let who = Credentials { user: user.to_owned(), password: password.clone() };
            Some(Admin::connect(order.endpoint(), &who, database).await?)
        }
        _ => None,
    };
    let asker = own.as_ref().unwrap_or(db);
    let Some(access) = level(asker, user, database).await? else {
        if is_admin {
            let how = format!(
                "there is no user {user}: `vctx setup --users` makes it; give the server its password"
            );
            rows.warn(checks::H_INDEX, how);
        } else {
            let how = format!(
                "the rights of {user} cannot be read: give its password (ARANGO_INDEX_PASSWORD), or ask as administrator"
            );
            rows.skip(checks::H_INDEX, how);
        }
        return Ok(());
    };
    let of = async |place: String| -> Result<String> {
        Ok(level(asker, user, &place).await?.unwrap_or_else(|| "none".to_owned()))
    };
    let system = of("_system".to_owned()).await?;
    let documents = of(format!("{database}/messages")).await?;
    let indexed = of(format!("{database}/{INDEXED}")).await?;
    rows.see(
        checks::H_INDEX,
        [&access, &documents, &indexed, &system] == ["rw", "ro", "rw", "none"],
        format!("{user}: database {access}, collections {documents}, {INDEXED} {indexed}, _system {system}"),
    );
    Ok(())
}

/// Returns the field `count` of an answer, or 0.
pub(super) fn count_of(body: &Value) -> u64 {
    body["count"].as_u64().unwrap_or(0)
}
