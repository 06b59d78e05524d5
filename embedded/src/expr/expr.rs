//! The compiled form: names are registers, functions are pointers, binds are slots.

use std::sync::Arc;

use crate::functions::Function;
use crate::schema::Metric;
use crate::syntax::Binary;
use crate::value::Value;

/// Place of a variable in a row.
pub type Register = usize;

/// An expression ready to run.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A constant.
    Const(Value),
    /// A bind parameter by slot.
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
    /// `a + b`, with lazy `&&` and `||`.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `a ANY == b`
    Quantified(Box<Quantifier>, Binary, Box<Expr>, Box<Expr>),
    /// `a ? b : c`, `a ?: c`; lazy.
    Ternary(Box<Expr>, Option<Box<Expr>>, Box<Expr>),
    /// A pure function.
    Call(&'static Function, Vec<Expr>),
    /// What only the host can answer.
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
    /// Known.
    Name(Arc<str>),
    /// Computed; cast to text.
    Computed(Expr),
}

/// How many items have to fulfil a comparison.
#[derive(Clone, Debug)]
pub enum Quantifier {
    /// Every one.
    All,
    /// At least one.
    Any,
    /// Not one.
    None,
    /// At least a number.
    AtLeast(Expr),
    /// Exactly a number, or a number within a range.
    Exactly(Expr),
}

/// `base[* FILTER … LIMIT … RETURN …]tail`
#[derive(Clone, Debug)]
pub struct Expansion {
    /// What is expanded; anything but a list counts as an empty one.
    pub base: Expr,
    /// Levels to flatten first.
    pub flatten: usize,
    /// Where the item stands while the parts below run.
    pub current: Register,
    /// Which items stay.
    pub filter: Option<Expr>,
    /// Offset and count.
    pub limit: Option<(Option<Expr>, Expr)>,
    /// What becomes of an item.
    pub value: Expr,
}

/// `base[? quantifier FILTER condition]`
#[derive(Clone, Debug)]
pub struct Question {
    /// A list.
    pub base: Expr,
    /// Where the item stands while the condition runs.
    pub current: Register,
    /// How many have to fulfil it (at least one by default).
    pub quantifier: Quantifier,
    /// The condition; any item will do without one.
    pub filter: Option<Expr>,
}

/// Calls that need data or the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataCall {
    /// `DOCUMENT(id)`, `DOCUMENT(collection, key)`
    Document,
    /// Number of documents of a collection by its number in the plan.
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
    /// `COLLECTION_COUNT(name)` of a computed name
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
    /// `APPROX_NEAR_…()`; the planner makes a node of it, or it fails when it runs.
    Near(Metric),
}

impl Expr {
    /// Calls `visit` for this expression and all below it (not into subqueries).
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

    /// Registers it reads (those of inline `CURRENT` too).
    pub fn registers(&self) -> Vec<Register> {
        let mut out = Vec::new();
        self.walk(&mut |e| {
            if let Self::Register(register) = e {
                out.push(*register);
            }
        });
        out
    }

    /// Subqueries in it, in the order of evaluation.
    pub fn subqueries(&self) -> Vec<usize> {
        let mut out = Vec::new();
        self.walk(&mut |e| {
            if let Self::Subquery(number) = e {
                out.push(*number);
            }
        });
        out
    }

    /// Whether it reads nothing but its registers and binds and always answers alike.
    pub fn is_pure(&self) -> bool {
        let mut pure = true;
        self.walk(&mut |e| match e {
            Self::Subquery(_) | Self::Data(..) => pure = false,
            Self::Call(function, _) => pure &= function.foldable,
            _ => {}
        });
        pure
    }

    /// Whether constants and binds are all it needs.
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
