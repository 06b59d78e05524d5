//! Validates documents against the JSON Schema of a collection: a subset of draft 4. A schema with
//! keywords outside this subset is refused when a user sets the schema.

use std::cmp::Ordering;

use crate::error::{Code, Error, Result};
use crate::schema::{Collection, ValidationLevel};
use crate::value::{Object, Value, compare};

/// System attributes, to which schemas do not apply.
const SYSTEM: [&str; 5] = ["_key", "_id", "_rev", "_from", "_to"];
/// Keywords that do not restrict documents.
const ANNOTATIONS: [&str; 4] = ["$schema", "title", "description", "default"];
const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// Returns error 1620 if the schema's `level` applies to the write and the document violates the
/// schema.
pub(super) fn check(collection: &Collection, old: Option<&Object>, new: &Object) -> Result<()> {
    let Some(validation) = &collection.validation else { return Ok(()) };
    let applies = match validation.level {
        ValidationLevel::None => false,
        ValidationLevel::New => old.is_none(),
        ValidationLevel::Moderate => {
            old.is_none_or(|old| is_valid(&validation.rule, &without_system(old)))
        }
        ValidationLevel::Strict => true,
    };
    if !applies || is_valid(&validation.rule, &without_system(new)) {
        return Ok(());
    }
    let message = if validation.message.is_empty() {
        Code::ValidationFailed.text()
    } else {
        &validation.message
    };
    Err(Error::new(Code::ValidationFailed, message))
}

/// Returns the `message` of a schema object if a document violates its `rule`; `None` for a valid
/// document.
pub(crate) fn schema_fault(schema: &Value, document: &Object) -> Result<Option<String>> {
    let rule = schema.attribute("rule");
    check_rule(&rule)?;
    let message = schema.text_of("message").unwrap_or_default();
    let text = if message.is_empty() { Code::ValidationFailed.text() } else { message };
    Ok((!is_valid(&rule, &without_system(document))).then(|| text.to_owned()))
}

/// Refuses (1621) a schema with a keyword that `check` does not know.
pub(crate) fn check_rule(rule: &Value) -> Result<()> {
    let Some(object) = rule.as_object() else { return Err(bad("a schema is an object")) };
    object.iter().try_for_each(|(keyword, value)| check_keyword(keyword, value))
}

fn check_keyword(keyword: &str, value: &Value) -> Result<()> {
    let fits = match keyword {
        "type" => match value {
            Value::Array(types) => !types.is_empty() && types.iter().all(is_type),
            other => is_type(other),
        },
        "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
        "required" => {
            value.as_array().is_some_and(|names| names.iter().all(|name| name.as_str().is_some()))
        }
        "minimum" | "maximum" => value.as_f64().is_some(),
        "exclusiveMinimum" | "exclusiveMaximum" => matches!(value, Value::Bool(_)),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            count(value).is_some()
        }
        "items" | "not" => return check_rule(value),
        "additionalProperties" => match value {
            Value::Bool(_) => true,
            other => return check_rule(other),
        },
        "properties" => match value.as_object() {
            Some(properties) => {
                return properties.iter().try_for_each(|(_, rule)| check_rule(rule));
            }
            None => false,
        },
        "allOf" | "anyOf" | "oneOf" => match value.as_array() {
            Some(rules) if !rules.is_empty() => return rules.iter().try_for_each(check_rule),
            _ => false,
        },
        other if ANNOTATIONS.contains(&other) => true,
        other => {
            return Err(bad(&format!(
                "the schema keyword {other:?} is not supported by arango-embedded"
            )));
        }
    };
    if fits {
        Ok(())
    } else {
        Err(bad(&format!("the schema keyword {keyword:?} has an invalid value")))
    }
}

fn bad(text: &str) -> Error {
    Error::new(Code::ValidationBadParameter, text)
}

fn is_type(value: &Value) -> bool {
    value.as_str().is_some_and(|name| TYPES.contains(&name))
}

fn count(value: &Value) -> Option<usize> {
    match value {
        Value::Int(number) => usize::try_from(*number).ok(),
        _ => None,
    }
}

fn without_system(document: &Object) -> Value {
    let own = document.iter().filter(|(name, _)| !SYSTEM.contains(&&***name));
    let mut object = Object::with_capacity(document.len());
    own.for_each(|(name, value)| object.push_new(name.clone(), value.clone()));
    Value::object(object)
}

fn is_valid(rule: &Value, value: &Value) -> bool {
    rule.as_object()
        .is_none_or(|rule| rule.iter().all(|(keyword, wanted)| obeys(rule, keyword, wanted, value)))
}

/// Whether a value fulfils one keyword of a rule that `check_rule` accepted.
fn obeys(rule: &Object, keyword: &str, wanted: &Value, value: &Value) -> bool {
    let list = wanted.as_array().unwrap_or_default();
    let is_on = |name: &str| matches!(rule.get(name), Some(Value::Bool(true)));
    let limit = count(wanted);
    let (text, items, object) = (value.as_str(), value.as_array(), value.as_object());
    match keyword {
        "type" => match wanted {
            Value::Array(_) => list.iter().any(|name| has_type(value, name)),
            name => has_type(value, name),
        },
        "enum" => list.iter().any(|one| is_same(one, value)),
        "required" => object.is_none_or(|object| {
            list.iter().all(|name| name.as_str().is_some_and(|name| object.get(name).is_some()))
        }),
        "minimum" => is_above(value, wanted, is_on("exclusiveMinimum")),
        "maximum" => is_above(wanted, value, is_on("exclusiveMaximum")),
        "minLength" => text.is_none_or(|text| Some(text.chars().count()) >= limit),
        "maxLength" => text.is_none_or(|text| Some(text.chars().count()) <= limit),
        "minItems" => items.is_none_or(|items| Some(items.len()) >= limit),
        "maxItems" => items.is_none_or(|items| Some(items.len()) <= limit),
        "minProperties" => object.is_none_or(|object| Some(object.len()) >= limit),
        "maxProperties" => object.is_none_or(|object| Some(object.len()) <= limit),
        "items" => items.is_none_or(|items| items.iter().all(|item| is_valid(wanted, item))),
        "not" => !is_valid(wanted, value),
        "allOf" => list.iter().all(|rule| is_valid(rule, value)),
        "anyOf" => list.iter().any(|rule| is_valid(rule, value)),
        "oneOf" => list.iter().filter(|rule| is_valid(rule, value)).count() == 1,
        "properties" => object.is_none_or(|object| {
            let rules = wanted.as_object().into_iter().flat_map(Object::iter);
            rules
                .filter_map(|(name, rule)| Some((rule, object.get(name)?)))
                .all(|(rule, value)| is_valid(rule, value))
        }),
        "additionalProperties" => object.is_none_or(|object| {
            let named = |name: &str| {
                rule.get("properties")
                    .and_then(Value::as_object)
                    .is_some_and(|p| p.get(name).is_some())
            };
            object.iter().filter(|(name, _)| !named(name)).all(|(_, value)| match wanted {
                Value::Bool(allowed) => *allowed,
                rule => is_valid(rule, value),
            })
        }),
        // Keywords without a check of their own: annotations, and the two keywords that only change
        // `minimum` and `maximum`.
        _ => true,
    }
}

fn has_type(value: &Value, name: &Value) -> bool {
    match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => matches!(value, Value::Bool(_)),
        Some("integer") => matches!(value, Value::Int(_) | Value::UInt(_)),
        Some("number") => value.as_f64().is_some(),
        Some("string") => value.as_str().is_some(),
        Some("array") => value.as_array().is_some(),
        Some("object") => value.as_object().is_some(),
        _ => false,
    }
}

/// Whether `greater` ≥ `lesser`; if `exclusive` is true, whether `greater` > `lesser`. Always true
/// if one of the two is not a number.
fn is_above(greater: &Value, lesser: &Value, exclusive: bool) -> bool {
    if greater.as_f64().is_none() || lesser.as_f64().is_none() {
        return true;
    }
    match compare(greater, lesser) {
        Ordering::Greater => true,
        Ordering::Equal => !exclusive,
        Ordering::Less => false,
    }
}

/// JSON equality: numbers are compared by value, and the order of attributes is ignored.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        _ => a.as_f64().is_some() && b.as_f64().is_some() && compare(a, b).is_eq(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value {
        crate::value::parse(json.as_bytes()).unwrap()
    }

    #[test]
    fn each_keyword_lets_the_right_values_through() {
        let cases = [
            (r#"{}"#, r#"[1, "a", {}]"#, r#"[]"#),
            (
                r#"{"type": "integer"}"#,
                r#"[1, -5, 18446744073709551615]"#,
                r#"[1.5, "1", null, []]"#,
            ),
            (r#"{"type": ["string", "null"]}"#, r#"["a", null]"#, r#"[1, {}]"#),
            (r#"{"type": "number"}"#, r#"[1, 1.5]"#, r#"[true, "1"]"#),
            (
                r#"{"enum": [1, {"a": [2], "b": null}]}"#,
                r#"[1, 1.0, {"b": null, "a": [2]}]"#,
                r#"[2, {"a": [2]}]"#,
            ),
            (r#"{"minimum": 2, "maximum": 3}"#, r#"[2, 2.5, 3, "x"]"#, r#"[1, 3.01]"#),
            (r#"{"minimum": 2, "exclusiveMinimum": true}"#, r#"[2.1]"#, r#"[2, 1]"#),
            (r#"{"minLength": 1, "maxLength": 2}"#, r#"["ä", "ää", 5]"#, r#"["", "abc"]"#),
            (
                r#"{"minItems": 1, "maxItems": 2, "items": {"type": "string"}}"#,
                r#"[["a"], 7]"#,
                r#"[[], ["a", "b", "c"], [1]]"#,
            ),
            (
                r#"{"required": ["a"], "properties": {"a": {"type": "string"}}}"#,
                r#"[{"a": "x", "b": 1}, 5]"#,
                r#"[{}, {"a": 1}]"#,
            ),
            (
                r#"{"properties": {"a": {}}, "additionalProperties": false}"#,
                r#"[{}, {"a": 1}]"#,
                r#"[{"b": 1}]"#,
            ),
            (r#"{"additionalProperties": {"type": "null"}}"#, r#"[{"b": null}]"#, r#"[{"b": 1}]"#),
            (r#"{"allOf": [{"type": "string"}, {"minLength": 2}]}"#, r#"["ab"]"#, r#"["a", 1]"#),
            (r#"{"anyOf": [{"type": "string"}, {"minimum": 2}]}"#, r#"["a", 2]"#, r#"[1]"#),
            (r#"{"oneOf": [{"minimum": 1}, {"maximum": 3}]}"#, r#"[0, 4]"#, r#"[2]"#),
            (r#"{"not": {"type": "null"}}"#, r#"[1]"#, r#"[null]"#),
            (
                r#"{"minProperties": 1, "maxProperties": 1}"#,
                r#"[{"a": 1}]"#,
                r#"[{}, {"a": 1, "b": 2}]"#,
            ),
        ];
        for (rule, good, bad) in cases {
            let rule_value = value(rule);
            check_rule(&rule_value).unwrap();
            for good in value(good).as_array().unwrap() {
                assert!(is_valid(&rule_value, good), "{rule} takes {good:?}");
            }
            for bad in value(bad).as_array().unwrap() {
                assert!(!is_valid(&rule_value, bad), "{rule} refuses {bad:?}");
            }
        }
    }

    #[test]
    fn what_is_not_checked_is_refused_by_name() {
        let cases = [
            (r#"{"pattern": "a"}"#, "pattern"),
            (r#"{"properties": {"a": {"format": "date"}}}"#, "format"),
            (r##"{"anyOf": [{"$ref": "#/a"}]}"##, "$ref"),
            (r#"{"type": "text"}"#, "type"),
            (r#"{"items": [{}]}"#, "a schema is an object"),
            (r#"{"minimum": "1"}"#, "minimum"),
            (r#"{"exclusiveMinimum": 1}"#, "exclusiveMinimum"),
            (r#"5"#, "a schema is an object"),
        ];
        for (rule, name) in cases {
            let error = check_rule(&value(rule)).unwrap_err();
            assert_eq!(error.code, Code::ValidationBadParameter);
            assert!(error.message.contains(name), "{rule}: {error}");
        }
    }
}
