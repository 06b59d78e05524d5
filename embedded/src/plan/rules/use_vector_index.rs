//! Replaces a loop and the sort of its rows by nearness with one search in a vector index, if a
//! LIMIT follows the sort. All other nearness calls (`APPROX_NEAR_…()`) fail at run time with error
//! 1554.

use std::sync::Arc;

use super::{is_field, path_of};
use crate::error::{Code, Error, Result};
use crate::expr::{DataCall, Expr, Register};
use crate::plan::compile::CURRENT;
use crate::plan::near::not_applied;
use crate::plan::node::{Hint, NearVector, Node, Pipeline, Plan};
use crate::schema::{Index, IndexKind, Metric, VectorParams};
use crate::value::Value;

/// Applies the rule to all sorts by nearness in a pipeline. Returns whether the rule replaced a
/// loop, or error 1554 for a filter that a vector index cannot check.
pub(super) fn apply(pipeline: &mut Pipeline, plan: &mut Plan) -> Result<bool> {
    let mut changed = false;
    let mut from = 0;
    while let Some((sort_at, call_at)) = sorted_by_nearness(&pipeline.nodes, from) {
        let replaced = replace(pipeline, plan, sort_at, call_at)?;
        from = if replaced { 0 } else { sort_at + 1 };
        changed |= replaced;
    }
    Ok(changed)
}

/// Lets vector searches read only the attributes that the query uses. If a node that buffers,
/// groups or writes rows follows a vector search, this search reads whole documents.
pub(super) fn leave_out(plan: &mut Plan) {
    let pipelines = [&mut plan.root].into_iter().chain(&mut plan.subqueries);
    for pipeline in pipelines {
        for at in 0..pipeline.nodes.len() {
            let (before, behind) = pipeline.nodes.split_at_mut(at + 1);
            let Some(Node::EnumerateNearVector(near)) = before.last_mut() else { continue };
            near.attributes = attributes(near, behind);
        }
    }
}

fn attributes(near: &NearVector, behind: &[Node]) -> Option<Vec<String>> {
    let mut found: Option<Vec<String>> = Some(Vec::new());
    let mut look = |expression: &Expr| {
        let mut below = 0;
        expression.walk(&mut |e| {
            if below > 0 {
                below -= 1;
            } else if let Some(path) = path_of(e, near.out) {
                below = path.len();
                let name = path[0].to_owned();
                if let Some(found) = found.as_mut().filter(|found| !found.contains(&name)) {
                    found.push(name);
                }
            } else if matches!(e, Expr::Subquery(_))
                || matches!(e, Expr::Register(register) if *register == near.out)
            {
                found = None;
            }
        });
    };
    near.filters.iter().for_each(&mut look);
    for node in behind {
        if !is_plain(node) {
            return None;
        }
        node.expressions().into_iter().for_each(&mut look);
    }
    found
}

/// Returns the position of the first sort at or after `from` whose only key is a nearness call.
/// Also returns the position of the node that computes the call, if the call is not in the sort
/// itself.
fn sorted_by_nearness(nodes: &[Node], from: usize) -> Option<(usize, Option<usize>)> {
    nodes.iter().enumerate().skip(from).find_map(|(sort_at, node)| {
        let Node::Sort(keys) = node else { return None };
        match keys.as_slice() {
            [(Expr::Data(DataCall::Near(_), _), _)] => Some((sort_at, None)),
            [(Expr::Register(key), _)] => {
                let call_at = nodes[..sort_at].iter().position(|node| {
                    matches!(node, Node::Calculation { value: Expr::Data(DataCall::Near(_), _), out } if out == key)
                })?;
                Some((sort_at, Some(call_at)))
            }
            _ => None,
        }
    })
}

/// The metric, attribute, query vector and options of a vector search, taken from the nearness
/// call.
struct SearchParts {
    metric: Metric,
    path: Vec<String>,
    vector: Expr,
    options: Option<Expr>,
}

fn replace(
    pipeline: &mut Pipeline,
    plan: &mut Plan,
    sort_at: usize,
    call_at: Option<usize>,
) -> Result<bool> {
    let nodes = &mut pipeline.nodes;
    let quiet = |node: &Node| matches!(node, Node::Filter(_) | Node::Calculation { .. });
    let loop_at = nodes[..sort_at].iter().rposition(|node| !quiet(node));
    let (Some(loop_at), Some(Node::EnumerateCollection { collection, out, hint })) =
        (loop_at, loop_at.map(|at| &nodes[at]))
    else {
        return Ok(false);
    };
    let (collection, out, hint) = (*collection, *out, hint.clone());
    let Some(Node::Limit { offset, count }) = nodes.get(sort_at + 1) else { return Ok(false) };
    let limit = (offset.clone(), count.clone());
    if call_at.is_some_and(|at| at < loop_at) {
        return Ok(false);
    }
    let Some(parts) = search_parts(nodes, sort_at, call_at, out)? else { return Ok(false) };
    let Some(needed) = needed(&nodes[loop_at..sort_at], &parts.vector, out) else {
        return Ok(false);
    };
    let filters = filters(&nodes[loop_at..sort_at], out, plan);
    let known = filters.as_deref().unwrap_or_default();
    let Some((index, params)) = usable(plan, collection, &parts, &hint, (out, known))? else {
        return Ok(false);
    };
    let filters = filters?;
    let conditions = conditions(&nodes[loop_at..sort_at]);
    let covered = !filters.is_empty() && covers(&index, out, &filters);
    let similarity = match call_at.map(|at| &nodes[at]) {
        Some(Node::Calculation { out, .. }) => *out,
        _ => {
            plan.variables.push("similarity".to_owned());
            plan.variables.len() - 1
        }
    };
    let call_at = call_at.map(|at| at - loop_at - 1);
    let inside = nodes.drain(loop_at..=sort_at).skip(1);
    let (first, mut inside) = hoisted(inside, &needed, call_at);
    inside.retain(|node| match node {
        Node::Calculation { out, .. } => {
            !conditions.contains(out) || is_used(*out, &nodes[loop_at..])
        }
        _ => true,
    });
    let near = NearVector {
        collection,
        index,
        params,
        out,
        similarity,
        vector: parts.vector,
        options: parts.options,
        filters,
        covered,
        attributes: None,
        limit,
    };
    let mut replacement = first;
    replacement.push(Node::EnumerateNearVector(Box::new(near)));
    replacement.extend(inside);
    nodes.splice(loop_at..loop_at, replacement);
    Ok(true)
}

/// Returns the parts of a nearness call. Returns `None` for unsuitable arguments, or if the sort
/// does not put the nearest document first.
fn search_parts(
    nodes: &[Node],
    sort_at: usize,
    call_at: Option<usize>,
    out: Register,
) -> Result<Option<SearchParts>> {
    let Node::Sort(keys) = &nodes[sort_at] else { return Err(Error::of(Code::Internal)) };
    let (key, descending) = &keys[0];
    let call = match call_at.map(|at| &nodes[at]) {
        Some(Node::Calculation { value, .. }) => value,
        _ => key,
    };
    let Expr::Data(DataCall::Near(metric), arguments) = call else {
        return Err(Error::of(Code::Internal));
    };
    if *descending != metric.is_descending() {
        return Ok(None);
    }
    let (path, vector) = match (path_of(&arguments[0], out), path_of(&arguments[1], out)) {
        (Some(path), None) => (path, &arguments[1]),
        (None, Some(path)) => (path, &arguments[0]),
        _ => return Ok(None),
    };
    if !vector.is_pure() || vector.registers().contains(&out) {
        return Ok(None);
    }
    let options = arguments.get(2);
    if options.is_some_and(|options| !options.is_free()) {
        return Err(not_applied("the options have to be known at compile time"));
    }
    Ok(Some(SearchParts {
        metric: *metric,
        path: path.into_iter().map(str::to_owned).collect(),
        vector: vector.clone(),
        options: options.cloned(),
    }))
}

/// Returns a vector index for the metric and the attribute, preferably an index whose stored values
/// include all filtered attributes. Returns `None` without a suitable vector index, or error 1577
/// if a forced hint names only other indexes.
fn usable(
    plan: &Plan,
    collection: usize,
    parts: &SearchParts,
    hint: &Hint,
    (out, filters): (Register, &[Expr]),
) -> Result<Option<(Arc<Index>, VectorParams)>> {
    let path: Vec<&str> = parts.path.iter().map(String::as_str).collect();
    let fits = |index: &Arc<Index>| match &index.kind {
        IndexKind::Vector(params) if params.metric == parts.metric && !hint.disable => {
            is_field(&path, index.fields.first()?).then(|| (Arc::clone(index), params.clone()))
        }
        _ => None,
    };
    let all: Vec<_> =
        plan.collections[collection].collection.indexes.iter().filter_map(fits).collect();
    let heard = plan.release.vector_hints();
    let hinted = all.iter().find(|(index, _)| heard && hint.names.contains(&index.name));
    if heard && hint.force && hinted.is_none() {
        let message = format!("could not use index hint to serve query; {:?}", hint.names);
        return Err(Error::new(Code::QueryForcedIndexHintUnusable, message));
    }
    let prefers = plan.release.untrained_vectors() && !filters.is_empty();
    let covering = all.iter().find(|(index, _)| prefers && covers(index, out, filters));
    Ok(hinted.or(covering).or(all.first()).cloned())
}

/// Whether the stored values of an index include all attributes that the filters use.
fn covers(index: &Index, out: Register, filters: &[Expr]) -> bool {
    let stored = index.definition.attribute("storedValues");
    let stored: Vec<&str> =
        stored.as_array().unwrap_or_default().iter().filter_map(Value::as_str).collect();
    let mut covered = !stored.is_empty();
    for filter in filters {
        // The walk visits `a.b.c` before `a.b`; the counter `below` is the number of inner parts of
        // a checked path that the walk still has to skip.
        let mut below = 0;
        filter.walk(&mut |e| {
            if below > 0 {
                below -= 1;
            } else if let Some(path) = path_of(e, out) {
                below = path.len();
                covered &= stored.contains(&path.join(".").as_str());
            } else if matches!(e, Expr::Register(register) if *register == out) {
                covered = false;
            }
        });
    }
    covered
}

/// Returns the conditions of the loop's filters. A condition that is a `LET` variable is replaced
/// by the variable's expression. Returns error 1554 for a condition that depends on anything except
/// bind parameters and the loop's document.
fn filters(nodes: &[Node], out: Register, plan: &Plan) -> Result<Vec<Expr>> {
    let mut filters = Vec::new();
    for node in nodes {
        let Node::Filter(condition) = node else { continue };
        let condition = computed(nodes, condition);
        let own = |register: &Register| *register == out || plan.variables[*register] == CURRENT;
        if !condition.is_pure() || !condition.registers().iter().all(own) {
            return Err(not_applied("FILTER may use only the loop's variable and bind parameters"));
        }
        filters.push(condition.clone());
    }
    Ok(filters)
}

/// Returns a condition's expression; for a `LET` variable, returns the expression that defines the
/// variable.
fn computed<'a>(nodes: &'a [Node], condition: &'a Expr) -> &'a Expr {
    let Expr::Register(register) = condition else { return condition };
    let value = nodes.iter().find_map(|node| match node {
        Node::Calculation { value, out } if out == register => Some(value),
        _ => None,
    });
    value.map_or(condition, |value| computed(nodes, value))
}

/// Returns the variables that filters use directly as conditions.
fn conditions(nodes: &[Node]) -> Vec<Register> {
    let condition = |node: &Node| match node {
        Node::Filter(Expr::Register(register)) => Some(*register),
        _ => None,
    };
    nodes.iter().filter_map(condition).collect()
}

/// Whether any of the nodes may read a variable. A node is assumed to read every variable unless it
/// is a filter, calculation, sort, limit, return or vector search.
fn is_used(variable: Register, behind: &[Node]) -> bool {
    behind.iter().any(|node| {
        let looks = |e: &&Expr| !e.subqueries().is_empty() || e.registers().contains(&variable);
        !is_plain(node) || node.expressions().iter().any(looks)
    })
}

/// Whether a node is a filter, calculation, sort, limit, return or vector search. All other nodes
/// may need whole documents.
fn is_plain(node: &Node) -> bool {
    matches!(
        node,
        Node::Filter(_)
            | Node::Calculation { .. }
            | Node::Sort(_)
            | Node::Limit { .. }
            | Node::Return { .. }
            | Node::EnumerateNearVector(_)
    )
}

/// Returns the registers from which the query vector is computed, or `None` if the query vector
/// cannot be computed before the loop.
fn needed(nodes: &[Node], vector: &Expr, out: Register) -> Option<Vec<Register>> {
    let mut needed = vector.registers();
    for node in nodes.iter().rev() {
        match node {
            Node::Calculation { value, out: made } if needed.contains(made) => {
                if !value.is_pure() {
                    return None;
                }
                needed.extend(value.registers());
            }
            _ => {}
        }
    }
    (!needed.contains(&out)).then_some(needed)
}

/// Splits the loop's calculations into those of the query vector, which move before the loop, and
/// all others, which stay after it. Omits the nearness call and the filters, because the vector
/// search replaces them.
fn hoisted(
    nodes: impl Iterator<Item = Node>,
    needed: &[Register],
    call_at: Option<usize>,
) -> (Vec<Node>, Vec<Node>) {
    let others = nodes.enumerate().filter(|(at, _)| Some(*at) != call_at).map(|(_, node)| node);
    others
        .filter(|node| matches!(node, Node::Calculation { .. }))
        .partition(|node| matches!(node, Node::Calculation { out, .. } if needed.contains(out)))
}
