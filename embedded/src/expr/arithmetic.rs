//! AQL's arithmetic: operands are cast to numbers, integers stay exact while they fit, a bad result is null.

use crate::error::{Code, Result};
use crate::functions::Warnings;
use crate::syntax::Binary;
use crate::value::Value;

/// `a operator b` for the five operators.
pub(super) fn arithmetic(
    operator: Binary,
    a: &Value,
    b: &Value,
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
        if let Some(exact) = exact {
            return Ok(Value::Int(exact));
        }
    }
    let (x, y) = (left.as_f64().unwrap_or(0.0), right.as_f64().unwrap_or(0.0));
    let result = match operator {
        Binary::Add => x + y,
        Binary::Subtract => x - y,
        Binary::Multiply => x * y,
        Binary::Divide | Binary::Modulo if y == 0.0 => {
            warnings.raise(Code::QueryDivisionByZero, Code::QueryDivisionByZero.text())?;
            return Ok(Value::Null);
        }
        Binary::Divide => x / y,
        _ => x % y,
    };
    finite(result, warnings)
}

/// `-a`
pub(super) fn negate(value: &Value, warnings: &mut Warnings) -> Result<Value> {
    match number(value) {
        Value::Int(i) if i != i64::MIN => Ok(Value::Int(-i)),
        Value::UInt(u) if u == i64::MIN.unsigned_abs() => Ok(Value::Int(i64::MIN)),
        other => finite(-other.as_f64().unwrap_or(0.0), warnings),
    }
}

/// The cast to number; what is no number is 0.
pub(super) fn number(value: &Value) -> Value {
    value.to_number().unwrap_or(Value::Int(0))
}

fn finite(x: f64, warnings: &mut Warnings) -> Result<Value> {
    match Value::finite(x) {
        Some(value) => Ok(value),
        None => {
            warnings.raise(
                Code::QueryInvalidArithmeticValue,
                Code::QueryInvalidArithmeticValue.text(),
            )?;
            Ok(Value::Null)
        }
    }
}
