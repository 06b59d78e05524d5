//! Runs the optimizer rules on a plan in a fixed order; most rules return whether they changed the
//! pipeline.

mod best_of_view;
mod gather_before_write;
mod move_filters_up;
mod replace_or_with_in;
mod use_index_for_sort;
mod use_indexes;
mod use_vector_index;

use super::node::{Node, Pipeline, Plan, WriteKind};
use crate::error::Result;
use crate::expr::{Expr, Register};

/// Runs all optimizer rules on one pipeline.
pub(super) fn improve(
    pipeline: &mut Pipeline,
    plan: &mut Plan,
    allowed: &dyn Fn(&str) -> bool,
) -> Result<()> {
    if allowed("use-vector-index") && use_vector_index::apply(pipeline, plan)? {
        applied(plan, "use-vector-index");
        let filtered = |node: &Node| match node {
            Node::EnumerateNearVector(near) => Some(!near.filters.is_empty()),
            _ => None,
        };
        let near: Vec<bool> = pipeline.nodes.iter().filter_map(filtered).collect();
        if near.contains(&true) && plan.release.vector_stored_values() {
            applied(plan, "push-filter-into-enumerate-near");
        }
        if near.contains(&false) && plan.release.vector_projections() {
            applied(plan, "materialize-for-enumerate-near");
        }
    }
    if allowed("move-filters-up") && move_filters_up::apply(pipeline, plan) {
        applied(plan, "move-filters-up");
    }
    if allowed("replace-or-with-in") && replace_or_with_in::apply(pipeline) {
        applied(plan, "replace-or-with-in");
    }
    if allowed("use-indexes") && use_indexes::apply(pipeline, plan)? {
        applied(plan, "use-indexes");
    }
    if allowed("use-index-for-sort") && use_index_for_sort::apply(pipeline, plan) {
        applied(plan, "use-index-for-sort");
    }
    if allowed("arangosearch-constrained-sort") && best_of_view::apply(pipeline, plan) {
        applied(plan, "optimize-topk-of-view");
    }
    gather_before_write::apply(pipeline, plan);
    stages(pipeline);
    Ok(())
}

/// Runs the steps of optimization that need the whole plan.
pub(super) fn finish(plan: &mut Plan) {
    plan.rules.sort_unstable();
    use_vector_index::leave_out(plan);
}

fn applied(plan: &mut Plan, rule: &'static str) {
    if !plan.rules.contains(&rule) {
        plan.rules.push(rule);
    }
}

/// Splits a pipeline into stages, after each node that needs all rows.
fn stages(pipeline: &mut Pipeline) {
    let ends =
        pipeline.nodes.iter().enumerate().filter(|(_, node)| node.gathers()).map(|(at, _)| at + 1);
    pipeline.stages = ends.chain([pipeline.nodes.len()]).collect();
    pipeline.stages.dedup();
}

/// Whether a node or one of its subqueries writes to a collection.
pub fn writes(node: &Node, plan: &Plan) -> bool {
    !touched(node, plan).1.is_empty()
}

/// Returns the collections that a node and its subqueries read, and those that they write.
pub(super) fn touched(node: &Node, plan: &Plan) -> (Vec<usize>, Vec<usize>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let inner = |pipeline: &Pipeline, reads: &mut Vec<usize>, writes: &mut Vec<usize>| {
        for node in &pipeline.nodes {
            let (r, w) = touched(node, plan);
            reads.extend(r);
            writes.extend(w);
        }
    };
    match node {
        Node::EnumerateCollection { collection, .. } | Node::Index { collection, .. } => {
            reads.push(*collection)
        }
        Node::EnumerateNearVector(near) => reads.push(near.collection),
        // A traversal counts as a read of all collections of the query, because an edge may lead to
        // any of them.
        Node::Traversal(_) => reads.extend(0..plan.collections.len()),
        Node::EnumerateView { view, .. } => reads.extend(&plan.views[*view].collections),
        Node::Write(write) => {
            writes.push(write.collection);
            if let WriteKind::Upsert { lookup, .. } = &write.kind {
                inner(lookup, &mut Vec::new(), &mut writes);
            }
        }
        _ => {}
    }
    for expression in node.expressions() {
        for subquery in expression.subqueries() {
            inner(&plan.subqueries[subquery], &mut reads, &mut writes);
        }
    }
    (reads, writes)
}

/// Returns the attribute path of an expression like `variable.a.b`, or `None` for any other
/// expression.
fn path_of(expr: &Expr, variable: Register) -> Option<Vec<&str>> {
    match expr {
        Expr::Attribute(base, name) => {
            let mut path = match &**base {
                Expr::Register(register) if *register == variable => Vec::new(),
                inner => path_of(inner, variable)?,
            };
            path.push(name);
            Some(path)
        }
        _ => None,
    }
}

/// Whether an attribute path equals an index field.
fn is_field(path: &[&str], field: &[String]) -> bool {
    path.len() == field.len() && path.iter().zip(field).all(|(a, b)| a == b)
}
