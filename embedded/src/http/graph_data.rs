//! Handlers of `/_api/gharial/G/vertex/…`, `…/edge/…` and `/_api/edges`, which read and write
//! vertices and edges. The ends of an edge must exist, and removing a vertex removes its edges.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use crate::error::{Code, Error, Result};
use crate::query::Stats;
use crate::schema::{Collection, CollectionKind, Graph, IndexKind};
use crate::txn::{Declared, IndexRange, Transaction, WriteOptions, Written};
use crate::value::{Object, Value};

use super::auth::Level;
use super::call::{Call, Work};
use super::documents::{Wish, as_precondition, described, precondition_failed};
use super::graphs::{find, status, vertices_of};
use super::limits::SCAN_BATCH;
use super::queries::stats;
use super::reply::{Reply, object};

/// The field `_from` of an edge index, to find edges that start at a vertex.
const FROM: usize = 0;
/// The field `_to` of an edge index, to find edges that end at a vertex.
const TO: usize = 1;

/// Returns a vertex or edge collection of a graph, or an error if it is not part of the graph or if
/// the caller lacks the access level.
fn member(
    call: &Call<'_>,
    graph: &Graph,
    kind: &str,
    name: &str,
    level: Level,
) -> Result<Arc<Collection>> {
    if kind == "vertex" {
        if !vertices_of(graph).contains(name) {
            return Err(Error::of(Code::GraphVertexColDoesNotExist));
        }
    } else if !graph.edge_definitions.iter().any(|d| d.collection == name) {
        return Err(Error::of(Code::GraphEdgeCollectionNotUsed));
    }
    call.permitted(name, level)
}

/// `GET /_api/gharial/G/vertex/C/K` and `…/edge/C/K`: reads a vertex or an edge.
pub(super) fn read(
    call: &Call<'_>,
    graph: &str,
    kind: &str,
    name: &str,
    key: &str,
) -> Result<Reply> {
    let graph = find(call, graph)?;
    let collection = member(call, &graph, kind, name, Level::Read)?;
    let work = call.reading(&collection)?;
    let document = work.get(&collection, key)?.ok_or_else(|| Error::of(Code::DocumentNotFound))?;
    let rev = document.text_of("_rev").unwrap_or_default().to_owned();
    let plain = |header: &str| header.trim().trim_matches('"').to_owned();
    let wanted = call.request.parameter("rev").or_else(|| call.request.header("if-match"));
    if wanted.map(plain).is_some_and(|wanted| wanted != rev) {
        return Err(precondition_failed(&collection.name, key, &rev));
    }
    if call.request.header("if-none-match").map(plain).as_ref() == Some(&rev) {
        return Ok(Reply::empty(304).header("etag", &rev));
    }
    Ok(Reply::ok(200, object! { kind => document }).header("etag", &rev))
}

/// Declares the collections of a write to a graph: one collection is written, and all vertex
/// collections of the graph may be read.
fn declared(call: &Call<'_>, graph: &Graph, written: &Collection) -> Declared {
    let known = |name: &&str| call.database.collections.contains_key(*name);
    let read = vertices_of(graph).into_iter().filter(known).map(str::to_owned).collect();
    Declared { read, write: vec![written.name.clone()], ..Declared::default() }
}

fn write(
    call: &Call<'_>,
    declared: &Declared,
    wish: &Wish,
    act: impl FnOnce(&Transaction) -> Result<Written>,
) -> Result<Written> {
    let work: Work = call.work(declared, wish.wait_for_sync)?;
    let savepoint = work.savepoint();
    let written = act(&work).inspect_err(|_| work.undo(savepoint)).map_err(as_precondition)?;
    work.finish(wish.wait_for_sync)?;
    Ok(written)
}

/// Returns an answer in the form `{vertex: {…}, new, old}`, or with `edge` in place of `vertex`.
fn reply(
    status: u16,
    kind: &str,
    collection: &Collection,
    written: &Written,
    wish: &Wish,
) -> Reply {
    let mut identity = Object::new();
    let mut body = Object::new();
    if let Some(all) = described(&collection.name, written, wish).as_object() {
        for (name, value) in all.iter() {
            let target = if ["new", "old"].contains(&&**name) { &mut body } else { &mut identity };
            target.push_new(name.clone(), value.clone());
        }
    }
    identity.arrange(&["_id", "_key", "_oldRev", "_rev"]);
    body.push_new(kind, Value::object(identity));
    Reply::ok(status, Value::object(body)).header("etag", &written.rev)
}

/// Checks that the ends of an edge are ids of existing documents in collections that the edge
/// definition allows.
fn check_ends(
    call: &Call<'_>,
    work: &Transaction,
    graph: &Graph,
    edges: &Collection,
    edge: &Value,
    all: bool,
) -> Result<()> {
    let Some(definition) = graph.edge_definitions.iter().find(|d| d.collection == edges.name)
    else {
        return Ok(());
    };
    for (attribute, allowed) in [("_from", &definition.from), ("_to", &definition.to)] {
        let id = match edge.attribute(attribute) {
            Value::Null if !all => continue,
            Value::String(id) => id,
            _ => return Err(Error::of(Code::InvalidEdgeAttribute)),
        };
        let Some((name, key)) = id.split_once('/') else {
            return Err(Error::of(Code::InvalidEdgeAttribute));
        };
        if !allowed.iter().any(|one| one == name) {
            let message =
                format!("referenced {attribute} collection '{name}' is not part of the graph");
            return Err(Error::new(Code::GraphReferencedVertexCollectionNotInGraph, message));
        }
        let vertices = call.permitted(name, Level::Read)?;
        if work.get(&vertices, key)?.is_none() {
            return Err(Error::of(Code::DocumentNotFound));
        }
    }
    Ok(())
}

/// `POST /_api/gharial/G/vertex/C` and `…/edge/C`: inserts a vertex or an edge.
pub(super) fn insert(call: &Call<'_>, graph: &str, kind: &str, name: &str) -> Result<Reply> {
    let graph = find(call, graph)?;
    let collection = member(call, &graph, kind, name, Level::Write)?;
    let wish = Wish::of(call, &collection)?;
    let document = Value::object(call.request.object()?);
    let written = write(call, &declared(call, &graph, &collection), &wish, |work| {
        if kind == "edge" {
            check_ends(call, work, &graph, &collection, &document, true)?;
        }
        work.insert(&collection, &document, &wish.options)
    })?;
    Ok(reply(status(call, 201), kind, &collection, &written, &wish))
}

/// `PATCH /_api/gharial/G/vertex/C/K` and `…/edge/C/K`: updates a vertex or an edge.
pub(super) fn update(
    call: &Call<'_>,
    graph: &str,
    kind: &str,
    name: &str,
    key: &str,
) -> Result<Reply> {
    let graph = find(call, graph)?;
    let collection = member(call, &graph, kind, name, Level::Write)?;
    let wish = Wish::of(call, &collection)?;
    let document = Value::object(call.request.object()?);
    let written = write(call, &declared(call, &graph, &collection), &wish, |work| {
        if kind == "edge" {
            check_ends(call, work, &graph, &collection, &document, false)?;
        }
        work.update(&collection, key, &document, &wish.options)
    })?;
    Ok(reply(status(call, 200), kind, &collection, &written, &wish))
}

/// `PUT /_api/gharial/G/vertex/C/K` and `…/edge/C/K`: replaces a vertex or an edge.
pub(super) fn replace(
    call: &Call<'_>,
    graph: &str,
    kind: &str,
    name: &str,
    key: &str,
) -> Result<Reply> {
    let graph = find(call, graph)?;
    let collection = member(call, &graph, kind, name, Level::Write)?;
    let wish = Wish::of(call, &collection)?;
    let document = Value::object(call.request.object()?);
    let written = write(call, &declared(call, &graph, &collection), &wish, |work| {
        if kind == "edge" {
            check_ends(call, work, &graph, &collection, &document, true)?;
        }
        work.replace(&collection, key, &document, &wish.options)
    })?;
    Ok(reply(status(call, 200), kind, &collection, &written, &wish))
}

/// `DELETE /_api/gharial/G/vertex/C/K` and `…/edge/C/K`. Removing a vertex removes its edges in
/// every graph.
pub(super) fn remove(
    call: &Call<'_>,
    graph: &str,
    kind: &str,
    name: &str,
    key: &str,
) -> Result<Reply> {
    let graph = find(call, graph)?;
    let collection = member(call, &graph, kind, name, Level::Write)?;
    let wish = Wish::of(call, &collection)?;
    let touching = if kind == "vertex" { edges_at(call, name)? } else { Vec::new() };
    let mut declared = declared(call, &graph, &collection);
    declared.write.extend(touching.iter().map(|edges| edges.name.clone()));
    let written = write(call, &declared, &wish, |work| {
        let written = work.remove(&collection, key, None, &wish.options)?;
        let id = format!("{}/{key}", collection.name);
        for edges in &touching {
            remove_edges(work, edges, &id)?;
        }
        Ok(written)
    })?;
    let mut body = Object::new();
    body.push_new("removed", Value::Bool(true));
    if wish.return_old {
        body.push_new("old", written.old);
    }
    Ok(Reply::ok(status(call, 200), Value::object(body)))
}

/// Returns the edge collections (of any graph) whose edges may start or end in a vertex collection;
/// fails unless the caller may write to all of them.
fn edges_at(call: &Call<'_>, vertices: &str) -> Result<Vec<Arc<Collection>>> {
    let definitions = call.database.graphs.values().flat_map(|graph| &graph.edge_definitions);
    let names: BTreeSet<&str> = definitions
        .filter(|d| d.from.iter().chain(&d.to).any(|end| end == vertices))
        .map(|d| d.collection.as_str())
        .filter(|name| call.database.collections.contains_key(*name))
        .collect();
    names.into_iter().map(|name| call.permitted(name, Level::Write)).collect()
}

fn remove_edges(work: &Transaction, edges: &Collection, vertex: &str) -> Result<()> {
    let options = WriteOptions::default();
    let mut keys = BTreeSet::new();
    for field in [FROM, TO] {
        touching(work, edges, vertex, field, |edge| {
            keys.extend(edge.text_of("_key").map(str::to_owned));
        })?;
    }
    for key in keys {
        work.remove(edges, &key, None, &options)?;
    }
    Ok(())
}

/// Calls `each` for every edge that starts at the vertex (`field` is `FROM`) or ends at it (`TO`),
/// using the edge index.
fn touching(
    work: &Transaction,
    edges: &Collection,
    vertex: &str,
    field: usize,
    mut each: impl FnMut(&Value),
) -> Result<()> {
    let index = edges
        .indexes
        .iter()
        .find(|index| index.kind == IndexKind::Edge)
        .ok_or_else(|| Error::of(Code::CollectionTypeInvalid))?;
    let range = IndexRange { equals: vec![Value::from(vertex)], ..IndexRange::default() };
    let mut scan = work.index_scan(edges, index, field, &range, false)?;
    loop {
        let batch = work.next(&mut scan, SCAN_BATCH)?;
        if batch.is_empty() {
            return Ok(());
        }
        batch.iter().for_each(&mut each);
    }
}

/// `GET /_api/edges/E?vertex=ID&direction=in|out|any`
pub(super) fn edges(call: &Call<'_>, name: &str) -> Result<Reply> {
    let started = Instant::now();
    let collection = call.permitted(name, Level::Read)?;
    if collection.kind != CollectionKind::Edge {
        return Err(Error::of(Code::CollectionTypeInvalid));
    }
    let vertex = call.request.parameter("vertex").filter(|id| id.contains('/'));
    let vertex = vertex.ok_or_else(|| Error::of(Code::DocumentHandleBad))?;
    let fields: &[usize] = match call.request.parameter("direction") {
        None | Some("any") => &[FROM, TO],
        Some("out") => &[FROM],
        Some("in") => &[TO],
        Some(_) => {
            return Err(Error::new(Code::HttpBadParameter, "'direction' must be in, out or any"));
        }
    };
    let work = call.reading(&collection)?;
    let mut keys = BTreeSet::new();
    let mut found = Vec::new();
    for field in fields {
        touching(&work, &collection, vertex, *field, |edge| {
            if keys.insert(edge.text_of("_key").unwrap_or_default().to_owned()) {
                found.push(edge.clone());
            }
        })?;
    }
    let count = found.len() as u64;
    let counted = Stats { scanned_index: count, document_lookups: count, ..Stats::default() };
    let mut stats = stats(&counted, started.elapsed().as_secs_f64());
    if let Value::Object(all) = &mut stats {
        // In the statistics, each direction counts as one index lookup without a cache.
        let looks = fields.len() as u64;
        let all = Arc::make_mut(all);
        all.insert("cursorsCreated", Value::from(looks));
        all.insert("cacheMisses", Value::from(looks));
    }
    let answer =
        object! { "edges" => found, "error" => false, "code" => 200_i64, "stats" => stats };
    Ok(Reply::json(200, &answer))
}
