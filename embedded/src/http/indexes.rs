//! Handlers of `/_api/index`, which list, create, show and drop indexes.

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::schema::{Collection, Index, IndexKind, View};
use crate::value::{Object, Value, equal};

use super::analyzers;
use super::auth::Level;
use super::call::Call;
use super::cluster;
use super::index_body;
use super::reply::{Reply, object};

/// Returns the JSON form of an index.
fn index_value(
    call: &Call<'_>,
    collection: &Collection,
    index: &Index,
    with_hidden: bool,
) -> Result<Value> {
    let mut all = Object::with_capacity(12);
    match index.kind {
        IndexKind::Primary => {
            all.push_new("fields", vec![Value::from("_key")].into());
            all.push_new("type", "primary".into());
        }
        IndexKind::Edge => {
            all.push_new("fields", vec![Value::from("_from"), Value::from("_to")].into());
            all.push_new("type", "edge".into());
        }
        _ => {}
    }
    if let Some(definition) = index.definition.as_object() {
        for (name, value) in definition.iter() {
            all.insert(name.clone(), value.clone());
        }
    }
    all.insert("id", format!("{}/{}", collection.name, index.id).into());
    all.insert("name", index.name.as_str().into());
    all.insert("sparse", index.sparse.into());
    all.insert("unique", index.unique.into());
    // The selectivity is not measured. The attribute is always 1, as if no key occurred twice.
    if index.unique || index.kind == IndexKind::Edge || estimates(index) {
        all.insert("selectivityEstimate", Value::Int(1));
    }
    let release = call.database.release;
    if release.untrained_vectors()
        && let Some(training) = call.engine().training(index)?
    {
        all.insert("trainingState", training.state.into());
        let error = training.error.map(|error| error.message);
        if let Some(error) = &error {
            all.insert("errorMessage", error.as_str().into());
        }
        if with_hidden && release.vector_shards() {
            let shard = object! {
                "trainingState" => training.state,
                "error" => error.unwrap_or_default(),
                "resolvedNLists" => u64::from(training.lists),
            };
            let mut shards = Object::new();
            shards.push_new(shard_of(call, collection), shard);
            all.insert("shards", Value::object(shards));
        }
    }
    all.sort_by_name();
    Ok(Value::object(all))
}

/// Whether the index's definition sets `estimates`.
fn estimates(index: &Index) -> bool {
    matches!(index.definition.attribute("estimates"), Value::Bool(true))
}

/// Returns the name of a collection's first shard. On a single server, the shard's name is the
/// collection's name.
fn shard_of(call: &Call<'_>, collection: &Collection) -> String {
    if cluster::is_coordinator(call) {
        cluster::shard_name(collection, 0)
    } else {
        collection.name.clone()
    }
}

/// `GET /_api/index?collection=C`
pub(super) fn all(call: &Call<'_>) -> Result<Reply> {
    let collection = call.permitted(collection_name(call)?, Level::Read)?;
    let with_hidden = call.request.flag("withHidden") == Some(true);
    let list =
        collection.indexes.iter().map(|index| index_value(call, &collection, index, with_hidden));
    let mut list = list.collect::<Result<Vec<Value>>>()?;
    if with_hidden {
        list.extend(links(call, &collection));
    }
    let by_id: Object = list
        .iter()
        .map(|index| (index.text_of("id").unwrap_or_default().into(), index.clone()))
        .collect();
    Ok(Reply::ok(200, object! { "indexes" => list, "identifiers" => Value::object(by_id) }))
}

/// Returns the links from views to a collection, which ArangoDB lists as indexes.
fn links(call: &Call<'_>, collection: &Collection) -> Vec<Value> {
    let views = call.database.views.values().filter(|view| view.holds(&collection.name));
    let link = |view: &Arc<View>| {
        let links = view.properties.attribute("links");
        let mut all = links.attribute(&collection.name).as_object().cloned().unwrap_or_default();
        all.insert("id", format!("{}/{}", collection.name, view.id).into());
        all.insert("name", view.id.to_string().into());
        all.insert("type", "arangosearch".into());
        all.insert("view", format!("h0/{}", view.id).into());
        all.insert("sparse", true.into());
        all.insert("unique", false.into());
        Value::object(all)
    };
    views.map(link).collect()
}

/// Sets `features` of an inverted index and its fields from their analyzers. A field gets
/// `features` only if they differ from the index's.
fn with_features(call: &Call<'_>, index: &mut Index) -> Result<()> {
    let mut definition = index.definition.as_object().cloned().unwrap_or_default();
    let own = |level: &Value, name: &str| -> Result<Value> {
        match level.attribute("features") {
            Value::Null => analyzers::features_of(call, name),
            features => Ok(features),
        }
    };
    let name = index.definition.text_of("analyzer").unwrap_or("identity");
    let outer = own(&index.definition, name)?;
    let fields = index.definition.attribute("fields");
    let fields = fields.as_array().unwrap_or_default().iter().map(|field| {
        let features = match field.text_of("analyzer") {
            Some(name) => own(field, name)?,
            None if field.attribute("features").is_null() => outer.clone(),
            None => field.attribute("features"),
        };
        let mut field = field.as_object().cloned().unwrap_or_default();
        if field.get("analyzer").and_then(Value::as_str) == Some(name) {
            field.remove("analyzer");
        }
        if equal(&features, &outer) {
            field.remove("features");
        } else {
            field.insert("features", features);
        }
        Ok(Value::object(field))
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    definition.insert("features", outer);
    definition.insert("fields", fields.into());
    index.definition = Value::object(definition);
    Ok(())
}

fn collection_name<'a>(call: &'a Call<'_>) -> Result<&'a str> {
    call.request
        .parameter("collection")
        .filter(|name| !name.is_empty())
        .ok_or_else(|| Error::of(Code::CollectionParameterMissing).with_status(400))
}

fn find(collection: &Collection, id: &str) -> Result<Arc<Index>> {
    let number = id.parse::<u64>().ok();
    collection
        .indexes
        .iter()
        .find(|index| number == Some(index.id) || index.name == id)
        .cloned()
        .ok_or_else(|| Error::of(Code::IndexNotFound))
}

/// `GET /_api/index/C/ID`; `ID` may also be the index's name.
pub(super) fn one(call: &Call<'_>, collection: &str, id: &str) -> Result<Reply> {
    let collection = call.permitted(collection, Level::Read)?;
    let index = find(&collection, id)?;
    Ok(Reply::ok_merged(200, &index_value(call, &collection, &index, false)?))
}

/// `POST /_api/index?collection=C`: 201 for a new index, 200 for an existing index with the same
/// definition.
pub(super) fn create(call: &Call<'_>) -> Result<Reply> {
    let collection = call.permitted(collection_name(call)?, Level::Read)?;
    call.need_database(Level::Write)?;
    call.need_collection(&collection.name, Level::Write)?;
    let body = Value::object(call.request.object()?);
    let release = call.database.release;
    let mut wanted = index_body::index(&body, call.engine().options().vector_index, release)?;
    cluster::check_index(&collection, &wanted).map_err(|error| error.with_status(400))?;
    if wanted.is_inverted() {
        with_features(call, &mut wanted)?;
    }
    let (engine, db, name) = (call.engine(), call.db(), &collection.name);
    let in_background = index_body::flag(&body, "inBackground", false)?;
    // Before 3.12.9, a vector index is always trained before its creation is answered.
    let made = if in_background && release.untrained_vectors() {
        engine.create_index_in_background(db, name, wanted)
    } else {
        engine.create_index(db, name, wanted)
    };
    let (index, is_new) = made.map_err(creation_failed)?;
    if is_new {
        check_trained(call, &collection, &index, in_background)?;
    }
    let status = if is_new { 201 } else { 200 };
    let mut answer = Object::with_capacity(14);
    if let Some(shown) = index_value(call, &collection, &index, false)?.as_object() {
        for (name, value) in shown.iter() {
            answer.push_new(name.clone(), value.clone());
        }
    }
    answer.insert("isNewlyCreated", is_new.into());
    answer.sort_by_name();
    Ok(Reply::ok_merged(status, &Value::object(answer)))
}

/// Handles a new vector index that could not be trained. Until 3.12.8 it is dropped again, and the
/// creation fails. In 3.12.9 it stays, but its creation fails unless `inBackground` is set. The
/// creation succeeds in 3.12.10, and the answer contains the index's state.
fn check_trained(
    call: &Call<'_>,
    collection: &Collection,
    index: &Index,
    in_background: bool,
) -> Result<()> {
    let release = call.database.release;
    let Some(training) = call.engine().training(index)? else { return Ok(()) };
    if !release.untrained_vectors() && training.state != "ready" {
        call.engine().drop_index(call.db(), &collection.name, index.id)?;
        let error = match training.error {
            Some(error) if error.code != Code::QueryVectorIndexNotReady => error,
            Some(_) => Error::new(
                Code::NotImplemented,
                "For the vector index to be created documents must be present in the respective collection for the training process.",
            ),
            None => Error::of(Code::LockTimeout),
        };
        return Err(error.with_status(400));
    }
    match training.error {
        Some(error) if !in_background && !release.unusable_is_success() => Err(error),
        _ => Ok(()),
    }
}

/// Sets the status of a failed creation to 400, except for errors that keep their own status, such
/// as 11, 1212 and unsupported features.
fn creation_failed(error: Error) -> Error {
    let own_status = [
        Code::Forbidden,
        Code::IndexNotFound,
        Code::NotImplemented,
        Code::ReadOnly,
        Code::Internal,
        Code::SystemError,
        Code::DataSourceNotFound,
        Code::DatabaseNotFound,
    ];
    if own_status.contains(&error.code) { error } else { error.with_status(400) }
}

/// `DELETE /_api/index/C/ID`
pub(super) fn remove(call: &Call<'_>, collection: &str, id: &str) -> Result<Reply> {
    let collection = call.permitted(collection, Level::Read)?;
    call.need_database(Level::Write)?;
    call.need_collection(&collection.name, Level::Write)?;
    let index = find(&collection, id)?;
    if matches!(index.kind, IndexKind::Primary | IndexKind::Edge) {
        return Err(Error::new(Code::BadParameter, "primary and edge indexes cannot be dropped"));
    }
    call.engine().drop_index(call.db(), &collection.name, index.id)?;
    let id = format!("{}/{}", collection.name, index.id);
    Ok(Reply::json(200, &object! { "id" => id, "error" => false, "code" => 200_i64 }))
}
