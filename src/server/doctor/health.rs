//! The health of a running deployment: everything is read, nothing is written.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::check::{self, Check, Step};
use super::health_backlog;
use super::health_schema;
use super::report::Rows;
use super::rights::level;
use super::scratch::{self, Whose};
use super::server::disk_use;
use super::visit::Asked;
use crate::store::{self, Admin, Credentials, Fault, Ro, SCHEMA, probe};
use vctx_base::clock::{self, Clock as _, SystemClock};
use vctx_core::limits::{LEFTOVER_MS, STORE_IN_FLIGHT_MAX};

/// Largest difference of the two clocks, in milliseconds. Leases are 6 s (`RUN_LEASE_MS`): a third of that leaves them their meaning.
const CLOCK_MS_MAX: u64 = 2_000;
/// Share of the licence's size from which on somebody should look, in percent.
const SIZE_PERCENT_MAX: u64 = 80;
/// Longest time in the database's queue, in seconds.
const QUEUE_S_MAX: f64 = 1.0;
/// Users that `vctx setup --users` makes.
const USERS: [&str; 2] = ["vctx_rw", "vctx_ro"];
/// A collection with a vector index.
const INDEXED: &str = "archival_docs";

/// Looks at it.
pub(super) async fn look(asked: &Asked, rows: &mut Rows) -> Result<(), Fault> {
    let database = &asked.store.database;
    let version = store::schema_version(asked.endpoint(), asked.who(), database).await?;
    match version {
        Some(found) => rows.see(
            check::H_SCHEMA,
            found == SCHEMA,
            format!("{found}; this program knows {SCHEMA}"),
        ),
        None => {
            rows.see(check::H_SCHEMA, false, format!("{database} is not set up: run `vctx setup`"));
            rows.skip_rest(Step::Health, "nothing is set up: run `vctx setup`");
            return Ok(());
        }
    }
    let db = Admin::connect(asked.endpoint(), asked.who(), database).await?;
    let ro = Ro::connect(&asked.store).await?;
    // One part that cannot be looked at keeps nobody from the others.
    guard(rows, check::H_OBJECTS, health_schema::objects(&db).await);
    health_schema::vectors(asked, &db, rows)
        .await
        .unwrap_or_else(|fault| failed(rows, check::H_VECTORS, &fault));
    health_schema::views(&db, rows)
        .await
        .unwrap_or_else(|fault| failed(rows, check::H_VIEWS, &fault));
    guard(rows, check::H_CLOCK, clock_skew(&db).await);
    license(&db, rows).await.unwrap_or_else(|fault| failed(rows, check::H_LICENSE, &fault));
    guard(rows, check::H_MODE, mode(&db).await);
    guard(rows, check::H_QUEUE, queue(asked).await);
    metrics(&db, rows).await.unwrap_or_else(|fault| failed(rows, check::H_METRICS, &fault));
    health_backlog::look(asked, &db, &ro, rows).await;
    guard(rows, check::H_TRANSACTIONS, transactions(&db).await);
    users(asked, &db, rows).await.unwrap_or_else(|fault| failed(rows, check::H_RW, &fault));
    let before = Whose::Before(SystemClock.unix_ms().saturating_sub(asked.leftover_s * 1000));
    let left = scratch::left(asked.endpoint(), asked.who(), database, before).await;
    guard(
        rows,
        check::H_SCRATCH,
        left.map(|left| match left.as_slice() {
            [] => (true, "none".to_owned()),
            left => (false, format!("{}: run `vctx doctor`", left.join(", "))),
        }),
    );
    Ok(())
}

/// What was seen of one part, or why it could not be looked at.
pub(super) fn guard(rows: &mut Rows, check: &'static Check, seen: Result<(bool, String), Fault>) {
    match seen {
        Ok((holds, seen)) => rows.see(check, holds, seen),
        Err(fault) => failed(rows, check, &fault),
    }
}

/// A part that could not be looked at.
pub(super) fn failed(rows: &mut Rows, check: &'static Check, fault: &Fault) {
    rows.see(check, false, format!("cannot be asked: {fault}"));
}

async fn clock_skew(db: &Admin) -> Result<(bool, String), Fault> {
    let before = SystemClock.unix_ms();
    let answer = probe::run(db, probe::VALUES, &json!({"row": {}})).await?;
    let after = SystemClock.unix_ms();
    let Some(theirs) = answer.body["result"][0]["now_ms"].as_u64() else {
        return Ok((false, answer.told()));
    };
    // What the request took may lie on either side of the moment that is told.
    let ours = before + after.saturating_sub(before) / 2;
    let slack = after.saturating_sub(before) / 2;
    let ahead = i128::from(theirs) - i128::from(ours);
    Ok((ahead.unsigned_abs() <= u128::from(CLOCK_MS_MAX + slack), format!("{ahead:+} ms")))
}

async fn license(db: &Admin, rows: &mut Rows) -> Result<(), Fault> {
    let license = db.ask(Method::GET, "_admin/license", None).await?;
    if license.status != 200 {
        rows.skip(check::H_LICENSE, format!("{}: ask as administrator", license.told()));
        return Ok(());
    }
    let (used, limit) = disk_use(&license);
    let percent = used.saturating_mul(100) / limit.max(1);
    let status = license.body["diskUsage"]["status"].as_str().unwrap_or("good");
    let seen = format!("{status}, {used} of {limit} bytes, {percent} %");
    match (status, percent) {
        ("good", SIZE_PERCENT_MAX..) => rows.warn(check::H_LICENSE, seen),
        ("good", _) => rows.see(check::H_LICENSE, true, seen),
        _ => rows.see(check::H_LICENSE, false, seen),
    }
    Ok(())
}

async fn mode(db: &Admin) -> Result<(bool, String), Fault> {
    let answer = db.ask(Method::GET, "/_admin/server/availability", None).await?;
    let mode = answer.body["mode"].as_str().unwrap_or_default();
    Ok((answer.status == 200 && mode == "default", format!("{} {mode}", answer.told())))
}

/// A connection of its own, as another server would open one.
async fn queue(asked: &Asked) -> Result<(bool, String), Fault> {
    let begun = clock::now();
    let db = Admin::connect(asked.endpoint(), asked.who(), &asked.store.database).await?;
    let ms = begun.elapsed().as_millis();
    let answer = db.ask(Method::GET, "_api/version", None).await?;
    let queue_s = answer.queue_s.unwrap_or(0.0);
    let seen = format!(
        "{queue_s} s; a new connection in {ms} ms; a server uses up to {STORE_IN_FLIGHT_MAX} for each socket"
    );
    Ok((queue_s < QUEUE_S_MAX, seen))
}

async fn metrics(db: &Admin, rows: &mut Rows) -> Result<(), Fault> {
    let answer = db.ask(Method::GET, "_admin/metrics", None).await?;
    let text = answer.body.as_str().unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with("arangodb_")).count();
    match answer.status {
        401 | 403 => {
            rows.skip(check::H_METRICS, format!("{}: ask as administrator", answer.told()))
        }
        _ => rows.see(
            check::H_METRICS,
            answer.status == 200 && lines > 0,
            format!("{}, {lines} values", answer.told()),
        ),
    }
    Ok(())
}

/// A transaction that is there in both of two looks that are further apart than any of a living server lasts.
async fn transactions(db: &Admin) -> Result<(bool, String), Fault> {
    let look = async || -> Result<Vec<String>, Fault> {
        let answer = db.ask(Method::GET, "_api/transaction", None).await?;
        let entries = answer.body["transactions"].as_array().cloned().unwrap_or_default();
        let running = entries.iter().filter(|entry| entry["state"] == "running");
        Ok(running.filter_map(|entry| entry["id"].as_str().map(str::to_owned)).collect())
    };
    let first = look().await?;
    if first.is_empty() {
        return Ok((true, "none is open".into()));
    }
    tokio::time::sleep(Duration::from_millis(LEFTOVER_MS)).await;
    let still: Vec<String> = look().await?.into_iter().filter(|id| first.contains(id)).collect();
    Ok((
        still.is_empty(),
        format!("{} open, {} of them for {LEFTOVER_MS} ms and more", first.len(), still.len()),
    ))
}

/// The users that the server runs as, each asked for its own rights. Whoever asks as administrator means those that setup makes.
async fn users(asked: &Asked, db: &Admin, rows: &mut Rows) -> Result<(), Fault> {
    let database = &asked.store.database;
    let is_admin = level(db, &asked.who().user, "_system").await?.as_deref() == Some("rw");
    let reader = &asked.store.ro_credentials;
    let reads = Admin::connect(&asked.store.ro, reader, database).await?;
    let asks = [
        (check::H_RW, "rw", USERS[0], db, asked.who().user.as_str()),
        (check::H_RO, "ro", USERS[1], &reads, reader.user.as_str()),
    ];
    for (check, wanted, made, own_db, own) in asks {
        let (asker, user) =
            if is_admin && own == asked.who().user { (db, made) } else { (own_db, own) };
        let Some(access) = level(asker, user, database).await? else {
            let told = format!(
                "there is no user {user}, or its rights are not told: `vctx setup --users` makes it; let the server run as it"
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
    indexer(asked, db, is_admin, rows)
        .await
        .unwrap_or_else(|fault| failed(rows, check::H_INDEX, &fault));
    Ok(())
}

/// The user that makes indexes, asked about by an administrator, else by itself.
async fn indexer(asked: &Asked, db: &Admin, is_admin: bool, rows: &mut Rows) -> Result<(), Fault> {
    let (database, user) = (&asked.store.database, asked.index_user.as_str());
    let own = match &asked.index_password {
        Some(password) if !is_admin => {
            let who = Credentials { user: user.to_owned(), password: password.clone() };
            Some(Admin::connect(asked.endpoint(), &who, database).await?)
        }
        _ => None,
    };
    let asker = own.as_ref().unwrap_or(db);
    let Some(access) = level(asker, user, database).await? else {
        if is_admin {
            let how = format!(
                "there is no user {user}: `vctx setup --users` makes it; give the server its password"
            );
            rows.warn(check::H_INDEX, how);
        } else {
            let how = format!(
                "the rights of {user} are not told: give its password (ARANGO_INDEX_PASSWORD), or ask as administrator"
            );
            rows.skip(check::H_INDEX, how);
        }
        return Ok(());
    };
    let of = async |place: String| -> Result<String, Fault> {
        Ok(level(asker, user, &place).await?.unwrap_or_else(|| "none".to_owned()))
    };
    let system = of("_system".to_owned()).await?;
    let documents = of(format!("{database}/messages")).await?;
    let indexed = of(format!("{database}/{INDEXED}")).await?;
    rows.see(
        check::H_INDEX,
        [&access, &documents, &indexed, &system] == ["rw", "ro", "rw", "none"],
        format!("{user}: database {access}, collections {documents}, {INDEXED} {indexed}, _system {system}"),
    );
    Ok(())
}

/// The number of a count.
pub(super) fn count_of(body: &Value) -> u64 {
    body["count"].as_u64().unwrap_or(0)
}
