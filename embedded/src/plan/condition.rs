//! The condition of a SEARCH as a tree of comparisons and function calls over attributes.

use std::sync::Arc;

use crate::expr::Expr;
use crate::syntax::{Binary, Name};
use crate::text::{Analysis, Segment};

/// The condition of a SEARCH.
#[derive(Debug)]
pub enum Search {
    /// An expression that does not depend on the searched document must be true.
    Is(Expr),
    /// A comparison (`==`, `<`, `<=`, `>`, `>=`, `LIKE`) whose left operand is the attribute.
    Compare { place: AttributeRef, operator: Binary, value: Expr },
    /// `d.a IN list`
    In { place: AttributeRef, list: Expr },
    /// A comparison of the items of a list with the attribute, such as `list ALL == d.a`.
    Items { place: AttributeRef, quantity: Quantity, operator: Binary, list: Expr },
    /// A geo function, used as a condition or compared with a number.
    Geo {
        name: Name,
        place: AttributeRef,
        at: usize,
        arguments: Vec<Expr>,
        bound: Option<(Binary, Expr)>,
    },
    /// A call of a search function on an attribute.
    Call { call: SearchCall, place: AttributeRef, arguments: Vec<Expr> },
    /// All conditions must hold.
    And(Vec<Self>),
    /// At least one condition must hold.
    Or(Vec<Self>),
    /// At least a given number of conditions must hold.
    AtLeast(Vec<Self>, Expr),
    /// The condition must not hold (`NOT`).
    Not(Box<Self>),
    /// The condition must hold, and its score is multiplied by a factor (`BOOST`).
    Boost(Box<Self>, Expr),
}

/// An attribute of the document and its analyzer, by default `identity`.
#[derive(Debug)]
pub struct AttributeRef {
    /// Attribute names and list indexes of the path.
    pub(crate) path: Vec<Segment>,
    /// Name of the attribute's analyzer.
    pub analyzer: Option<Expr>,
    /// The field's analyzer in the searched inverted index. The outer `None` means that the search
    /// does not use an inverted index; the inner `None` means that the index does not have the
    /// field.
    pub(crate) field: Option<Option<Arc<Analysis>>>,
}

/// How many items of a list must match.
#[derive(Debug)]
pub enum Quantity {
    /// All list items must match.
    All,
    /// At least one list item must match.
    Any,
    /// No list item may match.
    None,
    /// At least this number of list items must match.
    AtLeast(Expr),
}

/// Search functions on an attribute.
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

impl SearchCall {
    /// Returns the function's name in AQL.
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
