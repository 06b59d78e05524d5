//! Moves each filter to the first position at which the variables that it reads are known.

use super::touched;
use crate::expr::{Expr, Register};
use crate::plan::node::{Node, Pipeline, Plan};

/// Applies the rule to all filters of a pipeline. Returns whether the rule moved a filter.
pub(super) fn apply(pipeline: &mut Pipeline, plan: &Plan) -> bool {
    let mut changed = false;
    for at in 1..pipeline.nodes.len() {
        let Node::Filter(condition) = &pipeline.nodes[at] else { continue };
        if !condition.is_pure() {
            continue;
        }
        let needed = condition.registers();
        let mut to = at;
        while to > 0 && may_pass(&pipeline.nodes[to - 1], &needed, plan) {
            to -= 1;
        }
        // The moved filters keep their relative order.
        while to < at && matches!(pipeline.nodes[to], Node::Filter(_)) {
            to += 1;
        }
        if to < at {
            let filter = pipeline.nodes.remove(at);
            pipeline.nodes.insert(to, filter);
            changed = true;
        }
    }
    changed
}

/// Whether a filter after a node may move before it; `needed` lists the registers that the filter
/// reads.
fn may_pass(node: &Node, needed: &[Register], plan: &Plan) -> bool {
    match node {
        Node::Filter(condition) => condition.is_pure(),
        Node::Sort(_) => true,
        Node::EnumerateCollection { out, .. } | Node::Index { out, .. } => !needed.contains(out),
        Node::EnumerateView { view, out, .. } => {
            let used = &plan.views[*view];
            let scores = used.scorers.iter().map(|scorer| scorer.out);
            let offsets = used.offsets.iter().map(|(_, out)| *out);
            !scores.chain(offsets).chain([*out]).any(|register| needed.contains(&register))
        }
        Node::EnumerateList { source: value, out } | Node::Calculation { value, out } => {
            let quiet =
                value.is_pure() || touched(node, plan).1.is_empty() && !has_live_call(value);
            quiet && !needed.contains(out)
        }
        // A subquery in a traversal's start vertex or prune condition must run for the same rows as
        // without this rule.
        Node::Traversal(traversal) => {
            node.expressions().into_iter().all(Expr::is_pure)
                && !traversal.outs().any(|out| needed.contains(&out))
        }
        // No filter may move before a vector search, because the search finds only as many
        // documents as its LIMIT allows.
        Node::EnumerateNearVector(_)
        | Node::Limit { .. }
        | Node::Collect(_)
        | Node::Window(_)
        | Node::Gather
        | Node::Write(_)
        | Node::Return { .. } => false,
    }
}

/// Whether an expression calls functions such as FAIL or WARN, which must run for the same rows as
/// without this rule.
fn has_live_call(value: &Expr) -> bool {
    let mut live = false;
    value.walk(&mut |e| {
        if let Expr::Call(function, _) = e {
            live |= !function.foldable;
        }
    });
    live
}
