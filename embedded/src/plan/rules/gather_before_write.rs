//! Makes the loops over a collection finish before a pipeline's first write to the same collection.

use super::touched;
use crate::plan::node::{Node, Pipeline, Plan};

/// Adds a node that buffers all rows before the first write, if the pipeline reads a collection to
/// which it later writes.
pub(super) fn apply(pipeline: &mut Pipeline, plan: &Plan) {
    let nodes: Vec<_> = pipeline.nodes.iter().map(|node| touched(node, plan)).collect();
    let Some(first) = nodes.iter().position(|(_, writes)| !writes.is_empty()) else { return };
    let written = |c: &usize| nodes[first..].iter().any(|(_, writes)| writes.contains(c));
    let read_before = nodes[..first].iter().flat_map(|(reads, _)| reads).any(written);
    let gathered = first > 0 && pipeline.nodes[first - 1].gathers();
    if read_before && !gathered {
        pipeline.nodes.insert(first, Node::Gather);
    }
}
