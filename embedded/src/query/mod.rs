//! A query's way: text → syntax tree → plan → rows; plans are kept by text.

use crate::error::{Code, Error, Result};
use crate::schema::Database;
use crate::txn::Transaction;
use crate::value::{Object, Value};

/// One query as a client sent it.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// AQL.
    pub text: String,
    /// `bindVars`, collection names under `@name` keys.
    pub binds: Object,
    /// Options that change what the query does.
    pub options: QueryOptions,
}

/// `options` and limits of a cursor request.
#[derive(Clone, Debug, Default)]
pub struct QueryOptions {
    /// Count the rows that the last top-level LIMIT cut off.
    pub full_count: bool,
    /// A warning ends the query as an error.
    pub fail_on_warning: bool,
    /// Warnings kept at most (10 when None).
    pub max_warning_count: Option<usize>,
    /// Seconds after which the query is killed (1500); 0 means never.
    pub max_runtime_s: f64,
    /// Bytes of rows a query may hold (32); 0 means the engine's own limit.
    pub memory_limit: u64,
}

/// What a query needs to be let in: filled by `prepare`, before any data is touched.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Collections (and views) it reads.
    pub read: Vec<String>,
    /// Collections it writes.
    pub write: Vec<String>,
    /// Those it writes with `OPTIONS { exclusive: true }`.
    pub exclusive: Vec<String>,
    /// Whether an `OPTIONS { waitForSync: true }` stands in it.
    pub wait_for_sync: bool,
}

/// Counters of `extra.stats`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are ArangoDB's")]
pub struct Stats {
    pub writes_executed: u64,
    pub writes_ignored: u64,
    pub document_lookups: u64,
    pub seeks: u64,
    pub scanned_full: u64,
    pub scanned_index: u64,
    pub filtered: u64,
    pub full_count: Option<u64>,
    pub peak_memory_usage: u64,
}

/// A query's answer; all rows are there (the engine runs a query whole before the first batch).
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Result rows.
    pub rows: Vec<Value>,
    /// Counters.
    pub stats: Stats,
    /// `code` and `message` of warnings.
    pub warnings: Vec<(u32, String)>,
}

/// A parsed and planned query, ready to run any number of times with the binds it was prepared with.
#[derive(Debug)]
pub struct Prepared {
    /// What it may touch.
    pub access: Access,
}

/// Parses, binds and plans (plans are cached by text and schema version inside).
pub fn prepare(_database: &Database, _query: &Query) -> Result<Prepared> {
    Err(Error::of(Code::NotImplemented))
}

impl Prepared {
    /// Runs the plan in a transaction. A failed run leaves its writes to the caller's savepoint.
    pub fn run(&self, _database: &Database, _transaction: &Transaction) -> Result<Answer> {
        Err(Error::of(Code::NotImplemented))
    }

    /// `plan` of `/_api/explain`: nodes with real type names, rules, collections, variables.
    pub fn explain(&self) -> Value {
        Value::Null
    }
}

/// `/_api/query`: `collections`, `bindVars`, `ast` of a text, or 1501.
pub fn parse_only(_text: &str) -> Result<Value> {
    Err(Error::of(Code::NotImplemented))
}
