//! Traversals: follow edges from a start vertex through the edge indexes, in the transaction's
//! snapshot.
//!
//! The vertex that a traversal visits next is the first (breadth first) or the last (depth first)
//! of the pending vertices.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::sync::Arc;

use super::executor::{Executor, Flow, Pass};
use super::weighed::Weighed;
use crate::error::{Code, Error, Result};
use crate::expr::{Expr, Row, eval};
use crate::limits::{TRAVERSAL_DEPTH_MAX, TRAVERSAL_EDGES_MAX};
use crate::plan::{Followed, Order, Traversal, UniqueVertices, invalid_start, names_no_vertex};
use crate::schema::{Collection, IndexKind};
#[cfg(feature = "conformance")]
use crate::syntax::PathSearch;
use crate::syntax::{Direction, Name};
use crate::txn::IndexRange;
use crate::value::{Object, Value};

/// Number of edges in one batch.
pub(super) const EDGES_BATCH: usize = 256;
/// Memory size of a step or a pending vertex of a traversal, in bytes, without the values of
/// vertices and edges.
const STEP_BYTES: usize = 128;
/// For each direction, the field of the edge index (0 for `_from`, 1 for `_to`) and the attribute
/// of the edge's other end.
pub(super) const OUTWARDS: (usize, &str) = (0, "_to");
pub(super) const INWARDS: (usize, &str) = (1, "_from");

/// A visited vertex and the path to it.
struct Step {
    parent: Option<Arc<Step>>,
    edge: Value,
    id: Arc<str>,
    vertex: Value,
    depth: u64,
    weight: f64,
}

/// A vertex that is not visited yet.
struct PendingVertex {
    from: Arc<Step>,
    edge: Value,
    id: Arc<str>,
    bytes: u64,
    /// The weight of the path to the vertex.
    weight: f64,
}

/// The state of one traversal.
struct Walk<'q> {
    traversal: &'q Traversal,
    ahead: VecDeque<PendingVertex>,
    /// The pending vertices of a traversal with the order `weighted`.
    queue: BinaryHeap<Reverse<Weighed<PendingVertex>>>,
    /// Visited vertices, if each vertex may be visited only once.
    met: HashSet<Arc<str>>,
    edges: u64,
    held: u64,
    /// Whether the budget does not count the size of the current vertex yet. The size is counted
    /// when the first neighbour to visit is found.
    unheld: bool,
}

impl Drop for Step {
    /// Frees a long path step by step, because recursion could overflow the stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut step) = next.and_then(Arc::into_inner) {
            next = step.parent.take();
        }
    }
}

impl Step {
    /// Returns the steps of a path from the last step to the first step.
    fn back(&self) -> impl Iterator<Item = &Step> {
        std::iter::successors(Some(self), |step| step.parent.as_deref())
    }

    /// Returns the path as `{vertices, edges, weights}`. Unless the order is `weighted`, each edge
    /// has the weight 1.
    fn path(&self) -> Value {
        let mut weights: Vec<Value> =
            self.back().map(|step| Value::finite(step.weight).unwrap_or_default()).collect();
        weights.reverse();
        let mut vertices: Vec<Value> = self.back().map(|step| step.vertex.clone()).collect();
        let mut edges: Vec<Value> = self
            .back()
            .filter(|step| step.parent.is_some())
            .map(|step| step.edge.clone())
            .collect();
        vertices.reverse();
        edges.reverse();
        let mut path = Object::with_capacity(3);
        path.push_new("vertices", Value::array(vertices));
        path.push_new("edges", Value::array(edges));
        path.push_new("weights", Value::array(weights));
        Value::object(path)
    }
}

impl Walk<'_> {
    fn next(&mut self) -> Option<PendingVertex> {
        match self.traversal.order {
            Order::BreadthFirst => self.ahead.pop_front(),
            Order::DepthFirst => self.ahead.pop_back(),
            Order::Weighted => self.queue.pop().map(|Reverse(lightest)| lightest.item),
        }
    }

    /// Removes and returns the next pending vertex. With the order `weighted`, skips vertices that
    /// a lighter path has already reached.
    fn next_new(&mut self) -> Option<PendingVertex> {
        let once = self.traversal.order == Order::Weighted
            && self.traversal.unique_vertices == UniqueVertices::Global;
        loop {
            let ahead = self.next()?;
            if !once || self.met.insert(Arc::clone(&ahead.id)) {
                return Some(ahead);
            }
        }
    }

    /// Whether the uniqueness rules and the options allow the edge.
    fn allows(&mut self, step: &Step, edge: &Value, id: &Arc<str>) -> bool {
        let only = &self.traversal.only_vertices;
        if !only.is_empty() {
            let collection = id.split_once('/').map_or("", |(collection, _)| collection);
            if !only.iter().any(|name| **name == *collection) {
                return false;
            }
        }
        let followed = |step: &Step| step.edge.text_of("_id") == edge.text_of("_id");
        if self.traversal.unique_edges
            && step.back().any(|step| step.parent.is_some() && followed(step))
        {
            return false;
        }
        match self.traversal.unique_vertices {
            UniqueVertices::None => true,
            UniqueVertices::Path => step.back().all(|step| step.id != *id),
            // With the order `weighted`, a vertex is marked as visited only when it leaves the
            // queue, because only then its lightest path is known.
            UniqueVertices::Global if self.traversal.order == Order::Weighted => {
                !self.met.contains(id)
            }
            UniqueVertices::Global => self.met.insert(Arc::clone(id)),
        }
    }
}

/// Returns the weight of an edge: 1 if the traversal uses no weights; error 1948 for a negative
/// weight.
pub(super) fn weight_of(edge: &Value, weight: Option<&(Name, f64)>) -> Result<f64> {
    let Some((attribute, default)) = weight else { return Ok(1.0) };
    let given = edge.attribute(attribute);
    let weight = if given.is_number() { given.as_f64() } else { None }.unwrap_or(*default);
    if weight < 0.0 { Err(Error::of(Code::GraphNegativeEdgeWeight)) } else { Ok(weight) }
}

impl<'q> Executor<'q> {
    /// Sends each visited vertex to the next node.
    pub(super) fn traverse(
        &mut self,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
        traversal: &'q Traversal,
    ) -> Result<Flow> {
        #[cfg(feature = "conformance")]
        if traversal.search != PathSearch::Traversal {
            return self.find_paths(pass, at, row, traversal);
        }
        let Some(start) = self.start(traversal, row)? else { return Ok(Flow::More) };
        let mut walk = Walk {
            traversal,
            ahead: VecDeque::new(),
            queue: BinaryHeap::new(),
            met: HashSet::from([Arc::clone(&start.id)]),
            edges: 0,
            held: 0,
            unheld: true,
        };
        let mut next = Some(start);
        while let Some(step) = next {
            if self.visit(&mut walk, step, pass, at, row)? == Flow::Enough {
                self.budget.let_go(walk.held);
                return Ok(Flow::Enough);
            }
            next = match walk.next_new() {
                Some(ahead) => {
                    if traversal.order == Order::DepthFirst {
                        // A depth-first traversal now releases the bytes that the budget counts for
                        // this vertex. The paths of earlier siblings are already freed, so only one
                        // path is in memory.
                        walk.held -= ahead.bytes;
                        self.budget.let_go(ahead.bytes);
                    }
                    Some(self.arrive(ahead)?)
                }
                None => None,
            };
        }
        self.budget.let_go(walk.held);
        Ok(Flow::More)
    }

    /// Returns the start vertex. For a value that is not an id, returns `None` with warning 10, or
    /// error 1501 if the value is a bind parameter. A start vertex that does not exist is null
    /// without a warning, and the traversal still follows its edges.
    fn start(&mut self, traversal: &'q Traversal, row: &mut Row) -> Result<Option<Arc<Step>>> {
        let Some(id) = self.end_of(&traversal.start, row)? else { return Ok(None) };
        let Some((collection, key)) = id.split_once('/') else { return Ok(None) };
        let Some(collection) = self.database.collections.get(collection) else { return Ok(None) };
        self.stats.scanned_index += 1;
        let vertex = self.transaction.get(collection, key)?.unwrap_or_default();
        let id = Arc::clone(&id);
        let edge = Value::Null;
        Ok(Some(Arc::new(Step { parent: None, edge, id, vertex, depth: 0, weight: 0.0 })))
    }

    /// Returns the id of a start or target vertex; `None` with a warning for a value that is not an
    /// id.
    pub(super) fn end_of(&mut self, end: &'q Expr, row: &mut Row) -> Result<Option<Arc<str>>> {
        let value = eval(end, row, self.binds, self)?;
        if matches!(end, Expr::Bind(_)) && names_no_vertex(&value) {
            return Err(invalid_start());
        }
        let id = match &value {
            Value::Object(object) => object.get("_id").cloned().unwrap_or_default(),
            other => other.clone(),
        };
        match id {
            Value::String(id) if id.contains('/') => Ok(Some(id)),
            _ => {
                let message =
                    "Invalid input for traversal: Only id strings or objects with _id are allowed";
                self.warnings.raise(Code::BadParameter, message)?;
                Ok(None)
            }
        }
    }

    /// Reads the vertex at the end of an edge; a missing vertex is null with warning 1202.
    fn arrive(&mut self, ahead: PendingVertex) -> Result<Arc<Step>> {
        let PendingVertex { from, edge, id, weight, .. } = ahead;
        let vertex = self.vertex_of(&id)?;
        let depth = from.depth + 1;
        Ok(Arc::new(Step { parent: Some(from), edge, id, vertex, depth, weight }))
    }

    /// Reads a vertex by its id; a missing vertex is null with warning 1202.
    pub(super) fn vertex_of(&mut self, id: &str) -> Result<Value> {
        let (name, key) = id.split_once('/').unwrap_or((id, ""));
        let Some(collection) = self.database.collections.get(name) else {
            let message = format!("collection not known to traversal: '{name}'");
            return Err(Error::new(Code::DataSourceNotFound, message));
        };
        self.stats.scanned_index += 1;
        match self.transaction.get(collection, key)? {
            Some(vertex) => Ok(vertex),
            None => {
                let message = format!("vertex '{id}' not found");
                self.warnings.raise(Code::DocumentNotFound, message)?;
                Ok(Value::Null)
            }
        }
    }

    /// Sends a vertex to the next node and adds the vertex's neighbours to the pending vertices.
    fn visit(
        &mut self,
        walk: &mut Walk<'q>,
        step: Arc<Step>,
        pass: &mut Pass<'q>,
        at: usize,
        row: &mut Row,
    ) -> Result<Flow> {
        let traversal = walk.traversal;
        let missing_start = step.depth == 0 && step.vertex.is_null();
        let emits = step.depth >= traversal.min && !missing_start;
        if emits || traversal.prune.is_some() {
            row[traversal.vertex] = step.vertex.clone();
            if let Some(edge) = traversal.edge {
                row[edge] = step.edge.clone();
            }
            if let Some(path) = traversal.path {
                row[path] = step.path();
            }
        }
        let mut pruned = false;
        if let Some((condition, out)) = &traversal.prune {
            let value = eval(condition, row, self.binds, self)?;
            pruned = value.is_true();
            if let Some(out) = out {
                row[*out] = value;
            }
        }
        if emits && self.push(pass, at + 1, row)? == Flow::Enough {
            return Ok(Flow::Enough);
        }
        if !pruned && step.depth < traversal.max {
            self.look_ahead(walk, &step)?;
        }
        Ok(Flow::More)
    }

    fn look_ahead(&mut self, walk: &mut Walk<'q>, step: &Arc<Step>) -> Result<()> {
        if step.depth >= TRAVERSAL_DEPTH_MAX {
            let message = format!("traversal deeper than {TRAVERSAL_DEPTH_MAX} edges");
            return Err(Error::new(Code::ResourceLimit, message));
        }
        walk.unheld = true;
        for Followed { collection, direction } in &walk.traversal.edges {
            let collection = &*self.plan.collections[*collection].collection;
            match direction {
                Direction::Outbound => self.edges(walk, step, collection, OUTWARDS, false)?,
                Direction::Inbound => self.edges(walk, step, collection, INWARDS, false)?,
                Direction::Any => {
                    self.edges(walk, step, collection, OUTWARDS, false)?;
                    self.edges(walk, step, collection, INWARDS, true)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the edges of one collection that leave the vertex in one direction. If the traversal
    /// follows both directions, an edge from a vertex to itself is added only once.
    fn edges(
        &mut self,
        walk: &mut Walk<'q>,
        step: &Arc<Step>,
        collection: &Collection,
        (field, other): (usize, &str),
        second: bool,
    ) -> Result<()> {
        let index = collection.indexes.iter().find(|index| index.kind == IndexKind::Edge);
        let index = index.ok_or_else(|| Error::of(Code::IndexNotFound))?;
        let here = Value::String(Arc::clone(&step.id));
        let range = IndexRange { equals: vec![here], ..IndexRange::default() };
        let mut scan = self.transaction.index_scan(collection, index, field, &range, false)?;
        loop {
            let edges = self.transaction.next(&mut scan, EDGES_BATCH)?;
            if edges.is_empty() {
                return Ok(());
            }
            for edge in edges {
                self.stats.scanned_index += 1;
                self.budget.row()?;
                walk.edges += 1;
                if walk.edges > TRAVERSAL_EDGES_MAX {
                    let message = format!("traversal along more than {TRAVERSAL_EDGES_MAX} edges");
                    return Err(Error::new(Code::ResourceLimit, message));
                }
                let Value::String(id) = edge.attribute(other) else { continue };
                if second && id == step.id || !walk.allows(step, &edge, &id) {
                    continue;
                }
                // The size of the first pending edge includes the size of the vertex, because the
                // vertex stays in memory while one of its edges is pending.
                let held = std::mem::take(&mut walk.unheld);
                let vertex = if held { step.vertex.size_bytes() } else { 0 };
                let bytes = edge.size_bytes() + id.len() + STEP_BYTES + vertex;
                self.budget.hold(bytes)?;
                let bytes = bytes as u64;
                walk.held += bytes;
                let weight = step.weight + weight_of(&edge, walk.traversal.weight.as_ref())?;
                let ahead = PendingVertex { from: Arc::clone(step), edge, id, bytes, weight };
                match walk.traversal.order {
                    Order::Weighted => {
                        let number = walk.edges;
                        walk.queue.push(Reverse(Weighed { weight, number, item: ahead }));
                    }
                    _ => walk.ahead.push_back(ahead),
                }
            }
        }
    }
}
