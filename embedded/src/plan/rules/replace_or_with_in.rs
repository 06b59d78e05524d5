//! A filter that compares one attribute with several values by `OR` becomes one that looks for it among them, which an index answers.

use crate::expr::{Expr, Register};
use crate::plan::node::{Node, Pipeline};
use crate::syntax::Binary;
use crate::value::Value;

/// Replaces filters; whether it did.
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

/// `a == x OR a == y` as `a IN [x, y]`, if the values are known before the query runs.
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

/// The attribute that every part compares; the values go into the list.
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

/// The variable and the names behind it.
fn path_of(expr: &Expr) -> Option<(Register, Vec<&str>)> {
    let Expr::Attribute(base, name) = expr else { return None };
    let (register, mut path) = match &**base {
        Expr::Register(register) => (*register, Vec::new()),
        inner => path_of(inner)?,
    };
    path.push(name);
    Some((register, path))
}
