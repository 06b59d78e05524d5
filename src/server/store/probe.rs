//! What `vctx doctor` asks a database: texts for scratch collections, and answers that are looked at whatever their status.

use http::Method;
use serde_json::{Value, json};

use super::db::{Admin, Answer, Sent};
use super::fault::Fault;
use super::query::{Query, query};
use super::setup;

/// One document.
pub const INSERT: Query = query!("doctor/insert");
/// Several documents.
pub const INSERT_ALL: Query = query!("doctor/insert_all");
/// A document by its key.
pub const READ: Query = query!("doctor/read");
/// A change guarded by a revision.
pub const UPDATE: Query = query!("doctor/update");
/// What no query may do.
pub const WRITE_THEN_READ: Query = query!("doctor/write_then_read");
/// A page of keys.
pub const PAGE: Query = query!("doctor/page");
/// Rows for a cursor.
pub const NUMBERS: Query = query!("doctor/numbers");
/// How values compare, and the database's clock.
pub const VALUES: Query = query!("doctor/values");
/// What warns.
pub const DIVIDE: Query = query!("doctor/divide");
/// Tokens of a text.
pub const TOKENS: Query = query!("doctor/tokens");
/// A search by words.
pub const WORDED: Query = query!("doctor/worded");
/// A search by nearness.
pub const NEAR: Query = query!("doctor/near");
/// The same one by one.
pub const NEAR_EXACT: Query = query!("doctor/near_exact");
/// The same in a shape that is refused.
pub const NEAR_MISSHAPEN: Query = query!("doctor/near_misshapen");
/// What a view shows.
pub const VIEW_ROWS: Query = query!("doctor/view_rows");
/// What waits for its vectors.
pub const UNEMBEDDED: Query = query!("doctor/unembedded");

/// Every text of `aql/doctor/`. They are no queries of the server: their collections are bound.
pub const PROBES: &[Query] = &[
    INSERT,
    INSERT_ALL,
    READ,
    UPDATE,
    WRITE_THEN_READ,
    PAGE,
    NUMBERS,
    VALUES,
    DIVIDE,
    TOKENS,
    WORDED,
    NEAR,
    NEAR_EXACT,
    NEAR_MISSHAPEN,
    VIEW_ROWS,
    UNEMBEDDED,
];

/// Rows of one batch, where batches are counted.
pub const BATCH_PROBE_ROWS: u64 = 2;
/// Rows of one batch, where a probe does not count batches.
const BATCH_ROWS: u64 = 1_000;

/// Runs a text; a warning is an error, so that nothing is missed.
pub async fn run(db: &Admin, query: Query, binds: &Value) -> Result<Answer, Fault> {
    run_in(db, None, query, binds).await
}

/// The same inside a stream transaction.
pub async fn run_in(
    db: &Admin,
    transaction: Option<&str>,
    query: Query,
    binds: &Value,
) -> Result<Answer, Fault> {
    run_batched(db, transaction, query, binds, BATCH_ROWS).await
}

/// The same in batches of so many rows.
pub async fn run_batched(
    db: &Admin,
    transaction: Option<&str>,
    query: Query,
    binds: &Value,
    batch_rows: u64,
) -> Result<Answer, Fault> {
    let body = json!({"query": query.text, "bindVars": binds, "batchSize": batch_rows,
        "options": {"failOnWarning": true}});
    let headers: Vec<(&str, &str)> =
        transaction.iter().map(|id| ("x-arango-trx-id", *id)).collect();
    let sent =
        Sent { method: Method::POST, path: "_api/cursor", headers: &headers, body: Some(&body) };
    db.exchange(sent).await
}

/// What the optimizer makes of a text.
pub async fn explain(db: &Admin, query: Query, binds: &Value) -> Result<Answer, Fault> {
    let body = json!({"query": query.text, "bindVars": binds});
    db.ask(Method::POST, "_api/explain", Some(&body)).await
}

/// What a database holds that was set up: collections, indexes and views by name, as `arango-setup/` lists them.
#[derive(Clone, Debug, Default)]
pub struct Described {
    /// Collections.
    pub collections: Vec<String>,
    /// Indexes with their collections.
    pub indexes: Vec<(String, String)>,
    /// Views.
    pub views: Vec<String>,
}

/// What `arango-setup/` describes.
pub fn described() -> Result<Described, Fault> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named = |list: &[Value]| list.iter().map(|entry| text(&entry["name"])).collect();
    let index = |entry: &Value| (text(&entry["collection"]), text(&entry["index"]["name"]));
    Ok(Described {
        collections: named(&setup::listed(setup::COLLECTIONS)?),
        indexes: setup::listed(setup::INDEXES)?.iter().map(index).collect(),
        views: named(&setup::listed(setup::VIEWS)?),
    })
}
