//! What users may do: two of this run with the rights of the server's own, and a stranger.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::check::{self, Step};
use super::objects::insert;
use super::report::Rows;
use super::scratch::Ground;
use super::visit::Told;
use crate::store::{self, Admin, Credentials, Fault, FaultKind, Ro, probe};
use vctx_base::clock;
use vctx_base::ids::{Ids as _, SystemIds};

/// Longest wait for a grant to count, in milliseconds: a coordinator may not know of it at once.
const GRANTED_MS_MAX: u64 = 10_000;
/// Pause between two looks, in milliseconds.
const LOOK_MS: u64 = 100;

/// Looks at it.
pub(super) async fn look(told: &Told<'_>, rows: &mut Rows) -> Result<(), Fault> {
    application(told, rows).await?;
    let Some(ground) = told.ground else { return own(told, rows).await };
    read_socket(told, ground, rows).await?;
    if !ground.is_database {
        rows.skip_rest(
            Step::Rights,
            "needs users of its own: run `vctx doctor` as administrator (ARANGO_USER=root)",
        );
        return Ok(());
    }
    ground.collection("docs").await?;
    insert(ground, "docs", &json!({"_key": "readable"})).await?;
    writer(told, ground, rows).await?;
    reader(told, ground, rows).await?;
    stranger(told, ground, rows).await
}

/// The socket for reads, where it is another one, asked to write by whoever asks.
async fn read_socket(told: &Told<'_>, ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let store = &told.asked.store;
    if store.ro == store.rw {
        rows.skip(
            check::READ_SOCKET,
            "one socket is for both: set ARANGO_RO_UDS to the one for reads",
        );
        return Ok(());
    }
    ground.collection("docs").await?;
    match Admin::connect(&store.ro, told.asked.who(), ground.db.database()).await {
        Ok(db) => {
            let binds = json!({"@docs": ground.of("docs"), "row": {"_key": "through_reads"}});
            let written = probe::run(&db, probe::INSERT, &binds).await?;
            rows.see(check::READ_SOCKET, matches!(written.status, 401 | 403), written.told());
        }
        // A proxy puts other credentials in place of these, and they may not see scratch at all.
        Err(Fault { kind: FaultKind::Arango { status: status @ (401 | 403), num }, .. }) => {
            rows.see(check::READ_SOCKET, true, format!("{status}/{num}: not even a look"));
        }
        Err(fault) => return Err(fault),
    }
    Ok(())
}

/// The server's own users, each as itself.
async fn application(told: &Told<'_>, rows: &mut Rows) -> Result<(), Fault> {
    let asked = told.asked;
    let database = &asked.store.database;
    if asked.application.is_empty() {
        let how = "give their passwords as `vctx setup --users` takes them: ARANGO_RW_PASSWORD and ARANGO_RO_PASSWORD, or …_FILE";
        rows.skip(check::APPLICATION, how);
        return Ok(());
    }
    let (mut holds, mut seen) = (true, Vec::new());
    for who in &asked.application {
        let wanted = if who.user.ends_with("_ro") { "ro" } else { "rw" };
        let db = match Admin::connect(asked.endpoint(), who, database).await {
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
    rows.see(check::APPLICATION, holds, seen.join("; "));
    Ok(())
}

/// What the asking users may do, where they may make no others: what can be seen without a trace.
async fn own(told: &Told<'_>, rows: &mut Rows) -> Result<(), Fault> {
    let asked = told.asked;
    let database = &asked.store.database;
    let db = Admin::connect(asked.endpoint(), asked.who(), database).await?;
    let refused = db
        .ask(
            Method::POST,
            "_api/collection",
            Some(&json!({"name": told.name.of("mine"), "type": 2})),
        )
        .await?;
    rows.see(
        check::WRITER_DDL,
        refused.is(403, 11),
        format!("{}: collection {}", asked.who().user, refused.told()),
    );
    let reader = &asked.store.ro_credentials;
    for (check, user, wanted) in
        [(check::WRITER, &asked.who().user, "rw"), (check::READER_WRITES, &reader.user, "ro")]
    {
        let access = level(&db, user, database).await?;
        let documents = level(&db, user, &format!("{database}/messages")).await?;
        let (Some(access), Some(documents)) = (access, documents) else {
            rows.skip(
                check,
                format!(
                    "the rights of {user} are not told to {}: ask as administrator",
                    asked.who().user
                ),
            );
            continue;
        };
        let holds = access == "ro" && documents == wanted;
        rows.see(
            check,
            holds,
            format!("{user}: database {access}, collections {documents}, as its grants say"),
        );
    }
    let read = match Ro::connect(&asked.store).await {
        Ok(ro) => store::probe_archival(&ro).await,
        Err(fault) => Err(fault),
    };
    let seen = read.as_ref().map_or_else(ToString::to_string, |()| "reads".into());
    rows.see(check::READER, read.is_ok(), format!("{}: {seen}", reader.user));
    rows.skip(
        check::READ_SOCKET,
        "needs scratch: run `vctx doctor` as administrator (ARANGO_USER=root)",
    );
    rows.skip(
        check::STRANGER,
        "needs a user of its own: run `vctx doctor` as administrator (ARANGO_USER=root)",
    );
    Ok(())
}

/// A user with access to the database and these rights on its collections, as `arango-setup/users.json` gives them. What was refused, where
/// something was.
async fn user(
    told: &Told<'_>,
    ground: &Ground,
    ending: &str,
) -> Result<Result<Admin, String>, Fault> {
    let asked = told.asked;
    let system = Admin::connect(asked.endpoint(), asked.who(), "_system").await?;
    let who = Credentials { user: ground.of(ending), password: SystemIds.salt() };
    let database = ground.name.text();
    let body = json!({"user": who.user, "passwd": who.password, "active": true});
    let made = system.ask(Method::POST, "/_api/user", Some(&body)).await?;
    if made.status != 201 {
        return Ok(Err(format!("the user cannot be made: {}", made.told())));
    }
    for (path, grant) in [
        (format!("/_api/user/{}/database/{database}", who.user), "ro"),
        (format!("/_api/user/{}/database/{database}/*", who.user), ending),
    ] {
        let granted = system.ask(Method::PUT, &path, Some(&json!({"grant": grant}))).await?;
        if !granted.is_ok() {
            return Ok(Err(format!("the right cannot be granted: {}", granted.told())));
        }
    }
    let begun = clock::now();
    loop {
        match Admin::connect(asked.endpoint(), &who, database).await {
            Ok(db) => return Ok(Ok(db)),
            Err(fault) if begun.elapsed() > Duration::from_millis(GRANTED_MS_MAX) => {
                return Ok(Err(format!("its rights do not count: {fault}")));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(LOOK_MS)).await,
        }
    }
}

async fn writer(told: &Told<'_>, ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let db = match user(told, ground, "rw").await? {
        Ok(db) => db,
        Err(why) => {
            rows.see(check::WRITER, false, why);
            rows.skip(check::WRITER_DDL, "see rights.writer");
            return Ok(());
        }
    };
    let binds = json!({"@docs": ground.of("docs"), "row": {"_key": "written"}});
    let written = probe::run(&db, probe::INSERT, &binds).await?;
    rows.see(check::WRITER, written.is_ok(), written.told());
    let collection = json!({"name": ground.of("mine"), "type": 2});
    // Scratch of this run may hold it already: then whoever may make it is told 1207.
    let made = db.ask(Method::POST, "_api/collection", Some(&collection)).await?;
    let path = format!("_api/index?collection={}", ground.of("docs"));
    let index = json!({"type": "persistent", "name": "doctor_forbidden", "fields": ["forbidden"]});
    let indexed = db.ask(Method::POST, &path, Some(&index)).await?;
    rows.see(
        check::WRITER_DDL,
        made.is(403, 11) && indexed.is(403, 11),
        format!("collection {}, index {}", made.told(), indexed.told()),
    );
    Ok(())
}

async fn reader(told: &Told<'_>, ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let db = match user(told, ground, "ro").await? {
        Ok(db) => db,
        Err(why) => {
            rows.see(check::READER, false, why);
            rows.skip(check::READER_WRITES, "see rights.reader");
            return Ok(());
        }
    };
    let docs = ground.of("docs");
    let read = probe::run(&db, probe::READ, &json!({"@docs": docs, "key": "readable"})).await?;
    let found = read.body["result"].as_array().map_or(0, Vec::len);
    rows.see(check::READER, found == 1, format!("{}, {found} found", read.told()));
    let binds = json!({"@docs": docs, "row": {"_key": "forbidden"}});
    let written = probe::run(&db, probe::INSERT, &binds).await?;
    rows.see(check::READER_WRITES, written.is(403, 11), written.told());
    Ok(())
}

async fn stranger(told: &Told<'_>, ground: &Ground, rows: &mut Rows) -> Result<(), Fault> {
    let asked = told.asked;
    let wrong = Credentials { user: asked.who().user.clone(), password: SystemIds.salt() };
    let status = async |who: &Credentials, database: &str| -> Result<String, Fault> {
        match Admin::connect(asked.endpoint(), who, database).await {
            Ok(_) => Ok("let in".into()),
            Err(Fault { kind: FaultKind::Arango { status, .. }, .. }) => Ok(status.to_string()),
            Err(fault) => Err(fault),
        }
    };
    let password = status(&wrong, ground.name.text()).await?;
    // The user that only reads has no grant on the system database.
    let reader = Credentials { user: ground.of("ro"), password: SystemIds.salt() };
    let system = Admin::connect(asked.endpoint(), asked.who(), "_system").await?;
    let body = json!({"passwd": reader.password});
    let path = format!("/_api/user/{}", reader.user);
    let renewed = system.ask(Method::PATCH, &path, Some(&body)).await?;
    let database = status(&reader, "_system").await?;
    rows.see(
        check::STRANGER,
        password == "401" && renewed.is_ok() && database == "401",
        format!("password {password}, database {database}"),
    );
    Ok(())
}

/// What `GET /_api/user/…` says that somebody may do; none if it is not told.
pub(super) async fn level(db: &Admin, user: &str, place: &str) -> Result<Option<String>, Fault> {
    let path = format!("/_api/user/{user}/database/{place}");
    let answer = db.ask(Method::GET, &path, None::<&Value>).await?;
    Ok(answer.body["result"].as_str().map(str::to_owned))
}
