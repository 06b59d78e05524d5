//! Prints a plan for EXPLAIN, with ArangoDB's node names and the applied rules, without costs.

use super::condition::{AttributeRef, Quantity, Search};
use super::node::{
    Lookup, NearVector, Node, Order, Pipeline, Plan, Traversal, UniqueVertices, ViewScorer,
    ViewSource, WriteKind,
};
use crate::expr::{Expr, Register, print};
use crate::schema::{Index, IndexKind};
use crate::text::Segment;
use crate::value::{Object, Value};

/// Returns the nodes, collections and variables of a plan in a short form for EXPLAIN.
pub fn explain(plan: &Plan) -> Value {
    let mut printer = Printer { plan, nodes: Vec::new() };
    printer.node("SingletonNode", Object::new());
    printer.pipeline(&plan.root);
    let collections = plan.collections.iter().map(|used| {
        let kind = if used.write { "write" } else { "read" };
        object([("name", used.collection.name.as_str().into()), ("type", kind.into())])
    });
    let variables =
        plan.variables.iter().enumerate().map(|(id, name)| {
            object([("id", Value::from(id as u64)), ("name", name.as_str().into())])
        });
    let writes = plan.collections.iter().any(|used| used.write);
    object([
        ("nodes", Value::array(printer.nodes)),
        ("rules", Value::array(plan.rules.iter().map(|rule| (*rule).into()).collect())),
        ("collections", Value::array(collections.collect())),
        ("variables", Value::array(variables.collect())),
        ("estimatedCost", Value::Int(0)),
        ("estimatedNrItems", Value::Int(0)),
        ("isModificationQuery", Value::Bool(writes)),
    ])
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    let mut out = Object::with_capacity(N);
    for (name, value) in entries {
        out.push_new(name, value);
    }
    Value::object(out)
}

struct Printer<'a> {
    plan: &'a Plan,
    nodes: Vec<Value>,
}

impl Printer<'_> {
    fn node(&mut self, kind: &str, more: Object) {
        let id = self.nodes.len() as i64 + 1;
        let before = if id > 1 { vec![Value::Int(id - 1)] } else { Vec::new() };
        let mut out = Object::with_capacity(more.len() + 3);
        out.insert("type", kind.into());
        out.insert("dependencies", Value::array(before));
        out.insert("id", Value::Int(id));
        for (name, value) in more.iter() {
            out.insert(name.clone(), value.clone());
        }
        self.nodes.push(Value::object(out));
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        for node in &pipeline.nodes {
            self.subqueries(node);
            if let Node::Write(write) = node
                && let WriteKind::Upsert { lookup, .. } = &write.kind
            {
                self.node("SubqueryStartNode", Object::new());
                self.pipeline(lookup);
                self.node("SubqueryEndNode", Object::new());
            }
            if let Node::EnumerateNearVector(near) = node {
                self.query_point(near);
            }
            if !matches!(node, Node::Gather) {
                self.node(node.type_name(), self.details(node));
            }
            if matches!(node, Node::EnumerateNearVector(_))
                && !self.plan.release.vector_projections()
            {
                self.node("MaterializeNode", Object::new());
            }
        }
    }

    /// Adds a node that computes the query vector of a vector search, unless the query vector is a
    /// variable.
    fn query_point(&mut self, near: &NearVector) {
        if !matches!(near.vector, Expr::Register(_)) {
            let mut out = Object::new();
            out.insert("expression", self.text(&near.vector));
            self.node("CalculationNode", out);
        }
    }

    fn subqueries(&mut self, node: &Node) {
        let inner: Vec<usize> = node.expressions().into_iter().flat_map(Expr::subqueries).collect();
        for number in inner {
            let mut name = Object::new();
            name.insert("subquery", Value::from(number as u64));
            self.node("SubqueryStartNode", name.clone());
            self.pipeline(&self.plan.subqueries[number]);
            self.node("SubqueryEndNode", name);
        }
    }

    fn text(&self, expr: &Expr) -> Value {
        print(expr, &self.plan.variables, &self.plan.binds).into()
    }

    fn variable(&self, register: Register) -> Value {
        let name = self.plan.variables[register].as_str();
        object([("id", Value::from(register as u64)), ("name", name.into())])
    }

    fn details(&self, node: &Node) -> Object {
        let mut out = Object::new();
        match node {
            Node::EnumerateCollection { collection, out: variable, .. } => {
                out.insert(
                    "collection",
                    self.plan.collections[*collection].collection.name.as_str().into(),
                );
                out.insert("outVariable", self.variable(*variable));
            }
            Node::Index { collection, out: variable, lookup } => {
                out.insert(
                    "collection",
                    self.plan.collections[*collection].collection.name.as_str().into(),
                );
                out.insert("outVariable", self.variable(*variable));
                out.insert("indexes", Value::array(vec![described(&lookup.index)]));
                out.insert("condition", self.condition(lookup));
                out.insert("ascending", Value::Bool(!lookup.backwards));
                out.insert("reverse", Value::Bool(lookup.backwards));
            }
            Node::EnumerateNearVector(near) => self.near(near, &mut out),
            Node::EnumerateView { view, out: variable, .. } => {
                let used = &self.plan.views[*view];
                match &used.source {
                    ViewSource::View(view) => out.insert("view", view.name.as_str().into()),
                    ViewSource::Index(index) => {
                        let collection = &self.plan.collections[used.collections[0]].collection;
                        out.insert("collection", collection.name.as_str().into());
                        out.insert("indexes", Value::array(vec![described(index)]));
                    }
                }
                out.insert("outVariable", self.variable(*variable));
                out.insert("condition", self.search(&used.search).into());
                let scorer = |scorer: &ViewScorer| self.variable(scorer.out);
                out.insert("scorers", Value::array(used.scorers.iter().map(scorer).collect()));
                let sorted = used.best.as_ref().map_or(Value::Null, |best| {
                    object([("offset", self.text(&best.offset)), ("limit", self.text(&best.count))])
                });
                out.insert("scorersSort", sorted);
                out.insert("volatility", false.into());
            }
            Node::EnumerateList { source, out: variable } => {
                out.insert("expression", self.text(source));
                out.insert("outVariable", self.variable(*variable));
            }
            Node::Traversal(traversal) => out = self.traversal(traversal),
            Node::Calculation { value, out: variable } => {
                out.insert("expression", self.text(value));
                out.insert("outVariable", self.variable(*variable));
            }
            Node::Filter(condition) => out.insert("expression", self.text(condition)),
            Node::Sort(keys) => {
                let key = |(key, descending): &(Expr, bool)| {
                    object([
                        ("expression", self.text(key)),
                        ("ascending", Value::Bool(!descending)),
                    ])
                };
                out.insert("elements", Value::array(keys.iter().map(key).collect()));
            }
            Node::Limit { offset, count } => {
                out.insert("offset", self.text(offset));
                out.insert("limit", self.text(count));
            }
            Node::Collect(collect) => {
                let groups = collect.keys.iter().map(|(key, out)| {
                    object([("outVariable", self.variable(*out)), ("expression", self.text(key))])
                });
                out.insert("groups", Value::array(groups.collect()));
            }
            Node::Write(write) => {
                out.insert(
                    "collection",
                    self.plan.collections[write.collection].collection.name.as_str().into(),
                );
            }
            Node::Return { value, distinct } => {
                out.insert("expression", self.text(value));
                out.insert("distinct", Value::Bool(*distinct));
            }
            Node::Window(_) | Node::Gather => {}
        }
        out
    }

    fn near(&self, near: &NearVector, out: &mut Object) {
        out.insert(
            "collection",
            self.plan.collections[near.collection].collection.name.as_str().into(),
        );
        out.insert("outVariable", self.variable(near.out));
        out.insert("distanceOutVariable", self.variable(near.similarity));
        out.insert("inVariable", self.text(&near.vector));
        out.insert("index", vector_index(&near.index));
        let none = || Value::object(Object::new());
        let options = near.options.as_ref().map_or_else(none, |options| self.constant(options));
        out.insert("searchParameters", options);
        out.insert("offset", self.constant(&near.limit.0));
        out.insert("limit", self.constant(&near.limit.1));
        out.insert("isCoveredByStoredValues", Value::Bool(near.covered));
        let filters: Vec<Value> = near.filters.iter().map(|filter| self.text(filter)).collect();
        if !filters.is_empty() {
            out.insert("filterExpression", filters.into());
        }
    }

    /// Returns the value of a constant expression, or the source text of any other expression.
    fn constant(&self, expr: &Expr) -> Value {
        match expr {
            Expr::Const(value) => value.clone(),
            other => self.text(other),
        }
    }

    fn traversal(&self, traversal: &Traversal) -> Object {
        let collection = |number: usize| &self.plan.collections[number].collection;
        let name = |number: usize| Value::from(collection(number).name.as_str());
        let edges = || traversal.edges.iter();
        let directions = edges().map(|f| f.direction.to_string().as_str().into()).collect();
        let indexes = edges().filter_map(|followed| {
            let indexes = &collection(followed.collection).indexes;
            indexes.iter().find(|index| index.kind == IndexKind::Edge)
        });
        let mut out = Object::new();
        if let Some(graph) = &traversal.graph {
            out.insert("graph", Value::String(graph.clone()));
        }
        out.insert("edgeCollections", Value::array(edges().map(|f| name(f.collection)).collect()));
        out.insert("directions", Value::array(directions));
        let vertices = traversal.vertices.iter().map(|number| name(*number)).collect();
        out.insert("vertexCollections", Value::array(vertices));
        out.insert("indexes", Value::array(indexes.map(|found| described(found)).collect()));
        out.insert("start", self.text(&traversal.start));
        if let Some((condition, _)) = &traversal.prune {
            out.insert("prune", self.text(condition));
        }
        out.insert("vertexOutVariable", self.variable(traversal.vertex));
        for (name, register) in
            [("edgeOutVariable", traversal.edge), ("pathOutVariable", traversal.path)]
        {
            if let Some(register) = register {
                out.insert(name, self.variable(register));
            }
        }
        out.insert("options", traversal_options(traversal));
        out
    }

    /// Prints the condition of a SEARCH as text.
    fn search(&self, search: &Search) -> String {
        let text = |expr: &Expr| print(expr, &self.plan.variables, &self.plan.binds);
        let place = |place: &AttributeRef| {
            let path = place.path.iter().fold(String::new(), |path, segment| match segment {
                Segment::Name(name) if path.is_empty() => name.to_string(),
                Segment::Name(name) => format!("{path}.{name}"),
                Segment::Item(item) => format!("{path}[{item}]"),
            });
            place.analyzer.as_ref().map_or(path.clone(), |name| format!("{path}:{}", text(name)))
        };
        let all = |parts: &[Search], between: &str| {
            let parts: Vec<String> = parts.iter().map(|part| self.search(part)).collect();
            format!("({})", parts.join(between))
        };
        match search {
            Search::Is(value) => text(value),
            Search::Compare { place: at, operator, value } => {
                format!("{} {} {}", place(at), operator, text(value))
            }
            Search::In { place: at, list } => format!("{} IN {}", place(at), text(list)),
            Search::Items { place: at, quantity, operator, list } => {
                let quantity = match quantity {
                    Quantity::All => "ALL".to_owned(),
                    Quantity::Any => "ANY".to_owned(),
                    Quantity::None => "NONE".to_owned(),
                    Quantity::AtLeast(least) => format!("AT LEAST ({})", text(least)),
                };
                format!("{} {quantity} {} {}", text(list), operator, place(at))
            }
            Search::Call { call, place: at, arguments } => {
                let parts: Vec<String> =
                    [place(at)].into_iter().chain(arguments.iter().map(text)).collect();
                format!("{}({})", call.name(), parts.join(", "))
            }
            Search::Geo { name, place: at, arguments, bound, .. } => {
                let arguments: Vec<String> =
                    [place(at)].into_iter().chain(arguments.iter().map(text)).collect();
                let call = format!("{name}({})", arguments.join(", "));
                bound.as_ref().map_or(call.clone(), |(operator, bound)| {
                    format!("{call} {operator} {}", text(bound))
                })
            }
            Search::And(parts) => all(parts, " && "),
            Search::Or(parts) => all(parts, " || "),
            Search::AtLeast(parts, least) => {
                format!(
                    "MIN_MATCH{}",
                    all(parts, ", ").replacen('(', &format!("({}; ", text(least)), 1)
                )
            }
            Search::Not(part) => format!("!({})", self.search(part)),
            Search::Boost(part, factor) => {
                format!("BOOST({}, {})", self.search(part), text(factor))
            }
        }
    }

    fn condition(&self, lookup: &Lookup) -> Value {
        let mut out = Object::new();
        let texts =
            |items: &[Expr]| Value::array(items.iter().map(|item| self.text(item)).collect());
        if !lookup.equals.is_empty() {
            out.insert("equals", texts(&lookup.equals));
        }
        if let Some(list) = &lookup.one_of {
            out.insert("in", self.text(list));
        }
        for (bound, closed, open) in [(&lookup.lower, ">=", ">"), (&lookup.upper, "<=", "<")] {
            if let Some((bound, inclusive)) = bound {
                out.insert(if *inclusive { closed } else { open }, self.text(bound));
            }
        }
        Value::object(out)
    }
}

/// Returns the `options` of a traversal, in the form of EXPLAIN.
pub(super) fn traversal_options(traversal: &Traversal) -> Value {
    let order = match traversal.order {
        Order::DepthFirst => "dfs",
        Order::BreadthFirst => "bfs",
        Order::Weighted => "weighted",
    };
    let unique_vertices = match traversal.unique_vertices {
        UniqueVertices::None => "none",
        UniqueVertices::Path => "path",
        UniqueVertices::Global => "global",
    };
    let only = traversal.only_vertices.iter().map(|name| Value::String(name.clone())).collect();
    object([
        ("minDepth", traversal.min.into()),
        ("maxDepth", traversal.max.into()),
        ("order", order.into()),
        ("uniqueVertices", unique_vertices.into()),
        ("uniqueEdges", if traversal.unique_edges { "path" } else { "none" }.into()),
        ("vertexCollections", Value::array(only)),
    ])
}

/// Returns a vector index and its parameters in the form of ArangoDB's index list.
pub(super) fn vector_index(index: &Index) -> Value {
    let mut out = described(index).as_object().cloned().unwrap_or_default();
    out.insert("id", index.id.to_string().into());
    for name in ["params", "storedValues"] {
        let value = index.definition.attribute(name);
        if !value.is_null() {
            out.insert(name, value);
        }
    }
    Value::object(out)
}

fn described(index: &Index) -> Value {
    let fields = index.fields.iter().map(|field| Value::from(field.join("."))).collect();
    let kind = match &index.definition.attribute("type") {
        Value::String(kind) => kind.to_string(),
        _ => format!("{:?}", index.kind).to_lowercase(),
    };
    object([
        ("name", index.name.as_str().into()),
        ("type", kind.into()),
        ("fields", Value::array(fields)),
        ("unique", Value::Bool(index.unique)),
        ("sparse", Value::Bool(index.sparse)),
    ])
}
