//! Replaces a loop over a collection by an index lookup if the index can answer the loop's filters.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::use_index_for_sort::{following_sort, order_of};
use super::{is_field, path_of};
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Register};
use crate::plan::node::{Hint, Lookup, Node, Pipeline, Plan};
use crate::schema::{Collection, Index, IndexKind};
use crate::syntax::Binary;
use crate::value::Value;

/// Weights for choosing an index; the index lookup with the largest sum of weights is used.
const PRIMARY: u32 = 1000;
const UNIQUE: u32 = 500;
const EQUALITY: u32 = 20;
const LIST: u32 = 14;
const RANGE: u32 = 8;
const SORTED: u32 = 5;

/// A filter of the form `variable.path operator value`.
struct Condition<'a> {
    at: usize,
    path: Vec<&'a str>,
    operator: Binary,
    value: &'a Expr,
}

/// A possible index lookup, the filters that it replaces, and its weight.
struct Candidate {
    lookup: Lookup,
    answered: BTreeSet<usize>,
    worth: u32,
    /// Slots of bind parameters that must not be null, because the index omits documents with null
    /// values.
    never_null: Vec<usize>,
}

/// Applies the rule to all loops of a pipeline. Returns whether the rule replaced a loop, or error
/// 1577 if a forced index hint cannot be followed.
pub(super) fn apply(pipeline: &mut Pipeline, plan: &mut Plan) -> Result<bool> {
    let mut changed = false;
    for at in 0..pipeline.nodes.len() {
        let Some(Node::EnumerateCollection { collection, out, hint }) = pipeline.nodes.get(at)
        else {
            continue;
        };
        let (number, out, hint) = (*collection, *out, hint.clone());
        let known = &plan.bind_was_null;
        let found =
            best(&pipeline.nodes, at, &plan.collections[number].collection, out, &hint, known);
        if hint.force && found.is_none() {
            let message = format!("could not use index hint to serve query; {:?}", hint.names);
            return Err(Error::new(Code::QueryForcedIndexHintUnusable, message));
        }
        let Some(candidate) = found else { continue };
        plan.never_null.extend(candidate.never_null);
        pipeline.nodes[at] =
            Node::Index { collection: number, out, lookup: Box::new(candidate.lookup) };
        for filter in candidate.answered.into_iter().rev() {
            pipeline.nodes.remove(filter);
        }
        changed = true;
    }
    Ok(changed)
}

fn best(
    nodes: &[Node],
    at: usize,
    collection: &Collection,
    out: Register,
    hint: &Hint,
    bind_was_null: &[bool],
) -> Option<Candidate> {
    if hint.disable {
        return None;
    }
    let conditions = conditions(nodes, at, out);
    let sort = following_sort(nodes, at);
    let named = |index: &Index| hint.names.contains(&index.name);
    let mut candidates: Vec<Candidate> = collection
        .indexes
        .iter()
        .flat_map(|index| candidates_of(index, &conditions, bind_was_null))
        .collect();
    for candidate in &mut candidates {
        if sort.is_some_and(|sort| order_of(&candidate.lookup, out, sort).is_some()) {
            candidate.worth += SORTED;
        }
    }
    if hint.force || candidates.iter().any(|c| named(&c.lookup.index)) {
        candidates.retain(|c| named(&c.lookup.index));
    }
    // Of several index lookups with equal weight, the first is used.
    candidates.into_iter().rev().max_by_key(|c| c.worth)
}

/// Returns the filters directly after a loop that compare an attribute of the loop's variable with
/// a value known before the loop.
fn conditions(nodes: &[Node], at: usize, out: Register) -> Vec<Condition<'_>> {
    let mut found = Vec::new();
    for (at, node) in nodes.iter().enumerate().skip(at + 1) {
        let Node::Filter(condition) = node else { break };
        let Expr::Binary(operator, a, b) = condition else { continue };
        if let (Some(path), true) = (path_of(a, out), known(b, out)) {
            found.push(Condition { at, path, operator: *operator, value: b });
        } else if let (Some(path), true, Some(operator)) =
            (path_of(b, out), known(a, out), flipped(*operator))
        {
            found.push(Condition { at, path, operator, value: a });
        }
    }
    found
}

fn known(value: &Expr, out: Register) -> bool {
    value.is_pure() && !value.registers().contains(&out)
}

fn flipped(operator: Binary) -> Option<Binary> {
    Some(match operator {
        Binary::Equal | Binary::NotEqual => operator,
        Binary::Less => Binary::Greater,
        Binary::LessEqual => Binary::GreaterEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterEqual => Binary::LessEqual,
        _ => return None,
    })
}

fn candidates_of(
    index: &Arc<Index>,
    conditions: &[Condition<'_>],
    bind_was_null: &[bool],
) -> Vec<Candidate> {
    let named = |name: &str| vec![vec![name.to_owned()]];
    match &index.kind {
        IndexKind::Primary => {
            let by_key = candidate(index, &named("_key"), conditions, 0, false, PRIMARY);
            let by_id = candidate(index, &named("_id"), conditions, 0, true, PRIMARY)
                .filter(|c| c.lookup.lower.is_none() && c.lookup.upper.is_none());
            by_key.into_iter().chain(by_id).collect()
        }
        IndexKind::Edge => ["_from", "_to"]
            .iter()
            .enumerate()
            .filter_map(|(field, name)| candidate(index, &named(name), conditions, field, false, 0))
            .filter(|c| c.lookup.lower.is_none() && c.lookup.upper.is_none())
            .collect(),
        IndexKind::Persistent | IndexKind::Ttl => {
            let sparse = index.sparse || index.kind == IndexKind::Ttl;
            let expanded = index.fields.iter().flatten().any(|part| part.contains("[*]"));
            if expanded
                || (sparse
                    && !index
                        .fields
                        .iter()
                        .all(|field| never_null(field, conditions, bind_was_null)))
            {
                return Vec::new();
            }
            let unique = if index.unique { UNIQUE } else { 0 };
            let slots = conditions.iter().filter_map(|c| match c.value {
                Expr::Bind(slot) if sparse => Some(*slot),
                _ => None,
            });
            let found = candidate(index, &index.fields, conditions, 0, false, unique);
            found
                .map(|found| Candidate { never_null: slots.collect(), ..found })
                .into_iter()
                .collect()
        }
        IndexKind::Vector(_) | IndexKind::DefinitionOnly(_) => Vec::new(),
    }
}

/// Whether the filters exclude null for a field, because they compare it with suitable constants or
/// with bind parameters that are not null.
fn never_null(field: &[String], conditions: &[Condition<'_>], bind_was_null: &[bool]) -> bool {
    conditions.iter().filter(|c| is_field(&c.path, field)).any(|c| {
        let value = match c.value {
            Expr::Const(value) => value,
            Expr::Bind(slot) if bind_was_null.get(*slot) == Some(&false) => {
                return matches!(
                    c.operator,
                    Binary::Equal | Binary::Greater | Binary::GreaterEqual
                );
            }
            _ => return false,
        };
        match c.operator {
            Binary::NotEqual => value.is_null(),
            Binary::Greater => true,
            Binary::Equal | Binary::GreaterEqual => !value.is_null(),
            Binary::In => value.as_array().is_some_and(|items| !items.iter().any(Value::is_null)),
            _ => false,
        }
    })
}

/// Builds an index lookup from the filters: equalities for the index's first fields, then a list or
/// range for the next field. The lookup's weight increases by `whole` if all index fields have
/// equalities, or by half of `whole` if the last field has a list.
fn candidate(
    index: &Arc<Index>,
    fields: &[Vec<String>],
    conditions: &[Condition<'_>],
    field: usize,
    by_id: bool,
    whole: u32,
) -> Option<Candidate> {
    let mut lookup = Lookup {
        index: Arc::clone(index),
        field,
        by_id,
        equals: Vec::new(),
        one_of: None,
        lower: None,
        upper: None,
        backwards: false,
    };
    let mut answered = BTreeSet::new();
    let mut worth = 0;
    for name in fields {
        let here = || conditions.iter().filter(|c| is_field(&c.path, name));
        if let Some(equal) = here().find(|c| c.operator == Binary::Equal) {
            lookup.equals.push(equal.value.clone());
            answered.insert(equal.at);
            worth += EQUALITY;
            continue;
        }
        if let Some(list) = here().find(|c| c.operator == Binary::In) {
            lookup.one_of = Some(list.value.clone());
            answered.insert(list.at);
            worth += LIST;
            break;
        }
        for condition in here() {
            let (bound, open) = match condition.operator {
                Binary::Greater | Binary::GreaterEqual => {
                    (&mut lookup.lower, condition.operator == Binary::Greater)
                }
                Binary::Less | Binary::LessEqual => {
                    (&mut lookup.upper, condition.operator == Binary::Less)
                }
                _ => continue,
            };
            if bound.is_none() {
                *bound = Some((condition.value.clone(), !open));
                answered.insert(condition.at);
                worth += RANGE;
            }
        }
        break;
    }
    if lookup.equals.len() == fields.len() {
        worth += whole;
    } else if lookup.one_of.is_some() && lookup.equals.len() + 1 == fields.len() {
        // For a unique index, the caller passes a larger `whole`, because the index contains at
        // most one document for each list item.
        worth += whole / 2;
    }
    (worth > 0).then_some(Candidate { lookup, answered, worth, never_null: Vec::new() })
}
