//! Lets a loop over a view load only the best documents, if a SORT by score and a LIMIT directly
//! follow the loop.

use crate::expr::Expr;
use crate::plan::node::{BestRows, Node, Pipeline, Plan};

/// If a sort by score and a limit directly follow a loop over a view, records both in the loop.
/// Returns whether the rule changed a loop.
pub(super) fn apply(pipeline: &Pipeline, plan: &mut Plan) -> bool {
    let mut changed = false;
    for window in pipeline.nodes.windows(3) {
        let [Node::EnumerateView { view, .. }, Node::Sort(keys), Node::Limit { offset, count }] =
            window
        else {
            continue;
        };
        let Some((Expr::Register(key), true)) = keys.first() else { continue };
        let used = &mut plan.views[*view];
        let scorer = used.scorers.iter().position(|scorer| scorer.out == *key);
        if let Some(scorer) = scorer {
            let (offset, count, ties) = (offset.clone(), count.clone(), keys.len() > 1);
            used.best = Some(BestRows { scorer, offset, count, ties });
            changed = true;
        }
    }
    changed
}
