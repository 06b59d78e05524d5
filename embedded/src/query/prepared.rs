//! Prepares queries (parses, plans and binds them), and runs them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::cache;
use crate::error::{Code, Error, Result};
use crate::exec::{Budget, Executor, Stats};
use crate::expr::{Expr, Share};
use crate::functions::Warnings;
use crate::plan::{Node, Plan, PlanView, RULES, WriteKind, explain, plan, shown, trail};
use crate::schema::{Collection, Database, Index};
use crate::syntax::parse;
use crate::txn::Transaction;
use crate::value::{Object, Value};

/// A query as a client sent it.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The query text in AQL.
    pub text: String,
    /// `bindVars`; the key of a bind parameter for a collection has the form `@name`.
    pub binds: Object,
    /// The query's options and limits.
    pub options: QueryOptions,
}

/// The `options` and limits of a cursor request.
#[derive(Clone, Debug, Default)]
pub struct QueryOptions {
    /// Whether to count all rows before the last top-level LIMIT (`fullCount`).
    pub full_count: bool,
    /// Whether the query fails at the first warning.
    pub fail_on_warning: bool,
    /// Maximum number of warnings to return (10 for `None`).
    pub max_warning_count: Option<usize>,
    /// Seconds after which the query is killed with error 1500; 0 disables the limit.
    pub max_runtime_s: f64,
    /// Maximum size in bytes of the rows that a query keeps in memory (otherwise error 32); 0 means
    /// the engine's own limit.
    pub memory_limit: u64,
    /// `optimizer.rules`: `-name` disables a rule, and `+name` or `name` enables it. The name `all`
    /// means every rule that can be disabled.
    pub rules: Vec<String>,
    /// The option `usePlanCache`: whether the plan appears in the list of cached plans. A plan that
    /// ArangoDB would not cache causes error 1584.
    pub use_plan_cache: bool,
    /// The option `profile`; with 2 or more, the answer contains the plan.
    pub profile: u8,
}

/// The collections for which a query needs permissions, computed by `prepare` before the query
/// reads data.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Collections and views that the query reads.
    pub read: Vec<String>,
    /// Collections to which the query writes.
    pub write: Vec<String>,
    /// Collections to which the query writes with `OPTIONS { exclusive: true }`.
    pub exclusive: Vec<String>,
    /// Whether the query contains `OPTIONS { waitForSync: true }`.
    pub wait_for_sync: bool,
}

/// A query's answer. It contains all rows, because a query runs completely before the first batch
/// is sent.
#[derive(Debug, Default)]
pub struct Answer {
    /// The rows of the result.
    pub rows: Vec<Value>,
    /// Counters of the run, such as the number of scanned documents.
    pub stats: Stats,
    /// Error codes and messages of the query's warnings.
    pub warnings: Vec<(Code, String)>,
    /// The memory of the rows, as a part of the memory of all queries.
    pub share: Option<Share>,
}

/// A planned query with the values of its bind parameters, which can run repeatedly.
#[derive(Debug)]
pub struct Prepared {
    /// The collections that the query reads and writes.
    pub access: Access,
    /// The user's name, for `CURRENT_USER()`.
    pub user: Option<String>,
    /// A flag with which another thread ends the running query, which then fails (error 1500).
    pub kill: Option<Arc<AtomicBool>>,
    plan: Arc<Plan>,
    binds: Vec<Value>,
    options: QueryOptions,
}

/// Parses and plans a query, and assigns the values of its bind parameters. Plans are cached by
/// query text until a collection of the query changes.
pub fn prepare(database: &Database, query: &Query) -> Result<Prepared> {
    let kept = match query.options.rules.as_slice() {
        [] => cache::find(&query.text, database, &query.binds),
        _ => None,
    };
    let plan = match kept {
        Some(plan) => plan,
        None => {
            let body = parse(&query.text).map_err(|error| in_aql(error, "while parsing"))?;
            let allowed = |rule: &str| allows(&query.options.rules, rule);
            let made = plan(&body, database, &query.binds, &allowed).map_err(|error| {
                match error.code {
                    // ArangoDB's messages for unknown collections and wrong constant arguments do
                    // not name the phase of the query (such as `while parsing`).
                    Code::DataSourceNotFound | Code::QueryFunctionArgumentTypeMismatch => error,
                    _ => in_aql(error, "while parsing"),
                }
            })?;
            let made = Arc::new(made);
            if query.options.rules.is_empty() {
                cache::keep(&query.text, &made);
            }
            made
        }
    };
    let binds = slots(&plan, &query.binds).map_err(|error| in_aql(error, "while parsing"))?;
    let access = access(&plan);
    Ok(Prepared { access, user: None, kill: None, plan, binds, options: query.options.clone() })
}

/// Whether an optimizer rule may run. If several items of `optimizer.rules` name the rule, the last
/// one counts.
fn allows(said: &[String], rule: &str) -> bool {
    let flags = RULES.iter().find(|(name, _)| *name == rule).map_or("", |(_, flags)| *flags);
    let mut allowed = !flags.contains('o');
    for word in said {
        let (on, name) = match word.strip_prefix('-') {
            Some(name) => (false, name),
            None => (true, word.strip_prefix('+').unwrap_or(word)),
        };
        if (name == "all" || name == rule) && flags.contains('d') {
            allowed = on;
        }
    }
    allowed
}

/// Returns the values of the bind parameters, indexed by slot number. Returns error 1551 for a
/// missing bind parameter, or 1552 for an unknown bind parameter.
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
    /// Runs the plan in a transaction. After a failed run, the caller must roll back to a savepoint
    /// that was taken before the run.
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
            running: None,
            cursors: BTreeSet::new(),
            own_from: 0,
            budget: Budget::new(
                self.options.memory_limit,
                self.options.max_runtime_s,
                self.kill.clone(),
                Share::of(&transaction.resources().room),
            ),
        };
        let rows = executor.run();
        let running = executor.running;
        let rows = rows.map_err(|mut error| {
            if let Some(node) = running.filter(|_| error.code != Code::QueryKilled) {
                error.message.push_str(&self.trail(node));
            }
            in_aql(error, "while executing")
        })?;
        let share = executor.budget.take_share();
        Ok(Answer { rows, stats: executor.stats, warnings: executor.warnings.kept, share })
    }

    /// Returns the vector indexes that the plan uses.
    pub fn vector_indexes(&self) -> Vec<&Index> {
        self.plan.vector_indexes()
    }

    /// Returns the plan's nodes in a short form, with expressions as text.
    pub fn explain(&self) -> Value {
        explain(&self.plan)
    }

    /// Returns `plan` of `/_api/explain`; the document counts come from the transaction.
    pub fn plan_value(&self, transaction: &Transaction) -> Result<Value> {
        let counts = self.plan.collections.iter().map(|used| transaction.count(&used.collection));
        let documents = counts.collect::<Result<Vec<u64>>>()?;
        let allowed = |rule: &str| allows(&self.options.rules, rule);
        let (plan, binds) = (&*self.plan, self.binds.as_slice());
        Ok(shown(&PlanView { plan, binds, documents: &documents, allowed: &allowed }))
    }

    /// Returns the plan's collections with their definitions at planning time.
    pub fn collections(&self) -> Vec<Arc<Collection>> {
        self.plan.collections.iter().map(|used| Arc::clone(&used.collection)).collect()
    }

    /// Returns error 1584 if ArangoDB would not cache the plan, for example because the plan
    /// depends on the values of bind parameters or has warnings.
    pub fn may_share(&self) -> Result<()> {
        let pipelines = std::iter::once(&self.plan.root).chain(&self.plan.subqueries);
        let unfit = |node: &Node| match node {
            Node::Limit { offset, count } => {
                [offset, count].into_iter().any(|number| !matches!(number, Expr::Const(_)))
            }
            Node::Write(write) => matches!(write.kind, WriteKind::Upsert { .. }),
            _ => false,
        };
        let shaped = self.plan.structural.iter().any(|(name, _)| !name.starts_with('@'));
        if shaped
            || self.plan.bound_edges
            || !self.options.rules.is_empty()
            || !self.plan.warnings.is_empty()
            || pipelines.flat_map(|pipeline| &pipeline.nodes).any(unfit)
        {
            return Err(Error::of(Code::QueryNotEligibleForPlanCaching));
        }
        Ok(())
    }

    fn trail(&self, failing: &Node) -> String {
        let allowed = |rule: &str| allows(&self.options.rules, rule);
        let (plan, binds) = (&*self.plan, self.binds.as_slice());
        trail(&PlanView { plan, binds, documents: &[], allowed: &allowed }, failing)
    }

    /// Returns the number of executed and the number of disabled optimizer rules.
    pub fn rules_run(&self) -> (u64, u64) {
        let may_run =
            RULES.iter().filter(|(_, flags)| !flags.contains(['c', 'o', 'h'])).map(|(n, _)| *n);
        let off = may_run.clone().filter(|rule| !allows(&self.options.rules, rule)).count();
        ((may_run.count() - off) as u64, off as u64)
    }

    /// Returns the warnings that planning caused, which are known before the run.
    pub fn warnings(&self) -> Result<Vec<(Code, String)>> {
        let max = self.options.max_warning_count.unwrap_or(Warnings::default().max);
        let mut warnings =
            Warnings { fail: self.options.fail_on_warning, max, ..Warnings::default() };
        for (code, message) in &self.plan.warnings {
            warnings.raise(*code, message.as_str())?;
        }
        Ok(warnings.kept)
    }

    /// Whether ArangoDB might cache the query's result, because the query only reads and is
    /// deterministic.
    pub fn cacheable(&self) -> bool {
        let writes = self.plan.collections.iter().any(|used| used.write);
        let pipelines = std::iter::once(&self.plan.root).chain(&self.plan.subqueries);
        let mut nodes = pipelines.flat_map(|pipeline| &pipeline.nodes);
        !writes && nodes.all(|node| node.expressions().into_iter().all(is_steady))
    }
}

/// Changes an error's message to the form that ArangoDB uses for query errors.
pub(super) fn in_aql(mut error: Error, phase: &str) -> Error {
    // The prefix `AQL:` is missing for unknown collections, because ArangoDB resolves names of
    // collections before it creates the query.
    let unknown = error.code == Code::DataSourceNotFound && phase == "while parsing";
    if !unknown && !error.message.starts_with("AQL: ") {
        error.message = format!("AQL: {} ({phase})", error.message);
    }
    error
}

/// Whether all function calls in an expression are deterministic.
fn is_steady(expr: &Expr) -> bool {
    let mut steady = true;
    expr.walk(&mut |e| {
        if let Expr::Call(function, _) = e {
            steady &= function.foldable;
        }
    });
    steady
}
