//! AQL functions over lists. A result of distinct values usually has the order of first occurrence.

use std::collections::BTreeMap;

use super::Call;
use super::string::count;
use super::table::{Function, MANY, pure};
use crate::error::{Code, Error, Result};
use crate::value::{Ordered, Value, compare, equal};

/// The AQL functions that this file implements.
pub(super) const TABLE: &[Function] = &[
    pure("APPEND", 2, 3, append, "concatenates lists"),
    pure("PUSH", 2, 3, push, "the list with a value added at the end"),
    pure("UNSHIFT", 2, 3, unshift, "the list with a value added at the start"),
    pure("POP", 1, 1, |c, a| cut(c, a, false), "without the last item"),
    pure("SHIFT", 1, 1, |c, a| cut(c, a, true), "without the first item"),
    pure("SLICE", 2, 3, slice, "part of a list"),
    pure("FIRST", 1, 1, |c, a| pick(c, a, 0), "the first item"),
    pure("LAST", 1, 1, |c, a| pick(c, a, -1), "the last item"),
    pure("NTH", 2, 2, nth, "the item at a position"),
    pure("LENGTH", 1, 1, |_, a| Ok(length(&a[0])), "number of items, attributes or characters"),
    pure("COUNT", 1, 1, |_, a| Ok(length(&a[0])), "number of items, attributes or characters"),
    pure("REVERSE", 1, 1, reverse, "the other way round"),
    pure("SORTED", 1, 1, sorted, "in order"),
    pure("SORTED_UNIQUE", 1, 1, sorted_unique, "the items in ascending order, each value once"),
    pure("UNIQUE", 1, 1, |c, a| lists(c, a, |l| unique(l[0])), "each value once"),
    pure("COUNT_DISTINCT", 1, 1, count_distinct, "number of different values"),
    pure("COUNT_UNIQUE", 1, 1, count_distinct, "number of different values"),
    pure("UNION", 2, MANY, |c, a| lists(c, a, |l| l.concat()), "all lists in one"),
    pure(
        "UNION_DISTINCT",
        2,
        MANY,
        |c, a| lists(c, a, |l| unique(&l.concat())),
        "the items of all lists, each value once",
    ),
    pure("INTERSECTION", 2, MANY, |c, a| lists(c, a, intersection), "values of all lists"),
    pure(
        "OUTERSECTION",
        2,
        MANY,
        |c, a| lists(c, a, |l| occurring(l, |n, _| n + 1, 1)),
        "values that occur in only one of the lists",
    ),
    pure(
        "MINUS",
        2,
        MANY,
        |c, a| lists(c, a, minus),
        "values of the first list that are in no other list",
    ),
    pure("FLATTEN", 1, 2, flatten, "with inner lists dissolved"),
    pure("POSITION", 2, 3, find, "whether a list contains a value, or at which position"),
    pure("CONTAINS_ARRAY", 2, 3, find, "whether a list contains a value, or at which position"),
    pure("REMOVE_VALUE", 2, 3, remove_value, "without a value"),
    pure("REMOVE_VALUES", 2, 2, remove_values, "without some values"),
    pure("REMOVE_NTH", 2, 2, remove_nth, "the list without the item at a position"),
    pure("REPLACE_NTH", 3, 4, replace_nth, "the list with the item at a position replaced"),
    pure(
        "INTERLEAVE",
        2,
        MANY,
        |c, a| lists(c, a, interleave),
        "an item of each list in turn, repeatedly",
    ),
    pure("JACCARD", 2, 2, jaccard, "size of the intersection over size of the union"),
    pure("RANGE", 2, 3, range, "numbers from a start to a stop"),
];

/// Maximum number of items that RANGE or `..` may produce.
pub(super) const RANGE_ITEMS_MAX: f64 = 2_000_000.0;
/// Maximum number of items of all lists of one call together.
const ITEMS_MAX: usize = 2 * RANGE_ITEMS_MAX as usize;
/// Maximum number of items for which a linear search is faster than an ordered set.
const FEW: usize = 16;
/// Maximum number of items to which REPLACE_NTH may extend a list.
const FILL_ITEMS_MAX: usize = 1_000_000;

/// Returns each value once, in the order of first occurrence.
pub(super) fn unique(items: &[Value]) -> Vec<Value> {
    let mut seen = std::collections::BTreeSet::new();
    items.iter().filter(|v| seen.insert(Ordered((*v).clone()))).cloned().collect()
}

/// Calls `run` with the arguments, which must all be lists.
fn lists(call: &mut Call<'_>, a: &[Value], run: fn(&[&[Value]]) -> Vec<Value>) -> Result<Value> {
    let lists: Option<Vec<&[Value]>> = a.iter().map(Value::as_array).collect();
    match lists {
        Some(lists) if lists.iter().map(|l| l.len()).sum::<usize>() > ITEMS_MAX => {
            Err(Error::of(Code::ResourceLimit))
        }
        Some(lists) => Ok(Value::array(run(&lists))),
        None if matches!(call.name, "UNION" | "UNION_DISTINCT" | "MINUS") => call.mistyped(),
        None => call.no_list(),
    }
}

/// Evaluates APPEND; returns the first argument unchanged if there is nothing to append.
fn append(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let once = a.get(2).is_some_and(Value::is_true);
    let (list, more) = (&a[0], &a[1]);
    let nothing = match more {
        Value::Null => list.is_null() || list.as_array().is_some(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if nothing && (!once || list.is_null() && !more.is_null()) {
        return Ok(list.clone());
    }
    let Some(mut out) = list_or_null(list) else { return call.mistyped() };
    match more {
        Value::Null => {}
        Value::Array(items) => out.extend_from_slice(items),
        one => out.push(one.clone()),
    }
    Ok(Value::array(if once { unique(&out) } else { out }))
}

fn push(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(mut out) = list_or_null(&a[0]) else { return call.mistyped() };
    let once = a.get(2).is_some_and(Value::is_true);
    if !once || !out.contains(&a[1]) {
        out.push(a[1].clone());
    }
    Ok(Value::array(out))
}

fn unshift(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(mut out) = list_or_null(&a[0]) else { return call.mistyped() };
    let once = a.get(2).is_some_and(Value::is_true);
    if !once || !out.contains(&a[1]) {
        out.insert(0, a[1].clone());
    }
    Ok(Value::array(out))
}

fn list_or_null(value: &Value) -> Option<Vec<Value>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => Some(items.to_vec()),
        _ => None,
    }
}

fn cut(call: &mut Call<'_>, a: &[Value], front: bool) -> Result<Value> {
    let Some(items) = a[0].as_array() else {
        return if a[0].is_null() { Ok(Value::Null) } else { call.mistyped() };
    };
    Ok(Value::array(match items {
        [] => Vec::new(),
        [_, rest @ ..] if front => rest.to_vec(),
        [rest @ .., _] => rest.to_vec(),
    }))
}

fn slice(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.mistyped() };
    let length = items.len() as i64;
    let from_end = |n: i64| if n < 0 { (length + n).max(0) } else { n.min(length) };
    let start = from_end(a[1].to_i64());
    let end = match a.get(2).filter(|v| !v.is_null()).map(Value::to_i64) {
        Some(take) if take < 0 => from_end(take),
        Some(take) => start.saturating_add(take).min(length),
        None => length,
    };
    Ok(Value::array(
        items.get(start as usize..end.max(start) as usize).unwrap_or_default().to_vec(),
    ))
}

/// The item at a position; a negative position counts from the end of the list. Null for a position
/// outside the list.
pub(super) fn item(items: &[Value], at: i64) -> Value {
    let at = if at < 0 { at + items.len() as i64 } else { at };
    usize::try_from(at).ok().and_then(|at| items.get(at)).cloned().unwrap_or_default()
}

fn pick(call: &mut Call<'_>, a: &[Value], at: i64) -> Result<Value> {
    match &a[0] {
        Value::Array(items) => Ok(item(items, at)),
        _ => call.no_list(),
    }
}

fn nth(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.no_list() };
    let at = a[1].to_i64();
    Ok(if at < 0 { Value::Null } else { item(items, at) })
}

/// Evaluates `LENGTH` for a value of any type.
pub(super) fn length(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(false) => Value::Int(0),
        Value::Bool(true) => Value::Int(1),
        Value::Array(items) => count(items.len()),
        Value::Object(object) => count(object.len()),
        other => count(other.to_text().chars().count()),
    }
}

fn reverse(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match &a[0] {
        Value::Array(items) => Ok(Value::array(items.iter().rev().cloned().collect())),
        Value::String(s) => Ok(s.chars().rev().collect::<String>().into()),
        _ => call.no_list(),
    }
}

fn sorted(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.no_list() };
    let mut out = items.to_vec();
    out.sort_by(compare);
    Ok(Value::array(out))
}

fn sorted_unique(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.no_list() };
    let mut out = items.to_vec();
    out.sort_by(compare);
    out.dedup();
    Ok(Value::array(out))
}

fn count_distinct(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match a[0].as_array() {
        Some(items) => Ok(count(unique(items).len())),
        None => call.no_list(),
    }
}

/// Returns the distinct values in the lists, but only those values whose counter equals `wanted`.
/// For each occurrence, `seen` computes the new counter from the old one and the list's number. The
/// order is ArangoDB's: the reverse of the order of first occurrences.
fn occurring(lists: &[&[Value]], seen: fn(usize, usize) -> usize, wanted: usize) -> Vec<Value> {
    let mut found: BTreeMap<Ordered, (usize, usize)> = BTreeMap::new();
    for (number, list) in lists.iter().enumerate() {
        for value in *list {
            let place = found.len();
            let entry = found.entry(Ordered(value.clone())).or_insert((place, 0));
            entry.1 = seen(entry.1, number);
        }
    }
    let mut kept: Vec<(usize, Value)> = found
        .into_iter()
        .filter(|(_, (_, n))| *n == wanted)
        .map(|(value, (place, _))| (place, value.0))
        .collect();
    kept.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    kept.into_iter().map(|(_, value)| value).collect()
}

/// Counter for [`occurring`]: the number of leading lists that all contain the value.
fn in_a_row(before: usize, list: usize) -> usize {
    if before >= list { list + 1 } else { before }
}

fn intersection(lists: &[&[Value]]) -> Vec<Value> {
    let (first, others) = lists.split_at(1);
    if others.iter().any(|list| list.len() > FEW) {
        return occurring(lists, in_a_row, lists.len());
    }
    let mut kept: Vec<Value> = Vec::new();
    for value in first.iter().copied().flatten() {
        let holds = |list: &[Value]| list.iter().any(|own| equal(own, value));
        if others.iter().all(|list| holds(list)) && !holds(&kept) {
            kept.push(value.clone());
        }
    }
    kept.reverse();
    kept
}

fn minus(lists: &[&[Value]]) -> Vec<Value> {
    let without: std::collections::BTreeSet<Ordered> =
        lists[1..].iter().flat_map(|l| l.iter().cloned()).map(Ordered).collect();
    let kept = unique(lists[0]);
    kept.into_iter().rev().filter(|v| !without.contains(&Ordered(v.clone()))).collect()
}

fn flatten(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.no_list() };
    let depth = a.get(1).map_or(1.0, Value::to_f64).max(1.0) as i64;
    Ok(Value::array(flat(items, depth)))
}

/// Flattens nested lists down to a depth.
pub(crate) fn flat(items: &[Value], depth: i64) -> Vec<Value> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Value::Array(inner) if depth > 0 => out.extend(flat(inner, depth - 1)),
            other => out.push(other.clone()),
        }
    }
    out
}

fn find(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.no_list() };
    let at = items.iter().position(|v| *v == a[1]);
    if a.get(2).is_some_and(Value::is_true) {
        return Ok(at.map_or(Value::Int(-1), count));
    }
    Ok(Value::Bool(at.is_some()))
}

fn remove_value(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(mut items) = list_or_null(&a[0]) else { return call.mistyped() };
    let mut left = a.get(2).filter(|v| !v.is_null()).map_or(i64::MAX, Value::to_i64);
    items.retain(|v| {
        let gone = left > 0 && *v == a[1];
        left -= i64::from(gone);
        !gone
    });
    Ok(Value::array(items))
}

fn remove_values(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    if a[1].is_null() {
        return Ok(a[0].clone());
    }
    let (Some(mut items), Some(without)) = (list_or_null(&a[0]), a[1].as_array()) else {
        return if a[0].is_null() { Ok(Value::array(Vec::new())) } else { call.mistyped() };
    };
    let without: std::collections::BTreeSet<Ordered> =
        without.iter().cloned().map(Ordered).collect();
    items.retain(|v| !without.contains(&Ordered(v.clone())));
    Ok(Value::array(items))
}

fn remove_nth(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(mut items) = list_or_null(&a[0]) else { return call.mistyped() };
    let (at, length) = (a[1].to_f64(), items.len() as f64);
    if (-length..length).contains(&at) {
        items.remove((if at < 0.0 { at + length } else { at }) as usize);
    }
    Ok(Value::array(items))
}

fn replace_nth(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(items) = a[0].as_array() else { return call.mistyped() };
    if a[1].is_null() {
        return Err(call.fails());
    }
    let at = a[1].to_i64();
    let at = if at < 0 { (at + items.len() as i64).max(0) } else { at };
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    if at > items.len() && a.len() < 4 {
        return Err(call.fails());
    }
    if at > items.len().max(FILL_ITEMS_MAX) {
        return Err(Error::of(Code::ResourceLimit));
    }
    let mut items = items.to_vec();
    while items.len() <= at {
        items.push(a.get(3).cloned().unwrap_or_default());
    }
    items[at] = a[2].clone();
    Ok(Value::array(items))
}

fn interleave(lists: &[&[Value]]) -> Vec<Value> {
    let longest = lists.iter().map(|l| l.len()).max().unwrap_or(0);
    (0..longest).flat_map(|at| lists.iter().filter_map(move |l| l.get(at).cloned())).collect()
}

fn jaccard(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let (Some(left), Some(right)) = (a[0].as_array(), a[1].as_array()) else {
        return call.no_list();
    };
    let both = intersection(&[left, right]).len();
    let any = unique(&[left, right].concat()).len();
    if any == 0 {
        return Ok(Value::Int(1));
    }
    super::call::number(both as f64 / any as f64)
}

fn range(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(step) = a.get(2).filter(|v| !v.is_null()).map(Value::to_f64) else {
        let (from, to) = (a[0].to_i64(), a[1].to_i64());
        if to.abs_diff(from) as f64 >= RANGE_ITEMS_MAX {
            return Err(Error::new(Code::ResourceLimit, "range too large"));
        }
        let line = from.min(to)..=from.max(to);
        return Ok(Value::array(if from <= to {
            line.map(Value::Int).collect()
        } else {
            line.rev().map(Value::Int).collect()
        }));
    };
    let (mut at, to) = (a[0].to_f64(), a[1].to_f64());
    if step == 0.0 || (to - at) * step < 0.0 {
        return call.mistyped();
    }
    if (to - at) / step >= RANGE_ITEMS_MAX {
        return Err(Error::new(Code::ResourceLimit, "range too large"));
    }
    let mut out = Vec::new();
    // Repeated addition, in contrast to multiplication, gives the same last digits as ArangoDB.
    while if step < 0.0 { at >= to } else { at <= to } {
        out.push(Value::finite(at).unwrap_or_default());
        at += step;
    }
    Ok(Value::array(out))
}
