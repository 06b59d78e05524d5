//! Converts compiled expressions to ArangoDB's syntax tree, with ArangoDB's type numbers and the
//! values of bind parameters.

use crate::expr::{Expr, ObjectKey, Quantifier, Register, print};
use crate::syntax::Binary;
use crate::value::{Object, Value};

/// The data needed to convert an expression to ArangoDB's syntax tree.
pub(super) struct ExprTree<'a> {
    /// Values of bind parameters, indexed by slot number.
    pub binds: &'a [Value],
    /// Returns the name of the variable in a register.
    pub name: &'a dyn Fn(usize) -> String,
    /// Returns the variable that holds the result of a subquery.
    pub subquery: &'a dyn Fn(usize) -> Option<usize>,
}

/// Returns the variable and attribute path of an expression like `variable.a.b`, or `None` for any
/// other expression.
pub(super) fn attribute_path(expr: &Expr) -> Option<(Register, Vec<String>)> {
    match expr {
        Expr::Attribute(base, name) => {
            let (register, mut path) = match &**base {
                Expr::Register(register) => (*register, Vec::new()),
                inner => attribute_path(inner)?,
            };
            path.push(name.to_string());
            Some((register, path))
        }
        _ => None,
    }
}

fn node<const N: usize>(
    (kind, id): (&str, i64),
    more: [(&str, Value); N],
    below: Vec<Value>,
) -> Value {
    let mut out = Object::with_capacity(N + 3);
    out.push_new("type", kind.into());
    out.push_new("typeID", id.into());
    for (name, value) in more {
        out.push_new(name, value);
    }
    if !below.is_empty() {
        out.push_new("subNodes", Value::array(below));
    }
    Value::object(out)
}

/// Returns the tree of a constant; lists and objects have one node per element.
fn constant(value: &Value) -> Value {
    let kind = match value {
        Value::Array(items) => {
            return node(("array", 41), [], items.iter().map(constant).collect());
        }
        Value::Object(object) => {
            let element = |(name, value): (&_, &Value)| {
                let name: &std::sync::Arc<str> = name;
                let more = [("name", (&**name).into())];
                node(("object element", 43), more, vec![constant(value)])
            };
            return node(("object", 42), [], object.iter().map(element).collect());
        }
        Value::Null => 0_i64,
        Value::Bool(_) => 1,
        Value::Int(_) | Value::UInt(_) => 2,
        Value::Double(_) => 3,
        Value::String(_) => 4,
    };
    node(("value", 40), [("value", value.clone()), ("vTypeID", kind.into())], Vec::new())
}

fn of_binary(operator: Binary) -> (&'static str, i64) {
    match operator {
        Binary::And => ("logical and", 18),
        Binary::Or => ("logical or", 19),
        Binary::Add => ("plus", 20),
        Binary::Subtract => ("minus", 21),
        Binary::Multiply => ("times", 22),
        Binary::Divide => ("division", 23),
        Binary::Modulo => ("modulus", 24),
        Binary::Equal => ("compare ==", 25),
        Binary::NotEqual => ("compare !=", 26),
        Binary::Less => ("compare <", 27),
        Binary::LessEqual => ("compare <=", 28),
        Binary::Greater => ("compare >", 29),
        Binary::GreaterEqual => ("compare >=", 30),
        Binary::In => ("compare in", 31),
        Binary::NotIn => ("compare not in", 32),
        Binary::Range => ("range", 49),
        Binary::Like | Binary::NotLike | Binary::Match | Binary::NotMatch => ("function call", 47),
    }
}

const CALL: (&str, i64) = ("function call", 47);
const NOT: (&str, i64) = ("unary not", 17);
const NOTHING: (&str, i64) = ("no-op", 50);

impl ExprTree<'_> {
    /// Returns the syntax tree of an expression.
    pub(super) fn of(&self, expr: &Expr) -> Value {
        let one = |kind, base: &Expr| node(kind, [], vec![self.of(base)]);
        match expr {
            Expr::Const(value) => constant(value),
            Expr::Bind(slot) => constant(self.binds.get(*slot).unwrap_or(&Value::Null)),
            Expr::Register(register) => self.reference(*register, false),
            Expr::Attribute(base, name) => {
                let more = [("name", (&**name).into())];
                node(("attribute access", 35), more, vec![self.of(base)])
            }
            Expr::Index(base, index) => {
                node(("indexed access", 37), [], vec![self.of(base), self.of(index)])
            }
            Expr::Array(items) => node(("array", 41), [], self.all(items)),
            Expr::Object(entries) => {
                let element = |(key, value): &(ObjectKey, Expr)| match key {
                    ObjectKey::Name(name) => {
                        let more = [("name", (&**name).into())];
                        node(("object element", 43), more, vec![self.of(value)])
                    }
                    ObjectKey::Computed(key) => {
                        let below = vec![self.of(key), self.of(value)];
                        node(("calculated object element", 52), [], below)
                    }
                };
                node(("object", 42), [], entries.iter().map(element).collect())
            }
            Expr::Not(base) => one(NOT, base),
            Expr::Negate(base) => one(("unary minus", 16), base),
            Expr::Number(base) => one(("unary plus", 15), base),
            Expr::Binary(operator, a, b) => self.binary(*operator, a, b),
            Expr::Quantified(quantifier, operator, a, b) => {
                let (kind, id) = of_binary(*operator);
                // In ArangoDB, the type number of an array operator is that of the plain operator
                // plus 41.
                let kind = format!("array {kind}");
                let below = vec![self.of(a), self.of(b), self.quantifier(quantifier)];
                node((&kind, id + 41), [], below)
            }
            Expr::Ternary(condition, yes, no) => {
                let mut below = vec![self.of(condition)];
                below.extend(yes.as_ref().map(|yes| self.of(yes)));
                below.push(self.of(no));
                node(("ternary", 33), [], below)
            }
            Expr::Call(function, arguments) => self.call(function.name, self.all(arguments)),
            Expr::Data(call, arguments) => {
                let name = print(&Expr::Data(*call, Vec::new()), &[], &[]);
                self.call(name.trim_end_matches("()"), self.all(arguments))
            }
            Expr::Expansion(e) => {
                let filter = self.or_nothing(e.filter.as_ref());
                let limit = match &e.limit {
                    Some((offset, count)) => {
                        let zero = Expr::Const(Value::Int(0));
                        let offset = self.of(offset.as_ref().unwrap_or(&zero));
                        node(("array limit", 56), [], vec![offset, self.of(count)])
                    }
                    None => node(NOTHING, [], Vec::new()),
                };
                let nothing = node(NOTHING, [], Vec::new());
                let iterator = self.iterator(e.current, &e.base);
                let below = vec![iterator, self.of(&e.value), filter, limit, nothing];
                let levels = Value::from(e.flatten as u64 + 1);
                node(("expansion", 38), [("levels", levels)], below)
            }
            Expr::Question(q) => {
                let iterator = self.iterator(q.current, &q.base);
                let filter = self.or_nothing(q.filter.as_ref());
                let below = vec![
                    iterator,
                    self.reference(q.current, false),
                    filter,
                    self.quantifier(&q.quantifier),
                ];
                node(("expansion", 38), [("levels", 1_i64.into())], below)
            }
            Expr::Subquery(number) => match (self.subquery)(*number) {
                Some(variable) => self.reference(variable, true),
                None => node(("subquery", 34), [], Vec::new()),
            },
        }
    }

    fn all(&self, items: &[Expr]) -> Vec<Value> {
        items.iter().map(|item| self.of(item)).collect()
    }

    fn or_nothing(&self, expr: Option<&Expr>) -> Value {
        expr.map_or_else(|| node(NOTHING, [], Vec::new()), |expr| self.of(expr))
    }

    fn reference(&self, variable: usize, subquery: bool) -> Value {
        let more = [
            ("name", (self.name)(variable).into()),
            ("id", (variable as u64).into()),
            ("subqueryReference", subquery.into()),
        ];
        node(("reference", 45), more, Vec::new())
    }

    fn iterator(&self, variable: usize, base: &Expr) -> Value {
        let more = [("name", (self.name)(variable).into()), ("id", (variable as u64).into())];
        let variable = node(("variable", 13), more, Vec::new());
        node(("iterator", 39), [], vec![variable, self.of(base)])
    }

    fn call(&self, name: &str, arguments: Vec<Value>) -> Value {
        node(CALL, [("name", name.into())], vec![node(("array", 41), [], arguments)])
    }

    fn binary(&self, operator: Binary, a: &Expr, b: &Expr) -> Value {
        let below = vec![self.of(a), self.of(b)];
        match operator {
            Binary::Equal => node(of_binary(operator), [("excludesNull", false.into())], below),
            Binary::In | Binary::NotIn => {
                node(of_binary(operator), [("sorted", false.into())], below)
            }
            Binary::Like => self.call("LIKE", below),
            Binary::NotLike => node(NOT, [], vec![self.call("LIKE", below)]),
            Binary::Match => self.call("REGEX_TEST", below),
            Binary::NotMatch => node(NOT, [], vec![self.call("REGEX_TEST", below)]),
            _ => node(of_binary(operator), [], below),
        }
    }

    fn quantifier(&self, quantifier: &Quantifier) -> Value {
        let (word, count) = match quantifier {
            Quantifier::All => ("all", None),
            Quantifier::Any => ("any", None),
            Quantifier::None => ("none", None),
            Quantifier::AtLeast(count) => ("at least", Some(count)),
            Quantifier::Exactly(count) => return self.of(count),
        };
        let below = count.map(|count| self.of(count)).into_iter().collect();
        node(("quantifier", 74), [("quantifier", word.into())], below)
    }
}
