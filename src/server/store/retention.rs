//! Stores what retention needs: the TTL index of recall storage, and the search for and removal of
//! due texts.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::db::{Admin, Ro, Rw, binds};
use super::fault::Result;
use super::ledger::{Touched, Written, salt};
use super::query::queries;
use super::transaction::Stream;
use vctx_core::limits::SUMMARY_ROWS_MAX;
use vctx_core::memory::change::Expire;
use vctx_core::memory::core::Core;
use vctx_core::memory::message::Message;
use vctx_core::policy::Due;
use vctx_core::trust::Scope;

/// Maximum number of messages whose texts one write removes. The same maximum applies separately to
/// core versions and to stored answers.
const EXPIRE_ROWS: u64 = 256;
/// Maximum number of rows of each kind that one statement of such a write changes. The statement
/// returns each row with its texts, which have up to [`TEXT_BYTES_MAX`] bytes.
///
/// [`TEXT_BYTES_MAX`]: vctx_core::limits::TEXT_BYTES_MAX
const EXPIRE_STATEMENT_ROWS: usize = 32;
/// Number of an agent's oldest messages that are examined to find those whose entry the TTL index
/// has removed. This index removes the oldest entries first.
const EXPIRE_SCAN_ROWS: u64 = 2_048;

queries! {
    AGENTS = "retention_agents",
    DUE = "retention_due",
    EVICTED = "message_evicted",
    EXPIRE = "message_expire",
}

/// Collections that retention writes or reads, in addition to the collections that every change
/// writes.
pub(super) const WRITES: [&str; 2] = ["archival_docs", "recall_vectors"];

const INDEXES: &str = "_api/index?collection=recall_log";

/// An agent, and whether retention has work for it.
#[derive(Clone, Debug, Deserialize)]
pub struct DueAgent {
    /// Key of the agent's core.
    pub key: String,
    /// Tenant of the agent; an empty text means the default tenant.
    pub tenant: String,
    /// Whether the agent has texts that are due for removal.
    pub due: bool,
}

/// Returns the next agents whose keys follow `after`, and for each agent whether it has texts that
/// are due for removal.
pub async fn due_agents(ro: &Ro, after: &str, before: &str, limit: u64) -> Result<Vec<DueAgent>> {
    ro.rows(AGENTS, binds!(none; after, before, limit, scan = EXPIRE_SCAN_ROWS)).await
}

/// Returns the texts of an agent that are due for removal.
pub async fn due(ro: &Ro, scope: &Scope, core: &Core, before: &str) -> Result<Due> {
    let binds = binds!(scope;
        before, through_seq = core.expired.through_seq, through_at = core.expired.through_at,
        through_version = core.expired.through_version, head_seq = core.queue.head_seq,
        summary_version = core.queue_head_summary.changed_at_version, limit = EXPIRE_ROWS,
        scan = EXPIRE_SCAN_ROWS
    );
    Ok(ro.row(DUE, binds).await?.unwrap_or_default())
}

/// Returns the newest evicted messages of an agent that still have their texts and are not older
/// than a time, oldest first.
pub async fn evicted(ro: &Ro, scope: &Scope, core: &Core, since: &str) -> Result<Vec<Message>> {
    let head_seq = core.queue.head_seq;
    let binds = binds!(scope; since, head_seq, limit = SUMMARY_ROWS_MAX);
    let mut messages: Vec<Message> = ro.rows(EVICTED, binds).await?;
    messages.reverse();
    Ok(messages)
}

/// Removes due texts inside a running transaction. Returns `false` if the database no longer has
/// the messages on which the decision was based.
pub(super) async fn expire(
    stream: &Stream<'_>,
    rw: &Rw,
    scope: &Scope,
    expire: &Expire,
    written: &mut Written<'_>,
) -> Result<bool> {
    #[derive(Deserialize)]
    struct Row {
        messages: u64,
        rows: Vec<Touched>,
    }
    let lengths =
        [expire.keys.len(), expire.seqs.len(), expire.versions.len(), expire.answers.len()];
    let longest = lengths.into_iter().max().unwrap_or_default();
    let (salt, mut messages) = (salt(), 0);
    for at in 0..longest.div_ceil(EXPIRE_STATEMENT_ROWS).max(1) {
        let keys = part(&expire.keys, at);
        let ids: Vec<String> = keys.iter().map(|key| format!("messages/{key}")).collect();
        let binds = binds!(scope;
            keys, ids, seqs = part(&expire.seqs, at), versions = part(&expire.versions, at),
            answers = part(&expire.answers, at), expired_at = expire.expired_at,
            forgotten = expire.forgotten_version.is_some(),
            forgotten_version = expire.forgotten_version, salt, sync = rw.sync
        );
        let rows: Vec<Row> = stream.rows(EXPIRE, binds).await?;
        let Some(row) = rows.into_iter().next() else { return Ok(false) };
        written.touched(row.rows)?;
        messages += row.messages;
    }
    Ok(messages == expire.keys.len() as u64)
}

/// Returns the part of a list that the statement with the number `at` gets.
fn part<T>(list: &[T], at: usize) -> &[T] {
    list.chunks(EXPIRE_STATEMENT_ROWS).nth(at).unwrap_or_default()
}

/// Creates or drops recall storage's TTL index, as the policy requires. Returns `true` if anything
/// changed. To change the TTL, the index is dropped and created again, since arangod cannot change
/// the TTL of an existing index.
pub async fn keep_ttl_index(admin: &Admin, recall_ttl_s: Option<u64>) -> Result<bool> {
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

/// Returns the description of the TTL index for reports.
pub(super) fn ttl_report(recall_ttl_s: Option<u64>) -> Value {
    match recall_ttl_s {
        Some(ttl_s) => Value::from(format!("recall_expires after {ttl_s} s")),
        None => Value::from("recall_expires, taken away"),
    }
}
