//! Runs a plan: one row of registers passes through the nodes. A loop runs the nodes that follow it
//! once for each of its items.

use std::collections::BTreeSet;

use super::budget::Budget;
use super::gather::Gathered;
#[cfg(feature = "conformance")]
use super::window::Windowed;
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Row, eval, truth};
use crate::functions::Warnings;
use crate::plan::{Node, Pipeline, Plan, writes};
use crate::schema::Database;
use crate::syntax::Binary;
use crate::txn::Transaction;
use crate::value::{Ordered, Value};

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
    pub cursors_created: u64,
    pub cursors_rearmed: u64,
    pub full_count: Option<u64>,
    pub peak_memory_usage: u64,
}

/// Whether the preceding nodes should send more rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    More,
    Enough,
}

/// One execution of one plan.
pub struct Executor<'q> {
    /// The plan.
    pub plan: &'q Plan,
    /// Values of the plan's bind parameters by slot.
    pub binds: &'q [Value],
    /// The transaction in which the plan runs.
    pub transaction: &'q Transaction,
    /// The database, to look up collections whose names are computed at run time.
    pub database: &'q Database,
    /// `CURRENT_USER()`
    pub user: Option<&'q str>,
    /// Whether the rows that the outermost LIMIT discards are counted (`fullCount`).
    pub full_count: bool,
    /// The warnings raised so far.
    pub warnings: Warnings,
    /// The query's counters so far.
    pub stats: Stats,
    /// Limits of the query's memory and run time.
    pub budget: Budget,
    /// The plan node that is running, for error messages.
    pub running: Option<&'q Node>,
    /// Loops whose index cursor the statistics already count.
    pub cursors: BTreeSet<usize>,
    /// The first register of the running pipeline (the nodes of a query or subquery). Earlier
    /// registers belong to outer pipelines.
    pub own_from: usize,
}

/// The state of one pass through a pipeline.
pub(super) struct Pass<'q> {
    pub nodes: &'q [Node],
    /// Index of the first node after the running stage (the nodes up to a sort, COLLECT, WINDOW or
    /// buffer).
    end: usize,
    pub limits: Vec<Option<Limit>>,
    gathered: Gathered<'q>,
    distinct: BTreeSet<Ordered>,
    out: Vec<Value>,
    /// Index of the LIMIT node whose discarded rows are counted for `fullCount`.
    pub counting: Option<usize>,
}

/// Progress of a LIMIT.
pub(super) struct Limit {
    skip: u64,
    /// Number of rows that the LIMIT still lets through.
    pub take: u64,
    /// Whether the preceding nodes continue after the LIMIT is reached, because further rows cause
    /// writes or are counted.
    drain: bool,
}

impl<'q> Executor<'q> {
    /// Runs the query and returns its rows.
    pub fn run(&mut self) -> Result<Vec<Value>> {
        self.budget.look()?;
        for (code, message) in &self.plan.warnings {
            self.warnings.raise(*code, message.as_str())?;
        }
        let mut row = vec![Value::Null; self.plan.variables.len()];
        let counting =
            self.plan.root.nodes.iter().rposition(|node| matches!(node, Node::Limit { .. }));
        let counting = counting.filter(|_| self.full_count);
        let rows = self.pipeline(&self.plan.root, &mut row, counting)?;
        if self.full_count && counting.is_none() {
            self.stats.full_count = Some(rows.len() as u64);
        }
        self.stats.peak_memory_usage = self.budget.peak();
        Ok(rows)
    }

    /// Runs a pipeline (the nodes of a query or subquery) for one row, whose registers the nodes
    /// set.
    pub(super) fn pipeline(
        &mut self,
        pipeline: &'q Pipeline,
        row: &mut Row,
        counting: Option<usize>,
    ) -> Result<Vec<Value>> {
        let around = std::mem::replace(&mut self.own_from, pipeline.own_from);
        let rows = self.stages(pipeline, row, counting);
        self.own_from = around;
        rows
    }

    fn stages(
        &mut self,
        pipeline: &'q Pipeline,
        row: &mut Row,
        counting: Option<usize>,
    ) -> Result<Vec<Value>> {
        let nodes = &pipeline.nodes;
        let mut limits = Vec::new();
        limits.resize_with(nodes.len(), || None);
        let mut pass = Pass {
            nodes,
            end: 0,
            limits,
            gathered: Gathered::Nothing,
            distinct: BTreeSet::new(),
            out: Vec::new(),
            counting,
        };
        let mut rows: Option<Vec<Row>> = None;
        let mut begin = 0;
        for &end in &pipeline.stages {
            let held = self.budget.bytes_held();
            pass.end = end;
            pass.gathered = self.gatherer(nodes, end, row, counting.is_some())?;
            match rows.take() {
                None => {
                    self.push(&mut pass, begin, row)?;
                }
                Some(rows) => {
                    for mut row in rows {
                        if self.push(&mut pass, begin, &mut row)? == Flow::Enough {
                            break;
                        }
                    }
                    self.budget.release_to(held);
                }
            }
            rows = std::mem::replace(&mut pass.gathered, Gathered::Nothing).finish(self, row)?;
            begin = end;
        }
        Ok(pass.out)
    }

    /// Returns the collector for the rows at the end of a stage (the nodes up to a sort, COLLECT,
    /// WINDOW or buffer).
    fn gatherer(
        &mut self,
        nodes: &'q [Node],
        end: usize,
        row: &mut Row,
        counting: bool,
    ) -> Result<Gathered<'q>> {
        Ok(match end.checked_sub(1).map(|at| &nodes[at]) {
            Some(Node::Sort(keys)) => {
                let keep = match nodes.get(end) {
                    Some(Node::Limit { offset, count }) if !counting => {
                        let skip = self.limit_offset(offset, row)?;
                        usize::try_from(skip.saturating_add(self.limit_number(count, row)?)).ok()
                    }
                    _ => None,
                };
                Gathered::sorted(keys, keep)
            }
            Some(Node::Collect(collect)) => Gathered::groups(collect),
            #[cfg(feature = "conformance")]
            Some(Node::Window(window)) => Gathered::Windowed(Windowed::new(window)),
            Some(Node::Gather) => Gathered::Rows(Vec::new()),
            _ => Gathered::Nothing,
        })
    }

    /// Sends a row to a node and the nodes after it. When these nodes have processed the row, the
    /// memory budget no longer counts the values that expressions made for the row. A node that
    /// keeps a part of the row adds that part to the budget.
    pub(super) fn push(&mut self, pass: &mut Pass<'q>, at: usize, row: &mut Row) -> Result<Flow> {
        let made = self.budget.made();
        let flow = self.run_from(pass, at, row);
        self.budget.drop_to(made);
        flow
    }

    fn run_from(&mut self, pass: &mut Pass<'q>, mut at: usize, row: &mut Row) -> Result<Flow> {
        let nodes = pass.nodes;
        while at < pass.end {
            self.running = Some(&nodes[at]);
            match &nodes[at] {
                Node::EnumerateCollection { collection, out, .. } => {
                    let scan =
                        self.transaction.scan(&self.plan.collections[*collection].collection)?;
                    let by_key = self.plan.covered.contains(out);
                    if by_key {
                        self.count_cursor(*out);
                    }
                    return self.scan(pass, at, row, scan, *out, by_key);
                }
                Node::Index { collection, out, lookup } => {
                    return self.lookup(pass, at, row, *collection, *out, lookup);
                }
                Node::EnumerateNearVector(near) => return self.near(pass, at, row, near),
                Node::EnumerateView { view, .. } => return self.view(pass, at, row, *view),
                Node::EnumerateList { source, out } => {
                    return self.list(pass, at, row, source, *out);
                }
                Node::Traversal(traversal) => return self.traverse(pass, at, row, traversal),
                Node::Filter(condition) => {
                    if !truth(condition, row, self.binds, self)? {
                        self.stats.filtered += 1;
                        return Ok(Flow::More);
                    }
                }
                Node::Calculation { value, out } => row[*out] = eval(value, row, self.binds, self)?,
                Node::Limit { offset, count } => return self.limit(pass, at, row, offset, count),
                Node::Sort(_) | Node::Collect(_) | Node::Window(_) | Node::Gather => {
                    let mut gathered = std::mem::replace(&mut pass.gathered, Gathered::Nothing);
                    let added = gathered.add(self, row);
                    pass.gathered = gathered;
                    if added.is_err() && at > 0 {
                        // The error names the previous node, which produced the rows that exceed
                        // the memory limit.
                        self.running = Some(&nodes[at - 1]);
                    }
                    added?;
                    return Ok(Flow::More);
                }
                Node::Write(write) => {
                    if !self.write(write, row)? {
                        return Ok(Flow::More);
                    }
                }
                Node::Return { value, distinct } => {
                    let value = eval(value, row, self.binds, self)?;
                    if *distinct && !pass.distinct.insert(Ordered(value.clone())) {
                        return Ok(Flow::More);
                    }
                    self.budget.hold(value.size_bytes())?;
                    pass.out.push(value);
                    return Ok(Flow::More);
                }
            }
            at += 1;
        }
        Ok(Flow::More)
    }

    /// Runs `FOR x IN list`. The items of a range are generated one by one, not as a list.
    fn list(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        source: &Expr,
        out: usize,
    ) -> Result<Flow> {
        if let Expr::Binary(Binary::Range, from, to) = source {
            let from = eval(from, row, self.binds, self)?.to_i64();
            let to = eval(to, row, self.binds, self)?.to_i64();
            let step = if from <= to { 1 } else { -1 };
            for n in 0..=to.abs_diff(from) {
                self.budget.row()?;
                row[out] = Value::Int(from.wrapping_add((n as i64).wrapping_mul(step)));
                if self.push(pass, at + 1, row)? == Flow::Enough {
                    return Ok(Flow::Enough);
                }
            }
            return Ok(Flow::More);
        }
        let list = eval(source, row, self.binds, self)?;
        let Value::Array(items) = &list else {
            let message = "collection or array expected as operand to FOR loop; ";
            let message = format!("{message}you provided a value of type '{}'", list.type_name());
            return Err(Error::new(Code::QueryArrayExpected, message));
        };
        for item in items.iter() {
            self.budget.row()?;
            row[out] = item.clone();
            if self.push(pass, at + 1, row)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }

    pub(super) fn limit_number(&mut self, expr: &Expr, row: &mut Row) -> Result<u64> {
        match eval(expr, row, self.binds, self)? {
            Value::Null => Ok(u64::MAX),
            Value::Int(n) if n >= 0 => Ok(n.unsigned_abs()),
            // ArangoDB computes the items of a range as signed 64-bit numbers and refuses larger
            // numbers.
            Value::Double(x) if (0.0..i64::MAX as f64).contains(&x) => Ok(x as u64),
            _ => {
                let message = "LIMIT count value is not a number or out of range";
                Err(Error::new(Code::QueryNumberOutOfRange, message))
            }
        }
    }

    fn limit_offset(&mut self, expr: &Expr, row: &mut Row) -> Result<u64> {
        if eval(expr, row, self.binds, self)?.is_null() {
            return Ok(0);
        }
        self.limit_number(expr, row).map_err(|mut error| {
            error.message = error.message.replacen("count", "offset", 1);
            error
        })
    }

    fn limit(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        offset: &Expr,
        count: &Expr,
    ) -> Result<Flow> {
        let counting = pass.counting == Some(at);
        if counting {
            self.stats.full_count = Some(self.stats.full_count.unwrap_or(0) + 1);
        }
        if pass.limits[at].is_none() {
            let skip = self.limit_offset(offset, row)?;
            let take = self.limit_number(count, row)?;
            let drain = counting || pass.nodes[..at].iter().any(|node| writes(node, self.plan));
            pass.limits[at] = Some(Limit { skip, take, drain });
        }
        let Some(limit) = &mut pass.limits[at] else { return Ok(Flow::More) };
        let done = if limit.drain { Flow::More } else { Flow::Enough };
        if limit.take == 0 {
            return Ok(done);
        }
        if limit.skip > 0 {
            limit.skip -= 1;
            return Ok(Flow::More);
        }
        limit.take -= 1;
        let last = limit.take == 0;
        let below = self.push(pass, at + 1, row)?;
        Ok(if last || below == Flow::Enough { done } else { Flow::More })
    }

    /// Adds the bytes of a row that stays in memory to the budget.
    pub(super) fn keep(&mut self, row: &Row) -> Result<()> {
        let bytes = self.own_bytes(row);
        self.budget.hold(bytes)
    }

    /// The approximate bytes of a row of the running pipeline, without values shared with other
    /// rows.
    pub(super) fn own_bytes(&self, row: &Row) -> usize {
        row[self.own_from..].iter().map(Value::size_bytes).sum()
    }
}
