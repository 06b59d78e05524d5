//! Handles requests to `/_api/view`: manages the definitions of views, and completes these
//! definitions with ArangoDB's default values.

use std::sync::Arc;

use crate::compat::Release;
use crate::error::{Code, Error, Result};
use crate::schema::View;
use crate::text::{IndexField, index_fields};
use crate::value::{Object, Value, equal};

use super::analyzers;
use super::auth::Level;
use super::call::{Call, not_found};
use super::reply::{Reply, object};
use super::view_body;

/// Maximum number of attempts to change a view that other requests change at the same time.
const CHANGE_TRIES_MAX: usize = 16;
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

/// How a change treats attributes that are missing in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Missing attributes keep their values.
    Patch,
    /// Missing attributes get their defaults.
    Replace,
}

fn defaults(release: Release) -> Value {
    let none = || Value::array(Vec::new());
    object! {
        "cleanupIntervalStep" => 2_i64,
        "commitIntervalMsec" => 1000_i64,
        "consolidationIntervalMsec" => release.consolidation_interval_ms(),
        "consolidationPolicy" => view_body::consolidation_policy(release),
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

/// Returns the answer to a request that reads one view. The attributes of this answer have the
/// order that was recorded from ArangoDB. In answers to other requests, the attributes have the
/// order of the view's definition.
fn merged(mut view: Object) -> Reply {
    const SHORT: [&str; 5] = ["type", "name", "indexes", "id", "globallyUniqueId"];
    const LONG: [&str; 18] = [
        "writebufferSizeMax",
        "writebufferIdle",
        "id",
        "storedValues",
        "name",
        "type",
        "consolidationPolicy",
        "writebufferActive",
        "links",
        "commitIntervalMsec",
        "consolidationIntervalMsec",
        "optimizeTopK",
        "globallyUniqueId",
        "cleanupIntervalStep",
        "primarySort",
        "primarySortCompression",
        "primarySortCache",
        "primaryKeyCache",
    ];
    view.arrange(if view.get("links").is_some() { &LONG } else { &SHORT });
    Reply::ok(200, Value::object(view))
}

fn find(call: &Call<'_>, name: &str) -> Result<Arc<View>> {
    let views = &call.database.views;
    let by_number = || views.values().find(|view| view.id.to_string() == name);
    views.get(name).or_else(by_number).cloned().ok_or_else(|| not_found(name))
}

/// Returns an error unless the caller may read every collection of the view.
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
    Ok(merged(brief_of(&view)))
}

/// `GET /_api/view/V/properties`
pub(super) fn properties(call: &Call<'_>, name: &str) -> Result<Reply> {
    let view = find(call, name)?;
    need_linked(call, &view)?;
    Ok(merged(properties_of(&view).as_object().cloned().unwrap_or_default()))
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
        "search-alias" => object! { "indexes" => alias(call, Vec::new(), &body)? },
        _ => return Err(bad("'type' must be arangosearch or search-alias")),
    };
    let view = View { id: 0, name: name.to_owned(), kind: kind.to_owned(), properties };
    need_linked(call, &view)?;
    let view = call.engine().put_view(call.db(), view)?;
    Ok(Reply::json(201, &properties_of(&view)))
}

/// Handles `PATCH` and `PUT /_api/view/V/properties`.
pub(super) fn change(call: &Call<'_>, name: &str, change: Change) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let body = Value::object(call.request.object()?);
    let mut before = find(call, name)?;
    // If another request changes the view during an attempt, the next attempt applies the body to
    // the new definition.
    for _ in 0..CHANGE_TRIES_MAX {
        need_linked(call, &before)?;
        let mut view = View::clone(&before);
        view.properties = if view.kind == "search-alias" {
            let kept = if change == Change::Patch { before.indexes() } else { Vec::new() };
            object! { "indexes" => alias(call, kept, &body)? }
        } else {
            let base = match change {
                Change::Patch => view.properties.clone(),
                Change::Replace => with_immutable(&view.properties, call.database.release),
            };
            arangosearch(call, &base, &body, false)?
        };
        need_linked(call, &view)?;
        if let Some(view) = call.engine().put_view_over(call.db(), Some(&before), view)? {
            return Ok(Reply::json(200, &properties_of(&view)));
        }
        let now = call.engine().database(call.db())?;
        let same = now.views.values().find(|view| view.id == before.id).cloned();
        before = same.ok_or_else(|| not_found(name))?;
    }
    Err(Error::new(Code::Conflict, "other requests changed the view during every attempt"))
}

/// Returns the default properties, but with the current values of attributes that cannot change.
fn with_immutable(current: &Value, release: Release) -> Value {
    let all = defaults(release);
    let all = all.as_object().into_iter().flat_map(Object::iter).map(|(name, default)| {
        let value =
            if IMMUTABLE.contains(&&**name) { current.attribute(name) } else { default.clone() };
        (name.clone(), value)
    });
    let mut all: Object = all.collect();
    for name in ["primarySortCache", "primaryKeyCache"] {
        if current.attribute(name).is_true() {
            all.insert(name, true.into());
        }
    }
    Value::object(all)
}

/// Returns the properties of an `arangosearch` view: the properties in `base`, with the changes
/// that the request's body contains.
fn arangosearch(call: &Call<'_>, base: &Value, body: &Value, is_new: bool) -> Result<Value> {
    let mut all = base.as_object().cloned().unwrap_or_default();
    for (name, given) in body.as_object().into_iter().flat_map(Object::iter) {
        let known = all.get(name).cloned();
        match (&**name, known) {
            ("links", Some(links)) => all.insert("links", changed_links(call, &links, given)?),
            (name, Some(_)) if !is_new && IMMUTABLE.contains(&name) => {}
            ("consolidationPolicy", Some(_)) => {
                all.insert(
                    "consolidationPolicy",
                    view_body::consolidation(given, call.database.release)?,
                );
            }
            ("primarySort", Some(_)) => all.insert("primarySort", view_body::primary_sort(given)?),
            ("storedValues", Some(_)) => {
                all.insert("storedValues", view_body::stored_values(given)?);
            }
            ("optimizeTopK", Some(_)) => all.insert("optimizeTopK", view_body::top_k(given)?),
            ("primarySortCompression", Some(_))
                if !matches!(given.as_str(), Some("lz4" | "none")) =>
            {
                return Err(bad("'primarySortCompression' is lz4 or none"));
            }
            (name @ ("primarySortCache" | "primaryKeyCache"), None) if is_new => {
                let flag = matches!(given, Value::Bool(_));
                if !flag {
                    return Err(bad(format!("'{name}' has the wrong type")));
                }
                if given.is_true() {
                    all.insert(name, given.clone());
                }
            }
            (name, Some(default)) => {
                let same_type = std::mem::discriminant(&default) == std::mem::discriminant(given);
                let numbers =
                    default.as_f64().is_some() && given.as_f64().is_some_and(|n| n >= 0.0);
                if !same_type && !numbers {
                    return Err(bad(format!("'{name}' has the wrong type")));
                }
                all.insert(name, given.clone());
            }
            // Attributes that only other ArangoDB releases or other view types have are ignored, as
            // in ArangoDB.
            (_, None) => {}
        }
    }
    Ok(Value::object(all))
}

/// Returns the links of a view after a change. `given` contains the changed links by collection
/// name; the value null removes a link.
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

/// Checks a link and completes it with defaults.
fn link_of(call: &Call<'_>, given: &Value) -> Result<Value> {
    if given.as_object().is_none() {
        return Err(bad("a link must be an object"));
    }
    check_analyzers(call, given)?;
    let given = &with_plain_analyzers(call, given);
    let or = |name: &str, default: Value| match given.attribute(name) {
        Value::Null => default,
        value => value,
    };
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

/// Converts each analyzer name at any depth of a link to the form that links show: without the
/// prefix of the request's database, or with the prefix `::` for an analyzer of `_system` in
/// another database. Also removes duplicate names.
fn with_plain_analyzers(call: &Call<'_>, level: &Value) -> Value {
    let Some(object) = level.as_object() else { return level.clone() };
    let entries = object.iter().map(|(name, value)| {
        let value = match (&**name, value) {
            ("analyzers", Value::Array(names)) => {
                let mut plain: Vec<Value> = Vec::new();
                for name in names.iter().filter_map(Value::as_str) {
                    let name = analyzers::plain_name(call, name);
                    if !plain.iter().any(|known| known.as_str() == Some(&name)) {
                        plain.push(name.into());
                    }
                }
                plain.into()
            }
            ("fields", Value::Object(fields)) => {
                let fields = fields.iter();
                let fields =
                    fields.map(|(name, field)| (name.clone(), with_plain_analyzers(call, field)));
                Value::object(fields.collect())
            }
            (_, value) => value.clone(),
        };
        (name.clone(), value)
    });
    Value::object(entries.collect())
}

/// Checks that every analyzer at any depth of a link exists.
fn check_analyzers(call: &Call<'_>, level: &Value) -> Result<()> {
    for name in analyzers::named_in(level) {
        analyzers::need(call, &name)?;
    }
    Ok(())
}

/// Returns the indexes of a `search-alias` view: starts with `kept`, then adds and removes indexes
/// as the body asks.
fn alias(call: &Call<'_>, kept: Vec<(String, String)>, body: &Value) -> Result<Value> {
    let mut list = kept;
    let given = body.attribute("indexes");
    let given = match &given {
        Value::Null => &[],
        Value::Array(given) => given.as_slice(),
        _ => return Err(bad("search-alias view optional field 'indexes' should be array")),
    };
    for entry in given {
        let name =
            entry.text_of("collection").ok_or_else(|| bad("'collection' should be a string"))?;
        if !call.database.collections.contains_key(name) {
            return Err(bad("Cannot find collection"));
        }
        let collection = call.permitted(name, Level::Read)?;
        let operation = match entry.attribute("operation") {
            Value::Null => "add".to_owned(),
            Value::String(operation) if ["", "add", "del"].contains(&&*operation) => {
                operation.to_string()
            }
            _ => return Err(bad("Invalid type of operation")),
        };
        let is_del = operation == "del";
        if is_del && !list.iter().any(|(known, _)| known == name) {
            return Err(bad("Cannot find collection for index to delete"));
        }
        let index = entry.text_of("index").ok_or_else(|| bad("'index' should be a string"))?;
        let number = index.parse::<u64>().ok();
        let found =
            collection.indexes.iter().find(|one| one.name == index || Some(one.id) == number);
        let found =
            found.filter(|one| one.is_inverted()).ok_or_else(|| bad("Cannot find index"))?;
        let entry = (collection.name.clone(), found.name.clone());
        if is_del {
            let at = list.iter().position(|one| *one == entry);
            list.swap_remove(at.ok_or_else(|| bad("Cannot find index to delete"))?);
        } else {
            list.push(entry);
        }
    }
    check_together(call, &list)?;
    let entry = |(collection, index): (String, String)| {
        object! { "collection" => collection.as_str(), "index" => index.as_str() }
    };
    Ok(list.into_iter().map(entry).collect::<Vec<_>>().into())
}

/// Refuses inverted indexes that cannot be in the same view: their sort orders, stored values or
/// common fields differ, or two indexes of one collection share a field.
fn check_together(call: &Call<'_>, list: &[(String, String)]) -> Result<()> {
    let mut known: Vec<(&str, IndexField)> = Vec::new();
    let mut first: Option<Value> = None;
    for (name, index_name) in list {
        let collection = call.database.collections.get(name);
        let index = collection
            .and_then(|of| of.indexes.iter().find(|one| one.name == *index_name))
            .ok_or_else(|| bad("Cannot find index"))?;
        let place = format!(". Collection name '{name}', index name '{index_name}'.");
        let first = first.get_or_insert_with(|| index.definition.clone());
        for (option, what) in [("primarySort", "primary sort"), ("storedValues", "stored values")] {
            let same = equal(&first.attribute(option), &index.definition.attribute(option));
            if !same {
                return Err(bad(format!("index {what} mismatches view {what}{place}")));
            }
        }
        let fields = index_fields(&call.database, &index.definition)?;
        for field in &fields {
            for (owner, other) in &known {
                let covers = |a: &IndexField, b: &IndexField| {
                    a.path == b.path || a.include_all && b.path.starts_with(&a.path)
                };
                if !covers(field, other) && !covers(other, field) {
                    continue;
                }
                let path = field.path.join(".");
                if *owner == name {
                    return Err(bad(format!(
                        "You cannot add to view indexes to the same collection, if them index the same fields. Error for: same field '{path}', collection '{name}'"
                    )));
                }
                if field.search != other.search {
                    return Err(bad(format!(
                        "Index field '{path}' searchField '{}' mismatches view field searchField '{}'{place}",
                        field.search, other.search
                    )));
                }
                if field.analysis.name != other.analysis.name {
                    return Err(bad(format!(
                        "Index field '{path}' analyzer '{}' mismatches view field analyzer '{}'{place}",
                        field.analysis.name, other.analysis.name
                    )));
                }
            }
        }
        known.extend(fields.into_iter().map(|field| (name.as_str(), field)));
    }
    Ok(())
}

/// `PUT /_api/view/V/rename`
pub(super) fn rename(call: &Call<'_>, name: &str) -> Result<Reply> {
    super::cluster::need_single(call, "renaming a view")?;
    call.need_database(Level::Write)?;
    let view = find(call, name)?;
    need_linked(call, &view)?;
    let body = Value::object(call.request.object()?);
    let new = body.text_of("name").ok_or_else(|| bad("'name' must be a string"))?;
    let renamed = call.engine().rename_view(call.db(), &view.name, new)?;
    Ok(Reply::json(200, &properties_of(&renamed)))
}

/// `DELETE /_api/view/V`
pub(super) fn remove(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let view = find(call, name)?;
    need_linked(call, &view)?;
    call.engine().drop_view(call.db(), &view.name)?;
    Ok(Reply::result(200, true.into()))
}
