//! A filter moves to the first place where all it needs is known.

use super::touched;
use crate::expr::{Expr, Register};
use crate::plan::node::{Node, Pipeline, Plan};

/// Moves filters; whether one moved.
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
        // Filters keep their order among themselves.
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

/// Whether a filter over these registers may run before the node instead of behind it.
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
        // A subquery in its start or its prune condition runs as often as the text says.
        Node::Traversal(traversal) => {
            node.expressions().into_iter().all(Expr::is_pure)
                && !traversal.outs().any(|out| needed.contains(&out))
        }
        // A near vector node has found as many as the LIMIT behind it wants.
        Node::EnumerateNearVector(_)
        | Node::Limit { .. }
        | Node::Collect(_)
        | Node::Window(_)
        | Node::Gather
        | Node::Write(_)
        | Node::Return { .. } => false,
    }
}

/// FAIL, WARN and their like must run as often as the text says.
fn has_live_call(value: &Expr) -> bool {
    let mut live = false;
    value.walk(&mut |e| {
        if let Expr::Call(function, _) = e {
            live |= !function.foldable;
        }
    });
    live
}
