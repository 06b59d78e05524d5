//! Handlers of `/_api/collection` that list, create, show, change, rename and drop collections.

use crate::error::{Code, Error, Result};
use crate::schema::{Collection, CollectionKind};
use crate::value::{Object, Value};

use super::auth::Level;
use super::call::Call;
use super::cluster;
use super::collection_body as body;
use super::reply::{Reply, object};
use super::request::percent_encode;

/// Returns the short JSON form of a collection.
pub(super) fn brief_of(collection: &Collection) -> Value {
    object! {
        "id" => collection.id.to_string(),
        "name" => collection.name.as_str(),
        "status" => 3_i64,
        "type" => kind_number(collection.kind),
        "isSystem" => collection.is_system,
        "globallyUniqueId" => unique_id(collection),
    }
}

/// Returns the number of a collection's `type` in JSON.
pub(super) fn kind_number(kind: CollectionKind) -> i64 {
    match kind {
        CollectionKind::Document => 2,
        CollectionKind::Edge => 3,
    }
}

/// Returns `globallyUniqueId` of a collection.
pub(super) fn unique_id(collection: &Collection) -> String {
    match &collection.sharding {
        _ if collection.is_system => collection.name.clone(),
        Some(_) => format!("c{}/", collection.id),
        None => format!("h0/{}", collection.id),
    }
}

/// Returns the long JSON form of a collection; `more` contains attributes that only some answers
/// have.
pub(super) fn properties_of(
    call: &Call<'_>,
    collection: &Collection,
    more: &Value,
) -> Result<Value> {
    let mut all = Object::with_capacity(24);
    let (count, mut more) =
        (more.attribute("count"), more.as_object().cloned().unwrap_or_default());
    more.remove("count");
    for (name, value) in more.iter() {
        all.push_new(name.clone(), value.clone());
    }
    let rest = object! {
        "writeConcern" => 1_i64,
        "waitForSync" => collection.wait_for_sync,
        "usesRevisionsAsDocumentIds" => true,
        "syncByRevision" => true,
        "supportsRBAC" => true,
        "statusString" => "loaded",
        "id" => collection.id.to_string(),
        "isSmartChild" => false,
        "schema" => body::schema_of(collection),
        "name" => collection.name.as_str(),
        "type" => kind_number(collection.kind),
        "status" => 3_i64,
        "cacheEnabled" => collection.cache_enabled,
        "isSystem" => collection.is_system,
        "internalValidatorType" => 0_i64,
        "globallyUniqueId" => unique_id(collection),
        "keyOptions" => body::key_options_of(collection, call.engine().last_key(collection.id)?),
        "computedValues" => collection.computed_values.clone(),
        "objectId" => collection.id.to_string(),
    };
    if let Some(rest) = rest.as_object() {
        for (name, value) in rest.iter() {
            all.insert(name.clone(), value.clone());
            if &**name == "status" && !count.is_null() {
                all.insert("count", count.clone());
            }
        }
    }
    cluster::show(collection, &mut all);
    Ok(Value::object(all))
}

/// Adds the `location` header with the request's path, as ArangoDB does for collections.
pub(super) fn located(call: &Call<'_>, reply: Reply) -> Reply {
    let path: Vec<String> = call.request.path.iter().map(|part| percent_encode(part)).collect();
    reply.header("location", &format!("/_db/{}/{}", percent_encode(call.db()), path.join("/")))
}

/// `GET /_api/collection`
pub(super) fn all(call: &Call<'_>) -> Result<Reply> {
    let without_system = call.request.flag("excludeSystem") == Some(true);
    let shown = |collection: &&std::sync::Arc<Collection>| {
        let visible = call.caller.collection(call.db(), &collection.name) >= Level::Read
            || (collection.name == "_users" && call.is_admin());
        visible && !(without_system && collection.is_system)
    };
    let list: Vec<Value> =
        call.database.collections.values().filter(shown).map(|c| brief_of(c)).collect();
    Ok(Reply::result(200, list.into()))
}

/// `POST /_api/collection`
pub(super) fn create(call: &Call<'_>) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let given = Value::object(call.request.object()?);
    let mut collection = body::new_collection(&given)?;
    collection.sharding = cluster::sharding(call, &given)?;
    if call.database.views.contains_key(&collection.name) {
        return Err(Error::of(Code::DuplicateName));
    }
    let made = call.engine().create_collection(call.db(), collection)?;
    Ok(Reply::ok(200, properties_of(call, &made, &Value::Null)?))
}

/// `GET /_api/collection/C`
pub(super) fn brief(call: &Call<'_>, name: &str) -> Result<Reply> {
    let collection = call.permitted(name, Level::Read)?;
    Ok(brief_answer(&collection))
}

/// `GET /_api/collection/C/properties`
pub(super) fn properties(call: &Call<'_>, name: &str) -> Result<Reply> {
    let collection = call.permitted(name, Level::Read)?;
    Ok(located(call, Reply::ok(200, properties_of(call, &collection, &Value::Null)?)))
}

/// `PUT /_api/collection/C/properties`
pub(super) fn change(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let collection = call.permitted(name, Level::Write)?;
    let given = Value::object(call.request.object()?);
    let changed =
        call.engine().change_collection(call.db(), &collection.name, &mut |collection| {
            cluster::change(collection, &given)?;
            body::change(collection, &given)
        })?;
    Ok(located(call, Reply::ok(200, properties_of(call, &changed, &Value::Null)?)))
}

/// `PUT /_api/collection/C/rename`
pub(super) fn rename(call: &Call<'_>, name: &str) -> Result<Reply> {
    cluster::need_single(call, "renaming a collection")?;
    call.need_database(Level::Write)?;
    let collection = call.permitted(name, Level::Write)?;
    let given = Value::object(call.request.object()?);
    let new =
        given.text_of("name").ok_or_else(|| Error::new(Code::IllegalName, "name is empty"))?;
    if call.database.views.contains_key(new) {
        return Err(Error::of(Code::DuplicateName));
    }
    if let Some(graph) = graph_with(call, &collection.name) {
        let message = format!("collections of graph '{graph}' cannot be renamed");
        return Err(Error::unsupported(message));
    }
    call.engine().rename_collection(call.db(), &collection.name, new)?;
    let database = call.engine().database(call.db())?;
    let renamed = database.collections.get(new).ok_or_else(|| super::call::not_found(new))?;
    Ok(located(call, brief_answer(renamed)))
}

/// Returns the name of a graph that contains the collection, if any.
fn graph_with<'a>(call: &'a Call<'_>, collection: &str) -> Option<&'a str> {
    call.database
        .graphs
        .values()
        .find(|graph| super::graphs::collections_of(graph).contains(collection))
        .map(|graph| graph.name.as_str())
}

/// `DELETE /_api/collection/C`
pub(super) fn remove(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let collection = call.permitted(name, Level::Write)?;
    if collection.is_system && call.request.flag("isSystem") != Some(true) {
        return Err(Error::of(Code::Forbidden));
    }
    if let Some(graph) = graph_with(call, &collection.name) {
        let message = format!("must not drop collection while part of graph '{graph}'");
        return Err(Error::new(Code::GraphMustNotDropCollection, message));
    }
    call.engine().drop_collection(call.db(), &collection.name)?;
    Ok(Reply::ok(200, object! { "id" => collection.id.to_string() }))
}

/// Returns the answer with a collection's short JSON form and a `location` header.
pub(super) fn brief_reply(call: &Call<'_>, collection: &Collection) -> Reply {
    located(call, brief_answer(collection))
}

/// Returns an answer with a collection's short JSON form. Its attributes have another order than in
/// the list of collections.
fn brief_answer(collection: &Collection) -> Reply {
    let mut shown = brief_of(collection).as_object().cloned().unwrap_or_default();
    shown.arrange(&["globallyUniqueId", "isSystem", "status", "type", "name", "id"]);
    Reply::ok(200, Value::object(shown))
}

/// Returns the error for `PUT` without a collection name and action, with ArangoDB's recorded text.
pub(super) fn no_action() -> Error {
    let message = "expected PUT /_api/collection/<collection-name>/<action>";
    Error::new(Code::HttpBadParameter, message)
}
