//! Shows further nodes of a plan: lists, filters, limits, vector searches, traversals and
//! modifications.

use super::node::{Node, Traversal, Write, WriteKind};
use super::shown::{LIST_ITEMS, Printer, filled, object};
use super::shown_loops::{conjunction, described};
use crate::expr::Expr;
use crate::schema::IndexKind;
use crate::syntax::{Binary, Direction, PathSearch};
use crate::value::{Object, Value};

impl<'a> Printer<'a> {
    /// Returns the value of the offset or count of a LIMIT.
    pub(super) fn whole(&self, expr: &Expr) -> Option<u64> {
        let value = match expr {
            Expr::Const(value) => value,
            Expr::Bind(slot) => self.showing.binds.get(*slot)?,
            _ => return None,
        };
        u64::try_from(value.to_i64()).ok()
    }

    pub(super) fn other(&mut self, node: &Node) {
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

    pub(super) fn traversal(&mut self, traversal: &Traversal) {
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

    pub(super) fn write(&mut self, write: &Write) {
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
