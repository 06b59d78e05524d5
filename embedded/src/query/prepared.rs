//! Preparing a query and running it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::cache;
use crate::error::{Code, Error, Result};
use crate::exec::{Budget, Executor, Stats};
use crate::expr::Expr;
use crate::functions::Warnings;
use crate::plan::{Node, Plan, RULES, Showing, WriteKind, explain, plan, shown, trail};
use crate::schema::{Collection, Database, Index};
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
    /// `optimizer.rules`: `-name` switches a rule off, `+name` or `name` on, `all` is every rule that may be switched.
    pub rules: Vec<String>,
    /// Whether the plan has to be fit for the server's plan cache (1584), and is listed there.
    pub use_plan_cache: bool,
    /// 2 shows the plan with the answer.
    pub profile: u8,
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
    /// Warnings with their texts.
    pub warnings: Vec<(Code, String)>,
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
                    // Collections are looked up and constants folded behind the parser; the server names no phase then.
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

/// Whether a rule may run: the last word about it counts.
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
            running: None,
            cursors: BTreeSet::new(),
            own_from: 0,
            budget: Budget::new(
                self.options.memory_limit,
                self.options.max_runtime_s,
                self.kill.clone(),
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
        Ok(Answer { rows, stats: executor.stats, warnings: executor.warnings.kept })
    }

    /// The vector indexes it asks.
    pub fn vector_indexes(&self) -> Vec<&Index> {
        self.plan.vector_indexes()
    }

    /// The nodes in short, with expressions as text.
    pub fn explain(&self) -> Value {
        explain(&self.plan)
    }

    /// `plan` of `/_api/explain`; the transaction says how many documents there are.
    pub fn shown(&self, transaction: &Transaction) -> Result<Value> {
        let counts = self.plan.collections.iter().map(|used| transaction.count(&used.collection));
        let documents = counts.collect::<Result<Vec<u64>>>()?;
        let allowed = |rule: &str| allows(&self.options.rules, rule);
        let (plan, binds) = (&*self.plan, self.binds.as_slice());
        Ok(shown(&Showing { plan, binds, documents: &documents, allowed: &allowed }))
    }

    /// The collections of the plan, as they were when it was made.
    pub fn collections(&self) -> Vec<Arc<Collection>> {
        self.plan.collections.iter().map(|used| Arc::clone(&used.collection)).collect()
    }

    /// 1584 unless the plan is the same for all values of value binds, and has nothing to say.
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
        trail(&Showing { plan, binds, documents: &[], allowed: &allowed }, failing)
    }

    /// How many of the rules ran, and how many were switched off.
    pub fn rules_run(&self) -> (u64, u64) {
        let may_run =
            RULES.iter().filter(|(_, flags)| !flags.contains(['c', 'o', 'h'])).map(|(n, _)| *n);
        let off = may_run.clone().filter(|rule| !allows(&self.options.rules, rule)).count();
        ((may_run.count() - off) as u64, off as u64)
    }

    /// What the plan has to say before it runs: warnings of the text and of its constants.
    pub fn warnings(&self) -> Result<Vec<(Code, String)>> {
        let max = self.options.max_warning_count.unwrap_or(Warnings::default().max);
        let mut warnings =
            Warnings { fail: self.options.fail_on_warning, max, ..Warnings::default() };
        for (code, message) in &self.plan.warnings {
            warnings.raise(*code, message.as_str())?;
        }
        Ok(warnings.kept)
    }

    /// Whether the server might keep the query's result: it only reads, and answers alike each time.
    pub fn cacheable(&self) -> bool {
        let writes = self.plan.collections.iter().any(|used| used.write);
        let pipelines = std::iter::once(&self.plan.root).chain(&self.plan.subqueries);
        let mut nodes = pipelines.flat_map(|pipeline| &pipeline.nodes);
        !writes && nodes.all(|node| node.expressions().into_iter().all(is_steady))
    }
}

/// The message as the server words it for queries.
pub(super) fn in_aql(mut error: Error, phase: &str) -> Error {
    // The name of a collection is looked up before there is a query.
    let unknown = error.code == Code::DataSourceNotFound && phase == "while parsing";
    if !unknown && !error.message.starts_with("AQL: ") {
        error.message = format!("AQL: {} ({phase})", error.message);
    }
    error
}

/// Whether an expression calls nothing that answers differently each time.
fn is_steady(expr: &Expr) -> bool {
    let mut steady = true;
    expr.walk(&mut |e| {
        if let Expr::Call(function, _) = e {
            steady &= function.foldable;
        }
    });
    steady
}
