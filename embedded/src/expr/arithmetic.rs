//! AQL's arithmetic: operands are cast to numbers; constants stay exact integers while they fit, all else are doubles.

use crate::error::{Code, Result};
use crate::functions::Warnings;
use crate::syntax::Binary;
use crate::value::Value;

/// From here on a double is no longer every integer.
const EXACT_MAX: u64 = 1 << 53;

/// `a operator b` for the five operators. `constant`: both operands are known before the query runs, where the server
/// calculates with integers and warns of what is too large.
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

/// Null with a warning, which a constant does not give for each row.
fn once(warnings: &mut Warnings, code: Code) -> Result<Value> {
    if warnings.kept.last().is_none_or(|(last, _)| *last != code) {
        warnings.raise(code, code.text())?;
    }
    Ok(Value::Null)
}

/// `-a`
pub(super) fn negate(value: &Value) -> Value {
    match number(value) {
        Value::Int(i) if i != i64::MIN => Value::Int(-i),
        Value::UInt(u) if u == i64::MIN.unsigned_abs() => Value::Int(i64::MIN),
        other => Value::finite(-other.as_f64().unwrap_or(0.0)).unwrap_or_default(),
    }
}

/// The cast to number; what is no number is 0.
pub(super) fn number(value: &Value) -> Value {
    value.to_number().unwrap_or(Value::Int(0))
}
