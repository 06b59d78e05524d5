//! A loop that is sorted by nearness and cut reads a vector index; in any other shape nearness cannot be told (1554).

use std::sync::Arc;

use super::{is_field, path_of};
use crate::error::{Code, Error, Result};
use crate::expr::{DataCall, Expr, Register};
use crate::plan::compile::CURRENT;
use crate::plan::near::not_applied;
use crate::plan::node::{Hint, NearVector, Node, Pipeline, Plan};
use crate::schema::{Index, IndexKind, Metric, VectorParams};
use crate::value::Value;

/// Replaces loops; whether it did.
pub(super) fn apply(pipeline: &mut Pipeline, plan: &mut Plan) -> Result<bool> {
    let mut changed = false;
    while let Some((sort_at, call_at)) = sorted_by_nearness(&pipeline.nodes) {
        replace(pipeline, plan, sort_at, call_at)?;
        changed = true;
    }
    Ok(changed)
}

/// Has searches read only those attributes of their documents that the query looks at. Nothing but plain nodes may come behind:
/// whatever keeps, groups or writes rows gets whole documents.
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
        let plain = matches!(
            node,
            Node::Filter(_)
                | Node::Calculation { .. }
                | Node::Sort(_)
                | Node::Limit { .. }
                | Node::Return { .. }
                | Node::EnumerateNearVector(_)
        );
        if !plain {
            return None;
        }
        node.expressions().into_iter().for_each(&mut look);
    }
    found
}

/// 1554 for a call that no loop took over.
pub(super) fn check_none_left(plan: &Plan) -> Result<()> {
    for node in [&plan.root].into_iter().chain(&plan.subqueries).flat_map(|p| &p.nodes) {
        for expression in node.expressions() {
            let mut left = None;
            expression.walk(&mut |e| {
                if let Expr::Data(DataCall::Near(metric), _) = e {
                    left = Some(*metric);
                }
            });
            if let Some(metric) = left {
                let why = format!(
                    "{}() has to be all of the only sort key of FOR … [FILTER …] SORT … LIMIT",
                    metric.function()
                );
                return Err(not_applied(&why));
            }
        }
    }
    Ok(())
}

/// The first sort by nothing but nearness, and where its call is computed if not in the sort itself.
fn sorted_by_nearness(nodes: &[Node]) -> Option<(usize, Option<usize>)> {
    nodes.iter().enumerate().find_map(|(sort_at, node)| {
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

/// The parts of a search, taken out of the nodes.
struct Found {
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
) -> Result<()> {
    let nodes = &mut pipeline.nodes;
    let quiet = |node: &Node| matches!(node, Node::Filter(_) | Node::Calculation { .. });
    let loop_at = nodes[..sort_at].iter().rposition(|node| !quiet(node));
    let (Some(loop_at), Some(Node::EnumerateCollection { collection, out, hint })) =
        (loop_at, loop_at.map(|at| &nodes[at]))
    else {
        return Err(not_applied("nearness can be told in a loop over a collection only"));
    };
    let (collection, out, hint) = (*collection, *out, hint.clone());
    if call_at.is_some_and(|at| at < loop_at) {
        return Err(not_applied("the call has to be in the loop that is sorted"));
    }
    let Some(Node::Limit { offset, count }) = nodes.get(sort_at + 1) else {
        return Err(not_applied("LIMIT has to follow the SORT"));
    };
    let limit = (offset.clone(), count.clone());
    let found = found(nodes, sort_at, call_at, out)?;
    let filters = filters(&nodes[loop_at..sort_at], out, plan)?;
    let (index, params) = usable(plan, collection, &found, &hint, &(out, &filters))?;
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
    let (first, inside) = hoisted(inside, &found.vector, call_at, out)?;
    let near = NearVector {
        collection,
        index,
        params,
        out,
        similarity,
        vector: found.vector,
        options: found.options,
        filters,
        covered,
        attributes: None,
        limit,
    };
    let mut replacement = first;
    replacement.push(Node::EnumerateNearVector(Box::new(near)));
    replacement.extend(inside);
    // What loops before it brings more than one set of nearest ones together.
    if nodes[..loop_at].iter().any(|node| !quiet(node)) {
        let descending = found.metric.is_descending();
        replacement.push(Node::Sort(vec![(Expr::Register(similarity), descending)]));
    }
    nodes.splice(loop_at..loop_at, replacement);
    Ok(())
}

/// What the call asks for; 1554 for a direction that does not bring the nearest first, or arguments of another form.
fn found(nodes: &[Node], sort_at: usize, call_at: Option<usize>, out: Register) -> Result<Found> {
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
        let direction = if metric.is_descending() { "DESC" } else { "ASC" };
        return Err(not_applied(&format!("{}() is sorted {direction}", metric.function())));
    }
    let (path, vector) = match (path_of(&arguments[0], out), path_of(&arguments[1], out)) {
        (Some(path), None) => (path, &arguments[1]),
        (None, Some(path)) => (path, &arguments[0]),
        _ => return Err(not_applied("one argument has to be an attribute of the loop's variable")),
    };
    if !vector.is_pure() || vector.registers().contains(&out) {
        return Err(not_applied("the vector has to be known before the loop"));
    }
    let options = arguments.get(2);
    if options.is_some_and(|options| !options.is_free()) {
        return Err(not_applied("the options have to be known at compile time"));
    }
    Ok(Found {
        metric: *metric,
        path: path.into_iter().map(str::to_owned).collect(),
        vector: vector.clone(),
        options: options.cloned(),
    })
}

/// The index for the metric and the attribute, one whose stored values cover the conditions before others; 1554 if there is
/// none, 1577 if a forced hint names another one.
fn usable(
    plan: &Plan,
    collection: usize,
    found: &Found,
    hint: &Hint,
    (out, filters): &(Register, &Vec<Expr>),
) -> Result<(Arc<Index>, VectorParams)> {
    let path: Vec<&str> = found.path.iter().map(String::as_str).collect();
    let fits = |index: &Arc<Index>| match &index.kind {
        IndexKind::Vector(params) if params.metric == found.metric && !hint.disable => {
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
    let covering = all.iter().find(|(index, _)| prefers && covers(index, *out, filters));
    hinted.or(covering).or(all.first()).cloned().ok_or_else(|| {
        let (metric, path) = (found.metric.name(), path.join("."));
        not_applied(&format!("there is no vector index with metric {metric} on '{path}'"))
    })
}

/// Whether all that the conditions ask of the document is among the stored values of an index.
fn covers(index: &Index, out: Register, filters: &[Expr]) -> bool {
    let stored = index.definition.attribute("storedValues");
    let stored: Vec<&str> =
        stored.as_array().unwrap_or_default().iter().filter_map(Value::as_str).collect();
    let mut covered = !stored.is_empty();
    for filter in filters {
        // Each path is visited from its end; what it stands on comes next and is no path of its own.
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

/// The conditions of the loop; 1554 for one that needs more than the document.
fn filters(nodes: &[Node], out: Register, plan: &Plan) -> Result<Vec<Expr>> {
    let mut filters = Vec::new();
    for node in nodes {
        let Node::Filter(condition) = node else { continue };
        let own = |register: &Register| *register == out || plan.variables[*register] == CURRENT;
        if !condition.is_pure() || !condition.registers().iter().all(own) {
            return Err(not_applied("FILTER may use nothing but the loop's variable and binds"));
        }
        filters.push(condition.clone());
    }
    Ok(filters)
}

/// Calculations that the vector needs go before the loop, the others stay behind it; the call itself and the filters
/// are gone. 1554 if the vector needs something that is not known before the loop.
fn hoisted(
    nodes: impl Iterator<Item = Node>,
    vector: &Expr,
    call_at: Option<usize>,
    out: Register,
) -> Result<(Vec<Node>, Vec<Node>)> {
    let others = nodes.enumerate().filter(|(at, _)| Some(*at) != call_at).map(|(_, node)| node);
    let calculations: Vec<Node> =
        others.filter(|node| matches!(node, Node::Calculation { .. })).collect();
    let mut needed = vector.registers();
    let (mut first, mut inside) = (Vec::new(), Vec::new());
    for node in calculations.into_iter().rev() {
        match &node {
            Node::Calculation { value, out: made } if needed.contains(made) => {
                if !value.is_pure() {
                    return Err(not_applied("the vector has to be known before the loop"));
                }
                needed.extend(value.registers());
                first.push(node);
            }
            _ => inside.push(node),
        }
    }
    if needed.contains(&out) {
        return Err(not_applied("the vector has to be known before the loop"));
    }
    first.reverse();
    inside.reverse();
    Ok((first, inside))
}
