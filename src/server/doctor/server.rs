//! Checks the database server at the socket: version, role, mode, licence and authentication.

use http::Method;

use super::report::Rows;
use super::visit::Order;
use crate::checks::{self, Licence, Profile, Step, VERSION_MIN};
use crate::store::{Admin, Answer, Fault, FaultKind, Result};

/// Newest ArangoDB release that vctx was tested with, through the `--compat` modes of the embedded
/// engine, which imitate ArangoDB releases.
pub(super) const TRIED_MAX: (u64, u64, u64) = (3, 12, 10);

/// The database server at the socket.
pub(super) struct Server {
    /// Major, minor and patch number of the server's release.
    pub(super) release: (u64, u64, u64),
}

impl Server {
    /// Returns whether the server's release is at least the given patch release of 3.12.
    pub(super) fn since(&self, patch: u64) -> bool {
        self.release >= (3, 12, patch)
    }
}

/// Connects to the configured database, or to the system database if the configured database does
/// not exist.
pub(super) async fn connect(order: &Order) -> Result<(Admin, bool)> {
    match Admin::connect(order.endpoint(), order.who(), &order.store.database).await {
        Ok(db) => Ok((db, true)),
        Err(Fault { kind: FaultKind::Arango { num: 1228, .. }, .. }) => {
            Admin::connect(order.endpoint(), order.who(), "_system").await.map(|db| (db, false))
        }
        Err(fault) => Err(fault),
    }
}

/// Runs the checks of the database server. Returns `None` if the server is too old for the other
/// checks.
pub(super) async fn look(order: &Order, rows: &mut Rows) -> Result<Option<Server>> {
    let connected = connect(order).await;
    if let Err(fault) = &connected {
        // The database driver sent `GET /` when it connected. If the `Server` header of the answer
        // was not ArangoDB's, connecting failed with this fault.
        if fault.kind == FaultKind::Garbage {
            rows.see(checks::ROOT, false, fault.to_string());
        }
        rows.see(checks::REACHED, false, fault.to_string());
    }
    let (db, is_there) = connected?;
    let absent = if is_there { "" } else { ", where there is no database of that name yet" };
    rows.see(checks::REACHED, true, format!("answers; user {}{absent}", order.who().user));
    let get = async |path: &str| db.ask(Method::GET, path, None).await;
    let root = get("/").await?;
    let server = root.server.clone().unwrap_or_default();
    rows.see(checks::ROOT, server == "ArangoDB", format!("{}, Server: {server}", root.status));
    let (writes, mode) = checks::mode(&db).await?;
    rows.see(checks::AVAILABILITY, writes, mode);
    let version = get("_api/version?details=true").await?;
    let Some(release) = see_version(&version, rows) else { return Ok(None) };
    let status = get("_admin/status").await?;
    see_status(&status, rows);
    let role =
        get("_admin/server/role").await?.body["role"].as_str().unwrap_or_default().to_owned();
    let told = status.body["serverInfo"]["role"].as_str().unwrap_or_default();
    let known = ["SINGLE", "COORDINATOR"].contains(&role.as_str());
    rows.see(
        checks::ROLE,
        known && (status.status != 200 || role == told),
        format!("role {role}; role in the status: {told}"),
    );
    see_licence(Licence::of(&db).await?, rows);
    rows.find(checks::check_auth(&db).await?);
    rows.find(checks::check_tcp(match role.as_str() {
        "COORDINATOR" => Profile::Cluster,
        _ => Profile::Single,
    }));
    if role != "COORDINATOR" {
        rows.skip(checks::ONE_SHARD, "no coordinator: a single server has no shards");
    } else if is_there {
        rows.find(checks::check_one_shard(&db).await?);
    } else {
        rows.skip(checks::ONE_SHARD, "there is no database yet: run `vctx setup` first");
    }
    rows.skip_rest(Step::Server, "not looked at");
    Ok(Some(Server { release }))
}

/// Checks the version of the database server; returns `None` if it is too old for the other checks.
fn see_version(version: &Answer, rows: &mut Rows) -> Option<(u64, u64, u64)> {
    let text = version.body["version"].as_str().unwrap_or_default();
    let kind = match version.body["details"]["embedded"].as_str() {
        Some(engine) => format!("the embedded engine {engine}, answering as {text}"),
        None => {
            format!("{text}, license {}", version.body["license"].as_str().unwrap_or("not told"))
        }
    };
    match checks::release(text) {
        Some(release) if release < VERSION_MIN => {
            rows.see(
                checks::VERSION,
                false,
                format!("{kind}: this release is too old, so no other check was run"),
            );
            None
        }
        Some(release) if release > TRIED_MAX => {
            rows.warn(checks::VERSION, format!("{kind}: newer than every tested release"));
            Some(release)
        }
        Some(release) => {
            rows.see(checks::VERSION, true, kind);
            Some(release)
        }
        None => {
            rows.see(checks::VERSION, false, format!("{version} tells no version"));
            None
        }
    }
}

fn see_status(status: &Answer, rows: &mut Rows) {
    let info = &status.body["serverInfo"];
    match status.status {
        200 => rows.see(
            checks::STATUS,
            info["readOnly"] == false && info["maintenance"] != true,
            format!("readOnly {}, maintenance {}", info["readOnly"], info["maintenance"]),
        ),
        401 | 403 => rows.skip(checks::STATUS, format!("{status}: refused; ask as administrator")),
        _ => rows.see(checks::STATUS, false, status.to_string()),
    }
}

fn see_licence(licence: Licence, rows: &mut Rows) {
    let Licence { code, told, status, used, limit } = licence;
    match (code, status) {
        (200, None) => rows.see(checks::LICENSE, true, "the database server reports no diskUsage"),
        (200, Some(status)) => rows.see(
            checks::LICENSE,
            status == "good",
            format!("{status}, {used} of {limit} bytes"),
        ),
        (401 | 403, _) => rows.skip(checks::LICENSE, format!("{told}: ask as administrator")),
        _ => rows.see(checks::LICENSE, false, told),
    }
}
