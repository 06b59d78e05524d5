//! `/_api/view`: views as definitions, with ArangoDB's defaults.

use std::sync::Arc;

use crate::compat::{Consolidation, Release};
use crate::error::{Code, Error, Result};
use crate::schema::{Collection, IndexKind, View};
use crate::value::{Object, Value};

use super::analyzers;
use super::auth::Level;
use super::call::{Call, not_found};
use super::reply::{Reply, object};

/// Attributes of an `arangosearch` view that are fixed at creation.
const IMMUTABLE: [&str; 9] = [
    "primarySort",
    "primarySortCompression",
    "storedValues",
    "optimizeTopK",
    "writebufferActive",
    "writebufferIdle",
    "writebufferSizeMax",
    "primarySortCache",
    "primaryKeyCache",
];

/// How a change treats what it does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It stays.
    Patch,
    /// It goes back to its default.
    Replace,
}

/// `consolidationPolicy` of a release.
pub(super) fn consolidation_policy(release: Release) -> Value {
    let segments = |min: i64, max: i64, bytes_max: i64, bytes_floor: i64| {
        object! {
            "type" => "tier",
            "segmentsMin" => min,
            "segmentsMax" => max,
            "segmentsBytesMax" => bytes_max,
            "segmentsBytesFloor" => bytes_floor,
            "minScore" => 0_i64,
        }
    };
    match release.consolidation() {
        Consolidation::Segments => segments(1, 10, 5 << 30, 2 << 20),
        Consolidation::ManySegments => segments(50, 200, 8 << 30, 24 << 20),
        Consolidation::Skew => object! {
            "type" => "tier",
            "segmentsBytesMax" => 8_589_934_592_i64,
            "maxSkewThreshold" => Value::Double(0.4),
            "minDeletionRatio" => Value::Double(0.5),
        },
    }
}

fn defaults(release: Release) -> Value {
    let none = || Value::array(Vec::new());
    object! {
        "cleanupIntervalStep" => 2_i64,
        "commitIntervalMsec" => 1000_i64,
        "consolidationIntervalMsec" => release.consolidation_interval_ms(),
        "consolidationPolicy" => consolidation_policy(release),
        "optimizeTopK" => none(),
        "primarySort" => none(),
        "primarySortCompression" => "lz4",
        "storedValues" => none(),
        "writebufferActive" => 0_i64,
        "writebufferIdle" => 64_i64,
        "writebufferSizeMax" => 33_554_432_i64,
        "links" => object! {},
    }
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::BadParameter, message)
}

fn brief_of(view: &View) -> Object {
    let mut all = Object::new();
    all.push_new("globallyUniqueId", format!("h0/{}", view.id).into());
    all.push_new("id", view.id.to_string().into());
    all.push_new("name", view.name.as_str().into());
    all.push_new("type", view.kind.as_str().into());
    all
}

fn properties_of(view: &View) -> Value {
    let mut all = brief_of(view);
    if let Some(properties) = view.properties.as_object() {
        for (name, value) in properties.iter() {
            all.insert(name.clone(), value.clone());
        }
    }
    Value::object(all)
}

fn find(call: &Call<'_>, name: &str) -> Result<Arc<View>> {
    let views = &call.database.views;
    let by_number = || views.values().find(|view| view.id.to_string() == name);
    views.get(name).or_else(by_number).cloned().ok_or_else(|| not_found(name))
}

/// Reading a view needs reading every collection it draws from.
pub(super) fn need_linked(call: &Call<'_>, view: &View) -> Result<()> {
    for name in linked(&view.properties) {
        call.need_collection(&name, Level::Read)?;
    }
    Ok(())
}

fn linked(properties: &Value) -> Vec<String> {
    let links = properties.attribute("links");
    let by_link =
        links.as_object().into_iter().flat_map(Object::iter).map(|(name, _)| name.to_string());
    let indexes = properties.attribute("indexes");
    let by_index = indexes.as_array().unwrap_or_default().iter();
    let by_index = by_index.filter_map(|index| index.text_of("collection").map(str::to_owned));
    by_link.chain(by_index).collect()
}

/// `GET /_api/view`
pub(super) fn all(call: &Call<'_>) -> Result<Reply> {
    let visible = |view: &&Arc<View>| need_linked(call, view).is_ok();
    let views = call.database.views.values().filter(visible);
    Ok(Reply::result(
        200,
        views.map(|view| Value::object(brief_of(view))).collect::<Vec<_>>().into(),
    ))
}

/// `GET /_api/view/V`
pub(super) fn brief(call: &Call<'_>, name: &str) -> Result<Reply> {
    let view = find(call, name)?;
    need_linked(call, &view)?;
    Ok(Reply::ok(200, Value::object(brief_of(&view))))
}

/// `GET /_api/view/V/properties`
pub(super) fn properties(call: &Call<'_>, name: &str) -> Result<Reply> {
    let view = find(call, name)?;
    need_linked(call, &view)?;
    Ok(Reply::ok(200, properties_of(&view)))
}

/// `POST /_api/view`
pub(super) fn create(call: &Call<'_>) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let body = Value::object(call.request.object()?);
    let name = body.text_of("name").ok_or_else(|| bad("'name' must be a string"))?;
    if call.database.collections.contains_key(name) || call.database.views.contains_key(name) {
        return Err(Error::of(Code::DuplicateName));
    }
    let kind = body.text_of("type").unwrap_or_default();
    let properties = match kind {
        "arangosearch" => arangosearch(call, &defaults(call.database.release), &body, true)?,
        "search-alias" => object! { "indexes" => alias(call, &[], &body)? },
        _ => return Err(bad("'type' must be arangosearch or search-alias")),
    };
    let view = View { id: 0, name: name.to_owned(), kind: kind.to_owned(), properties };
    need_linked(call, &view)?;
    let view = call.engine().put_view(call.db(), view)?;
    Ok(Reply::json(201, &properties_of(&view)))
}

/// `PATCH` and `PUT /_api/view/V/properties`
pub(super) fn change(call: &Call<'_>, name: &str, change: Change) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let mut view = View::clone(&*find(call, name)?);
    let body = Value::object(call.request.object()?);
    view.properties = if view.kind == "search-alias" {
        let kept = view.properties.attribute("indexes");
        let kept = if change == Change::Patch { kept.as_array().unwrap_or_default() } else { &[] };
        object! { "indexes" => alias(call, kept, &body)? }
    } else {
        let base = match change {
            Change::Patch => view.properties.clone(),
            Change::Replace => with_immutable(&view.properties, call.database.release),
        };
        arangosearch(call, &base, &body, false)?
    };
    need_linked(call, &view)?;
    call.engine().put_view(call.db(), view.clone())?;
    Ok(Reply::json(200, &properties_of(&view)))
}

/// The defaults, but what cannot change as it is.
fn with_immutable(current: &Value, release: Release) -> Value {
    let all = defaults(release);
    let all = all.as_object().into_iter().flat_map(Object::iter).map(|(name, default)| {
        let value =
            if IMMUTABLE.contains(&&**name) { current.attribute(name) } else { default.clone() };
        (name.clone(), value)
    });
    Value::object(all.collect())
}

/// Properties of an `arangosearch` view: `base` with what the body names.
fn arangosearch(call: &Call<'_>, base: &Value, body: &Value, is_new: bool) -> Result<Value> {
    let mut all = base.as_object().cloned().unwrap_or_default();
    for (name, given) in body.as_object().into_iter().flat_map(Object::iter) {
        let known = all.get(name).cloned();
        match (&**name, known) {
            ("links", Some(links)) => all.insert("links", changed_links(call, &links, given)?),
            (name, Some(_)) if !is_new && IMMUTABLE.contains(&name) => {}
            (name, Some(default)) => {
                let same_type = std::mem::discriminant(&default) == std::mem::discriminant(given);
                let numbers =
                    default.as_f64().is_some() && given.as_f64().is_some_and(|n| n >= 0.0);
                if !same_type && !numbers {
                    return Err(bad(format!("'{name}' has the wrong type")));
                }
                all.insert(name, given.clone());
            }
            // Names of other versions and kinds are ignored, as the server does.
            (_, None) => {}
        }
    }
    Ok(Value::object(all))
}

/// Links by collection; null takes one away.
fn changed_links(call: &Call<'_>, links: &Value, given: &Value) -> Result<Value> {
    let mut links = links.as_object().cloned().unwrap_or_default();
    let given = given.as_object().ok_or_else(|| bad("'links' must be an object"))?;
    for (name, link) in given.iter() {
        if link.is_null() {
            links.remove(name);
        } else {
            call.permitted(name, Level::Read)?;
            links.insert(name.clone(), link_of(call, link)?);
        }
    }
    Ok(Value::object(links))
}

/// One link with its defaults.
fn link_of(call: &Call<'_>, given: &Value) -> Result<Value> {
    if given.as_object().is_none() {
        return Err(bad("a link must be an object"));
    }
    let or = |name: &str, default: Value| match given.attribute(name) {
        Value::Null => default,
        value => value,
    };
    check_analyzers(call, given)?;
    let mut link = Object::new();
    link.push_new("analyzers", or("analyzers", vec![Value::from("identity")].into()));
    link.push_new("fields", or("fields", object! {}));
    link.push_new("includeAllFields", or("includeAllFields", false.into()));
    link.push_new("storeValues", or("storeValues", "none".into()));
    link.push_new("trackListPositions", or("trackListPositions", false.into()));
    for name in ["nested", "cache"] {
        if !given.attribute(name).is_null() {
            link.push_new(name, given.attribute(name));
        }
    }
    Ok(Value::object(link))
}

/// Every analyzer named at any depth of `fields` must exist.
fn check_analyzers(call: &Call<'_>, level: &Value) -> Result<()> {
    for name in analyzers::named_in(level) {
        analyzers::need(call, &name)?;
    }
    Ok(())
}

/// Indexes of a `search-alias` view: those kept, then what the body adds or deletes.
fn alias(call: &Call<'_>, kept: &[Value], body: &Value) -> Result<Value> {
    let mut list: Vec<Value> = kept.to_vec();
    let given = body.attribute("indexes");
    let given = match &given {
        Value::Null => &[],
        Value::Array(given) => given.as_slice(),
        _ => return Err(bad("'indexes' must be a list")),
    };
    for entry in given {
        let (Some(name), Some(index)) = (entry.text_of("collection"), entry.text_of("index"))
        else {
            return Err(bad("an entry of 'indexes' needs 'collection' and 'index'"));
        };
        let same = |one: &Value| {
            one.text_of("collection") == Some(name) && one.text_of("index") == Some(index)
        };
        list.retain(|one| !same(one));
        match entry.text_of("operation") {
            None | Some("add") => {
                need_inverted(&*call.permitted(name, Level::Read)?, index)?;
                list.push(object! { "collection" => name, "index" => index });
            }
            Some("del") => {}
            Some(_) => return Err(bad("'operation' must be add or del")),
        }
    }
    Ok(list.into())
}

fn need_inverted(collection: &Collection, index: &str) -> Result<()> {
    let found = collection.indexes.iter().find(|one| one.name == index);
    match found.map(|one| &one.kind) {
        Some(IndexKind::DefinitionOnly(kind)) if kind == "inverted" => Ok(()),
        Some(_) => Err(bad("a search-alias view needs inverted indexes")),
        None => Err(Error::of(Code::IndexNotFound)),
    }
}

/// `PUT /_api/view/V/rename`: the new name stands before the old one goes.
pub(super) fn rename(call: &Call<'_>, name: &str) -> Result<Reply> {
    super::cluster::need_single(call, "renaming a view")?;
    call.need_database(Level::Write)?;
    let mut view = View::clone(&*find(call, name)?);
    let body = Value::object(call.request.object()?);
    let new = body.text_of("name").ok_or_else(|| bad("'name' must be a string"))?;
    if call.database.collections.contains_key(new) || call.database.views.contains_key(new) {
        return Err(Error::of(Code::DuplicateName));
    }
    let old = std::mem::replace(&mut view.name, new.to_owned());
    call.engine().put_view(call.db(), view.clone())?;
    call.engine().drop_view(call.db(), &old)?;
    Ok(Reply::json(200, &properties_of(&view)))
}

/// `DELETE /_api/view/V`
pub(super) fn remove(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let view = find(call, name)?;
    need_linked(call, &view)?;
    call.engine().drop_view(call.db(), &view.name)?;
    Ok(Reply::result(200, true.into()))
}
