//! AQL functions over objects.

use std::sync::Arc;

use super::Call;
use super::string::count;
use super::table::{Function, MANY, pure};
use crate::error::Result;
use crate::value::{Object, Value, compare};

/// The AQL functions that this file implements.
pub(super) const TABLE: &[Function] = &[
    pure("ATTRIBUTES", 1, 3, attributes, "names of the attributes"),
    pure("KEYS", 1, 3, attributes, "names of the attributes"),
    pure("VALUES", 1, 2, values, "values of the attributes"),
    pure("ENTRIES", 1, 1, entries, "pairs of name and value"),
    pure("HAS", 2, 2, has, "whether an object has an attribute"),
    pure("KEEP", 2, MANY, |c, a| select(c, a, true, false), "only some attributes"),
    pure(
        "KEEP_RECURSIVE",
        2,
        MANY,
        |c, a| select(c, a, true, true),
        "the object with only some attributes, at every depth",
    ),
    pure("UNSET", 2, MANY, |c, a| select(c, a, false, false), "without some attributes"),
    pure(
        "UNSET_RECURSIVE",
        2,
        MANY,
        |c, a| select(c, a, false, true),
        "the object without some attributes, at every depth",
    ),
    pure("MERGE", 1, MANY, |c, a| merge(c, a, false), "objects merged into one; later values win"),
    pure(
        "MERGE_RECURSIVE",
        1,
        MANY,
        |c, a| merge(c, a, true),
        "objects merged into one, at every depth",
    ),
    pure("ZIP", 2, 2, zip, "an object of names and values"),
    pure("VALUE", 2, 2, value_at, "the value at a path"),
    pure("MATCHES", 2, 3, matches, "whether an object fulfils an example, or which example"),
    pure("TRANSLATE", 2, 3, translate, "value of the attribute with a given name"),
    pure("PARSE_IDENTIFIER", 1, 1, parse_identifier, "collection and key of an id"),
    pure("PARSE_KEY", 1, 1, parse_key, "key of an id"),
    pure("PARSE_COLLECTION", 1, 1, parse_collection, "collection of an id"),
];

fn attributes(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(object) = a[0].as_object() else { return call.mistyped() };
    let hide_system = a.get(1).is_some_and(Value::is_true);
    let mut names: Vec<Value> = object
        .iter()
        .filter(|(n, _)| !(hide_system && n.starts_with('_')))
        .map(|(n, _)| Value::String(Arc::clone(n)))
        .collect();
    if a.get(2).is_some_and(Value::is_true) {
        names.sort_by(compare);
    }
    Ok(Value::array(names))
}

fn values(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(object) = a[0].as_object() else { return call.mistyped() };
    let hide_system = a.get(1).is_some_and(Value::is_true);
    let kept = object.iter().filter(|(n, _)| !(hide_system && n.starts_with('_')));
    Ok(Value::array(kept.map(|(_, v)| v.clone()).collect()))
}

fn entries(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(object) = a[0].as_object() else { return call.mistyped() };
    let pair =
        |(n, v): (&Arc<str>, &Value)| Value::array(vec![Value::String(Arc::clone(n)), v.clone()]);
    Ok(Value::array(object.iter().map(pair).collect()))
}

fn has(_: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(object) = a[0].as_object() else { return Ok(Value::Bool(false)) };
    Ok(Value::Bool(object.get(&a[1].to_text()).is_some()))
}

fn select(call: &mut Call<'_>, a: &[Value], keep: bool, deep: bool) -> Result<Value> {
    let Some(object) = a[0].as_object() else { return call.mistyped() };
    let mut names = Vec::new();
    for argument in &a[1..] {
        match argument {
            Value::Array(items) => {
                for item in items.iter() {
                    match item {
                        Value::String(_) => names.push(item.to_text()),
                        _ => call.mistyped().map(drop)?,
                    }
                }
            }
            Value::String(_) | Value::Int(_) | Value::UInt(_) | Value::Double(_) => {
                names.push(argument.to_text());
            }
            _ => {}
        }
    }
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    Ok(Value::object(selected(object, &names, keep, deep)))
}

fn selected(object: &Object, names: &[&str], keep: bool, deep: bool) -> Object {
    let mut out = Object::with_capacity(object.len());
    for (name, value) in object.iter() {
        let named = names.contains(&&**name);
        match value {
            Value::Object(inner) if deep && named == keep => {
                out.push_new(Arc::clone(name), Value::object(selected(inner, names, keep, deep)));
            }
            other if named == keep => out.push_new(Arc::clone(name), other.clone()),
            _ => {}
        }
    }
    // In ArangoDB's recorded answers, the attributes are sorted by name.
    out.sort_by_name();
    out
}

fn merge(call: &mut Call<'_>, a: &[Value], deep: bool) -> Result<Value> {
    let items = match a {
        [Value::Array(items)] => items.as_slice(),
        _ => a,
    };
    let mut out = Object::new();
    for item in items {
        let Some(object) = item.as_object() else { return call.mistyped() };
        if out.is_empty() {
            out = object.clone();
        } else {
            merge_into(&mut out, object, deep);
        }
    }
    Ok(Value::object(out))
}

/// Merges an object into another. Existing attributes come first, sorted by name, then new
/// attributes. An attribute in both objects keeps its position.
fn merge_into(out: &mut Object, more: &Object, deep: bool) {
    out.sort_by_name();
    for (name, value) in more.iter() {
        let merged = match (out.get(name), value) {
            (Some(Value::Object(old)), Value::Object(new)) if deep => {
                let mut inner = (**old).clone();
                merge_into(&mut inner, new, deep);
                Value::object(inner)
            }
            _ => value.clone(),
        };
        out.insert(Arc::clone(name), merged);
    }
}

fn zip(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let (Some(names), Some(values)) = (a[0].as_array(), a[1].as_array()) else {
        return call.mistyped();
    };
    if names.len() != values.len() {
        return call.mistyped();
    }
    let mut out = Object::new();
    for (name, value) in names.iter().zip(values) {
        let name = name.to_text();
        if out.get(&name).is_none() {
            out.push_new(&*name, value.clone());
        }
    }
    Ok(Value::object(out))
}

fn value_at(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let (Value::Object(_), Some(path)) = (&a[0], a[1].as_array()) else { return call.mistyped() };
    if path.is_empty() {
        return Ok(Value::Null);
    }
    let mut at = a[0].clone();
    for step in path {
        at = match (&at, step) {
            (Value::Object(_), Value::String(name)) => at.attribute(name),
            (Value::Array(items), step) if step.is_number() => {
                let place = usize::try_from(step.to_i64()).ok();
                place.and_then(|place| items.get(place)).cloned().unwrap_or_default()
            }
            _ => return Ok(Value::Null),
        };
    }
    Ok(at)
}

fn matches(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Value::Object(_) = &a[0] else { return Ok(Value::Bool(false)) };
    let examples = match &a[1] {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut found = None;
    for (at, example) in examples.iter().enumerate() {
        let Some(example) = example.as_object() else {
            call.mistyped()?;
            continue;
        };
        if example.iter().all(|(name, value)| a[0].attribute(name) == *value) {
            found = Some(at);
            break;
        }
    }
    if a.get(2).is_some_and(Value::is_true) {
        return Ok(found.map_or(Value::Int(-1), count));
    }
    Ok(Value::Bool(found.is_some()))
}

fn translate(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some(map) = a[1].as_object() else { return call.mistyped() };
    let found = map.get(&a[0].to_text()).cloned();
    Ok(found.unwrap_or_else(|| a.get(2).unwrap_or(&a[0]).clone()))
}

/// Returns the collection and the key in an id, given as a text or as the `_id` of a document.
fn id_parts(value: &Value) -> Option<(String, String)> {
    let text = match value {
        Value::Object(o) => o.get("_id").and_then(Value::as_str)?.to_owned(),
        other => other.as_str()?.to_owned(),
    };
    let (collection, key) = text.split_once('/')?;
    (!key.contains('/')).then(|| (collection.to_owned(), key.to_owned()))
}

fn parse_identifier(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    let Some((collection, key)) = id_parts(&a[0]) else { return call.mistyped() };
    let mut out = Object::new();
    out.insert("collection", collection.into());
    out.insert("key", key.into());
    Ok(Value::object(out))
}

fn parse_key(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match id_parts(&a[0]) {
        Some((_, key)) => Ok(key.into()),
        None => call.mistyped(),
    }
}

fn parse_collection(call: &mut Call<'_>, a: &[Value]) -> Result<Value> {
    match id_parts(&a[0]) {
        Some((collection, _)) => Ok(collection.into()),
        None => call.mistyped(),
    }
}
