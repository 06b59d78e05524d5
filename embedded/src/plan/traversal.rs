//! Plans traversals and path searches, such as `FOR v, e, p IN … OUTBOUND start …`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::node::{Followed, Node, Order, Traversal, UniqueVertices};
use super::options::bind_fault;
use super::scope::Builder;
use crate::error::{Code, Error, Result};
use crate::expr::Expr;
use crate::schema::{CollectionKind, Graph};
use crate::syntax::{self, Binary, Direction, Name, PathSearch};
use crate::value::Value;

/// The options of a traversal.
struct TraversalOptions {
    order: Order,
    unique_vertices: UniqueVertices,
    unique_edges: bool,
    edge_collections: Vec<Name>,
    vertex_collections: Vec<Name>,
    weight: Option<(Name, f64)>,
}

/// Options that a traversal allows.
const TRAVERSAL_OPTIONS: &[&str] = &[
    "bfs",
    "order",
    "mode",
    "uniqueVertices",
    "uniqueEdges",
    "edgeCollections",
    "vertexCollections",
    "defaultWeight",
    "weightAttribute",
    "parallelism",
    "maxProjections",
    "useCache",
    "indexHint",
];
/// Options that a path search allows.
const PATH_OPTIONS: &[&str] = &["weightAttribute", "defaultWeight", "algorithm", "useCache"];

/// The edge collections of a traversal, and the vertex collections that they connect, if known.
#[derive(Default)]
struct Reach {
    edges: Vec<Followed>,
    vertices: BTreeSet<usize>,
}

impl Builder<'_> {
    /// Plans the node of a traversal or a path search.
    pub(super) fn traversal(&mut self, traversal: &syntax::Traversal) -> Result<Node> {
        if traversal.search != PathSearch::Traversal && !cfg!(feature = "conformance") {
            return Err(Error::unsupported("a search for paths"));
        }
        self.read_anything("traversal")?;
        let (min, max) = self.depth(traversal.depth.as_ref())?;
        let start = self.vertex(&traversal.start)?;
        let target = traversal.target.as_ref().map(|target| self.vertex(target)).transpose()?;
        let options = match traversal.search {
            PathSearch::Traversal => self.traversal_options(traversal.options.as_ref())?,
            _ => self.path_options(traversal.options.as_ref())?,
        };
        let graph = traversal.graph.as_ref().map(|name| self.graph(name)).transpose()?;
        let reach = match &graph {
            Some(graph) => self.graph_reach(graph, traversal.direction, &options)?,
            None => self.listed_reach(traversal, &options)?,
        };
        self.plan.graphs = Some(self.database.graphs.clone());
        for name in &options.vertex_collections {
            self.collection(name)?;
        }
        let of_paths = !matches!(traversal.search, PathSearch::Traversal | PathSearch::Shortest);
        let [mut vertex, edge, mut path] = self.emitted(&traversal.variables)?;
        if of_paths {
            path = vertex.take();
            vertex = Some(self.register("")?);
        }
        let prune = match &traversal.prune {
            Some((name, condition)) => {
                let condition = self.expression(condition)?;
                if !condition.subqueries().is_empty() {
                    let message = "PRUNE condition must not use a subquery";
                    return Err(Error::new(Code::QueryParse, message));
                }
                Some((condition, name.as_ref().map(|name| self.declare_new(name)).transpose()?))
            }
            None => None,
        };
        Ok(Node::Traversal(Box::new(Traversal {
            search: traversal.search,
            start,
            target,
            weight: options.weight,
            min,
            max,
            graph: graph.map(|graph| Name::from(graph.name.as_str())),
            edges: reach.edges,
            vertices: reach.vertices.into_iter().collect(),
            only_vertices: options.vertex_collections,
            order: options.order,
            unique_vertices: options.unique_vertices,
            unique_edges: options.unique_edges,
            prune,
            vertex: vertex.unwrap_or_default(),
            edge,
            path,
        })))
    }

    /// Compiles a start or target vertex. Returns error 1501 for a constant that cannot be a
    /// vertex.
    fn vertex(&mut self, vertex: &syntax::Expr) -> Result<Expr> {
        let vertex = self.expression(vertex)?;
        if matches!(&vertex, Expr::Const(value) if names_no_vertex(value)) {
            return Err(invalid_start());
        }
        Ok(vertex)
    }

    fn emitted(&mut self, names: &[Name]) -> Result<[Option<usize>; 3]> {
        let mut out = [None; 3];
        for (slot, name) in out.iter_mut().zip(names) {
            *slot = Some(self.declare_new(name)?);
        }
        Ok(out)
    }

    /// Evaluates the depths of a traversal, which must be whole numbers known at planning time.
    /// Returns error 1501 for any other depth.
    fn depth(&mut self, depth: Option<&syntax::Expr>) -> Result<(u64, u64)> {
        let (min, max) = match depth {
            None => return Ok((1, 1)),
            Some(syntax::Expr::Binary(Binary::Range, min, max)) => {
                (self.depth_value(min)?, self.depth_value(max)?)
            }
            Some(one) => {
                let depth = self.depth_value(one)?;
                (depth, depth)
            }
        };
        if min > max { Err(invalid_depth()) } else { Ok((min, max)) }
    }

    fn depth_value(&mut self, depth: &syntax::Expr) -> Result<u64> {
        match self.known(depth)? {
            Some(Value::Int(n)) => u64::try_from(n).map_err(|_| invalid_depth()),
            Some(Value::UInt(n)) => Ok(n),
            Some(Value::Double(x)) if x >= 0.0 && x.fract() == 0.0 => Ok(x as u64),
            _ => Err(invalid_depth()),
        }
    }

    fn graph(&mut self, name: &syntax::Expr) -> Result<Arc<Graph>> {
        let Some(Value::String(name)) = self.known(name)? else {
            return Err(Error::of(Code::QueryBindParameterType));
        };
        let missing = || Error::new(Code::GraphNotFound, format!("graph '{name}' not found"));
        self.database.graphs.get(&*name).cloned().ok_or_else(missing)
    }

    fn graph_reach(
        &mut self,
        graph: &Graph,
        direction: Direction,
        options: &TraversalOptions,
    ) -> Result<Reach> {
        if graph.edge_definitions.is_empty() {
            return Err(Error::of(Code::GraphEmpty));
        }
        let mut reach = Reach::default();
        for definition in &graph.edge_definitions {
            if options.follows(&definition.collection) {
                self.follow(&definition.collection, direction, &mut reach)?;
            }
            for name in definition.from.iter().chain(&definition.to) {
                self.behind(name, &mut reach)?;
            }
        }
        for name in &graph.orphan_collections {
            self.behind(name, &mut reach)?;
        }
        for name in &options.edge_collections {
            self.collection(name)?;
        }
        Ok(reach)
    }

    /// Resolves the edge collections listed in the query. The definitions of the named graphs say
    /// which vertex collections each edge collection connects.
    fn listed_reach(
        &mut self,
        traversal: &syntax::Traversal,
        options: &TraversalOptions,
    ) -> Result<Reach> {
        let mut reach = Reach::default();
        for (own, source) in &traversal.edges {
            let name = self.source_name(source)?;
            self.plan.bound_edges |= !matches!(source, syntax::Source::Name(_));
            if options.follows(&name) {
                self.follow(&name, own.unwrap_or(traversal.direction), &mut reach)?;
            }
            for graph in self.database.graphs.values() {
                for definition in graph.edge_definitions.iter().filter(|d| *d.collection == *name) {
                    for end in definition.from.iter().chain(&definition.to) {
                        self.behind(end, &mut reach)?;
                    }
                }
            }
        }
        Ok(reach)
    }

    /// Adds an edge collection to a traversal. Returns error 1218 for a document collection, or for
    /// an edge collection that the traversal already follows in another direction.
    fn follow(&mut self, name: &str, direction: Direction, reach: &mut Reach) -> Result<()> {
        let collection = self.collection(name)?;
        self.read(collection)?;
        if self.plan.collections[collection].collection.kind != CollectionKind::Edge {
            let message = format!(
                "collection type invalid for collection '{name}': expecting collection type 'edge'"
            );
            return Err(Error::new(Code::CollectionTypeInvalid, message));
        }
        match reach.edges.iter().find(|followed| followed.collection == collection) {
            None => reach.edges.push(Followed { collection, direction }),
            Some(known) if known.direction == direction => {}
            Some(_) => {
                let message = format!("conflicting directions specified for collection '{name}'");
                return Err(Error::new(Code::CollectionTypeInvalid, message));
            }
        }
        Ok(())
    }

    fn behind(&mut self, name: &str, reach: &mut Reach) -> Result<()> {
        let collection = self.collection(name)?;
        self.read(collection)?;
        reach.vertices.insert(collection);
        Ok(())
    }

    fn traversal_options(&mut self, options: Option<&syntax::Expr>) -> Result<TraversalOptions> {
        let given = self.options(options)?;
        self.known_options(&given, "TRAVERSAL", TRAVERSAL_OPTIONS);
        let weight = weight(&given);
        let named = given.text_of("order").or_else(|| given.text_of("mode"));
        let order = match named.map(str::to_lowercase).as_deref() {
            None if given.attribute("bfs").is_true() => Order::BreadthFirst,
            None | Some("dfs") => Order::DepthFirst,
            Some("bfs") => Order::BreadthFirst,
            Some("weighted") => Order::Weighted,
            Some(_) => return Err(bad("mode: unknown mode")),
        };
        let lower = |name: &str| given.text_of(name).map(str::to_lowercase);
        let unique_vertices = match lower("uniqueVertices").as_deref() {
            Some("path") => UniqueVertices::Path,
            Some("global") if order == Order::DepthFirst => {
                return Err(bad(
                    "uniqueVertices: 'global' is only supported, with mode: bfs | weighted due \
                     to otherwise unpredictable results.",
                ));
            }
            Some("global") => UniqueVertices::Global,
            _ => UniqueVertices::None,
        };
        let unique_edges = match lower("uniqueEdges").as_deref() {
            Some("none") => false,
            Some("global") => {
                return Err(bad(
                    "uniqueEdges: 'global' is not supported, due to otherwise unpredictable \
                     results. Use 'path' or 'none' instead",
                ));
            }
            _ => true,
        };
        Ok(TraversalOptions {
            order,
            unique_vertices,
            unique_edges,
            edge_collections: names_of(&given, "edgeCollections")?,
            vertex_collections: names_of(&given, "vertexCollections")?,
            weight: if order == Order::Weighted { Some(weight) } else { None },
        })
    }

    fn path_options(&mut self, options: Option<&syntax::Expr>) -> Result<TraversalOptions> {
        let given = self.options(options)?;
        self.known_options(&given, "SHORTEST_PATH", PATH_OPTIONS);
        let weighs = !given.attribute("weightAttribute").is_null();
        Ok(TraversalOptions {
            order: Order::BreadthFirst,
            unique_vertices: UniqueVertices::Path,
            unique_edges: true,
            edge_collections: Vec::new(),
            vertex_collections: Vec::new(),
            weight: weighs.then(|| weight(&given)),
        })
    }

    /// Returns the value of an expression of constants and bind parameters, or `None` for any other
    /// expression.
    fn known(&mut self, expr: &syntax::Expr) -> Result<Option<Value>> {
        match self.constant(expr) {
            Ok(Expr::Const(value)) => Ok(Some(value)),
            Err(error) if bind_fault(error.code) => Err(error),
            _ => Ok(None),
        }
    }
}

impl TraversalOptions {
    fn follows(&self, collection: &str) -> bool {
        self.edge_collections.is_empty() || self.edge_collections.iter().any(|n| **n == *collection)
    }
}

fn weight(options: &Value) -> (Name, f64) {
    let attribute = options.text_of("weightAttribute").unwrap_or_default();
    let default = options.attribute("defaultWeight");
    let default = if default.is_number() { default.as_f64() } else { None };
    (Name::from(attribute), default.unwrap_or(1.0))
}

/// Reads a traversal option that is one name or a list of names.
fn names_of(options: &Value, attribute: &str) -> Result<Vec<Name>> {
    let given = options.attribute(attribute);
    let items = match &given {
        Value::Null => &[],
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let name = |item: &Value| match item {
        Value::String(name) => Ok(Name::clone(name)),
        _ => Err(bad(
            "collection restrictions option must be either a string or an array of collection names",
        )),
    };
    items.iter().map(name).collect()
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::BadParameter, message)
}

/// Whether a value causes an error if it is used as a start vertex. Other invalid values cause only
/// a warning.
pub fn names_no_vertex(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(_)) || value.is_number()
}

/// Returns error 1501 for a start vertex that is neither an id nor a document.
pub fn invalid_start() -> Error {
    let message = "invalid start vertex. Must either be an _id string or an object with _id.";
    Error::new(Code::QueryParse, message)
}

fn invalid_depth() -> Error {
    Error::new(Code::QueryParse, "invalid traversal depth")
}
