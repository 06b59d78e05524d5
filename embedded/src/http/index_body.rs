//! Reads and checks index definitions in request bodies, with ArangoDB's defaults.

use crate::compat::Release;
use crate::error::{Code, Error, Result};
use crate::limits::NAME_BYTES_MAX;
use crate::schema::{Index, IndexKind};
use crate::value::{Object, Value};

use super::limits::INDEX_FIELDS_MAX;
use super::reply::object;
use super::{vector_body, view_body};

/// Returns error 400/10, which refuses a definition.
pub(super) fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::BadParameter, message)
}

/// Reads a new index from the body of `POST /_api/index`. The catalog adds the id and a missing
/// name.
pub(super) fn index(body: &Value, vector_index: bool, release: Release) -> Result<Index> {
    let kind = body.text_of("type").ok_or_else(|| bad("invalid index type"))?;
    match kind {
        // `hash` and `skiplist` are old names of the type `persistent`.
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

/// Builds an index from the attributes that all index types share.
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

/// Reads a boolean attribute; returns `default` if it is missing.
pub(super) fn flag(body: &Value, name: &str, default: bool) -> Result<bool> {
    match body.attribute(name) {
        Value::Null => Ok(default),
        Value::Bool(flag) => Ok(flag),
        _ => Err(bad(format!("'{name}' must be a boolean"))),
    }
}

/// Reads `fields`: between 1 and `most` attribute names, without duplicates.
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

/// Splits field names at their dots into attribute paths.
pub(super) fn paths(fields: &[String]) -> Vec<Vec<String>> {
    fields.iter().map(|field| field.split('.').map(str::to_owned).collect()).collect()
}

/// Converts field names to a JSON list.
pub(super) fn texts(fields: &[String]) -> Value {
    fields.iter().map(|field| Value::from(field.as_str())).collect::<Vec<_>>().into()
}

/// Reads `storedValues`; returns `None` if it is missing or empty.
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

/// Reads an index of type `mdi`, `mdi-prefixed` or `zkd`. Its entries are sorted by their fields,
/// in contrast to arangod, which uses a space-filling curve.
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

/// Reads an index of a type that is stored and listed, but that no query uses.
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
    let all = flag(body, "includeAllFields", false)?;
    let given = body.attribute("fields");
    let list = match given.as_array() {
        None if given.is_null() && all => &[],
        Some(list) if !list.is_empty() || all => list,
        _ => return Err(bad("'fields' must be a list of attributes")),
    };
    let search = flag(body, "searchField", false)?;
    let fields =
        list.iter().map(|field| inverted_field(field, search)).collect::<Result<Vec<_>>>()?;
    let bare = |field: &Value| field.text_of("name").unwrap_or_default().replace("[*]", "");
    let twice =
        (1..fields.len()).any(|at| fields[..at].iter().any(|one| bare(one) == bare(&fields[at])));
    if twice {
        return Err(bad("duplicate attribute name in index fields list"));
    }
    if flag(body, "unique", false)? {
        return Err(bad("an inverted index cannot be unique"));
    }
    let number = |name: &str, default: i64| match body.attribute(name) {
        Value::Null => Ok(Value::Int(default)),
        value if value.as_f64().is_some_and(|number| number >= 0.0) => Ok(value),
        _ => Err(bad(format!("'{name}' must be a number from 0"))),
    };
    let or = |name: &str, default: Value, read: &dyn Fn(&Value) -> Result<Value>| match body
        .attribute(name)
    {
        Value::Null => Ok(default),
        given => read(&given),
    };
    let none = || Value::array(Vec::new());
    let sort = object! { "fields" => none(), "compression" => "lz4" };
    let analyzer = match body.attribute("analyzer") {
        Value::Null => "identity".into(),
        name @ Value::String(_) => name,
        _ => return Err(bad("'analyzer' must be a string")),
    };
    let mut definition = Object::new();
    definition.push_new("analyzer", analyzer);
    definition.push_new("cleanupIntervalStep", number("cleanupIntervalStep", 2)?);
    definition.push_new("commitIntervalMsec", number("commitIntervalMsec", 1000)?);
    definition.push_new(
        "consolidationIntervalMsec",
        number("consolidationIntervalMsec", release.consolidation_interval_ms())?,
    );
    let policy = view_body::consolidation_policy(release);
    definition.push_new(
        "consolidationPolicy",
        or("consolidationPolicy", policy, &|given| view_body::consolidation(given, release))?,
    );
    if let Some(features) = features(body)? {
        definition.push_new("features", features);
    }
    definition.push_new("fields", fields.into());
    definition.push_new("includeAllFields", all.into());
    definition.push_new("optimizeTopK", or("optimizeTopK", none(), &view_body::top_k)?);
    definition.push_new("primarySort", or("primarySort", sort, &view_body::index_sort)?);
    definition.push_new("searchField", search.into());
    definition.push_new("storedValues", or("storedValues", none(), &view_body::stored_values)?);
    definition.push_new("trackListPositions", flag(body, "trackListPositions", false)?.into());
    definition.push_new("type", "inverted".into());
    definition.push_new("version", Value::Int(1));
    definition.push_new("writebufferActive", number("writebufferActive", 0)?);
    definition.push_new("writebufferIdle", number("writebufferIdle", 64)?);
    definition.push_new("writebufferSizeMax", number("writebufferSizeMax", 33_554_432)?);
    for name in ["cache", "primaryKeyCache"] {
        if flag(body, name, false)? {
            definition.push_new(name, true.into());
        }
    }
    let kind = IndexKind::DefinitionOnly("inverted".into());
    build(body, kind, Vec::new(), false, true, Value::object(definition))
}

/// Reads `features` of an inverted index or a field; returns them in ArangoDB's order.
fn features(level: &Value) -> Result<Option<Value>> {
    const FEATURES: [&str; 4] = ["frequency", "position", "offset", "norm"];
    let given = level.attribute("features");
    let list = match given.as_array() {
        None if given.is_null() => return Ok(None),
        Some(list) => list,
        None => return Err(bad("'features' must be a list")),
    };
    let has = |name: &str| list.iter().any(|feature| feature.as_str() == Some(name));
    let known = |feature: &Value| feature.as_str().is_some_and(|name| FEATURES.contains(&name));
    if !list.iter().all(known) {
        return Err(bad("'features' are frequency, norm, position and offset"));
    }
    if (has("position") && !has("frequency")) || (has("offset") && !has("position")) {
        return Err(bad("'position' needs 'frequency', 'offset' needs 'position'"));
    }
    let kept = FEATURES.iter().filter(|name| has(name)).map(|name| Value::from(*name));
    Ok(Some(kept.collect::<Vec<_>>().into()))
}

/// Reads a field of an inverted index, given as a name or as an object with a name; returns it as
/// an object.
fn inverted_field(field: &Value, search: bool) -> Result<Value> {
    let given = match field {
        Value::String(name) => object! { "name" => &**name },
        Value::Object(_) => field.clone(),
        _ => return Err(bad("a field must be a name or an object with a name")),
    };
    let name = given.text_of("name").ok_or_else(|| bad("a field needs a name"))?;
    if name.is_empty() || name.split('.').any(|part| part.trim_end_matches("[*]").is_empty()) {
        return Err(Error::of(Code::AttributeParserFailed));
    }
    if name.replace("[*]", "").contains(['[', ']', '*']) {
        return Err(Error::of(Code::AttributeParserFailed));
    }
    let stars = name.matches("[*]").count();
    let own = flag(&given, "searchField", search)?;
    if stars > 1 || stars == 1 && own {
        return Err(bad(format!(
            "the field '{name}' has more than one [*], or has [*] and is a search field"
        )));
    }
    for name in ["includeAllFields", "trackListPositions", "cache"] {
        flag(&given, name, false)?;
    }
    if !matches!(given.attribute("analyzer"), Value::Null | Value::String(_)) {
        return Err(bad("'analyzer' of a field must be a string"));
    }
    let mut out = Object::new();
    let known = [
        "name",
        "analyzer",
        "features",
        "searchField",
        "includeAllFields",
        "trackListPositions",
        "nested",
    ];
    for name in known {
        match name {
            "features" => {
                if let Some(features) = features(&given)? {
                    out.push_new("features", features);
                }
            }
            name if given.attribute(name).is_null() => {}
            name => out.push_new(name, given.attribute(name)),
        }
    }
    if given.attribute("cache").is_true() {
        out.push_new("cache", true.into());
    }
    Ok(Value::object(out))
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
