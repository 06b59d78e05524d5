//! Completes the schemas of request bodies with rules that their Rust types do not state: lengths,
//! patterns, and where a null counts as absent.
//!
//! The schemas that models see stay as they are, because each rule would take tokens in every
//! prompt.

use serde_json::{Map, Value, json};

/// The rules: `limits` by name, and for each operation or tool the limits of its attributes. The
/// bodies `chat`, `responses`, `compact`, `embeddings` and `messages` are whole schemas, because
/// the server has no types for them.
const BODIES: &str = include_str!("bodies.json");

/// The rules on request bodies.
pub(super) struct Bodies(Value);

impl Bodies {
    pub(super) fn read() -> Self {
        Self(serde_json::from_str(BODIES).expect("the rules are JSON"))
    }

    /// Returns the limit of that name, as a part of a schema.
    pub(super) fn limit(&self, name: &str) -> &Map<String, Value> {
        let limit = self.0["limits"][name].as_object();
        limit.unwrap_or_else(|| panic!("bodies.json has no limit {name}"))
    }

    /// Returns a text schema with the limit of that name.
    pub(super) fn text(&self, name: &str) -> Value {
        let mut schema = json!({"type": "string"});
        extend(&mut schema, self.limit(name));
        schema
    }

    /// Returns the schema of a body in a format of OpenAI or Anthropic, in which further fields are
    /// passed on or ignored.
    pub(super) fn of_form(&self, form: &str, further: &[&str]) -> Value {
        let mut schema = self.0[form].clone();
        for name in further {
            schema["properties"][*name] = json!({});
        }
        schema
    }

    /// Returns the body's schema with the rules for the named operation or tool.
    pub(super) fn completed(&self, operation: &str, mut schema: Value) -> Value {
        let none = Map::new();
        for (path, rule) in self.0["operations"][operation].as_object().unwrap_or(&none) {
            let rule = rule.as_str().map_or_else(
                || rule.as_object().expect("a limit, or its name"),
                |name| self.limit(name),
            );
            let mut parts = path.split('.').filter(|part| !part.is_empty());
            let place = parts.try_fold(&mut schema, below);
            extend(place.unwrap_or_else(|| panic!("{operation} has no {path}")), rule);
        }
        take_nulls(&mut schema);
        schema
    }
}

fn extend(schema: &mut Value, rule: &Map<String, Value>) {
    let schema = schema.as_object_mut().expect("a schema is an object");
    schema.extend(rule.clone());
}

/// Returns the schema of an attribute, or of a list's items, also inside of a choice.
fn below<'a>(schema: &'a mut Value, part: &str) -> Option<&'a mut Value> {
    let pointer = if part == "items" { "/items".into() } else { format!("/properties/{part}") };
    if schema.pointer(&pointer).is_some() {
        return schema.pointer_mut(&pointer);
    }
    let choices = schema.get_mut("anyOf")?.as_array_mut()?;
    choices.iter_mut().find_map(|choice| choice.pointer_mut(&pointer))
}

/// Adds null to the values of optional attributes, since a null counts as absent there. Also states
/// the largest number that the server reads.
fn take_nulls(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    for choices in ["anyOf", "oneOf"] {
        let choices = schema.get_mut(choices).and_then(Value::as_array_mut);
        choices.into_iter().flatten().for_each(take_nulls);
    }
    schema.get_mut("items").into_iter().for_each(take_nulls);
    if schema.get("format").is_some_and(|format| format == "uint64") {
        schema.entry("maximum").or_insert(u64::MAX.into());
    }
    let required = schema.get("required").cloned().unwrap_or_default();
    let required = required.as_array().map_or(&[][..], Vec::as_slice);
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        take_nulls(property);
        if !required.iter().any(|needed| needed == name) {
            or_null(property);
        }
    }
}

fn or_null(schema: &mut Value) {
    let null = json!({"type": "null"});
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(Value::String(kind)) = schema.get("type") {
        schema["type"] = json!([kind, "null"]);
        let values = schema.get_mut("enum").and_then(Value::as_array_mut);
        values.into_iter().for_each(|values| values.push(Value::Null));
    }
    for choices in ["anyOf", "oneOf"] {
        let choices = schema.get_mut(choices).and_then(Value::as_array_mut);
        for choices in choices.into_iter().filter(|choices| !choices.contains(&null)) {
            choices.push(null.clone());
        }
    }
}
