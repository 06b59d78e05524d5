//! Walks the syntax tree that the engine's AQL parser returns: subqueries, expressions and their
//! parts.

use arango_embedded::syntax::{Body, Expr, Key, Quantifier, SortDirection, Statement};

/// Returns a query and all subqueries in it, outer ones first.
pub(crate) fn bodies(body: &Body) -> Vec<&Body> {
    let mut found = vec![body];
    for statement in &body.statements {
        for expr in expressions(statement) {
            for part in parts(expr) {
                if let Expr::Subquery(inner) = part {
                    found.extend(bodies(inner));
                }
            }
        }
    }
    found
}

/// Returns an expression and all its subexpressions, without subqueries.
pub(crate) fn parts(expr: &Expr) -> Vec<&Expr> {
    let mut found = vec![expr];
    for child in children(expr) {
        found.extend(parts(child));
    }
    found
}

/// Returns the expressions of a statement.
pub(crate) fn expressions(statement: &Statement) -> Vec<&Expr> {
    match statement {
        Statement::For { source, search, options, .. } => {
            [Some(source), search.as_ref(), options.as_ref()].into_iter().flatten().collect()
        }
        Statement::Traversal(t) => {
            let prune = t.prune.as_ref().map(|(_, condition)| condition);
            let rest = [&t.target, &t.graph, &t.options].map(Option::as_ref);
            [t.depth.as_ref(), Some(&t.start), prune].into_iter().chain(rest).flatten().collect()
        }
        Statement::Filter(value)
        | Statement::Let { value, .. }
        | Statement::Destructure { value, .. }
        | Statement::Return { value, .. } => vec![value],
        Statement::Sort(keys) => keys
            .iter()
            .flat_map(|(key, direction)| [key].into_iter().chain(given(direction)))
            .collect(),
        Statement::Limit { offset, count } => offset.iter().chain([count]).collect(),
        Statement::Collect(c) => {
            let into = c.into.as_ref().and_then(|(_, value)| value.as_ref());
            let named = c.keys.iter().chain(&c.aggregates).map(|(_, value)| value);
            named.chain(into).chain(&c.options).collect()
        }
        Statement::Window(w) => {
            let aggregates = w.aggregates.iter().map(|(_, value)| value);
            w.range.iter().chain([&w.bounds]).chain(aggregates).collect()
        }
        Statement::Insert { document: value, options, .. }
        | Statement::Remove { key: value, options, .. } => {
            [value].into_iter().chain(options).collect()
        }
        Statement::Change { key, with, options, .. } => {
            [key].into_iter().chain(with).chain(options).collect()
        }
        Statement::Upsert(u) => {
            [&u.search, &u.insert, &u.update].into_iter().chain(&u.options).collect()
        }
    }
}

/// Returns the direction of a sort key if it is an expression instead of ASC or DESC.
fn given(direction: &SortDirection) -> Option<&Expr> {
    match direction {
        SortDirection::Given(value) => Some(value),
        SortDirection::Ascending | SortDirection::Descending => None,
    }
}

/// Returns the expression after `OPTIONS` of a statement.
pub(crate) fn options(statement: &Statement) -> Option<&Expr> {
    match statement {
        Statement::For { options, .. }
        | Statement::Insert { options, .. }
        | Statement::Change { options, .. }
        | Statement::Remove { options, .. } => options.as_ref(),
        Statement::Traversal(t) => t.options.as_ref(),
        Statement::Collect(c) => c.options.as_ref(),
        Statement::Upsert(u) => u.options.as_ref(),
        Statement::Filter(_)
        | Statement::Let { .. }
        | Statement::Destructure { .. }
        | Statement::Sort(_)
        | Statement::Limit { .. }
        | Statement::Window(_)
        | Statement::Return { .. } => None,
    }
}

/// Returns the direct subexpressions of an expression.
pub(crate) fn children(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Literal(_)
        | Expr::Name(_)
        | Expr::Bind(_)
        | Expr::CollectionBind(_)
        | Expr::Element
        | Expr::Subquery(_) => Vec::new(),
        Expr::Attribute(base, key) => [&**base].into_iter().chain(computed(key)).collect(),
        Expr::Index(a, b) | Expr::Binary(_, a, b) => vec![a, b],
        Expr::Array(items) | Expr::Call(_, items) => items.iter().collect(),
        Expr::Object(entries) => entries
            .iter()
            .flat_map(|(key, value)| computed(key).into_iter().chain([value]))
            .collect(),
        Expr::Unary(_, inner) | Expr::Group(inner) => vec![inner],
        Expr::Quantified(quantifier, _, a, b) => {
            count(quantifier).into_iter().chain([&**a, &**b]).collect()
        }
        Expr::Ternary(condition, yes, no) => {
            [Some(&**condition), yes.as_deref(), Some(&**no)].into_iter().flatten().collect()
        }
        Expr::Expansion(e) => {
            let limit = e.limit.iter().flat_map(|(offset, count)| offset.iter().chain([count]));
            let inner = e.filter.iter().chain(limit).chain(&e.projection);
            [&e.base].into_iter().chain(inner).chain([&e.tail]).collect()
        }
        Expr::Question(base, quantifier, filter) => {
            let count = quantifier.as_deref().and_then(count);
            [Some(&**base), count, filter.as_deref()].into_iter().flatten().collect()
        }
    }
}

fn computed(key: &Key) -> Option<&Expr> {
    match key {
        Key::Computed(value) => Some(value),
        Key::Name(_) | Key::Bind(_) => None,
    }
}

fn count(quantifier: &Quantifier) -> Option<&Expr> {
    match quantifier {
        Quantifier::AtLeast(count) | Quantifier::Exactly(count) => Some(count),
        Quantifier::All | Quantifier::Any | Quantifier::None => None,
    }
}
