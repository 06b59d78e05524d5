//! Converts between the JSON form of collections and their definitions.

use crate::data::computed_values;
use crate::error::{Code, Error, Result};
use crate::limits::NAME_BYTES_MAX;
use crate::schema::{
    Collection, CollectionKind, KeyGenerator, KeyOptions, Validation, ValidationLevel,
};
use crate::value::Value;

use super::reply::object;

fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::BadParameter, message)
}

fn flag(body: &Value, name: &str) -> Result<Option<bool>> {
    match body.attribute(name) {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(flag)),
        _ => Err(bad(format!("'{name}' must be a boolean"))),
    }
}

/// Checks the name of a new collection by the rules for extended names. A name can have any Unicode
/// characters except `/`, `:` and control characters. It must not begin with a digit, `.` or a
/// blank, and only names of system collections begin with `_`.
pub(super) fn check_name(name: &str, is_system: bool) -> Result<()> {
    let bad = name.is_empty()
        || name.len() > NAME_BYTES_MAX
        || name.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || name.starts_with('_') != is_system
        || name.trim() != name
        || name.chars().any(|c| "/:".contains(c) || c.is_control());
    if bad { Err(Error::new(Code::IllegalName, "illegal collection name")) } else { Ok(()) }
}

/// Reads a definition from the body of `POST /_api/collection`; ignores attributes that only
/// clusters use.
pub(super) fn new_collection(body: &Value) -> Result<Collection> {
    let name = body.text_of("name").unwrap_or_default();
    let is_system = flag(body, "isSystem")?.unwrap_or(false);
    check_name(name, is_system)?;
    let kind = match body.attribute("type") {
        Value::Null | Value::Int(2) => CollectionKind::Document,
        Value::Int(3) => CollectionKind::Edge,
        Value::String(word) if &*word == "document" => CollectionKind::Document,
        Value::String(word) if &*word == "edge" => CollectionKind::Edge,
        _ => return Err(Error::of(Code::CollectionTypeInvalid)),
    };
    Ok(Collection {
        id: 0,
        name: name.to_owned(),
        kind,
        is_system,
        wait_for_sync: flag(body, "waitForSync")?.unwrap_or(false),
        key_options: key_options(&body.attribute("keyOptions"))?,
        validation: validation(&body.attribute("schema"))?,
        computed_values: computed_values(&body.attribute("computedValues"))?,
        cache_enabled: flag(body, "cacheEnabled")?.unwrap_or(false),
        sharding: None,
        indexes: Vec::new(),
    })
}

/// Applies the changeable attributes of `PUT …/properties`; ignores all other attributes, as
/// ArangoDB does.
pub(super) fn change(collection: &mut Collection, body: &Value) -> Result<()> {
    if let Some(wait) = flag(body, "waitForSync")? {
        collection.wait_for_sync = wait;
    }
    if let Some(cache) = flag(body, "cacheEnabled")? {
        collection.cache_enabled = cache;
    }
    let has = |name: &str| body.as_object().is_some_and(|body| body.get(name).is_some());
    if has("schema") {
        collection.validation = validation(&body.attribute("schema"))?;
    }
    if has("computedValues") {
        collection.computed_values = computed_values(&body.attribute("computedValues"))?;
    }
    Ok(())
}

fn key_options(given: &Value) -> Result<KeyOptions> {
    if !given.is_null() && given.as_object().is_none() {
        return Err(bad("'keyOptions' must be an object"));
    }
    let generator = match given.attribute("type") {
        Value::Null => KeyGenerator::Traditional,
        word => match word.as_str() {
            Some("traditional") => KeyGenerator::Traditional,
            Some("autoincrement") => KeyGenerator::Autoincrement,
            Some("padded") => KeyGenerator::Padded,
            Some("uuid") => KeyGenerator::Uuid,
            _ => return Err(bad("unknown key generator type")),
        },
    };
    let number = |name: &str, default: u64, least: u64| match given.attribute(name) {
        Value::Null => Ok(default),
        _ if generator != KeyGenerator::Autoincrement => {
            Err(bad(format!("'keyOptions.{name}' is only for autoincrement")))
        }
        Value::Int(n) if n >= least as i64 => Ok(n as u64),
        _ => Err(bad(format!("'keyOptions.{name}' must be a whole number from {least}"))),
    };
    Ok(KeyOptions {
        generator,
        allow_user_keys: flag(given, "allowUserKeys")?.unwrap_or(true),
        increment: number("increment", 1, 1)?,
        offset: number("offset", 0, 0)?,
    })
}

fn validation(given: &Value) -> Result<Option<Validation>> {
    let wrong = |message: &str| Error::new(Code::ValidationBadParameter, message);
    let object = match given {
        Value::Null => return Ok(None),
        Value::Object(object) if object.is_empty() => return Ok(None),
        Value::Object(object) => object,
        _ => return Err(wrong("'schema' must be an object")),
    };
    let rule = match object.get("rule") {
        Some(rule @ Value::Object(_)) => rule.clone(),
        _ => return Err(wrong("'schema.rule' must be an object")),
    };
    let level = match object.get("level").map(|level| level.as_str().unwrap_or_default()) {
        None | Some("strict") => ValidationLevel::Strict,
        Some("moderate") => ValidationLevel::Moderate,
        Some("new") => ValidationLevel::New,
        Some("none") => ValidationLevel::None,
        Some(_) => return Err(wrong("'schema.level' must be none, new, moderate or strict")),
    };
    let message = match object.get("message") {
        None | Some(Value::Null) => Code::ValidationFailed.text().to_owned(),
        Some(Value::String(message)) => message.to_string(),
        Some(_) => return Err(wrong("'schema.message' must be a string")),
    };
    Ok(Some(Validation { rule, level, message }))
}

/// Returns the attribute `schema` of answers.
pub(super) fn schema_of(collection: &Collection) -> Value {
    let Some(validation) = &collection.validation else { return Value::Null };
    let level = validation.level.name();
    object! {
        "message" => validation.message.as_str(),
        "level" => level,
        "type" => "json",
        "rule" => validation.rule.clone(),
    }
}

/// Returns the attribute `keyOptions` of answers; `last` is the largest numeric key.
pub(super) fn key_options_of(collection: &Collection, last: u64) -> Value {
    let options = &collection.key_options;
    let allow = options.allow_user_keys;
    let plain =
        |kind: &str| object! { "allowUserKeys" => allow, "type" => kind, "lastValue" => last };
    match options.generator {
        KeyGenerator::Traditional => plain("traditional"),
        KeyGenerator::Padded => plain("padded"),
        KeyGenerator::Uuid => object! { "allowUserKeys" => allow, "type" => "uuid" },
        KeyGenerator::Autoincrement => object! {
            "allowUserKeys" => allow,
            "type" => "autoincrement",
            "offset" => options.offset,
            "increment" => options.increment,
            "lastValue" => last,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::parse;

    /// Expected error number for computed values without an expression, which depends on the
    /// feature `conformance`.
    const COMPUTED: u32 = if cfg!(feature = "conformance") { 10 } else { 9 };

    #[test]
    fn bodies_are_taken_or_refused() {
        let table = [
            (r#"{"name":"c"}"#, 0),
            (r#"{"name":"Bücher"}"#, 0),
            (r#"{"name":"_c","isSystem":true,"type":3}"#, 0),
            (r#"{}"#, 1208),
            (r#"{"name":"_c"}"#, 1208),
            (r#"{"name":"1c"}"#, 1208),
            (r#"{"name":"a/b"}"#, 1208),
            (r#"{"name":" this name is invalid "}"#, 1208),
            (r#"{"name":"c","type":4}"#, 1218),
            (r#"{"name":"c","waitForSync":"yes"}"#, 10),
            (r#"{"name":"c","keyOptions":{"type":"padded","increment":2}}"#, 10),
            (r#"{"name":"c","keyOptions":{"type":"autoincrement","increment":0}}"#, 10),
            (r#"{"name":"c","schema":{"rule":{},"level":"sometimes"}}"#, 1621),
            (r#"{"name":"c","schema":{"level":"new"}}"#, 1621),
            (r#"{"name":"c","computedValues":[{"name":"x"}]}"#, COMPUTED),
        ];
        for (text, expected) in table {
            let body = parse(text.as_bytes()).expect(text);
            let num = new_collection(&body).map_or_else(|error| error.code.num(), |_| 0);
            assert_eq!(num, expected, "{text}");
        }
    }
}
