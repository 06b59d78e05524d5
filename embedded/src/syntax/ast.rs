//! The syntax tree: what stands in the text, names not yet resolved.

use std::sync::Arc;

use crate::value::Value;

/// A name of a variable, attribute, function or collection.
pub type Name = Arc<str>;

/// A query or a subquery: statements in order; the last one returns or modifies.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Body {
    /// `WITH a, b` in front (only of the whole query).
    pub with: Vec<Source>,
    /// What follows.
    pub statements: Vec<Statement>,
}

/// A collection or view by name or bind parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Written out.
    Name(Name),
    /// `@@name`
    Bind(Name),
    /// `@name`
    ValueBind(Name),
}

impl PathSearch {
    /// The word of the text; none for a traversal.
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
    /// `LET [a, b] = value`, and what `FOR [a, b] IN …` takes its item apart with.
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
    /// `UPDATE key [WITH patch] IN collection`, or `REPLACE`.
    Change { replace: bool, key: Expr, with: Option<Expr>, into: Source, options: Option<Expr> },
    /// `REMOVE key IN collection`
    Remove { key: Expr, from: Source, options: Option<Expr> },
    /// `UPSERT`
    Upsert(Box<Upsert>),
}

/// The direction of a sort key.
#[derive(Clone, Debug, PartialEq)]
pub enum SortDirection {
    /// `ASC`, or nothing.
    Ascending,
    /// `DESC`
    Descending,
    /// A constant or a bind: `"desc"` or a false value turn the order around.
    Given(Box<Expr>),
}

/// What a value is taken apart into.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Left out: `[, b]`
    Hole,
    /// A variable.
    Name(Name),
    /// `[a, b]`
    Array(Vec<Pattern>),
    /// `{a, b: c}`: attributes and what they become; none is left out.
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
    /// The value of the range form.
    pub range: Option<Expr>,
    /// `{ preceding: …, following: … }`
    pub bounds: Expr,
    /// `name = FUNCTION(expression)`
    pub aggregates: Vec<(Name, Expr)>,
}

/// `UPSERT search INSERT … UPDATE|REPLACE … IN collection`
#[derive(Clone, Debug, PartialEq)]
pub struct Upsert {
    /// An example object, or the condition of the `FILTER` form over `CURRENT`.
    pub search: Expr,
    /// Whether `search` is a condition.
    pub filter: bool,
    /// Document for nothing found.
    pub insert: Expr,
    /// Whether a found document is replaced instead of updated.
    pub replace: bool,
    /// Patch or new document for what was found.
    pub update: Expr,
    /// The collection.
    pub into: Source,
    /// `OPTIONS`
    pub options: Option<Expr>,
}

/// Direction of a traversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From `_from` to `_to`.
    Outbound,
    /// From `_to` to `_from`.
    Inbound,
    /// Both.
    Any,
}

/// What kind of path search a `FOR` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathSearch {
    /// All vertices within a depth.
    Traversal,
    /// `SHORTEST_PATH`
    Shortest,
    /// `ALL_SHORTEST_PATHS`
    AllShortest,
    /// `K_SHORTEST_PATHS`
    KShortest,
    /// `K_PATHS`
    KPaths,
}

/// `FOR v, e, p IN min..max DIRECTION start GRAPH g | edges`
#[derive(Clone, Debug, PartialEq)]
pub struct Traversal {
    /// One to three names.
    pub variables: Vec<Name>,
    /// Traversal or a path search.
    pub search: PathSearch,
    /// Depth: a number or a range.
    pub depth: Option<Expr>,
    /// Default direction.
    pub direction: Direction,
    /// Start vertex.
    pub start: Expr,
    /// Target vertex of a path search.
    pub target: Option<Expr>,
    /// `GRAPH` name.
    pub graph: Option<Expr>,
    /// Edge collections, each with its own direction if given.
    pub edges: Vec<(Option<Direction>, Source)>,
    /// `PRUNE [name =] condition`
    pub prune: Option<(Option<Name>, Expr)>,
    /// `OPTIONS`
    pub options: Option<Expr>,
}

/// Binary operators in the order of the text.
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

/// How many items of the left array have to fulfil an array comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantifier {
    /// Every item.
    All,
    /// At least one.
    Any,
    /// Not one.
    None,
    /// `AT LEAST (n)`
    AtLeast(Expr),
    /// Exactly this number, or a range of numbers (`[? 2..3 FILTER …]`).
    Exactly(Expr),
}

/// The name of an attribute in the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// Written out.
    Name(Name),
    /// `@name`: a text, or a list of texts as a path.
    Bind(Name),
    /// `[expression]` in an object literal.
    Computed(Box<Expr>),
}

/// `[* FILTER … LIMIT … RETURN …]`
#[derive(Clone, Debug, PartialEq)]
pub struct Expansion {
    /// What is expanded.
    pub base: Expr,
    /// Number of stars; more than one flattens first.
    pub stars: usize,
    /// `FILTER` over `CURRENT`.
    pub filter: Option<Expr>,
    /// `LIMIT`
    pub limit: Option<(Option<Expr>, Expr)>,
    /// `RETURN` over `CURRENT`.
    pub projection: Option<Expr>,
    /// What follows the bracket, with [`Expr::Element`] for the item.
    pub tail: Expr,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A constant; an infinite number stands for one that is out of range.
    Literal(Value),
    /// A variable, or a collection's name.
    Name(Name),
    /// `@name`
    Bind(Name),
    /// `@@name`
    CollectionBind(Name),
    /// The item of the innermost expansion's tail.
    Element,
    /// `base.name`
    Attribute(Box<Expr>, Key),
    /// `base[index]`
    Index(Box<Expr>, Box<Expr>),
    /// `[a, b]`
    Array(Vec<Expr>),
    /// `{a: b}`
    Object(Vec<(Key, Expr)>),
    /// `-a`
    Unary(Unary, Box<Expr>),
    /// `a + b`
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `a ANY == b`
    Quantified(Box<Quantifier>, Binary, Box<Expr>, Box<Expr>),
    /// `a ? b : c`, `a ?: c`
    Ternary(Box<Expr>, Option<Box<Expr>>, Box<Expr>),
    /// `NAME(a, b)`; the name in capitals.
    Call(Name, Vec<Expr>),
    /// `a[*]…`
    Expansion(Box<Expansion>),
    /// `a[? n FILTER …]`
    Question(Box<Expr>, Option<Box<Quantifier>>, Option<Box<Expr>>),
    /// An expansion in parentheses: what follows does not belong to its items.
    Group(Box<Expr>),
    /// `(FOR …)`
    Subquery(Box<Body>),
}

impl Pattern {
    /// Calls `visit` for each variable in it.
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
