//! What a plan is made of; names of nodes are ArangoDB's.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compat::Release;
use crate::error::Code;
use crate::expr::{Expr, Register};
use crate::schema::{Collection, Graph, Index, VectorParams, View};
use crate::syntax::{Binary, Direction, Name, PathSearch};
use crate::text::{Analysis, Segment};
use crate::txn::WriteOptions;
use crate::value::Value;

/// A query ready to run with any values for its binds.
#[derive(Debug, Default)]
pub struct Plan {
    /// The query itself.
    pub root: Pipeline,
    /// Its subqueries, inner ones first.
    pub subqueries: Vec<Pipeline>,
    /// Name of the variable in each register.
    pub variables: Vec<String>,
    /// Collections it touches.
    pub collections: Vec<Used>,
    /// The named graphs of the database, if the plan was made with them in sight.
    pub graphs: Option<BTreeMap<String, Arc<Graph>>>,
    /// Loops over views.
    pub views: Vec<UsedView>,
    /// Names of value binds by slot.
    pub binds: Vec<Name>,
    /// Whether the value of each slot was null when the plan was made.
    pub bind_was_null: Vec<bool>,
    /// Slots that must not be null for the plan to hold (it reads a sparse index).
    pub never_null: Vec<usize>,
    /// Binds that shaped the plan (collections, attribute names, options), with the values they had.
    pub structural: Vec<(String, Value)>,
    /// Rules that changed something.
    pub rules: Vec<&'static str>,
    /// Whether an edge collection stands behind a bind.
    pub bound_edges: bool,
    /// Variables of loops whose index holds all that is used of their documents.
    pub covered: Vec<Register>,
    /// Whether a write waits for the disk.
    pub wait_for_sync: bool,
    /// The release whose rules it was made by.
    pub release: Release,
    /// What is to be said of the text each time it runs.
    pub warnings: Vec<(Code, String)>,
}

impl Plan {
    /// The vector indexes it asks.
    pub fn vector_indexes(&self) -> Vec<&Index> {
        let nodes = [&self.root].into_iter().chain(&self.subqueries).flat_map(|p| &p.nodes);
        let asked = nodes.filter_map(|node| match node {
            Node::EnumerateNearVector(near) => Some(&*near.index),
            _ => None,
        });
        asked.collect()
    }
}

/// A collection and what the query does with it.
#[derive(Debug)]
pub struct Used {
    /// As the catalog had it when the plan was made.
    pub collection: Arc<Collection>,
    /// Read by a loop or a function.
    pub read: bool,
    /// Written.
    pub write: bool,
    /// Written with `exclusive`.
    pub exclusive: bool,
}

/// Where a loop over segments looks.
#[derive(Debug)]
pub enum ViewSource {
    /// Into a view, as the catalog had it when the plan was made.
    View(Arc<View>),
    /// Into an inverted index that a FILTER was hinted at.
    Index(Arc<Index>),
}

/// A loop over a view or an inverted index.
#[derive(Debug)]
pub struct UsedView {
    /// What it is.
    pub source: ViewSource,
    /// Numbers of the view, or of the inverted indexes, that are looked into.
    pub stores: Vec<u64>,
    /// The collections it holds.
    pub collections: Vec<usize>,
    /// Names of the only ones that are wanted.
    pub only: Option<Vec<String>>,
    /// The variable of the loop.
    pub out: Register,
    /// The condition.
    pub search: Search,
    /// Scores that are asked for.
    pub scorers: Vec<ViewScorer>,
    /// Calls of `OFFSET_INFO`: what they ask for, and where the answer goes.
    pub offsets: Vec<(Expr, Register)>,
    /// Whether everything committed so far has to be searched.
    pub wait_for_sync: bool,
    /// Which rows alone are wanted, where only the best are.
    pub best: Option<BestRows>,
}

/// The best rows of a loop over a view, by one scorer.
#[derive(Debug)]
pub struct BestRows {
    /// The scorer.
    pub scorer: usize,
    /// Offset of the LIMIT.
    pub offset: Expr,
    /// Count of the LIMIT.
    pub count: Expr,
    /// Whether more keys of the SORT decide between rows of one score; without, the earlier is the better.
    pub ties: bool,
}

/// A score of the documents of a view.
#[derive(Debug)]
pub struct ViewScorer {
    /// How it is computed.
    pub kind: ScorerKind,
    /// What follows the variable.
    pub arguments: Vec<Expr>,
    /// Where it goes.
    pub out: Register,
}

/// Scorers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScorerKind {
    /// `BM25(d, k, b)`
    Bm25,
    /// `TFIDF(d, normalize)`
    Tfidf,
}

/// The condition of a SEARCH.
#[derive(Debug)]
pub enum Search {
    /// The same for all documents.
    Is(Expr),
    /// `==`, `<`, `<=`, `>`, `>=`, `LIKE`; the attribute stands on the left.
    Compare { place: Place, operator: Binary, value: Expr },
    /// `d.a IN list`
    In { place: Place, list: Expr },
    /// `list ALL == d.a`
    Items { place: Place, quantity: Quantity, operator: Binary, list: Expr },
    /// A geo function of a shape, as a condition or compared with a number.
    Geo { name: Name, place: Place, at: usize, arguments: Vec<Expr>, bound: Option<(Binary, Expr)> },
    /// A function of an attribute.
    Call { call: SearchCall, place: Place, arguments: Vec<Expr> },
    /// All of them.
    And(Vec<Self>),
    /// Any of them.
    Or(Vec<Self>),
    /// At least a number of them.
    AtLeast(Vec<Self>, Expr),
    /// `NOT`
    Not(Box<Self>),
    /// `BOOST`
    Boost(Box<Self>, Expr),
}

/// An attribute of the document and the analyzer around it; `identity` without one.
#[derive(Debug)]
pub struct Place {
    /// Attribute names and places in lists.
    pub(crate) path: Vec<Segment>,
    /// Name of the analyzer.
    pub analyzer: Option<Expr>,
    /// In inverted indexes the analyzer of the field; None inside if there is no such field.
    pub(crate) field: Option<Option<Arc<Analysis>>>,
}

/// How many items of a list have to be found.
#[derive(Debug)]
pub enum Quantity {
    /// Every one.
    All,
    /// At least one.
    Any,
    /// Not one.
    None,
    /// At least a number.
    AtLeast(Expr),
}

/// Functions of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchCall {
    /// `PHRASE(d.a, part, gap, part, …)`
    Phrase,
    /// `EXISTS(d.a, type, analyzer)`
    Exists,
    /// `STARTS_WITH(d.a, prefix)`, `STARTS_WITH(d.a, prefixes, least)`
    StartsWith,
    /// `IN_RANGE(d.a, low, high, includeLow, includeHigh)`
    InRange,
    /// `LIKE(d.a, pattern)`
    Like,
    /// `LEVENSHTEIN_MATCH(d.a, target, distance, transpositions, maxTerms, prefix)`
    LevenshteinMatch,
    /// `NGRAM_MATCH(d.a, target, share, analyzer)`
    NgramMatch,
    /// `MINHASH_MATCH(d.a, target, share, analyzer)`
    MinhashMatch,
}

/// Nodes that rows are pushed through.
#[derive(Debug, Default)]
pub struct Pipeline {
    /// In order; the first one gets one row.
    pub nodes: Vec<Node>,
    /// Index behind the last node of each stage; a stage but the last ends with a node that gathers all rows.
    pub stages: Vec<usize>,
    /// The first register that is its own: those before it hold what the row came with, which all its rows share.
    pub own_from: Register,
}

/// One step.
#[derive(Debug)]
pub enum Node {
    /// All documents of a collection.
    EnumerateCollection { collection: usize, out: Register, hint: Hint },
    /// Documents found by an index.
    Index { collection: usize, out: Register, lookup: Box<Lookup> },
    /// The documents nearest to a vector.
    EnumerateNearVector(Box<NearVector>),
    /// Documents that a view finds, or an inverted index (`indexed`).
    EnumerateView { view: usize, out: Register, indexed: bool },
    /// The items of a list.
    EnumerateList { source: Expr, out: Register },
    /// Vertices along edges.
    Traversal(Box<Traversal>),
    /// Rows that fulfil a condition.
    Filter(Expr),
    /// A value for a register.
    Calculation { value: Expr, out: Register },
    /// All rows in order; true is descending.
    Sort(Vec<(Expr, bool)>),
    /// Some rows in the middle.
    Limit { offset: Expr, count: Expr },
    /// Groups.
    Collect(Box<Collect>),
    /// Aggregates over the rows around each row.
    Window(Box<Window>),
    /// All rows gathered before the first write, so that no scan sees what it causes.
    Gather,
    /// A modification.
    Write(Box<Write>),
    /// A result.
    Return { value: Expr, distinct: bool },
}

/// `OPTIONS` of a FOR that concern indexes.
#[derive(Clone, Debug, Default)]
pub struct Hint {
    /// Names of indexes to prefer.
    pub names: Vec<String>,
    /// Whether anything else is error 1577.
    pub force: bool,
    /// Whether no index may be used.
    pub disable: bool,
}

/// How an index is read.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The index.
    pub index: Arc<Index>,
    /// `_from` (0) or `_to` (1) of an edge index.
    pub field: usize,
    /// Whether the values are `_id`s, to be read as keys.
    pub by_id: bool,
    /// Values of the first fields.
    pub equals: Vec<Expr>,
    /// A list of values for the field behind those.
    pub one_of: Option<Expr>,
    /// Lower bound of the field behind those, and whether it belongs to the range.
    pub lower: Option<(Expr, bool)>,
    /// Upper bound.
    pub upper: Option<(Expr, bool)>,
    /// Whether the index is read backwards.
    pub backwards: bool,
}

/// How a vector index is asked.
#[derive(Debug)]
pub struct NearVector {
    /// The collection.
    pub collection: usize,
    /// The index.
    pub index: Arc<Index>,
    /// Its parameters.
    pub params: VectorParams,
    /// The document.
    pub out: Register,
    /// How near it is.
    pub similarity: Register,
    /// The query vector.
    pub vector: Expr,
    /// The options of the call (`nProbe`), if there are any.
    pub options: Option<Expr>,
    /// Which documents count.
    pub filters: Vec<Expr>,
    /// Whether the index's stored values hold all that they ask for.
    pub covered: bool,
    /// Attributes of the document that the query looks at, if it does not need the whole.
    pub attributes: Option<Vec<String>>,
    /// Offset and count of the `LIMIT` behind it: so many documents are found.
    pub limit: (Expr, Expr),
}

/// `FOR v, e, p IN min..max OUTBOUND start …`
#[derive(Debug)]
pub struct Traversal {
    /// A traversal, or a search for paths.
    pub search: PathSearch,
    /// An id or a document.
    pub start: Expr,
    /// The other end of a path search.
    pub target: Option<Expr>,
    /// What an edge weighs: the attribute that says it, and what counts where that is no number.
    pub weight: Option<(Name, f64)>,
    /// Edges on the way to the first vertex that is emitted.
    pub min: u64,
    /// Edges on the way to the last one.
    pub max: u64,
    /// The named graph, if it is one.
    pub graph: Option<Name>,
    /// Edge collections.
    pub edges: Vec<Followed>,
    /// Vertex collections that the graph's definition names.
    pub vertices: Vec<usize>,
    /// Vertex collections that may be entered; any if there are none.
    pub only_vertices: Vec<Name>,
    /// What is visited first.
    pub order: Order,
    /// How often a vertex may be visited.
    pub unique_vertices: UniqueVertices,
    /// Whether a path may use an edge once only.
    pub unique_edges: bool,
    /// Where the walk does not go on, and the variable that keeps the value.
    pub prune: Option<(Expr, Option<Register>)>,
    /// The vertex.
    pub vertex: Register,
    /// The edge that led to it.
    pub edge: Option<Register>,
    /// The path that led to it.
    pub path: Option<Register>,
}

/// An edge collection and how its edges are followed.
#[derive(Clone, Copy, Debug)]
pub struct Followed {
    /// Number of the collection in the plan.
    pub collection: usize,
    /// From where to where.
    pub direction: Direction,
}

/// `order` of a traversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `dfs`
    DepthFirst,
    /// `bfs`
    BreadthFirst,
    /// `weighted`: the lightest path
    Weighted,
}

/// `uniqueVertices` of a traversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueVertices {
    /// As often as a path leads there.
    None,
    /// Once in each path.
    Path,
    /// Once.
    Global,
}

/// `COLLECT`
#[derive(Debug)]
pub struct Collect {
    /// Group keys.
    pub keys: Vec<(Expr, Register)>,
    /// Aggregates.
    pub aggregates: Vec<(Aggregate, Expr, Register)>,
    /// The rows of a group.
    pub into: Option<(Into, Register)>,
    /// The number of rows of a group.
    pub count: Option<Register>,
}

/// `WINDOW`
#[derive(Debug)]
pub struct Window {
    /// The value whose nearness counts, if it is not that of the rows.
    pub range: Option<Expr>,
    /// How far the window reaches.
    pub bounds: Bounds,
    /// Aggregates.
    pub aggregates: Vec<(Aggregate, Expr, Register)>,
}

/// How far a `WINDOW` reaches to both sides of a row.
#[derive(Clone, Debug)]
pub enum Bounds {
    /// Rows before and behind it.
    Rows(u64, u64),
    /// Numbers less and more.
    Numbers(f64, f64),
    /// ISO 8601 durations before and behind it.
    Durations(Option<Name>, Option<Name>),
}

/// What `INTO` keeps of a row.
#[derive(Debug)]
pub enum Into {
    /// An object of variables.
    Variables(Vec<(Name, Expr)>),
    /// A value.
    Value(Expr),
}

/// Aggregate functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Number of rows.
    Count,
    /// Smallest value.
    Min,
    /// Largest value.
    Max,
    /// Sum.
    Sum,
    /// Mean.
    Average,
    /// A function of the list of all values, by name.
    OfList(&'static str),
    /// The list of all values.
    Push,
}

/// A modification node.
#[derive(Debug)]
pub struct Write {
    /// The collection written.
    pub collection: usize,
    /// What is written.
    pub kind: WriteKind,
    /// `OPTIONS`
    pub options: WriteOptions,
    /// `ignoreErrors`
    pub ignore_errors: bool,
    /// `OLD`
    pub old: Register,
    /// `NEW`
    pub new: Register,
}

/// Kinds of modification.
#[derive(Debug)]
pub enum WriteKind {
    /// `INSERT`
    Insert { document: Expr },
    /// `UPDATE` or `REPLACE`; without a patch the key expression is the document too.
    Change { key: Expr, patch: Option<Expr>, replace: bool },
    /// `REMOVE`
    Remove { key: Expr },
    /// `UPSERT`; the lookup leaves what it found in `OLD`.
    Upsert { lookup: Pipeline, insert: Expr, update: Expr, replace: bool },
}

impl Aggregate {
    /// The server's name of it.
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
    /// ArangoDB's name of the node.
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

    /// Whether the node needs all rows before it passes one on.
    pub fn gathers(&self) -> bool {
        matches!(self, Self::Sort(_) | Self::Collect(_) | Self::Window(_) | Self::Gather)
    }

    /// The expressions in it.
    pub fn expressions(&self) -> Vec<&Expr> {
        match self {
            // A view's condition holds no subquery.
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

    /// The register a loop or a calculation fills; a traversal fills several ([`Traversal::outs`]).
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
    /// The registers it fills.
    pub fn outs(&self) -> impl Iterator<Item = Register> {
        let prune = self.prune.as_ref().and_then(|(_, out)| *out);
        [Some(self.vertex), self.edge, self.path, prune].into_iter().flatten()
    }
}

impl SearchCall {
    /// The name in the text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Phrase => "PHRASE",
            Self::Exists => "EXISTS",
            Self::StartsWith => "STARTS_WITH",
            Self::InRange => "IN_RANGE",
            Self::Like => "LIKE",
            Self::LevenshteinMatch => "LEVENSHTEIN_MATCH",
            Self::NgramMatch => "NGRAM_MATCH",
            Self::MinhashMatch => "MINHASH_MATCH",
        }
    }
}

impl Lookup {
    /// All of an index.
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

    /// What it looks for.
    pub(super) fn expressions(&self) -> Vec<&Expr> {
        let bounds = [self.lower.as_ref(), self.upper.as_ref()]
            .into_iter()
            .flatten()
            .map(|(bound, _)| bound);
        self.equals.iter().chain(&self.one_of).chain(bounds).collect()
    }
}
