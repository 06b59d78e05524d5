//! Replaces a filter `a == x OR a == y` by a filter `a IN [x, y]`, which an index can answer.

use crate::expr::{Expr, Register};
use crate::plan::node::{Node, Pipeline};
use crate::syntax::Binary;
use crate::value::Value;

/// Applies the rule to all filters of a pipeline. Returns whether the rule replaced a filter.
pub(super) fn apply(pipeline: &mut Pipeline) -> bool {
    let mut changed = false;
    for node in &mut pipeline.nodes {
        if let Node::Filter(condition) = node
            && let Some(better) = membership(condition)
        {
            *condition = better;
            changed = true;
        }
    }
    changed
}

/// Converts `a == x OR a == y` to `a IN [x, y]` if `x` and `y` are constants or bind parameters.
fn membership(condition: &Expr) -> Option<Expr> {
    let Expr::Binary(Binary::Or, ..) = condition else { return None };
    let mut values = Vec::new();
    let attribute = gather(condition, &mut values)?.clone();
    let constant = |value: &Expr| match value {
        Expr::Const(value) => Some(value.clone()),
        _ => None,
    };
    let list = match values.iter().map(constant).collect::<Option<Vec<Value>>>() {
        Some(values) => Expr::Const(values.into()),
        None => Expr::Array(values),
    };
    Some(Expr::Binary(Binary::In, Box::new(attribute), Box::new(list)))
}

/// Returns the attribute if all operands of an OR compare the same attribute, and adds the compared
/// values to a list.
fn gather<'a>(part: &'a Expr, values: &mut Vec<Expr>) -> Option<&'a Expr> {
    match part {
        Expr::Binary(Binary::Or, a, b) => {
            let (first, second) = (gather(a, values)?, gather(b, values)?);
            (path_of(first)? == path_of(second)?).then_some(first)
        }
        Expr::Binary(Binary::Equal, a, b) => {
            let (attribute, value) = if path_of(a).is_some() { (a, b) } else { (b, a) };
            path_of(attribute)?;
            if !matches!(**value, Expr::Const(_) | Expr::Bind(_)) {
                return None;
            }
            values.push(Expr::clone(value));
            Some(attribute)
        }
        _ => None,
    }
}

/// Returns the variable and attribute names of an expression like `variable.a.b`, or `None` for any
/// other expression.
fn path_of(expr: &Expr) -> Option<(Register, Vec<&str>)> {
    let Expr::Attribute(base, name) = expr else { return None };
    let (register, mut path) = match &**base {
        Expr::Register(register) => (*register, Vec::new()),
        inner => path_of(inner)?,
    };
    path.push(name);
    Some((register, path))
}
