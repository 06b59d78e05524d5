//! The total order of AQL values: null < bool < number < string < array < object, where missing
//! attributes and items count as null.

use std::cmp::Ordering;

use super::{Object, Value};

/// 2^63 and 2^64 as doubles: the first numbers above the ranges of `i64` and `u64`.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_64: f64 = 18_446_744_073_709_551_616.0;

/// Compares two values in the total order. Strings are compared by bytes, which is ArangoDB's order
/// for the locale `en_US_POSIX` and ASCII texts.
pub fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        (Value::String(x), Value::String(y)) => x.as_bytes().cmp(y.as_bytes()),
        (Value::Array(x), Value::Array(y)) => compare_arrays(x, y),
        (Value::Object(x), Value::Object(y)) => compare_objects(x, y),
        _ => rank(a).cmp(&rank(b)).then_with(|| compare_numbers(a, b)),
    }
}

/// Whether two values are equal in the total order (`1 == 1.0`, `{} == {a: null}`).
pub fn equal(a: &Value, b: &Value) -> bool {
    compare(a, b) == Ordering::Equal
}

/// A value with the total order of AQL, as a key of ordered maps and sets.
#[derive(Clone, Debug)]
pub struct Ordered(pub Value);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        equal(&self.0, &other.0)
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Int(_) | Value::UInt(_) | Value::Double(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

fn compare_numbers(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(x), Value::Int(y)) => x.cmp(y),
        (Value::UInt(x), Value::UInt(y)) => x.cmp(y),
        (Value::Int(_), Value::UInt(_)) => Ordering::Less,
        (Value::UInt(_), Value::Int(_)) => Ordering::Greater,
        (Value::Double(x), Value::Double(y)) => x.partial_cmp(y).unwrap_or(Ordering::Equal),
        (Value::Int(x), Value::Double(y)) => compare_integer(i128::from(*x), *y),
        (Value::UInt(x), Value::Double(y)) => compare_integer(i128::from(*x), *y),
        (Value::Double(x), Value::Int(y)) => compare_integer(i128::from(*y), *x).reverse(),
        (Value::Double(x), Value::UInt(y)) => compare_integer(i128::from(*y), *x).reverse(),
        _ => Ordering::Equal,
    }
}

/// Compares an integer and a double exactly, without rounding the integer.
fn compare_integer(i: i128, x: f64) -> Ordering {
    if x >= TWO_64 {
        return Ordering::Less;
    }
    if x < -TWO_63 {
        return Ordering::Greater;
    }
    let whole = x.trunc();
    i.cmp(&(whole as i128))
        .then_with(|| 0.0_f64.partial_cmp(&(x - whole)).unwrap_or(Ordering::Equal))
}

fn compare_arrays(a: &[Value], b: &[Value]) -> Ordering {
    for at in 0..a.len().max(b.len()) {
        let order = compare(a.get(at).unwrap_or(&Value::Null), b.get(at).unwrap_or(&Value::Null));
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn compare_objects(a: &Object, b: &Object) -> Ordering {
    let mut names: Vec<&str> = a.iter().chain(b.iter()).map(|(n, _)| &**n).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let order =
            compare(a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::parse;

    #[test]
    fn types_and_numbers_stand_in_one_line() {
        let line = [
            "null",
            "false",
            "true",
            "-1e300",
            "-9223372036854775808",
            "-1",
            "0",
            "0.5",
            "1",
            "9007199254740992",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            "1e300",
            "\"\"",
            "\"A\"",
            "\"a\"",
            "\"a1\"",
            "[]",
            "[0]",
            "[0,1]",
            "[[]]",
            "{}",
            "{\"b\":1}",
            "{\"a\":1}",
            "{\"a\":1,\"b\":0}",
        ];
        let values: Vec<Value> =
            line.iter().map(|t| parse(t.as_bytes()).expect("good JSON")).collect();
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{} and {}", line[i], line[j]);
            }
        }
    }

    #[test]
    fn missing_counts_as_null() {
        for (a, b) in [("{}", "{\"a\":null}"), ("[1]", "[1,null]"), ("1", "1.0")] {
            let value = |t: &str| parse(t.as_bytes()).expect("good JSON");
            assert!(equal(&value(a), &value(b)), "{a} and {b}");
        }
    }
}
