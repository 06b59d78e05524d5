//! Data types of query plans; the node names are those of ArangoDB.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::condition::Search;
use crate::compat::Release;
use crate::error::Code;
use crate::expr::{Expr, Register};
use crate::schema::{Collection, Graph, Index, VectorParams, View};
use crate::syntax::{Direction, Name, PathSearch};
use crate::txn::WriteOptions;
use crate::value::Value;

/// A query plan that can run repeatedly with different values of the query's bind parameters.
#[derive(Debug, Default)]
pub struct Plan {
    /// The main query.
    pub root: Pipeline,
    /// The query's subqueries; an inner subquery comes before its outer subquery.
    pub subqueries: Vec<Pipeline>,
    /// The names of the variables in the registers, by register number.
    pub variables: Vec<String>,
    /// The collections that the query uses.
    pub collections: Vec<Used>,
    /// The database's named graphs, if the plan depends on them.
    pub graphs: Option<BTreeMap<String, Arc<Graph>>>,
    /// The query's loops over views and inverted indexes.
    pub views: Vec<UsedView>,
    /// Names of the value bind parameters, indexed by slot number.
    pub binds: Vec<Name>,
    /// Whether the bind parameter of each slot was null when the plan was made.
    pub bind_was_null: Vec<bool>,
    /// Slots of bind parameters that must not be null, because the plan reads an index that omits
    /// null values.
    pub never_null: Vec<usize>,
    /// Names and values of the bind parameters that shaped the plan: collections, attribute names
    /// and options.
    pub structural: Vec<(String, Value)>,
    /// Names of the optimizer rules that changed the plan.
    pub rules: Vec<&'static str>,
    /// Whether a bind parameter names an edge collection of a traversal.
    pub bound_edges: bool,
    /// Registers of the loops that need not read documents. The index of such a loop contains all
    /// attributes that the query uses.
    pub covered: Vec<Register>,
    /// Whether the query's writes wait for the sync to disk.
    pub wait_for_sync: bool,
    /// The ArangoDB release whose optimizer rules made the plan.
    pub release: Release,
    /// Warnings from planning; each run of the plan reports them.
    pub warnings: Vec<(Code, String)>,
}

impl Plan {
    /// Returns the vector indexes that the plan uses.
    pub fn vector_indexes(&self) -> Vec<&Index> {
        let nodes = [&self.root].into_iter().chain(&self.subqueries).flat_map(|p| &p.nodes);
        let asked = nodes.filter_map(|node| match node {
            Node::EnumerateNearVector(near) => Some(&*near.index),
            _ => None,
        });
        asked.collect()
    }
}

/// A collection of a query, and how the query uses it.
#[derive(Debug)]
pub struct Used {
    /// The collection's definition at planning time.
    pub collection: Arc<Collection>,
    /// Whether a loop or a function of the query reads the collection.
    pub read: bool,
    /// Whether the query writes to the collection.
    pub write: bool,
    /// Whether the query writes to the collection with the option `exclusive`.
    pub exclusive: bool,
}

/// The source of a loop over the segments of a view or an inverted index.
#[derive(Debug)]
pub enum ViewSource {
    /// A view with its definition at planning time.
    View(Arc<View>),
    /// An inverted index that the loop's index hint names.
    Index(Arc<Index>),
}

/// A loop over a view or an inverted index.
#[derive(Debug)]
pub struct UsedView {
    /// The view or inverted index that the loop reads.
    pub source: ViewSource,
    /// Ids of the segment stores to search: the view's own id, or the ids of the inverted indexes.
    pub stores: Vec<u64>,
    /// The collections whose documents the view or inverted index contains, as positions in
    /// [`Plan::collections`].
    pub collections: Vec<usize>,
    /// Names of the collections to which the query restricts the search, if any.
    pub only: Option<Vec<String>>,
    /// The register of the loop's variable.
    pub out: Register,
    /// The condition of the SEARCH.
    pub search: Search,
    /// The scorer calls of the query.
    pub scorers: Vec<ViewScorer>,
    /// For each call of `OFFSET_INFO`: the paths in its argument, and the register for its result.
    pub offsets: Vec<(Expr, Register)>,
    /// Whether the search first waits until the view contains all earlier commits.
    pub wait_for_sync: bool,
    /// Which best-scored rows the query needs, if it does not need all rows.
    pub best: Option<BestRows>,
}

/// The range of best-scored rows that a query needs from a loop over a view.
#[derive(Debug)]
pub struct BestRows {
    /// The scorer that orders the rows, as an index into [`UsedView::scorers`].
    pub scorer: usize,
    /// Offset of the LIMIT after the search.
    pub offset: Expr,
    /// Count of the LIMIT after the search.
    pub count: Expr,
    /// Whether further sort keys order the rows with equal scores. Without further sort keys, rows
    /// with equal scores have the order in which the search found them.
    pub ties: bool,
}

/// A scorer call, which computes a score for each document of a view.
#[derive(Debug)]
pub struct ViewScorer {
    /// The scoring formula.
    pub kind: ScorerKind,
    /// The scorer's arguments after the document variable.
    pub arguments: Vec<Expr>,
    /// The register for the score.
    pub out: Register,
}

/// Scoring formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScorerKind {
    /// `BM25(d, k, b)`
    Bm25,
    /// `TFIDF(d, normalize)`
    Tfidf,
}

/// The pipeline of nodes that a query's rows pass through.
#[derive(Debug, Default)]
pub struct Pipeline {
    /// The pipeline's nodes in order; the first node receives one row.
    pub nodes: Vec<Node>,
    /// The end of each stage: the index after the stage's last node. Each stage except the last
    /// ends with a node that collects all rows.
    pub stages: Vec<usize>,
    /// The first register that belongs to the pipeline itself. Registers with lower numbers belong
    /// to the incoming row, and have the same values in all rows of the pipeline.
    pub own_from: Register,
}

/// One node of a pipeline.
#[derive(Debug)]
pub enum Node {
    /// A loop over all documents of a collection.
    EnumerateCollection { collection: usize, out: Register, hint: Hint },
    /// A loop over the documents that an index lookup finds.
    Index { collection: usize, out: Register, lookup: Box<Lookup> },
    /// A loop over the documents whose vectors are nearest to a query vector; a vector index finds
    /// these documents.
    EnumerateNearVector(Box<NearVector>),
    /// A loop over the documents that a view finds or, if `indexed` is true, that an inverted index
    /// finds.
    EnumerateView { view: usize, out: Register, indexed: bool },
    /// A loop over the items of a list.
    EnumerateList { source: Expr, out: Register },
    /// A loop over the vertices that a traversal or path search reaches.
    Traversal(Box<Traversal>),
    /// Keeps rows that fulfil a condition.
    Filter(Expr),
    /// Computes a value for a register.
    Calculation { value: Expr, out: Register },
    /// Sorts all rows by the sort keys; `true` means descending.
    Sort(Vec<(Expr, bool)>),
    /// Keeps the rows that a LIMIT selects.
    Limit { offset: Expr, count: Expr },
    /// Collects all rows and groups them.
    Collect(Box<Collect>),
    /// Computes aggregates for each row over a window: the rows around this row.
    Window(Box<Window>),
    /// Collects all rows before the first write, so that no loop reads documents that the query
    /// itself wrote.
    Gather,
    /// Writes a document for each row.
    Write(Box<Write>),
    /// Returns a value for each row.
    Return { value: Expr, distinct: bool },
}

/// The index hints in the `OPTIONS` of a FOR.
#[derive(Clone, Debug, Default)]
pub struct Hint {
    /// Names of indexes to prefer.
    pub names: Vec<String>,
    /// Whether the query fails (1577) if no index of the hint is usable.
    pub force: bool,
    /// Whether the loop must not use an index.
    pub disable: bool,
}

/// A lookup in an index.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The index that the lookup reads.
    pub index: Arc<Index>,
    /// For an edge index, the field to look up: `_from` (0) or `_to` (1).
    pub field: usize,
    /// Whether the values to look up are document ids (`_id`), which the lookup converts to keys.
    pub by_id: bool,
    /// Values that the index's first fields must equal.
    pub equals: Vec<Expr>,
    /// A list of values; the index field after those in `equals` must equal one of them.
    pub one_of: Option<Expr>,
    /// Lower bound of the index field after `equals`, and whether the bound is inclusive.
    pub lower: Option<(Expr, bool)>,
    /// Upper bound of the index field after `equals`, and whether the bound is inclusive.
    pub upper: Option<(Expr, bool)>,
    /// Whether the index is read backwards.
    pub backwards: bool,
}

/// A search in a vector index.
#[derive(Debug)]
pub struct NearVector {
    /// The collection, as an index into [`Plan::collections`].
    pub collection: usize,
    /// The searched index.
    pub index: Arc<Index>,
    /// The parameters of the searched vector index.
    pub params: VectorParams,
    /// The register for the found document.
    pub out: Register,
    /// The register for the similarity or distance of the found document.
    pub similarity: Register,
    /// The query vector.
    pub vector: Expr,
    /// The options of the nearness call (`nProbe`), if present.
    pub options: Option<Expr>,
    /// Conditions that documents must fulfil.
    pub filters: Vec<Expr>,
    /// Whether the index's stored values contain all attributes of the conditions.
    pub covered: bool,
    /// Attributes of the document that the query uses; `None` for all attributes.
    pub attributes: Option<Vec<String>>,
    /// Offset and count of the `LIMIT` after the vector search.
    pub limit: (Expr, Expr),
}

/// `FOR v, e, p IN min..max OUTBOUND start …`
#[derive(Debug)]
pub struct Traversal {
    /// Whether the loop is a traversal or a path search, and which path search.
    pub search: PathSearch,
    /// The start vertex: an id or a document.
    pub start: Expr,
    /// The target vertex of a path search.
    pub target: Option<Expr>,
    /// The attribute with an edge's weight, and the default weight for edges whose attribute is not
    /// a number.
    pub weight: Option<(Name, f64)>,
    /// Minimum number of edges on the path to an emitted vertex.
    pub min: u64,
    /// Maximum number of edges on the path to an emitted vertex.
    pub max: u64,
    /// Name of the named graph, if the query uses one.
    pub graph: Option<Name>,
    /// The edge collections to follow.
    pub edges: Vec<Followed>,
    /// The vertex collections in the graph's definition.
    pub vertices: Vec<usize>,
    /// Names of the vertex collections that may be visited; an empty list allows all.
    pub only_vertices: Vec<Name>,
    /// The order in which a traversal visits vertices.
    pub order: Order,
    /// How often the same vertex may be visited.
    pub unique_vertices: UniqueVertices,
    /// Whether a path may use an edge only once.
    pub unique_edges: bool,
    /// The `PRUNE` condition that ends a path, and the register for the condition's value, if any.
    pub prune: Option<(Expr, Option<Register>)>,
    /// The register for the reached vertex.
    pub vertex: Register,
    /// The register for the last edge of the path, if the query uses it.
    pub edge: Option<Register>,
    /// The register for the path, if the query uses it.
    pub path: Option<Register>,
}

/// An edge collection and the direction in which its edges are followed.
#[derive(Clone, Copy, Debug)]
pub struct Followed {
    /// The collection, as an index into [`Plan::collections`].
    pub collection: usize,
    /// The direction in which edges are followed.
    pub direction: Direction,
}

/// `order` of a traversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `dfs`
    DepthFirst,
    /// `bfs`
    BreadthFirst,
    /// `weighted`, which visits the vertex with the lightest path first.
    Weighted,
}

/// `uniqueVertices` of a traversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueVertices {
    /// Each vertex is visited once for each path that reaches it.
    None,
    /// Each vertex is visited at most once in each path.
    Path,
    /// Each vertex is visited at most once in the whole traversal.
    Global,
}

/// `COLLECT`
#[derive(Debug)]
pub struct Collect {
    /// Expressions of the group keys, with their registers.
    pub keys: Vec<(Expr, Register)>,
    /// Aggregates.
    pub aggregates: Vec<(Aggregate, Expr, Register)>,
    /// The register for the rows of a group.
    pub into: Option<(Into, Register)>,
    /// The register for the number of rows of a group.
    pub count: Option<Register>,
}

/// `WINDOW`
#[derive(Debug)]
pub struct Window {
    /// The value that a range window compares; `None` for a window that counts rows.
    pub range: Option<Expr>,
    /// The bounds of the window.
    pub bounds: Bounds,
    /// Aggregates.
    pub aggregates: Vec<(Aggregate, Expr, Register)>,
}

/// The lower and upper bounds of a `WINDOW`, relative to the current row.
#[derive(Clone, Debug)]
pub enum Bounds {
    /// Bounds of a row window: numbers of rows before and after the current row.
    Rows(u64, u64),
    /// Bounds of a range window: distances below and above the current row's value.
    Numbers(f64, f64),
    /// Bounds of a date window: ISO 8601 durations before and after the current row's value.
    Durations(Option<Name>, Option<Name>),
}

/// The value that `INTO` stores for each row of a group.
#[derive(Debug)]
pub enum Into {
    /// An object with the listed variables.
    Variables(Vec<(Name, Expr)>),
    /// The value of an expression.
    Value(Expr),
}

/// Aggregate functions of `COLLECT` and `WINDOW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The number of rows.
    Count,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The sum of the values.
    Sum,
    /// The mean of the values.
    Average,
    /// An aggregate computed by the named AQL function, called with the list of all values of a
    /// group.
    OfList(&'static str),
    /// The list of all values of a group.
    Push,
}

/// A data modification: `INSERT`, `UPDATE`, `REPLACE`, `REMOVE` or `UPSERT`.
#[derive(Debug)]
pub struct Write {
    /// The collection to write to, as an index into [`Plan::collections`].
    pub collection: usize,
    /// The kind of modification, such as insert or remove.
    pub kind: WriteKind,
    /// The `OPTIONS` that apply to each write.
    pub options: WriteOptions,
    /// `ignoreErrors`: whether rows whose write fails are skipped.
    pub ignore_errors: bool,
    /// The register of `OLD`.
    pub old: Register,
    /// The register of `NEW`.
    pub new: Register,
}

/// Kinds of modification.
#[derive(Debug)]
pub enum WriteKind {
    /// `INSERT`
    Insert { document: Expr },
    /// `UPDATE` or `REPLACE`. Without `WITH`, `key` is the whole given document, which contains the
    /// key, and `patch` is `None`.
    Change { key: Expr, patch: Option<Expr>, replace: bool },
    /// `REMOVE`
    Remove { key: Expr },
    /// `UPSERT`. Before the write, `lookup` puts the found document into the register of `OLD`.
    Upsert { lookup: Pipeline, insert: Expr, update: Expr, replace: bool },
}

impl Aggregate {
    /// Returns the scorer's name in AQL.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Count => "LENGTH",
            Self::Min => "MIN",
            Self::Max => "MAX",
            Self::Sum => "SUM",
            Self::Average => "AVERAGE",
            Self::OfList(name) => name,
            Self::Push => "PUSH",
        }
    }
}

impl Node {
    /// Returns the name of ArangoDB's node type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::EnumerateCollection { .. } => "EnumerateCollectionNode",
            Self::Index { .. } => "IndexNode",
            Self::EnumerateNearVector(_) => "EnumerateNearVectorNode",
            Self::EnumerateView { indexed: true, .. } => "IndexNode",
            Self::EnumerateView { .. } => "EnumerateViewNode",
            Self::EnumerateList { .. } => "EnumerateListNode",
            Self::Traversal(traversal) => match traversal.search {
                PathSearch::Traversal => "TraversalNode",
                PathSearch::Shortest => "ShortestPathNode",
                _ => "EnumeratePathsNode",
            },
            Self::Filter(_) => "FilterNode",
            Self::Calculation { .. } => "CalculationNode",
            Self::Sort(_) => "SortNode",
            Self::Limit { .. } => "LimitNode",
            Self::Collect(_) => "CollectNode",
            Self::Window(_) => "WindowNode",
            Self::Gather => "MaterializeNode",
            Self::Write(write) => match &write.kind {
                WriteKind::Insert { .. } => "InsertNode",
                WriteKind::Change { replace: false, .. } => "UpdateNode",
                WriteKind::Change { replace: true, .. } => "ReplaceNode",
                WriteKind::Remove { .. } => "RemoveNode",
                WriteKind::Upsert { .. } => "UpsertNode",
            },
            Self::Return { .. } => "ReturnNode",
        }
    }

    /// Whether the node must receive all rows before it emits its first row.
    pub fn gathers(&self) -> bool {
        matches!(self, Self::Sort(_) | Self::Collect(_) | Self::Window(_) | Self::Gather)
    }

    /// Returns the expressions that the node evaluates, except the search condition of a view.
    pub fn expressions(&self) -> Vec<&Expr> {
        match self {
            // The search condition of a view is left out; it contains no subquery.
            Self::EnumerateCollection { .. } | Self::EnumerateView { .. } | Self::Gather => {
                Vec::new()
            }
            Self::Index { lookup, .. } => lookup.expressions(),
            Self::EnumerateNearVector(near) => {
                let limit = [&near.limit.0, &near.limit.1];
                let first = [&near.vector].into_iter().chain(&near.options);
                first.chain(&near.filters).chain(limit).collect()
            }
            Self::EnumerateList { source: value, .. }
            | Self::Filter(value)
            | Self::Calculation { value, .. }
            | Self::Return { value, .. } => vec![value],
            Self::Traversal(traversal) => {
                let prune = traversal.prune.as_ref().map(|(condition, _)| condition);
                let ends = [Some(&traversal.start), traversal.target.as_ref(), prune];
                ends.into_iter().flatten().collect()
            }
            Self::Sort(keys) => keys.iter().map(|(key, _)| key).collect(),
            Self::Limit { offset, count } => vec![offset, count],
            Self::Collect(collect) => {
                let keys = collect.keys.iter().map(|(key, _)| key);
                let mut out: Vec<&Expr> =
                    keys.chain(collect.aggregates.iter().map(|(_, value, _)| value)).collect();
                match &collect.into {
                    Some((Into::Variables(items), _)) => {
                        out.extend(items.iter().map(|(_, value)| value))
                    }
                    Some((Into::Value(value), _)) => out.push(value),
                    None => {}
                }
                out
            }
            Self::Window(window) => {
                let aggregates = window.aggregates.iter().map(|(_, value, _)| value);
                window.range.iter().chain(aggregates).collect()
            }
            Self::Write(write) => match &write.kind {
                WriteKind::Insert { document } => vec![document],
                WriteKind::Change { key, patch, .. } => {
                    [Some(key), patch.as_ref()].into_iter().flatten().collect()
                }
                WriteKind::Remove { key } => vec![key],
                WriteKind::Upsert { lookup, insert, update, .. } => {
                    let mut out: Vec<&Expr> =
                        lookup.nodes.iter().flat_map(Node::expressions).collect();
                    out.extend([insert, update]);
                    out
                }
            },
        }
    }

    /// Returns the register that a loop or calculation fills. A traversal fills several registers
    /// ([`Traversal::outs`]).
    pub fn out(&self) -> Option<Register> {
        match self {
            Self::EnumerateCollection { out, .. }
            | Self::Index { out, .. }
            | Self::EnumerateView { out, .. }
            | Self::EnumerateList { out, .. }
            | Self::Calculation { out, .. } => Some(*out),
            Self::EnumerateNearVector(near) => Some(near.out),
            _ => None,
        }
    }
}

impl Traversal {
    /// Returns the registers that the traversal fills.
    pub fn outs(&self) -> impl Iterator<Item = Register> {
        let prune = self.prune.as_ref().and_then(|(_, out)| *out);
        [Some(self.vertex), self.edge, self.path, prune].into_iter().flatten()
    }
}

impl Lookup {
    /// Returns a lookup that reads the whole index.
    pub(super) fn whole(index: Arc<Index>) -> Self {
        Self {
            index,
            field: 0,
            by_id: false,
            equals: Vec::new(),
            one_of: None,
            lower: None,
            upper: None,
            backwards: false,
        }
    }

    /// Returns the expressions whose values the lookup searches for.
    pub(super) fn expressions(&self) -> Vec<&Expr> {
        let bounds = [self.lower.as_ref(), self.upper.as_ref()]
            .into_iter()
            .flatten()
            .map(|(bound, _)| bound);
        self.equals.iter().chain(&self.one_of).chain(bounds).collect()
    }
}
