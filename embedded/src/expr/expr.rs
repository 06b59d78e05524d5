//! Compiled expressions, which refer to variables by register, to functions by pointer, and to bind
//! parameters by slot.

use std::sync::Arc;

use crate::functions::Function;
use crate::schema::Metric;
use crate::syntax::Binary;
use crate::value::Value;

/// Index of a variable in a row.
pub type Register = usize;

/// A compiled expression.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A constant.
    Const(Value),
    /// A bind parameter, by the number of its slot.
    Bind(usize),
    /// A variable.
    Register(Register),
    /// `base.name`
    Attribute(Box<Expr>, Arc<str>),
    /// `base[index]`
    Index(Box<Expr>, Box<Expr>),
    /// `[a, b]`
    Array(Vec<Expr>),
    /// `{a: b}`
    Object(Vec<(ObjectKey, Expr)>),
    /// `!a`
    Not(Box<Expr>),
    /// `-a`
    Negate(Box<Expr>),
    /// `+a`
    Number(Box<Expr>),
    /// `a + b` and other binary operators; `&&` and `||` evaluate the right side only if needed.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `a ANY == b`
    Quantified(Box<Quantifier>, Binary, Box<Expr>, Box<Expr>),
    /// `a ? b : c` or `a ?: c`; only the chosen branch is evaluated.
    Ternary(Box<Expr>, Option<Box<Expr>>, Box<Expr>),
    /// A call of a pure function.
    Call(&'static Function, Vec<Expr>),
    /// A call that only the running query (its `Host`) can evaluate, because the call reads stored
    /// data, or the query's database or user.
    Data(DataCall, Vec<Expr>),
    /// `a[* …]`
    Expansion(Box<Expansion>),
    /// `a[? …]`
    Question(Box<Question>),
    /// A subquery by its number in the plan.
    Subquery(usize),
}

/// Name of an attribute in an object literal.
#[derive(Clone, Debug)]
pub enum ObjectKey {
    /// A constant name.
    Name(Arc<str>),
    /// A computed attribute name, cast to text.
    Computed(Expr),
}

/// The number of items of a list that must fulfil a comparison.
#[derive(Clone, Debug)]
pub enum Quantifier {
    /// Every item.
    All,
    /// At least one item of the list.
    Any,
    /// No item.
    None,
    /// At least this number of items of the list.
    AtLeast(Expr),
    /// Exactly this number of items of the list or, if the value is a range, a number in the range.
    Exactly(Expr),
}

/// `base[* FILTER … LIMIT … RETURN …]tail`
#[derive(Clone, Debug)]
pub struct Expansion {
    /// The expanded list; any other value counts as an empty list.
    pub base: Expr,
    /// Number of levels of nested lists that are flattened first.
    pub flatten: usize,
    /// The register of the current item.
    pub current: Register,
    /// The condition that items must fulfil.
    pub filter: Option<Expr>,
    /// Offset and count of the `LIMIT`.
    pub limit: Option<(Option<Expr>, Expr)>,
    /// The value returned for each item.
    pub value: Expr,
}

/// `base[? quantifier FILTER condition]`
#[derive(Clone, Debug)]
pub struct Question {
    /// The searched list.
    pub base: Expr,
    /// The register of the current item.
    pub current: Register,
    /// The number of items that must fulfil the condition (by default at least one).
    pub quantifier: Quantifier,
    /// The condition; without a condition every item counts.
    pub filter: Option<Expr>,
}

/// Calls that need stored data, or the database or user of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataCall {
    /// `DOCUMENT(id)`, `DOCUMENT(collection, key)`
    Document,
    /// Document count of a collection, given by the collection's number in the plan's list of
    /// collections.
    Count(usize),
    /// `TOKENS(text, analyzer)`
    Tokens,
    /// `NGRAM_MATCH(text, target, share, analyzer)` outside of a SEARCH
    NgramMatch,
    /// `MINHASH_MATCH(text, target, share, analyzer)` outside of a SEARCH
    MinhashMatch,
    /// `CURRENT_DATABASE()`
    Database,
    /// `CURRENT_USER()`
    User,
    /// `COLLECTION_COUNT(name)` with a computed name
    CountOf,
    /// `COLLECTIONS()`
    Collections,
    /// `SCHEMA_GET(collection)`
    SchemaGet,
    /// `SCHEMA_VALIDATE(document, schema)`
    SchemaValidate,
    /// `SHARD_ID(collection, keys)`
    ShardId,
    /// `SLEEP(seconds)`
    Sleep,
    /// `APPROX_NEAR_…()`. The planner replaces a valid call by a node; any other call fails at run
    /// time.
    Near(Metric),
}

impl Expr {
    /// Calls `visit` for the expression and all its parts except subqueries.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        visit(self);
        match self {
            Self::Const(_) | Self::Bind(_) | Self::Register(_) | Self::Subquery(_) => {}
            Self::Attribute(base, _)
            | Self::Not(base)
            | Self::Negate(base)
            | Self::Number(base) => base.walk(visit),
            Self::Index(a, b) | Self::Binary(_, a, b) => {
                a.walk(visit);
                b.walk(visit);
            }
            Self::Array(items) | Self::Call(_, items) | Self::Data(_, items) => {
                items.iter().for_each(|item| item.walk(visit));
            }
            Self::Object(entries) => {
                for (key, value) in entries {
                    if let ObjectKey::Computed(key) = key {
                        key.walk(visit);
                    }
                    value.walk(visit);
                }
            }
            Self::Quantified(quantifier, _, a, b) => {
                quantifier.walk(visit);
                a.walk(visit);
                b.walk(visit);
            }
            Self::Ternary(condition, yes, no) => {
                condition.walk(visit);
                if let Some(yes) = yes {
                    yes.walk(visit);
                }
                no.walk(visit);
            }
            Self::Expansion(e) => {
                e.base.walk(visit);
                e.value.walk(visit);
                let (offset, count) =
                    e.limit.as_ref().map_or((None, None), |(o, c)| (o.as_ref(), Some(c)));
                for part in [e.filter.as_ref(), offset, count].into_iter().flatten() {
                    part.walk(visit);
                }
            }
            Self::Question(q) => {
                q.base.walk(visit);
                q.quantifier.walk(visit);
                if let Some(filter) = &q.filter {
                    filter.walk(visit);
                }
            }
        }
    }

    /// The registers that the expression reads, including the registers of `CURRENT` in expansions.
    pub fn registers(&self) -> Vec<Register> {
        let mut out = Vec::new();
        self.walk(&mut |e| {
            if let Self::Register(register) = e {
                out.push(*register);
            }
        });
        out
    }

    /// The expression's subqueries, in the order of evaluation.
    pub fn subqueries(&self) -> Vec<usize> {
        let mut out = Vec::new();
        self.walk(&mut |e| {
            if let Self::Subquery(number) = e {
                out.push(*number);
            }
        });
        out
    }

    /// Whether the expression's value depends only on registers and bind parameters.
    pub fn is_pure(&self) -> bool {
        let mut pure = true;
        self.walk(&mut |e| match e {
            Self::Subquery(_) | Self::Data(..) => pure = false,
            Self::Call(function, _) => pure &= function.foldable,
            _ => {}
        });
        pure
    }

    /// Whether the expression's value depends only on constants and bind parameters.
    pub fn is_free(&self) -> bool {
        self.is_pure() && self.registers().is_empty()
    }
}

impl Quantifier {
    fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        if let Self::AtLeast(count) | Self::Exactly(count) = self {
            count.walk(visit);
        }
    }
}
