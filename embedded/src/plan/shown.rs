//! A plan as `/_api/explain` answers it: ArangoDB's nodes with their attributes, expressions as its syntax trees.
//!
//! What this engine does inside one node (a filter beside a loop, an expression in a RETURN) is told as the nodes that the server
//! would have for it. Numbers of documents are real, costs follow the server's simplest rules.

use std::collections::HashMap;

use super::expr_tree::{ExprTree, attribute_path};
use super::node::{
    Aggregate, Bounds, Collect, Into, Lookup, Node, Pipeline, Plan, Traversal, ViewSource, Window,
    Write, WriteKind,
};
use super::rule_names::place_of;
use super::uses::{PROJECTIONS_MAX, Used, attributes};
use crate::expr::{Expr, Register, known};
use crate::schema::{Index, IndexKind};
use crate::syntax::{Binary, Direction, Name, PathSearch};
use crate::value::{Object, Value};

/// Items that a list is thought to have when it is not known (the server's number).
const LIST_ITEMS: f64 = 100.0;

/// What a plan is shown with.
pub struct Showing<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Values of its binds by slot.
    pub binds: &'a [Value],
    /// Documents of its collections.
    pub documents: &'a [u64],
    /// Whether a rule of that name may be told (`optimizer.rules`).
    pub allowed: &'a dyn Fn(&str) -> bool,
}

/// `plan` of `/_api/explain`.
pub fn shown(showing: &Showing<'_>) -> Value {
    let mut printer = Printer::new(showing);
    let mut start = Object::new();
    start.insert("bindParameterVariables", Value::object(Object::new()));
    printer.node("SingletonNode", start, false);
    printer.pipeline(&showing.plan.root, true);
    printer.finish()
}

/// The nodes that an error of `failing` goes through, as the server lists them in its message.
pub fn trail(showing: &Showing<'_>, failing: &Node) -> String {
    let mut printer = Printer::new(showing);
    printer.failing = Some(failing);
    printer.node("SingletonNode", Object::new(), false);
    printer.pipeline(&showing.plan.root, true);
    let Some(first) = printer.failed else { return String::new() };
    let mut out = String::new();
    for (at, node) in printer.nodes.iter().enumerate().skip(first - 1) {
        let kind = node.text_of("type").unwrap_or_default();
        // A sort asks for all rows by a call of its own.
        let times = if kind == "SortNode" && at + 1 > first { 2 } else { 1 };
        (0..times).for_each(|_| out.push_str(&format!(" [node #{}: {kind}]", at + 1)));
    }
    out
}

struct Variable {
    name: String,
    /// Whether it holds whole documents of a collection.
    full: bool,
    constant: Option<Value>,
}

struct Printer<'a> {
    showing: &'a Showing<'a>,
    nodes: Vec<Value>,
    rules: Vec<&'static str>,
    variables: Vec<Variable>,
    /// Attributes that a loop reads apart, with their variables.
    projected: HashMap<(Register, Vec<String>), usize>,
    /// Variables of subqueries that were shown.
    subqueries: HashMap<usize, usize>,
    cost: f64,
    items: f64,
    prefetched: u64,
    prefetch: bool,
    /// The variable of the list of the next loop, where it is known already.
    listed: Option<usize>,
    /// The variable of what is returned, where it was known before the first loop.
    early: Option<usize>,
    /// The node that failed, and the number that it is shown by.
    failing: Option<&'a Node>,
    failed: Option<usize>,
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::object(filled(entries))
}

fn filled<const N: usize>(entries: [(&str, Value); N]) -> Object {
    let mut out = Object::with_capacity(N);
    for (name, value) in entries {
        out.push_new(name, value);
    }
    out
}

/// A number as the server writes it: whole ones without a point.
fn number(x: f64) -> Value {
    if x.fract() == 0.0 && x.abs() < 9e15 { Value::Int(x as i64) } else { Value::Double(x) }
}

impl<'a> Printer<'a> {
    fn new(showing: &'a Showing<'a>) -> Self {
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

    fn finish(mut self) -> Value {
        let plan = self.showing.plan;
        let engine_rules: Vec<&'static str> = plan.rules.clone();
        for rule in engine_rules {
            // What this engine calls by a name of its own.
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

    fn rule(&mut self, rule: &'static str) {
        if (self.showing.allowed)(rule) && !self.rules.contains(&rule) {
            self.rules.push(rule);
        }
    }

    /// Whether a variable is the text's or was made for a node; those of inline conditions are neither.
    fn is_shown(&self, id: usize) -> bool {
        let name = &self.variables[id].name;
        !matches!(name.as_str(), "CURRENT" | "[*]" | "[]")
    }

    fn node(&mut self, kind: &str, more: Object, prefetch: bool) {
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

    fn made(&mut self) -> usize {
        let name = self.variables.len().to_string();
        self.variables.push(Variable { name, full: false, constant: None });
        self.variables.len() - 1
    }

    fn variable(&self, id: usize) -> Value {
        let variable = &self.variables[id];
        object([
            ("id", (id as u64).into()),
            ("name", variable.name.as_str().into()),
            ("isFullDocumentFromCollection", variable.full.into()),
        ])
    }

    fn variable_with_constant(&self, id: usize) -> Value {
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

    fn tree(&self, expr: &Expr) -> Value {
        let name = |id: usize| self.variables[id].name.clone();
        let subquery = |number: usize| self.subqueries.get(&number).copied();
        ExprTree { binds: self.showing.binds, name: &name, subquery: &subquery }.of(expr)
    }

    /// The variable that holds an expression's value, calculated if need be; subqueries in it come first.
    fn computed(&mut self, expr: &Expr) -> usize {
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

    fn calculation(&mut self, expr: &Expr, out: usize) {
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

    fn shown_subqueries(&mut self, expr: &Expr) {
        for number in expr.subqueries() {
            if self.subqueries.contains_key(&number) {
                continue;
            }
            let out = self.made();
            self.subquery(&self.showing.plan.subqueries[number], out);
            self.subqueries.insert(number, out);
        }
    }

    fn subquery(&mut self, pipeline: &Pipeline, out: usize) {
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

    /// The nodes of a pipeline; the variable that it returns.
    fn pipeline(&mut self, pipeline: &Pipeline, top: bool) -> Option<usize> {
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
                // What it goes through is known first.
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
                // An expression fails where it is calculated.
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

    /// Whether a value needs no row.
    fn moves_up(&self, value: &Expr) -> bool {
        (self.showing.allowed)("move-calculations-up") && value.is_free()
    }

    /// Filters right behind a loop that need nothing but its documents run inside it.
    fn filters_beside<'n>(
        &self,
        nodes: &'n [Node],
        at: &mut usize,
        out: Register,
    ) -> Vec<&'n Expr> {
        let mut filters = Vec::new();
        while let Some(Node::Filter(condition)) = nodes.get(*at) {
            let own = condition.is_pure() && condition.registers().iter().all(|r| *r == out);
            if !own || !(self.showing.allowed)("move-filters-into-enumerate") {
                break;
            }
            filters.push(condition);
            *at += 1;
        }
        filters
    }

    fn document_node(
        &mut self,
        collection: usize,
        out: Register,
        filters: &[&Expr],
        more: &mut Object,
    ) -> Option<Vec<Vec<String>>> {
        let mut of_filters = Used::new(out);
        filters.iter().for_each(|filter| of_filters.read(filter));
        let optimizes = (self.showing.allowed)("reduce-extraction-to-projection");
        let attributes = attributes(self.showing.plan, out, filters).filter(|_| optimizes);
        let produces = attributes.as_ref().is_none_or(|paths| !paths.is_empty());
        let projections = attributes.clone().unwrap_or_default();
        self.variables[out].full = attributes.is_none() || !produces;
        let mut shown = Vec::new();
        for path in &projections {
            let variable = self.made();
            self.projected.insert((out, path.clone()), variable);
            shown.push(object([("path", names(path)), ("variable", self.variable(variable))]));
        }
        if !projections.is_empty() {
            self.rule("reduce-extraction-to-projection");
            self.rule("optimize-projections");
        }
        let filter_paths = if of_filters.whole { Vec::new() } else { of_filters.paths };
        let filter_projections: Vec<Value> =
            filter_paths.iter().map(|path| object([("path", names(path))])).collect();
        if !filters.is_empty() {
            self.rule("move-filters-into-enumerate");
            self.rule("optimize-projections");
        }
        more.insert("outVariable", self.variable(out));
        more.insert("projections", Value::array(shown));
        more.insert("filterProjections", Value::array(filter_projections));
        if let Some(filter) = conjunction(filters) {
            more.insert("filter", self.tree(&filter));
        }
        more.insert("count", false.into());
        more.insert("producesResult", produces.into());
        more.insert("readOwnWrites", false.into());
        more.insert("useCache", true.into());
        more.insert("maxProjections", (PROJECTIONS_MAX as u64).into());
        self.of_collection(collection, more);
        attributes
    }

    fn of_collection(&self, collection: usize, more: &mut Object) {
        let name = &self.showing.plan.collections[collection].collection.name;
        more.insert("collection", name.as_str().into());
        more.insert("satellite", false.into());
        more.insert("isSatellite", false.into());
        more.insert("isSatelliteOf", Value::Null);
    }

    fn documents(&self, collection: usize) -> f64 {
        self.showing.documents.get(collection).copied().unwrap_or_default() as f64
    }

    fn scan(&mut self, collection: usize, out: Register, filters: &[&Expr]) {
        let documents = self.documents(collection);
        self.cost += self.items * documents + 1.0;
        self.items *= documents;
        let primary = self.showing.plan.collections[collection].collection.indexes.first();
        if let (true, Some(primary)) = (self.showing.plan.covered.contains(&out), primary) {
            let lookup = Lookup::whole(std::sync::Arc::clone(primary));
            self.cost -= self.items + 1.0;
            self.items /= documents.max(1.0);
            self.index(collection, out, &lookup, filters);
            return;
        }
        let hint = [("forced", false.into()), ("lookahead", 1_i64.into()), ("type", "none".into())];
        let mut more = filled([("random", false.into()), ("indexHint", object(hint))]);
        self.document_node(collection, out, filters, &mut more);
        self.node("EnumerateCollectionNode", more, true);
    }

    fn index(&mut self, collection: usize, out: Register, lookup: &Lookup, filters: &[&Expr]) {
        let documents = self.documents(collection);
        let complete = !lookup.equals.is_empty()
            && lookup.equals.len() == lookup.index.fields.len().max(1)
            && (lookup.index.unique || lookup.index.kind == IndexKind::Primary);
        let found = if complete { documents.min(1.0) } else { documents };
        // The conditions had variables before the index took them over.
        for _ in lookup.expressions() {
            self.made();
        }
        let (items, searched) = (self.items, documents.max(1.0).log2());
        self.items *= found;
        let mut more = Object::new();
        let attributes = self.document_node(collection, out, filters, &mut more);
        let covers = attributes.as_ref().is_some_and(|paths| {
            !paths.is_empty() && paths.iter().all(|path| lookup.index.fields.contains(path))
        });
        // Documents that the index holds whole are not looked up.
        self.cost += items * (searched + found * if covers { 0.05 } else { 1.0 });
        let strategy = match &attributes {
            Some(paths) if paths.is_empty() => "no document",
            _ if covers => "covering",
            _ => "document",
        };
        more.insert("strategy", strategy.into());
        more.insert("needsGatherNodeSort", false.into());
        more.insert("indexCoversProjections", covers.into());
        more.insert("indexCoversOutProjections", covers.into());
        more.insert("indexCoversFilterProjections", false.into());
        more.insert("indexes", Value::array(vec![described(&lookup.index)]));
        more.insert("condition", self.condition(out, lookup));
        more.insert("allCoveredByOneIndex", false.into());
        more.insert("sorted", true.into());
        more.insert("ascending", Value::Bool(!lookup.backwards));
        more.insert("evalFCalls", true.into());
        more.insert("waitForSync", false.into());
        more.insert("limit", 0_i64.into());
        more.insert("isLateMaterialized", false.into());
        more.insert("lookahead", 1_i64.into());
        self.node("IndexNode", more, true);
        if !lookup.expressions().is_empty() {
            self.rule("use-indexes");
            self.rule("remove-filter-covered-by-index");
            self.rule("remove-unnecessary-calculations-2");
        }
    }

    /// Documents that a view finds, or an inverted index, which is shown as the index it is.
    fn view(&mut self, view: usize, out: Register) {
        let used = &self.showing.plan.views[view];
        let collections = &self.showing.plan.collections;
        let is_chosen = |at: &&usize| match &used.only {
            Some(names) => names.contains(&collections[**at].collection.name),
            None => true,
        };
        let documents = |at: &usize| self.documents(*at);
        self.items *= used.collections.iter().filter(is_chosen).map(documents).sum::<f64>();
        self.cost += self.items;
        let variable = self.variable(out);
        match &used.source {
            ViewSource::View(view) => {
                self.rule("handle-arangosearch-views");
                let scorers = used.scorers.iter().map(|scorer| self.variable(scorer.out));
                let more = filled([
                    ("database", Value::Null),
                    ("view", view.name.as_str().into()),
                    ("outVariable", variable),
                    ("scorers", Value::array(scorers.collect())),
                    ("volatility", 0_i64.into()),
                ]);
                self.node("EnumerateViewNode", more, false);
            }
            ViewSource::Index(index) => {
                self.rule("use-indexes");
                let mut more = filled([
                    ("outVariable", variable),
                    ("indexes", Value::array(vec![described(index)])),
                ]);
                self.of_collection(used.collections[0], &mut more);
                self.node("IndexNode", more, false);
            }
        }
    }

    /// What an index is asked for, as a disjunction of one conjunction.
    fn condition(&self, out: Register, lookup: &Lookup) -> Value {
        let fields = &lookup.index.fields;
        let place = |at: usize| {
            let start = Expr::Register(out);
            let path = match (&lookup.index.kind, lookup.field + at) {
                (IndexKind::Primary, _) if lookup.by_id => vec!["_id".to_owned()],
                (IndexKind::Primary, _) => vec!["_key".to_owned()],
                (IndexKind::Edge, 0) => vec!["_from".to_owned()],
                (IndexKind::Edge, _) => vec!["_to".to_owned()],
                (_, at) => fields.get(at).cloned().unwrap_or_default(),
            };
            path.into_iter()
                .fold(start, |base, name| Expr::Attribute(Box::new(base), Name::from(name)))
        };
        let compare = |operator: Binary, at: usize, value: &Expr| {
            let (a, b) = (Box::new(place(at)), Box::new(value.clone()));
            self.tree(&Expr::Binary(operator, a, b))
        };
        let mut parts: Vec<Value> = lookup
            .equals
            .iter()
            .enumerate()
            .map(|(at, value)| compare(Binary::Equal, at, value))
            .collect();
        let next = lookup.equals.len();
        parts.extend(lookup.one_of.iter().map(|list| compare(Binary::In, next, list)));
        let open = [(Binary::Greater, Binary::GreaterEqual), (Binary::Less, Binary::LessEqual)];
        for (bound, (open, closed)) in [&lookup.lower, &lookup.upper].into_iter().zip(open) {
            if let Some((value, inclusive)) = bound {
                parts.push(compare(if *inclusive { closed } else { open }, next, value));
            }
        }
        if parts.is_empty() {
            return Value::object(Object::new());
        }
        let all = object([
            ("type", "n-ary and".into()),
            ("typeID", 62_i64.into()),
            ("subNodes", Value::array(parts)),
        ]);
        object([
            ("type", "n-ary or".into()),
            ("typeID", 63_i64.into()),
            ("subNodes", Value::array(vec![all])),
        ])
    }

    /// The number of a LIMIT.
    fn whole(&self, expr: &Expr) -> Option<u64> {
        let value = match expr {
            Expr::Const(value) => value,
            Expr::Bind(slot) => self.showing.binds.get(*slot)?,
            _ => return None,
        };
        u64::try_from(value.to_i64()).ok()
    }

    fn sort(&mut self, keys: &[(Expr, bool)], limit: Option<u64>) {
        let mut elements = Vec::new();
        for (key, descending) in keys {
            let variable = self.computed(key);
            let ascending = Value::Bool(!descending);
            elements
                .push(object([("inVariable", self.variable(variable)), ("ascending", ascending)]));
        }
        if self.items > 1.0 {
            self.cost += self.items * self.items.log2();
        }
        let limit = limit.filter(|_| (self.showing.allowed)("sort-limit"));
        if limit.is_some() {
            self.rule("sort-limit");
        }
        let strategy = if limit.is_some() { "constrained-heap" } else { "standard" };
        let more = filled([
            ("elements", Value::array(elements)),
            ("numberOfTopGroupedElements", 0_i64.into()),
            ("stable", false.into()),
            ("limit", limit.unwrap_or_default().into()),
            ("strategy", strategy.into()),
        ]);
        self.node("SortNode", more, false);
    }

    fn returned(&mut self, value: &Expr, distinct: bool, top: bool) -> Option<usize> {
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
            // A subquery ends with its own node.
            return Some(variable);
        }
        self.cost += self.items;
        let more = filled([("inVariable", self.variable(variable)), ("count", true.into())]);
        self.node("ReturnNode", more, false);
        Some(variable)
    }

    fn other(&mut self, node: &Node) {
        match node {
            Node::EnumerateList { source, out } => {
                let given = self.listed.take().unwrap_or_else(|| self.computed(source));
                let items = match source {
                    Expr::Binary(Binary::Range, a, b) => {
                        self.whole(a).zip(self.whole(b)).map(|(a, b)| (a.abs_diff(b) + 1) as f64)
                    }
                    Expr::Const(Value::Array(items)) => Some(items.len() as f64),
                    _ => None,
                };
                self.items *= items.unwrap_or(LIST_ITEMS);
                self.cost += self.items;
                let more = filled([
                    ("inVariable", self.variable(given)),
                    ("outVariable", self.variable(*out)),
                ]);
                self.node("EnumerateListNode", more, true);
            }
            Node::Filter(condition) => {
                let variable = self.computed(condition);
                self.cost += self.items;
                let more = filled([("inVariable", self.variable(variable))]);
                self.node("FilterNode", more, true);
            }
            Node::Calculation { value, out } => {
                self.shown_subqueries(value);
                self.calculation(value, *out);
            }
            Node::Limit { offset, count } => {
                let (offset, count) = (self.whole(offset), self.whole(count));
                let offset = offset.unwrap_or_default();
                let left = (self.items - offset as f64).max(0.0);
                self.items = count.map_or(left, |count| left.min(count as f64));
                self.cost += self.items;
                let more = filled([
                    ("offset", offset.into()),
                    ("limit", count.map_or(Value::Null, Value::from)),
                    ("fullCount", false.into()),
                ]);
                self.node("LimitNode", more, false);
            }
            Node::Collect(collect) => self.collect(collect),
            Node::Window(window) => self.window(window),
            Node::Traversal(traversal) => self.traversal(traversal),
            Node::EnumerateView { view, out, .. } => self.view(*view, *out),
            Node::EnumerateNearVector(near) => {
                let (offset, count) = (self.whole(&near.limit.0), self.whole(&near.limit.1));
                let wanted = offset.unwrap_or_default() + count.unwrap_or_default();
                self.items *= wanted as f64;
                self.cost += self.items;
                self.variables[near.out].full = true;
                let vector = self.computed(&near.vector);
                let mut more = filled([
                    ("inVariable", self.variable(vector)),
                    ("documentOutVariable", self.variable(near.out)),
                    ("oldDocumentVariable", self.variable(near.out)),
                    ("distanceOutVariable", self.variable(near.similarity)),
                    ("limit", count.unwrap_or_default().into()),
                    ("offset", offset.unwrap_or_default().into()),
                    ("isCoveredByStoredValues", near.covered.into()),
                    ("index", super::explain::vector_index(&near.index)),
                ]);
                let options = match &near.options {
                    Some(Expr::Const(value)) if value.as_object().is_some() => value.clone(),
                    _ => Value::object(Object::new()),
                };
                more.insert("searchParameters", options);
                let filters: Vec<&Expr> = near.filters.iter().collect();
                if let Some(filter) = conjunction(&filters) {
                    more.insert("filterExpression", self.tree(&filter));
                }
                self.of_collection(near.collection, &mut more);
                self.node("EnumerateNearVectorNode", more, false);
            }
            Node::Write(write) => self.write(write),
            Node::EnumerateCollection { .. }
            | Node::Index { .. }
            | Node::Sort(_)
            | Node::Return { .. }
            | Node::Gather => {}
        }
    }

    fn aggregated(&mut self, aggregates: &[(Aggregate, Expr, Register)]) -> Vec<Value> {
        let mut out = Vec::new();
        for (kind, value, variable) in aggregates {
            let mut one = filled([("outVariable", self.variable(*variable))]);
            if *kind != Aggregate::Count {
                let value = self.computed(value);
                one.insert("inVariable", self.variable(value));
            }
            one.insert("type", kind.name().into());
            out.push(Value::object(one));
        }
        out
    }

    fn collect(&mut self, collect: &Collect) {
        let mut groups = Vec::new();
        for (key, out) in &collect.keys {
            let variable = self.computed(key);
            groups.push(object([
                ("outVariable", self.variable(*out)),
                ("inVariable", self.variable(variable)),
            ]));
        }
        let mut aggregates = self.aggregated(&collect.aggregates);
        if let Some(count) = collect.count {
            let out = self.variable(count);
            aggregates.push(object([("outVariable", out), ("type", "LENGTH".into())]));
        }
        let mut more = Object::new();
        if let Some((into, out)) = &collect.into {
            more.insert("outVariable", self.variable(*out));
            match into {
                Into::Value(value) => {
                    let variable = self.computed(value);
                    more.insert("expressionVariable", self.variable(variable));
                }
                Into::Variables(kept) => {
                    let kept = kept.iter().filter_map(|(_, value)| match value {
                        Expr::Register(register) => Some(self.variable(*register)),
                        _ => None,
                    });
                    more.insert("keepVariables", Value::array(kept.collect()));
                }
            }
        }
        let counts = collect.keys.is_empty() && collect.count.is_some();
        let method = match collect {
            _ if counts => "count",
            collect if collect.keys.is_empty() || collect.into.is_some() => "sorted",
            _ => "hash",
        };
        self.collected(groups, aggregates, method, more);
        if method == "hash" {
            let keys: Vec<(Expr, bool)> =
                collect.keys.iter().map(|(_, out)| (Expr::Register(*out), false)).collect();
            self.sort(&keys, None);
        }
    }

    fn collected(
        &mut self,
        groups: Vec<Value>,
        aggregates: Vec<Value>,
        method: &str,
        more: Object,
    ) {
        self.cost += self.items;
        self.items = if groups.is_empty() { 1.0 } else { (self.items * 0.8).max(1.0) };
        let fixed = method != "hash" && method != "sorted";
        let options = object([("method", method.into()), ("fixed", fixed.into())]);
        let mut out = filled([
            ("groups", Value::array(groups)),
            ("aggregates", Value::array(aggregates)),
            ("isDistinctCommand", (method == "distinct").into()),
            ("specialized", true.into()),
            ("collectOptions", options),
        ]);
        for (name, value) in more.iter() {
            out.insert(name.clone(), value.clone());
        }
        self.node("CollectNode", out, false);
    }

    fn window(&mut self, window: &Window) {
        let range = window.range.as_ref().map(|range| self.computed(range));
        let aggregates = self.aggregated(&window.aggregates);
        self.cost += self.items;
        let mut more = Object::new();
        if let Some(range) = range {
            more.insert("rangeVariable", self.variable(range));
        }
        more.insert("aggregates", Value::array(aggregates));
        let rows = |n: u64| if n == u64::MAX { "unbounded".into() } else { Value::from(n) };
        let text = |d: &Option<Name>| Value::from(d.as_deref().unwrap_or("P0D"));
        let (before, behind) = match &window.bounds {
            Bounds::Rows(before, behind) => (rows(*before), rows(*behind)),
            Bounds::Numbers(before, behind) => (number(*before), number(*behind)),
            Bounds::Durations(before, behind) => (text(before), text(behind)),
        };
        more.insert("preceding", before);
        more.insert("following", behind);
        self.node("WindowNode", more, false);
    }

    fn traversal(&mut self, traversal: &Traversal) {
        let plan = self.showing.plan;
        let name = |n: usize| Value::from(plan.collections[n].collection.name.as_str());
        let edges = || traversal.edges.iter();
        self.items *= LIST_ITEMS;
        self.cost += self.items;
        let directions = edges().map(|f| match f.direction {
            Direction::Any => Value::Int(0),
            Direction::Inbound => Value::Int(1),
            Direction::Outbound => Value::Int(2),
        });
        let mut more = filled([
            ("edgeCollections", Value::array(edges().map(|f| name(f.collection)).collect())),
            ("directions", Value::array(directions.collect())),
            (
                "vertexCollections",
                Value::array(traversal.vertices.iter().map(|n| name(*n)).collect()),
            ),
        ]);
        if let Some(graph) = &traversal.graph {
            more.insert("graph", Value::String(graph.clone()));
        }
        let ends: [(&str, &str, Option<&Expr>); 2] = if traversal.target.is_some() {
            [
                ("startInVariable", "startVertexId", Some(&traversal.start)),
                ("targetInVariable", "targetVertexId", traversal.target.as_ref()),
            ]
        } else {
            [("inVariable", "vertexId", Some(&traversal.start)), ("", "", None)]
        };
        for (variable, constant, end) in ends {
            match end {
                Some(Expr::Const(Value::String(id))) => {
                    more.insert(constant, Value::String(id.clone()));
                }
                Some(end) => {
                    let end = self.computed(end);
                    more.insert(variable, self.variable(end));
                }
                None => {}
            }
        }
        let of_paths = !matches!(traversal.search, PathSearch::Traversal | PathSearch::Shortest);
        let vertex = Some(traversal.vertex).filter(|_| !of_paths);
        for (name, register) in [
            ("vertexOutVariable", vertex),
            ("edgeOutVariable", traversal.edge),
            ("pathOutVariable", traversal.path),
        ] {
            if let Some(register) = register {
                more.insert(name, self.variable(register));
            }
        }
        if let Some((condition, _)) = &traversal.prune {
            more.insert("expression", self.tree(condition));
        }
        let indexes = edges().filter_map(|followed| {
            let indexes = &plan.collections[followed.collection].collection.indexes;
            indexes.iter().find(|index| index.kind == IndexKind::Edge)
        });
        let indexes = Value::array(indexes.map(|index| described(index)).collect());
        more.insert(
            "indexes",
            object([("base", indexes), ("levels", Value::object(Object::new()))]),
        );
        more.insert("options", super::explain::traversal_options(traversal));
        let kind = match traversal.search {
            PathSearch::Traversal => "TraversalNode",
            PathSearch::Shortest => "ShortestPathNode",
            _ => "EnumeratePathsNode",
        };
        self.node(kind, more, false);
    }

    fn write(&mut self, write: &Write) {
        let (kind, values): (&str, Vec<(&str, &Expr)>) = match &write.kind {
            WriteKind::Insert { document } => ("InsertNode", vec![("inVariable", document)]),
            WriteKind::Change { key, patch, replace } => {
                let kind = if *replace { "ReplaceNode" } else { "UpdateNode" };
                match patch {
                    Some(patch) => (kind, vec![("inDocVariable", patch), ("inKeyVariable", key)]),
                    None => (kind, vec![("inDocVariable", key)]),
                }
            }
            WriteKind::Remove { key } => ("RemoveNode", vec![("inVariable", key)]),
            WriteKind::Upsert { lookup, insert, update, .. } => {
                let found = self.made();
                self.subquery(lookup, found);
                ("UpsertNode", vec![("insertVariable", insert), ("updateVariable", update)])
            }
        };
        let mut more = Object::new();
        for (name, value) in values {
            let variable = self.computed(value);
            more.insert(name, self.variable(variable));
        }
        self.cost += self.items;
        if kind == "UpsertNode" {
            more.insert("inDocVariable", self.variable(write.old));
        } else if kind != "InsertNode" {
            more.insert("outVariableOld", self.variable(write.old));
        }
        if kind != "RemoveNode" {
            more.insert("outVariableNew", self.variable(write.new));
        }
        if let WriteKind::Upsert { replace, .. } = &write.kind {
            more.insert("isReplace", (*replace).into());
        }
        more.insert("countStats", true.into());
        more.insert("producesResults", true.into());
        let flags = [
            ("waitForSync", self.showing.plan.wait_for_sync.into()),
            ("keepNull", write.options.keep_null.into()),
            ("mergeObjects", write.options.merge_objects.into()),
            ("ignoreRevs", write.options.ignore_revs.into()),
            ("ignoreErrors", write.ignore_errors.into()),
        ];
        more.insert("modificationFlags", object(flags));
        self.of_collection(write.collection, &mut more);
        self.node(kind, more, false);
    }
}

fn is_loop(node: &Node) -> bool {
    matches!(
        node,
        Node::EnumerateCollection { .. }
            | Node::Index { .. }
            | Node::EnumerateList { .. }
            | Node::EnumerateView { .. }
            | Node::Traversal(_)
    )
}

fn conjunction(filters: &[&Expr]) -> Option<Expr> {
    filters
        .iter()
        .copied()
        .cloned()
        .reduce(|a, b| Expr::Binary(Binary::And, Box::new(a), Box::new(b)))
}

fn names(path: &[String]) -> Value {
    Value::array(path.iter().map(|name| name.as_str().into()).collect())
}

/// An index as a node lists it.
fn described(index: &Index) -> Value {
    let fields = match index.kind {
        IndexKind::Primary => vec!["_key".into()],
        IndexKind::Edge => vec!["_from".into(), "_to".into()],
        _ => index.fields.iter().map(|field| Value::from(field.join("."))).collect(),
    };
    let kind = match (&index.definition.attribute("type"), &index.kind) {
        (Value::String(kind), _) => kind.to_string(),
        (_, kind) => format!("{kind:?}").to_lowercase(),
    };
    let unique = index.unique || index.kind == IndexKind::Primary;
    let mut out = filled([
        ("id", index.id.to_string().into()),
        ("type", kind.into()),
        ("name", index.name.as_str().into()),
        ("fields", Value::array(fields)),
        ("selectivityEstimate", 1_i64.into()),
        ("unique", unique.into()),
        ("sparse", index.sparse.into()),
    ]);
    if index.kind == IndexKind::Persistent {
        for (name, value) in [("deduplicate", true), ("estimates", true), ("cacheEnabled", false)] {
            let given = index.definition.attribute(name);
            out.insert(name, if given.is_null() { value.into() } else { given });
        }
    }
    Value::object(out)
}
