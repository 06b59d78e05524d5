//! Shows sorts, groups and windows of a plan.

use super::node::{Aggregate, Bounds, Collect, Into, Window};
use super::shown::{Printer, filled, number, object};
use crate::expr::{Expr, Register};
use crate::syntax::Name;
use crate::value::{Object, Value};

impl<'a> Printer<'a> {
    pub(super) fn sort(&mut self, keys: &[(Expr, bool)], limit: Option<u64>) {
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

    pub(super) fn aggregated(&mut self, aggregates: &[(Aggregate, Expr, Register)]) -> Vec<Value> {
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

    pub(super) fn collect(&mut self, collect: &Collect) {
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

    pub(super) fn collected(
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

    pub(super) fn window(&mut self, window: &Window) {
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
}
