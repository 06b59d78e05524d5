//! Version, role, vector feature, listening sockets and their modes, as the server itself sees them.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use http::Method;
use serde_json::{Value, json};

use super::sentences::{AUTHENTICATION_OPEN, TCP_LISTENER, VECTOR_OFF, VERSION};
use crate::store::{Admin, Fault, FaultKind};

/// What was looked at and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `version`, `one-shard`, `vector-flag`, `uds`, `auth`, `modes`.
    pub check: &'static str,
    /// Whether the server may serve.
    pub passed: bool,
    /// One sentence: what was seen, and what to do if it failed.
    pub sentence: String,
}

/// What kind of database answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// arangod alone.
    Single,
    /// A coordinator.
    Cluster,
    /// The engine of this project.
    Embedded,
}

fn finding(check: &'static str, passed: bool, sentence: impl Into<String>) -> Finding {
    Finding { check, passed, sentence: sentence.into() }
}

/// Oldest version with a vector index (release notes of 3.12.4).
pub const VERSION_MIN: (u64, u64, u64) = (3, 12, 4);

/// Asks the database what it is. `vector_recorded`: what setup saw, for users that may not probe.
pub async fn check_database(
    db: &Admin,
    vector_recorded: bool,
) -> Result<(Profile, Vec<Finding>), Fault> {
    let (_, version) = db.call(Method::GET, "_api/version?details=true", None).await?;
    let text = version["version"].as_str().unwrap_or_default().to_owned();
    let embedded = version["details"]["embedded"].is_string();
    let recent = release(&text).is_some_and(|v| v >= VERSION_MIN);
    let mut findings = vec![finding(
        "version",
        recent,
        if recent {
            format!("database version {text}")
        } else {
            format!("{} (seen: {text})", VERSION.text)
        },
    )];
    let role = db
        .call(Method::GET, "_admin/server/role", None)
        .await
        .map(|(_, a)| Admin::field(&a, "role"))?;
    let profile = match role.as_str() {
        "COORDINATOR" => Profile::Cluster,
        _ if embedded => Profile::Embedded,
        _ => Profile::Single,
    };
    if role == "COORDINATOR" {
        findings.push(check_one_shard(db).await?);
    }
    findings.push(check_auth(db).await?);
    findings.push(check_vector(db, "archival_docs", vector_recorded).await?);
    Ok((profile, findings))
}

/// What is wrong with a database of a cluster that is not OneShard; no guard says it, since only a request sees it.
const SPREAD: &str = "the database is spread over DB-Servers, so no transaction is atomic: make it OneShard (options.sharding single) and restore into it";

/// In a cluster a stream transaction is atomic on one DB-Server only, so all collections must lie on one (manual, OneShard).
pub async fn check_one_shard(db: &Admin) -> Result<Finding, Fault> {
    let (_, current) = db.call(Method::GET, "_api/database/current", None).await?;
    Ok(match current["result"]["sharding"].as_str() {
        Some("single") => finding("one-shard", true, "the database is OneShard"),
        _ => finding("one-shard", false, SPREAD),
    })
}

/// The numbers of a release.
pub fn release(version: &str) -> Option<(u64, u64, u64)> {
    let mut parts = version.split(['.', '-']).map(|p| p.parse::<u64>().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

/// A request that names nobody must be refused. Silence proves nothing either way, so it is given back.
pub async fn check_auth(db: &Admin) -> Result<Finding, Fault> {
    match db.call_unnamed("_api/version").await {
        Err(Fault { kind: FaultKind::Arango { status: 401, .. }, .. }) => {
            Ok(finding("auth", true, "authentication is on for the Unix socket"))
        }
        Err(fault) if fault.passing() => Err(fault),
        _ => Ok(finding("auth", false, AUTHENTICATION_OPEN.text)),
    }
}

/// Posts a vector index that no server accepts; the order of the refusals tells whether the feature is on (server source: the feature check comes before the definition check).
pub async fn check_vector(db: &Admin, collection: &str, recorded: bool) -> Result<Finding, Fault> {
    let on = || finding("vector-flag", true, "the vector index feature is on");
    let off = || finding("vector-flag", false, VECTOR_OFF.text);
    let body = json!({"type": "vector", "name": "vctx_probe", "fields": ["embedding"],
        "params": {"metric": "cosine", "dimension": 0, "nLists": 1}});
    let path = format!("_api/index?collection={collection}");
    Ok(match db.define(Method::POST, &path, Some(&body)).await {
        Err(Fault { kind: FaultKind::Arango { num: 11, .. }, .. }) if recorded => on(),
        Err(Fault { kind: FaultKind::Arango { num: 11, .. }, .. }) => finding(
            "vector-flag",
            false,
            "this user may not probe the vector index feature and no setup has recorded it: run `vctx setup` as administrator",
        ),
        Err(Fault { kind: FaultKind::Arango { status: 400, .. }, message })
            if message.contains("vector-index") =>
        {
            off()
        }
        Err(Fault { kind: FaultKind::Arango { status: 400, .. }, .. }) => on(),
        Err(fault) if fault.passing() => return Err(fault),
        _ => off(),
    })
}

/// Port of arangod's TCP endpoint by default.
const ARANGOD_PORT: u16 = 8529;
/// State of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// Looks for TCP listeners of this process and on ArangoDB's port, and at the mode of our socket's directory and of the socket.
pub fn check_sockets(socket: &Path, profile: Profile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let listeners = tcp_listeners();
    let own = own_sockets();
    let ours = listeners.iter().any(|(_, inode)| own.contains(inode));
    let theirs =
        profile != Profile::Cluster && listeners.iter().any(|(port, _)| *port == ARANGOD_PORT);
    findings.push(match (ours, theirs) {
        (true, _) | (_, true) => finding("uds", false, TCP_LISTENER.text),
        _ => finding("uds", true, "no TCP listener; the database is reached over its Unix socket"),
    });
    findings.push(modes(socket));
    findings
}

/// Others must neither reach the socket nor be able to put another one in its place. A directory that we made has mode 0700; one that
/// was there may be looser as long as nobody else can write to it (or only with the sticky bit, as in /tmp). One that lets its owner
/// alone in and us not, since the service manager made it for one caller, says all there is to say.
fn modes(socket: &Path) -> Finding {
    let mode = |p: &Path| fs::metadata(p).map(|m| m.permissions().mode() & 0o1777);
    let directory = socket.parent().unwrap_or(Path::new("/"));
    match (mode(directory), mode(socket)) {
        (Ok(d), Err(e)) if e.kind() == ErrorKind::PermissionDenied && d & 0o077 == 0 => finding(
            "modes",
            true,
            format!("a socket in a directory of mode {d:o} of its one caller"),
        ),
        (Ok(d), Ok(s)) if s & 0o007 == 0 && (d & 0o022 == 0 || d & 0o1000 != 0) => {
            let private = if d & 0o077 == 0 { "" } else { "; 0700 would be private" };
            finding(
                "modes",
                true,
                format!("socket mode {s:o} in a directory of mode {d:o}{private}"),
            )
        }
        (Ok(d), Ok(s)) => finding(
            "modes",
            false,
            format!(
                "socket mode {s:o} in a directory of mode {d:o}: others can reach or replace it; chmod 700 {}",
                directory.display()
            ),
        ),
        (Err(e), _) | (_, Err(e)) => {
            finding("modes", false, format!("the socket's mode cannot be read: {e}"))
        }
    }
}

/// Port and inode of each listening TCP socket.
fn tcp_listeners() -> Vec<(u16, String)> {
    let mut found = Vec::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let port = columns
                .get(1)
                .and_then(|a| a.rsplit(':').next())
                .and_then(|p| u16::from_str_radix(p, 16).ok());
            if let (Some(port), Some(&LISTENING), Some(inode)) =
                (port, columns.get(3), columns.get(9))
            {
                found.push((port, (*inode).to_owned()));
            }
        }
    }
    found
}

/// Inodes of this process's sockets.
fn own_sockets() -> HashSet<String> {
    let links = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    links
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|link| {
            link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']').map(str::to_owned)
        })
        .collect()
}

/// Findings as one JSON value, for reports.
impl From<&Finding> for Value {
    fn from(f: &Finding) -> Self {
        json!({"check": f.check, "passed": f.passed, "sentence": f.sentence})
    }
}
