//! Converts tool schemas into strict schemas, which use only the subset of JSON Schema that a
//! provider enforces.
//!
//! OpenAI (Structured Outputs, "Supported schemas") accepts closed objects in which every property
//! is required and an optional property may be null. OpenAI accepts no `oneOf`, `allOf`, `not`,
//! `if` or defaults, and few formats. Anthropic ("Structured outputs", "JSON Schema limitations")
//! accepts closed objects, and no bounds on the values of their properties. A property's
//! description states the bounds that a strict schema cannot express, and the server always checks
//! these bounds.

use serde_json::{Map, Value, json};

/// Keywords for bounds in a schema, and the words that describe the bounds. OpenAI supports some of
/// these keywords; Anthropic supports none.
const BOUNDS: [(&str, &str); 6] = [
    ("minimum", "at least"),
    ("maximum", "at most"),
    ("minItems", "items: at least"),
    ("maxItems", "items: at most"),
    ("minLength", "characters: at least"),
    ("maxLength", "characters: at most"),
];

/// The keywords of [`BOUNDS`] that OpenAI supports ("Supported properties"). OpenAI supports no
/// bounds for the length of a string.
const OPENAI_BOUNDS: [&str; 4] = ["minimum", "maximum", "minItems", "maxItems"];

/// Keywords of JSON Schema that both OpenAI and Anthropic support.
const KEPT: [&str; 3] = ["type", "enum", "const"];

/// The provider that enforces a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Openai,
    Anthropic,
}

/// Returns the schema for OpenAI's strict mode.
pub(super) fn openai(schema: &Value) -> Value {
    written(schema, For::Openai)
}

/// Returns the schema for Anthropic's strict tools.
pub(super) fn anthropic(schema: &Value) -> Value {
    written(schema, For::Anthropic)
}

fn written(schema: &Value, whom: For) -> Value {
    let schema = plain_choice(schema);
    let mut strict = Map::new();
    let mut said: Vec<String> = Vec::new();
    said.extend(schema.get("description").and_then(Value::as_str).map(str::to_owned));
    for name in KEPT {
        if let Some(value) = schema.get(name) {
            strict.insert(name.into(), value.clone());
        }
    }
    for (name, words) in BOUNDS {
        let Some(bound) = schema.get(name) else { continue };
        match whom == For::Openai && OPENAI_BOUNDS.contains(&name) {
            true => drop(strict.insert(name.into(), bound.clone())),
            // The description does not state a lower bound of zero, because this bound is obvious.
            false if name == "minimum" && bound.as_f64() == Some(0.0) => {}
            false => said.push(format!("{words} {bound}.")),
        }
    }
    if let Some(Value::Array(choices)) = schema.get("anyOf") {
        let choices = choices.iter().map(|choice| written(choice, whom)).collect();
        strict.insert("anyOf".into(), choices);
    }
    if let Some(items) = schema.get("items") {
        strict.insert("items".into(), written(items, whom));
    }
    if may_be(&schema, "object") {
        object(&schema, whom, &mut strict);
    }
    if whom == For::Anthropic {
        drop_null(&mut strict);
    }
    if !said.is_empty() {
        strict.insert("description".into(), said.join(" ").into());
    }
    Value::Object(strict)
}

/// Removes `null` from a schema, because Anthropic's models omit optional values.
fn drop_null(schema: &mut Map<String, Value>) {
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    if let Some(kinds) = schema.get_mut("type").and_then(Value::as_array_mut) {
        kinds.retain(|kind| kind != "null");
        if let [one] = &kinds[..] {
            let one = one.clone();
            schema.insert("type".into(), one);
        }
    }
    if let Some(choices) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(one)] = &choices[..] {
            let one = one.clone();
            schema.remove("anyOf");
            schema.extend(one);
        }
    }
}

/// Writes the schema of an object that allows no unknown properties. OpenAI requires every property
/// of an object; an optional property may be null, which the server reads as absent.
fn object(schema: &Map<String, Value>, whom: For, strict: &mut Map<String, Value>) {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut written_properties = Map::new();
    for (name, property) in properties {
        let needed = required.contains(&name.as_str());
        let mut property_written = written(property, whom);
        if whom == For::Openai && !needed {
            property_written = nullable(property_written);
            if let Some(default) = property.get("default").filter(|d| tells(d)) {
                let said = property_written["description"].as_str().unwrap_or_default();
                property_written["description"] = format!("{said} Null: {default}.").trim().into();
            }
        }
        written_properties.insert(name.clone(), property_written);
    }
    let all: Vec<&String> = properties.keys().collect();
    strict.insert(
        "required".into(),
        match whom {
            For::Openai => json!(all),
            For::Anthropic => json!(required),
        },
    );
    strict.insert("properties".into(), Value::Object(written_properties));
    strict.insert("additionalProperties".into(), false.into());
}

/// Whether a property's default is a boolean, a number or a string.
fn tells(default: &Value) -> bool {
    matches!(default, Value::Bool(_) | Value::Number(_) | Value::String(_))
}

fn may_be(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(many)) => many.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Returns a property's schema, extended so that `null` is allowed.
fn nullable(mut schema: Value) -> Value {
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut)
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if let Some(choices) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        let null = json!({"type": "null"});
        if !choices.contains(&null) {
            choices.push(null);
        }
        return schema;
    }
    match schema.get("type").cloned() {
        Some(Value::String(one)) => schema["type"] = json!([one, "null"]),
        Some(Value::Array(mut many)) if !many.contains(&json!("null")) => {
            many.push("null".into());
            schema["type"] = many.into();
        }
        _ => {}
    }
    schema
}

/// Turns a `oneOf` of described string constants into one `enum` with one description. A nullable
/// `oneOf` of this form becomes an `enum` too.
fn plain_choice(schema: &Value) -> Map<String, Value> {
    let mut map = schema.as_object().cloned().unwrap_or_default();
    if let Some((words, meanings)) = map.get("oneOf").and_then(words_of) {
        map.remove("oneOf");
        described(&mut map, words, meanings, false);
    }
    let null = json!({"type": "null"});
    if let Some(Value::Array(choices)) = map.get("anyOf")
        && choices.len() == 2
        && choices[1] == null
    {
        let inner = choices[0].clone();
        let said = map.get("description").or(inner.get("description")).cloned();
        if let Some((words, meanings)) = inner.get("oneOf").and_then(words_of) {
            map.remove("anyOf");
            map.extend(said.map(|said| ("description".to_owned(), said)));
            described(&mut map, words, meanings, true);
        }
    }
    map
}

fn described(map: &mut Map<String, Value>, words: Vec<Value>, meanings: Vec<String>, null: bool) {
    let said = map.get("description").and_then(Value::as_str).unwrap_or_default();
    let meanings = meanings.join(" ");
    let said = format!("{said} {meanings}").trim().to_owned();
    let mut words = words;
    let kind = match null {
        true => {
            words.push(Value::Null);
            json!(["string", "null"])
        }
        false => json!("string"),
    };
    map.insert("type".into(), kind);
    map.insert("enum".into(), words.into());
    map.insert("description".into(), said.into());
}

/// Returns the string constants of a `oneOf` and their descriptions; `None` if a choice is not a
/// string constant.
fn words_of(choices: &Value) -> Option<(Vec<Value>, Vec<String>)> {
    let (mut words, mut meanings) = (Vec::new(), Vec::new());
    for choice in choices.as_array()? {
        let word = choice.get("const").filter(|word| word.is_string())?;
        if let (Some(text), Some(said)) = (word.as_str(), choice["description"].as_str()) {
            meanings.push(format!("`{text}`: {said}"));
        }
        words.push(word.clone());
    }
    Some((words, meanings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_left_out_may_be_null_and_says_what_that_means() {
        let schema = json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer", "format": "uint64", "minimum": 1, "default": 10, "description": "How many."},
            "c": {"description": "Which.", "default": "x", "oneOf": [
                {"type": "string", "const": "x", "description": "One."}, {"type": "string", "const": "y", "description": "Two."}]},
            "d": {"anyOf": [{"description": "Who.", "oneOf": [{"type": "string", "const": "x"}]}, {"type": "null"}]},
        }});
        let strict = openai(&schema);
        assert_eq!(strict["required"], json!(["a", "b", "c", "d"]));
        assert_eq!(strict["properties"]["a"], json!({"type": "string"}));
        assert_eq!(
            strict["properties"]["b"],
            json!({"type": ["integer", "null"], "minimum": 1, "description": "How many. Null: 10."})
        );
        assert_eq!(
            strict["properties"]["c"],
            json!({"type": ["string", "null"], "enum": ["x", "y", null],
                "description": "Which. `x`: One. `y`: Two. Null: \"x\"."})
        );
        assert_eq!(strict["properties"]["d"]["enum"], json!(["x", null]));
        let strict = anthropic(&schema);
        assert_eq!(strict["required"], json!(["a"]));
        let bounded = json!({"type": "integer", "description": "How many. at least 1."});
        assert_eq!(strict["properties"]["b"], bounded);
    }
}
