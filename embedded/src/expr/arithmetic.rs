//! AQL's arithmetic: casts operands to numbers, and computes with exact integers or with doubles.

use crate::error::{Code, Result};
use crate::functions::Warnings;
use crate::syntax::Binary;
use crate::value::Value;

/// Doubles represent all integers up to this one exactly.
const EXACT_MAX: u64 = 1 << 53;

/// Computes `a operator b` for the five operators. If both operands are known before the query runs
/// (`constant`), integers are exact up to 64 bits, otherwise up to 53 bits. An infinite result of
/// constants causes a warning, as in ArangoDB.
pub(super) fn arithmetic(
    operator: Binary,
    a: &Value,
    b: &Value,
    constant: bool,
    warnings: &mut Warnings,
) -> Result<Value> {
    let (left, right) = (number(a), number(b));
    if let (Value::Int(x), Value::Int(y)) = (&left, &right) {
        let exact = match operator {
            Binary::Add => x.checked_add(*y),
            Binary::Subtract => x.checked_sub(*y),
            Binary::Multiply => x.checked_mul(*y),
            Binary::Modulo => x.checked_rem(*y),
            _ => None,
        };
        let small = |i: i64| constant || i.unsigned_abs() < EXACT_MAX;
        if let Some(exact) = exact.filter(|i| small(*i) && small(*x) && small(*y)) {
            return Ok(Value::Int(exact));
        }
    }
    let (x, y) = (left.as_f64().unwrap_or(0.0), right.as_f64().unwrap_or(0.0));
    let result = match operator {
        Binary::Add => x + y,
        Binary::Subtract => x - y,
        Binary::Multiply => x * y,
        Binary::Divide | Binary::Modulo if y == 0.0 => {
            let text = Code::QueryDivisionByZero.text();
            if constant {
                return once(warnings, Code::QueryDivisionByZero);
            }
            let text = format!("in function '{operator}()': {text}");
            warnings.raise(Code::QueryDivisionByZero, text)?;
            return Ok(Value::Null);
        }
        Binary::Divide => x / y,
        _ => x % y,
    };
    match Value::finite(result) {
        None if constant => once(warnings, Code::QueryNumberOutOfRange),
        value => Ok(value.unwrap_or_default()),
    }
}

/// Records a warning of the query and returns null. A constant expression warns once, not for each
/// row.
fn once(warnings: &mut Warnings, code: Code) -> Result<Value> {
    if warnings.kept.last().is_none_or(|(last, _)| *last != code) {
        warnings.raise(code, code.text())?;
    }
    Ok(Value::Null)
}

/// Evaluates `-a`.
pub(super) fn negate(value: &Value) -> Value {
    match number(value) {
        Value::Int(i) if i != i64::MIN => Value::Int(-i),
        Value::UInt(u) if u == i64::MIN.unsigned_abs() => Value::Int(i64::MIN),
        other => Value::finite(-other.as_f64().unwrap_or(0.0)).unwrap_or_default(),
    }
}

/// Casts a value to a number; 0 for values without a numeric meaning.
pub(super) fn number(value: &Value) -> Value {
    value.to_number().unwrap_or(Value::Int(0))
}
