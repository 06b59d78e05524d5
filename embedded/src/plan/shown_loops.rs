//! Shows a plan's loops over collections, indexes and views.

use super::node::{Lookup, Node, ViewSource};
use super::shown::{Printer, filled, object};
use super::uses::{PROJECTIONS_MAX, Used, attributes};
use crate::expr::{Expr, Register};
use crate::schema::{Index, IndexKind};
use crate::syntax::{Binary, Name};
use crate::value::{Object, Value};

impl<'a> Printer<'a> {
    /// Returns the filters after a loop that depend only on the loop's documents. ArangoDB runs
    /// such filters inside the loop.
    pub(super) fn filters_beside<'n>(
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

    pub(super) fn document_node(
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

    pub(super) fn of_collection(&self, collection: usize, more: &mut Object) {
        let name = &self.showing.plan.collections[collection].collection.name;
        more.insert("collection", name.as_str().into());
        more.insert("satellite", false.into());
        more.insert("isSatellite", false.into());
        more.insert("isSatelliteOf", Value::Null);
    }

    pub(super) fn documents(&self, collection: usize) -> f64 {
        self.showing.documents.get(collection).copied().unwrap_or_default() as f64
    }

    pub(super) fn scan(&mut self, collection: usize, out: Register, filters: &[&Expr]) {
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

    pub(super) fn index(
        &mut self,
        collection: usize,
        out: Register,
        lookup: &Lookup,
        filters: &[&Expr],
    ) {
        let documents = self.documents(collection);
        let complete = !lookup.equals.is_empty()
            && lookup.equals.len() == lookup.index.fields.len().max(1)
            && (lookup.index.unique || lookup.index.kind == IndexKind::Primary);
        let found = if complete { documents.min(1.0) } else { documents };
        // ArangoDB creates a variable for each condition, even if an index replaces the condition
        // later.
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
        // A loop does not read documents if the loop's index contains all used attributes.
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

    /// Shows a loop over a view as a view node, or a loop over an inverted index as an index node.
    pub(super) fn view(&mut self, view: usize, out: Register) {
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

    /// Returns the condition of an index lookup in ArangoDB's form: an OR that contains one AND.
    pub(super) fn condition(&self, out: Register, lookup: &Lookup) -> Value {
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
}

pub(super) fn conjunction(filters: &[&Expr]) -> Option<Expr> {
    filters
        .iter()
        .copied()
        .cloned()
        .reduce(|a, b| Expr::Binary(Binary::And, Box::new(a), Box::new(b)))
}

pub(super) fn names(path: &[String]) -> Value {
    Value::array(path.iter().map(|name| name.as_str().into()).collect())
}

/// Returns an index in the form in which an index node lists it.
pub(super) fn described(index: &Index) -> Value {
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
