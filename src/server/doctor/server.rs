//! What answers on the socket: its version, role, mode, licence, and whether it asks who is there.

use http::Method;

use super::check::{self, Step};
use super::report::Rows;
use super::visit::Asked;
use crate::startup::{self, Profile, VERSION_MIN};
use crate::store::{Admin, Answer, Fault, FaultKind};

/// Newest release that the server was tried with, on the engine's `--compat` modes.
pub(super) const TRIED_MAX: (u64, u64, u64) = (3, 12, 10);
/// Bytes of the community edition's limit (ArangoDB's licence), said where the server says none.
pub(super) const COMMUNITY_BYTES_MAX: u64 = 100 << 30;

/// What is known of it.
pub(super) struct Server {
    /// Numbers of its release.
    pub(super) release: (u64, u64, u64),
}

impl Server {
    /// Whether it is that patch of 3.12 or a later one.
    pub(super) fn since(&self, patch: u64) -> bool {
        self.release >= (3, 12, patch)
    }
}

/// The configured database; the system database where that one was never made.
pub(super) async fn connect(asked: &Asked) -> Result<(Admin, bool), Fault> {
    match Admin::connect(asked.endpoint(), asked.who(), &asked.store.database).await {
        Ok(db) => Ok((db, true)),
        Err(Fault { kind: FaultKind::Arango { num: 1228, .. }, .. }) => {
            Admin::connect(asked.endpoint(), asked.who(), "_system").await.map(|db| (db, false))
        }
        Err(fault) => Err(fault),
    }
}

/// Looks at it. None if it is too old for everything else.
pub(super) async fn look(asked: &Asked, rows: &mut Rows) -> Result<Option<Server>, Fault> {
    let connected = connect(asked).await;
    if let Err(fault) = &connected {
        // The driver asks for `GET /` first and gives up where the header is another.
        if fault.kind == FaultKind::Garbage {
            rows.see(check::ROOT, false, fault.to_string());
        }
        rows.see(check::REACHED, false, fault.to_string());
    }
    let (db, is_there) = connected?;
    let absent = if is_there { "" } else { ", where there is no database of that name yet" };
    rows.see(check::REACHED, true, format!("answers; user {}{absent}", asked.who().user));
    let get = async |path: &str| db.ask(Method::GET, path, None).await;
    let root = get("/").await?;
    let server = root.server.clone().unwrap_or_default();
    rows.see(check::ROOT, server == "ArangoDB", format!("{}, Server: {server}", root.status));
    let availability = get("/_admin/server/availability").await?;
    let mode = availability.body["mode"].as_str().unwrap_or_default();
    rows.see(
        check::AVAILABILITY,
        availability.status == 200 && mode == "default",
        format!("{} {mode}", availability.told()),
    );
    let version = get("_api/version?details=true").await?;
    let Some(release) = see_version(&version, rows) else { return Ok(None) };
    let status = get("_admin/status").await?;
    see_status(&status, rows);
    let role =
        get("_admin/server/role").await?.body["role"].as_str().unwrap_or_default().to_owned();
    let told = status.body["serverInfo"]["role"].as_str().unwrap_or_default();
    let known = ["SINGLE", "COORDINATOR"].contains(&role.as_str());
    rows.see(
        check::ROLE,
        known && (status.status != 200 || role == told),
        format!("{role}; in the status {told}"),
    );
    see_license(&get("_admin/license").await?, rows);
    let auth = startup::check_auth(&db).await?;
    rows.see(check::AUTH, auth.passed, auth.sentence);
    see_tcp(asked, &role, rows);
    if role != "COORDINATOR" {
        rows.skip(check::ONE_SHARD, "no coordinator: a single server has no shards");
    } else if is_there {
        let finding = startup::check_one_shard(&db).await?;
        rows.see(check::ONE_SHARD, finding.passed, finding.sentence);
    } else {
        rows.skip(check::ONE_SHARD, "there is no database yet: run `vctx setup` first");
    }
    rows.skip_rest(Step::Server, "not looked at");
    Ok(Some(Server { release }))
}

/// None if nothing further can be asked.
fn see_version(version: &Answer, rows: &mut Rows) -> Option<(u64, u64, u64)> {
    let text = version.body["version"].as_str().unwrap_or_default();
    let kind = match version.body["details"]["embedded"].as_str() {
        Some(engine) => format!("the embedded engine {engine}, answering as {text}"),
        None => {
            format!("{text}, license {}", version.body["license"].as_str().unwrap_or("not told"))
        }
    };
    match startup::release(text) {
        Some(release) if release < VERSION_MIN => {
            rows.see(check::VERSION, false, format!("{kind}: refused, and nothing else was tried"));
            None
        }
        Some(release) if release > TRIED_MAX => {
            rows.warn(check::VERSION, format!("{kind}: newer than what was tried"));
            Some(release)
        }
        Some(release) => {
            rows.see(check::VERSION, true, kind);
            Some(release)
        }
        None => {
            rows.see(check::VERSION, false, format!("{} tells no version", version.told()));
            None
        }
    }
}

fn see_status(status: &Answer, rows: &mut Rows) {
    let info = &status.body["serverInfo"];
    match status.status {
        200 => rows.see(
            check::STATUS,
            info["readOnly"] == false && info["maintenance"] != true,
            format!("readOnly {}, maintenance {}", info["readOnly"], info["maintenance"]),
        ),
        401 | 403 => {
            rows.skip(check::STATUS, format!("{}: hardened; ask as administrator", status.told()))
        }
        _ => rows.see(check::STATUS, false, status.told()),
    }
}

fn see_license(license: &Answer, rows: &mut Rows) {
    let usage = &license.body["diskUsage"];
    match (license.status, usage["status"].as_str()) {
        (200, None) => rows.see(check::LICENSE, true, "no diskUsage is told"),
        (200, Some(status)) => {
            let (used, limit) = disk_use(license);
            rows.see(
                check::LICENSE,
                status == "good",
                format!("{status}, {used} of {limit} bytes"),
            );
        }
        (401 | 403, _) => {
            rows.skip(check::LICENSE, format!("{}: ask as administrator", license.told()))
        }
        _ => rows.see(check::LICENSE, false, license.told()),
    }
}

/// Bytes used and the limit; the community edition's where none is told.
pub(super) fn disk_use(license: &Answer) -> (u64, u64) {
    let bytes = |name: &str| license.body["diskUsage"][name].as_u64().unwrap_or(0);
    let limit = bytes("bytesLimit");
    (bytes("bytesUsed"), if limit == 0 { COMMUNITY_BYTES_MAX } else { limit })
}

fn see_tcp(asked: &Asked, role: &str, rows: &mut Rows) {
    let profile = if role == "COORDINATOR" { Profile::Cluster } else { Profile::Single };
    let findings = startup::check_sockets(&asked.socket(), profile);
    if let Some(finding) = findings.into_iter().find(|finding| finding.check == "uds") {
        rows.see(check::TCP, finding.passed, finding.sentence);
    }
}
