//! The syntax tree of a query text, with unresolved names.

use std::sync::Arc;

use crate::value::Value;

/// A name of a variable, attribute, function or collection.
pub type Name = Arc<str>;

/// A query or a subquery: its statements in order, of which the last one is a `RETURN` or a
/// modification.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Body {
    /// The collections of `WITH a, b` at the beginning of the whole query.
    pub with: Vec<Source>,
    /// The statements of the query.
    pub statements: Vec<Statement>,
}

/// A collection or view, named in the query text or by a bind parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A name in the query text.
    Name(Name),
    /// `@@name`
    Bind(Name),
    /// `@name`
    ValueBind(Name),
}

impl PathSearch {
    /// Returns the keyword of a path search, or an empty text for a traversal.
    pub fn word(self) -> &'static str {
        match self {
            Self::Traversal => "",
            Self::Shortest => "SHORTEST_PATH",
            Self::AllShortest => "ALL_SHORTEST_PATHS",
            Self::KShortest => "K_SHORTEST_PATHS",
            Self::KPaths => "K_PATHS",
        }
    }
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `FOR variable IN source [SEARCH …] [OPTIONS …]`
    For { variable: Name, source: Expr, search: Option<Expr>, options: Option<Expr> },
    /// `FOR v, e, p IN … OUTBOUND start …`
    Traversal(Box<Traversal>),
    /// `FILTER`
    Filter(Expr),
    /// `LET name = value`
    Let { name: Name, value: Expr },
    /// `LET [a, b] = value`, and the destructuring of `FOR [a, b] IN …`.
    Destructure { pattern: Pattern, value: Expr },
    /// `SORT`
    Sort(Vec<(Expr, SortDirection)>),
    /// `LIMIT [offset,] count`
    Limit { offset: Option<Expr>, count: Expr },
    /// `COLLECT`
    Collect(Box<Collect>),
    /// `WINDOW`
    Window(Box<Window>),
    /// `RETURN [DISTINCT]`
    Return { distinct: bool, value: Expr },
    /// `INSERT document INTO collection`
    Insert { document: Expr, into: Source, options: Option<Expr> },
    /// `UPDATE key [WITH patch] IN collection`, or the same with `REPLACE`.
    Change { replace: bool, key: Expr, with: Option<Expr>, into: Source, options: Option<Expr> },
    /// `REMOVE key IN collection`
    Remove { key: Expr, from: Source, options: Option<Expr> },
    /// `UPSERT`
    Upsert(Box<Upsert>),
}

/// The direction of a sort key.
#[derive(Clone, Debug, PartialEq)]
pub enum SortDirection {
    /// `ASC`, or no direction.
    Ascending,
    /// `DESC`
    Descending,
    /// A direction given as a constant or bind parameter: `"desc"` or a value that AQL converts to
    /// false sorts in descending order.
    Given(Box<Expr>),
}

/// The left side of a destructuring assignment.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// A skipped list item, as in `[, b]`.
    Hole,
    /// A variable.
    Name(Name),
    /// `[a, b]`
    Array(Vec<Pattern>),
    /// `{a, b: c}`: attributes and their patterns; `None` is a skipped item, as in `{, b}`.
    Object(Vec<Option<(Name, Pattern)>>),
}

/// `COLLECT` in all its forms.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Collect {
    /// `name = expression`
    pub keys: Vec<(Name, Expr)>,
    /// `AGGREGATE name = FUNCTION(expression)`
    pub aggregates: Vec<(Name, Expr)>,
    /// `INTO name [= expression]`
    pub into: Option<(Name, Option<Expr>)>,
    /// `KEEP names`
    pub keep: Vec<Name>,
    /// `WITH COUNT INTO name`
    pub count: Option<Name>,
    /// `OPTIONS`
    pub options: Option<Expr>,
}

/// `WINDOW [range WITH] {preceding, following} AGGREGATE …`
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The range value in `WINDOW range WITH`, if given.
    pub range: Option<Expr>,
    /// `{ preceding: …, following: … }`
    pub bounds: Expr,
    /// `name = FUNCTION(expression)`
    pub aggregates: Vec<(Name, Expr)>,
}

/// `UPSERT search INSERT … UPDATE|REPLACE … IN collection`
#[derive(Clone, Debug, PartialEq)]
pub struct Upsert {
    /// The example object of an `UPSERT`, or the condition of `UPSERT FILTER` over `CURRENT`.
    pub search: Expr,
    /// Whether `search` is a condition (`UPSERT FILTER`) instead of an example object.
    pub filter: bool,
    /// The document to insert if no document is found.
    pub insert: Expr,
    /// Whether a found document is replaced instead of updated.
    pub replace: bool,
    /// The patch or replacement for the found document.
    pub update: Expr,
    /// The collection to write to.
    pub into: Source,
    /// `OPTIONS`
    pub options: Option<Expr>,
}

/// Direction of a traversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The direction `OUTBOUND`, from `_from` to `_to`.
    Outbound,
    /// The direction `INBOUND`, from `_to` to `_from`.
    Inbound,
    /// The direction `ANY`: both directions.
    Any,
}

/// Whether a graph `FOR` is a traversal or which path search it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathSearch {
    /// A traversal, which visits all vertices within a range of depths.
    Traversal,
    /// `SHORTEST_PATH`: one shortest path.
    Shortest,
    /// `ALL_SHORTEST_PATHS`: all paths of the shortest length.
    AllShortest,
    /// `K_SHORTEST_PATHS`: paths in the order of their length.
    KShortest,
    /// `K_PATHS`: all paths within a range of depths.
    KPaths,
}

/// `FOR v, e, p IN min..max DIRECTION start GRAPH g | edges`
#[derive(Clone, Debug, PartialEq)]
pub struct Traversal {
    /// One to three names of the traversal's variables.
    pub variables: Vec<Name>,
    /// Whether this is a traversal, or which path search it is.
    pub search: PathSearch,
    /// The depth of the traversal: a number or a range of numbers.
    pub depth: Option<Expr>,
    /// The direction for edge collections without their own direction.
    pub direction: Direction,
    /// Start vertex.
    pub start: Expr,
    /// Target vertex of a path search.
    pub target: Option<Expr>,
    /// The graph's name after `GRAPH`, if given.
    pub graph: Option<Expr>,
    /// The edge collections, each with its own direction, if it has one.
    pub edges: Vec<(Option<Direction>, Source)>,
    /// `PRUNE [name =] condition`
    pub prune: Option<(Option<Name>, Expr)>,
    /// `OPTIONS`
    pub options: Option<Expr>,
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Binary {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
    Like,
    NotLike,
    Match,
    NotMatch,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Range,
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Unary {
    Not,
    Plus,
    Minus,
}

/// How many items of the array on the left must fulfil a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantifier {
    /// All items.
    All,
    /// At least one item.
    Any,
    /// No item.
    None,
    /// `AT LEAST (n)`
    AtLeast(Expr),
    /// Exactly this number of items, or a number within this range (`[? 2..3 FILTER …]`).
    Exactly(Expr),
}

/// An attribute name: plain, from a bind parameter, or computed.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// A name in the query text.
    Name(Name),
    /// `@name`, whose value is an attribute name, or a list of names that forms a path.
    Bind(Name),
    /// `[expression]` in an object literal.
    Computed(Box<Expr>),
}

/// `[* FILTER … LIMIT … RETURN …]`
#[derive(Clone, Debug, PartialEq)]
pub struct Expansion {
    /// The expanded list.
    pub base: Expr,
    /// Number of stars in the brackets; with two or more stars, the list is flattened first.
    pub stars: usize,
    /// `FILTER` condition over `CURRENT`.
    pub filter: Option<Expr>,
    /// `LIMIT`
    pub limit: Option<(Option<Expr>, Expr)>,
    /// `RETURN` expression over `CURRENT`.
    pub projection: Option<Expr>,
    /// The attribute and index accesses after the brackets, applied to each item. In them,
    /// [`Expr::Element`] represents the item.
    pub tail: Expr,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A constant; an infinite number represents a number literal out of range.
    Literal(Value),
    /// The name of a variable or a collection.
    Name(Name),
    /// `@name`
    Bind(Name),
    /// `@@name`
    CollectionBind(Name),
    /// The current item of the innermost expansion. Occurs only in the accesses after the brackets
    /// of this expansion.
    Element,
    /// Access to an attribute: `base.name`.
    Attribute(Box<Expr>, Key),
    /// Access to a list item or computed attribute: `base[index]`.
    Index(Box<Expr>, Box<Expr>),
    /// `[a, b]`
    Array(Vec<Expr>),
    /// An object literal: `{a: b}`.
    Object(Vec<(Key, Expr)>),
    /// A unary operation, such as `-a`.
    Unary(Unary, Box<Expr>),
    /// A binary operation, such as `a + b`.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// An array comparison, such as `a ANY == b`.
    Quantified(Box<Quantifier>, Binary, Box<Expr>, Box<Expr>),
    /// `a ? b : c`, or `a ?: c` without the second operand.
    Ternary(Box<Expr>, Option<Box<Expr>>, Box<Expr>),
    /// A function call `NAME(a, b)`; the stored name is in capitals.
    Call(Name, Vec<Expr>),
    /// An array expansion: `a[*]…`.
    Expansion(Box<Expansion>),
    /// The question-mark operator: `a[? n FILTER …]`.
    Question(Box<Expr>, Option<Box<Quantifier>>, Option<Box<Expr>>),
    /// An expression in parentheses, such as `(a[*].b)`; later accesses apply to the whole list
    /// instead of its items.
    Group(Box<Expr>),
    /// A subquery: `(FOR …)`.
    Subquery(Box<Body>),
}

impl Pattern {
    /// Calls `visit` for each variable of a destructuring pattern.
    pub fn names(&self, visit: &mut dyn FnMut(&Name)) {
        match self {
            Self::Hole => {}
            Self::Name(name) => visit(name),
            Self::Array(items) => items.iter().for_each(|item| item.names(visit)),
            Self::Object(items) => {
                items.iter().flatten().for_each(|(_, item)| item.names(visit));
            }
        }
    }
}
