//! `/_api/analyzer`: the built-in ones and definitions of others.

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::limits::NAME_BYTES_MAX;
use crate::schema::{Analyzer, IndexKind};
use crate::text::built_in;
use crate::value::{Object, Value, write_json};

use super::auth::Level;
use super::call::Call;
use super::reply::{Reply, object};

/// Features that an analyzer can have.
const FEATURES: [&str; 4] = ["frequency", "norm", "position", "offset"];
/// Types whose definitions are kept as they are given.
const KEPT_AS_GIVEN: [&str; 13] = [
    "classification",
    "collation",
    "geojson",
    "geopoint",
    "geo_s2",
    "hash",
    "minhash",
    "multi_delimiter",
    "nearest_neighbors",
    "pipeline",
    "segmentation",
    "stopwords",
    "wildcard",
];

fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::BadParameter, message)
}

/// A name without the prefix of its database; `None` if the prefix is another database.
fn plain<'a>(call: &Call<'_>, name: &'a str) -> Option<&'a str> {
    match name.rsplit_once("::") {
        None => Some(name),
        Some((database, name)) if database == call.db() => Some(name),
        Some(_) => None,
    }
}

fn find(call: &Call<'_>, name: &str) -> Option<(String, Analyzer)> {
    if let Some(found) = built_in().into_iter().find(|analyzer| analyzer.name == name) {
        return Some((found.name.clone(), found));
    }
    let found = call.database.analyzers.get(plain(call, name)?)?;
    Some((format!("{}::{}", call.db(), found.name), Analyzer::clone(found)))
}

/// 400/10 unless there is an analyzer of that name.
pub(super) fn need(call: &Call<'_>, name: &str) -> Result<()> {
    find(call, name).map(|_| ()).ok_or_else(|| bad(format!("unknown analyzer '{name}'")))
}

/// Names under `analyzers` and `analyzer` at any depth.
pub(super) fn named_in(level: &Value) -> Vec<String> {
    let mut names = Vec::new();
    let mut open = vec![level.clone()];
    while let Some(value) = open.pop() {
        match &value {
            Value::Object(object) => {
                for (name, value) in object.iter() {
                    match (&**name, value) {
                        ("analyzer", Value::String(one)) => names.push(one.to_string()),
                        ("analyzers", Value::Array(list)) => {
                            names.extend(list.iter().filter_map(Value::as_str).map(str::to_owned));
                        }
                        _ => open.push(value.clone()),
                    }
                }
            }
            Value::Array(list) => open.extend(list.iter().cloned()),
            _ => {}
        }
    }
    names
}

fn shown(name: &str, analyzer: &Analyzer) -> Value {
    let features: Vec<Value> = analyzer.features.iter().map(|f| Value::from(f.as_str())).collect();
    object! {
        "name" => name,
        "type" => analyzer.kind.as_str(),
        "properties" => analyzer.properties.clone(),
        "features" => features,
    }
}

/// `GET /_api/analyzer`
pub(super) fn all(call: &Call<'_>) -> Result<Reply> {
    call.need_database(Level::Read)?;
    let own = call
        .database
        .analyzers
        .values()
        .map(|analyzer| shown(&format!("{}::{}", call.db(), analyzer.name), analyzer));
    let list: Vec<Value> = built_in().iter().map(|a| shown(&a.name, a)).chain(own).collect();
    Ok(Reply::result(200, list.into()))
}

/// `GET /_api/analyzer/A`
pub(super) fn one(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_database(Level::Read)?;
    let (name, analyzer) = find(call, name).ok_or_else(|| Error::of(Code::DocumentNotFound))?;
    Ok(Reply::ok(200, shown(&name, &analyzer)))
}

/// `POST /_api/analyzer`: 201 for a new one, 200 for the same one again, 400/10 for another one of that name.
pub(super) fn create(call: &Call<'_>) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let body = Value::object(call.request.object()?);
    let given = body.text_of("name").ok_or_else(|| bad("'name' must be a string"))?;
    let name = plain(call, given).ok_or_else(|| bad("the analyzer's database is not this one"))?;
    let wrong = name.is_empty()
        || name.len() > NAME_BYTES_MAX
        || !name.starts_with(|c: char| c.is_ascii_alphabetic())
        || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if wrong {
        return Err(bad("invalid characters in analyzer name"));
    }
    let kind = body.text_of("type").ok_or_else(|| bad("'type' must be a string"))?;
    let analyzer = Analyzer {
        name: name.to_owned(),
        kind: kind.to_owned(),
        properties: properties(kind, &body.attribute("properties"))?,
        features: features(&body.attribute("features"))?,
    };
    let full = format!("{}::{name}", call.db());
    let answer = shown(&full, &analyzer);
    let status = match find(call, name) {
        None => {
            call.engine().put_analyzer(call.db(), analyzer)?;
            201
        }
        Some((_, known)) if same(&shown(&full, &known), &answer) => 200,
        Some(_) => return Err(bad("name collision detected while creating analyzer")),
    };
    Ok(Reply::json(status, &answer))
}

fn same(one: &Value, other: &Value) -> bool {
    let text = |value: &Value| {
        let mut text = Vec::new();
        write_json(value, &mut text);
        text
    };
    text(one) == text(other)
}

fn features(given: &Value) -> Result<Vec<String>> {
    let list = match given {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        _ => return Err(bad("'features' must be a list")),
    };
    let mut features: Vec<String> = Vec::new();
    for feature in list.iter() {
        match feature.as_str() {
            Some(name) if FEATURES.contains(&name) => features.push(name.to_owned()),
            _ => return Err(bad("'features' are frequency, norm, position and offset")),
        }
    }
    let has = |name: &str| features.iter().any(|feature| feature == name);
    if (has("position") && !has("frequency")) || (has("offset") && !has("position")) {
        return Err(bad("'position' needs 'frequency', 'offset' needs 'position'"));
    }
    Ok(features)
}

/// `properties` with the type's defaults.
fn properties(kind: &str, given: &Value) -> Result<Value> {
    if !given.is_null() && given.as_object().is_none() {
        return Err(bad("'properties' must be an object"));
    }
    let defaults = match kind {
        "identity" => object! {},
        "text" => object! {
            "locale" => locale(given)?,
            "case" => "lower",
            "stopwords" => Value::array(Vec::new()),
            "accent" => false,
            "stemming" => true,
        },
        "norm" => object! { "locale" => locale(given)?, "case" => "none", "accent" => true },
        "stem" => object! { "locale" => locale(given)? },
        "delimiter" => {
            need_text(given, "delimiter")?;
            object! { "delimiter" => "" }
        }
        "ngram" => object! {
            "min" => 2_i64,
            "max" => 3_i64,
            "preserveOriginal" => true,
            "streamType" => "binary",
            "startMarker" => "",
            "endMarker" => "",
        },
        kind if KEPT_AS_GIVEN.contains(&kind) => {
            return Ok(if given.is_null() {
                object! {}
            } else {
                given.clone()
            });
        }
        "aql" => return Err(Error::unsupported("analyzers of type aql")),
        _ => return Err(bad(format!("unknown analyzer type '{kind}'"))),
    };
    let mut all = defaults.as_object().cloned().unwrap_or_default();
    for (name, value) in given.as_object().into_iter().flat_map(Object::iter) {
        let optional = kind == "text" && ["edgeNgram", "stopwordsPath"].contains(&&**name);
        if &**name != "locale" && (all.get(name).is_some() || optional) {
            all.insert(name.clone(), value.clone());
        }
    }
    Ok(Value::object(all))
}

/// Language and country without the character set (`en.utf-8` is `en`).
fn locale(given: &Value) -> Result<Value> {
    let text = need_text(given, "locale")?;
    Ok(text.split('.').next().unwrap_or_default().into())
}

fn need_text<'a>(given: &'a Value, name: &str) -> Result<&'a str> {
    given
        .text_of(name)
        .filter(|text| !text.is_empty())
        .ok_or_else(|| bad(format!("'properties.{name}' must be a text")))
}

/// `DELETE /_api/analyzer/A[?force=true]`
pub(super) fn remove(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let known = plain(call, name).and_then(|name| call.database.analyzers.get(name));
    let analyzer: &Arc<Analyzer> = known.ok_or_else(|| Error::of(Code::DocumentNotFound))?;
    if call.request.flag("force") != Some(true) && is_used(call, &analyzer.name) {
        return Err(Error::new(Code::Conflict, "analyzer in use"));
    }
    call.engine().drop_analyzer(call.db(), &analyzer.name)?;
    Ok(Reply::ok(200, object! { "name" => format!("{}::{}", call.db(), analyzer.name) }))
}

/// Whether a view or an inverted index of the database names the analyzer.
fn is_used(call: &Call<'_>, name: &str) -> bool {
    let names = |definition: &Value| {
        named_in(definition).iter().any(|used| plain(call, used) == Some(name))
    };
    let inverted =
        |kind: &IndexKind| matches!(kind, IndexKind::DefinitionOnly(kind) if kind == "inverted");
    call.database.views.values().any(|view| names(&view.properties))
        || call.database.collections.values().any(|collection| {
            collection.indexes.iter().any(|index| inverted(&index.kind) && names(&index.definition))
        })
}
