//! A sort that an index already has is dropped, so that a LIMIT behind it ends the loop early.

use std::sync::Arc;

use super::{is_field, path_of};
use crate::expr::{Expr, Register};
use crate::plan::node::{Lookup, Node, Pipeline, Plan};
use crate::schema::{Index, IndexKind};

/// Drops the sort; whether it did.
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

/// The sort keys behind the loop at `at`, if the loop alone decides the order of the rows.
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

/// Only filters and calculations may stand between.
fn sort_behind(nodes: &[Node], at: usize) -> Option<usize> {
    let behind = nodes.iter().skip(at + 1).position(is_loop)? + at + 1;
    matches!(nodes[behind], Node::Sort(_)).then_some(behind)
}

/// A lookup of everything in an index that holds every document.
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

/// Whether reading the lookup gives the order of the keys: `Some(backwards)`.
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
