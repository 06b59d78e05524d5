//! Preparing a query and running it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::cache;
use crate::error::{Code, Error, Result};
use crate::exec::{Budget, Executor, Stats};
use crate::functions::Warnings;
use crate::plan::{Plan, explain, plan};
use crate::schema::{Database, Index};
use crate::syntax::parse;
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
    /// Who asks, for `CURRENT_USER()`.
    pub user: Option<String>,
    /// Set to true by somebody else, it ends the run with 1500.
    pub kill: Option<Arc<AtomicBool>>,
    plan: Arc<Plan>,
    binds: Vec<Value>,
    options: QueryOptions,
}

/// Parses, binds and plans (plans are kept by text as long as their collections do not change).
pub fn prepare(database: &Database, query: &Query) -> Result<Prepared> {
    let plan = match cache::find(&query.text, database, &query.binds) {
        Some(plan) => plan,
        None => {
            let body = parse(&query.text).map_err(|error| in_aql(error, "while parsing"))?;
            let made = plan(&body, database, &query.binds).map_err(|error| match error.code {
                // Collections are looked up behind the parser; the server says this without naming a phase.
                Code::DataSourceNotFound => error,
                _ => in_aql(error, "while parsing"),
            })?;
            let made = Arc::new(made);
            cache::keep(&query.text, &made);
            made
        }
    };
    let binds = slots(&plan, &query.binds).map_err(|error| in_aql(error, "while parsing"))?;
    let access = access(&plan);
    Ok(Prepared { access, user: None, kill: None, plan, binds, options: query.options.clone() })
}

/// Values of the binds by slot; 1551 for a missing one, 1552 for one that the text does not mention.
fn slots(plan: &Plan, given: &Object) -> Result<Vec<Value>> {
    let mut values = Vec::with_capacity(plan.binds.len());
    for name in &plan.binds {
        let Some(value) = given.get(name) else {
            let message = format!("no value specified for declared bind parameter '{name}'");
            return Err(Error::new(Code::QueryBindParameterMissing, message));
        };
        values.push(value.clone());
    }
    for (name, _) in given.iter() {
        let known = plan.binds.contains(name) || plan.structural.iter().any(|(n, _)| **n == **name);
        if !known {
            let message = format!("bind parameter '{name}' was not declared in the query");
            return Err(Error::new(Code::QueryBindParameterUndeclared, message));
        }
    }
    Ok(values)
}

fn access(plan: &Plan) -> Access {
    let mut access = Access { wait_for_sync: plan.wait_for_sync, ..Access::default() };
    for used in &plan.collections {
        let name = || used.collection.name.clone();
        if used.read {
            access.read.push(name());
        }
        if used.exclusive {
            access.exclusive.push(name());
        } else if used.write {
            access.write.push(name());
        }
    }
    access
}

impl Prepared {
    /// Runs the plan in a transaction. A failed run leaves its writes to the caller's savepoint.
    pub fn run(&self, database: &Database, transaction: &Transaction) -> Result<Answer> {
        let warnings = Warnings { fail: self.options.fail_on_warning, ..Warnings::default() };
        let max = self.options.max_warning_count.unwrap_or(warnings.max);
        let mut executor = Executor {
            plan: &self.plan,
            binds: &self.binds,
            transaction,
            database,
            user: self.user.as_deref(),
            full_count: self.options.full_count,
            warnings: Warnings { max, ..warnings },
            stats: Stats::default(),
            budget: Budget::new(
                self.options.memory_limit,
                self.options.max_runtime_s,
                self.kill.clone(),
            ),
        };
        let rows = executor.run().map_err(|error| in_aql(error, "while executing"))?;
        Ok(Answer { rows, stats: executor.stats, warnings: executor.warnings.kept })
    }

    /// The vector indexes it asks.
    pub fn vector_indexes(&self) -> Vec<&Index> {
        self.plan.vector_indexes()
    }

    /// `plan` of `/_api/explain`: nodes with real type names, rules, collections, variables.
    pub fn explain(&self) -> Value {
        explain(&self.plan)
    }
}

/// The message as the server words it for queries.
pub(super) fn in_aql(mut error: Error, phase: &str) -> Error {
    if !error.message.starts_with("AQL: ") {
        error.message = format!("AQL: {} ({phase})", error.message);
    }
    error
}
