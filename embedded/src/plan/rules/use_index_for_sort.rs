//! Drops a sort whose order an index already provides, so that a LIMIT can end the loop early.

use std::sync::Arc;

use super::{is_field, path_of};
use crate::expr::{Expr, Register};
use crate::plan::node::{Lookup, Node, Pipeline, Plan};
use crate::schema::{Index, IndexKind};

/// Applies the rule to the first loop of a pipeline. Returns whether the rule dropped a sort.
pub(super) fn apply(pipeline: &mut Pipeline, plan: &Plan) -> bool {
    let Some(at) = pipeline.nodes.iter().position(is_loop) else { return false };
    let Some(sort_at) = sort_behind(&pipeline.nodes, at) else { return false };
    let Node::Sort(keys) = &pipeline.nodes[sort_at] else { return false };
    match &pipeline.nodes[at] {
        Node::Index { lookup, out, .. } => {
            let Some(backwards) = order_of(lookup, *out, keys) else { return false };
            if let Node::Index { lookup, .. } = &mut pipeline.nodes[at] {
                lookup.backwards = backwards;
            }
        }
        Node::EnumerateCollection { collection, out, hint } if !hint.disable => {
            let (number, out) = (*collection, *out);
            let indexes = &plan.collections[number].collection.indexes;
            let sorted = indexes.iter().filter_map(|index| {
                let mut lookup = whole(index)?;
                lookup.backwards = order_of(&lookup, out, keys)?;
                Some(lookup)
            });
            let Some(lookup) = sorted.take(1).next() else { return false };
            pipeline.nodes[at] = Node::Index { collection: number, out, lookup: Box::new(lookup) };
        }
        _ => return false,
    }
    pipeline.nodes.remove(sort_at);
    true
}

/// Returns the keys of the sort after the loop at position `at`, if no other loop affects the order
/// of the rows.
pub(super) fn following_sort(nodes: &[Node], at: usize) -> Option<&[(Expr, bool)]> {
    if nodes[..at].iter().any(is_loop) {
        return None;
    }
    match nodes.get(sort_behind(nodes, at)?) {
        Some(Node::Sort(keys)) => Some(keys),
        _ => None,
    }
}

fn is_loop(node: &Node) -> bool {
    !matches!(node, Node::Filter(_) | Node::Calculation { .. })
}

/// Returns the position of the sort after a loop, if only filters and calculations are between
/// them.
fn sort_behind(nodes: &[Node], at: usize) -> Option<usize> {
    let behind = nodes.iter().skip(at + 1).position(is_loop)? + at + 1;
    matches!(nodes[behind], Node::Sort(_)).then_some(behind)
}

/// Returns a lookup that reads a whole index, or `None` if the index does not contain every
/// document exactly once in order.
fn whole(index: &Arc<Index>) -> Option<Lookup> {
    let sorted = match index.kind {
        IndexKind::Primary => true,
        IndexKind::Persistent => {
            !index.sparse && !index.fields.iter().flatten().any(|part| part.contains("[*]"))
        }
        IndexKind::Edge | IndexKind::Ttl | IndexKind::Vector(_) | IndexKind::DefinitionOnly(_) => {
            false
        }
    };
    sorted.then(|| Lookup {
        index: Arc::clone(index),
        field: 0,
        by_id: false,
        equals: Vec::new(),
        one_of: None,
        lower: None,
        upper: None,
        backwards: false,
    })
}

/// Returns `Some(backwards)` if a forward or backward read of an index lookup returns rows in the
/// order of the sort keys.
pub(super) fn order_of(lookup: &Lookup, out: Register, keys: &[(Expr, bool)]) -> Option<bool> {
    if lookup.one_of.is_some() || lookup.by_id || lookup.index.kind == IndexKind::Edge {
        return None;
    }
    let key_field = [vec!["_key".to_owned()]];
    let fields =
        if lookup.index.kind == IndexKind::Primary { &key_field[..] } else { &lookup.index.fields };
    let equal = &fields[..lookup.equals.len()];
    let mut rest = fields[lookup.equals.len()..].iter();
    let mut direction = None;
    for (key, descending) in keys {
        let path = path_of(key, out)?;
        if equal.iter().any(|field| is_field(&path, field)) {
            continue;
        }
        if !is_field(&path, rest.next()?) || direction.is_some_and(|d| d != *descending) {
            return None;
        }
        direction = Some(*descending);
    }
    Some(direction.unwrap_or(false))
}
