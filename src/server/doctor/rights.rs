//! Checks users' rights: creates two users with the rights of the server's users, and one user
//! without rights.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::objects::insert;
use super::report::Rows;
use super::scratch::Ground;
use super::visit::Visit;
use crate::checks::{self, Step};
use crate::store::{self, Admin, Credentials, Fault, FaultKind, Ro, probe};
use vctx_base::clock;
use vctx_base::ids::{Ids as _, SystemIds};

/// Longest wait until a grant of rights takes effect, in milliseconds. In a cluster, a coordinator
/// may learn of a grant late.
const GRANTED_MS_MAX: u64 = 10_000;
/// Pause between two attempts to see a grant of rights take effect, in milliseconds.
const LOOK_MS: u64 = 100;

/// Runs the doctor's checks of users' rights.
pub(super) async fn look(visit: &Visit<'_>, rows: &mut Rows) -> store::Result<()> {
    application(visit, rows).await?;
    let Some(ground) = visit.ground else { return own(visit, rows).await };
    read_socket(visit, ground, rows).await?;
    if !ground.is_database {
        rows.skip_rest(
            Step::Rights,
            "needs users of its own: run `vctx doctor` as administrator (ARANGO_USER=root)",
        );
        return Ok(());
    }
    ground.collection("docs").await?;
    insert(ground, "docs", &json!({"_key": "readable"})).await?;
    writer(visit, ground, rows).await?;
    reader(visit, ground, rows).await?;
    stranger(visit, ground, rows).await
}

/// Tries a write on the read socket with the doctor's credentials, if the read socket is separate.
async fn read_socket(visit: &Visit<'_>, ground: &Ground, rows: &mut Rows) -> store::Result<()> {
    let store = &visit.order.store;
    if store.ro == store.rw {
        rows.skip(
            checks::READ_SOCKET,
            "reads and writes use one socket: set ARANGO_RO_UDS to the socket for reads",
        );
        return Ok(());
    }
    ground.collection("docs").await?;
    match Admin::connect(&store.ro, visit.order.who(), ground.db.database()).await {
        Ok(db) => {
            let binds = json!({"@docs": ground.of("docs"), "row": {"_key": "through_reads"}});
            let written = probe::run(&db, probe::INSERT, &binds).await?;
            rows.see(checks::READ_SOCKET, matches!(written.status, 401 | 403), written.to_string());
        }
        // A proxy at the socket may replace the doctor's credentials with its own, which may have
        // no access to scratch (the doctor's temporary database objects).
        Err(Fault { kind: FaultKind::Arango { status: status @ (401 | 403), num }, .. }) => {
            rows.see(checks::READ_SOCKET, true, format!("{status}/{num}: no access at all"));
        }
        Err(fault) => return Err(fault),
    }
    Ok(())
}

/// Checks the rights of the server's users, each with that user's own credentials.
async fn application(visit: &Visit<'_>, rows: &mut Rows) -> store::Result<()> {
    let order = visit.order;
    let database = &order.store.database;
    if order.application.is_empty() {
        let how = "give the passwords of the server's users as `vctx setup --users` takes them: ARANGO_RW_PASSWORD and ARANGO_RO_PASSWORD, or …_FILE";
        rows.skip(checks::APPLICATION, how);
        return Ok(());
    }
    let (mut holds, mut seen) = (true, Vec::new());
    for who in &order.application {
        let wanted = if who.user.ends_with("_ro") { "ro" } else { "rw" };
        let db = match Admin::connect(order.endpoint(), who, database).await {
            Ok(db) => db,
            Err(fault) if fault.passing() => return Err(fault),
            Err(fault) => {
                holds = false;
                seen.push(format!("{}: {fault}", who.user));
                continue;
            }
        };
        let access = level(&db, &who.user, database).await?.unwrap_or_default();
        let documents =
            level(&db, &who.user, &format!("{database}/messages")).await?.unwrap_or_default();
        holds &= access == "ro" && documents == wanted;
        seen.push(format!("{}: database {access}, collections {documents}", who.user));
    }
    rows.see(checks::APPLICATION, holds, seen.join("; "));
    Ok(())
}

/// Checks the rights of the doctor's own user if this user may not create users. Uses only
/// operations that leave no trace.
async fn own(visit: &Visit<'_>, rows: &mut Rows) -> store::Result<()> {
    let order = visit.order;
    let database = &order.store.database;
    let db = Admin::connect(order.endpoint(), order.who(), database).await?;
    let refused = db
        .ask(
            Method::POST,
            "_api/collection",
            Some(&json!({"name": visit.name.of("mine"), "type": 2})),
        )
        .await?;
    rows.see(
        checks::WRITER_DDL,
        refused.is(403, 11),
        format!("{}: collection {refused}", order.who().user),
    );
    let reader = &order.store.ro_credentials;
    for (check, user, wanted) in
        [(checks::WRITER, &order.who().user, "rw"), (checks::READER_WRITES, &reader.user, "ro")]
    {
        let access = level(&db, user, database).await?;
        let documents = level(&db, user, &format!("{database}/messages")).await?;
        let (Some(access), Some(documents)) = (access, documents) else {
            rows.skip(
                check,
                format!(
                    "the rights of {user} cannot be read by {}: ask as administrator",
                    order.who().user
                ),
            );
            continue;
        };
        let holds = access == "ro" && documents == wanted;
        rows.see(
            check,
            holds,
            format!("{user}: database {access}, collections {documents}, according to its grants"),
        );
    }
    let read = match Ro::connect(&order.store).await {
        Ok(ro) => store::probe_archival(&ro).await,
        Err(fault) => Err(fault),
    };
    let seen = read.as_ref().map_or_else(ToString::to_string, |()| "reads".into());
    rows.see(checks::READER, read.is_ok(), format!("{}: {seen}", reader.user));
    rows.skip(
        checks::READ_SOCKET,
        "needs scratch: run `vctx doctor` as administrator (ARANGO_USER=root)",
    );
    rows.skip(
        checks::STRANGER,
        "needs a user of its own: run `vctx doctor` as administrator (ARANGO_USER=root)",
    );
    Ok(())
}

/// Creates a user with access to the database and with the rights of `arango-setup/users.json` on
/// the database's collections. The inner `Err` holds the database's refusal.
async fn user(
    visit: &Visit<'_>,
    ground: &Ground,
    ending: &str,
) -> store::Result<Result<Admin, String>> {
    let order = visit.order;
    let system = Admin::connect(order.endpoint(), order.who(), "_system").await?;
    let who = Credentials { user: ground.of(ending), password: SystemIds.salt() };
    let database = ground.name.text();
    let body = json!({"user": who.user, "passwd": who.password, "active": true});
    let made = system.ask(Method::POST, "/_api/user", Some(&body)).await?;
    if made.status != 201 {
        return Ok(Err(format!("the user cannot be made: {made}")));
    }
    for (path, grant) in [
        (format!("/_api/user/{}/database/{database}", who.user), "ro"),
        (format!("/_api/user/{}/database/{database}/*", who.user), ending),
    ] {
        let granted = system.ask(Method::PUT, &path, Some(&json!({"grant": grant}))).await?;
        if !granted.is_ok() {
            return Ok(Err(format!("the right cannot be granted: {granted}")));
        }
    }
    let begun = clock::now();
    loop {
        match Admin::connect(order.endpoint(), &who, database).await {
            Ok(db) => return Ok(Ok(db)),
            Err(fault) if begun.elapsed() > Duration::from_millis(GRANTED_MS_MAX) => {
                return Ok(Err(format!("the user's rights have not taken effect: {fault}")));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(LOOK_MS)).await,
        }
    }
}

async fn writer(visit: &Visit<'_>, ground: &Ground, rows: &mut Rows) -> store::Result<()> {
    let db = match user(visit, ground, "rw").await? {
        Ok(db) => db,
        Err(why) => {
            rows.see(checks::WRITER, false, why);
            rows.skip(checks::WRITER_DDL, "see rights.writer");
            return Ok(());
        }
    };
    let binds = json!({"@docs": ground.of("docs"), "row": {"_key": "written"}});
    let written = probe::run(&db, probe::INSERT, &binds).await?;
    rows.see(checks::WRITER, written.is_ok(), written.to_string());
    let collection = json!({"name": ground.of("mine"), "type": 2});
    // If this run's scratch already has the collection, a user with the right to create it gets
    // error 1207 (duplicate name).
    let made = db.ask(Method::POST, "_api/collection", Some(&collection)).await?;
    let path = format!("_api/index?collection={}", ground.of("docs"));
    let index = json!({"type": "persistent", "name": "doctor_forbidden", "fields": ["forbidden"]});
    let indexed = db.ask(Method::POST, &path, Some(&index)).await?;
    rows.see(
        checks::WRITER_DDL,
        made.is(403, 11) && indexed.is(403, 11),
        format!("collection {made}, index {indexed}"),
    );
    Ok(())
}

async fn reader(visit: &Visit<'_>, ground: &Ground, rows: &mut Rows) -> store::Result<()> {
    let db = match user(visit, ground, "ro").await? {
        Ok(db) => db,
        Err(why) => {
            rows.see(checks::READER, false, why);
            rows.skip(checks::READER_WRITES, "see rights.reader");
            return Ok(());
        }
    };
    let docs = ground.of("docs");
    let read = probe::run(&db, probe::READ, &json!({"@docs": docs, "key": "readable"})).await?;
    let found = read.body["result"].as_array().map_or(0, Vec::len);
    rows.see(checks::READER, found == 1, format!("{read}, {found} found"));
    let binds = json!({"@docs": docs, "row": {"_key": "forbidden"}});
    let written = probe::run(&db, probe::INSERT, &binds).await?;
    rows.see(checks::READER_WRITES, written.is(403, 11), written.to_string());
    Ok(())
}

async fn stranger(visit: &Visit<'_>, ground: &Ground, rows: &mut Rows) -> store::Result<()> {
    let order = visit.order;
    let wrong = Credentials { user: order.who().user.clone(), password: SystemIds.salt() };
    let status = async |who: &Credentials, database: &str| -> store::Result<String> {
        match Admin::connect(order.endpoint(), who, database).await {
            Ok(_) => Ok("let in".into()),
            Err(Fault { kind: FaultKind::Arango { status, .. }, .. }) => Ok(status.to_string()),
            Err(fault) => Err(fault),
        }
    };
    let password = status(&wrong, ground.name.text()).await?;
    // The user for reads has no grant on the system database.
    let reader = Credentials { user: ground.of("ro"), password: SystemIds.salt() };
    let system = Admin::connect(order.endpoint(), order.who(), "_system").await?;
    let body = json!({"passwd": reader.password});
    let path = format!("/_api/user/{}", reader.user);
    let renewed = system.ask(Method::PATCH, &path, Some(&body)).await?;
    let database = status(&reader, "_system").await?;
    rows.see(
        checks::STRANGER,
        password == "401" && renewed.is_ok() && database == "401",
        format!("password {password}, database {database}"),
    );
    Ok(())
}

/// Returns a user's right from `GET /_api/user/…`, or `None` if the database does not report it.
pub(super) async fn level(db: &Admin, user: &str, place: &str) -> store::Result<Option<String>> {
    let path = format!("/_api/user/{user}/database/{place}");
    let answer = db.ask(Method::GET, &path, None::<&Value>).await?;
    Ok(answer.body["result"].as_str().map(str::to_owned))
}
