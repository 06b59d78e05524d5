//! Retention: the ttl index of recall storage, what is due to go with it, and its going.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::db::{Admin, Binds, Ro, Rw};
use super::fault::Fault;
use super::query::{Query, query};
use super::transaction::Stream;
use vctx_core::limits::{EXPIRE_ROWS, EXPIRE_SCAN_ROWS};
use vctx_core::memory::change::Expire;
use vctx_core::memory::core::Core;
use vctx_core::policy::{Due, Scope};

/// Agents with something due.
pub(super) const AGENTS: Query = query!("retention_agents");
/// What is due.
pub(super) const DUE: Query = query!("retention_due");
/// It goes.
pub(super) const EXPIRE: Query = query!("message_expire");

/// Collections that only this writes, beside those of every change.
pub(super) const WRITES: [&str; 1] = ["recall_vectors"];

const INDEXES: &str = "_api/index?collection=recall_log";

/// An agent that was looked at.
#[derive(Clone, Debug, Deserialize)]
pub struct DueAgent {
    /// Key of its core.
    pub key: String,
    /// Its tenant; empty: the default one.
    pub tenant: String,
    /// Whether something of it is due.
    pub due: bool,
}

/// The next agents behind a key, and whether something of them is due.
pub async fn due_agents(
    ro: &Ro,
    after: &str,
    before: &str,
    limit: u64,
) -> Result<Vec<DueAgent>, Fault> {
    let binds = [
        ("after", after.into()),
        ("before", before.into()),
        ("limit", limit.into()),
        ("scan", EXPIRE_SCAN_ROWS.into()),
    ];
    ro.rows(AGENTS, Binds::unscoped(binds)).await
}

/// What of an agent is due.
pub async fn due(ro: &Ro, scope: &Scope, core: &Core, before: &str) -> Result<Due, Fault> {
    let binds = Binds::of(
        scope,
        [
            ("before", before.into()),
            ("through_seq", core.expired.through_seq.into()),
            ("through_at", core.expired.through_at.as_str().into()),
            ("through_version", core.expired.through_version.into()),
            ("head_seq", core.queue.head_seq.into()),
            ("summary_version", core.queue_head_summary.changed_at_version.into()),
            ("limit", EXPIRE_ROWS.into()),
            ("scan", EXPIRE_SCAN_ROWS.into()),
        ],
    );
    let rows: Vec<Due> = ro.rows(DUE, binds).await?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// Takes the texts away inside a running transaction; false if others are there than the decision was made on.
pub(super) async fn expire(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    expire: &Expire,
) -> Result<bool, Fault> {
    #[derive(Deserialize)]
    struct Row {
        messages: Vec<String>,
    }
    let ids: Vec<String> = expire.keys.iter().map(|key| format!("messages/{key}")).collect();
    let binds = Binds::of(
        scope,
        [
            ("keys", json!(expire.keys)),
            ("ids", json!(ids)),
            ("seqs", json!(expire.seqs)),
            ("versions", json!(expire.versions)),
            ("answers", json!(expire.answers)),
            ("expired_at", expire.expired_at.as_str().into()),
            ("forgotten", expire.forgotten_version.is_some().into()),
            ("forgotten_version", expire.forgotten_version.into()),
            ("sync", rw.sync.into()),
        ],
    );
    let rows: Vec<Row> = stream.rows(EXPIRE, binds).await?;
    Ok(rows.first().is_some_and(|row| row.messages.len() == expire.keys.len()))
}

/// Gives recall storage the ttl index that the policy wants, or takes it away; true if something changed. An index of another life gives way
/// to a new one: arangod changes none in place.
pub async fn keep_ttl_index(admin: &Admin, recall_ttl_s: Option<u64>) -> Result<bool, Fault> {
    let (_, answer) = admin.call(Method::GET, INDEXES, None).await?;
    let indexes = answer["indexes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = indexes.iter().find(|index| index["type"] == "ttl");
    let life = found.and_then(|index| index["expireAfter"].as_f64());
    if life == recall_ttl_s.map(|ttl_s| ttl_s as f64) {
        return Ok(false);
    }
    if let Some(id) = found.and_then(|index| index["id"].as_str()) {
        admin.define(Method::DELETE, &format!("_api/index/{id}"), None).await?;
    }
    if let Some(ttl_s) = recall_ttl_s {
        let definition = json!({"type": "ttl", "name": "recall_expires", "fields": ["created_at"], "expireAfter": ttl_s});
        admin.define(Method::POST, INDEXES, Some(&definition)).await?;
    }
    Ok(true)
}

/// What the ttl index is called in reports.
pub(super) fn ttl_report(recall_ttl_s: Option<u64>) -> Value {
    match recall_ttl_s {
        Some(ttl_s) => Value::from(format!("recall_expires after {ttl_s} s")),
        None => Value::from("recall_expires, taken away"),
    }
}
