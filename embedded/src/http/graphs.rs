//! Handlers of `/_api/gharial`, which manage the definitions of named graphs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::limits::NAME_BYTES_MAX;
use crate::schema::{CollectionKind, Database, EdgeDefinition, Graph};
use crate::value::{Object, Value};

use super::auth::Level;
use super::call::Call;
use super::collection_body;
use super::limits::DECLARED_MAX;
use super::reply::{Reply, object};

/// Returns the JSON form of a graph. Edge definitions, and the collections in each definition, are
/// sorted by name.
fn graph_value(graph: &Graph) -> Value {
    let texts = |names: &[String]| {
        let sorted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        sorted.into_iter().map(Value::from).collect::<Vec<_>>()
    };
    let sorted: BTreeMap<&str, &EdgeDefinition> =
        graph.edge_definitions.iter().map(|d| (d.collection.as_str(), d)).collect();
    let definitions: Vec<Value> = sorted
        .into_values()
        .map(|d| {
            object! {
                "collection" => d.collection.as_str(),
                "from" => texts(&d.from),
                "to" => texts(&d.to),
            }
        })
        .collect();
    object! {
        "_key" => graph.name.as_str(),
        "edgeDefinitions" => definitions,
        "orphanCollections" => texts(&graph.orphan_collections),
        "_rev" => graph.rev.as_str(),
        "_id" => format!("_graphs/{}", graph.name),
        "name" => graph.name.as_str(),
    }
}

/// Returns the names of the graph's collections.
pub(super) fn collections_of(graph: &Graph) -> BTreeSet<&str> {
    let edges = graph.edge_definitions.iter().map(|d| d.collection.as_str());
    edges.chain(vertices_of(graph)).collect()
}

/// Returns the names of the graph's vertex collections, including orphans (collections that no edge
/// definition uses).
pub(super) fn vertices_of(graph: &Graph) -> BTreeSet<&str> {
    let ends = graph.edge_definitions.iter().flat_map(|d| d.from.iter().chain(&d.to));
    ends.chain(&graph.orphan_collections).map(String::as_str).collect()
}

/// Returns the graph with a name, or error 1924.
pub(super) fn find(call: &Call<'_>, name: &str) -> Result<Arc<Graph>> {
    let missing = || Error::new(Code::GraphNotFound, format!("graph '{name}' not found"));
    call.database.graphs.get(name).cloned().ok_or_else(missing)
}

/// Returns the answer's status: `synced` if the request sets `waitForSync`, otherwise 202.
pub(super) fn status(call: &Call<'_>, synced: u16) -> u16 {
    if call.request.flag("waitForSync") == Some(true) { synced } else { 202 }
}

fn reply(status: u16, graph: &Graph) -> Reply {
    Reply::ok(status, object! { "graph" => graph_value(graph) }).header("etag", &graph.rev)
}

/// `GET /_api/gharial`
pub(super) fn all(call: &Call<'_>) -> Result<Reply> {
    call.need_database(Level::Read)?;
    let graphs: Vec<Value> =
        call.database.graphs.values().map(|graph| graph_value(graph)).collect();
    Ok(Reply::ok(200, object! { "graphs" => graphs }))
}

/// `GET /_api/gharial/G`
pub(super) fn one(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_database(Level::Read)?;
    let graph = find(call, name)?;
    Ok(Reply::ok(200, object! { "graph" => graph_value(&graph) }))
}

/// `POST /_api/gharial`
pub(super) fn create(call: &Call<'_>) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let body = Value::object(call.request.object()?);
    let name = body.text_of("name").filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Error::of(Code::GraphCreateMissingName))?;
    if name.len() > NAME_BYTES_MAX || name.chars().any(|c| "/:".contains(c) || c.is_control()) {
        return Err(Error::of(Code::DocumentKeyBad));
    }
    let is_set = |attribute: &str| matches!(body.attribute(attribute), Value::Bool(true));
    if is_set("isSmart") || is_set("isDisjoint") || is_set("isSatellite") {
        return Err(Error::unsupported("smart and satellite graphs"));
    }
    if call.database.graphs.contains_key(name) {
        return Err(Error::of(Code::GraphDuplicate));
    }
    let mut graph = Graph {
        name: name.to_owned(),
        rev: call.engine().new_rev(),
        edge_definitions: definitions(&body.attribute("edgeDefinitions"))?,
        orphan_collections: orphans(&body.attribute("orphanCollections"))?,
    };
    let used: BTreeSet<String> =
        graph.edge_definitions.iter().flat_map(|d| d.from.iter().chain(&d.to).cloned()).collect();
    graph.orphan_collections.retain(|orphan| !used.contains(orphan));
    for definition in &graph.edge_definitions {
        need_same_elsewhere(call, &graph.name, definition)?;
    }
    put(call, &graph)?;
    Ok(reply(status(call, 201), &graph))
}

fn malformed() -> Error {
    Error::of(Code::GraphCreateMalformedEdgeDefinition)
}

fn definitions(given: &Value) -> Result<Vec<EdgeDefinition>> {
    let list = match given {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) if list.len() <= DECLARED_MAX => list,
        _ => return Err(malformed()),
    };
    let mut definitions: Vec<EdgeDefinition> = Vec::with_capacity(list.len());
    for one in list.iter() {
        let one = definition(one)?;
        if definitions.iter().any(|known| known.collection == one.collection) {
            return Err(Error::of(Code::GraphCollectionMultiUse));
        }
        definitions.push(one);
    }
    Ok(definitions)
}

/// Reads an edge definition and sorts its collections by name, as ArangoDB does.
fn definition(given: &Value) -> Result<EdgeDefinition> {
    let ends = |name: &str| -> Result<Vec<String>> {
        let list = given.attribute(name);
        let list = list.as_array().filter(|list| !list.is_empty()).ok_or_else(malformed)?;
        let names: Result<BTreeSet<String>> = list
            .iter()
            .map(|name| name.as_str().map(str::to_owned).ok_or_else(malformed))
            .collect();
        Ok(names?.into_iter().collect())
    };
    let collection = given.text_of("collection").ok_or_else(malformed)?.to_owned();
    Ok(EdgeDefinition { collection, from: ends("from")?, to: ends("to")? })
}

fn orphans(given: &Value) -> Result<Vec<String>> {
    let wrong = || Error::of(Code::GraphCreateMalformedOrphanList);
    match given {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) if list.len() <= DECLARED_MAX => {
            let names: Result<BTreeSet<String>> = list
                .iter()
                .map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong))
                .collect();
            Ok(names?.into_iter().collect())
        }
        _ => Err(wrong()),
    }
}

/// Returns error 1921 if the edge collection has another definition in another graph.
fn need_same_elsewhere(call: &Call<'_>, graph: &str, definition: &EdgeDefinition) -> Result<()> {
    let others = call.database.graphs.values().filter(|other| other.name != graph);
    for known in others.flat_map(|other| &other.edge_definitions) {
        let same = known.from == definition.from && known.to == definition.to;
        if known.collection == definition.collection && !same {
            return Err(Error::of(Code::GraphCollectionUseInMultiGraphs));
        }
    }
    Ok(())
}

/// Creates the missing collections of a graph, then stores the graph.
fn put(call: &Call<'_>, graph: &Graph) -> Result<()> {
    let edges =
        graph.edge_definitions.iter().map(|d| (d.collection.as_str(), CollectionKind::Edge));
    let vertices = vertices_of(graph).into_iter().map(|name| (name, CollectionKind::Document));
    let wanted: Vec<(&str, CollectionKind)> = edges.chain(vertices).collect();
    for (name, kind) in &wanted {
        match call.database.collections.get(*name) {
            Some(known) if *kind == CollectionKind::Edge && known.kind != CollectionKind::Edge => {
                return Err(Error::new(
                    Code::GraphInvalidEdge,
                    format!("'{name}' is not an edge collection"),
                ));
            }
            Some(_) => call.need_collection(name, Level::Read)?,
            None => collection_body::check_name(name, false)?,
        }
    }
    for (name, kind) in wanted {
        if !call.database.collections.contains_key(name) {
            make_collection(call, name, kind)?;
        }
    }
    call.engine().put_graph(call.db(), graph.clone())
}

fn make_collection(call: &Call<'_>, name: &str, kind: CollectionKind) -> Result<()> {
    let number = if kind == CollectionKind::Edge { 3_i64 } else { 2 };
    let given = object! { "name" => name, "type" => number };
    let mut collection = collection_body::new_collection(&given)?;
    collection.sharding = super::cluster::sharding(call, &given)?;
    match call.engine().create_collection(call.db(), collection) {
        // The collection exists already: the graph uses it for both edges and vertices, or another
        // request has just created it.
        Err(error) if error.code == Code::DuplicateName => Ok(()),
        done => done.map(|_| ()),
    }
}

/// `DELETE /_api/gharial/G[?dropCollections=true]`
pub(super) fn remove(call: &Call<'_>, name: &str) -> Result<Reply> {
    call.need_database(Level::Write)?;
    let graph = find(call, name)?;
    let drop_collections = call.request.flag("dropCollections") == Some(true);
    let doomed: Vec<&str> =
        if drop_collections { unshared(&call.database, &graph) } else { Vec::new() };
    for collection in &doomed {
        call.need_collection(collection, Level::Write)?;
    }
    call.engine().drop_graph(call.db(), &graph.name)?;
    for collection in doomed {
        drop_quietly(call, collection)?;
    }
    Ok(Reply::ok(status(call, 201), object! { "removed" => true }))
}

/// Returns the graph's collections that no other graph contains.
fn unshared<'a>(database: &Database, graph: &'a Graph) -> Vec<&'a str> {
    let others = database.graphs.values().filter(|other| other.name != graph.name);
    let kept: BTreeSet<&str> = others.flat_map(|other| collections_of(other)).collect();
    collections_of(graph).into_iter().filter(|name| !kept.contains(name)).collect()
}

/// Drops a collection; succeeds also if it does not exist any more.
fn drop_quietly(call: &Call<'_>, collection: &str) -> Result<()> {
    match call.engine().drop_collection(call.db(), collection) {
        Err(error) if error.code == Code::DataSourceNotFound => Ok(()),
        done => done,
    }
}

fn names(names: BTreeSet<&str>) -> Reply {
    let names: Vec<Value> = names.into_iter().map(Value::from).collect();
    Reply::ok(200, object! { "collections" => names })
}

/// `GET /_api/gharial/G/vertex`
pub(super) fn vertex_collections(call: &Call<'_>, name: &str) -> Result<Reply> {
    Ok(names(vertices_of(&*find(call, name)?)))
}

/// `GET /_api/gharial/G/edge`
pub(super) fn edge_collections(call: &Call<'_>, name: &str) -> Result<Reply> {
    let graph = find(call, name)?;
    Ok(names(graph.edge_definitions.iter().map(|d| d.collection.as_str()).collect()))
}

/// Stores a changed graph and returns it in the answer.
fn changed(call: &Call<'_>, mut graph: Graph) -> Result<Reply> {
    graph.rev = call.engine().new_rev();
    put(call, &graph)?;
    Ok(reply(status(call, 201), &graph))
}

fn editable(call: &Call<'_>, name: &str) -> Result<Graph> {
    call.need_database(Level::Write)?;
    Ok(Graph::clone(&*find(call, name)?))
}

/// `POST /_api/gharial/G/vertex`
pub(super) fn add_vertex_collection(call: &Call<'_>, name: &str) -> Result<Reply> {
    let mut graph = editable(call, name)?;
    let body = Value::object(call.request.object()?);
    let collection = body.text_of("collection").ok_or_else(|| Error::of(Code::IllegalName))?;
    if graph.orphan_collections.iter().any(|orphan| orphan == collection) {
        return Err(Error::of(Code::GraphCollectionUsedInOrphans));
    }
    if vertices_of(&graph).contains(collection) {
        let message = format!("'{collection}' is already used by an edge definition");
        return Err(Error::new(Code::GraphCollectionUsedInOrphans, message));
    }
    if call.database.collections.get(collection).is_some_and(|c| c.kind == CollectionKind::Edge) {
        return Err(Error::of(Code::GraphWrongCollectionTypeVertex));
    }
    graph.orphan_collections.push(collection.to_owned());
    changed(call, graph)
}

/// `DELETE /_api/gharial/G/vertex/C[?dropCollection=true]`
pub(super) fn remove_vertex_collection(
    call: &Call<'_>,
    name: &str,
    collection: &str,
) -> Result<Reply> {
    let mut graph = editable(call, name)?;
    if !vertices_of(&graph).contains(collection) {
        return Err(Error::of(Code::GraphVertexColDoesNotExist));
    }
    let Some(at) = graph.orphan_collections.iter().position(|orphan| orphan == collection) else {
        return Err(Error::of(Code::GraphNotInOrphanCollection));
    };
    graph.orphan_collections.remove(at);
    changed_and_dropped(call, graph, collection, "dropCollection")
}

/// Stores a changed graph, then drops the removed collection if the request asks for it and no
/// other graph contains the collection.
fn changed_and_dropped(
    call: &Call<'_>,
    graph: Graph,
    lost: &str,
    parameter: &str,
) -> Result<Reply> {
    let wished = call.request.flag(parameter) == Some(true);
    if wished {
        call.need_collection(lost, Level::Write)?;
    }
    let elsewhere = call
        .database
        .graphs
        .values()
        .any(|other| other.name != graph.name && collections_of(other).contains(lost));
    let here = collections_of(&graph).contains(lost);
    let reply = changed(call, graph)?;
    if wished && !elsewhere && !here {
        drop_quietly(call, lost)?;
    }
    Ok(reply)
}

/// `POST /_api/gharial/G/edge`
pub(super) fn add_definition(call: &Call<'_>, name: &str) -> Result<Reply> {
    let mut graph = editable(call, name)?;
    let new = definition(&Value::object(call.request.object()?))?;
    if graph.edge_definitions.iter().any(|known| known.collection == new.collection) {
        return Err(Error::of(Code::GraphCollectionMultiUse));
    }
    need_same_elsewhere(call, &graph.name, &new)?;
    graph
        .orphan_collections
        .retain(|orphan| !new.from.contains(orphan) && !new.to.contains(orphan));
    graph.edge_definitions.push(new);
    changed(call, graph)
}

/// `PUT /_api/gharial/G/edge/C`. Vertex collections that no edge definition uses any more become
/// orphans.
pub(super) fn replace_definition(call: &Call<'_>, name: &str, collection: &str) -> Result<Reply> {
    let mut graph = editable(call, name)?;
    let mut body: Object = call.request.object()?;
    body.insert("collection", collection.into());
    let new = definition(&Value::object(body))?;
    need_same_elsewhere(call, &graph.name, &new)?;
    let before: BTreeSet<String> = vertices_of(&graph).into_iter().map(str::to_owned).collect();
    let known = graph.edge_definitions.iter_mut().find(|known| known.collection == collection);
    *known.ok_or_else(|| Error::of(Code::GraphEdgeCollectionNotUsed))? = new;
    settle_orphans(&mut graph, before);
    changed(call, graph)
}

/// `DELETE /_api/gharial/G/edge/C[?dropCollections=true]`
pub(super) fn remove_definition(call: &Call<'_>, name: &str, collection: &str) -> Result<Reply> {
    let mut graph = editable(call, name)?;
    let before: BTreeSet<String> = vertices_of(&graph).into_iter().map(str::to_owned).collect();
    let at = graph.edge_definitions.iter().position(|known| known.collection == collection);
    graph.edge_definitions.remove(at.ok_or_else(|| Error::of(Code::GraphEdgeCollectionNotUsed))?);
    settle_orphans(&mut graph, before);
    changed_and_dropped(call, graph, collection, "dropCollections")
}

/// Makes orphans of all vertex collections that no edge definition uses.
fn settle_orphans(graph: &mut Graph, mut vertices: BTreeSet<String>) {
    vertices.extend(graph.orphan_collections.drain(..));
    for definition in &graph.edge_definitions {
        for end in definition.from.iter().chain(&definition.to) {
            vertices.remove(end);
        }
    }
    graph.orphan_collections = vertices.into_iter().collect();
}
