//! Index definitions out of request bodies, with ArangoDB's defaults filled in.

use crate::compat::Release;
use crate::error::{Code, Error, Result};
use crate::limits::NAME_BYTES_MAX;
use crate::schema::{Index, IndexKind};
use crate::value::{Object, Value};

use super::limits::INDEX_FIELDS_MAX;
use super::reply::object;
use super::vector_body;

/// A refused definition (400/10).
pub(super) fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::BadParameter, message)
}

/// A new index as `POST /_api/index` asks for it; its number and a missing name are given later.
pub(super) fn index(body: &Value, vector_index: bool, release: Release) -> Result<Index> {
    let kind = body.text_of("type").ok_or_else(|| bad("invalid index type"))?;
    match kind {
        // The old names of the sorted index do the same.
        "persistent" | "hash" | "skiplist" => persistent(body, kind),
        "ttl" => ttl(body),
        "inverted" => inverted(body, release),
        "vector" => vector_body::index(body, vector_index, release),
        "geo" | "fulltext" => listed_only(body, kind),
        "mdi" | "mdi-prefixed" | "zkd" => multi_dimensional(body, kind),
        "primary" | "edge" => Err(bad(format!("an index of type {kind} cannot be created"))),
        _ => Err(bad("invalid index type")),
    }
}

/// The parts that all kinds share.
pub(super) fn build(
    body: &Value,
    kind: IndexKind,
    fields: Vec<Vec<String>>,
    unique: bool,
    sparse: bool,
    definition: Value,
) -> Result<Index> {
    Ok(Index { id: 0, name: name(body)?, kind, fields, unique, sparse, definition })
}

fn name(body: &Value) -> Result<String> {
    match body.attribute("name") {
        Value::Null => Ok(String::new()),
        Value::String(name) => {
            let wrong = name.is_empty()
                || name.len() > NAME_BYTES_MAX
                || name.starts_with(|c: char| c.is_ascii_digit())
                || name.chars().any(|c| "/:".contains(c) || c.is_control());
            if wrong { Err(Error::of(Code::IllegalName)) } else { Ok(name.to_string()) }
        }
        _ => Err(Error::of(Code::IllegalName)),
    }
}

/// A boolean attribute, `default` without it.
pub(super) fn flag(body: &Value, name: &str, default: bool) -> Result<bool> {
    match body.attribute(name) {
        Value::Null => Ok(default),
        Value::Bool(flag) => Ok(flag),
        _ => Err(bad(format!("'{name}' must be a boolean"))),
    }
}

/// `fields` as texts, between 1 and `most`, each once.
pub(super) fn fields(body: &Value, most: usize) -> Result<Vec<String>> {
    attribute_names(body, "fields", most)
}

fn attribute_names(body: &Value, what: &str, most: usize) -> Result<Vec<String>> {
    let list = body.attribute(what);
    let wrong = || bad(format!("'{what}' must be a list of attribute names"));
    let list = list.as_array().ok_or_else(wrong)?;
    if list.is_empty() || list.len() > most {
        return Err(bad(format!("'{what}' must name 1 to {most} attributes")));
    }
    let mut names: Vec<String> = Vec::with_capacity(list.len());
    for field in list {
        let field = field.as_str().ok_or_else(wrong)?;
        if field.is_empty() || field.split('.').any(str::is_empty) {
            return Err(Error::of(Code::AttributeParserFailed));
        }
        if names.iter().any(|name| name == field) {
            return Err(bad("duplicate attribute name in index fields list"));
        }
        names.push(field.to_owned());
    }
    Ok(names)
}

/// Fields split at their dots.
pub(super) fn paths(fields: &[String]) -> Vec<Vec<String>> {
    fields.iter().map(|field| field.split('.').map(str::to_owned).collect()).collect()
}

/// Fields as a list of texts.
pub(super) fn texts(fields: &[String]) -> Value {
    fields.iter().map(|field| Value::from(field.as_str())).collect::<Vec<_>>().into()
}

/// `storedValues`, if there are any.
pub(super) fn stored_values(body: &Value) -> Result<Option<Value>> {
    let given = body.attribute("storedValues");
    match given.as_array() {
        None if given.is_null() => Ok(None),
        Some([]) => Ok(None),
        Some(list)
            if list.len() <= INDEX_FIELDS_MAX && list.iter().all(|v| v.as_str().is_some()) =>
        {
            Ok(Some(given))
        }
        _ => Err(bad(format!(
            "'storedValues' must be a list of at most {INDEX_FIELDS_MAX} attribute names"
        ))),
    }
}

fn persistent(body: &Value, kind: &str) -> Result<Index> {
    let fields = fields(body, INDEX_FIELDS_MAX)?;
    if fields.iter().any(|field| field == "_id") {
        return Err(bad("_id attribute cannot be indexed"));
    }
    let (unique, sparse) = (flag(body, "unique", false)?, flag(body, "sparse", false)?);
    let mut definition = Object::new();
    definition.push_new("cacheEnabled", flag(body, "cacheEnabled", false)?.into());
    definition.push_new("deduplicate", flag(body, "deduplicate", true)?.into());
    definition.push_new("estimates", flag(body, "estimates", true)?.into());
    definition.push_new("fields", texts(&fields));
    definition.push_new("type", kind.into());
    if let Some(stored) = stored_values(body)? {
        definition.push_new("storedValues", stored);
    }
    build(body, IndexKind::Persistent, paths(&fields), unique, sparse, Value::object(definition))
}

fn ttl(body: &Value) -> Result<Index> {
    let fields = fields(body, 1)?;
    let after = body.attribute("expireAfter");
    if !after.as_f64().is_some_and(|seconds| seconds >= 0.0) {
        return Err(bad("'expireAfter' must be a number of seconds from 0"));
    }
    let definition = object! {
        "estimates" => false,
        "expireAfter" => after,
        "fields" => texts(&fields),
        "type" => "ttl",
    };
    build(body, IndexKind::Ttl, paths(&fields), false, true, definition)
}

/// A sorted index over numbers: what arangod keeps as a curve through space is kept in the order of its fields.
fn multi_dimensional(body: &Value, kind: &str) -> Result<Index> {
    if body.text_of("fieldValueTypes") != Some("double") {
        return Err(bad("'fieldValueTypes' must be \"double\""));
    }
    let (unique, sparse) = (flag(body, "unique", false)?, flag(body, "sparse", false)?);
    let fields = fields(body, INDEX_FIELDS_MAX)?;
    let prefix = if kind == "mdi-prefixed" {
        attribute_names(body, "prefixFields", INDEX_FIELDS_MAX)?
    } else {
        Vec::new()
    };
    if prefix.iter().chain(&fields).any(|field| field.contains("[*]") || field == "_id") {
        return Err(bad(format!("an index of type {kind} takes plain attributes")));
    }
    if prefix.iter().any(|field| fields.contains(field)) {
        return Err(bad("duplicate attribute name in index fields list"));
    }
    let mut definition = Object::new();
    definition
        .push_new("estimates", (kind == "mdi-prefixed" && flag(body, "estimates", true)?).into());
    definition.push_new("fieldValueTypes", "double".into());
    definition.push_new("fields", texts(&fields));
    if kind == "mdi-prefixed" {
        definition.push_new("prefixFields", texts(&prefix));
    }
    definition.push_new("type", kind.into());
    if let Some(stored) = stored_values(body)? {
        definition.push_new("storedValues", stored);
    }
    let all: Vec<String> = prefix.into_iter().chain(fields).collect();
    build(body, IndexKind::Persistent, paths(&all), unique, sparse, Value::object(definition))
}

/// Kinds that are kept and listed but used by no query.
fn listed_only(body: &Value, kind: &str) -> Result<Index> {
    if flag(body, "unique", false)? {
        return Err(bad(format!("an index of type {kind} cannot be unique")));
    }
    let most = if kind == "geo" { 2 } else { 1 };
    let fields = fields(body, most)?;
    let definition = if kind == "geo" {
        object! {
            "fields" => texts(&fields),
            "geoJson" => flag(body, "geoJson", false)?,
            "legacyPolygons" => flag(body, "legacyPolygons", false)?,
            "bestIndexedLevel" => 17_i64,
            "worstIndexedLevel" => 4_i64,
            "maxNumCoverCells" => 8_i64,
            "type" => kind,
        }
    } else {
        let least = match body.attribute("minLength") {
            Value::Null => Value::Int(2),
            Value::Int(least) if least > 0 => Value::Int(least),
            _ => return Err(bad("'minLength' must be a whole number from 1")),
        };
        object! { "fields" => texts(&fields), "minLength" => least, "type" => kind }
    };
    build(body, IndexKind::DefinitionOnly(kind.to_owned()), Vec::new(), false, true, definition)
}

fn inverted(body: &Value, release: Release) -> Result<Index> {
    let list = body.attribute("fields");
    let list = list.as_array().filter(|list| {
        !list.is_empty() || matches!(body.attribute("includeAllFields"), Value::Bool(true))
    });
    let list = list.ok_or_else(|| bad("'fields' must be a list of attributes"))?;
    let fields = list.iter().map(inverted_field).collect::<Result<Vec<_>>>()?;
    let or = |name: &str, default: Value| match body.attribute(name) {
        Value::Null => default,
        given => given,
    };
    let none = || Value::array(Vec::new());
    let definition = object! {
        "analyzer" => or("analyzer", "identity".into()),
        "cleanupIntervalStep" => or("cleanupIntervalStep", Value::Int(2)),
        "commitIntervalMsec" => or("commitIntervalMsec", Value::Int(1000)),
        "consolidationIntervalMsec" => or("consolidationIntervalMsec", Value::Int(release.consolidation_interval_ms())),
        "consolidationPolicy" => or("consolidationPolicy", super::views::consolidation_policy(release)),
        "features" => or("features", vec![Value::from("frequency"), Value::from("norm")].into()),
        "fields" => fields,
        "includeAllFields" => flag(body, "includeAllFields", false)?,
        "optimizeTopK" => or("optimizeTopK", none()),
        "primarySort" => or("primarySort", object! { "fields" => none(), "compression" => "lz4" }),
        "searchField" => flag(body, "searchField", false)?,
        "storedValues" => or("storedValues", none()),
        "trackListPositions" => flag(body, "trackListPositions", false)?,
        "type" => "inverted",
        "version" => 1_i64,
        "writebufferActive" => or("writebufferActive", Value::Int(0)),
        "writebufferIdle" => or("writebufferIdle", Value::Int(64)),
        "writebufferSizeMax" => or("writebufferSizeMax", Value::Int(33_554_432)),
    };
    build(body, IndexKind::DefinitionOnly("inverted".into()), Vec::new(), false, true, definition)
}

/// A field is a text or an object with a name; it is answered as an object.
fn inverted_field(field: &Value) -> Result<Value> {
    match field {
        Value::String(name) if !name.is_empty() => Ok(object! { "name" => &**name }),
        Value::Object(_) if field.text_of("name").is_some_and(|name| !name.is_empty()) => {
            Ok(field.clone())
        }
        _ => Err(bad("a field must be a name or an object with a name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::parse;

    #[test]
    fn definitions_are_taken_or_refused() {
        let table = [
            (r#"{"type":"persistent","fields":["a","b.c"],"unique":true}"#, 0),
            (r#"{"type":"ttl","fields":["at"],"expireAfter":0}"#, 0),
            (r#"{"type":"inverted","fields":["a",{"name":"b","analyzer":"text_en"}]}"#, 0),
            (r#"{"type":"geo","fields":["at"],"geoJson":true}"#, 0),
            (r#"{"fields":["a"]}"#, 10),
            (r#"{"type":"magic","fields":["a"]}"#, 10),
            (r#"{"type":"persistent","fields":[]}"#, 10),
            (r#"{"type":"persistent","fields":["a","a"]}"#, 10),
            (r#"{"type":"persistent","fields":["a..b"]}"#, 1220),
            (r#"{"type":"persistent","fields":["_id"]}"#, 10),
            (r#"{"type":"persistent","fields":["a[*]"]}"#, 0),
            (r#"{"type":"persistent","fields":["a"],"name":"1"}"#, 1208),
            (r#"{"type":"ttl","fields":["a","b"],"expireAfter":1}"#, 10),
            (r#"{"type":"ttl","fields":["a"]}"#, 10),
            (r#"{"type":"mdi","fields":["a"],"fieldValueTypes":"double","unique":true}"#, 0),
            (r#"{"type":"zkd","fields":["a"],"fieldValueTypes":"integer"}"#, 10),
            (r#"{"type":"mdi-prefixed","fields":["a"],"fieldValueTypes":"double"}"#, 10),
            (
                r#"{"type":"mdi-prefixed","fields":["a"],"prefixFields":["p"],"fieldValueTypes":"double"}"#,
                0,
            ),
            (r#"{"type":"geo","fields":["a","b","c"]}"#, 10),
            (r#"{"type":"fulltext","fields":["a"],"unique":true}"#, 10),
            (r#"{"type":"primary","fields":["_key"]}"#, 10),
        ];
        for (text, expected) in table {
            let body = parse(text.as_bytes()).expect(text);
            let num =
                index(&body, false, Release::LATEST).map_or_else(|error| error.code.num(), |_| 0);
            assert_eq!(num, expected, "{text}");
        }
    }
}
