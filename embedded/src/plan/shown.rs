//! Converts a plan to the form of `/_api/explain`, with ArangoDB's nodes and their attributes, and
//! with expressions as ArangoDB's syntax trees.
//!
//! Some work that this engine does inside another node (such as the expression of a RETURN) is
//! shown as a separate node, because ArangoDB has a node for this work. The shown document counts
//! are exact; the shown costs follow ArangoDB's simplest cost rules.

use std::collections::HashMap;

use super::expr_tree::{ExprTree, attribute_path};
use super::node::{Node, Pipeline, Plan};
use super::rule_names::place_of;
use crate::expr::{Expr, Register, known};
use crate::value::{Object, Value};

/// The number of items that ArangoDB assumes for a list of unknown length.
pub(super) const LIST_ITEMS: f64 = 100.0;

/// The data needed to show a plan in ArangoDB's form.
pub struct PlanView<'a> {
    /// The plan to show.
    pub plan: &'a Plan,
    /// Values of the plan's bind parameters, indexed by slot number.
    pub binds: &'a [Value],
    /// Document count of each of the plan's collections.
    pub documents: &'a [u64],
    /// Returns whether the optimizer rule with the given name is enabled (`optimizer.rules`).
    pub allowed: &'a dyn Fn(&str) -> bool,
}

/// Returns `plan` of `/_api/explain`.
pub fn shown(showing: &PlanView<'_>) -> Value {
    let mut printer = Printer::new(showing);
    let mut start = Object::new();
    start.insert("bindParameterVariables", Value::object(Object::new()));
    printer.node("SingletonNode", start, false);
    printer.pipeline(&showing.plan.root, true);
    printer.finish()
}

/// Lists the nodes from `failing` to the end of the plan, in the form of ArangoDB's error messages.
pub fn trail(showing: &PlanView<'_>, failing: &Node) -> String {
    let mut printer = Printer::new(showing);
    printer.failing = Some(failing);
    printer.node("SingletonNode", Object::new(), false);
    printer.pipeline(&showing.plan.root, true);
    let Some(first) = printer.failed else { return String::new() };
    let mut out = String::new();
    for (at, node) in printer.nodes.iter().enumerate().skip(first - 1) {
        let kind = node.text_of("type").unwrap_or_default();
        // ArangoDB lists a sort twice in the error message, because a sort requests all rows in a
        // separate call.
        let times = if kind == "SortNode" && at + 1 > first { 2 } else { 1 };
        (0..times).for_each(|_| out.push_str(&format!(" [node #{}: {kind}]", at + 1)));
    }
    out
}

pub(super) struct Variable {
    pub(super) name: String,
    /// Whether the variable contains whole documents of a collection.
    pub(super) full: bool,
    pub(super) constant: Option<Value>,
}

pub(super) struct Printer<'a> {
    pub(super) showing: &'a PlanView<'a>,
    pub(super) nodes: Vec<Value>,
    pub(super) rules: Vec<&'static str>,
    pub(super) variables: Vec<Variable>,
    /// For each attribute that a loop reads instead of the whole document, the attribute's
    /// variable. The key is the loop's register and the attribute's path.
    pub(super) projected: HashMap<(Register, Vec<String>), usize>,
    /// The result variables of the subqueries that are already shown, by subquery number.
    pub(super) subqueries: HashMap<usize, usize>,
    pub(super) cost: f64,
    pub(super) items: f64,
    pub(super) prefetched: u64,
    pub(super) prefetch: bool,
    /// The variable with the list of the next loop, if a shown node already computes the list.
    pub(super) listed: Option<usize>,
    /// The variable of the value that RETURN returns, if the value is computed before the first
    /// loop.
    pub(super) early: Option<usize>,
    /// The engine's node that failed, if the plan is shown for an error message.
    pub(super) failing: Option<&'a Node>,
    pub(super) failed: Option<usize>,
}

pub(super) fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::object(filled(entries))
}

pub(super) fn filled<const N: usize>(entries: [(&str, Value); N]) -> Object {
    let mut out = Object::with_capacity(N);
    for (name, value) in entries {
        out.push_new(name, value);
    }
    out
}

/// Converts a number to ArangoDB's form, in which whole numbers have no decimal point.
pub(super) fn number(x: f64) -> Value {
    if x.fract() == 0.0 && x.abs() < 9e15 { Value::Int(x as i64) } else { Value::Double(x) }
}

impl<'a> Printer<'a> {
    pub(super) fn new(showing: &'a PlanView<'a>) -> Self {
        let plan = showing.plan;
        let variables = plan.variables.iter().enumerate();
        let named = |(id, name): (usize, &String)| {
            let name = if name.is_empty() { id.to_string() } else { name.clone() };
            Variable { name, full: false, constant: None }
        };
        Printer {
            showing,
            nodes: Vec::new(),
            rules: Vec::new(),
            variables: variables.map(named).collect(),
            projected: HashMap::new(),
            subqueries: HashMap::new(),
            cost: 1.0,
            items: 1.0,
            prefetched: 0,
            early: None,
            listed: None,
            failing: None,
            failed: None,
            prefetch: (showing.allowed)("async-prefetch")
                && plan.subqueries.is_empty()
                && !plan.collections.iter().any(|used| used.write),
        }
    }

    pub(super) fn finish(mut self) -> Value {
        let plan = self.showing.plan;
        let engine_rules: Vec<&'static str> = plan.rules.clone();
        for rule in engine_rules {
            // ArangoDB has another name for this rule.
            self.rule(if rule == "optimize-topk-of-view" {
                "arangosearch-constrained-sort"
            } else {
                rule
            });
        }
        if self.prefetched > 0 {
            self.rule("async-prefetch");
        }
        self.rules.sort_by_key(|rule| place_of(rule));
        let used = plan.collections.iter().map(|used| {
            let kind = match (used.exclusive, used.write) {
                (true, _) => "exclusive",
                (false, true) => "write",
                (false, false) => "read",
            };
            object([("name", used.collection.name.as_str().into()), ("type", kind.into())])
        });
        let variables = (0..self.variables.len()).rev().filter(|id| self.is_shown(*id));
        let variables: Vec<Value> = variables.map(|id| self.variable_with_constant(id)).collect();
        let writes = plan.collections.iter().any(|used| used.write);
        object([
            ("nodes", Value::array(self.nodes)),
            ("rules", Value::array(self.rules.iter().map(|rule| (*rule).into()).collect())),
            ("asyncPrefetchNodes", self.prefetched.into()),
            ("estimatedCost", number(self.cost)),
            ("estimatedNrItems", number(self.items)),
            ("collections", Value::array(used.collect())),
            ("variables", Value::array(variables)),
            ("isModificationQuery", writes.into()),
        ])
    }

    pub(super) fn rule(&mut self, rule: &'static str) {
        if (self.showing.allowed)(rule) && !self.rules.contains(&rule) {
            self.rules.push(rule);
        }
    }

    /// Whether a variable is shown; variables of inline expressions such as `CURRENT` are not.
    pub(super) fn is_shown(&self, id: usize) -> bool {
        let name = &self.variables[id].name;
        !matches!(name.as_str(), "CURRENT" | "[*]" | "[]")
    }

    pub(super) fn node(&mut self, kind: &str, more: Object, prefetch: bool) {
        let id = self.nodes.len() as i64 + 1;
        let before = if id > 1 { vec![Value::Int(id - 1)] } else { Vec::new() };
        let mut out = Object::with_capacity(more.len() + 6);
        out.push_new("type", kind.into());
        out.push_new("dependencies", Value::array(before));
        out.push_new("id", Value::Int(id));
        out.push_new("estimatedCost", number(self.cost));
        out.push_new("estimatedNrItems", number(self.items));
        if prefetch && self.prefetch {
            self.prefetched += 1;
            out.push_new("isAsyncPrefetchEnabled", true.into());
        }
        for (name, value) in more.iter() {
            out.insert(name.clone(), value.clone());
        }
        self.nodes.push(Value::object(out));
    }

    pub(super) fn made(&mut self) -> usize {
        let name = self.variables.len().to_string();
        self.variables.push(Variable { name, full: false, constant: None });
        self.variables.len() - 1
    }

    pub(super) fn variable(&self, id: usize) -> Value {
        let variable = &self.variables[id];
        object([
            ("id", (id as u64).into()),
            ("name", variable.name.as_str().into()),
            ("isFullDocumentFromCollection", variable.full.into()),
        ])
    }

    pub(super) fn variable_with_constant(&self, id: usize) -> Value {
        let shown = self.variable(id);
        match (&self.variables[id].constant, shown) {
            (Some(value), Value::Object(object)) => {
                let mut object = (*object).clone();
                object.insert("constantValue", value.clone());
                Value::object(object)
            }
            (_, shown) => shown,
        }
    }

    pub(super) fn tree(&self, expr: &Expr) -> Value {
        let name = |id: usize| self.variables[id].name.clone();
        let subquery = |number: usize| self.subqueries.get(&number).copied();
        ExprTree { binds: self.showing.binds, name: &name, subquery: &subquery }.of(expr)
    }

    /// Returns a variable that holds an expression's value, and adds a node that computes the value
    /// if necessary.
    pub(super) fn computed(&mut self, expr: &Expr) -> usize {
        if let Expr::Register(register) = expr {
            return *register;
        }
        if let Some((register, path)) = attribute_path(expr)
            && let Some(variable) = self.projected.get(&(register, path))
        {
            return *variable;
        }
        self.shown_subqueries(expr);
        if let Expr::Subquery(number) = expr
            && let Some(variable) = self.subqueries.get(number)
        {
            return *variable;
        }
        let out = self.made();
        self.calculation(expr, out);
        out
    }

    pub(super) fn calculation(&mut self, expr: &Expr, out: usize) {
        self.cost += self.items;
        let constant = known(expr, self.showing.binds);
        let written = constant.clone().map(Expr::Const);
        let kind = match expr {
            _ if constant.is_some() => "json",
            expr if attribute_path(expr).is_some() => "attribute",
            _ => "simple",
        };
        self.variables[out].constant = constant;
        let more = filled([
            ("expression", self.tree(written.as_ref().unwrap_or(expr))),
            ("outVariable", self.variable(out)),
            ("canThrow", false.into()),
            ("expressionType", kind.into()),
        ]);
        self.node("CalculationNode", more, expr.is_pure());
    }

    pub(super) fn shown_subqueries(&mut self, expr: &Expr) {
        for number in expr.subqueries() {
            if self.subqueries.contains_key(&number) {
                continue;
            }
            let out = self.made();
            self.subquery(&self.showing.plan.subqueries[number], out);
            self.subqueries.insert(number, out);
        }
    }

    pub(super) fn subquery(&mut self, pipeline: &Pipeline, out: usize) {
        self.rule("splice-subqueries");
        let items = self.items;
        self.cost += items;
        let start = filled([("subqueryOutVariable", self.variable(out))]);
        self.node("SubqueryStartNode", start, false);
        let given = self.pipeline(pipeline, false);
        self.items = items;
        self.cost += items;
        let given = given.map_or(Value::Null, |variable| self.variable(variable));
        let more = filled([("inVariable", given), ("outVariable", self.variable(out))]);
        self.node("SubqueryEndNode", more, false);
    }

    /// Shows the nodes of a pipeline. Returns the variable of the pipeline's result.
    pub(super) fn pipeline(&mut self, pipeline: &Pipeline, top: bool) -> Option<usize> {
        let nodes = &pipeline.nodes;
        let early = match nodes.last() {
            Some(Node::Return { value, distinct: false }) if top && self.moves_up(value) => {
                Some(value)
            }
            _ => None,
        };
        let mut returned = None;
        let mut at = 0;
        while at < nodes.len() {
            let node = &nodes[at];
            let (first, shown_before) = (at, self.nodes.len());
            at += 1;
            if let (Node::EnumerateList { source, .. }, true) = (node, early.is_some()) {
                // ArangoDB computes the list in a calculation node before the loop.
                let given = self.computed(source);
                self.listed = Some(given);
            }
            if let (Some(value), true) = (early, self.early.is_none() && is_loop(node)) {
                self.early = Some(self.computed(value));
                self.rule("move-calculations-up");
                self.rule("move-calculations-up-2");
            }
            match node {
                Node::EnumerateCollection { collection, out, .. } => {
                    let filters = self.filters_beside(nodes, &mut at, *out);
                    self.scan(*collection, *out, &filters);
                }
                Node::Index { collection, out, lookup } => {
                    let filters = self.filters_beside(nodes, &mut at, *out);
                    self.index(*collection, *out, lookup, &filters);
                }
                Node::Sort(keys) => {
                    let limit = match nodes.get(at) {
                        Some(Node::Limit { offset, count }) => {
                            self.whole(offset).zip(self.whole(count)).map(|(o, c)| o + c)
                        }
                        _ => None,
                    };
                    self.sort(keys, limit);
                }
                Node::Return { value, distinct } => returned = self.returned(value, *distinct, top),
                other => self.other(other),
            }
            let failing = self.failing.is_some_and(|failing| {
                nodes[first..at].iter().any(|node| std::ptr::eq(node, failing))
            });
            if failing {
                // If the expression of a FILTER or RETURN fails, ArangoDB names the node that
                // calculates the expression.
                let calculates = matches!(node, Node::Filter(_) | Node::Return { .. });
                let is_calculation =
                    |shown: &Value| shown.text_of("type") == Some("CalculationNode");
                let calculation = self.nodes[shown_before..].iter().position(is_calculation);
                self.failed = Some(match calculation.filter(|_| calculates) {
                    Some(at) => shown_before + at + 1,
                    None => self.nodes.len(),
                });
            }
        }
        returned
    }

    /// Whether an expression has the same value for all rows, so that ArangoDB computes it before
    /// the loops.
    pub(super) fn moves_up(&self, value: &Expr) -> bool {
        (self.showing.allowed)("move-calculations-up") && value.is_free()
    }

    pub(super) fn returned(&mut self, value: &Expr, distinct: bool, top: bool) -> Option<usize> {
        let early = self.early.filter(|_| top);
        let mut variable = early.unwrap_or_else(|| self.computed(value));
        if distinct {
            let out = self.made();
            let group = object([
                ("outVariable", self.variable(out)),
                ("inVariable", self.variable(variable)),
            ]);
            self.collected(vec![group], Vec::new(), "distinct", Object::new());
            variable = out;
        }
        if !top {
            // A subquery has no RETURN node; it ends with a `SubqueryEndNode`.
            return Some(variable);
        }
        self.cost += self.items;
        let more = filled([("inVariable", self.variable(variable)), ("count", true.into())]);
        self.node("ReturnNode", more, false);
        Some(variable)
    }
}

pub(super) fn is_loop(node: &Node) -> bool {
    matches!(
        node,
        Node::EnumerateCollection { .. }
            | Node::Index { .. }
            | Node::EnumerateList { .. }
            | Node::EnumerateView { .. }
            | Node::Traversal(_)
    )
}
