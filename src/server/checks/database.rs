//! Checks a database's version, role, authentication, vector index feature, mode and licence.

use http::Method;
use serde_json::json;

use super::sentences;
use super::{AUTH, FLAG, Finding, ONE_SHARD, list};
use crate::store::{Admin, Fault, FaultKind, Result};

/// Maximum size in bytes of a dataset in the community edition (ArangoDB's licence), used if the
/// server states no limit.
const COMMUNITY_BYTES_MAX: u64 = 100 << 30;

/// Kind of an ArangoDB deployment: single server, coordinator or embedded engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A single arangod server.
    Single,
    /// A coordinator of a cluster.
    Cluster,
    /// The embedded engine, `arango-embedded`.
    Embedded,
}

/// Oldest ArangoDB release with a vector index (release notes of 3.12.4).
pub(crate) const VERSION_MIN: (u64, u64, u64) = (3, 12, 4);

/// Runs the checks of the database. `vector_recorded` says whether setup found the vector index
/// feature, for users without the right to probe that feature.
pub async fn check_database(db: &Admin, vector_recorded: bool) -> Result<(Profile, Vec<Finding>)> {
    let (_, version) = db.call(Method::GET, "_api/version?details=true", None).await?;
    let text = version["version"].as_str().unwrap_or_default().to_owned();
    let embedded = version["details"]["embedded"].is_string();
    let recent = release(&text).is_some_and(|v| v >= VERSION_MIN);
    let mut findings = vec![Finding::new(
        list::VERSION,
        recent,
        if recent {
            format!("database version {text}")
        } else {
            format!("{} (seen: {text})", sentences::VERSION.text)
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

/// The sentence for a failed check of OneShard in a cluster. No guard script prints this sentence,
/// since only a request to the database can detect the fault.
const SPREAD: &str = "the database is spread over DB-Servers, so no transaction is atomic: make it OneShard (options.sharding single) and restore into it";

/// In a cluster, a stream transaction is atomic only on a single DB-Server, so all collections must
/// be on the same DB-Server (manual, OneShard).
pub(crate) async fn check_one_shard(db: &Admin) -> Result<Finding> {
    let (_, current) = db.call(Method::GET, "_api/database/current", None).await?;
    Ok(match current["result"]["sharding"].as_str() {
        Some("single") => Finding::new(ONE_SHARD, true, "the database is OneShard"),
        _ => Finding::new(ONE_SHARD, false, SPREAD),
    })
}

/// Parses the numbers of an ArangoDB release.
pub(crate) fn release(version: &str) -> Option<(u64, u64, u64)> {
    let mut parts = version.split(['.', '-']).map(|p| p.parse::<u64>().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

/// Checks that the database refuses a request without credentials. Without an answer, the check
/// proves nothing and returns an error.
pub(crate) async fn check_auth(db: &Admin) -> Result<Finding> {
    match db.call_unnamed("_api/version").await {
        Err(Fault { kind: FaultKind::Arango { status: 401, .. }, .. }) => {
            Ok(Finding::new(AUTH, true, "authentication is on for the Unix socket"))
        }
        Err(fault) if fault.passing() => Err(fault),
        _ => Ok(Finding::new(AUTH, false, sentences::AUTHENTICATION_OPEN.text)),
    }
}

/// Posts an invalid vector index definition. The error in the refusal shows whether the vector
/// index feature is on, since arangod checks the feature before the definition (server source).
pub(crate) async fn check_vector(db: &Admin, collection: &str, recorded: bool) -> Result<Finding> {
    let on = || Finding::new(FLAG, true, "the vector index feature is on");
    let off = || Finding::new(FLAG, false, sentences::VECTOR_OFF.text);
    let body = json!({"type": "vector", "name": "vctx_probe", "fields": ["embedding"],
        "params": {"metric": "cosine", "dimension": 0, "nLists": 1}});
    let path = format!("_api/index?collection={collection}");
    Ok(match db.define(Method::POST, &path, Some(&body)).await {
        Err(Fault { kind: FaultKind::Arango { num: 11, .. }, .. }) if recorded => on(),
        Err(Fault { kind: FaultKind::Arango { num: 11, .. }, .. }) => Finding::new(
            FLAG,
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

/// Returns whether a database server accepts writes, and the mode that the server reports.
pub(crate) async fn mode(db: &Admin) -> Result<(bool, String)> {
    let answer = db.ask(Method::GET, "/_admin/server/availability", None).await?;
    let mode = answer.body["mode"].as_str().unwrap_or_default();
    Ok((answer.status == 200 && mode == "default", format!("{answer} {mode}")))
}

/// A database server's answer to a request for its licence.
pub(crate) struct Licence {
    /// HTTP status of the answer.
    pub(crate) code: u16,
    /// Status and error of the answer, as text for the report.
    pub(crate) told: String,
    pub(crate) status: Option<String>,
    /// Size of all data in the database server, which the licence limits, in bytes.
    pub(crate) used: u64,
    /// Dataset limit of the licence, in bytes; by default the community edition's limit.
    pub(crate) limit: u64,
}

impl Licence {
    pub(crate) async fn of(db: &Admin) -> Result<Self> {
        let answer = db.ask(Method::GET, "_admin/license", None).await?;
        let usage = &answer.body["diskUsage"];
        let bytes = |name: &str| usage[name].as_u64().unwrap_or(0);
        let limit = Some(bytes("bytesLimit")).filter(|limit| *limit > 0);
        Ok(Self {
            code: answer.status,
            told: answer.to_string(),
            status: usage["status"].as_str().map(str::to_owned),
            used: bytes("bytesUsed"),
            limit: limit.unwrap_or(COMMUNITY_BYTES_MAX),
        })
    }
}
