//! Derives the schema that a model is offered from the schema of a tool's arguments.
//!
//! A model reads the tools on every turn, so a compact schema contains only the arguments that
//! carry the mark `x-model`, and the words that the mark gives. All other arguments keep their
//! defaults; the server accepts them from every caller.

use serde_json::{Map, Value, json};

/// Name of the schema keyword that marks an argument for models; the keyword's value is the
/// description that a model reads, or an empty text if the argument's name is enough.
const MARK: &str = "x-model";

/// Removes the marks from a schema.
pub(super) fn unmark(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove(MARK);
            map.values_mut().for_each(unmark);
        }
        Value::Array(items) => items.iter_mut().for_each(unmark),
        _ => {}
    }
}

/// Returns the compact form of a schema with marks. Of several alternatives, the form contains the
/// first one, which is the simplest. It contains no defaults, no lower bounds and no `null`,
/// because a model omits an argument that it does not need.
pub(super) fn compact(schema: &Value) -> Value {
    let mut short = Map::new();
    let Some(schema) = simplest(schema) else { return Value::Object(short) };
    if let Some(words) = words_of(schema) {
        short.insert("type".into(), "string".into());
        short.insert("enum".into(), words.into());
        return Value::Object(short);
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").cloned(),
        kind => Some(kind.clone()),
    };
    short.extend(kind.filter(|kind| !kind.is_null()).map(|kind| ("type".to_owned(), kind)));
    for name in ["enum", "maximum"] {
        if let Some(value) = schema.get(name) {
            short.insert(name.into(), value.clone());
        }
    }
    if let Some(items) = schema.get("items") {
        short.insert("items".into(), compact(items));
    }
    if let Some(properties) = schema["properties"].as_object() {
        let shown = properties.iter().filter_map(|(name, property)| {
            let words = property.get(MARK)?.as_str()?;
            let mut short = compact(property);
            if !words.is_empty() {
                short["description"] = words.into();
            }
            Some((name.clone(), short))
        });
        let shown: Map<String, Value> = shown.collect();
        let is_shown = |name: &&Value| name.as_str().is_some_and(|name| shown.contains_key(name));
        let required = schema["required"].as_array().into_iter().flatten();
        let required: Vec<&Value> = required.filter(is_shown).collect();
        if !required.is_empty() {
            short.insert("required".into(), json!(required));
        }
        short.insert("properties".into(), Value::Object(shown));
    }
    Value::Object(short)
}

/// Returns the first alternative of a schema that is not `null`.
fn simplest(schema: &Value) -> Option<&Value> {
    match schema["anyOf"].as_array() {
        Some(choices) => choices.iter().find(|choice| choice["type"] != "null").and_then(simplest),
        None => Some(schema),
    }
}

/// Returns the string constants of a `oneOf`; `None` if a choice is not a constant.
fn words_of(schema: &Value) -> Option<Vec<Value>> {
    let choices = schema["oneOf"].as_array()?;
    choices.iter().map(|choice| choice.get("const").cloned()).collect()
}
