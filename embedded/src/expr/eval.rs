//! Evaluates an expression for a row with the values of bind parameters; a host evaluates impure
//! calls.

use std::sync::Arc;

use super::arithmetic::{arithmetic, negate, number};
use super::expr::{DataCall, Expansion, Expr, ObjectKey, Quantifier, Question};
use super::memory::Memory;
use crate::error::{Code, Error, Result};
use crate::functions::{Call, Warnings, like, matches_regex};
use crate::syntax::Binary;
use crate::value::{Object, Value, compare, equal, leading_integer};

/// One value for each register of a query.
pub type Row = Vec<Value>;

/// The calls that an expression makes to the running query.
pub trait Host {
    /// The warnings of the query.
    fn warnings(&mut self) -> &mut Warnings;
    /// The memory of the query and its limit.
    fn memory(&mut self) -> &mut Memory;
    /// Counts a step of the query; returns error 1500 if the query was killed or its deadline has
    /// passed. An expression outside of a running query has no deadline.
    fn step(&mut self) -> Result<()> {
        Ok(())
    }
    /// Runs a subquery for a row; the subquery can read the row's values.
    fn subquery(&mut self, number: usize, row: &mut Row) -> Result<Value>;
    /// Evaluates a call that reads stored data, or the query's database or user.
    fn data(&mut self, call: DataCall, arguments: &[Value]) -> Result<Value>;
}

/// Maximum number of items in the list of a range `a..b`.
const RANGE_ITEMS_MAX: i64 = 2_000_000;

/// Evaluates an expression.
pub fn eval(expr: &Expr, row: &mut Row, binds: &[Value], host: &mut dyn Host) -> Result<Value> {
    if let Some(value) = place(expr, row, binds) {
        return Ok(value.clone());
    }
    if let Expr::Binary(operator, a, b) = expr
        && let (Some(x), Some(y)) = (place(a, row, binds), place(b, row, binds))
    {
        return binary(*operator, x, y, is_constant(a) && is_constant(b), host);
    }
    if let Expr::Attribute(base, name) = expr {
        // Decodes only the requested attribute of a stored document.
        return match place(base, row, binds) {
            Some(base) => Ok(base.attribute(name)),
            None => eval(base, row, binds, host).map(|base| base.attribute(name)),
        };
    }
    let mut run = |e: &Expr| eval(e, row, binds, host);
    Ok(match expr {
        // The code above has already returned the value of such an expression if the value exists.
        // Here the value is therefore missing, which means null.
        Expr::Const(_) | Expr::Bind(_) | Expr::Register(_) | Expr::Attribute(..) => Value::Null,
        Expr::Index(base, index) => {
            let (base, index) = (run(base)?, run(index)?);
            indexed(&base, &index)
        }
        Expr::Array(items) => {
            let value = Value::array(items.iter().map(run).collect::<Result<_>>()?);
            count(&value, host)?;
            value
        }
        Expr::Object(entries) => object(entries, row, binds, host)?,
        Expr::Not(value) => Value::Bool(!truth(value, row, binds, host)?),
        Expr::Negate(value) => negate(&run(value)?),
        Expr::Number(value) => number(&run(value)?),
        Expr::Binary(Binary::And, a, b) => {
            let left = run(a)?;
            if left.is_true() { run(b)? } else { left }
        }
        Expr::Binary(Binary::Or, a, b) => {
            let left = run(a)?;
            if left.is_true() { left } else { run(b)? }
        }
        Expr::Binary(operator, a, b) => {
            let (a, b) = (run(a)?, run(b)?);
            binary(*operator, &a, &b, false, host)?
        }
        Expr::Quantified(quantifier, operator, a, b) => {
            let (a, b) = (run(a)?, run(b)?);
            let items = a.as_array().unwrap_or_default().to_vec();
            let mut found = 0;
            for item in &items {
                host.step()?;
                found += i64::from(binary(*operator, item, &b, false, host)?.is_true());
            }
            let is_set = matches!(operator, Binary::In | Binary::NotIn);
            let is_list = a.as_array().is_some() && (!is_set || b.as_array().is_some());
            Value::Bool(
                is_list && fulfilled(quantifier, found, items.len() as i64, row, binds, host)?,
            )
        }
        Expr::Ternary(condition, Some(yes), no) => {
            let chosen = if truth(condition, row, binds, host)? { yes } else { no };
            eval(chosen, row, binds, host)?
        }
        Expr::Ternary(condition, None, no) => {
            let value = run(condition)?;
            if value.is_true() { value } else { run(no)? }
        }
        Expr::Call(function, arguments) => {
            let made = host.memory().made();
            let arguments = arguments.iter().map(|e| eval(e, row, binds, host));
            let arguments = arguments.collect::<Result<Vec<_>>>()?;
            let mut call = Call { name: function.name, warnings: host.warnings() };
            let value = (function.run)(&mut call, &arguments)?;
            keep(&value, made, host)?;
            value
        }
        Expr::Data(call, arguments) => {
            let made = host.memory().made();
            let arguments = arguments.iter().map(|e| eval(e, row, binds, host));
            let arguments = arguments.collect::<Result<Vec<_>>>()?;
            let value = host.data(*call, &arguments)?;
            keep(&value, made, host)?;
            value
        }
        Expr::Expansion(expansion) => expand(expansion, row, binds, host)?,
        Expr::Question(question) => ask(question, row, binds, host)?,
        Expr::Subquery(number) => {
            let value = host.subquery(*number, row)?;
            count(&value, host)?;
            value
        }
    })
}

/// Counts the memory of a function call's result. The memory of the arguments is no longer counted.
fn keep(value: &Value, made: u64, host: &mut dyn Host) -> Result<()> {
    host.memory().drop_to(made);
    match value {
        Value::String(_) | Value::Array(_) | Value::Object(_) => count(value, host),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Double(_) => {
            host.step()
        }
    }
}

/// Counts the memory of a value that an expression has made.
fn count(value: &Value, host: &mut dyn Host) -> Result<()> {
    host.memory().make(value)?;
    host.step()
}

/// Whether an expression is true. Reads existing values without copying them.
pub fn truth(expr: &Expr, row: &mut Row, binds: &[Value], host: &mut dyn Host) -> Result<bool> {
    match expr {
        Expr::Binary(Binary::And, a, b) => {
            Ok(truth(a, row, binds, host)? && truth(b, row, binds, host)?)
        }
        Expr::Binary(Binary::Or, a, b) => {
            Ok(truth(a, row, binds, host)? || truth(b, row, binds, host)?)
        }
        _ => match place(expr, row, binds) {
            Some(value) => Ok(value.is_true()),
            None => Ok(eval(expr, row, binds, host)?.is_true()),
        },
    }
}

/// Returns a reference to the value of a constant, bind parameter, variable or attribute path;
/// `None` if the value must be computed or decoded.
fn place<'a>(expr: &'a Expr, row: &'a Row, binds: &'a [Value]) -> Option<&'a Value> {
    match expr {
        Expr::Const(value) => Some(value),
        Expr::Bind(slot) => binds.get(*slot),
        Expr::Register(register) => row.get(*register),
        Expr::Attribute(base, name) => match place(base, row, binds)? {
            Value::Object(object) if !object.is_decoded() => None,
            Value::Object(object) => Some(object.get(name).unwrap_or(&Value::Null)),
            _ => Some(&Value::Null),
        },
        _ => None,
    }
}

/// Whether the value of an expression is known before the query runs.
fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Const(_) | Expr::Bind(_))
}

/// Evaluates `base[index]`. The index of a list can be a number or the text of a number; the index
/// of an object can be a text or a number.
fn indexed(base: &Value, index: &Value) -> Value {
    match (base, index) {
        (Value::Array(_), Value::String(text)) if leading_integer(text).is_none() => Value::Null,
        (Value::Array(items), index) if index.is_number() || index.as_str().is_some() => {
            let at = index.to_i64();
            let at = if at < 0 { at + items.len() as i64 } else { at };
            usize::try_from(at).ok().and_then(|at| items.get(at)).cloned().unwrap_or_default()
        }
        (Value::Object(object), Value::String(name)) => object.attribute(name).unwrap_or_default(),
        (Value::Object(object), number) if number.is_number() => {
            object.attribute(&number.to_i64().to_string()).unwrap_or_default()
        }
        _ => Value::Null,
    }
}

fn object(
    entries: &[(ObjectKey, Expr)],
    row: &mut Row,
    binds: &[Value],
    host: &mut dyn Host,
) -> Result<Value> {
    let mut out = Object::with_capacity(entries.len());
    for (key, value) in entries {
        let name: Arc<str> = match key {
            ObjectKey::Name(name) => Arc::clone(name),
            ObjectKey::Computed(key) => Arc::from(&*eval(key, row, binds, host)?.to_text()),
        };
        out.insert(name, eval(value, row, binds, host)?);
    }
    let out = Value::object(out);
    count(&out, host)?;
    Ok(out)
}

fn binary(
    operator: Binary,
    a: &Value,
    b: &Value,
    constant: bool,
    host: &mut dyn Host,
) -> Result<Value> {
    let truth = match operator {
        Binary::Equal => equal(a, b),
        Binary::NotEqual => !equal(a, b),
        Binary::Less => compare(a, b).is_lt(),
        Binary::LessEqual => compare(a, b).is_le(),
        Binary::Greater => compare(a, b).is_gt(),
        Binary::GreaterEqual => compare(a, b).is_ge(),
        // Both `IN` and `NOT IN` are false if the right side is not a list.
        Binary::In => contains(a, b) == Some(true),
        Binary::NotIn => contains(a, b) == Some(false),
        Binary::Like => like(&a.to_text(), &b.to_text(), false),
        Binary::NotLike => !like(&a.to_text(), &b.to_text(), false),
        Binary::Match => return matches_regex(a, b, host.warnings()),
        Binary::NotMatch => !matches_regex(a, b, host.warnings())?.is_true(),
        Binary::Range => {
            let items = range(a, b)?;
            count(&items, host)?;
            return Ok(items);
        }
        Binary::And => return Ok(if a.is_true() { b.clone() } else { a.clone() }),
        Binary::Or => return Ok(if a.is_true() { a.clone() } else { b.clone() }),
        Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Modulo => {
            return arithmetic(operator, a, b, constant, host.warnings());
        }
    };
    Ok(Value::Bool(truth))
}

/// Whether `b` contains `a`; `None` if `b` is not a list.
fn contains(a: &Value, b: &Value) -> Option<bool> {
    b.as_array().map(|items| items.iter().any(|item| equal(item, a)))
}

fn range(a: &Value, b: &Value) -> Result<Value> {
    let (from, to) = (a.to_i64(), b.to_i64());
    if to.abs_diff(from) >= RANGE_ITEMS_MAX.unsigned_abs() {
        return Err(Error::new(
            Code::ResourceLimit,
            format!("range of more than {RANGE_ITEMS_MAX} items"),
        ));
    }
    let items: Vec<Value> = if from <= to {
        (from..=to).map(Value::Int).collect()
    } else {
        (to..=from).rev().map(Value::Int).collect()
    };
    Ok(Value::array(items))
}

fn fulfilled(
    quantifier: &Quantifier,
    found: i64,
    all: i64,
    row: &mut Row,
    binds: &[Value],
    host: &mut dyn Host,
) -> Result<bool> {
    Ok(match quantifier {
        Quantifier::All => found == all,
        Quantifier::Any => found > 0,
        Quantifier::None => found == 0,
        Quantifier::AtLeast(least) => found >= eval(least, row, binds, host)?.to_i64(),
        Quantifier::Exactly(Expr::Binary(Binary::Range, from, to)) => {
            let (from, to) = (eval(from, row, binds, host)?, eval(to, row, binds, host)?);
            (from.to_i64()..=to.to_i64()).contains(&found)
        }
        Quantifier::Exactly(exact) => found == eval(exact, row, binds, host)?.to_i64(),
    })
}

fn expand(
    expansion: &Expansion,
    row: &mut Row,
    binds: &[Value],
    host: &mut dyn Host,
) -> Result<Value> {
    let base = eval(&expansion.base, row, binds, host)?;
    let items = base.as_array().unwrap_or_default();
    let flat = if expansion.flatten > 0 {
        crate::functions::flat(items, expansion.flatten as i64)
    } else {
        items.to_vec()
    };
    let (mut skip, mut take) = (0, i64::MAX);
    if let Some((offset, count)) = &expansion.limit {
        take = eval(count, row, binds, host)?.to_i64();
        if let Some(offset) = offset {
            skip = eval(offset, row, binds, host)?.to_i64();
        }
    }
    let mut out = Vec::new();
    for item in flat {
        if take <= 0 {
            break;
        }
        row[expansion.current] = item;
        host.step()?;
        if let Some(filter) = &expansion.filter {
            let made = host.memory().made();
            let selected = truth(filter, row, binds, host)?;
            host.memory().drop_to(made);
            if !selected {
                continue;
            }
        }
        if skip > 0 {
            skip -= 1;
            continue;
        }
        take -= 1;
        out.push(eval(&expansion.value, row, binds, host)?);
    }
    row[expansion.current] = Value::Null;
    let out = Value::array(out);
    count(&out, host)?;
    Ok(out)
}

fn ask(question: &Question, row: &mut Row, binds: &[Value], host: &mut dyn Host) -> Result<Value> {
    let base = eval(&question.base, row, binds, host)?;
    let Some(items) = base.as_array() else { return Ok(Value::Bool(false)) };
    let mut found = 0;
    for item in items {
        row[question.current] = item.clone();
        host.step()?;
        let made = host.memory().made();
        found += i64::from(match &question.filter {
            Some(filter) => truth(filter, row, binds, host)?,
            None => true,
        });
        host.memory().drop_to(made);
    }
    let all = items.len() as i64;
    Ok(Value::Bool(fulfilled(&question.quantifier, found, all, row, binds, host)?))
}
