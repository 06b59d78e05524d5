//! `/_api/analyzer`: the built-in analyzers and user definitions.

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::limits::NAME_BYTES_MAX;
use crate::schema::{Analyzer, IndexKind};
use crate::text::{built_in, check_kind, normalized};
use crate::value::{Value, write_text};

use super::auth::Level;
use super::call::Call;
use super::reply::{Reply, object};

/// All features that an analyzer can have.
const FEATURES: [&str; 4] = ["frequency", "position", "offset", "norm"];
/// The database whose analyzers every database can use.
const SYSTEM: &str = "_system";
fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::BadParameter, message)
}

/// Splits an analyzer's name into its database and the plain name. Returns error 403/11 for a
/// database that is neither the request's database nor `_system`.
fn located<'a>(call: &'a Call<'_>, name: &'a str) -> Result<(&'a str, &'a str)> {
    match name.rsplit_once("::") {
        None => Ok((call.db(), name)),
        Some(("", name)) => Ok((SYSTEM, name)),
        Some((db, name)) if db == call.db() || db == SYSTEM => Ok((db, name)),
        Some((_, plain)) => {
            let text = format!(
                "Analyzer '{name}' is not accessible: '{plain}' is neither of the database '{}' nor of '{SYSTEM}'",
                call.db()
            );
            Err(Error::new(Code::Forbidden, text))
        }
    }
}

/// Finds an analyzer in the request's database or `_system`, and returns it with the name that
/// answers show.
fn find(call: &Call<'_>, name: &str) -> Result<Option<(String, Analyzer)>> {
    if let Some(found) = built_in().iter().find(|analyzer| analyzer.name == name) {
        return Ok(Some((found.name.clone(), Analyzer::clone(found))));
    }
    let (db, plain) = located(call, name)?;
    let found = if db == call.db() {
        call.database.analyzers.get(plain).cloned()
    } else {
        call.engine().database(db)?.analyzers.get(plain).cloned()
    };
    Ok(found.map(|found| (format!("{db}::{}", found.name), Analyzer::clone(&found))))
}

/// Returns error 400/10 unless the analyzer exists.
pub(super) fn need(call: &Call<'_>, name: &str) -> Result<()> {
    find(call, name)?.map(|_| ()).ok_or_else(|| bad(format!("unknown analyzer '{name}'")))
}

/// Returns an analyzer's name as links show it. The prefix of the request's database is left out.
/// In databases other than `_system`, an analyzer of `_system` has the prefix `::`.
pub(super) fn plain_name(call: &Call<'_>, name: &str) -> String {
    match located(call, name) {
        Ok((db, plain)) if db != call.db() => format!("::{plain}"),
        Ok((_, plain)) => plain.to_owned(),
        Err(_) => name.to_owned(),
    }
}

/// The features of an analyzer; error 400/10 for an unknown analyzer.
pub(super) fn features_of(call: &Call<'_>, name: &str) -> Result<Value> {
    let found = find(call, name)?.ok_or_else(|| bad(format!("unknown analyzer '{name}'")))?;
    let features = found.1.features.iter().map(|feature| Value::from(feature.as_str()));
    Ok(features.collect::<Vec<_>>().into())
}

/// Returns the analyzer names in the attributes `analyzers` and `analyzer` at any depth of a
/// definition.
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

fn analyzer_value(name: &str, analyzer: &Analyzer) -> Value {
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
        .map(|analyzer| analyzer_value(&format!("{}::{}", call.db(), analyzer.name), analyzer));
    let mut list: Vec<Value> =
        built_in().iter().map(|a| analyzer_value(&a.name, a)).chain(own).collect();
    if call.db() != SYSTEM {
        let system = call.engine().database(SYSTEM)?;
        let shared = system.analyzers.values();
        list.extend(shared.map(|one| analyzer_value(&format!("{SYSTEM}::{}", one.name), one)));
    }
    Ok(Reply::result(200, list.into()))
}

/// `GET /_api/analyzer/A`
pub(super) fn one(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_database(Level::Read)?;
    let (name, analyzer) = find(call, name)?.ok_or_else(|| Error::of(Code::DocumentNotFound))?;
    let mut shown = analyzer_value(&name, &analyzer).as_object().cloned().unwrap_or_default();
    shown.arrange(&["features", "properties", "type", "name"]);
    Ok(Reply::ok(200, Value::object(shown)))
}

/// `POST /_api/analyzer`: 201 for a new analyzer, 200 for an equal existing analyzer, 400/10 for a
/// different analyzer with the same name.
pub(super) fn create(call: &Call<'_>) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let body = Value::object(call.request.object()?);
    let given = body.text_of("name").ok_or_else(|| bad("'name' must be a string"))?;
    let (db, name) = located(call, given)?;
    if db != call.db() {
        let text = format!("Analyzer '{given}' belongs to another database than '{}'", call.db());
        return Err(Error::new(Code::Forbidden, text));
    }
    let wrong = name.is_empty()
        || name.len() > NAME_BYTES_MAX
        || !name.starts_with(|c: char| c.is_ascii_alphabetic())
        || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if wrong {
        return Err(bad(format!("invalid characters in analyzer name '{name}'")));
    }
    let kind = body.text_of("type").ok_or_else(|| bad("'type' must be a string"))?;
    let given = body.attribute("properties");
    if !given.is_null() && given.as_object().is_none() {
        return Err(bad("'properties' must be an object"));
    }
    let rejected = |error: Error| {
        if error.code == Code::NotImplemented {
            return error;
        }
        let properties = if given.is_null() {
            " Init without properties".to_owned()
        } else {
            format!(" Properties '{}'", given.to_json())
        };
        bad(format!(
            "Failure initializing an arangosearch analyzer instance for name '{}::{name}' type '{kind}'.{properties} was rejected by analyzer. Please check documentation for corresponding analyzer type. ({})",
            call.db(),
            error.message
        ))
    };
    let properties = normalized(kind, &given).map_err(rejected)?;
    check_kind(kind, &properties).map_err(rejected)?;
    let analyzer = Analyzer {
        name: name.to_owned(),
        kind: kind.to_owned(),
        properties,
        features: features(&body.attribute("features"))?,
    };
    let full = format!("{}::{name}", call.db());
    let answer = analyzer_value(&full, &analyzer);
    let status = match find(call, name)? {
        None => {
            call.engine().put_analyzer(call.db(), analyzer)?;
            201
        }
        Some((_, known)) if same(&analyzer_value(&full, &known), &answer) => 200,
        Some((_, known)) => {
            let text = "Name collision detected while registering an arangosearch analyzer.";
            let (new, old) = (answer.to_json(), analyzer_value(&full, &known).to_json());
            return Err(bad(format!(
                "{text} Current definition is: {new} Previous definition was: {old}"
            )));
        }
    };
    Ok(Reply::json(status, &answer))
}

fn same(one: &Value, other: &Value) -> bool {
    let text = |value: &Value| {
        let mut text = Vec::new();
        write_text(value, &mut text);
        text
    };
    text(one) == text(other)
}

/// Reads a list of features and sorts them in ArangoDB's order. `position` requires `frequency`,
/// and `offset` requires `position`.
fn features(given: &Value) -> Result<Vec<String>> {
    let list = match given {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        _ => return Err(bad("'features' must be a list")),
    };
    for feature in list.iter() {
        if !feature.as_str().is_some_and(|name| FEATURES.contains(&name)) {
            return Err(bad(format!("unknown analyzer feature {}", feature.to_json())));
        }
    }
    let has = |name: &str| list.iter().any(|feature| feature.as_str() == Some(name));
    for (needed, by) in [("frequency", "position"), ("position", "offset")] {
        if has(by) && !has(needed) {
            return Err(bad(format!(
                "missing feature '{needed}' required when '{by}' feature is specified"
            )));
        }
    }
    Ok(FEATURES.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect())
}

/// `DELETE /_api/analyzer/A[?force=true]`
pub(super) fn remove(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_database(Level::Write)?;
    if built_in().iter().any(|analyzer| analyzer.name == name) {
        return Err(Error::new(Code::Forbidden, "built-in analyzers cannot be removed"));
    }
    let (db, name) = located(call, name)?;
    if db != call.db() {
        let text = format!("Analyzer '{db}::{name}' belongs to another database");
        return Err(Error::new(Code::Forbidden, text));
    }
    let known = call.database.analyzers.get(name);
    let analyzer: &Arc<Analyzer> = known.ok_or_else(|| Error::of(Code::DocumentNotFound))?;
    if call.request.flag("force") != Some(true) && is_used(call, &analyzer.name) {
        let text = format!(
            "analyzer in-use while removing arangosearch analyzer '{}::{}'",
            call.db(),
            analyzer.name
        );
        return Err(Error::new(Code::Conflict, text));
    }
    call.engine().drop_analyzer(call.db(), &analyzer.name)?;
    Ok(Reply::ok(200, object! { "name" => format!("{}::{}", call.db(), analyzer.name) }))
}

/// Whether a view or an inverted index of the database uses the analyzer.
fn is_used(call: &Call<'_>, name: &str) -> bool {
    let names = |definition: &Value| {
        let own = |used: &String| {
            located(call, used).is_ok_and(|(db, used)| db == call.db() && used == name)
        };
        named_in(definition).iter().any(own)
    };
    let inverted =
        |kind: &IndexKind| matches!(kind, IndexKind::DefinitionOnly(kind) if kind == "inverted");
    call.database.views.values().any(|view| names(&view.properties))
        || call.database.collections.values().any(|collection| {
            collection.indexes.iter().any(|index| inverted(&index.kind) && names(&index.definition))
        })
}
