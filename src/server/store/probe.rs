//! Queries that `vctx doctor` runs on its scratch collections. The functions return the database's
//! answer whatever its status.

use http::Method;
use serde_json::{Value, json};

use super::db::{Admin, Answer, DatabaseRequest};
use super::fault::Result;
use super::query::{Query, queries};
use super::setup;

queries! {
    pub INSERT = "doctor/insert",
    pub INSERT_ALL = "doctor/insert_all",
    pub READ = "doctor/read",
    pub UPDATE = "doctor/update",
    pub WRITE_THEN_READ = "doctor/write_then_read",
    pub PAGE = "doctor/page",
    pub NUMBERS = "doctor/numbers",
    pub VALUES = "doctor/values",
    pub DIVIDE = "doctor/divide",
    pub TOKENS = "doctor/tokens",
    pub WORDED = "doctor/worded",
    pub NEAR = "doctor/near",
    pub NEAR_EXACT = "doctor/near_exact",
    pub NEAR_MISSHAPEN = "doctor/near_misshapen",
    pub VIEW_ROWS = "doctor/view_rows",
    pub UNEMBEDDED = "doctor/unembedded",
}

/// Every query in `aql/doctor/`. Only the doctor uses these queries; their collections are bind
/// parameters.
pub const PROBES: &[Query] = ALL;

/// Batch size, in rows, of the probe that counts the batches of a result.
pub const BATCH_PROBE_ROWS: u64 = 2;
/// Batch size, in rows, of all other probes.
const BATCH_ROWS: u64 = 1_000;

/// Runs a query. The query's options make the database report warnings as errors, so that no
/// warning is missed.
pub async fn run(db: &Admin, query: Query, binds: &Value) -> Result<Answer> {
    run_in(db, None, query, binds).await
}

/// Runs a query, inside the given stream transaction if any.
pub async fn run_in(
    db: &Admin,
    transaction: Option<&str>,
    query: Query,
    binds: &Value,
) -> Result<Answer> {
    run_batched(db, transaction, query, binds, BATCH_ROWS).await
}

/// Runs a query with the given batch size, inside the given stream transaction if any.
pub async fn run_batched(
    db: &Admin,
    transaction: Option<&str>,
    query: Query,
    binds: &Value,
    batch_rows: u64,
) -> Result<Answer> {
    let body = json!({"query": query.statement(), "bindVars": binds, "batchSize": batch_rows,
        "options": {"failOnWarning": true}});
    let headers: Vec<(&str, &str)> =
        transaction.iter().map(|id| ("x-arango-trx-id", *id)).collect();
    let request = DatabaseRequest {
        method: Method::POST,
        path: "_api/cursor",
        headers: &headers,
        body: Some(&body),
    };
    db.exchange(request).await
}

/// Returns the optimizer's plan for a query.
pub async fn explain(db: &Admin, query: Query, binds: &Value) -> Result<Answer> {
    let body = json!({"query": query.statement(), "bindVars": binds});
    db.ask(Method::POST, "_api/explain", Some(&body)).await
}

/// Names of the collections, indexes and views in `arango-setup/`.
#[derive(Clone, Debug, Default)]
pub struct Described {
    /// Names of the collections.
    pub collections: Vec<String>,
    /// Names of the indexes, each preceded by the name of its collection.
    pub indexes: Vec<(String, String)>,
    /// Names of the views.
    pub views: Vec<String>,
}

/// Reads the names from the files in `arango-setup/`.
pub fn described() -> Result<Described> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named = |list: &[Value]| list.iter().map(|entry| text(&entry["name"])).collect();
    let index = |entry: &Value| (text(&entry["collection"]), text(&entry["index"]["name"]));
    Ok(Described {
        collections: named(&setup::listed(setup::COLLECTIONS)?),
        indexes: setup::listed(setup::INDEXES)?.iter().map(index).collect(),
        views: named(&setup::listed(setup::VIEWS)?),
    })
}
